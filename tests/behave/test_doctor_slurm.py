# SPDX-License-Identifier: Apache-2.0
"""pchrun --doctor under Slurm: KillWait, the batch script and the exit code as scontrol shows them, and what
pchrun would do there. Also a scontrol that is missing, hangs, floods or lies. tests/slurm has a real one."""

import os
import signal
import time

import pytest

from checkup import doctor, trained
from harness import is_alive, marked, wait_until

SCONTROL = """#!/bin/sh
case "$*" in
"show config") cat <<END
Configuration data as of 2026-11-21T18:00:00
JobRequeue              = 1
KillWait                = {kill_wait}
OverTimeLimit           = {over}
PreemptType             = preempt/{preempt}
ProctrackType           = {proctrack}
RequeueExit             = {requeue}
RequeueExitHold         = 43
END
;;
"show partition low") echo "   DefaultTime=01:00:00 GraceTime={grace} Hidden=NO
   OverTimeLimit={over_here} PreemptMode=OFF" ;;
"show job 7") printf 'JobId=7 JobName=x\\n   Requeue=1 BatchFlag={batch} Reboot=0\\n'
    printf '   Command=/home/me/job.sh ./train --its job.sh\\n{submit}   WorkDir=/\\n' ;;
"write batch_script 7 -") [ {batch} = 1 ] && printf '#!/bin/bash\\n{lines}\\nsrun x\\n#SBATCH --signal=HUP@9\\n' ;;
*) echo "what?" >&2; exit 1 ;;
esac
"""
TASK = {"SLURM_STEP_NODELIST": "n1", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}


class Site:
    """A Slurm: its scontrol, and the environment of a job. Without squeue nothing else tells of the end."""

    def __init__(self, world):
        self.world = world
        self.bin = world.root / "bin"
        self.bin.mkdir()
        self.is_script("#!/bin/sh\necho 7 2099-01-01T00:00:00\n", "squeue")
        self.is_submitted("sbatch job.sh")
        self.env = {"SLURM_JOB_ID": "7", "SLURM_JOB_PARTITION": "low", "PCHRUN_PRESET": "auto",
                    "PATH": f"{self.bin}:{os.environ['PATH']}"}
        self.is_real()

    def is_real(self, signal=None, **other):
        site = {"kill_wait": "30 sec", "proctrack": "proctrack/cgroup", "requeue": "42", "grace": 0, "over": "0 min",
                "over_here": "NONE", "preempt": "partition_prio", "batch": 1, "submit": "", **other}
        self.is_script(SCONTROL.format(lines=f"#SBATCH --signal={signal}" if signal else "#SBATCH -n 4", **site))

    def is_submitted(self, command):
        """The command is in the accounting database. None: the site has none."""
        self.is_script("#!/bin/sh\n" + (f"echo '{command}'\n" if command else "echo disabled >&2\nexit 1\n"), "sacct")

    def is_script(self, text, name="scontrol"):
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(0o700)

    def doctor(self, *options, wanted=0, **env):
        return doctor(self.world, *options, env={**self.env, **env}, wanted=wanted)


@pytest.fixture
def site(world):
    return Site(world)


def test_all_is_well(site):
    found = site.doctor()
    assert found["KillWait"] == ("ok", "Slurm kills 30 s after SIGTERM (KillWait); pchrun counts on 25 s", "")
    assert found["notices"] == ("ok", "pchrun asks Slurm when the job's time ends", "")
    assert found["requeue"] == ("ok", "Slurm puts back a batch job that ends with 42 (RequeueExit is 42)", "")
    assert "pid 1" not in found  # Slurm signals the processes that it has started, not the parents of its daemon


def test_squeue_answers(site):
    """Also if the end is far, and pchrun-watch does not report it yet."""
    assert site.doctor()["sources"] == ("ok", "slurm: it answers", "")
    site.is_script("#!/bin/sh\necho 7 NONE\n", "squeue")
    assert site.doctor()["sources"] == ("ok", "slurm: it answers", "")
    site.is_script("#!/bin/sh\necho 7 N/A\n", "squeue")
    assert site.doctor()["sources"][0] == "warn"


def test_outside_of_slurm_nothing_is_asked(site):
    del site.env["SLURM_JOB_ID"]
    assert not {"KillWait", "notices", "requeue"} & set(site.doctor())


@pytest.mark.parametrize("kill_wait, advice", [("20 sec", "--grace 15s"), ("6 sec", "--grace 3s")])
def test_less_time_than_pchrun_counts_on(site, kill_wait, advice):
    site.is_real(kill_wait=kill_wait)
    found = site.doctor(wanted=1)["KillWait"]
    assert found[0] == "bad" and found[2] == advice
    assert site.doctor(advice.replace(" ", "="))["KillWait"][0] == "ok"


@pytest.mark.parametrize("kill_wait", ["0 sec", "1 sec"])
def test_no_grace_is_short_enough(site, kill_wait):
    site.is_real(kill_wait=kill_wait)
    found = site.doctor()["KillWait"]
    assert found[0] == "warn" and found[1].startswith(f"Slurm kills {kill_wait[0]} s after SIGTERM (KillWait)")
    assert found[2] == ("have KillWait raised (its default is 30 s): a preemption and scancel leave no time for a save")
    found = site.doctor("--notices", "none", wanted=1)["KillWait"]
    assert found[0] == "bad"
    assert found[2] == ("have KillWait raised (its default is 30 s); or have Slurm send a signal earlier: "
                        "#SBATCH --signal=B:USR1@120, and --signals USR1=preempt:115s")


def test_saves_that_take_longer_than_killwait(site):
    """--signal or squeue give an early notice and enough time. A preemption and scancel leave KillWait only."""
    folder = trained(site.world, 1500)
    site.is_real(kill_wait="2 sec")
    options = ["--checkpoint-dir", folder, "--grace", "2s", "--signals", "USR1=preempt:115s"]
    found = site.doctor(*options, wanted=1)["KillWait"]  # the grace is bad, too
    assert found[0] == "warn" and "; saves have taken " in found[1]
    assert found[2] == "save faster; or have KillWait raised: a preemption and scancel leave no more"
    found = site.doctor(*options, "--notices", "none", wanted=1)["KillWait"]
    assert found[0] == "bad"
    assert found[2] == ("save faster; or have Slurm send a signal earlier: #SBATCH --signal=B:USR1@120, and "
                        "--signals USR1=preempt:115s")
    site.is_real(kill_wait="2 sec", signal="B:USR1@120")
    assert site.doctor(*options, "--notices", "none", wanted=1)["KillWait"][0] == "warn"


def test_grace_time_of_a_preemption(site):
    site.is_real(grace=60)
    assert site.doctor()["KillWait"][1].endswith(
        "; a preemption tells tasks of srun 60 s earlier (GraceTime), but not this")
    assert site.doctor(**TASK)["KillWait"][1].endswith("; a preemption tells this task 60 s earlier (GraceTime)")


# The script's request, pchrun's place, pchrun's settings: the fault and the advice.
@pytest.mark.parametrize("signal, where, signals, fault, advice", [
    ("USR1@120", TASK, "USR1=preempt:115s", None, None),
    ("B:USR1@120", {}, "USR1=preempt:115s", None, None),
    ('"B:SIGUSR1@300" --nodes=1', {}, "USR1=preempt:115s", None, None),
    ("10@120", TASK, "USR1=preempt:115s", None, None),
    ("USR1", TASK, "USR1=preempt:55s", None, None),
    ("B:USR1@120", TASK, "USR1=preempt:115s", "on to this task only if the script ends in exec srun", "--signal=USR1@120"),
    ("B:TERM@120", TASK, "USR1=preempt:115s", "srun in its place kills this task at once", "--signal=USR1@120"),
    ("B:INT@120", TASK, "USR1=preempt:115s", "it goes to the batch script alone", "--signal=USR1@120"),
    ("USR1@120", {}, "USR1=preempt:115s", "it goes to tasks of srun alone", "--signal=B:USR1@120"),
    ("USR2@120", TASK, "USR1=preempt:115s", "pchrun does not take it as a notice", "--signals USR1=preempt:115s"),
    ("USR1@60", TASK, "USR1=preempt:115s", "pchrun expects more time after it", "--signal=USR1@120"),
    ("USR1", TASK, "USR1=preempt:115s", "pchrun expects more time after it", "--signal=USR1@120"),
    ("KILL@120", TASK, "USR1=preempt:115s", "pchrun cannot take it as a notice", "--signal=USR1@120"),
    ("WINDOWS@x", TASK, "USR1=preempt:115s", "pchrun cannot take it as a notice", "--signal=USR1@120"),
])
def test_the_signal_that_the_script_asks_for(site, signal, where, signals, fault, advice):
    site.is_real(signal=signal)
    is_bad = fault and "exec srun" not in fault and not signal.startswith("B:I")
    found = site.doctor("--notices", "none", "--signals", signals, wanted=int(bool(is_bad)), **where)["notices"]
    assert found[1].startswith("the batch script has --signal=" + signal.split()[0].strip('"'))
    assert found[0] == ("ok" if not fault else "bad" if is_bad else "warn"), found
    assert (fault or "") in found[1] and (advice or "") in found[2]
    if fault and "at once" in fault:
        assert site.doctor("--signals", signals, wanted=1, **where)["notices"][0] == "bad"
    elif fault:  # pchrun asks squeue besides
        assert site.doctor("--signals", signals, **where)["notices"][0] == "warn"


def test_a_signal_from_elsewhere(site):
    """The command line of sbatch comes before its environment, and that before the script."""
    site.is_real(signal="USR1@120")
    signals = ("--signals", "USR1=preempt:115s")
    found = site.doctor(*signals, wanted=1, SBATCH_SIGNAL="B:TERM@70", **TASK)["notices"]
    assert found[0] == "bad" and found[1].startswith("SBATCH_SIGNAL has --signal=B:TERM@70, 70 s before the end, but")
    site.is_script('#!/bin/sh\n[ "$*" = "--noheader --parsable2 --allocations --jobs=7 --format=SubmitLine" ] || exit 1\n'
                   'echo "sbatch -J job.sh.7 --signal=B:TERM@80 ../job.sh ./train --signal=USR1@120"\n', "sacct")
    found = site.doctor(*signals, wanted=1, SBATCH_SIGNAL="USR1@120", **TASK)["notices"]
    assert found[0] == "bad" and found[1].startswith("sbatch was given --signal=B:TERM@80, 80 s before the end, but")
    script = "the batch script has --signal=USR1@120, 120 s before the end"
    site.is_submitted("sbatch -N2 job.sh ./train --signal=B:TERM@80")
    assert site.doctor(*signals, **TASK)["notices"] == ("ok", script, "")


LOOK = "look for --signal in the command that submitted the job, which Slurm does not show here"


def test_without_accounting_the_command_line_is_unknown(site):
    """A newer scontrol shows the command, too. A signal in the script counts only if the command has none."""
    site.is_submitted(None)
    signals = ("--signals", "USR1=preempt:115s")
    unknown = "; whether sbatch was given {} is unknown"
    assert site.doctor()["notices"] == ("unknown", ASKED + unknown.format("--signal"), LOOK)
    site.is_real(over="UNLIMITED")
    found = site.doctor("--notices", "none")["notices"]
    assert found[0] == "unknown" and found[1].endswith(unknown.format("--signal"))
    site.is_real(signal="USR1@120")
    script = "the batch script has --signal=USR1@120, 120 s before the end"
    assert site.doctor(*signals, **TASK)["notices"] == ("unknown", script + unknown.format("another"), LOOK)
    site.is_real(signal="USR2@120")
    found = site.doctor("--notices", "none", *signals, wanted=1, **TASK)["notices"]  # a fault stays one
    assert found[0] == "bad" and found[1].endswith(unknown.format("another")) and LOOK not in found[2]
    site.is_real(signal="USR1@120", submit="   SubmitLine=sbatch --signal=B:TERM@70 job.sh\\n")
    found = site.doctor(*signals, wanted=1, **TASK)["notices"]
    assert found[0] == "bad" and found[1].startswith("sbatch was given --signal=B:TERM@70, 70 s before the end, but")
    site.is_real(submit="   SubmitLine=sbatch job.sh\\n")
    assert site.doctor()["notices"] == ("ok", ASKED, "")


def test_a_job_without_a_batch_script(site):
    """From salloc or srun: only the command line can ask for a signal."""
    site.is_real(batch=0)
    site.is_submitted("salloc -N2")
    assert site.doctor()["notices"] == ("ok", ASKED, "")
    site.is_submitted("srun --signal=USR1@120 -N2 pchrun")
    found = site.doctor("--signals", "USR1=preempt:115s", **TASK)["notices"]
    assert found[0] == "ok" and found[1].endswith("was given --signal=USR1@120, 120 s before the end")


def test_a_signal_too_late_for_the_saves(site):
    folder = trained(site.world, 1500)
    site.is_real(signal="USR1@120")
    found = site.doctor("--checkpoint-dir", folder, "--notices", "none", "--signals", "USR1=preempt:2s", wanted=1,
                        **TASK)["notices"]
    assert found[0] == "bad" and found[1].endswith("but a save needs more than the grace of that signal")


def test_a_signal_that_reaches_the_ranks_themselves(site):
    site.is_real(signal="USR1@120", proctrack="proctrack/linuxproc")
    found = site.doctor("--signals", "USR1=preempt:115s", **TASK)["notices"]
    assert found[0] == "warn" and "proctrack/linuxproc" in found[1]
    assert found[2] == "no --signal: pchrun asks Slurm when the job's time ends"
    site.is_real(signal="B:USR1@120", proctrack="proctrack/linuxproc")
    assert site.doctor("--signals", "USR1=preempt:115s")["notices"][0] == "ok"


@pytest.mark.parametrize("answer, told", [
    ("00:02:00", "120 s"), ("1-00:00:00", "24 h"), ("00:00:00", None), ("", None), ("soon", None), ("UNLIMITED", None),
    ("You are not running a supported accounting_storage plugin", None), (None, None),
])
def test_a_qos_tells_earlier(site, answer, told):
    """Where QOS decide the preemption, a partition's GraceTime does not count. Not every site has accounting."""
    site.is_real(preempt="qos", grace=60)
    if answer is not None:
        site.is_script('#!/bin/sh\n[ "$*" = "--noheader --parsable2 show qos name=spare format=GraceTime" ] || exit 1\n'
                       f'echo "{answer}"\n', "sacctmgr")
    found = site.doctor(**TASK, SLURM_JOB_QOS="spare", PATH=f"{site.bin}:/usr/bin:/bin")["KillWait"]
    said = f"; a preemption tells this task {told} earlier (GraceTime of its QOS)" if told else ""
    assert found == ("ok", f"Slurm kills 30 s after SIGTERM (KillWait); pchrun counts on 25 s{said}", "")
    assert "preemption" not in site.doctor(**TASK)["KillWait"][1]  # the job has no QOS


ASKED = "pchrun asks Slurm when the job's time ends"


@pytest.mark.parametrize("over, over_here, told", [
    ("0 min", "NONE", ""),
    ("5 min", "NONE", "; Slurm itself lets it run 5 min longer (OverTimeLimit), which pchrun does not use"),
    ("5 min", "0", ""),
    ("0 min", "90", "; Slurm itself lets it run 90 min longer (OverTimeLimit), which pchrun does not use"),
    ("UNLIMITED", "NONE", "; Slurm itself ends no job then (OverTimeLimit is UNLIMITED), but pchrun does"),
    ("5 min", "UNLIMITED", "; Slurm itself ends no job then (OverTimeLimit is UNLIMITED), but pchrun does"),
    ("soon", "NONE", ""),
])
def test_a_job_may_run_beyond_its_limit(site, over, over_here, told):
    site.is_real(over=over, over_here=over_here)
    assert site.doctor()["notices"] == ("ok", ASKED + told, "")
    found = site.doctor("--notices", "none")["notices"]
    if "UNLIMITED" in told:
        assert found == ("ok", "Slurm ends no job at its time limit (OverTimeLimit is UNLIMITED)", "")
    else:
        assert found[0] == "warn" and found[1].startswith("only Slurm's SIGTERM announces the end of the job's time")


def test_nothing_tells_of_the_end(site):
    found = site.doctor("--notices", "none")["notices"]
    assert found[0] == "warn" and found[1].endswith("there is no --signal")
    assert found[2] == ("add slurm to notices, or #SBATCH --signal=B:USR1@120, and --signals USR1=preempt:115s")
    found = site.doctor(PATH="/nowhere", wanted=1)
    assert found["notices"][0] == "warn" and found["notices"][1].endswith("whether sbatch was given --signal is unknown")
    assert found["notices"][2].startswith("install Slurm's client programs, or")
    assert site.doctor(PATH="/nowhere", SLURM_JOB_END_TIME="4000000000", wanted=1)["notices"][0] == "unknown"


@pytest.mark.parametrize("listed, code", [("(null)", None), ("1-9,41", None), ("1-41,43", None), ("x", None),
                                          ("1,40-45", 42), ("42", 42), ("", None),
                                          ("0-255", 42), ("50-43, 42", 42), ("0,42 ", 42)])
def test_a_code_that_does_not_put_the_job_back(site, listed, code):
    site.is_real(requeue=listed)
    found = site.doctor()["requeue"]
    assert found[0] == ("ok" if code else "warn"), found
    assert bool(code) or "RequeueExit=42 in slurm.conf" in found[2]
    assert "requeue" not in site.doctor("--exit-hook", "/bin/true")


@pytest.mark.parametrize("listed, verdict, code", [("42", "warn", 45), ("42,45", "ok", 45), ("45", "warn", 42)])
def test_the_code_of_an_unhealthy_node(site, listed, verdict, code):
    """srun ends with the largest code of its tasks."""
    site.is_real(requeue=listed)
    for check in (["--health-check", "/bin/true"], ["--health-gpu"]):
        found = site.doctor(*check)["requeue"]
        assert found[0] == verdict and f"a batch job that ends with {code} " in found[1]


def test_srun_is_the_command(site):
    srun = site.bin / "srun"
    srun.write_text("#!/bin/sh\n")
    srun.chmod(0o700)
    command = doctor(site.world, env=site.env, command=["srun", "true"])["command"]
    assert command[0] == "warn" and command[2] == "the other way round: srun pchrun -- command"


def test_scontrol_is_missing(site):
    (site.bin / "scontrol").unlink()
    found = site.doctor(PATH=str(site.bin), wanted=1)
    assert found["KillWait"][0] == "unknown" and "cannot execute 'scontrol'" in found["KillWait"][1]
    assert "set --grace to 5 s less" in found["KillWait"][2]
    assert "requeue" not in found and found["notices"][0] == "unknown"


@pytest.mark.parametrize("script, said", [
    ("exit 1", "scontrol says nothing"),
    ("echo slurm_load_ctl_conf error >&2; exit 1", "scontrol says nothing"),
    ("echo KillWait", "scontrol show config does not show it"),
    ("echo KillWait = soon", "soon"),
    ("echo 'KillWait = -30 sec'", "-30 sec"),
    ("echo 'KillWait = 99999999999999999999 sec'", "99999999999999999999 sec"),
    (r"printf 'KillWait = \033[31m\377\n'", "?[31m"),
    ("echo 'NoKillWait = 3 sec'", "does not show it"),
    ("exec cat /dev/zero", "scontrol says nothing"),
    ("exec yes", "does not show it"),
], ids=range(10))
def test_scontrol_lies(site, script, said):
    site.is_script(f"#!/bin/sh\n{script}\n")
    found = site.doctor()
    assert found["KillWait"][0] == "unknown" and said in found["KillWait"][1], found
    assert found["notices"][0] == ("unknown" if said == "scontrol says nothing" else "ok")
    assert "requeue" not in found


@pytest.mark.parametrize("send, number", [
    (os.killpg, signal.SIGINT), (os.kill, signal.SIGTERM), (os.kill, signal.SIGKILL),
], ids=["Ctrl-C", "SIGTERM", "SIGKILL"])
def test_what_scontrol_has_started_ends_with_the_doctor(site, send, number):
    """scontrol may be a wrapper, whose group no Ctrl-C reaches. Three checks ask it, for no more than 6 s."""
    pids = site.world.root / "pids"
    site.is_script(f"#!/bin/sh\nsleep 600 &\necho $! >>{pids}\nwait\n")
    job = site.world.start(site.world.pchrun, "--doctor", "--run-dir", site.world.root, "--", "true", env=site.env)

    def started():
        return pids.read_text().split() if pids.exists() else []
    wait_until(lambda: len(started()) >= 3, "three children of scontrol")
    send(job.pid, number)
    assert job.finish() in (-number, 0, 1)  # by itself, if the checks took too long
    wait_until(lambda: not any(is_alive(int(pid)) for pid in started()), "their end")
    wait_until(lambda: not marked(site.world.mark), "the end of the shells around them")


def test_scontrol_hangs(site):
    """scontrol also leaves a process that keeps its output open. Nothing is left: all were killed, and end soon."""
    site.is_script("#!/bin/sh\necho KillWait = 30 sec\nsleep 60 &\nwait\n")
    begin = time.monotonic()
    found = site.doctor()
    assert time.monotonic() - begin < 30
    assert found["KillWait"][:2] == ("unknown", "KillWait is not known: scontrol has no answer in time")
    assert found["notices"][0] == "unknown"
    wait_until(lambda: not marked(site.world.mark), "their end")
