# SPDX-License-Identifier: Apache-2.0
"""The built-in check of NVIDIA's GPUs (health.gpu): a broken GPU is found and named before a rank starts on it, by NVML
or by its Xid in the kernel log. A machine without NVML, and an NVML that hangs, hold up nothing."""

import json
import re
import shutil
import socket

import pytest

from checkup import doctor
from harness import libm_of, needs_namespace

HOST = socket.gethostname()
UNHEALTHY = 45
NAMED = " (PCI 00000000:33:00.0, GPU-00000000-0000-0000-0000-000000000003)"
XID = "6,{0},12345678,-;NVRM: Xid (PCI:0000:{1}:00): {2}, pid='<unknown>', name=<unknown>, Ch 00000008\n"
NOISE = "6,800,11,-;usb 1-1: new device\n SUBSYSTEM=usb\n DEVICE=c189:0\n"
LOADED = "4,900,12345678,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15\n"


class Machine:
    """A machine with a fake NVML. Its faults and its kernel log are files, which a test may change at any time."""

    def __init__(self, world):
        self.world = world
        folder = world.root / "nvidia"
        folder.mkdir()
        self.library = folder / "libnvidia-ml.so.1"
        shutil.copy(f"{world.helpers}/fakenvml.so", self.library)
        self.faults = world.file("faults")
        self.log = None
        self.env = {"LD_LIBRARY_PATH": str(folder), "FAKE_NVML": str(self.faults)}

    def break_it(self, *faults, gpus=8):
        self.faults.write_text("".join(f"{line}\n" for line in [f"gpus -1 {gpus}", *faults]))

    def show(self, *gpus):
        """The GPUs that the job may use."""
        self.env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))

    def launch(self, *argv, code):
        """A job on this machine; without a command, one that says that it trains."""
        if "--" not in argv:
            argv = [*argv, "--", self.world.actor, "say", "trains"]
        options = ["--health-gpu", "--report", self.world.root / "report.json", *argv]
        if self.log is None:
            return self.world.launch(*options, env=self.env, code=code)
        script = f"mount --bind '{self.log}' /dev/kmsg && exec \"$@\""
        return self.world.start("unshare", "--mount", "sh", "-c", script, "sh", self.world.pchrun, *options,
                                env=self.env, code=code)

    def report(self):
        return json.loads((self.world.root / "report.json").read_text())["health"]


@pytest.fixture
def machine(world):
    made = Machine(world)
    made.break_it()
    return made


@pytest.fixture
def logged(machine):
    """A machine whose kernel log is a file."""
    needs_namespace("--mount")
    machine.log = machine.world.file("kmsg", NOISE)
    return machine


def told(job):
    """The texts that follow a verdict of health.gpu."""
    return re.findall(r" health: 'health\.gpu' says, after \d+m?s: this node is (.*)", job.err)


def test_healthy_gpus(machine):
    job = machine.launch(code=0)
    assert machine.world.events.all("trains")
    assert len(told(job)) == 1 and told(job)[0].startswith("healthy")
    assert (machine.report()["state"], machine.report()["check"]) == ("healthy", "health.gpu")


BROKEN = {
    "lost": (["lost 3 1"], "gpu3: GPU is lost" + NAMED),
    "lost when opened": (["open 3 15"], "gpu3: GPU is lost"),
    "reset required": (["open 3 16"], "gpu3: GPU requires reset"),
    "power": (["open 3 8"], "gpu3: Insufficient External Power"),
    "driver wants a reset": (["action 3 1"], "gpu3: the driver wants a reset of the GPU" + NAMED),
    "driver wants a restart": (["action 3 2"], "gpu3: the driver wants a restart of the machine" + NAMED),
    "driver of the future": (["action 3 77"], "gpu3: the driver wants a recovery" + NAMED),
    "errors": (["old -1 1", "ecc 3 2"], "gpu3: 2 uncorrectable memory errors since its last reset" + NAMED),
    "row": (["failed 3 1"], "gpu3: a broken row of its memory cannot be replaced" + NAMED),
    "page": (["volta -1 1", "retiring 3 1"], "gpu3: a broken page of its memory is in use until its next reset" + NAMED),
    "the first of two": (["lost 5 1", "failed 3 1"], "gpu3: a broken row of its memory cannot be replaced" + NAMED),
    "after one of no answer": (["open 1 999", "lost 3 1"], "gpu3: GPU is lost" + NAMED),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_gpu(machine, broken):
    """No rank starts. The last line names the host, the GPU and its fault."""
    faults, says = BROKEN[broken]
    machine.break_it(*faults)
    job = machine.launch(code=UNHEALTHY)
    assert not machine.world.events.all("trains")
    assert f": node 0: {HOST} is not healthy: {says}; start the job without this host" in job.err_lines[-1]
    assert machine.report()["state"] == "unhealthy" and machine.report()["component"] == "gpu3"


FINE = {
    "pending row": (["pending 3 1"], "gpu3: a row of its memory is replaced at its next reset"),
    "hot": (["slow 3 64"], "gpu3: it is slow, since it is hot"),
    "two": (["pending 3 1", "slow 5 8"], "gpu3: a row of its memory is replaced at its next reset; "
                                         "gpu5: it is slow, since its hardware limits it"),
    "idle": (["slow 3 1"], ""),
    "contained": (["ecc 3 2"], ""),  # the driver says that the GPU needs nothing
    "no ECC": (["old -1 1", "noecc -1 1", "ecc 3 2"], ""),
    "of another job": (["open 3 4"], ""),
    "none": (["gpus -1 0"], "NVML finds no GPU"),
}


@pytest.mark.parametrize("fine", FINE)
def test_a_gpu_that_can_train(machine, fine):
    """It is told, and not held against the node."""
    faults, says = FINE[fine]
    machine.break_it(*faults)
    job = machine.launch(code=0)
    assert machine.world.events.all("trains")
    assert told(job)[0].startswith("healthy" + ("; " + says if says else ""))
    assert says or "gpu" not in told(job)[0]


UUID = "GPU-00000000-0000-0000-0000-00000000000"
SHOWN = {
    "numbers": ([0, 1, 2, 3], 6, 3),
    "uuids": ([f"{UUID}{i}" for i in (6, 7)], 3, 6),
    "as Slurm without devices": (["NoDevFiles"], 6, None),
    "beside one of another job": ([0, 1, 2], 4, 3),  # CUDA counts only the GPUs that it may open
}


@pytest.mark.parametrize("faults, says", [
    (["lost {} 1"], "GPU is lost"), (["open {} 15"], "GPU is lost"), (["action {} 1"], "the driver wants a reset of the GPU"),
    (["open {} 999"], "NVML cannot open it: Unknown Error"),
], ids=["lost", "lost when opened", "reset", "unknown"])
@pytest.mark.parametrize("shown", SHOWN)
def test_a_gpu_that_the_job_does_not_use(machine, shown, faults, says):
    """On a host that jobs share. It was held against the node. A GPU that the job uses counts as before."""
    gpus, other, own = SHOWN[shown]
    hidden = ["open 1 4"] * shown.startswith("beside")
    machine.show(*gpus)
    machine.break_it(*hidden, *(fault.format(other) for fault in faults))
    job = machine.launch("--health-strict", code=0)
    text = f"gpu{other}: {says}, but it is not in CUDA_VISIBLE_DEVICES"
    assert text in told(job)[0] and told(job)[0].count("but it") == 1
    if own is not None:
        machine.break_it(*hidden, *(fault.format(own) for fault in faults))
        job = machine.launch("--health-strict", code=UNHEALTHY)
        assert f"gpu{own}: {says}" in job.err_lines[-1] and "CUDA_VISIBLE" not in job.err


def test_a_part_of_a_gpu(machine):
    """Its UUID does not tell the GPU, so each GPU counts."""
    machine.show("MIG-c7384736-a75d-5afc-978f-d2f1294409fd")
    machine.break_it("lost 3 1")
    machine.launch(code=UNHEALTHY)


@pytest.mark.parametrize("faults, because", [
    (["init -1 18"], "NVML: Driver/library version mismatch"),
    (["open 3 999"], "gpu3: NVML cannot open it: Unknown Error"),
    (["hang -1 1"], "NVML does not answer within health.timeout"),
], ids=["mismatch", "unknown", "hang"])
@pytest.mark.parametrize("strict", [False, True], ids=["", "strict"])
def test_no_answer(machine, faults, because, strict):
    """It says nothing certain about the node. The process that waits for NVML is killed."""
    machine.break_it(*faults)
    limit = "500ms" if "hang -1 1" in faults else "30s"
    job = machine.launch("--health-timeout", limit, *["--health-strict"] * strict, code=UNHEALTHY if strict else 0)
    assert bool(machine.world.events.all("trains")) != strict
    assert f"gives no answer: {because}" in job.err or f"gives no answer ({because})" in job.err
    assert machine.report()["state"] == "unknown"


@pytest.mark.parametrize("reason", ["none", "other", "driver"])
def test_a_machine_without_gpus(machine, reason):
    """The check is skipped, which is said once and is no error, even with health.strict."""
    says = "NVML: Driver Not Loaded"
    if reason == "driver":
        machine.break_it("init -1 9")
    else:
        says = "health.gpu needs NVML, a part of NVIDIA's driver: .*libnvidia-ml"
        machine.library.unlink()
        if reason == "other":
            shutil.copy(libm_of(machine.world.pchrun), machine.library)
            says = ".*undefined symbol"
        else:
            machine.library.write_bytes(b"")
    job = machine.launch("--health-strict", "--restart-max", "3", "--restart-startup", "0", "--", "sh", "-c",
                         "echo start; [ $PCH_GENERATION = 1 ] || exit 7", code=0)
    assert job.out == "start\n" * 2
    assert len(re.findall(f" health: 'health.gpu' is skipped: {says}", job.err)) == 1
    assert machine.report()["state"] == "skipped"


def test_another_check_counts_more_than_none(machine):
    machine.library.write_bytes(b"")
    machine.launch("--health-check", machine.world.file("check", "#!/bin/sh\nexit 0\n", 0o755), code=0)
    assert machine.report()["state"] == "healthy" and machine.report()["check"].endswith("check")


def test_a_gpu_that_is_lost_in_between(machine):
    """The driver was loaded again, and does not find it any more."""
    job = machine.launch("--restart-max", "3", "--restart-startup", "0", "--", "sh", "-c",
                         f"echo start; echo gpus -1 7 >>'{machine.faults}'; exit 7", code=UNHEALTHY)
    assert job.out == "start\n"
    assert "is not healthy: gpu: 7 of the 8 GPUs that were there are left; start" in job.err_lines[-1]


@pytest.mark.parametrize("left, code", [(6, 7), (3, UNHEALTHY)])
def test_fewer_gpus_of_which_the_job_uses_some(machine, left, code):
    machine.show(0, 1, 2, 3)
    job = machine.launch("--restart-max", "1", "--restart-startup", "0", "--", "sh", "-c",
                         f"echo start; echo gpus -1 {left} >>'{machine.faults}'; exit 7", code=code)
    assert job.out == "start\n" * (2 if code == 7 else 1)
    assert ("3 of the 4 GPUs that were there are left" in job.err) == (code == UNHEALTHY)


@pytest.mark.parametrize("faults, verdict, says", [
    (["slow 3 64"], "ok", "8 healthy; gpu3: it is slow, since it is hot"),
    (["action 3 1"], "bad", "not healthy: gpu3: the driver wants a reset of the GPU" + NAMED),
    (["init -1 18"], "warn", "no answer: NVML: Driver/library version mismatch"),
    (["init -1 9"], "unknown", "NVML: Driver Not Loaded"),
])
def test_the_doctor(machine, faults, verdict, says):
    machine.break_it(*faults)
    found = doctor(machine.world, "--health-gpu", env=machine.env, wanted=int(verdict == "bad"))
    assert found["GPUs"][0] == verdict and found["GPUs"][1].startswith(says)


# --- the kernel log ---

def xid(number, bus, code):
    return XID.format(number, bus, code)


@pytest.mark.parametrize("code, meaning", [(48, "an uncorrectable memory error"), (79, "the GPU has fallen off the bus"),
                                           (119, "its system processor (GSP) does not answer")])
def test_an_xid_since_the_start_of_the_machine(logged, code, meaning):
    logged.break_it("old -1 1")
    logged.log.write_text(NOISE + xid(901, "33", code) + xid(902, "34", 79) + NOISE)
    job = logged.launch(code=UNHEALTHY)
    assert not logged.world.events.all("trains")
    assert f": node 0: {HOST} is not healthy: gpu3: Xid {code}: {meaning}{NAMED}; start" in job.err_lines[-1]


def test_an_xid_beside_a_gpu_without_a_place(logged):
    """The driver of that GPU says that it needs nothing. This says nothing about the next GPU."""
    logged.break_it("noplace 2 1", "old 3 1")
    logged.log.write_text(xid(901, "33", 79))
    job = logged.launch(code=UNHEALTHY)
    assert f"{HOST} is not healthy: gpu3: Xid 79: the GPU has fallen off the bus{NAMED}; start" in job.err_lines[-1]


def test_an_xid_of_a_gpu_that_cannot_be_opened(logged):
    logged.break_it("open 3 999")
    logged.log.write_text(xid(901, "33", 79))
    job = logged.launch(code=UNHEALTHY)
    assert f"{HOST} is not healthy: PCI 0000:33:00: Xid 79: the GPU has fallen off the bus; start" in job.err_lines[-1]


@pytest.mark.parametrize("driver, lines", [
    ("old", xid(901, "33", 13) + xid(902, "33", 31) + xid(903, "33", 43) + xid(904, "33", 45)),
    ("old", xid(901, "33", 63) + xid(902, "33", 94)),
    ("old", xid(899, "33", 79) + LOADED),
    ("old", xid(901, "77", 79)),
    ("new", xid(901, "33", 79)),
    ("old", "79\n6,x;NVRM: Xid (PCI:0000:33:00): 79, \n6,901,1,-;app: NVRM: Xid (PCI:0000:33:00): 79, \n"),
], ids=["program", "contained", "driver was loaded since", "of another job", "was reset", "nonsense"])
def test_an_xid_that_says_nothing_against_the_node(logged, driver, lines):
    logged.break_it(*["old -1 1"] * (driver == "old"))
    logged.log.write_text(lines)
    job = logged.launch(code=0)
    assert logged.world.events.all("trains") and told(job) == ["healthy"]


def test_an_xid_of_a_gpu_that_the_job_does_not_use(logged):
    logged.show(0, 1, 2)
    logged.break_it("old -1 1")
    logged.log.write_text(xid(901, "33", 79))
    assert told(logged.launch(code=0)) == ["healthy"]
    job = restarted(logged, 0, xid(902, "33", 79))
    assert told(job) == ["healthy", "healthy; gpu3: Xid 79: the GPU has fallen off the bus"]


def restarted(machine, code, lines):
    """A job that fails after these lines have come into the kernel log, and is restarted in place."""
    new = machine.world.file("new", lines)
    return machine.launch("--restart-max", "1", "--restart-startup", "0", "--", "sh", "-c",
                          f"echo start; [ $PCH_GENERATION = 1 ] || {{ cat '{new}' >>'{machine.log}'; exit 7; }}",
                          code=code)


def test_an_xid_while_the_job_runs(logged):
    """It counts even if the driver wants nothing: the GPU has failed this job."""
    logged.log.write_text(xid(901, "35", 74))
    job = restarted(logged, UNHEALTHY, xid(902, "33", 74) + xid(903, "35", 79))
    assert job.out == "start\n"
    assert f"is not healthy: gpu3: Xid 74: an NVLink error{NAMED}; start" in job.err_lines[-1]


def test_a_programs_xid_while_the_job_runs(logged):
    """It is told once, since it may be why the rank has failed."""
    logged.log.write_text(xid(901, "35", 79))
    job = restarted(logged, 0, xid(902, "33", 31))
    assert job.out == "start\n" * 2
    assert told(job) == ["healthy", "healthy; gpu3: Xid 31"]


def test_a_kernel_log_that_cannot_be_read(machine):
    """Not every user may, and a container may have none."""
    needs_namespace("--mount")
    machine.log = machine.world.root / "kmsg"
    with socket.socket(socket.AF_UNIX) as taken:
        taken.bind(str(machine.log))
        job = machine.launch(code=0)
    assert told(job) == ["healthy; the kernel log cannot be read (No such device or address), so Xids are not known"]
