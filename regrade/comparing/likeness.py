"""What differs between two answer sets beside the model: known differences are refused, unknown ones are told."""

from collections.abc import Iterator, Sequence

from regrade.answers.manifest import Manifest
from regrade.errors import SettingsError
from regrade.settings import Difference, SamplingParams, Settings
from regrade.specification import model_family

_AS_IMPORTED = "as imported"
_NOT_KNOWN = (None, "unknown", _AS_IMPORTED)
_SHOWN = 60


class NotComparableError(SettingsError):
    """Two answer sets that differ in more than the model."""

    def __init__(self, problems: Sequence[str], kinds: Sequence[Difference]) -> None:
        self.problems, self.kinds = tuple(problems), tuple(kinds)
        super().__init__(self.problems, self.kinds)

    def __str__(self) -> str:
        flags = " ".join(f"--allow {kind}" for kind in self.kinds)
        hint = f" If that is meant, say `{flags}`." if flags else ""
        return f"Not comparable: {'; '.join(self.problems)}.{hint}"


Found = tuple[Difference, str]


def differences(base: Manifest, candidate: Manifest) -> tuple[list[Found], list[str]]:
    """Return what differs beside the model, and what is known of one side at most.

    Args:
        base: Manifest of the baseline's answer set.
        candidate: Manifest of the candidate's.

    Returns:
        Differences as kind and sentence, and notes.
    """
    found: list[Found] = []
    unknown: list[str] = []
    for kind, name, old, new in _pairs(base, candidate):
        if old == new and old != _AS_IMPORTED:
            continue
        if old in _NOT_KNOWN or new in _NOT_KNOWN:
            unknown.append(name)
        else:
            found.append((kind, f"{name}: {_short(old)} against {_short(new)}"))
    notes = [f"Not known of both sides: {', '.join(unknown)}."] if unknown else []
    if None in (base.specification.sampling, candidate.specification.sampling):
        notes.append("Sampling params are not known in full, as of imported answers.")
    return found, notes


def check_alike(found: Sequence[Found], allow: Sequence[Difference]) -> tuple[str, ...]:
    """Return the differences that are meant.

    Raises:
        NotComparableError: If there are others.
    """
    others = [one for one in found if one[0] not in allow]
    if others:
        kinds = tuple(dict.fromkeys(kind for kind, _ in others))
        raise NotComparableError([text for _, text in others], kinds)
    return tuple(text for _, text in found)


def _pairs(base: Manifest, candidate: Manifest) -> Iterator[tuple[Difference, str, object, object]]:
    """Yield kind, name and the two values of everything that has to be the same."""
    one, two = base.specification, candidate.specification
    imported = 0 in (one.benchmark.version, two.benchmark.version)
    if not imported:
        for name in (
            "name",
            "version",
            "source",
            "source_revision",
            "config",
            "split",
            "parameters",
        ):
            old, new = getattr(one.benchmark, name), getattr(two.benchmark, name)
            yield "questions", f"benchmark {name}", old or "none", new or "none"
    yield "prompt", "method", one.method, two.method
    for name in ("format", "template", "truncate"):
        yield "prompt", f"prompt {name}", getattr(one.prompt, name), getattr(two.prompt, name)
    no_system = None if imported else "none"
    systems = one.prompt.system or no_system, two.prompt.system or no_system
    yield "prompt", "system message", systems[0], systems[1]
    yield (
        "chat_template",
        "chat template",
        one.prompt.chat_template or "own",
        two.prompt.chat_template or "own",
    )
    for name, old, new in _differing(one.prompt.chat_template_args, two.prompt.chat_template_args):
        yield "chat_template", f"chat template argument {name}", old, new
    if model_family(one.model.name) == model_family(two.model.name):
        templates = [_own_templates(manifest) for manifest in (base, candidate)]
        yield "chat_template", "the checkpoint's own chat template", templates[0], templates[1]
    yield "few_shot", "worked examples", one.prompt.n_shots, two.prompt.n_shots
    yield "sampling", "answers per question", one.repeats, two.repeats
    for name, old, new in _sampling(one.sampling, two.sampling):
        yield "sampling", name, old, new
    recorded = [side.benchmark.parameters.get("sampling") for side in (one, two)]
    if isinstance(recorded[0], dict) and isinstance(
        recorded[1], dict
    ):  # by the tool that was imported from
        for name, old, new in _differing(recorded[0], recorded[1]):
            if name in SamplingParams.model_fields:
                yield "sampling", f"recorded {name}", old, new


def _sampling(one: Settings | None, two: Settings | None) -> Iterator[tuple[str, object, object]]:
    if one is not None and two is not None:
        yield from _differing(one.model_dump(), two.model_dump())


def _differing(
    one: dict[str, object], two: dict[str, object]
) -> Iterator[tuple[str, object, object]]:
    for name in sorted({*one, *two}):
        old, new = one.get(name, "not set"), two.get(name, "not set")
        if old != new:
            yield name, old, new


def _own_templates(manifest: Manifest) -> str | None:
    hashes = {one.chat_template_sha256 for one in manifest.sessions} - {None}
    return ", ".join(sorted(str(one)[:12] for one in hashes)) or None


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return f"'{text}'" if len(text) <= _SHOWN else f"'{text[:_SHOWN]}…'"
