# SPDX-License-Identifier: Apache-2.0
"""pch.integrations.jax with the real JAX and orbax, on CPU. test_pages.py has the program of the page."""

PARTS = """
import os, pch, jax, numpy as np
from pch.integrations.jax import Checkpoint
from told import attempt
job = pch.attach()
checkpoint = Checkpoint(job, os.environ["CHECKPOINTS"])
def fresh(number):
    return {"key": jax.random.key(number), "old key": jax.random.PRNGKey(number),
            "pair": (jax.numpy.ones(3) * number, None), "host": np.full(2, number), "count": number}
state = fresh(3)
print(checkpoint.load(state) is state)

# As a job that resumes at what was just saved (twice: the first attempt was not committed), and on another step.
checkpoint.save(7, fresh(4))
path = checkpoint.save(7, state)
class Resumed:
    resume_step, resume_path, needs = 7, path, "all"
again = Checkpoint(Resumed(), "x")
loaded = again.load(fresh(0))
same = jax.tree.map(lambda a, b: bool(np.all(a == b)) and type(a) is type(b), loaded, state)
print(jax.tree.structure(loaded) == jax.tree.structure(state), jax.tree.leaves(same))
print(jax.random.uniform(loaded["key"]) == jax.random.uniform(state["key"]))
attempt(lambda: again.load({"other": 1}))
Resumed.resume_step = 8
attempt(lambda: again.load(state))
Resumed.resume_path = None
attempt(lambda: again.load(state))
Resumed.needs = "rank0"
attempt(lambda: Checkpoint(Resumed(), "x"))
"""

# Stands for Orbax's access to a store, which needs credentials: no file may be made or looked for.
STORE = """
import pch, jax, orbax.checkpoint as ocp
from pch.integrations.jax import Checkpoint
class Checkpointer:
    stored = {}
    def __enter__(self): return self
    def __exit__(self, *error): pass
    def save(self, path, state, force): self.stored[path] = state
    def restore(self, path, wanted): return self.stored[path]
ocp.StandardCheckpointer = Checkpointer
job = pch.attach()
print(Checkpoint(job, "gs://bucket/run7").save(7, 3))
class Resumed:
    resume_step, resume_path, needs = 7, "gs://bucket/run7/step-7", "all"
print(Checkpoint(Resumed(), "gs://bucket/run7").load(0))
"""


def test_a_url(program):
    one = program(STORE)
    job = one.world.start(*one.command(), env=one.variables({}), code=0)
    assert job.out.splitlines() == ["gs://bucket/run7/step-7", "3"]
    assert not list(one.world.cwd.iterdir())


def test_what_it_is_made_of(program):
    one = program(PARTS)
    path = f"{one.checkpoints}/step-7"
    job = one.world.start(*one.command(), env=one.variables({}), code=0)
    lines = job.out.splitlines()
    assert lines[:3] == ["True", "True [True, True, True, True, True]", "True"]
    assert lines[3].startswith("ValueError: ")
    assert lines[4:] == [f"RuntimeError: {path} holds step 7; the job resumes at step 8",
                         "RuntimeError: the job resumes at step 8, but saved() got no path for that step",
                         "ValueError: attach(needs='rank0') would lose the other ranks' parts of a checkpoint, since here "
                         "every rank saves a part that a resume needs: leave needs out"]
