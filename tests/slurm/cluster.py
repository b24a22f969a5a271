# SPDX-License-Identifier: Apache-2.0
"""cluster: Debian's Slurm on several virtual machines. Every node is a slurmd in its own network and UTS
namespaces, with an address and a name. A bridge joins the nodes; slurmctld and munged are on "head".

It must run in namespaces of its own (network, mounts, PIDs: run.sh makes them), without other ports, mounts
and processes. All its files are in one directory. Slurm's timers are short where they can be set. Slurm looks
at time limits and grace times every 30 s; that cannot be set.
"""

import contextlib
import functools
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "behave"))
import harness  # noqa: E402
from harness import Late  # noqa: E402

NODES = 10
HEAD = "10.78.0.254"
DEADLINE = 60  # seconds; for what takes a few on an idle machine, and up to 30 at time limits
PAUSE = 0.25  # seconds between two queries of Slurm
LAST_LINES = 15  # of a daemon's log, in the text of a failure
OVER = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "SPECIAL_EXIT"}

CONF = """
ClusterName=test
SlurmctldHost=head({head})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
# A requeued job waits for cred_expire and a second more; less than 5 counts as 120.
AuthInfo=socket={root}/munge/socket,cred_expire=5
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool/%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.%n.pid
SlurmctldLogFile={root}/log/slurmctld
SlurmdLogFile={root}/log/slurmd.%n
SlurmctldDebug=verbose
SlurmdDebug=verbose
LogTimeFormat=iso8601_ms
RequeueExit=42
RequeueExitHold=43
JobRequeue=1
KillWait=30
MpiDefault=none
ReturnToService=2
# As with control groups, which not every machine lets us have, a signal reaches the process that Slurm has
# started and not what that has started; but nothing ends that, either, if pchrun does not.
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SwitchType=switch/none
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MessageTimeout=30
SlurmdParameters=config_overrides
NodeName=n[1-{nodes}] CPUs=8 RealMemory=1000 State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE DefaultTime=60 PriorityTier=1 PreemptMode=REQUEUE GraceTime=60
PartitionName=high Nodes=ALL MaxTime=INFINITE DefaultTime=60 PriorityTier=10 PreemptMode=OFF
"""

# A node: waits for its network, which the caller makes.
NODE = """
hostname "$1" && read -r && exec slurmd -D -c -N "$1" -f "$2"
"""


wait_until = functools.partial(harness.wait_until, deadline=DEADLINE, pause=PAUSE)


def processes(variable):
    """The living processes that have "NAME=value" in their environment: {pid: command}."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"{variable}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # the process has ended
            pass
    return found


class Cluster:
    """root: an empty directory for all files. Only start() starts processes."""

    def __init__(self, root, path):
        self.root = Path(root)
        self.conf = self.root / "slurm.conf"
        self.env = {"PATH": f"{path}:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.root),
                    "LANG": "C.UTF-8", "SLURM_CONF": str(self.conf)}
        self.daemons = {}

    # --- up and down ---

    def start(self):
        for name in ("munge", "state", "log", *(f"spool/n{i}" for i in range(1, NODES + 1))):
            (self.root / name).mkdir(parents=True)
        self.conf.write_text(CONF.format(head=HEAD, root=self.root, nodes=NODES))
        self._name_hosts()
        subprocess.run(["ip", "-batch", "-"], check=True, text=True, input=f"""
            link set lo up
            link add br0 type bridge
            link set br0 up
            addr add {HEAD}/24 dev br0""")
        self._start_munged()
        self._daemon("slurmctld", "slurmctld", "-D", "-c", "-i", "-f", self.conf)
        for i in range(1, NODES + 1):
            self._start_node(i)
        self.wait(lambda: len(self._idle()) == NODES, "all nodes to be idle")

    def _name_hosts(self):
        names = [f"10.78.0.{i} n{i}" for i in range(1, NODES + 1)]
        hosts = self.root / "hosts"
        hosts.write_text("\n".join(["127.0.0.1 localhost", f"{HEAD} head", *names, ""]))
        subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)
        subprocess.run(["hostname", "head"], check=True)

    def _daemon(self, name, *argv, **options):
        with (self.root / f"log/{name}.out").open("wb") as out:
            self.daemons[name] = subprocess.Popen(
                [str(word) for word in argv], env=self.env, stdout=out, stderr=out, cwd="/",
                start_new_session=True, **{"stdin": subprocess.DEVNULL, **options})
        return self.daemons[name]

    def _start_munged(self):
        munge = self.root / "munge"
        munge.chmod(0o755)
        (munge / "key").write_bytes(os.urandom(128))
        (munge / "key").chmod(0o400)
        self._daemon("munged", "munged", "--foreground", "--force", f"--key-file={munge}/key",
                     f"--socket={munge}/socket", f"--pid-file={munge}/pid", f"--log-file={munge}/log",
                     f"--seed-file={munge}/seed", "--num-threads=2")
        self.wait((munge / "socket").exists, "munged's socket")

    def _start_node(self, i):
        node = self._daemon(f"n{i}", "unshare", "--net", "--uts", "bash", "-c", NODE, "bash", f"n{i}",
                            self.conf, stdin=subprocess.PIPE)
        own = os.readlink("/proc/self/ns/net")
        self.wait(lambda: os.readlink(f"/proc/{node.pid}/ns/net") != own, f"the network of n{i}")
        subprocess.run(["ip", "-batch", "-"], check=True, text=True, input=f"""
            link add v{i} type veth peer name eth0 netns {node.pid}
            link set v{i} master br0 up""")
        subprocess.run(["nsenter", "--net", "--target", str(node.pid), "ip", "-batch", "-"], check=True,
                       text=True, input=f"""
            link set lo up
            link set eth0 up
            addr add 10.78.0.{i}/24 dev eth0""")
        node.stdin.write(b"\n")
        node.stdin.close()

    def _idle(self):
        """The names of the nodes that are idle."""
        return self.run("sinfo", "-h", "-N", "-p", "low", "-t", "idle", "-o", "%N", check=False).split()

    def wait(self, condition, what):
        """Waits until condition() returns a true value, and returns it. It fails at once if a daemon has ended, with
        the last lines of that daemon's log. If the time is over, it shows them for all daemons but those of idle
        nodes."""
        try:
            return wait_until(lambda: self._none_has_ended(what) and condition(), what)
        except Late as late:
            idle = self._idle()
            said = [self._last_lines(name) for name in self.daemons if name not in idle]
            raise Late("\n".join([f"{late}; idle: {idle}", *said])) from None

    def _none_has_ended(self, what):
        for name, daemon in self.daemons.items():
            if daemon.poll() is not None:
                raise AssertionError(f"{name} has ended with {daemon.returncode} in the wait for {what}\n"
                                     f"{self._last_lines(name)}")
        return True

    def _last_lines(self, name):
        lines = (self.root / f"log/{name}.out").read_text(errors="replace").splitlines()
        return "\n".join([f"{name} has said last:", *lines[-LAST_LINES:]])

    def stop(self):
        """Ends the daemons, and fails if one does not."""
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
        for name, daemon in self.daemons.items():
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                raise Late(f"{name} does not end") from None

    def lose(self, name):
        """The machine of a node dies, with all that runs there, and Slurm is told so: by itself it would look after
        SlurmdTimeout only."""
        machine = self.daemons.pop(name)
        own = os.readlink(f"/proc/{machine.pid}/ns/net")
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):  # it has ended, or is none
                if os.readlink(entry / "ns/net") == own:
                    os.kill(int(entry.name), signal.SIGKILL)
        machine.wait(DEADLINE)
        self.run("scontrol", "update", f"NodeName={name}", "State=DOWN", "Reason=died")

    # --- what a user does ---

    def run(self, *argv, check=True):
        """Runs a client's command; returns its standard output."""
        done = subprocess.run([str(word) for word in argv], env=self.env, text=True, capture_output=True,
                              timeout=DEADLINE, check=False, cwd=self.root)
        if check and done.returncode != 0:
            raise AssertionError(f"{argv}: {done.returncode}: {done.stderr}")
        return done.stdout

    def submit(self, script, *command, name, options=(), env=None, files=None):
        """Runs sbatch in a directory of the job's name with these files: {name: text}."""
        folder = self.root / name
        folder.mkdir()
        for file, text in (files or {}).items():
            (folder / file).write_text(text)
        variables = "".join(f",{key}={value}" for key, value in (env or {}).items())
        number = self.run("sbatch", "--parsable", f"--job-name={name}", f"--chdir={folder}",
                          f"--export=ALL{variables}", *options, script, *command)
        return Job(self, int(number), name, folder)


class Job:
    """A submitted job, and the directory from which it was submitted."""

    def __init__(self, cluster, number, name, folder):
        self.cluster, self.number, self.name, self.folder = cluster, number, name, folder
        self.own = number  # its SLURM_JOB_ID

    def task(self, task):
        """A task of an array. Slurm makes it a job of its own when it runs."""
        one = Job(self.cluster, f"{self.number}_{task}", self.name, self.folder)
        one.wait_state("RUNNING")
        one.own = one.show()["JobId"]
        return one

    def show(self):
        """The job's fields from scontrol: {"JobState": "RUNNING", ...}."""
        text = self.cluster.run("scontrol", "--oneliner", "show", "job", self.number)
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    @property
    def log(self):
        path = self.folder / f"{self.name}-{self.own}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def update(self, setting):
        self.cluster.run("scontrol", "update", f"JobId={self.number}", setting)

    def _wait(self, condition, what):
        """Waits until condition() returns a true value, and returns it."""
        try:
            return self.cluster.wait(condition, what)
        except Late as late:
            raise Late(f"{late}\n{self.name} is {self.show()}; its output:\n{self.log}") from None

    def wait_state(self, *states):
        self._wait(lambda: self.show()["JobState"] in states, f"one of {states}")

    def wait_log(self, pattern, count=1):
        """Waits for the count-th match of the pattern in the job's output."""
        return self._wait(lambda: re.findall(pattern, self.log, re.M)[count - 1:count],
                          f"{count} x {pattern!r}")[0]

    def wait_requeued(self, runs=1):
        """Waits until Slurm has requeued the job for the runs-th time and set a start time."""
        self._wait(lambda: self.show()["Restarts"] == str(runs), f"restart {runs}")
        self._wait(lambda: self.show()["Reason"] == "BeginTime", "a start time of its next run")
        assert not processes(f"SLURM_JOB_ID={self.own}"), f"{self.name} has left processes"

    def run_again(self):
        """Starts the next run sooner than Slurm would, but not within a second of the last one's end. A node
        would take it for the run that is over, and the job would fail for good."""
        self.update("StartTime=now+2")

    def wait_end(self):
        """Waits for the job's end and returns ("COMPLETED", "0:0"). No process of the job may be left."""
        self._wait(lambda: self.show()["JobState"] in OVER, "its end")
        assert not processes(f"SLURM_JOB_ID={self.own}"), f"{self.name} has left processes"
        now = self.show()
        return now["JobState"], now["ExitCode"]
