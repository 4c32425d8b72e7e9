"""A callback of `transformers.Trainer` that evaluates the checkpoints it saves."""

import copy
import dataclasses
import logging
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from transformers import (  # noqa: TID253 - base class; a training script has imported it
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from regrade.checkpoints.training.background import BackgroundEvaluations, Checkpoint, Result
from regrade.checkpoints.training.checkpoints import drop, find_problem, keep, wait_until_written
from regrade.checkpoints.training.evaluations import (
    Evaluation,
    EvaluationFailedError,
    evaluation_command,
    evaluation_environment,
    shown_command,
)
from regrade.checkpoints.training.resuming import LOGS, left_over, saves_until, write_saves
from regrade.settings.errors import RegradeError, SettingsError

logger = logging.getLogger("regrade.hooks")


class EvaluateCheckpoints(TrainerCallback):
    """Evaluates every n-th saved checkpoint with `regrade evaluate` and logs the metrics at the checkpoint's step.

    Evaluations run one after the other, each in a separate process, which ends with the training. Only the first rank
    starts them. A training that resumes evaluates the checkpoints that the earlier process did not evaluate. No error in
    here ends the training, except for `stop_on_failure`.

    Args:
        benchmarks: Names of benchmarks.
        answers: Answer repository. None: the default of `regrade evaluate`.
        limit: Number of questions per benchmark. None: all.
        arguments: Further arguments of `regrade evaluate`, such as `("--config", "evaluation.yaml")`.
        every: Evaluate every n-th checkpoint that is saved, also counted across resumed trainings.
        wait: Pause training while a checkpoint is evaluated. Otherwise only the end of training waits.
        deployment: Evaluate with `regrade trigger DEPLOYMENT --wait` instead, on the workers of the Prefect server at
            PREFECT_API_URL. The workers need the checkpoint at the same path.
        environment: Changes to the evaluation's environment, such as `{"CUDA_VISIBLE_DEVICES": "7"}` for a GPU
            that the training does not use.
        max_waiting: Largest number of checkpoints that wait while another is evaluated. If there are more, the oldest is
            skipped. Each may need the disk space of a model if `save_total_limit` is set.
        stop_on_failure: Raise an error if an evaluation fails. Otherwise log a warning and continue training.
        write_timeout: Longest wait until a checkpoint is completely written, in seconds.

    Raises:
        SettingsError: If neither `benchmarks` nor `arguments` is given, or a number is too small.
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
        max_waiting: int = 4,
        stop_on_failure: bool = False,
        write_timeout: float = 600.0,
    ) -> None:
        if every < 1:
            raise SettingsError(f"`every={every}` should be 1 or more.")
        if max_waiting < 0:
            raise SettingsError(f"`max_waiting={max_waiting}` should be 0 or more.")
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
        self.max_waiting = max_waiting
        self.stop_on_failure = stop_on_failure
        self.write_timeout = write_timeout
        self._saves: list[int] = []
        self._trainer: weakref.ref[Trainer] | None = None
        self._background = BackgroundEvaluations(self._evaluate, max_waiting)

    def attach(self, trainer: Trainer) -> "EvaluateCheckpoints":
        """Add this callback to a trainer, so that metrics also reach the trainer's reporters, such as MLflow.

        If it is passed in `Trainer(callbacks=[...])` instead, metrics are only added to `state.log_history`.
        """
        self._trainer = weakref.ref(trainer)
        # First, so that at the end of training the last metrics are logged before the reporters close.
        trainer.callback_handler.callbacks.insert(0, self)
        return self

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Evaluate the checkpoints that an earlier process of this training kept, and remove those of other trainings."""
        if not state.is_world_process_zero:
            return
        with _training_continues():
            self._background.stop()  # a failed training of this process
            output = Path(str(args.output_dir))
            self._saves = saves_until(output, state.global_step)
            ours, others = left_over(output, state.global_step, state.log_history)
            for folder in others:
                drop(folder)
                logger.warning(
                    "removed '%s', which an earlier training in this folder did not evaluate",
                    folder,
                )
            for checkpoint in ours:
                logger.info(
                    "%s is evaluated now: the training ended before that", checkpoint.folder.name
                )
                self._start(checkpoint)
        self._log_done(args, state, control)

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Evaluate every n-th checkpoint, now or in the background."""
        if not state.is_world_process_zero:
            return
        output = Path(str(args.output_dir))
        with _training_continues():
            self._saves.append(state.global_step)
            write_saves(output, self._saves)
        with _training_continues():
            if len(self._saves) % self.every == 0:
                folder = output / f"checkpoint-{state.global_step}"
                at_risk = args.save_total_limit is not None and not self.wait
                model = _keep_if_possible(folder, at_risk=at_risk)
                self._start(Checkpoint(state.global_step, state.epoch, folder, model))
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
        if unfinished := self._background.unfinished():
            logger.info("waiting for %d unfinished evaluations of checkpoints", unfinished)
            self._background.finish()
        self._log_done(args, state, control)

    def _start(self, checkpoint: Checkpoint) -> None:
        """Evaluate a checkpoint, now or in the background."""
        if self.wait:
            self._background.results.put(self._evaluate(checkpoint, threading.Event()))
        elif skipped := self._background.add(checkpoint):
            _drop_links(skipped)
            logger.warning(
                "%s is not evaluated, because newer checkpoints wait (`max_waiting=%d`). %s",
                skipped.folder.name,
                self.max_waiting,
                self._later(skipped.folder),
            )

    def _later(self, folder: Path) -> str:
        """Return a sentence with the command that evaluates a checkpoint later."""
        if not folder.exists():
            return "Its files no longer exist (`save_total_limit`)."
        command = shown_command(folder, self.arguments, self.deployment)
        return f"While its files exist, this command evaluates it: {command}"

    def _evaluate(self, checkpoint: Checkpoint, stop: threading.Event) -> Result:
        """Evaluate a checkpoint; never raises, except for Ctrl-C."""
        log = checkpoint.folder.parent / LOGS / f"{checkpoint.folder.name}.log"
        try:
            wait_until_written(checkpoint.model, timeout=self.write_timeout)
            command = evaluation_command(checkpoint.model, self.arguments, self.deployment)
            environment = evaluation_environment(self.environment)
            result = Result(checkpoint, Evaluation(command, environment, log).metrics(stop))
        except Exception as error:  # noqa: BLE001 - the thread has to evaluate later checkpoints; logged by `_log_done`
            result = Result(checkpoint, error=error)
        if not stop.is_set():  # otherwise the checkpoint is evaluated when the training resumes
            _drop_links(checkpoint)
        return result

    def _log_done(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl
    ) -> None:
        """Log the evaluations that have ended. Must run on the main thread, which owns the trainer's state.

        Raises:
            EvaluationFailedError: If an evaluation failed and `stop_on_failure` is set.
        """
        while not self._background.results.empty():
            result = self._background.results.get()
            if result.error is None:
                with _training_continues():
                    self._log_metrics(result, args, state, control)
                continue
            name = result.checkpoint.folder.name
            if self.stop_on_failure:
                raise EvaluationFailedError(
                    f"Evaluation of {name}: {result.error}"
                ) from result.error
            expected = isinstance(result.error, RegradeError | OSError)
            logger.warning(
                "%s was not evaluated: %s",
                name,
                result.error if expected else repr(result.error),
                exc_info=None if expected else result.error,
            )

    def _log_metrics(
        self, result: Result, args: TrainingArguments, state: TrainerState, control: TrainerControl
    ) -> None:
        logs: dict[str, float] = dict(result.metrics)
        if result.checkpoint.epoch is not None:
            logs["epoch"] = result.checkpoint.epoch
        step = result.checkpoint.step
        state.log_history.append({**logs, "step": step})
        logger.info("%s: %s", result.checkpoint.folder.name, logs)
        trainer = self._trainer() if self._trainer is not None else None
        if trainer is not None:
            # Reporters take the step from the state, so this state has the checkpoint's step.
            checkpoint_state = dataclasses.replace(state, global_step=step)
            # A copy of the control: `on_log` resets `should_log`, which training still needs.
            trainer.callback_handler.on_log(args, checkpoint_state, copy.copy(control), logs)


@contextmanager
def _training_continues() -> Iterator[None]:
    """Log any error of the block, so that it does not end the training."""
    try:
        yield
    except Exception:  # an evaluation must not end days of training
        logger.exception("checkpoints could not be evaluated; the training continues")


def _keep_if_possible(folder: Path, *, at_risk: bool) -> Path:
    """Return a folder of hard links to a checkpoint, or the checkpoint itself if it cannot be linked.

    Args:
        folder: The checkpoint.
        at_risk: Warn if it cannot be linked, because the Trainer may delete it before it is evaluated.
    """
    if find_problem(folder) is not None:
        return folder  # not completely written yet; `wait_until_written` raises if it is deleted
    try:
        return keep(folder)
    except OSError as error:
        if at_risk:
            logger.warning(
                "%s cannot be kept with hard links (%s): it is not evaluated if `save_total_limit` deletes it first. "
                "Set `wait=True` to evaluate before that.",
                folder.name,
                error,
            )
        return folder


def _drop_links(checkpoint: Checkpoint) -> None:
    if checkpoint.model != checkpoint.folder:
        drop(checkpoint.model)
