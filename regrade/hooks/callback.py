"""A callback of `transformers.Trainer` that evaluates the checkpoints it saves."""

import atexit
import copy
import dataclasses
import logging
import queue
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from transformers import (  # noqa: TID253 - a base class; who imports this trains with it
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from regrade.errors import RegradeError, SettingsError
from regrade.hooks.checkpoints import drop, keep, wait_until_written, what_is_missing
from regrade.hooks.evaluations import Evaluation, EvaluationFailedError, command_of, environment_of

logger = logging.getLogger("regrade.hooks")


@dataclass(frozen=True)
class _Checkpoint:
    step: int
    epoch: float | None
    folder: Path
    model: Path
    """What is evaluated: the folder, or links to it where the Trainer may delete it meanwhile."""
    log: Path


@dataclass(frozen=True)
class _Done:
    checkpoint: _Checkpoint
    metrics: dict[str, float]
    problem: str = ""


class EvaluateCheckpoints(TrainerCallback):
    """Evaluates every n-th saved checkpoint with `regrade evaluate`, and logs the numbers at the checkpoint's step.

    Evaluations run one after the other, each in a process of its own, started by the first rank only.

    Args:
        benchmarks: Benchmarks to ask.
        answers: Answer repository. None: as `regrade evaluate` chooses it.
        limit: Questions per benchmark. None: all.
        arguments: Further arguments of `regrade evaluate`, such as `("--config", "evaluation.yaml")`.
        every: Evaluate every n-th checkpoint that is saved.
        wait: Stop training until a checkpoint is evaluated. Otherwise it goes on, and only its end waits.
        deployment: Evaluate with `regrade trigger DEPLOYMENT --wait` instead, on the workers of the Prefect server
            that PREFECT_API_URL names. These have to see the checkpoint under the same path.
        environment: Changes to the evaluation's environment, such as `{"CUDA_VISIBLE_DEVICES": "7"}` for a GPU that
            is not trained on.
        stop_on_failure: Raise when an evaluation fails. Otherwise that is a warning, and training goes on.
        write_timeout: Seconds that a checkpoint may take to be written to its end.

    Raises:
        SettingsError: If nothing says what to evaluate, or `every` is not positive.
    """

    def __init__(
        self,
        benchmarks: Sequence[str] = (),
        *,
        answers: str | None = None,
        limit: int | None = None,
        arguments: Sequence[str] = (),
        every: int = 1,
        wait: bool = False,
        deployment: str | None = None,
        environment: Mapping[str, str] | None = None,
        stop_on_failure: bool = False,
        write_timeout: float = 600.0,
    ) -> None:
        if every < 1:
            raise SettingsError(f"`every={every}` should be 1 or more.")
        if not benchmarks and not arguments:
            raise SettingsError("Nothing says what to evaluate: give `benchmarks`, or `arguments`.")
        given = [word for name in benchmarks for word in ("--benchmark", name)]
        given += ["--answers", answers] if answers else []
        given += ["--limit", str(limit)] if limit is not None else []
        self.arguments = (*given, *arguments)
        self.every = every
        self.wait = wait
        self.deployment = deployment
        self.environment = dict(environment or {})
        self.stop_on_failure = stop_on_failure
        self.write_timeout = write_timeout
        self._saved = 0
        self._trainer: weakref.ref[Trainer] | None = None
        self._todo: queue.SimpleQueue[_Checkpoint | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[_Done] = queue.SimpleQueue()
        self._running: Evaluation | None = None
        self._thread: threading.Thread | None = None

    def attach(self, trainer: Trainer) -> "EvaluateCheckpoints":
        """Add this to a trainer, so that its numbers also reach MLflow and whatever else the trainer reports to.

        As one of `Trainer(callbacks=[...])` it knows no trainer, and only `state.log_history` gets them.
        """
        self._trainer = weakref.ref(trainer)
        # First, so that at the end of the training what reports is still there when the last numbers come.
        trainer.callback_handler.callbacks.insert(0, self)
        return self

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Evaluate the checkpoint, if it is its turn."""
        if not state.is_world_process_zero:
            return
        self._saved += 1
        if self._saved % self.every:
            return
        folder = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
        log = folder.parent / "regrade-logs" / f"{folder.name}.log"
        model = folder
        if args.save_total_limit is not None and not self.wait:
            model = _kept(folder)
        checkpoint = _Checkpoint(state.global_step, state.epoch, folder, model, log)
        if self.wait:
            self._done.put(self._evaluated(checkpoint))
        else:
            self._queue(checkpoint)
        self._log_done(args, state, control)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Log what has become known meanwhile."""
        self._log_done(args, state, control)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Wait for the evaluations that still run, and log them."""
        if self._thread is not None:
            self._todo.put(None)
            logger.info("waiting for the evaluations of checkpoints that still run")
            self._thread.join()
            self._thread = None
        self._log_done(args, state, control)

    def _queue(self, checkpoint: _Checkpoint) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="regrade", daemon=True)
            self._thread.start()
            atexit.register(
                _stop, weakref.ref(self)
            )  # a training that fails never comes to its end
        self._todo.put(checkpoint)

    def _work(self) -> None:
        """Evaluate one checkpoint after the other, in the background."""
        while (checkpoint := self._todo.get()) is not None:
            self._done.put(self._evaluated(checkpoint))

    def _evaluated(self, checkpoint: _Checkpoint) -> _Done:
        try:
            wait_until_written(checkpoint.model, timeout=self.write_timeout)
            command = command_of(checkpoint.model, self.arguments, self.deployment)
            self._running = Evaluation(command, environment_of(self.environment), checkpoint.log)
            return _Done(checkpoint, self._running.metrics())
        except (RegradeError, OSError) as error:
            return _Done(checkpoint, {}, str(error))
        finally:
            if checkpoint.model != checkpoint.folder:
                drop(checkpoint.model)

    def _log_done(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl
    ) -> None:
        """Log the evaluations that have ended; on the main thread, which owns the trainer's state."""
        while not self._done.empty():
            done = self._done.get()
            name = done.checkpoint.folder.name
            if done.problem:
                if self.stop_on_failure:
                    raise EvaluationFailedError(f"Evaluation of {name}: {done.problem}")
                logger.warning("%s was not evaluated: %s", name, done.problem)
                continue
            logs: dict[str, float] = dict(done.metrics)
            if done.checkpoint.epoch is not None:
                logs["epoch"] = done.checkpoint.epoch
            step = done.checkpoint.step
            state.log_history.append({**logs, "step": step})
            logger.info("%s: %s", name, logs)
            trainer = self._trainer() if self._trainer is not None else None
            if trainer is not None:
                # What reports takes the step from the state: that of the checkpoint, however far training is.
                then = dataclasses.replace(state, global_step=step)
                # A copy of the control, whose `should_log` is for the training's own numbers.
                trainer.callback_handler.on_log(args, then, copy.copy(control), logs)


def _kept(folder: Path) -> Path:
    """Return links to a checkpoint that the Trainer may delete before it is evaluated, or itself where that cannot be."""
    if what_is_missing(folder) is not None:
        return folder  # still being written; `wait_until_written` says so if it is gone by then
    try:
        return keep(folder)
    except OSError as error:
        logger.warning(
            "%s cannot be kept with hard links (%s): if `save_total_limit` deletes it before it is evaluated, "
            "it is left out; `wait=True` evaluates it first",
            folder.name,
            error,
        )
        return folder


def _stop(callback: "weakref.ref[EvaluateCheckpoints]") -> None:
    found = callback()
    if found is not None and found._running is not None:
        found._running.stop()
