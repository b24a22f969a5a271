# SPDX-License-Identifier: Apache-2.0
"""pystep_program: measures a step of an attached Python program beside an empty method call.

    pchrun -- python3 pystep_program.py CALLS ROUNDS

Prints a line for each round: nanoseconds for CALLS calls of job.step(), for as many turns of the loop over
job.steps(), for as many turns that read job.should_save, and for as many calls of an empty method in Python. The
order is random. The time of an empty loop is subtracted from each.
"""

import random
import sys
import time

import pch

WARM_UP = 3


class Empty:
    def method(self):
        pass


def took(loop, turns):
    begin = time.perf_counter_ns()
    loop(turns)
    return time.perf_counter_ns() - begin


def empty_loop(turns):
    for _ in turns:
        pass


def step_loop(turns):
    for _ in turns:
        JOB.step()


def save_loop(turns):
    for _ in turns:
        if JOB.should_save:
            sys.exit("asked to save")


def method_loop(turns):
    for _ in turns:
        EMPTY.method()


def main():
    calls, rounds = int(sys.argv[1]), int(sys.argv[2])
    sides = [(step_loop, False), (empty_loop, True), (save_loop, True), (method_loop, False)]
    for number in range(WARM_UP + rounds):
        times = {}
        for loop, is_steps in random.sample([*sides, (empty_loop, False)], len(sides) + 1):
            turns = JOB.steps(JOB.finished + calls) if is_steps else range(calls)
            times[loop, is_steps] = took(loop, turns)
        if number >= WARM_UP:
            print(*(times[side] - times[empty_loop, False] for side in sides))


JOB, EMPTY = pch.attach(required=True), Empty()
main()
