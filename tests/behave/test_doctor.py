# SPDX-License-Identifier: Apache-2.0
"""pchrun --doctor: what would go wrong here, what to change, and nothing of the command is run."""

import os
import re
import shutil
import signal

import pytest

from checkup import INIT, IN_NAMESPACE, cannot_enter_a_namespace, doctor, trained, verdicts
from harness import PREEMPTED, marked, needs_disk, needs_namespace, wait_until
from metadata import Aws, Gce
from nodes import free_port

NODES = ("--cluster-nodes", "127.0.0.1:15999,127.0.0.1:15998")
NO_NAMESPACE = cannot_enter_a_namespace()
NAMESPACES = pytest.mark.skipif(bool(NO_NAMESPACE), reason=NO_NAMESPACE)


def test_all_is_well(world):
    (world.root / "ckpt").mkdir()
    found = doctor(world, "--checkpoint-dir", world.root / "ckpt", *NODES, "--node-rank", "0",
                   env={"PCHRUN_STOP_CGROUP": "off"})
    assert {"command", "run_dir", "state_dir", "checkpoints", "peers", "open files"} <= verdicts(found, "ok")
    assert found["command"][1] == shutil.which("sh")
    assert found["grace"] == ("unknown", "a notice leaves 25 s; how long a save takes is not known yet",
                              "try it: pchrun --drill TIME -- command")


def test_what_is_missing(world):
    found = doctor(world, "--checkpoint-dir", world.root / "a" / "b", "--logs-dir", world.root / "a" / "logs",
                   command=["no-such-command"], wanted=1)
    assert verdicts(found, "bad") == {"command", "state_dir", "checkpoints", "logs"}
    assert "'no-such-command': it is in no directory of PATH" in found["command"][1]
    assert found["checkpoints"][1:] == (f"{world.root}/a/b: no file can be made in {world.root}/a: No such file or directory",
                                        "make that directory, or mount its file system")


@pytest.mark.parametrize("env, verdict, says", [
    ({}, "ok", "the job waits 10m for the replacement of a lost node, which may train after 22 s; its scheduler must "
     "start pchrun again, with the same node rank and options"),
    ({"PCHRUN_PRESET": "slurm"}, "warn", "but Slurm starts no other task in its place"),
    ({"PCHRUN_CHECKPOINT_SHARED": "false"}, "warn", "only a pchrun with the lost node's disk is one"),
    ({"PCHRUN_CLUSTER_REPLACE_WAIT": "0s"}, None, None),
], ids=["shared", "Slurm", "own disks", "off"])
def test_the_wait_for_a_replacement(world, env, verdict, says):
    found = doctor(world, "--checkpoint-dir", world.root / "ckpt", *NODES, "--node-rank", "0",
                   env={"PCHRUN_CLUSTER_REPLACE_WAIT": "10m", **env})
    assert ("replacement" in found) == bool(verdict)
    if verdict:
        assert found["replacement"][0] == verdict and says in found["replacement"][1]


@pytest.mark.parametrize("node, env, verdict, who, says", [
    (1, {}, "ok", "node 1", "a spare takes the place of a lost node, and trains after 22 s"),
    (3, {"PCHRUN_PRESET": "slurm"}, "ok", "spare 3", "a spare takes the place of a lost node"),
    (0, {"PCHRUN_CHECKPOINT_SHARED": "false"}, "warn", "node 0", "no spare has the saves of a lost node"),
], ids=["a node", "a spare in Slurm", "own disks"])
def test_spares(world, node, env, verdict, who, says):
    entries = ",".join(f"127.0.0.{i}" for i in range(1, 5))
    found = doctor(world, "--checkpoint-dir", world.root / "ckpt", "--cluster-nodes", entries, "--node-rank", node,
                   "--cluster-spares", "2", env=env)
    assert found["nodes"][:2] == ("ok", f"2 train, 2 stand by, and this is {who}")
    assert found["replacement"][0] == verdict and says in found["replacement"][1]


@pytest.mark.parametrize("script, verdict, says", [
    ("echo fine; exit 0", "ok", "says that this node is healthy"),
    ("echo '{\"healthy\": false, \"component\": \"gpu3\", \"text\": \"Xid 79\"}'; exit 1", "bad",
     "says that this node is not healthy: gpu3: Xid 79"),
    ("exit 1", "warn", "gives no answer: exit code 1, without a line that says \"healthy\": false"),
    ("echo 0; exit 3", "warn", "gives no answer: exit code 3"),
    ("kill -9 $$", "warn", "gives no answer: signal 9 (Killed)"),
    ("sleep 1000", "unknown", "has no answer in time"),
    ("exec >&-; sleep 1000", "unknown", "has no answer in time"),
    ("sleep 1000 >&- & exit 0", "ok", "says that this node is healthy"),
], ids=["healthy", "unhealthy", "silent", "code", "crash", "hanging", "hanging in silence", "left behind"])
def test_the_health_check(world, script, verdict, says):
    path = world.file("check", f"#!/bin/sh\n{script}\n", 0o755)
    found = doctor(world, "--health-check", path, wanted=int(verdict == "bad"))
    assert found["health"][0] == verdict
    assert found["health"][1] == (f"{path} {says}" if verdict == "unknown" else f"'{path}' {says}")
    wait_until(lambda: not marked(world.mark), "the end of the processes, which were killed")


def test_a_health_check_that_is_not_there(world):
    """A run would not start."""
    found = doctor(world, "--health-check", world.root / "check", wanted=1)
    assert found["health"][0] == "bad" and found["health"][1].startswith("health.check: ")


def test_directories_that_are_only_missing_themselves(world):
    found = doctor(world, "--checkpoint-dir", world.root / "new", "--logs-dir", world.root / "logs")
    assert {"state_dir", "checkpoints", "logs"} <= verdicts(found, "ok")


ELSEWHERE = ("--cluster-nodes", "127.0.0.1:15999,192.0.2.7:15998")


@pytest.mark.parametrize("options, warned, wanted", [
    ([*ELSEWHERE, "--node-rank", "0"], "checkpoints", 0),
    (["--cluster-chief", "n0.invalid", "--nnodes", "2", "--node-rank", "1"], "checkpoints", 1),
    ([*ELSEWHERE, "--node-rank", "0", "--state-dir", "state"], "state_dir", 0),
    ([*ELSEWHERE, "--node-rank", "0", "--no-checkpoint-shared"], None, 0),
    ([*NODES, "--node-rank", "1"], None, 0),
], ids=["node 0", "node 1", "state_dir", "not shared", "one machine"])
def test_a_disk_of_this_machine_alone(world, options, warned, wanted):
    """Nodes on two machines, each with a disk of its own at the same path."""
    needs_disk(world.root)
    found = doctor(world, "--checkpoint-dir", world.root / "ckpt", *options, "--cluster-insecure", wanted=wanted)
    told = {name for name, (_, text, _) in found.items() if "on a disk of this machine: " in text}
    assert told == ({warned} if warned else set())
    if warned:
        assert found[warned][0] == "warn" and "--no-checkpoint-shared" in found[warned][2]


def test_without_a_state_directory(world):
    assert doctor(world)["state_dir"][0] == "warn"


def test_saves_that_take_longer_than_the_notice_leaves(world):
    folder = trained(world, 200)
    assert doctor(world, "--checkpoint-dir", folder)["grace"][0] == "ok"
    grace = doctor(world, "--checkpoint-dir", folder, "--signals", "USR1=preempt:100ms", wanted=1)["grace"]
    assert grace[0] == "bad" and grace[1].startswith("a notice leaves 0.1 s; saves have taken "), grace
    assert grace[2].startswith("make the platform leave at least ")


@pytest.mark.parametrize("options, is_guess", [
    ([], True), (["--preset", "kubernetes"], True), (["--grace", "25s"], False),
    (["--signals", "TERM=preempt:20s"], False), (["--no-save-train-on"], False),
], ids=["nothing", "kubernetes", "grace", "signals", "never"])
def test_a_grace_that_is_a_guess(world, options, is_guess):
    """The doctor says that the job will not train on, and how it would."""
    _, seen, advice = doctor(world, *options, env={"PCHRUN_SAVE_TRAIN_ON": "auto"})["grace"]
    assert ("; 25 s is a guess, so after a signal the job saves and leaves at once" in seen) == is_guess, seen
    assert ("set --grace to what the platform leaves, less 5 s, to train on" in advice) == is_guess, advice


def test_a_damaged_record(world):
    (world.root / "ckpt" / ".pchrun").mkdir(parents=True)
    (world.root / "ckpt" / ".pchrun" / "commit.json").write_text("{")
    found = doctor(world, "--checkpoint-dir", world.root / "ckpt", wanted=1)
    assert verdicts(found, "bad") == {"state_dir"}
    _, seen, advice = found["state_dir"]
    assert f"{world.root}/ckpt/.pchrun/commit.json:1:" in seen and "the file is damaged" in seen, seen
    assert "to start from scratch, move the state directory away" in seen and advice == "", advice
    assert found["grace"] == ("unknown", "a notice leaves 25 s; see state_dir why the times of earlier saves are unknown", "")


def test_a_key_that_others_can_read(world):
    key = world.root / "key"
    world.launch("--make-key", key, code=0)
    nodes = (*NODES, "--cluster-key-file", key)
    assert doctor(world, *nodes, "--node-rank", "1")["key"][0] == "ok"
    key.chmod(0o644)
    key_of = doctor(world, *nodes, "--node-rank", "1", wanted=1)["key"]
    assert key_of[0] == "bad" and "is open to others (mode 0644); close it: chmod" in key_of[1]


def test_timeout_takes_the_exit_code(world):
    """A preempted job ended with 124 below timeout, so nothing started it again."""
    seen, advice = doctor(world, before=["timeout", "60"])["timeout"][1:]
    assert "has started this: when its time is over, its exit code is 124, and pchrun's is lost" in seen
    assert advice == "timeout --preserve-status, or a time limit of the scheduler"
    assert "timeout" not in doctor(world, before=["timeout", "--preserve-status", "60"])


def test_a_script_that_may_not_attach(world):
    """Only a hint, since a module that it imports may attach."""
    script = world.file("train.py", "import torch\n")
    assert doctor(world, command=["python3", script])["attach"][:2] == (
        "unknown", f"{script} does not name pch: unless a module of it attaches, a notice saves nothing")
    for options in (["--instrument"], ["--save-mode", "forward"]):
        assert "attach" not in doctor(world, *options, command=["python3", script])
    script.write_text("import pch\n")
    assert "attach" not in doctor(world, command=["python3", script])


def test_the_way_to_node_0(world):
    assert doctor(world, *NODES, "--node-rank", "1")["peers"] == (
        "ok", "the machine of node 0 answers; its pchrun is not there yet", "")
    found = doctor(world, "--cluster-nodes", "no-such-host.invalid,127.0.0.1", "--cluster-insecure", "--node-rank", "1",
                   wanted=1)
    assert found["peers"][0] == "bad" and "no-such-host.invalid" in found["peers"][1]
    assert found["key"][0] == "warn"


def test_the_names_of_the_other_nodes(world):
    """A misspelt name of node 1: the doctor said ok on node 0, and the job waited for that node without a word."""
    nodes = ["--cluster-nodes", f"127.0.0.1:{free_port()},no-such-host.invalid,localhost", "--cluster-insecure"]
    found = doctor(world, *nodes, "--node-rank", "0")
    verdict, text, advice = found["names"]
    assert verdict == "warn" and re.match("node 1: cannot look up 'no-such-host.invalid': ", text) and "node 2" not in text
    assert "check its entry in cluster.nodes" in advice and found["peers"][0] == "ok"
    assert "names" not in doctor(world, *nodes, "--node-rank", "2")
    assert "names" not in doctor(world, *NODES, "--node-rank", "0")
    assert doctor(world, "--cluster-nodes", f"127.0.0.1:{free_port()},localhost", "--cluster-insecure", "--node-rank",
                  "0")["names"] == ("ok", "this machine knows those of the other nodes", "")
    job = world.launch(*nodes, "--node-rank", "0", "--grace", "1s", "--", "true")
    wait_until(lambda: "; node 0 does not need its address" in job.err, "the look-up to fail")
    assert re.search(r"join: waiting for nodes 1 \(no-such-host\.invalid\), 2 \(localhost\), for 10m at most, at 127\.0\.0\.1, port", job.err)
    assert "join: node 1: cannot look up 'no-such-host.invalid': " in job.err and "node 2:" not in job.err
    job.send(signal.SIGTERM)
    assert job.finish() == PREEMPTED


def test_an_address_that_node_0_does_not_have(world):
    peers = doctor(world, "--cluster-nodes", "192.0.2.7,192.0.2.8", "--cluster-insecure", "--node-rank", "0",
                   wanted=1)["peers"]
    assert peers[0] == "bad" and "192.0.2.7" in peers[1]


OWN_NAME = ["unshare", "--mount", "sh", "-c", 'mount --bind "$1" /etc/hosts && shift && exec "$@"', "sh"]


@pytest.mark.parametrize("other, is_hidden", [("192.0.2.7", True), ("127.0.0.1", False)], ids=["elsewhere", "here"])
def test_the_own_name_of_node_0_is_loopback(world, other, is_hidden):
    """As Debian's installer writes it. Other machines know the real address, where nothing listens."""
    needs_namespace("--mount")
    before = [*OWN_NAME, world.file("hosts", f"127.0.1.1 n0\n{other} n1\n")]
    options = ["--cluster-nodes", f"n0:{free_port()},n1", "--cluster-insecure", "--node-rank", "0"]
    verdict, text, advice = doctor(world, *options, before=before)["peers"]
    assert verdict == ("warn" if is_hidden else "ok") and "127.0.1.1:" in text
    assert ("/etc/hosts" in advice and "cluster.bind" in advice) == is_hidden
    job = world.start(*before, world.pchrun, *options, "--cluster-join-timeout", "300ms", "--", "true")
    assert job.finish() == 125
    assert re.search(r"waiting for node 1 \(n1\), for 300ms at most, at n0, port \d+: listening on 127\.0\.1\.1:\d+\n", job.err)
    assert ("here n0 is 127.0.1.1:" in job.err) == is_hidden


def test_the_shell_of_a_batch_script(world):
    script = world.file("slurm_script", '#!/bin/sh\n"$@"\nexit $?\n', mode=0o700)
    batch = doctor(world, before=[script], env={"SLURM_JOB_ID": "7"})["batch script"]
    assert batch[0] == "warn" and batch[2].startswith("end the script with exec pchrun")
    script.write_text('#!/bin/sh\nexec "$@"\n')
    assert doctor(world, before=[script], env={"SLURM_JOB_ID": "7"})["batch script"][0] == "ok"


@pytest.fixture
def clouds():
    """The metadata services of two clouds, and the environment that leads to them."""
    services = Gce(), Aws()
    yield *services, {"GCE_METADATA_HOST": f"127.0.0.1:{services[0].port}",
                      "AWS_EC2_METADATA_SERVICE_ENDPOINT": services[1].url}
    for service in services:
        service.close()


def test_which_sources_answer(world, clouds):
    """Each is asked once; a program of the user's is not started."""
    gce, aws, env = clouds
    mine = world.file("mine", f"#!/bin/sh\ntouch {world.root}/was-run\n", mode=0o700)
    notices = f"gce,aws,command:{mine},file:{world.root}/leave"
    found = doctor(world, "--notices", notices, env=env)["sources"]
    assert found == ("ok", "gce: it answers; aws: it answers; file: it answers", "")
    gce.close()
    found = doctor(world, "--notices", notices, env=env, wanted=1)["sources"]
    assert found[0] == "bad" and found[1].startswith("gce: it does not answer: "), found
    assert "; aws: it answers; " in found[1] and "pchrun-watch gce; without it" in found[2]
    assert "sources" not in doctor(world, "--notices", "none", env=env)


def test_a_source_of_auto_that_is_not_installed(world):
    """The next source, a program of the user's, is not started in its place."""
    mine = world.file("mine", f"#!/bin/sh\ntouch {world.root}/was-run\n", mode=0o700)
    (world.root / "bin").mkdir()
    world.file("bin/squeue", "#!/bin/sh\n", mode=0o700)
    world.pchrun = shutil.copy(world.pchrun, world.root / "bin" / "pchrun")
    found = doctor(world, "--preset", "slurm", "--notices", f"auto,command:{mine}", env={
        "SLURM_JOB_ID": "7", "PATH": f"{world.root}/bin:/usr/bin:/bin"})
    assert "sources" not in found


def test_a_container_behind_the_hop_limit(world, clouds):
    """Only the answer to the PUT of the token is lost on the way."""
    _, aws, env = clouds
    aws.put = "hangs"
    for aws.needs_token, verdict in (False, "warn"), (True, "bad"):
        found = doctor(world, "--notices", "aws", env=env, wanted=int(verdict == "bad"))["sources"]
        assert found[0] == verdict and "hop limit of the metadata service is too small" in found[1], found
        assert "--http-put-response-hop-limit 2" in found[2]


STEPD = """#!/bin/sh
env -u SLURM_STEP_NODELIST {script} &
exec 3>{fifo}
"$@" 3>&-
status=$?
exec 3>&-
wait
exit $status
"""
JOB = str(os.getpid())  # no other job on this machine has this number
SLURM_TASK = {"SLURM_JOB_ID": JOB, "SLURM_STEP_NODELIST": "n1"}


@pytest.mark.parametrize("last, verdict, said", [
    ("read x <{fifo}", "warn", "the shell of the batch script (process "),
    ("exec cat {fifo}", "ok", "no shell of the batch script waits for srun"),
    ("exec bash -c 'read x <{fifo}; exit'", "warn", "the shell of the batch script (process "),
    ("export SLURM_JOB_ID=8; exec bash -c 'read x <{fifo}; exit'", "unknown", "no batch script of this job is seen"),
])
def test_a_shell_that_waits_for_srun(world, last, verdict, said):
    """The task has only slurmstepd above it; the shell is a child of slurmstepd, too."""
    fifo = world.root / "fifo"
    os.mkfifo(fifo)
    script = world.file("slurm_script", f"#!/bin/sh\n{last.format(fifo=fifo)}\n", mode=0o700)
    stepd = world.file("slurmstepd", STEPD.format(script=script, fifo=fifo), mode=0o700)
    batch = doctor(world, before=[stepd], env=SLURM_TASK)["batch script"]
    assert batch[0] == verdict and batch[1].startswith(said), batch
    assert batch[2] == ("end the script with exec srun pchrun ..." if verdict == "warn" else "")


def test_a_shell_in_a_task_of_srun(world):
    stepd = world.file("slurmstepd", '#!/bin/sh\n"$@"\nexit $?\n', mode=0o700)
    between = ["bash", "-c", '"$@"; exit $?', "task"]
    batch = doctor(world, before=[stepd, *between], env=SLURM_TASK)["batch script"]
    assert batch[0] == "warn" and batch[1].startswith("the shell of this task (process ")
    assert batch[2] == "write exec before pchrun there"
    batch = doctor(world, before=[stepd, *between], env={"SLURM_JOB_ID": "7"})["batch script"]
    assert batch[0] == "warn" and batch[1].startswith("the shell of the batch script (process ")
    assert doctor(world, before=between, env={"SLURM_JOB_ID": "7"})["batch script"][0] == "ok"  # below no slurmstepd


def test_torchrun_that_kills_too_early(world):
    """The doctor sets torchrun's wait as a run does. The user's own value stands, and an old torchrun ignores it."""
    torchrun = world.file("torchrun", "#!/bin/sh\necho told $TORCH_ELASTIC_SHUTDOWN_TIMEOUT\n", mode=0o700)
    job = world.launch("--grace", "110s", "--", torchrun, code=0)
    told = job.out.split()[1]
    found = doctor(world, "--grace", "110s", command=[torchrun])["torchrun"]
    assert found[0] == "unknown" and f" {told} s" in found[1] and "PyTorch 2.12" in found[1]
    assert doctor(world, "--grace", "20s", command=[torchrun])["torchrun"][0] == "ok"
    for value, verdict in (("110", "ok"), ("30", "warn"), ("soon", "warn")):
        env = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": value}
        found = doctor(world, "--grace", "110s", command=[torchrun], env=env)["torchrun"]
        assert found[0] == verdict, found
    assert "unset TORCH_ELASTIC_SHUTDOWN_TIMEOUT" in found[2]
    for command in (["env", "A=1", torchrun], ["python3", "-m", "torch.distributed.run"], ["sh", "accelerate", "launch"]):
        assert doctor(world, "--grace", "110s", command=command)["torchrun"][0] == "unknown"
    assert "torchrun" not in doctor(world)
    assert "torchrun" not in doctor(world, command=["sh", "accelerate"])


def test_nodes_that_are_not_known_of(world):
    """The doctor gives the warnings of a run, and those that discovery "none" hides in a run."""
    assert "nodes" not in doctor(world)
    nodes = doctor(world, env={"JOB_COMPLETION_INDEX": "2"})["nodes"]
    assert nodes[0] == "warn" and "set cluster.nnodes" in nodes[1]
    tasks = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_LOCAL_SIZE": "3"}
    nodes = doctor(world, "--cluster-discovery", "none", env=tasks)["nodes"]
    assert nodes == ("warn", "this one runs alone, but OMPI_COMM_WORLD_SIZE is 3 (mpi)",
                     "if they train together, set cluster.discovery to auto: else each node saves at its own step")
    nodes = doctor(world, "--cluster-port", free_port(), env=tasks)["nodes"]
    assert nodes == ("ok", "3, and this is node 0 (mpi by OMPI_COMM_WORLD_RANK)", "")


def test_limits(world):
    asan = world.env["ASAN_OPTIONS"] + ":disable_coredump=0"  # else the sanitizer sets that limit itself
    found = doctor(world, before=["prlimit", "--nofile=100", "--core=unlimited"], wanted=1, env={"ASAN_OPTIONS": asan})
    assert found["open files"][0] == "bad" and found["open files"][2] == "ulimit -n 132"
    assert found["core dumps"][0] == "warn"


def test_descriptors_for_the_commands(world):
    """As many as a run needs. Their soft limit is no obstacle: pchrun raises its own."""
    many = ["-n", 20, "--logs-dir", world.root / "logs"]
    found = doctor(world, *many, before=["prlimit", "--nofile=300"], wanted=1)
    assert found["open files"][0] == "bad" and found["open files"][2] == "ulimit -n 309"
    assert doctor(world, *many, before=["prlimit", "--nofile=100:400"])["open files"] == (
        "ok", "400 descriptors are allowed, about 309 are needed", "")


@NAMESPACES
def test_a_shell_as_process_1(world):
    found = doctor(world, before=[*IN_NAMESPACE, "sh", "-c", '"$@"; exit $?', "sh"], wanted=1)
    assert found["pid 1"][:2] == ("bad", "process 1 is sh, a shell, which hands no signal on")


@NAMESPACES
def test_a_script_as_process_1(world):
    """As the entry point of a container, which has the script's name."""
    script = world.file("entry", '#!/bin/bash\n"$@"\nexit $?\n', mode=0o700)
    found = doctor(world, before=[*IN_NAMESPACE, script], wanted=1)
    assert found["pid 1"][:2] == ("bad", "process 1 is entry, a shell (bash), which hands no signal on")
    script.write_text('#!/bin/bash\nexec "$@"\n')
    assert doctor(world, before=[*IN_NAMESPACE, script])["pid 1"][:2] == ("ok", "process 1 is pchrun, this one")


@NAMESPACES
def test_a_shell_below_process_1(world):
    """An init that hands signals on hands them to the shell."""
    above = [*IN_NAMESPACE, *INIT]
    shell = world.file("run.sh", '#!/bin/sh\n"$@"\nexit $?\n', mode=0o700)
    found = doctor(world, before=[*above, "setsid", "--wait", shell])["pid 1"]  # no terminal
    assert found[0] == "warn" and "below it a shell (run.sh, process " in found[1] and "write exec" in found[2]
    assert doctor(world, before=[*above, "setsid", "--wait"])["pid 1"][0] == "ok"


def test_programs_that_a_run_would_miss(world):
    """A run without these programs does not start."""
    for options in (["--exit-hook", "/no-hook"], ["--watchdog-diagnose", "/no-hook"], ["--notices", "poll:/no-hook"]):
        programs = doctor(world, *options, wanted=1)["programs"]
        assert programs[0] == "bad" and "cannot execute '/no-hook'" in programs[1]
    assert "programs" not in doctor(world, "--exit-hook", "/bin/true")


@NAMESPACES
def test_a_full_disk(world):
    (world.root / "full").mkdir()
    found = doctor(world, "--checkpoint-dir", world.root / "full", wanted=1, before=[
        "unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=16k full "$0" && exec "$@"', world.root / "full"])
    assert found["checkpoints"][0] == "bad" and "No space left on device" in found["checkpoints"][1]


def test_it_needs_a_command(world):
    job = world.start(world.pchrun, "--doctor", code=125)
    assert 'no command is given; write it after "--", as in: pchrun --doctor -- python train.py' in job.err
