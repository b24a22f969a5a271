# SPDX-License-Identifier: Apache-2.0
"""Tells pchrun what a TerminationConfig says of notices: termination_watcher_fn and grace_period."""

import threading
from datetime import datetime
from typing import Any, Callable, Dict, Optional

import tensorflow as tf

from .._control import ask
from .._pch import Job

_PERIOD = 1.0  # the period of TensorFlow's handler
_LEAST = 1.0  # a save needs some time


class Watch:
    """A thread that polls the function, and gives pchrun a notice when it returns True.

    grace_period is the time that this notice leaves. A signal leaves no more time either: of several deadlines pchrun
    takes the earliest. A notice whose source tells the deadline keeps that deadline.
    """

    def __init__(self, job: Job, watcher: Optional[Callable[[], Any]], grace: Optional[float]) -> None:
        self._job, self._watcher, self._grace = job, watcher, grace or None
        self._over = threading.Event()
        self._is_preempted = self._has_complained = False
        self._seen: Optional[str] = None  # when the newest notice came
        self._follows = bool(grace) and not job.rank  # rank 0 shortens the grace for the whole job
        if job.supervised and (watcher or self._follows):
            threading.Thread(target=self._run, name=f"WorkerTerminationSignalWatcher-{job.rank}", daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def _run(self) -> None:
        while self._job.supervised and (self._watcher or self._follows):
            try:
                if self._watcher and (self._is_preempted or self._watcher()):
                    self._is_preempted = True  # stays so if pchrun cannot be told now
                    self._drain(self._grace, f"termination_watcher_fn of rank {self._job.rank}")
                    self._watcher = None
                if self._follows and self._job.notice():
                    self._shorten()
            except Exception as error:  # from the function or from pchrun; the loop asks again
                self._complain(error)
            if self._over.wait(_PERIOD):
                return

    def _drain(self, left: Optional[float], text: str) -> None:
        more = {} if left is None else {"left_ms": max(1, round(left * 1000))}
        ask("drain", text=text, **more)

    def _shorten(self) -> None:
        answer = ask("status")
        notice: Optional[Dict[str, Any]] = answer["report"]["notice"]
        if not notice or notice["at"] == self._seen or not notice["source"].startswith("SIG"):
            return
        now = _time(answer["now"])
        left = max(_LEAST, _time(notice["at"]) + float(self._grace or 0) - now)  # one poll a second may be late
        if not notice["deadline"] or now + left < _time(notice["deadline"]):
            self._drain(left, f"grace_period of rank {self._job.rank}")
        self._seen = notice["at"]  # only after pchrun has the notice

    def _complain(self, error: Exception) -> None:
        if not self._has_complained:
            self._has_complained = True
            tf.get_logger().warning("the thread that watches for preemption goes on after %s: %s", type(error).__name__, error)


def _time(text: str) -> float:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").timestamp()  # both times are UTC, and only their difference counts
