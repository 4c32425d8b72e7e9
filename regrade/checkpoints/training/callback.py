"""A callback of `transformers.Trainer` that evaluates the checkpoints it saves."""

import copy
import json
import logging
import shlex
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import wraps
from glob import escape
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from pydantic import Field, create_model
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments  # noqa: TID253 - base class; a training script has imported it

from regrade.checkpoints.found import in_folder
from regrade.checkpoints.training.checkpoints import Queue
from regrade.checkpoints.training.evaluations import LOGS, EvaluationFailedError, EvaluationProcess
from regrade.jobs.job import BenchmarkChoice, harness_tasks, make_job
from regrade.settings import Between
from regrade.settings.errors import SettingsError

if TYPE_CHECKING:
    from transformers import Trainer

logger = logging.getLogger("regrade.hooks")
INTERVAL = 0.5
"""Least seconds between two looks at the evaluation, in steps of the training."""
GIVE_UP = 30.0
"""Seconds without a change after which a checkpoint that is not complete is given up."""
LONG = 30 * 24 * 3600
"""Seconds for which the evaluating process waits for the next checkpoint; it ends with the training."""
_Now = tuple[TrainingArguments, TrainerState, TrainerControl]
"""Arguments of each event."""


@contextmanager
def _training_continues() -> Iterator[None]:
    """Log any error of the block, so that it does not end the training, except for a failure that should."""
    try:
        yield
    except EvaluationFailedError:
        raise
    except Exception:  # an evaluation must not end days of training
        logger.exception("checkpoints could not be evaluated; the training continues")


def _on_first_rank(handle: Callable[["EvaluateCheckpoints"], None]) -> Callable[..., None]:
    """Return an event's method: it notes where the training is, and does its work on the rank that evaluates."""

    @wraps(handle)
    def handled(self: "EvaluateCheckpoints", *now: *_Now, **_: object) -> None:
        self._now = now
        if now[1].is_world_process_zero:
            with _training_continues():
                handle(self)

    return handled


@dataclass(eq=False, repr=False)
class EvaluateCheckpoints(TrainerCallback):
    """Evaluates every n-th saved checkpoint with `regrade evaluate --follow`, and logs the metrics at the checkpoint's step.

    One process evaluates them one after the other, with one engine where weights can be replaced, and ends with
    the training. Only the first rank starts it. A training that resumes evaluates the checkpoints that the earlier process
    did not evaluate. No error in here ends the training, except for `stop_on_failure`.

    Args:
        benchmarks: Names of benchmarks; a text is the name of one.
        answers: Answer repository. None: the default of `regrade evaluate`.
        limit: Number of questions per benchmark. None: all.
        arguments: Further arguments of `regrade evaluate`, such as `("--config", "evaluation.yaml")`.
        every: Evaluate every n-th checkpoint that is saved, also counted across resumed trainings.
        wait: Pause training while a checkpoint is evaluated. Otherwise only the end of training waits.
        between: What the engine does between checkpoints: `stay`, `end`, or `sleep` or `deep-sleep` (vLLM's levels 1 and 2).
            None: it ends if training waits for it, so that both may use the same GPU, and stays otherwise.
        environment: Changes to the evaluation's environment, such as `{"CUDA_VISIBLE_DEVICES": "7"}` for a GPU
            that the training does not use.
        max_waiting: Largest number of checkpoints that wait while another is evaluated. If there are more, the oldest is
            skipped; 0: each that is saved while another is evaluated. Each may need the disk space of a model if `save_total_limit`
            is set.
        stop_on_failure: Raise an error if an evaluation fails. Otherwise log a warning and continue training.

    Raises:
        SettingsError: If neither `benchmarks` nor `arguments` is given, a benchmark is unknown, or a value is none that its argument
            can have. What `arguments` say is checked by the first evaluation.
    """

    benchmarks: Sequence[str] = ()
    _: KW_ONLY
    answers: str | None = None
    limit: int | None = None
    arguments: Sequence[str] = ()
    every: Annotated[int, Field(ge=1)] = 1
    wait: bool = False
    between: Between | None = None
    environment: Mapping[str, str] | None = None
    max_waiting: Annotated[int, Field(ge=0)] = 4
    stop_on_failure: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be, with the checks of the job where it has the same settings."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        if not self.benchmarks and not self.arguments:
            raise SettingsError("Nothing to evaluate: give `benchmarks` or `arguments`.")
        chosen = make_job(_settings(type(self)), given | harness_tasks(given))
        for name in given:
            setattr(self, name, getattr(chosen, name))
        self.benchmarks = chosen.names  # also tasks of lm-evaluation-harness
        options = [word for name in self.benchmarks for word in ("--benchmark", name)]
        options += ["--answers", self.answers] if self.answers else []
        options += ["--limit", str(self.limit)] if self.limit is not None else []
        self.arguments = (*options, *self.arguments)
        self._saves, self._looked = 0, 0.0
        self._trainer: weakref.ref[Trainer] | None = None
        self._evaluation: EvaluationProcess | None = None
        self._now: _Now

    def attach(self, trainer: "Trainer") -> "EvaluateCheckpoints":
        """Add this callback to a trainer, so that metrics also reach the trainer's reporters, such as MLflow.

        If it is passed in `Trainer(callbacks=[...])` instead, metrics are only added to `state.log_history`.
        """
        self._trainer = weakref.ref(trainer)
        # First, so that at the end of training the last metrics are logged before the reporters close.
        trainer.callback_handler.callbacks.insert(0, self)
        return self

    @_on_first_rank
    def on_train_begin(self) -> None:
        """Evaluate the checkpoints that an earlier process of this training kept, and remove those of other trainings."""
        self._end()  # a failed training of this process
        self._saves = 0
        for folder in self._queue.places():
            if is_of(folder, self._now[1]):
                logger.info("%s is evaluated now: the training ended before that", folder.name)
            else:
                self._queue.drop(folder.name)
                logger.warning("removed '%s', which an earlier training did not evaluate", folder)
        self._look()

    @_on_first_rank
    def on_save(self) -> None:
        """Evaluate every n-th checkpoint, now or in the background."""
        if self._number_of_save() % self.every == 0:
            self._enqueue(self._queue.output / f"checkpoint-{self._now[1].global_step}")
        if self.wait:
            self._finish()
        else:
            self._look()
            self._skip()

    @_on_first_rank
    def on_step_end(self) -> None:
        """Log the evaluations that have ended."""
        if time.monotonic() - self._looked >= INTERVAL:
            self._look()

    @_on_first_rank
    def on_train_end(self) -> None:
        """Wait for the unfinished evaluations, and log them."""
        try:
            if left := self._queue.places():
                logger.info("waiting for %d unfinished evaluations of checkpoints", len(left))
            self._finish()
        finally:
            self._end(kindly=True)

    @property
    def _queue(self) -> Queue:
        return Queue(Path(str(self._now[0].output_dir)))

    @property
    def _running(self) -> str | None:
        """Name of the checkpoint that is evaluated now; None if there is none, or the process has not named one."""
        return None if self._evaluation is None else self._evaluation.running

    def _number_of_save(self) -> int:
        """Return the number of saves of this training up to now, also by processes that it resumed."""
        args, state, _ = self._now
        self._saves += 1
        if args.save_strategy == "steps":
            return ceil(state.global_step / max(state.save_steps, 1))
        return round(state.epoch or 0) if args.save_strategy == "epoch" else self._saves

    def _enqueue(self, folder: Path) -> None:
        try:
            problem = self._queue.put(folder)
        except OSError as error:
            self._log(folder.name, error=str(error))
            return
        if problem is not None and self._now[0].save_total_limit is not None and not self.wait:
            logger.warning(
                "%s cannot be kept with hard links (%s): it is not evaluated if `save_total_limit` deletes it first. "
                "Set `wait=True` to evaluate before that.",
                *(folder.name, problem),
            )

    def _finish(self) -> None:
        """Wait until the queue is empty; the engine then does what `between` says."""
        while self._queue.places():
            self._look()
            time.sleep(0.1)

    def _look(self) -> None:
        """Log what was evaluated, and start what waits. Must run on the main thread, which owns the trainer's state.

        Raises:
            EvaluationFailedError: If an evaluation failed and `stop_on_failure` is set.
        """
        self._looked = time.monotonic()
        if self._evaluation is not None:
            ended = self._evaluation.has_ended()
            for outcome in self._evaluation.outcomes():
                self._log(*outcome)
            if ended:
                self._end()
        for place in self._queue.places():
            if place.name == self._running:
                continue
            found = in_folder(place, settle=0)
            if found.waits_for is not None and found.age > GIVE_UP:
                self._log(place.name, error=found.waits_for)
            elif found.waits_for is None and self._evaluation is None:
                self._start(place)

    def _start(self, place: Path) -> None:
        """Start the process that evaluates a checkpoint and those that come after it."""
        pattern = f"{escape(str(self._queue.folder))}/checkpoint-*"
        between = self.between or ("end" if self.wait else "stay")
        words = (*self._words(pattern), "--follow", str(LONG), "--between", between)
        log = self._queue.output / LOGS / f"{place.name}.log"
        try:
            self._evaluation = EvaluationProcess(place.name, words, self.environment or {}, log)
        except OSError as error:
            self._log(place.name, error=str(error))

    def _words(self, model: str) -> tuple[str, ...]:
        return ("evaluate", "--model", model, *self.arguments)

    def _skip(self) -> None:
        """Remove the oldest checkpoints that wait if there are too many, so that results keep up with the training."""
        names = [place.name for place in self._queue.places()]
        if names:
            names.remove(self._running if self._running in names else names[0])
        for name in names[: max(0, len(names) - self.max_waiting)]:
            self._queue.drop(name)
            folder = self._queue.output / name
            logger.warning(
                "%s is not evaluated, because newer checkpoints wait (`max_waiting=%d`). %s",
                name,
                self.max_waiting,
                f"While its files exist, this command evaluates it: {shlex.join(('regrade', *self._words(str(folder))))}"
                if folder.exists()
                else "Its files no longer exist (`save_total_limit`).",
            )

    def _end(self, *, kindly: bool = False) -> None:
        """End the evaluating process, kindly by a file that tells it that no further checkpoints come."""
        if self._evaluation is not None:
            if kindly:
                self._queue.end()
                self._evaluation.has_ended(within=GIVE_UP)
            self._evaluation.end()
            self._evaluation = None
        self._queue.begin()

    def _log(
        self, name: str, metrics: Mapping[str, float] | None = None, error: str | None = None
    ) -> None:
        """Log what became of a checkpoint, and remove it from the queue.

        Raises:
            EvaluationFailedError: If the evaluation failed and `stop_on_failure` is set.
        """
        saved = state_of(self._queue.folder / name)
        self._queue.drop(name)
        if not metrics:
            if self.stop_on_failure:
                self._end()
                raise EvaluationFailedError(f"Evaluation of {name}: {error}")
            logger.warning("%s was not evaluated: %s", name, error)
            return
        if error is not None:
            logger.warning("the evaluation of %s is incomplete: %s", name, error)
        args, state, control = self._now
        step = int(name.rpartition("-")[2])
        logs = dict(metrics)
        if saved is not None and saved.epoch is not None:
            logs["epoch"] = saved.epoch
        state.log_history.append({**logs, "step": step})
        logger.info("%s: %s", name, logs)
        trainer = self._trainer() if self._trainer is not None else None
        if trainer is not None:
            # Reporters take the step from the state, so this state has the checkpoint's step.
            checkpoint_state = replace(state, global_step=step)
            with _training_continues():
                # A copy of the control: `on_log` resets `should_log`, which training still needs.
                trainer.callback_handler.on_log(args, checkpoint_state, copy.copy(control), logs)


def is_of(folder: Path, state: TrainerState) -> bool:
    """Return True if an earlier process of a training put a checkpoint into the queue, False if it is another training's.

    Args:
        folder: The checkpoint in the queue.
        state: Where the training begins: at the checkpoint or later, with a log that begins as the checkpoint's.
    """
    saved = state_of(folder)
    if saved is None or saved.global_step > state.global_step:
        return False
    begin = state.log_history[: len(saved.log_history)]
    return json.dumps(begin) == json.dumps(saved.log_history)  # as texts, because NaN != NaN


def state_of(folder: Path) -> TrainerState | None:
    """Return the state in a checkpoint, which the Trainer writes last; None if the folder is no checkpoint."""
    try:
        state: TrainerState = TrainerState.load_from_json(str(folder / "trainer_state.json"))
    except (OSError, ValueError, TypeError):  # or another version's
        return None
    return state if folder.name == f"checkpoint-{state.global_step}" else None


def _settings(callback: type[EvaluateCheckpoints]) -> type[BenchmarkChoice]:
    """Return the settings of a callback: those of a job that it has too, and others by their types."""
    types = get_type_hints(callback, include_extras=True)
    own: dict[str, Any] = {
        field.name: (types[field.name], field.default)
        for field in fields(callback)
        if field.name not in BenchmarkChoice.model_fields
    }
    return create_model(callback.__name__, __base__=BenchmarkChoice, **own)
