# SPDX-License-Identifier: Apache-2.0
"""tfstep_program: measures a step of an attached Python program beside TensorFlow's PreemptionCheckpointHandler.

    pchrun -- python3 tfstep_program.py CALLS ROUNDS

Prints a line for each round: nanoseconds for CALLS calls of job.step(), of run() of the handler of
pch.integrations.tensorflow, and of run() of TensorFlow's own handler, in random order. Both handlers run an empty
function. The time of its calls, and of an empty loop, is subtracted. There is no notice, and one worker.
"""

import random
import sys
import tempfile
import time

import pch
import tensorflow as tf
from pch.integrations.tensorflow import PreemptionCheckpointHandler

WARM_UP = 3


def nothing():
    pass


def step_loop(turns):
    for _ in turns:
        JOB.step()


def empty_loop(turns):
    for _ in turns:
        pass


def run_loop(handler, turns):
    for _ in turns:
        handler.run(nothing)


def function_loop(turns):
    for _ in turns:
        nothing()


def main():
    calls, rounds = int(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="bench.") as folder:
        mine = PreemptionCheckpointHandler(None, tf.train.Checkpoint(), f"{folder}/ours")
        other = tf.distribute.experimental.PreemptionCheckpointHandler(None, tf.train.Checkpoint(), f"{folder}/theirs")

        def ours(turns):
            mine.finished(JOB.finished)  # the steps that step_loop has counted
            run_loop(mine, turns)

        def theirs(turns):
            run_loop(other, turns)

        sides = [(step_loop, empty_loop), (ours, function_loop), (theirs, function_loop)]
        for number in range(WARM_UP + rounds):
            times = {}
            for loop in random.sample([step_loop, empty_loop, function_loop, ours, theirs], 5):
                begin = time.perf_counter_ns()
                loop(range(calls))
                times[loop] = time.perf_counter_ns() - begin
            if number >= WARM_UP:
                print(*(times[side] - times[without] for side, without in sides))


JOB = pch.attach(required=True)
main()
