"""An answer repository in a notebook: answer sets, answers, comparisons and subsets as pandas frames."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regrade.answers.opening import open_repository
from regrade.answers.scorefile import ScoreFile
from regrade.comparing.gate_report import BenchmarkVerdict
from regrade.comparing.likeness import NotComparableError, NotComparableInPythonError
from regrade.comparing.models import Comparison
from regrade.comparing.verdict import judge
from regrade.jobs.job import make_job
from regrade.notebook.frames import answers_frame, pairs_frame, sets_frame, subsets_frame
from regrade.notebook.plots import comparison_axes, set_axes, steps_axes
from regrade.pages.viewer.filters import PairFilters
from regrade.pages.viewer.index import AnswerIndex, with_scores
from regrade.pages.viewer.library import Library, StoredSet
from regrade.pages.viewer.pair_index import Pairing
from regrade.records.rubrics.facts import answering_model
from regrade.records.specification import model_family
from regrade.scorers import stored_name
from regrade.scoring.score import score_answers
from regrade.settings import Difference, GateSettings
from regrade.settings.errors import SettingsError
from regrade.settings.view_address import default_answers

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class ComparedAnswers:
    """Two answer sets, compared question by question."""

    rows: "pd.DataFrame"
    """A row for each compared question: `change` (such as `right to wrong`), the values of both sides, what was read, target."""
    comparison: Comparison
    """The numbers of `regrade compare`: difference, interval, p-value, subsets, notes."""
    verdict: BenchmarkVerdict
    """Verdict of `regrade gate` for the accepted drop: `verdict.verdict` is pass, regression or cannot tell."""

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the change of each subset, or both accuracies if there are no subsets; return the axes.

        Args:
            ax: Axes to draw on. None: those of a new figure.
        """
        return comparison_axes(self.comparison, ax)

    def __repr__(self) -> str:
        """Models, difference with interval, and the verdict in one line."""
        found = self.comparison
        scale, judged = found.scale, f", {found.calibration}" if found.calibration else ""
        interval = (
            f"{scale.difference_text(found.low)} to {scale.difference_text(found.high)}{judged}"
        )
        return (
            f"{found.benchmark}: {found.candidate.model} against {found.base.model}, {scale.difference_text(found.difference)} points "
            f"({interval}), {found.right_to_wrong:,} right to wrong, {found.wrong_to_right:,} wrong to right of "
            f"{found.n:,}; {self.verdict.verdict}: {self.verdict.reason}"
        )


def open_answers(answers: str | None = None, *, at: str | None = None) -> "Answers":
    """Open an answer repository at a commit; everything read of it is as of that commit.

    Args:
        answers: `hf://datasets/ORG/NAME` or a folder. None: `REGRADE_ANSWERS`, else the folder `answers`.
        at: Branch, tag or commit. None: the newest commit.

    Raises:
        RepositoryError: If the repository or the revision does not exist.
        HubError: If the Hub does not answer.
    """
    library = Library(open_repository(answers or default_answers(), create=False))
    return Answers(library, library.shelf(at).revision)


class Answers:
    """An answer repository at one commit; `regrade.open` makes it.

    An answer set is named by its id (the first four digits or more), or by a model or alias if that means a single set.
    """

    def __init__(self, library: Library, revision: str) -> None:
        self._library, self._revision = library, revision
        self._pairing = Pairing()

    @property
    def revision(self) -> str:
        """Commit that everything is read from, as 40 hex digits."""
        return self._revision

    @property
    def uri(self) -> str:
        """Address of the repository."""
        return self._library.repository.uri

    def sets(self, *, model: str | None = None, benchmark: str | None = None) -> "pd.DataFrame":
        """Return a row for each answer set: settings that distinguish sets, headline accuracy with error, interval and n.

        Damaged sets and scorings are left out, with a warning that names them.

        Args:
            model: Only models with this text in their name.
            benchmark: Only this benchmark.
        """
        shelf = self._library.shelf(self.revision)
        damaged = [*shelf.damaged, *(error for stored in shelf.sets for error in stored.damaged)]
        for error in damaged:
            warnings.warn(f"left out: {error}", stacklevel=2)
        chosen = [
            stored
            for stored in shelf.sets
            if (model or "").casefold() in _model(stored).casefold()
            and benchmark in (None, stored.answers.manifest.specification.benchmark.name)
        ]
        return sets_frame(self._library, chosen)

    def read(
        self, answer_set: str, *, scorer: str | None = None, texts: bool = False
    ) -> "pd.DataFrame":
        """Return a row for each answer: outcome, value, what was read, target, tokens, seconds.

        `value` is in [0, 1]; NaN means that it is missing, which is not wrong. A warning says if the scores are stale;
        `attrs` of the frame names answer set, commit and scorer.

        Args:
            answer_set: Answer set.
            scorer: Scorer, or a function in a file (`path/to/file.py:name`); scored now if no up-to-date scores are stored,
                without storing them. None: the stored headline scoring.
            texts: Add the columns `question`, `prompt`, `answer` and `thought`. Questions that must not be published are None.

        Raises:
            RepositoryError: If there is no such answer set.
            SettingsError: If there are several, or the scorer does not fit these answers.
            DamagedAnswersError: If answers or scores are damaged.
        """
        stored = self._find(answer_set)
        index = self._index(stored, scorer)
        frame = answers_frame(index, self._library.readers, texts=texts)
        frame.attrs = {
            "answer_set": stored.id,
            "revision": self.revision,
            "scorer": None if index.scoring is None else index.scoring.title,
        }
        return frame

    def subsets(self, answer_set: str, *, scorer: str | None = None) -> "pd.DataFrame":
        """Return a row for each subset with its metrics, the lowest accuracy first; parameters and errors as in `read`."""
        return subsets_frame(self._scoring(self._find(answer_set), scorer).summary)

    def compare(
        self,
        base: str,
        candidate: str,
        *,
        scorer: str | None = None,
        allow: Sequence[Difference] = (),
        max_drop: float = 1.0,
        texts: bool = False,
    ) -> ComparedAnswers:
        """Compare two answer sets question by question, as `regrade compare` and `regrade gate` do.

        Args:
            base: Answer set of the baseline.
            candidate: Answer set to compare with it.
            scorer: Scorer of both sides. None: the baseline's first.
            allow: Differences beside the model to accept, such as `prompt`.
            max_drop: Accepted drop of the verdict, in percentage points.
            texts: Add the columns `question`, `base_answer` and `candidate_answer`.

        Raises:
            NotComparableError: If more than the model differs, and `allow` does not list it.
            RepositoryError: If there is no such answer set.
            SettingsError: If there are several.
            DamagedAnswersError: If answers are damaged.
        """
        settings = make_job(GateSettings, {"max_drop": max_drop})
        sides = self._find(base), self._find(candidate)
        try:
            pair = self._pairing.of(*sides, PairFilters(allow=tuple(allow), scorer=scorer))
        except NotComparableError as error:
            raise NotComparableInPythonError(error.problems, error.kinds) from None
        comparison = pair.compared.comparison
        name = comparison.benchmark
        [verdict] = judge({name: pair.compared}, {name: max_drop / 100}, settings)
        rows = pairs_frame(pair, *sides, self._library.readers, texts=texts)
        return ComparedAnswers(rows, comparison, verdict)

    def plot(
        self, answer_set: str, *, scorer: str | None = None, ax: "Axes | None" = None
    ) -> "Axes":
        """Draw the accuracy of each subset with its interval; return the axes.

        Args:
            answer_set: Answer set.
            scorer: As in `read`.
            ax: Axes to draw on. None: those of a new figure.
        """
        stored = self._find(answer_set)
        return set_axes(stored, self._scoring(stored, scorer), ax)

    def plot_steps(
        self,
        model: str,
        *,
        benchmark: str | None = None,
        sets: Sequence[str] | None = None,
        ax: "Axes | None" = None,
    ) -> "Axes":
        """Draw the accuracy of a training's checkpoints over their steps, a line for each benchmark; return the axes.

        Args:
            model: Name that the checkpoints share: `my-run` for `my-run/checkpoint-500`.
            benchmark: Only this benchmark.
            sets: Only these answer sets.
            ax: Axes to draw on. None: those of a new figure.

        Raises:
            SettingsError: If there are no such checkpoints, or several sets of one checkpoint.
        """
        chosen = None if sets is None else {self._find(name).id for name in sets}
        found = [
            stored
            for stored in self._library.shelf(self.revision).sets
            if model_family(_model(stored)) == model
            and benchmark in (None, stored.answers.manifest.specification.benchmark.name)
            and (chosen is None or stored.id in chosen)
        ]
        return steps_axes(model, found, ax)

    def __repr__(self) -> str:
        """Address and commit."""
        return f"<regrade.Answers {self.uri} at {self.revision[:12]}>"

    def _find(self, name: str) -> StoredSet:
        found = self._library.named(name, self._library.shelf(self.revision))
        if len(found) > 1:
            listed = ", ".join(f"{stored.id} ({stored.benchmark})" for stored in found)
            raise SettingsError(f"'{name}' has several answer sets: {listed}. Give the id of one.")
        return found[0]

    def _index(self, stored: StoredSet, scorer: str | None) -> AnswerIndex:
        if scorer is None:
            return self._library.index(stored, _headline(stored))
        if (file := _fresh(stored, scorer)) is not None:
            return self._library.index(stored, file)
        scored = score_answers(stored.answers, scorer)
        if scored.table is None:
            return self._library.index(stored, scored.file)
        plain = self._library.index(stored, None)
        return with_scores(plain, stored.answers, scored.file, scored.table)

    def _scoring(self, stored: StoredSet, scorer: str | None) -> ScoreFile:
        if scorer is not None:
            return _fresh(stored, scorer) or score_answers(stored.answers, scorer).file
        headline = _headline(stored)
        if headline is None:
            raise SettingsError(
                f"Answer set '{stored.id}' is not scored: {stored.manifest.to_score()}. Or name a `scorer`."
            )
        return headline


def _headline(stored: StoredSet) -> ScoreFile | None:
    """Return the scoring shown by default, with a warning if it is stale.

    Raises:
        DamagedAnswersError: If a scoring is damaged: it may be the one that gives the headline.
    """
    if stored.damaged:
        raise stored.damaged[0]
    file = stored.headline
    if file is not None and file.label in stored.stale:
        warnings.warn(
            f"The scores of answer set '{stored.id}' are stale: {file.title}. `regrade.score(stale=True)` replaces them; "
            f"`scorer='{file.scorer}'` scores now.",
            stacklevel=4,
        )
    return file


def _fresh(stored: StoredSet, scorer: str) -> ScoreFile | None:
    """Return the newest stored scoring by a scorer that is not stale, or None."""
    name = stored_name(scorer)
    files = [f for f in stored.scorings if f.scorer == name and f.label not in stored.stale]
    return max(files, key=lambda file: file.scored_at, default=None)


def _model(stored: StoredSet) -> str:
    return answering_model(stored.answers.manifest.specification).name
