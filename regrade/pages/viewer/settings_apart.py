"""Settings that tell answer sets of one benchmark apart."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from regrade.answers.manifest import Manifest
from regrade.records.specification import UNKNOWN

_SHORT = {
    "model.revision": 12,
    "model.adapter.revision": 12,
    "benchmark.source_revision": 12,
    "prompt.chat_template": 12,
}
"""Characters shown of hashes."""
_OF_ONE_MODEL = ("model.", "benchmark.source", "benchmark.parameters.")
_JUDGED = "benchmark.parameters.judge_run.judged."
_JUDGED_SET = f"{_JUDGED}answer_set_id"
MAX_VALUE = 40


def settings_apart(manifests: Sequence[Manifest]) -> list[dict[str, str]]:
    """Return, for each answer set, the settings in which sets of its benchmark differ, by name.

    The names of model and benchmark are left out, because they have columns of their own. Settings of the model, and of the
    source of the questions, only tell sets of one model apart. A setting of the engine that was left to it is what its sessions
    recorded, if they did.
    """
    flat = [
        dict(_flatten(manifest.specification.model_dump(mode="json"))) for manifest in manifests
    ]
    by_benchmark: dict[str, list[int]] = defaultdict(list)
    for place, manifest in enumerate(manifests):
        by_benchmark[manifest.specification.benchmark.name].append(place)
    found: list[dict[str, str]] = [{} for _ in manifests]
    for places in by_benchmark.values():
        names = dict.fromkeys(name for place in places for name in flat[place])
        titles = Counter(map(_title, names))
        for name in names:
            title = _title(name) if titles[_title(name)] == 1 else name
            if name in ("model.name", "benchmark.name", "specification_version", "model.kind"):
                continue
            if name.startswith(_JUDGED) and name != _JUDGED_SET:
                continue  # the id of the judged answers stands for all of it
            of_model = name.startswith(_OF_ONE_MODEL)
            values: dict[str, dict[int, str]] = defaultdict(dict)
            for place in places:
                model = flat[place]["model.name"] if of_model else ""
                values[model][place] = flat[place].get(name) or _unset(name, manifests[place])
            for group in values.values():
                if len(set(group.values())) > 1:
                    for place, value in group.items():
                        found[place][title] = _short(name, value)
    return found


def _unset(name: str, manifest: Manifest) -> str:
    """Return what stands for a setting that a set does not have."""
    if manifest.specification.model.kind == "imported":
        return UNKNOWN
    group, _, setting = name.partition(".")
    if group != "engine":
        return "none"
    recorded = [record for session in manifest.sessions for record in (session, session.computed)]
    used = (getattr(record, setting, None) for record in recorded)
    return " and ".join(dict.fromkeys(str(value) for value in used if value)) or "default"


def _flatten(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - JSON
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flatten(inner, (*path, str(key)))
    elif value is not None:
        yield ".".join(path), str(value)


def _title(name: str) -> str:
    """Return the name without its group."""
    if name == _JUDGED_SET:
        return "judged"
    return re.sub(r"^(sampling|engine|benchmark)\.(parameters\.)?(judge_run\.)?", "", name)


def _short(name: str, value: str) -> str:
    limit = _SHORT.get(name, MAX_VALUE)
    line = " ".join(value.split())
    return (
        line if len(line) <= limit else line[: limit - (limit > 20)] + ("…" if limit > 20 else "")
    )
