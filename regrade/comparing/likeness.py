"""Check that two answer sets differ only in their model.

Known differences are refused unless allowed; values that are unknown on a side become notes.
"""

from collections.abc import Iterator, Sequence

from regrade.answers.manifest import Manifest
from regrade.errors import SettingsError
from regrade.settings import Difference, SamplingParams
from regrade.specification import effective_sampling, model_family

_AS_IMPORTED = "as imported"
_NOT_KNOWN = (None, "unknown", _AS_IMPORTED)
_SHOWN = 60
"""Longest value shown in a message, in characters."""
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
    """The same, told to a caller that has an argument `allow`, and no command line."""

    def _allowing(self) -> str:
        return f"allow={list(self.kinds)}"


FoundDifference = tuple[Difference, str]
"""Kind of a difference, and the text that describes it."""


def differences(base: Manifest, candidate: Manifest) -> tuple[list[FoundDifference], list[str]]:
    """Return the differences beside the model, and notes on values that are unknown on at least one side."""
    known: list[FoundDifference] = []
    unknown: list[str] = []
    for kind, name, old, new in _pairs(base, candidate):
        if old == new and old != _AS_IMPORTED:
            continue
        if old in _NOT_KNOWN or new in _NOT_KNOWN:
            unknown.append(name)
        else:
            known.append((kind, f"{name}: {_short(old)} against {_short(new)}"))
    notes = [f"Unknown on one side or both: {', '.join(unknown)}."] if unknown else []
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
    for name in ("format", "template", "truncate"):
        yield "prompt", f"prompt {name}", getattr(left.prompt, name), getattr(right.prompt, name)
    no_system = None if imported else "none"
    systems = left.prompt.system or no_system, right.prompt.system or no_system
    yield "prompt", "system message", *systems
    templates = left.prompt.chat_template or "own", right.prompt.chat_template or "own"
    yield "chat_template", "chat template", *templates
    for name, old, new in _differing(
        left.prompt.chat_template_args, right.prompt.chat_template_args
    ):
        yield "chat_template", f"chat template argument {name}", old, new
    if model_family(left.model.name) == model_family(right.model.name):
        name = "the checkpoint's own chat template"
        yield "chat_template", name, _template_hashes(base), _template_hashes(candidate)
    yield "few_shot", "worked examples", left.prompt.n_shots, right.prompt.n_shots
    yield "sampling", "answers per question", left.repeats, right.repeats
    if left.sampling is not None and right.sampling is not None:
        sampling = (  # version 1 of the format kept params that cannot matter
            effective_sampling(left.sampling, left.method).model_dump(),
            effective_sampling(right.sampling, right.method).model_dump(),
        )
        for name, old, new in _differing(*sampling):
            yield "sampling", name, old, new
    # Imported answers: sampling params that the original tool recorded.
    recorded = [side.benchmark.parameters.get("sampling") for side in (left, right)]
    if isinstance(recorded[0], dict) and isinstance(recorded[1], dict):
        for name, old, new in _differing(recorded[0], recorded[1]):
            if name in SamplingParams.model_fields:
                yield "sampling", f"recorded {name}", old, new


def _differing(
    left: dict[str, object], right: dict[str, object]
) -> Iterator[tuple[str, object, object]]:
    for name in sorted({*left, *right}):
        old, new = left.get(name, "not set"), right.get(name, "not set")
        if old != new:
            yield name, old, new


def _template_hashes(manifest: Manifest) -> str | None:
    hashes = {session.chat_template_sha256 for session in manifest.sessions} - {None}
    return ", ".join(sorted(str(sha256)[:12] for sha256 in hashes)) or None


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return f"'{text}'" if len(text) <= _SHOWN else f"'{text[:_SHOWN]}…'"
