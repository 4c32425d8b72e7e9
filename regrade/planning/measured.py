"""Margins that engines measured at earlier starts, from the sessions in an answer repository."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from regrade.answers.base import Repository
from regrade.answers.manifest import Manifest, Session
from regrade.answers.opening import open_repository
from regrade.answers.sets import readable_sets
from regrade.errors import OperationError, UserError
from regrade.planning.gpus import is_device
from regrade.planning.plan import Margin, Target
from regrade.planning.request import PlanRequest
from regrade.stats.memory import gib

logger = logging.getLogger("regrade.plan")

ASSUMED_SHARE = 0.10
"""Margin without a measurement, as a share of the GPU's memory."""


@dataclass(frozen=True, slots=True)
class Start:
    """The start of an engine that measured its memory."""

    model: str
    device: str
    at: datetime
    other: int
    """Bytes of a GPU that were neither weights nor KV cache."""
    eager: bool
    """Without CUDA graphs."""


def margin_for(request: PlanRequest, model: str, target: Target) -> tuple[Margin, tuple[str, ...]]:
    """Return the margin for GPUs, and a note if earlier starts could not be read.

    Args:
        request: Its answer repository holds the earlier starts.
        model: Name of the model.
        target: The GPUs, or a CPU, which needs no margin.
    """
    if target.memory is None:
        return Margin(bytes=0, measured=False, source=_ON_CPU), ()
    earlier: list[Start] = []
    notes: tuple[str, ...] = ()
    name = target.gpu
    if name is not None:
        try:
            repository = open_repository(request.answers, create=False, empty=True)
            earlier = starts_in(repository, lambda device: is_device(name, device))
        except (OperationError, UserError) as error:
            notes = (f"Earlier starts were not read: {error}",)
            logger.warning("%s", notes[0])
    eager = request.engine.enforce_eager
    return margin_of(earlier, model=model, memory=target.memory, eager=eager), notes


_ON_CPU = "None: on a CPU the KV cache has a size of its own, between 1 and 4 GiB unless it is set."


def starts_in(repository: Repository, is_device: Callable[[str], bool]) -> list[Start]:
    """Return the measured starts in an answer repository.

    Args:
        repository: The repository; without any answers, there are none.
        is_device: Chooses by the device of a session.
    """
    revision = repository.head()
    if revision is None:
        return []
    sets, _ = readable_sets(repository, revision)
    return list(starts(((entry.manifest) for entry in sets), is_device))


def starts(manifests: Iterable[Manifest], is_device: Callable[[str], bool]) -> Iterator[Start]:
    """Yield the measured starts of sessions on a device."""
    for manifest in manifests:
        for session in manifest.sessions:
            other = None if session.memory is None else session.memory.other
            if other is not None and session.device and is_device(session.device):
                yield _start(manifest, session, session.device, other)


def _start(manifest: Manifest, session: Session, device: str, other: int) -> Start:
    return Start(
        model=manifest.specification.model.name,
        device=device,
        at=session.started_at,
        other=other,
        eager=bool(session.engine_settings.get("enforce_eager")),
    )


def margin_of(earlier: Sequence[Start], *, model: str, memory: int, eager: bool) -> Margin:
    """Return the largest measured margin, of this model if it was started before; else an assumed one.

    Args:
        earlier: Starts on this kind of GPU.
        model: Name of the model.
        memory: Memory of a GPU in bytes.
        eager: The engine is to run without CUDA graphs.
    """
    alike = [start for start in earlier if start.eager == eager]
    same = [start for start in alike if start.model == model]
    if largest := max(same or alike, key=lambda start: start.other, default=None):
        n = len(same or alike)
        of = "of this model" if same else "of other models"
        starts_text = f"the start {of}" if n == 1 else f"{n} starts {of}, the largest"
        return Margin(
            bytes=largest.other,
            measured=True,
            source=f"{gib(largest.other)} measured on {largest.device} ({starts_text}, {largest.at:%Y-%m-%d}) for activations "
            "and CUDA graphs.",
        )
    assumed = int(memory * ASSUMED_SHARE)
    return Margin(
        bytes=assumed,
        measured=False,
        source=f"{gib(assumed)} assumed ({ASSUMED_SHARE:.0%} of the GPU) for activations and CUDA graphs, which only a start "
        "can measure.",
    )
