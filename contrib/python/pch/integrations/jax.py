# SPDX-License-Identifier: Apache-2.0
"""JAX: checkpoints of a plain training loop, by orbax, in one process or in many. A resumed loop goes on exactly.

    initialize()
    checkpoint = Checkpoint(job, "/scratch/run7")
    state = checkpoint.load(state)
    for step in job.steps(total, save=lambda step: checkpoint.save(step, state)):
        state = train(state, batch(step))

A JAX function depends on its arguments alone. So the state, with the random keys in it, and the step are enough.
"""

import os
from typing import Any, Dict, Optional, TypeVar, Union

import jax
import orbax.checkpoint as ocp

from .._pch import Job
from ._files import checkpoint_folder, is_url, sync_tree
from ._needs import check_needs

__all__ = ["Checkpoint", "initialize"]

_State = TypeVar("_State")


def initialize(**more: Any) -> None:
    """jax.distributed.initialize for the ranks of pchrun -n. Call it before any other function of JAX.

    It switches off JAX's preemption service, which would take SIGTERM from pch and not act on it. `more` goes to
    jax.distributed.initialize.
    """
    if not {"coordinator_address", "num_processes", "process_id"} <= more.keys():
        more = {**_place(), **more}
    jax.config.update("jax_enable_preemption_service", False)  # type: ignore[no-untyped-call]
    jax.distributed.initialize(**more)


def _place() -> Dict[str, Any]:
    """This process's place among the ranks, from the variables that pchrun -n sets."""
    names = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
    missing = [name for name in names if name not in os.environ]
    if missing:
        raise RuntimeError(f"initialize() needs {', '.join(missing)}, which are not set: start the program by "
                           "`pchrun -n`, or give initialize() the arguments of jax.distributed.initialize")
    address, port, world_size, rank = (os.environ[name] for name in names)
    return {"coordinator_address": f"{address}:{port}", "num_processes": int(world_size), "process_id": int(rank)}


class Checkpoint:
    """Saves a state, a pytree, in `folder`, which all processes must see. Each step has a folder of its own there.

    The leaves are arrays, random keys and numbers. An array may be sharded over the processes. All processes of one
    jax.distributed save and load together, at the agreed step. Ranks with a JAX of their own need folders of their own.
    Nothing is ever removed from the folder; by default it is checkpoint.dir of pchrun, without pchrun `checkpoints`. It may
    be a URL of a store that Orbax writes to.

    Orbax divides the writing among the processes. So attach(needs=...) other than "all" is refused.
    """

    def __init__(self, job: Job, folder: Optional[Union[str, "os.PathLike[str]"]] = None) -> None:
        check_needs(job, is_whole=False, is_first=False)
        self._job, self._folder = job, checkpoint_folder(folder, may_be_url=True)

    def save(self, step: int, state: Any) -> str:
        """Saves the state of that step durably; returns the path for Job.saved."""
        path = os.path.join(self._folder, f"step-{step}")
        with ocp.StandardCheckpointer() as checkpointer:
            # A checkpoint that is already there comes from an earlier attempt, and was not committed.
            checkpointer.save(path, {"step": step, "state": jax.tree.map(_stored, state)}, force=True)
        if jax.process_index() == 0 and not is_url(path):
            sync_tree(path)
        return path

    def load(self, state: _State) -> _State:
        """The state that the job resumes with; at the first start `state` itself.

        The loaded state gets the shapes, types and devices of `state`.
        """
        job, path = self._job, self._job.resume_path
        if path is None and job.resume_step == 0:
            return state
        if path is None:
            raise RuntimeError(f"the job resumes at step {job.resume_step}, but saved() got no path for that step")
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
    """A random key is stored as the numbers in it."""
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _like(leaf: Any, loaded: Any) -> Any:
    return jax.random.wrap_key_data(loaded, impl=jax.random.key_impl(leaf)) if _is_key(leaf) else loaded
