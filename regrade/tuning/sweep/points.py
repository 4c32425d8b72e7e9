"""Points of a sweep: an evaluation each, in its own repository, ordered by the engine that serves them.

Engine settings that change only speed are not part of an answer set's id, so that in one repository a point would find the
answers of another one and generate nothing.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Annotated, Any, Self

import orjson
from pydantic import Field, model_validator

from regrade.engines.base import PromptRendering
from regrade.jobs.job import EvaluationJob, make_job
from regrade.settings.errors import SettingsError
from regrade.settings.files import path_of
from regrade.settings.marks import FIRST, NO_OPTION, NOT_MEASURED, SAME_ANSWERS, marked
from regrade.tuning.sweep.axes import Axis, grid, with_values

IN_FLIGHT = "in_flight"
_HUB = "hf://datasets/"
_OF_POINT = re.compile(r"/sweeps/[0-9a-f]{12}(/|$)")
"""Matches the folder of a sweep, or of a point."""
_LONGEST = 64
"""Longest name of a point's folder, in characters."""
_LONGEST_ON_HUB = 96
"""Longest name of a repository on the Hub, without its owner."""


class PointJob(EvaluationJob):
    """The evaluation of a model at a point."""

    lacks = (NOT_MEASURED,)


class SweepJob(PointJob):
    """An evaluation for each point of a grid of settings."""

    in_flight: Annotated[tuple[Annotated[int, Field(ge=1)], ...], FIRST, NO_OPTION] = Field(
        (), title="Requests in flight"
    )
    """Numbers of requests at a time. Empty: as many as the engine takes."""
    axes: Annotated[tuple[Axis, ...], FIRST, NO_OPTION] = Field((), title="Settings that vary")
    """Further settings, each with its values; all combinations are measured, the first one is compared with."""

    @model_validator(mode="after")
    def _varies(self) -> Self:
        if len(set(self.in_flight)) < len(self.in_flight):
            raise ValueError("requests in flight: a number is given twice")
        settings = [axis.setting for axis in self.axes]
        if twice := [setting for setting in settings if settings.count(setting) > 1]:
            raise ValueError(f"axis '{twice[0]}' is given twice: give its values together")
        if getattr(self.engine, "tuned", False):
            raise ValueError(
                "`engine.tuned`: a sweep measures the settings that it is given. Leave it out, and give those that `regrade "
                "tune` found as options"
            )
        if max([len(self.in_flight), *(len(axis.values) for axis in self.axes)]) < 2:
            raise ValueError(
                "nothing varies: give a setting at least two values, such as `--in-flight 1,4,16`"
            )
        return self

    @model_validator(mode="after")
    def _values_fit(self) -> Self:
        for point in self.points():
            point.job()
        return self

    @property
    def sweep_id(self) -> str:
        """Id of the sweep, 12 hex digits: the same command continues it, another one begins anew."""
        left_out = {*marked(SweepJob, SAME_ANSWERS)}
        content = self.model_dump(mode="json", exclude_unset=True, exclude=left_out)
        canonical = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(canonical).hexdigest()[:12]

    @property
    def folder(self) -> str | None:
        """Folder of the sweep's points and its page; None if the answers are on the Hub."""
        if self.answers.startswith(_HUB):
            return None
        return f"{self.answers.rstrip('/')}/sweeps/{self.sweep_id}"

    def points(self) -> "list[SweepPoint]":
        """Return the points; requests in flight vary fastest, because they need no new engine."""
        shared = self.model_dump(exclude_unset=True, include={*EvaluationJob.model_fields})
        shared["engine"] = {"kind": self.engine.kind, **shared.get("engine", {})}
        points: list[SweepPoint] = []
        for values in grid(self.axes):
            for in_flight in self.in_flight or (None,):
                settings = {**values, **({} if in_flight is None else {IN_FLIGHT: str(in_flight)})}
                name = _folder_name(settings)
                if name in {point.folder for point in points}:
                    name = _cut(f"{name}-{_digest(settings)}", _digest(settings))
                address = f"{self.folder}/{name}" if self.folder else self._on_hub(name)
                parameters = with_values(shared, values) | {"answers": address}
                if _is_greedy(values) and "repeats" not in values:
                    parameters.pop("repeats", None)
                points.append(
                    SweepPoint(len(points), settings, in_flight, name, address, parameters)
                )
        return points

    def _on_hub(self, name: str) -> str:
        """Return the address of a point's repository on the Hub, which has no repositories inside others."""
        owner, _, repository = self.answers.rstrip("/").rpartition("/")
        whole = f"{repository}-sweep-{self.sweep_id}-{name}"
        digest = hashlib.sha256(whole.encode()).hexdigest()[:12]
        return f"{owner}/{_cut(whole, digest, _LONGEST_ON_HUB)}"


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """A combination of settings."""

    number: int
    settings: dict[str, str]
    """Values of the axes, with the requests in flight last."""
    in_flight: int | None
    """Most requests at a time; None: as many as the engine takes by itself."""
    folder: str
    """Name of the point in paths and in tables of files."""
    answers: str
    """Address of the point's answer repository."""
    parameters: dict[str, Any]

    @property
    def name(self) -> str:
        """Name for people, such as `max_num_batched_tokens=16384, in_flight=4`."""
        return named(self.settings)

    def job(self) -> PointJob:
        """Return the evaluation of this point."""
        return make_job(PointJob, self.parameters)

    @property
    def engine_start(self) -> bytes:
        """Settings that need an engine of their own; points with equal ones share a start, if their models may."""
        rendering = {
            field.name: (self.parameters.get("prompt") or {}).get(field.name)
            for field in fields(PromptRendering)
        }
        of_engine = [self.parameters.get("engine"), rendering]
        return orjson.dumps(of_engine, option=orjson.OPT_SORT_KEYS)


def short(setting: str) -> str:
    """Return the last part of a setting's name."""
    return setting.rpartition(".")[2]


def named(settings: Mapping[str, str]) -> str:
    """Return settings with their values as text."""
    return ", ".join(f"{short(name)}={value}" for name, value in settings.items())


def starts(points: Sequence[SweepPoint]) -> list[list[SweepPoint]]:
    """Return the points by the engine start that may serve them, in the order of their first points; those of a model together."""
    groups: dict[bytes, dict[str, list[SweepPoint]]] = {}
    for point in points:
        models = groups.setdefault(point.engine_start, {})
        models.setdefault(point.parameters["model"], []).append(point)
    return [[*chain.from_iterable(models.values())] for models in groups.values()]


def check_address(job: SweepJob) -> None:
    """Refuse an answer repository that is the point of a sweep.

    Raises:
        SettingsError: If it is one.
    """
    place = job.answers if job.folder is None else str(path_of(job.answers).absolute())
    if _OF_POINT.search(place):
        raise SettingsError(
            f"`--answers {job.answers}` is a point of another sweep. Name the repository above `sweeps`: this sweep gets a "
            "folder of its own in it."
        )


def _is_greedy(values: Mapping[str, str]) -> bool:
    """Return True for a point whose own temperature is 0: its answers to a question would all be equal, so that one is enough."""
    try:
        return float(values.get("sampling.temperature", "nan")) == 0
    except ValueError:  # such as `default`
        return False


def _folder_name(settings: dict[str, str]) -> str:
    """Return a name for paths and for the Hub, which allows no `--` and `..`."""
    parts = [f"{short(setting)}-{_plain(value)}" for setting, value in settings.items()]
    return _cut("_".join(parts), _digest(settings))


def _plain(value: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9.]+", "-", value.rstrip("/").rpartition("/")[2])
    return re.sub(r"\.{2,}", ".", plain).strip("-.") or "empty"


def _cut(name: str, digest: str, most: int = _LONGEST) -> str:
    return name if len(name) <= most else f"{name[: most - 1 - len(digest)].rstrip('-._')}-{digest}"


def _digest(settings: dict[str, str]) -> str:
    return hashlib.sha256(orjson.dumps(settings)).hexdigest()[:6]
