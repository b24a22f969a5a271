# SPDX-License-Identifier: Apache-2.0
"""JAX: checkpoints of a plain training loop, by orbax, of one process or of many, that resume exactly.

    initialize()
    checkpoint = Checkpoint(job, "/scratch/run7")
    state = checkpoint.load(state)
    for step in job.steps(total, save=lambda step: checkpoint.save(step, state)):
        state = train(state, batch(step))

What a function of JAX computes depends on its arguments alone, so that the state, the keys of its random numbers among
it, and the step are all there is to save.
"""

import os
from typing import Any, TypeVar, Union

import jax
import orbax.checkpoint as ocp

from .._pch import Job
from ._files import sync_tree

__all__ = ["Checkpoint", "initialize"]

_State = TypeVar("_State")


def initialize(**more: Any) -> None:
    """jax.distributed.initialize for the ranks of pchrun -n; to be called before anything else of JAX.

    A SIGTERM stays with pch: JAX's preemption service, which would take it and do nothing with it, is off. `more` goes
    to jax.distributed.initialize.
    """
    jax.config.update("jax_enable_preemption_service", False)  # type: ignore[no-untyped-call]
    place = {"coordinator_address": f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}",
             "num_processes": int(os.environ["WORLD_SIZE"]), "process_id": int(os.environ["RANK"])}
    jax.distributed.initialize(**{**place, **more})


class Checkpoint:
    """A state, a pytree, in `folder`, which all processes must see: of each step a folder of its own.

    Its leaves are arrays, also such of which every process has a part, keys of random numbers, and numbers. All
    processes of one jax.distributed save and load together, which they do at the step that all have agreed on; ranks
    that each have a JAX of their own need folders of their own. Nothing is ever removed from the folder.
    """

    def __init__(self, job: Job, folder: Union[str, "os.PathLike[str]"]) -> None:
        self._job, self._folder = job, os.path.abspath(folder)

    def save(self, step: int, state: Any) -> str:
        """Saves that state as that of the step, durably; returns the path for Job.saved."""
        path = os.path.join(self._folder, f"step-{step}")
        with ocp.StandardCheckpointer() as checkpointer:
            # What is there already is of an earlier attempt, which was not committed.
            checkpointer.save(path, {"step": step, "state": jax.tree.map(_stored, state)}, force=True)
        if jax.process_index() == 0:
            sync_tree(path)
        return path

    def load(self, state: _State) -> _State:
        """The state that the job resumes with, and `state` itself at the first start.

        `state` is one of the same kind: the shapes and types of what is loaded, and on which devices it is to lie.
        """
        job, path = self._job, self._job.resume_path
        if path is None and job.resume_step == 0:
            return state
        if path is None:
            raise RuntimeError(f"the job resumes at step {job.resume_step}, but no path was given for it to saved()")
        wanted = {"step": 0, "state": jax.tree.map(_stored, state)}
        with ocp.StandardCheckpointer() as checkpointer:
            loaded = checkpointer.restore(path, wanted)
        if loaded["step"] != job.resume_step:
            raise RuntimeError(f"{path} holds step {loaded['step']}; the job resumes at step {job.resume_step}")
        restored: _State = jax.tree.map(_like, state, loaded["state"])
        return restored


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _stored(leaf: Any) -> Any:
    """A key of random numbers is stored as the numbers that it is made of."""
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _like(leaf: Any, loaded: Any) -> Any:
    return jax.random.wrap_key_data(loaded, impl=jax.random.key_impl(leaf)) if _is_key(leaf) else loaded
