# SPDX-License-Identifier: Apache-2.0
"""Hugging Face's Trainer: saves with its own checkpoints, and resumes from them.

    trainer = Trainer(model, args, train_dataset=data, callbacks=[PreemptionCallback(job)])
    trainer.train(resume_from_checkpoint=job.resume_path)
"""

import os
import re
import shutil
import sys
from typing import Any, Optional

from accelerate.state import AcceleratorState
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from .._control import committed_step
from .._pch import Exit, Job
from ._accelerated import is_whole, sync_own, together
from ._files import sync_tree
from ._needs import check_needs

__all__ = ["PreemptionCallback"]


class PreemptionCallback(TrainerCallback):
    """Reports every optimizer step, makes the Trainer save the agreed step, and reports the Trainer's own saves, too.

    When the job has to leave, train() raises pch.Exit, before any evaluation and before a best model is loaded: behind a
    save, or else when the Trainer has stopped as for other callbacks, at the end of that epoch. An evaluation that is due at
    the agreed save step is left out: the Trainer would run it before the save.

    attach(needs="rank0") fits if every rank has the whole model, and is refused with FSDP, DeepSpeed and other shards.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        if "torch.nn.parallel" in sys.modules:  # else the Trainer trains alone
            from ._waits import mark_waits

            mark_waits(job)  # before the Trainer wraps the model

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl,
                       **_: Any) -> None:
        """Refuses a training that cannot resume."""
        if self._job.needs != "all":
            check_needs(self._job, rank0_saves_all(args), args.process_index == 0)
        resumed = self._job.resume_step
        if resumed and state.global_step != resumed:
            raise RuntimeError(f"the Trainer begins at step {state.global_step}, but the job resumes at step "
                               f"{resumed}: call trainer.train(resume_from_checkpoint=job.resume_path)")
        if self._job.supervised and args.save_only_model:
            raise ValueError("with save_only_model a checkpoint has no optimizer and cannot be resumed: leave it False")
        if self._job.supervised:  # the Trainer would remove checkpoints before the new one is committed
            self._limit, args.save_total_limit = args.save_total_limit or self._limit, None

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl,
                    **_: Any) -> TrainerControl:
        """Reports the finished step of the optimizer."""
        if self._job.step(state.global_step):
            control.should_save, control.should_evaluate = True, False
        elif self._job.should_exit:
            control.should_save = control.should_evaluate = False
            control.should_training_stop = True
        return control

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl,
                **_: Any) -> TrainerControl:
        """Every rank has written its part. One rank per node waits for the disk before it reports the save. Leaves if the job
        has to leave: a save at the end of an epoch has no later callback, and train() would return."""
        path = os.path.abspath(os.path.join(str(args.output_dir), f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"))
        together(lambda: sync_own(path, f"rng_state_{args.process_index}.pth"))
        if state.is_local_process_zero:
            sync_tree(path)
        self._job.saved(path)
        self._saved_step = state.global_step
        if self._job.should_exit:
            raise Exit
        if self._limit and args.should_save:
            self._rotate(str(args.output_dir), state, self._limit)
        return control

    def on_epoch_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl,
                     **_: Any) -> TrainerControl:
        """Leaves if the job has to leave. Otherwise keeps the Trainer from writing over a checkpoint of this step."""
        if self._job.should_exit:
            raise Exit
        if self._saved_step == state.global_step:
            control.should_save = False
        return control

    def on_prediction_step(self, args: TrainingArguments, state: TrainerState, control: TrainerControl,
                           **_: Any) -> None:
        """Sets the phase; the step after the evaluation sets it back to the training."""
        self._job.phase("eval")

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl,
                     **_: Any) -> None:
        """Gives save_total_limit back, for another training with these arguments."""
        self.give_up(args)

    def give_up(self, args: TrainingArguments) -> None:
        """From here on the Trainer removes checkpoints as without pchrun."""
        args.save_total_limit, self._limit = args.save_total_limit or self._limit, None

    @staticmethod
    def _rotate(folder: str, state: TrainerState, limit: int) -> None:
        """As the Trainer does, but keeps the last committed checkpoint, too. Those of a later step are of an attempt that
        was lost, so they go first."""
        try:
            of_steps = (state.global_step, committed_step())
        except OSError:
            return  # the next save removes more
        kept = {f"{PREFIX_CHECKPOINT_DIR}-{step}" for step in of_steps} | {os.path.basename(state.best_model_checkpoint or "")}
        steps = {entry.name: int(entry.name.rpartition("-")[2]) for entry in os.scandir(folder)
                 if entry.is_dir() and re.fullmatch(rf"{PREFIX_CHECKPOINT_DIR}-\d+", entry.name)}
        extra = len(steps) - limit if limit > 0 else 0
        for name in sorted(steps, key=lambda name: (steps[name] <= state.global_step, steps[name])):
            if extra > 0 and name not in kept:
                shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
                extra -= 1

    _saved_step = -1
    _limit: Optional[int] = None


def rank0_saves_all(args: TrainingArguments) -> bool:
    """Is rank 0's save the whole checkpoint? Call this when the Trainer is made: it makes the AcceleratorState."""
    return is_whole(AcceleratorState(), args.save_on_each_node)
