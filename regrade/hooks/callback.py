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

from transformers import (  # noqa: TID253 - base class; a training script has imported it
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from regrade.errors import RegradeError, SettingsError
from regrade.hooks.checkpoints import drop, find_problem, keep, wait_until_written
from regrade.hooks.evaluations import (
    Evaluation,
    EvaluationFailedError,
    evaluation_command,
    evaluation_environment,
)

logger = logging.getLogger("regrade.hooks")


@dataclass(frozen=True)
class _Checkpoint:
    step: int
    epoch: float | None
    folder: Path
    model: Path
    """Folder to evaluate: `folder`, or hard links to its files if the Trainer may delete them."""
    log: Path


@dataclass(frozen=True)
class _Result:
    checkpoint: _Checkpoint
    metrics: dict[str, float]
    problem: str = ""


class EvaluateCheckpoints(TrainerCallback):
    """Evaluates every n-th saved checkpoint with `regrade evaluate` and logs the metrics at the checkpoint's step.

    Evaluations run one after the other, each in a separate process. Only the first rank starts them.

    Args:
        benchmarks: Names of benchmarks.
        answers: Answer repository. None: the default of `regrade evaluate`.
        limit: Number of questions per benchmark. None: all.
        arguments: Further arguments of `regrade evaluate`, such as `("--config", "evaluation.yaml")`.
        every: Evaluate every n-th checkpoint that is saved.
        wait: Pause training while a checkpoint is evaluated. Otherwise only the end of training waits.
        deployment: Evaluate with `regrade trigger DEPLOYMENT --wait` instead, on the workers of the Prefect server at
            PREFECT_API_URL. The workers need the checkpoint at the same path.
        environment: Changes to the evaluation's environment, such as `{"CUDA_VISIBLE_DEVICES": "7"}` for a GPU
            that the training does not use.
        stop_on_failure: Raise an error if an evaluation fails. Otherwise log a warning and continue training.
        write_timeout: Longest wait until a checkpoint is completely written, in seconds.

    Raises:
        SettingsError: If neither `benchmarks` nor `arguments` is given, or `every` is not positive.
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
            raise SettingsError("Nothing to evaluate: give `benchmarks` or `arguments`.")
        options = [word for name in benchmarks for word in ("--benchmark", name)]
        options += ["--answers", answers] if answers else []
        options += ["--limit", str(limit)] if limit is not None else []
        self.arguments = (*options, *arguments)
        self.every = every
        self.wait = wait
        self.deployment = deployment
        self.environment = dict(environment or {})
        self.stop_on_failure = stop_on_failure
        self.write_timeout = write_timeout
        self._saved = 0
        self._trainer: weakref.ref[Trainer] | None = None
        self._todo: queue.SimpleQueue[_Checkpoint | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[_Result] = queue.SimpleQueue()
        self._running: Evaluation | None = None
        self._thread: threading.Thread | None = None

    def attach(self, trainer: Trainer) -> "EvaluateCheckpoints":
        """Add this callback to a trainer, so that metrics also reach the trainer's reporters, such as MLflow.

        If it is passed in `Trainer(callbacks=[...])` instead, metrics are only added to `state.log_history`.
        """
        self._trainer = weakref.ref(trainer)
        # First, so that at the end of training the last metrics are logged before the reporters close.
        trainer.callback_handler.callbacks.insert(0, self)
        return self

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Evaluate every n-th checkpoint, now or in the background."""
        if not state.is_world_process_zero:
            return
        self._saved += 1
        if self._saved % self.every:
            return
        folder = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
        log = folder.parent / "regrade-logs" / f"{folder.name}.log"
        model = folder
        if args.save_total_limit is not None and not self.wait:
            model = _keep_if_possible(folder)
        checkpoint = _Checkpoint(state.global_step, state.epoch, folder, model, log)
        if self.wait:
            self._results.put(self._evaluate(checkpoint))
        else:
            self._queue(checkpoint)
        self._log_done(args, state, control)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Log the evaluations that have ended."""
        self._log_done(args, state, control)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Wait for the unfinished evaluations, and log them."""
        if self._thread is not None:
            self._todo.put(None)
            logger.info("waiting for unfinished evaluations of checkpoints")
            self._thread.join()
            self._thread = None
        self._log_done(args, state, control)

    def _queue(self, checkpoint: _Checkpoint) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="regrade", daemon=True)
            self._thread.start()
            # If training fails, `on_train_end` is not called.
            atexit.register(_stop, weakref.ref(self))
        self._todo.put(checkpoint)

    def _work(self) -> None:
        """Evaluate queued checkpoints one after the other."""
        while (checkpoint := self._todo.get()) is not None:
            self._results.put(self._evaluate(checkpoint))

    def _evaluate(self, checkpoint: _Checkpoint) -> _Result:
        try:
            wait_until_written(checkpoint.model, timeout=self.write_timeout)
            command = evaluation_command(checkpoint.model, self.arguments, self.deployment)
            environment = evaluation_environment(self.environment)
            self._running = Evaluation(command, environment, checkpoint.log)
            return _Result(checkpoint, self._running.metrics())
        except (RegradeError, OSError) as error:
            return _Result(checkpoint, {}, str(error))
        finally:
            if checkpoint.model != checkpoint.folder:
                drop(checkpoint.model)

    def _log_done(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl
    ) -> None:
        """Log the evaluations that have ended. Must run on the main thread, which owns the trainer's state."""
        while not self._results.empty():
            result = self._results.get()
            name = result.checkpoint.folder.name
            if result.problem:
                if self.stop_on_failure:
                    raise EvaluationFailedError(f"Evaluation of {name}: {result.problem}")
                logger.warning("%s was not evaluated: %s", name, result.problem)
                continue
            logs: dict[str, float] = dict(result.metrics)
            if result.checkpoint.epoch is not None:
                logs["epoch"] = result.checkpoint.epoch
            step = result.checkpoint.step
            state.log_history.append({**logs, "step": step})
            logger.info("%s: %s", name, logs)
            trainer = self._trainer() if self._trainer is not None else None
            if trainer is not None:
                # Reporters take the step from the state, so this state has the checkpoint's step.
                checkpoint_state = dataclasses.replace(state, global_step=step)
                # A copy of the control: `on_log` resets `should_log`, which training still needs.
                trainer.callback_handler.on_log(args, checkpoint_state, copy.copy(control), logs)


def _keep_if_possible(folder: Path) -> Path:
    """Return a folder of hard links to a checkpoint, or the checkpoint itself if it cannot be linked."""
    if find_problem(folder) is not None:
        return folder  # not completely written yet; `wait_until_written` raises if it is deleted
    try:
        return keep(folder)
    except OSError as error:
        logger.warning(
            "%s cannot be kept with hard links (%s): it is not evaluated if `save_total_limit` deletes it first. "
            "Set `wait=True` to evaluate before that.",
            folder.name,
            error,
        )
        return folder


def _stop(reference: "weakref.ref[EvaluateCheckpoints]") -> None:
    callback = reference()
    if callback is not None and callback._running is not None:
        callback._running.stop()
