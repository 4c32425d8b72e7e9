"""One scoring of one answer set as it is tracked: its metrics, parameters, tags and table, all plain values."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from regrade.answers.manifest import Manifest
from regrade.stats.metrics import Metrics, SubsetMetrics, Summary

# Limits of MLflow (mlflow.utils.validation), with room for the rest of a metric's key.
MAX_PARAMETER = 6000
MAX_TAG = 8000
MAX_NAME = 180


@dataclass(frozen=True, slots=True)
class Scoring:
    """One scoring of one answer set."""

    manifest: Manifest
    revision: str
    """Commit of the answers that were scored."""
    repository: str
    """URI of the answer repository."""
    url: str | None
    """Link for people to the answer set; None for a local folder."""
    scorer: str
    version: int
    source_hash: str
    """Of the scorer's source: code that changed without a new version is another scoring."""
    summary: Summary
    seconds: Mapping[str, float]
    """Wall-clock of the stages that ran: `load`, `generate`, `publish`, `score`."""
    latency: Mapping[str, float]
    """Seconds per percentile, such as `latency_p50` and `time_to_first_token_p99`; may be empty."""
    headline: bool
    """Whether the scorer is the benchmark's first, whose accuracy stands for the benchmark."""
    suffix: str = ""
    """What the name of its files has after `<scorer>-<version>-<hash>`."""
    intact_only: str | None = None
    """Set where damaged shards were left out, such as `intact only: 3 of 4 shards`."""
    change: str | None = None
    """What an older scoring of the same answers said, in one line; None where there is none, or as logged before."""
    diff: str | None = None
    """The same as a page of markdown."""

    @property
    def label(self) -> str:
        """Name of its files."""
        return f"{self.scorer}-{self.version}-{self.source_hash}{self.suffix}"

    @property
    def identity(self) -> str:
        """What makes this scoring the same one when it is tracked again."""
        return f"{self.manifest.answer_set_id}/{self.label}"

    @property
    def model_id(self) -> str:
        """First 16 hex digits of the sha256 of the model's identity."""
        identity = self.manifest.specification.model.model_dump(mode="json")
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]

    def results(self) -> dict[str, float]:
        """Return the metrics that follow from the answers and the scorer alone, by MLflow key; what is None is left out."""
        summary = self.summary
        found: dict[str, float | None] = dict(summary.overall.model_dump())
        found["macro_accuracy"] = summary.macro_accuracy
        found |= {f"pass_at_{k}": value for k, value in summary.pass_at.items()}
        found["majority_accuracy"] = summary.majority_accuracy
        found["majority_stderr"] = summary.majority_stderr
        keys = metric_names(category.name for category in summary.categories)
        for category in summary.categories:
            for metric in ("accuracy", "accuracy_stderr", "n"):
                key = f"category/{keys[category.name]}/{metric}"
                found[key] = getattr(category.metrics, metric)
        return {key: float(value) for key, value in found.items() if value is not None}

    def timings(self) -> dict[str, float]:
        """Return the metrics that say how long it took, by MLflow key."""
        sessions = self.manifest.sessions
        seconds = sum(session.generate_seconds for session in sessions)
        found = {f"seconds/{stage}": value for stage, value in self.seconds.items()}
        found |= {f"generation/{name}": value for name, value in self.latency.items()}
        if sessions:
            found["generation/seconds"] = seconds
            found["generation/load_seconds"] = sum(session.load_seconds for session in sessions)
        for kind in ("prompt_tokens", "completion_tokens"):
            tokens = sum(getattr(session, kind) for session in sessions)
            if sessions:
                found[f"generation/{kind}"] = tokens
            if seconds > 0:
                found[f"generation/{kind}_per_second"] = tokens / seconds
        return {key: float(value) for key, value in found.items()}

    def parameters(self) -> dict[str, str]:
        """Return the flat specification with dotted keys, cut to what MLflow takes."""
        return dict(_flatten(self.manifest.specification.model_dump(mode="json")))

    def tags(self) -> dict[str, str]:
        """Return what identifies the scoring and says where its answers lie."""
        specification = self.manifest.specification
        tags = {
            "regrade.kind": "scoring",
            "regrade.scoring": self.identity,
            "regrade.answer_set": self.manifest.answer_set_id,
            "regrade.answers_created_at": self.manifest.created_at.isoformat(),
            "regrade.answers_state": self.manifest.state,
            "regrade.repository": self.repository,
            "regrade.revision": self.revision,
            "regrade.benchmark": specification.benchmark.name,
            "regrade.benchmark_version": str(specification.benchmark.version),
            "regrade.dataset_revision": specification.benchmark.source_revision,
            "regrade.model": self.model_label,
            "regrade.model_revision": specification.model.revision,
            "regrade.scorer": self.scorer,
            "regrade.scorer_version": str(self.version),
            "regrade.scorer_hash": self.source_hash,
            "regrade.headline": json.dumps(self.headline),
        }
        if self.url is not None:
            tags["regrade.url"] = self.url
        if self.intact_only is not None:
            tags["regrade.intact_only"] = self.intact_only
        if self.change is not None:
            tags["regrade.change"] = self.change
        if self.manifest.sessions:
            last = self.manifest.sessions[-1]
            engine = (last.engine, last.engine_version, last.device, last.dtype)
            tags["regrade.engine"] = " ".join(part for part in engine if part)
        return {key: cut(value, MAX_TAG) for key, value in tags.items()}

    @property
    def model_label(self) -> str:
        """Model as people read it: name, beginning of the revision, and quantization where there is one."""
        model = self.manifest.specification.model
        label = f"{model.name}@{model.revision if model.kind == 'served' else model.revision[:12]}"
        return f"{label} ({model.quantization})" if model.quantization else label

    def table(self) -> dict[str, list[Any]]:
        """Return overall, categories and subsets as the JSON that MLflow's pages show as a table."""
        rows = [("overall", SubsetMetrics(name="all", metrics=self.summary.overall))]
        rows += [("category", category) for category in self.summary.categories]
        rows += [("subset", subset) for subset in self.summary.subsets]
        # The page shows the first few columns without scrolling.
        first = ["accuracy", "accuracy_stderr", "n"]
        metrics = first + [name for name in Metrics.model_fields if name not in first]
        return {
            "columns": ["name", *metrics, "category", "level"],
            "data": [
                [row.name, *(getattr(row.metrics, name) for name in metrics), row.category, level]
                for level, row in rows
            ],
        }


def cut(text: str, limit: int) -> str:
    """Return `text`, or its beginning with a mark where it is longer than `limit` characters."""
    mark = " … (cut)"
    return text if len(text) <= limit else text[: limit - len(mark)] + mark


def metric_names(names: Iterable[str]) -> dict[str, str]:
    """Return each name as one part of an MLflow key; names that would become equal get a hash of their own."""
    given = sorted(set(names))
    safe = {name: _part(name) for name in given}
    count = Counter(safe.values())
    return {
        name: part
        if count[part] == 1
        else f"{part}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        for name, part in safe.items()
    }


def _part(name: str) -> str:
    # MLflow takes word characters, dots, dashes and blanks, and wants keys that are normal as paths.
    part = re.sub(r"\s*[^\w. -]+\s*", "_", name).strip("_ ")[:MAX_NAME]
    return part if part.strip(". ") else "_"


def _flatten(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:  # noqa: ANN401 (JSON)
    if isinstance(value, dict) and value:
        keys = metric_names(value)
        for key, inner in value.items():
            yield from _flatten(inner, (*path, keys[key]))
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield ".".join(path)[:MAX_NAME], cut(text, MAX_PARAMETER)
