# SPDX-License-Identifier: Apache-2.0
"""How pch.integrations._tf_notice handles termination_watcher_fn and grace_period while pchrun does not answer. It uses
only the logger of TensorFlow, so these tests need no TensorFlow."""

import signal

# A training that waits for the notice. The thread logs a fault once, by complained().
BEGIN = """
import os, pch, sys, types
sys.modules["tensorflow"] = types.SimpleNamespace(get_logger=lambda: types.SimpleNamespace(warning=complained))
from pch.integrations import _tf_notice
from told import say, wait_for
socket = os.environ["PCH_SOCKET"]
"""
END = """
job.step()
say("training")
wait_for("on")
for step in job.steps(9):
    if job.should_save:
        job.saved("at://b")
"""

# pchrun's socket is not found until the thread has complained. The function tells of the preemption a single time.
ONCE = """
def complained(*args):
    os.environ["PCH_SOCKET"] = socket
answers = iter([True])
job = pch.attach()
os.environ["PCH_SOCKET"] = "/nowhere/s"
watch = _tf_notice.Watch(job, lambda: next(answers, False), 20)
"""

# pchrun does not take the first request for a shorter grace.
REFUSED = """
def complained(*args):
    say("complained")
def ask(do, **more):
    if do == "drain" and not refused:
        refused.append(do)
        raise OSError("not now")
    return real(do, **more)
refused, real, _tf_notice.ask = [], _tf_notice.ask, ask
job = pch.attach()
watch = _tf_notice.Watch(job, None, 20)
"""


def test_a_notice_that_is_told_once_is_not_lost(program):
    one = program(BEGIN + ONCE + END)
    one.start("--grace", "100s")
    one.said(r"notice: .*termination_watcher_fn of rank 0, 20 s left")
    one.agreed()
    assert one.result()[:2] == (42, "preempted")


def test_a_grace_that_could_not_be_shortened_is_shortened_later(program, world):
    one = program(BEGIN + REFUSED + END)
    one.start("--grace", "100s", ready="training")
    one.job.send(signal.SIGTERM)
    world.events.wait("complained")
    one.said(r"notice: .*grace_period of rank 0, 1\d")
    one.agreed()
    assert one.result()[:2] == (42, "preempted")
