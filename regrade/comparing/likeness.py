"""Check that two answer sets differ only in their model.

Known differences are refused unless allowed; values that are unknown on a side become notes.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NoReturn

from regrade.answers.manifest import Manifest
from regrade.answers.sets import AnswerSet
from regrade.judging.stored import answer_set_at, is_unchanged
from regrade.records.computed import computed_differences
from regrade.records.rubrics.facts import JudgedSet, judge_identity, judge_run
from regrade.records.rubrics.family import family_warning
from regrade.records.specification import (
    UNKNOWN,
    UNUSED_IF_GREEDY,
    Specification,
    effective_sampling,
    model_family,
)
from regrade.settings import Difference, SamplingParams
from regrade.settings.errors import SettingsError
from regrade.text.text import common_length

_AS_IMPORTED = "as imported"
_NOT_KNOWN = (None, "unknown", _AS_IMPORTED)
_SHOWN = 60
"""Longest part of a value that a message shows, in characters."""
_QUESTIONS = ("name", "version", "source", "source_revision", "config", "split", "parameters")
"""Fields of a benchmark's identity that decide its questions."""


class NotComparableError(SettingsError):
    """Two answer sets that differ in more than the model."""

    def __init__(self, problems: Sequence[str], kinds: Sequence[Difference]) -> None:
        self.problems, self.kinds = tuple(problems), tuple(kinds)
        super().__init__(self.problems, self.kinds)

    def __str__(self) -> str:
        hint = f" To compare them anyway, pass `{self._allowing()}`." if self.kinds else ""
        return f"Not comparable: {'; '.join(self.problems)}.{hint}"

    def _allowing(self) -> str:
        return " ".join(f"--allow {kind}" for kind in self.kinds)


class NotComparableInPythonError(NotComparableError):
    """The message for Python code, which has an argument `allow` instead of the command line's option."""

    def _allowing(self) -> str:
        return f"allow={list(self.kinds)}"


FoundDifference = tuple[Difference, str]
"""Kind of a difference, and the text that describes it."""


def differences(base: Manifest, candidate: Manifest) -> tuple[list[FoundDifference], list[str]]:
    """Return the differences other than the model, and notes on values that are unknown on a side."""
    known: list[FoundDifference] = []
    unknown: list[str] = []
    for kind, name, old, new in _pairs(base, candidate):
        if old == new and old != _AS_IMPORTED:
            continue
        if old in _NOT_KNOWN or new in _NOT_KNOWN:
            unknown.append(name)
        else:
            known.append((kind, f"{name}: {_apart(old, new)}"))
    notes = [f"Unknown on one side or both: {', '.join(unknown)}."] if unknown else []
    if computed := computed_otherwise(base, candidate):
        notes.append(f"Not computed alike: {'; '.join(computed)}.")
    notes += [
        f"The answers of {side.answer_set_id} were not all computed alike: {'; '.join(side.mixed)}."
        for side in (base, candidate)
        if side.mixed
    ]
    if None in (base.specification.sampling, candidate.specification.sampling):
        notes.append("Sampling params are not known in full, because answers were imported.")
    return known, notes


def check_alike(
    differing: Sequence[FoundDifference], allow: Sequence[Difference]
) -> tuple[str, ...]:
    """Return the texts of the differences, all of which are allowed.

    Raises:
        NotComparableError: If a difference is not allowed.
    """
    refused = [(kind, text) for kind, text in differing if kind not in allow]
    if refused:
        kinds = tuple(dict.fromkeys(kind for kind, _ in refused))
        raise NotComparableError([text for _, text in refused], kinds)
    return tuple(text for _, text in differing)


def _pairs(base: Manifest, candidate: Manifest) -> Iterator[tuple[Difference, str, object, object]]:
    """Yield kind, name and the two values of each property that has to be equal."""
    left, right = base.specification, candidate.specification
    imported = 0 in (left.benchmark.version, right.benchmark.version)
    if not imported:
        for name in _QUESTIONS:
            old, new = getattr(left.benchmark, name), getattr(right.benchmark, name)
            yield "questions", f"benchmark {name}", old or "none", new or "none"
    yield "prompt", "method", left.method, right.method
    for name in ("format", "template", "truncate", "cut", *(() if imported else ("labels",))):
        yield "prompt", f"prompt {name}", getattr(left.prompt, name), getattr(right.prompt, name)
    no_system = None if imported else "none"
    systems = left.prompt.system or no_system, right.prompt.system or no_system
    yield "prompt", "system message", *systems
    begun = left.prompt.prefill or no_system, right.prompt.prefill or no_system
    yield "prompt", "beginning of answers", *begun
    read_from = left.prompt.prompts or no_system, right.prompt.prompts or no_system
    yield "prompt", "package of the prompts", *read_from
    own = None if imported else "own"
    templates = left.prompt.chat_template or own, right.prompt.chat_template or own
    yield "chat_template", "chat template", *templates
    arguments = left.prompt.chat_template_args, right.prompt.chat_template_args
    for name, old, new in _differing(*arguments, unset=None if imported else "not set"):
        yield "chat_template", f"chat template argument {name}", old, new
    if model_family(left.model.name) == model_family(right.model.name):
        name = "the checkpoint's own chat template"
        yield "chat_template", name, _template_hashes(base), _template_hashes(candidate)
    yield "few_shot", "worked examples", left.prompt.n_shots, right.prompt.n_shots
    yield "sampling", "answers per question", left.repeats, right.repeats
    old_params, new_params = _sampling(left), _sampling(right)
    if (left.sampling is None) != (right.sampling is None):
        both = old_params.keys() & new_params.keys()  # what a tool did not record is not known
        old_params, new_params = ({k: side[k] for k in both} for side in (old_params, new_params))
    recorded = "" if left.sampling and right.sampling else "recorded "
    for name, old, new in _differing(old_params, new_params, unset=None):
        yield "sampling", f"{recorded}{name}", old, new


def _sampling(specification: Specification) -> dict[str, object]:
    """Return the sampling params that are known: of imported answers those that the original tool recorded, whose defaults are not known.

    Those without effect are equal for all, because version 1 of the format and other tools store them.
    """
    if specification.sampling is not None:
        params = effective_sampling(specification.sampling, specification.method).model_dump()
        return {name: "none" if value is None else value for name, value in params.items()}
    given = specification.benchmark.parameters.get("sampling")
    recorded = given if isinstance(given, dict) else {}
    found = {name: recorded[name] for name in SamplingParams.model_fields if name in recorded}
    if isinstance(found.get("stop"), list):
        found["stop"] = tuple(sorted({*map(str, found["stop"])}))
    if found.get("temperature") == 0:
        found = {name: value for name, value in found.items() if name not in UNUSED_IF_GREEDY}
    return found


def _differing(
    left: dict[str, object], right: dict[str, object], unset: str | None = "not set"
) -> Iterator[tuple[str, object, object]]:
    for name in sorted({*left, *right}):
        old, new = left.get(name, unset), right.get(name, unset)
        if old != new:
            yield name, old, new


def computed_otherwise(base: Manifest, candidate: Manifest) -> tuple[str, ...]:
    """Return differences in what the engines computed; of two models only those that are not the models' own."""
    names = (side.specification.model.name for side in (base, candidate))
    same = len(set(map(model_family, names))) == 1
    sides = ([s.computed for s in side.sessions if s.computed] for side in (base, candidate))
    found = (
        str(difference)
        for pair in product(*sides)
        for difference in computed_differences(*pair)
        if same or not difference.of_model
    )
    return tuple(dict.fromkeys(found))


def _template_hashes(manifest: Manifest) -> str | None:
    hashes = {session.chat_template_sha256 for session in manifest.sessions} - {None}
    return ", ".join(sorted(str(sha256)[:12] for sha256 in hashes)) or None


def _apart(old: object, new: object) -> str:
    """Return two values; of long ones the part in which they differ."""
    texts = [" ".join(str(value).split()) for value in (old, new)]
    fit = max(map(len, texts)) <= _SHOWN
    start = 0 if fit else max(0, common_length(*texts) - _SHOWN // 2)
    parts = [text[start : start + _SHOWN] for text in texts]
    shown = [
        f"'{'…' * bool(start)}{part}{'…' * (start + _SHOWN < len(text))}'"
        for part, text in zip(parts, texts, strict=True)
    ]
    return " against ".join(shown)


# Judge runs on two models: they are compared only if rubric and judge are the same.


def judged_model(specification: Specification) -> str:
    """Return the model of the answers; for a judge run the judged model, not the judge."""
    run = judge_run(specification)
    return specification.model.name if run is None or run.judged is None else run.judged.model


def judged_differences(
    base: AnswerSet, candidate: AnswerSet
) -> tuple[list[FoundDifference], list[str]] | None:
    """Return the differences other than the judged models, and notes, like `differences`; None if no side is a judge run.

    Raises:
        NotComparableError: If only one side is a judge run, rubric, criteria or judge differ, or judged answers were changed since.
    """
    left, right = (judge_run(answers.manifest.specification) for answers in (base, candidate))
    if left is None and right is None:
        return None
    if left is None or right is None:
        _refuse("one side has verdicts of a judge, the other has answers")
    if left.rubric.sha256 != right.rubric.sha256:
        same = left.rubric.name == right.rubric.name
        rubrics = f"two versions of rubric '{left.rubric.name}'"
        if not same:
            rubrics = f"rubric '{left.rubric.name}' and rubric '{right.rubric.name}'"
        _refuse(f"the sides were judged by {rubrics}; judge both by one")
    if left.criteria != right.criteria:
        _refuse("the sides were judged by different lists of criteria; judge both by one")
    _check_judges(base.manifest.specification, candidate.manifest.specification)
    if left.baseline != right.baseline:
        _refuse("the sides were compared with different baselines")
    found, notes = differences(_without_facts(base.manifest), _without_facts(candidate.manifest))
    if base.manifest.specification.model.told_revision == UNKNOWN:
        notes.append(
            "The judge's server did not tell its weights: both sides have one judge by its name."
        )
    warnings = (family_warning(a.manifest.specification) for a in (base, candidate))
    notes.extend(warning for warning in warnings if warning is not None)
    judged = _judged_set(base, left.judged), _judged_set(candidate, right.judged)
    if judged[0] is None or judged[1] is None:
        notes.append(
            "The judged answers are not in this repository: only the verdicts were compared."
        )
        return found, notes
    of_answers, more = differences(judged[0].manifest, judged[1].manifest)
    return [*found, *of_answers], [*notes, *more]


def _refuse(problem: str) -> NoReturn:
    raise NotComparableError([problem], ())


def _check_judges(base: Specification, candidate: Specification) -> None:
    """Refuse two judges, or one judge with different sampling, prompts or engine settings."""
    left, right = judge_identity(base.as_told), judge_identity(candidate.as_told)
    names = [f"'{side.model.name}' at {side.model.revision[:12]}" for side in (base, candidate)]
    if left.model != right.model:
        _refuse(f"the sides were judged by {names[0]} and by {names[1]}; judge both by one")
    parts = zip(left._fields, left, right, strict=True)
    if differing := [name for name, old, new in parts if old != new]:
        _refuse(
            f"the sides were judged by {names[0]}, but with different {' and '.join(differing)} settings; judge both alike"
        )


def _without_facts(manifest: Manifest) -> Manifest:
    """Return the manifest of a judge run without the fields that name the judged answers."""
    specification = manifest.specification
    changes: dict[str, Any] = {
        "parameters": {},
        "source": "",
        "source_revision": "",
        "config": None,
    }
    benchmark = specification.benchmark.model_copy(update=changes)
    alike = specification.model_copy(update={"benchmark": benchmark})
    return manifest.model_copy(update={"specification": alike})


def _judged_set(answers: AnswerSet, judged: JudgedSet | None) -> AnswerSet | None:
    """Return the judged answers of a judge run; None if they are not in its repository.

    Raises:
        NotComparableError: If they were changed since they were judged.
    """
    if judged is None:
        return None
    found = answer_set_at(answers.repository, answers.revision, judged.answer_set_id)
    if found is not None and not is_unchanged(found, judged):
        _refuse(
            f"answer set '{judged.answer_set_id}' of '{judged.model}' was changed since judge run "
            f"'{answers.manifest.answer_set_id}'; judge it again"
        )
    return found
