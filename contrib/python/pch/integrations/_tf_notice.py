# SPDX-License-Identifier: Apache-2.0
"""What a TerminationConfig says of notices, told to pchrun: termination_watcher_fn and grace_period."""

import threading
from datetime import datetime
from typing import Any, Callable, Dict, Optional

import tensorflow as tf

from .._control import ask
from .._pch import Job

_PERIOD = 1.0  # that of TensorFlow's handler
_LEAST = 1.0  # a save needs some time


class Watch:
    """A thread that polls the function, and gives pchrun a notice when it returns True.

    grace_period is the time that this notice leaves. It is also the time that a signal leaves, if pchrun's own grace is
    longer: several notices end at the earliest deadline. A notice whose source tells the deadline stays as it is.
    """

    def __init__(self, job: Job, watcher: Optional[Callable[[], Any]], grace: Optional[float]) -> None:
        self._job, self._watcher, self._grace = job, watcher, grace or None
        self._over = threading.Event()
        self._has_complained = False
        self._seen: Optional[str] = None  # when the newest notice came
        self._follows = bool(grace) and not job.rank  # rank 0 speaks for the job
        if job.supervised and (watcher or self._follows):
            threading.Thread(target=self._run, name=f"WorkerTerminationSignalWatcher-{job.rank}", daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def _run(self) -> None:
        while self._job.supervised and (self._watcher or self._follows):
            try:
                if self._watcher and self._watcher():
                    self._drain(self._grace, f"termination_watcher_fn of rank {self._job.rank}")
                    self._watcher = None
                if self._follows and self._job.notice():
                    self._shorten()
            except Exception as error:  # of the function, or pchrun is gone: asked again
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
        self._seen = notice["at"]
        now = _time(answer["now"])
        left = max(_LEAST, _time(notice["at"]) + float(self._grace or 0) - now)  # it may have been seen too late
        if not notice["deadline"] or now + left < _time(notice["deadline"]):
            self._drain(left, f"grace_period of rank {self._job.rank}")

    def _complain(self, error: Exception) -> None:
        if not self._has_complained:
            self._has_complained = True
            tf.get_logger().warning("the watcher of notices goes on after %s: %s", type(error).__name__, error)


def _time(text: str) -> float:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").timestamp()  # all are of one zone
