"""A scoring of an answer set for MLflow: metrics, parameters, tags and table, as plain values."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regrade.answers.figures import FIGURES
from regrade.answers.manifest import Manifest
from regrade.answers.scorefile import ScoreFile
from regrade.records.rubrics.facts import JudgedSet, answering_model, judge_run
from regrade.records.specification import ModelIdentity
from regrade.settings.view_address import view_address
from regrade.stats.metrics import Metrics, SubsetMetrics

# Limits of MLflow in characters (mlflow.utils.validation); MAX_NAME leaves room for the rest of a metric's key.
MAX_PARAMETER = 6000
MAX_TAG = 8000
MAX_NAME = 180
MAX_KEY = 250


_GROUPS = re.compile(
    r"(category|generation|other|bias)/|corrected(_low|_high)?(/|$)|(macro|majority|pass_at_\d+)(_|$)"
)
"""Metrics whose names depend on the answers, their repeats and people's labels."""


@dataclass(frozen=True, slots=True)
class Scoring:
    """A scoring as plain values for MLflow's process, where a `Result` cannot go: its repository has connections and locks."""

    manifest: Manifest
    file: ScoreFile
    revision: str
    """Commit of the scored answers."""
    repository: str
    """URI of the answer repository."""
    url: str | None
    """Link to the page of the answer set; None for a local folder."""
    latency: Mapping[str, float]
    """Seconds per percentile, such as `latency_p50` and `time_to_first_token_p99`; may be empty."""
    figures: Mapping[str, float]
    """Figures of the answers and this scoring, by MLflow key."""
    publish_seconds: float = 0.0
    """Wall-clock seconds of publishing the answers in this run."""
    cost: float | None = None
    """Price of all tokens of the answers; None: not known."""
    calibration: str | None = None
    """Figure corrected by people's labels in one line, or `uncalibrated`; None for scorings without a judge and labels."""
    judged: Mapping[str, float] = field(default_factory=dict)
    """The corrected figure and the ends of its interval, and signs of a judge's bias, by name."""
    change: str | None = None
    """Change from an earlier scoring of the same answers, in one line. None: no such scoring, or as logged before."""
    diff: str | None = None
    """The change as a page of markdown."""
    examples: Sequence[Mapping[str, Any]] = ()
    """Wrong answers, with the same names in each; empty for withheld questions."""

    @property
    def identity(self) -> str:
        """Key that finds the run of this scoring when it is tracked again. Changed code of a scorer is another scoring."""
        return f"{self.manifest.answer_set_id}/{self.file.label}"

    @property
    def model(self) -> ModelIdentity:
        """The evaluated model: of a judge's verdicts the model whose answers are judged."""
        return answering_model(self.manifest.specification)

    @property
    def _judged(self) -> JudgedSet | None:
        run = judge_run(self.manifest.specification)
        return None if run is None else run.judged

    @property
    def _engine(self) -> Mapping[str, Any]:
        return self._judged.engine if self._judged else self.manifest.specification.engine

    @property
    def benchmark(self) -> str:
        """Name of the benchmark; of a judge's verdicts with the judge, so that those of several judges stay apart."""
        specification = self.manifest.specification
        name = specification.benchmark.name
        return f"{name} by {specification.model.name}" if self._judged else name

    @property
    def model_id(self) -> str:
        """First 16 hex digits of the sha256 of the model's identity and of the engine settings that change its answers."""
        identity = self.model.model_dump(mode="json")
        if self._engine:
            identity["engine"] = dict(self._engine)
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]

    def results(self) -> dict[str, float]:
        """Return the metrics that depend only on answers and scorer, by MLflow key; None values are left out."""
        summary = self.file.summary
        metrics: dict[str, float | None] = dict(summary.overall.model_dump())
        metrics |= summary.averages()
        keys = metric_names(category.name for category in summary.categories)
        for category in summary.categories:
            for metric in ("accuracy", "accuracy_stderr", "n"):
                key = f"category/{keys[category.name]}/{metric}"
                metrics[key] = getattr(category.metrics, metric)
        others = self.file.other_results
        keys = metric_names(name for result in others for name in (result.subset, result.name))
        for result in others:
            path = "/".join(keys[name] for name in (result.subset, result.name) if name)
            metrics[f"other/{path}"] = result.value
            metrics[f"other/{path}_stderr"] = result.stderr
        metrics |= self.judged
        return {key: float(value) for key, value in metrics.items() if value is not None}

    def owns(self, metric: str) -> bool:
        """Return True for a metric that regrade logs, also if it has no value now; people may add others to a run."""
        names = {*Metrics.model_fields, *(figure.key for figure in FIGURES)}
        return metric in names or _GROUPS.match(metric) is not None

    def timings(self) -> dict[str, float]:
        """Return durations in seconds, token counts and tokens per second, by MLflow key."""
        sessions = self.manifest.sessions
        metrics = {**self.figures, "seconds/publish": self.publish_seconds}
        metrics |= {f"generation/{name}": value for name, value in self.latency.items()}
        if sessions and (speed := sessions[-1].speed) is not None:
            metrics |= {f"generation/{name}": value for name, value in speed.scalars().items()}
        if self.cost is not None:
            metrics["generation/cost"] = self.cost
        return {key: float(value) for key, value in metrics.items()}

    def parameters(self) -> dict[str, str]:
        """Return the specification flattened to dotted keys, cut to MLflow's limits."""
        return dict(_flatten(self.manifest.specification.model_dump(mode="json")))

    def tags(self) -> dict[str, str]:
        """Return the tags that identify the scoring and its answers."""
        specification = self.manifest.specification
        answer_set = self.manifest.answer_set_id
        tags: dict[str, str | None] = {
            "regrade.kind": "scoring",
            "regrade.scoring": self.identity,
            "regrade.answer_set": answer_set,
            "regrade.answers_created_at": self.manifest.created_at.isoformat(),
            "regrade.answers_state": self.manifest.state,
            "regrade.repository": self.repository,
            "regrade.revision": self.revision,
            "regrade.benchmark": self.benchmark,
            "regrade.benchmark_version": str(specification.benchmark.version),
            "regrade.dataset_revision": specification.benchmark.source_revision,
            "regrade.model": self.model_label,
            "regrade.model_revision": self.model.revision,
            **adapter_tags(self.model),
            "regrade.judge": specification.model.name if self._judged else None,
            "regrade.scorer": self.file.scorer,
            "regrade.scorer_version": str(self.file.version),
            "regrade.scorer_hash": self.file.source_hash,
            "regrade.headline": json.dumps(self.file.is_headline(self.manifest.scorers)),
            "regrade.url": self.url,
            "regrade.view": view_address(self.repository, answer_set),
            "regrade.intact_only": self.file.intact_only,
            "regrade.calibration": self.calibration,
            "regrade.change": self.change,
        }
        if self.manifest.sessions:
            last = self.manifest.sessions[-1]
            engine = (last.engine, last.engine_version, last.device, last.dtype)
            tags["regrade.engine"] = " ".join(part for part in engine if part)
        return {key: cut(value, MAX_TAG) for key, value in tags.items() if value is not None}

    @property
    def start_time(self) -> int:
        """Milliseconds since 1970 at which the work began: the first session, or the import of the answers."""
        sessions = self.manifest.sessions
        started = sessions[0].started_at if sessions else self.manifest.created_at
        return int(started.timestamp() * 1000)

    def duration(self, track_seconds: float) -> int:
        """Milliseconds that all stages took."""
        stages = (seconds for key, seconds in self.timings().items() if key.startswith("seconds/"))
        return round(1000 * (sum(stages) + track_seconds))

    def examples_table(self) -> dict[str, list[Any]]:
        """Return the wrong answers in the JSON format of MLflow's tables."""
        names = list(self.examples[0]) if self.examples else []
        return {"columns": names, "data": [list(example.values()) for example in self.examples]}

    @property
    def model_label(self) -> str:
        """Name of the model with the start of its revision and its adapter's, quantization and engine settings if any."""
        model = self.model
        label = f"{model.name}@{model.revision if model.kind == 'served' else model.revision[:12]}"
        if model.adapter is not None:
            label += f"+{model.adapter.revision[:12]}"
        engine = [f"{name}={value}" for name, value in self._engine.items()]
        notes = [*filter(None, [model.quantization]), *engine]
        return f"{label} ({', '.join(notes)})" if notes else label

    def table(self) -> dict[str, list[Any]]:
        """Return the metrics overall, by category and by subset, in the JSON format of MLflow's tables."""
        rows = [("overall", SubsetMetrics(name="all", metrics=self.file.summary.overall))]
        rows += [("category", category) for category in self.file.summary.categories]
        rows += [("subset", subset) for subset in self.file.summary.subsets]
        # The page shows only the first few columns without scrolling.
        first = ["accuracy", "accuracy_stderr", "n"]
        metrics = first + [name for name in Metrics.model_fields if name not in first]
        return {
            "columns": ["name", *metrics, "category", "level"],
            "data": [
                [row.name, *(getattr(row.metrics, name) for name in metrics), row.category, level]
                for level, row in rows
            ],
        }


def adapter_tags(model: ModelIdentity) -> dict[str, str]:
    """Return the tag with the revision of the model's adapter, if it has one."""
    return {"regrade.adapter_revision": model.adapter.revision} if model.adapter else {}


def cut(text: str, limit: int) -> str:
    """Return `text`, cut and marked if it is longer than `limit` characters."""
    mark = " … (cut)"
    return text if len(text) <= limit else text[: limit - len(mark)] + mark


def metric_part(name: str) -> str:
    """Return a name as a part of a metric's key in MLflow."""
    # MLflow accepts word characters, dots, dashes and blanks, and keys that are normalised paths.
    words = (words.strip() for words in re.split(r"[^\w. -]+", name))
    part = "_".join(words).strip("_ ")[:MAX_NAME]
    return part if part.strip(". ") else "_"


def metric_names(names: Iterable[str], form: Callable[[str], str] = metric_part) -> dict[str, str]:
    """Return a key of MLflow, or a part of one, for each name; names that would become equal get a hash appended."""
    safe = {name: form(name) for name in sorted(set(names))}
    count = Counter(safe.values())
    return {
        name: key
        if count[key] == 1
        else f"{key[: MAX_KEY - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        for name, key in safe.items()
    }


def _flatten(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:  # noqa: ANN401 (JSON)
    if isinstance(value, dict) and value:
        keys = metric_names(value)
        for key, inner in value.items():
            yield from _flatten(inner, (*path, keys[key]))
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield ".".join(path)[:MAX_NAME], cut(text, MAX_PARAMETER)
