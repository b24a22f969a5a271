# SPDX-License-Identifier: Apache-2.0
"""Lets a program that does not use pch take part, with `pchrun --instrument`. sitecustomize.py, of
contrib/python/instrument, calls hook() when the program has imported one of the frameworks below.

A process takes part from its first training on: the first step of an optimizer, or the beginning of a fit. The first
fit makes the process a rank, which saves its framework's own checkpoints. Without a fit its steps are only counted. A
program that calls attach() is left alone. Nothing here may disturb the training: a failure is reported once, and the
training goes on without this part.
"""

import functools
import inspect
import os
import sys
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

from . import _attach
from ._pch import Job

_Wrapped = Callable[..., Any]

# How this process takes part.
_NOT_YET, _COUNTS, _FITS, _BY_ITSELF = "not yet", "counts", "fits", "by itself"


class _Part:
    """The part of this process in the job; there is one instance."""

    state: str
    job: Optional[Job]
    has_fitted: bool
    what = "the steps of PyTorch's optimizers"
    count: Callable[[], object]  # called after each step of an optimizer

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Also called in a fork, which is not attached and may train."""
        self.job, self.has_fitted = None, False
        if _attach.has_program_attached:
            self.state, self.count = _BY_ITSELF, _nothing
        else:
            self.state, self.count = _NOT_YET, self._begin_to_count

    # Counting steps.

    def _begin_to_count(self) -> None:
        self.count = _nothing
        if self.state != _NOT_YET:
            return
        rank, world_size = _place()
        job = _attach.attach_as(rank=rank, world_size=world_size, saves=False)
        if job.supervised:
            self.state, self.job, self.count = _COUNTS, job, job.step
            job.step()
            _say(f"counts {self.what}, for pchrun's watchdog; this process is not asked to save", job)

    def _stop_counting(self) -> None:
        self.count = _nothing
        if self.state == _COUNTS and self.job:
            self.job.close()
            self.state = _NOT_YET

    def give_up(self) -> None:
        """Ends the counting for good. The process detaches, so that the watchdog does not wait for its steps."""
        self._stop_counting()
        self.state = _BY_ITSELF

    # A fit.

    def begin_fit(self, **options: Any) -> Optional[Job]:
        """The process becomes a rank, with these options of attach(). None: the process was a rank already, or there is no
        pchrun."""
        if self.state not in (_NOT_YET, _COUNTS) or self.has_fitted:
            return None
        self._stop_counting()
        job = _attach.attach_as(**options)
        if not job.supervised:
            return None
        self.state, self.job, self.has_fitted = _FITS, job, True
        return job

    def end_fit(self, is_done: bool = False) -> None:
        """The fit has ended, or cannot save any more. Later steps are only counted. is_done: the fit has reached its end."""
        if self.state == _FITS and self.job:
            if is_done and not self.job.should_exit:
                self.job.done()
            self.job.close()
            self.state, self.count = _NOT_YET, self._begin_to_count

    def fail_fit(self) -> None:
        """The fit has raised an exception. If the exception ends the process, pchrun still learns of it. If the
        program trains on, the fit ends at its next step."""
        if self.state == _FITS:
            self.count = self._count_after_failure

    def _count_after_failure(self) -> None:
        self.end_fit()
        self.count()

    def leave_alone(self) -> bool:
        """Called before attach(). False: the call comes from within our own fit."""
        if self.state == _FITS:
            return False
        self.give_up()
        return True


def _nothing() -> None:
    pass


_part = _Part()
_hooked: Dict[str, bool] = {}


# Set once torch._dynamo is imported; without it nothing is compiled.
_is_compiling: Optional[Callable[[], bool]] = None
_step_uncompiled: Callable[[], None]


def _on_step(*_: object) -> None:
    """Called after every step of every optimizer of PyTorch. The steps of all optimizers count, so the sum rises as long as
    any of them trains. A compiled step calls this function without compiling it."""
    if _is_compiling and _is_compiling():
        _step_uncompiled()
    else:
        _step()


def _step() -> None:
    try:
        if _is_captured():
            _part.give_up()
        _part.count()
    except Exception as error:
        if _part.state == _COUNTS and isinstance(error, RuntimeError):
            return  # another thread is in the same call, which is counted
        _complain("steps are not counted", error)
        _part.give_up()


def hook(name: str) -> None:
    """The module `name` has been imported, perhaps not for the first time."""
    if name not in _hooked:
        _hooked[name] = True
        if not _attach.before_attach:
            _attach.before_attach = _part.leave_alone
            _part.begin_anew()
        _HOOKS[name]()


# --- messages ---


def _say(text: str, job: Optional[Job] = None) -> None:
    """Writes to standard error; with a job only on rank 0."""
    try:
        if job is None or not job.rank:
            sys.stderr.write(f"pch: {text}\n")
    except (OSError, ValueError, AttributeError):
        pass  # standard error is closed


def _complain(what: str, error: BaseException) -> None:
    _say(f"--instrument: {what}: {type(error).__name__}: {error}")


# --- PyTorch ---


def _place() -> Tuple[int, int]:
    """PyTorch's rank and world size; -1: take them from the environment."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return -1, -1


def _is_captured() -> bool:
    """Is this step only recorded? A CUDA graph that is replayed calls no hook, and would look like a hang."""
    cuda: Any = sys.modules.get("torch.cuda")
    return bool(cuda) and cuda.is_initialized() and cuda.is_current_stream_capturing()


def _hook_optimizers() -> None:
    import torch.optim.optimizer as optimizer

    optimizer.register_optimizer_step_post_hook(_on_step)


def _hook_compiler() -> None:
    global _is_compiling, _step_uncompiled
    import torch

    _step_uncompiled = torch.compiler.disable(_step)  # type: ignore[no-untyped-call]
    _is_compiling = torch.compiler.is_compiling


# --- fits ---


def _wrap(owner: type, name: str, fit: Callable[[_Wrapped, Any, Dict[str, Any]], Any]) -> None:
    """Every call of owner.name becomes fit(call, self, arguments): call(arguments) is the original."""
    original = getattr(owner, name)
    signature = inspect.signature(original)

    @functools.wraps(original)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(self, *args, **kwargs)
            bound.apply_defaults()
        except TypeError:
            return original(self, *args, **kwargs)  # the original has a better message

        def call() -> Any:
            return original(*bound.args, **bound.kwargs)

        return fit(call, self, bound.arguments)

    setattr(owner, name, wrapper)


def _run(call: Callable[[], Any], prepare: Callable[[], None], what: str) -> Any:
    """Runs a fit after prepare(). If prepare() fails, the fit runs as without pchrun."""
    if _part.state == _FITS:  # a fit within a fit, or after a fit that has failed
        return call()
    try:
        prepare()
    except Exception as error:
        _complain(f"{what} is only counted", error)
        _part.end_fit()
    try:
        result = call()
    except BaseException:
        _part.fail_fit()
        raise
    _part.end_fit(is_done=True)  # code after the fit tells no steps
    return result


def _guarded(kind: type, names: Sequence[str], what: str, folder: str) -> Any:
    """A subclass of a callback whose methods raise only pch.Exit, which is not an Exception. The call of its first method
    shows that the fit takes part; then standard error says so, with the folder of its checkpoints."""

    def guard(name: str) -> _Wrapped:
        method = getattr(kind, name)

        @functools.wraps(method)
        def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
            if _part.state != _FITS:
                return None
            try:
                result = method(self, *args, **kwargs)
                if name == names[0] and _part.job:
                    _say_fit(what, _part.job, folder)
                return result
            except Exception as error:
                _lose(what, error, has_told=error is getattr(self, "failed_save", None))
                if _part.state != _FITS and hasattr(self, "give_up"):
                    self.give_up(args[0])
                return None

        return guarded

    return type(kind.__name__, (kind,), {name: guard(name) for name in names})


def _lose(what: str, error: Exception, has_told: bool = False) -> None:
    """After a failed save the fit still takes part, and saves at the next agreed step. After any other failure its steps
    are only counted. `has_told`: the callback has already told the job that its save failed."""
    job = _part.job
    try:
        if job and (has_told or job.should_save):
            if not has_told:
                job.save_failed(error)
            _complain("a save has failed", error)
            return
    except Exception:
        pass  # the message below is enough
    _complain(f"{what} is only counted from here on", error)
    _part.end_fit()


def _say_fit(what: str, job: Job, where: str) -> None:
    begins = f"; goes on at step {job.resume_step}, from {job.resume_path}" if job.resume_step else ""
    _say(f"{what} takes part: it saves to {where} when the job is to be preempted{begins}", job)


def _folder() -> Optional[str]:
    return os.environ.get("PCH_CHECKPOINT_DIR") or None


def _say_no_folder(what: str) -> None:
    if not _part.has_fitted and _part.state in (_NOT_YET, _COUNTS) and os.environ.get("PCH_RANK", "0") == "0":
        _say(f"the steps of {what} are counted, but not saved; give pchrun --checkpoint-dir for its checkpoints")


# --- Hugging Face's Trainer ---


def _hook_transformers() -> None:
    _wrap(sys.modules["transformers.trainer"].Trainer, "train", _train)


def _train(call: Callable[[], Any], trainer: Any, arguments: Dict[str, Any]) -> Any:
    if arguments.get("trial") is not None:  # a hyperparameter search, with many trainings
        return call()
    callback: Any = None

    def prepare() -> None:
        nonlocal callback
        from .integrations.transformers import PreemptionCallback, rank0_saves_all

        args = trainer.args
        if args.world_size > 1 and rank0_saves_all(args):  # its rank 0 has to be the job's
            job = _part.begin_fit(needs="rank0", rank=args.process_index, local_rank=args.local_process_index,
                                  world_size=args.world_size)
        else:
            job = _part.begin_fit()
        if not job:
            return
        names = ("on_train_begin", "on_step_end", "on_save", "on_epoch_end", "on_prediction_step")
        kind = _guarded(PreemptionCallback, names, "Trainer.train", os.path.abspath(str(trainer.args.output_dir)))
        callback = kind(job)
        trainer.add_callback(callback)
        arguments["resume_from_checkpoint"] = _resume_from(job, arguments.get("resume_from_checkpoint"))

    try:
        return _run(call, prepare, "Trainer.train")
    finally:
        if callback:
            trainer.remove_callback(callback)
            callback.give_up(trainer.args)


def _resume_from(job: Job, given: Any) -> Any:
    """The checkpoint to resume from. If the program names none, or another one in the same folder, it is the committed
    checkpoint: the newest may be incomplete."""
    path = job.resume_path
    if given is False or not path:
        return given
    if not os.path.isdir(path):
        return given
    if given in (None, True):
        return path
    whole = os.path.abspath(str(given))
    if whole == path or os.path.dirname(whole) != os.path.dirname(path):
        return given  # on_train_begin refuses a checkpoint of another step
    _say(f"Trainer.train goes on from {path}, which all ranks have saved, not from {whole}", job)
    return path


# --- Lightning ---


def _hook_lightning() -> None:
    _wrap(sys.modules["lightning.pytorch.trainer"].Trainer, "fit", _fit_lightning)


def _fit_lightning(call: Callable[[], Any], trainer: Any, arguments: Dict[str, Any]) -> Any:
    if any(getattr(callback, "_early_exit", False) for callback in trainer.callbacks):
        return call()  # the Tuner tries some steps and takes them back; the training comes later
    folder = _folder()
    if not folder:
        _say_no_folder("Trainer.fit")
        return call()
    callback: Any = None

    def prepare() -> None:
        nonlocal callback
        callback = _lightning_callback(folder)
        trainer.callbacks.append(callback)
        path = os.path.join(os.environ.get("PCH_RESUME_PATH", ""), "lightning.ckpt")
        if os.path.isabs(path) and os.path.exists(path) and not _part.has_fitted and \
                arguments.get("ckpt_path") in (None, "last"):
            arguments["ckpt_path"] = path

    try:
        return _run(call, prepare, "Trainer.fit")
    finally:
        if callback in trainer.callbacks:
            trainer.callbacks.remove(callback)


def _lightning_callback(folder: str, called_by: int = 0) -> Any:
    """A callback that attaches in setup(): only there the ranks are known, and the Trainer may have started some of them.
    called_by: the process that has called fit()."""
    from lightning.pytorch import Callback

    from .integrations.lightning import PreemptionCallback, rank0_saves_all

    names = ("on_train_start", "on_train_batch_start", "on_train_batch_end", "on_validation_start")
    kind = _guarded(PreemptionCallback, names, "Trainer.fit", folder)
    called_by = called_by or os.getpid()

    class Late(Callback):
        inner: Any = None

        def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
            try:
                job = stage == "fit" and _part.begin_fit(rank=trainer.global_rank, local_rank=trainer.local_rank,
                                                         world_size=trainer.world_size,
                                                         local_world_size=trainer.num_devices,
                                                         needs="rank0" if rank0_saves_all(trainer) else "all")
                if job:
                    self.inner = kind(job, folder)
            except Exception as error:
                _lose("Trainer.fit", error)

        def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
            """A rank that a strategy has started is done here: fit() does not return in it."""
            if os.getpid() != called_by:
                _part.end_fit(is_done=True)

        def __reduce__(self) -> Any:
            """A strategy that spawns its ranks hands them the pickled Trainer; each rank makes a new callback."""
            return _lightning_callback, (folder, called_by)

    def forward(name: str) -> _Wrapped:
        def method(self: Late, *args: Any, **kwargs: Any) -> None:
            if self.inner:
                getattr(self.inner, name)(*args, **kwargs)

        return method

    for name in names:
        setattr(Late, name, forward(name))
    return Late()


# --- Keras ---


def _hook_keras() -> None:
    model = getattr(sys.modules["keras"], "Model", None)
    if model and hasattr(model, "fit"):
        _wrap(model, "fit", _fit_keras)


def _fit_keras(call: Callable[[], Any], model: Any, arguments: Dict[str, Any]) -> Any:
    import keras

    class Count(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            _part.what = "the batches of Model.fit"
            _step()

    given = arguments.get("callbacks")
    ours: Any = [Count()]

    def prepare() -> None:
        if keras.backend.backend() == "tensorflow":
            folder = _folder()
            if folder:
                _build(model, arguments.get("x"))
                _take_part(folder, ours)
            else:
                _say_no_folder("Model.fit")
        if isinstance(given, keras.callbacks.CallbackList):  # fit() uses the list itself
            for callback in ours:
                callback.set_model(model)
                callback.set_params(given.params)
            given.callbacks.extend(ours)
        else:
            theirs = [] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]
            arguments["callbacks"] = theirs + ours

    try:
        return _run(call, prepare, "Model.fit")
    finally:
        if isinstance(given, keras.callbacks.CallbackList):
            given.callbacks[:] = [callback for callback in given.callbacks if callback not in ours]


def _build(model: Any, data: Any) -> None:
    """Makes the variables of a model that does not name the shape of its input, as its first batch would. Model.build() makes
    none in a subclass of Model. If the model cannot be built, the callback says why the fit does not take part."""
    import keras

    inputs = getattr(data, "element_spec", data)  # of a dataset: of its batches
    is_array = inputs is data
    if isinstance(inputs, tuple) and not is_array:
        inputs = inputs[0]
    if model.built or not hasattr(inputs, "shape"):
        return
    if is_array and any(getattr(layer, "stateful", False) for layer in model.layers):
        return  # it needs the size of a batch, and a Sequential model that was built in vain fails in its first batch
    try:
        shape = (None, *inputs.shape[1:]) if is_array else inputs.shape
        model(keras.KerasTensor(shape, keras.backend.standardize_dtype(inputs.dtype)))
    except Exception:
        pass


def _take_part(folder: str, callbacks: Any) -> None:
    from .integrations.tensorflow import PreemptionCallback

    job = _part.begin_fit()
    if not job:
        return
    own = os.path.join(folder, f"rank-{job.rank or 0}")  # every rank has a model of its own
    names = ("on_train_begin", "on_epoch_begin", "on_train_batch_end")
    callbacks.append(_guarded(PreemptionCallback, names, "Model.fit", own)(own))


_HOOKS: Dict[str, Callable[[], None]] = {
    "torch.optim": _hook_optimizers,
    "torch._dynamo": _hook_compiler,
    "transformers.trainer": _hook_transformers,
    "lightning.pytorch.trainer": _hook_lightning,
    "keras": _hook_keras,
}

os.register_at_fork(after_in_child=_part.begin_anew)
