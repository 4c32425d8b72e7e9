"""Owner side of the engine `vllm`: send requests to a worker process and receive completions."""

import base64
import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from regrade.engines.base import (
    EngineInfo,
    Growing,
    Pooled,
    PromptRendering,
    Withdrawable,
    first_requests,
    shows_images,
)
from regrade.engines.vllm_process.allowed import refuse_code
from regrade.engines.vllm_process.channel import Message
from regrade.engines.vllm_process.extra import parse_extra
from regrade.engines.vllm_process.owner import WorkerOwner
from regrade.engines.vllm_process.process import EngineProcess, take_early
from regrade.engines.vllm_process.settings import VllmSettings
from regrade.engines.vllm_process.slot import take_engine_slot
from regrade.engines.vllm_process.switching import (
    ReloadRecord,
    compared,
    keep_record,
    loaded_weights,
    read_digests,
    reason_for_new_start,
    record_path,
    reload_key,
    stored_record,
)
from regrade.models.base import ResolvedModel
from regrade.models.files import files_folder
from regrade.records import Completion, Request
from regrade.records.computed import BatchCheck, Computed
from regrade.settings.errors import EngineError, HubError, ModelError, RegradeError
from regrade.stats.occupancy import Occupancy
from regrade.stats.speed import EngineMemory, Speed

logger = logging.getLogger("regrade.generate")

# Owner side: the messages that open a worker, and requests as JSON.


def open_message(
    settings: VllmSettings, model: ResolvedModel, rendering: PromptRendering
) -> Message:
    """Return the message that opens a worker.

    Raises:
        SettingsError: If an extra argument is not `name=value`, or runs code that this machine does not allow.
    """
    extra = parse_extra(settings.extra)
    refuse_code(extra)
    if model.code_revision is not None:
        extra["code_revision"] = model.code_revision
    return {
        "type": "open",
        "model": model.path,
        "revision": model.revision,
        "adapter": model.adapter,
        "settings": settings.arguments,
        "extra": extra,
        "rendering": {"chat_template": rendering.chat_template, "truncate": rendering.truncate},
    }


def needs_hub_token(settings: VllmSettings, model: ResolvedModel) -> bool:
    """Return True if vLLM may load from the Hub, where other arguments may name a tokenizer or a draft model."""
    return model.identity.kind == "hub" or bool(settings.extra)


def to_wire(request: Request) -> dict[str, Any]:
    """Return the fields of a request as the channel takes them; images are sent before, and named by their hashes."""
    wire = {field.name: getattr(request, field.name) for field in fields(request)}
    images = [image.sha256 for image in request.images]
    return wire | {"sampling": dict(request.sampling), "images": images}


def image_messages(requests: Iterable[Request], sent: set[str]) -> Iterator[Message]:
    """Yield a message for each image of requests that is not in `sent`, which grows."""
    for request in requests:
        for image in request.images:
            if image.sha256 not in sent:
                sent.add(image.sha256)
                content = base64.b64encode(image.content).decode()
                yield {"type": "images", "images": {image.sha256: content}}


def ahead_messages(stream: int, requests: Iterable[Request], sent: set[str]) -> Iterator[Message]:
    """Yield the messages with the planned requests of a stream, each after its images that are not in `sent`, which grows."""
    left = iter(requests)
    while chunk := [*islice(left, _CHUNK_AHEAD)]:
        yield from image_messages(chunk, sent)
        yield {"type": "ahead", "stream": stream, "requests": [*map(to_wire, chunk)]}


_CHUNK = 64
"""Requests per message; small, so that the worker starts early and completions are read in between."""
_CHUNK_AHEAD = 256
"""Requests per message while the engine loads; larger, so that all cores tokenise."""

_DEEP = 2
"""vLLM's level of sleep that drops the weights."""
_GLANCE = 1.0
"""Seconds between two checks for withdrawn requests."""


class VllmProcess(WorkerOwner):
    """vLLM in a worker process; implements `Engine`."""

    def __init__(
        self,
        settings: VllmSettings,
        model: ResolvedModel,
        *,
        requests: Sequence[Iterable[Request]],
        rendering: PromptRendering,
        log: Path,
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(log, on_progress)
        self._settings, self._rendering = settings, rendering
        self._prepare(model, requests)
        self._coming: threading.Thread | None = None
        """Downloads the model that comes later."""
        self._sent: list[list[int]] = []
        """Keys of the requests of each planned stream, which the worker has tokenised."""
        self._images: set[str] = set()
        """sha256 of the images that the worker has."""
        self._info: EngineInfo | None = None
        self._digests: dict[str, str] | None = None
        """Digests of the model's files beside its weights, as they were when it was loaded."""
        self._window = 0
        self._round = 0
        self._busy = False
        self._asleep = 0
        """vLLM's level of sleep; 0: awake."""
        self._answered = False
        self._answers = 0
        """Answers to the running call of `generate`, without failed ones."""
        self._unread: deque[Message] = deque()
        """Messages of the running call that came before one that was waited for."""
        self._speed: Speed | None = None
        self.occupancy: Occupancy | None = None
        """Seconds in which it filled, was full and drained; see `MeasuredEngine`."""
        self.in_flight: int | None = None
        """Most requests in flight; None: as many as keep vLLM busy."""
        self.batches: BatchCheck | None = None
        """Result of the last `check_batches`; see `CheckedEngine`."""
        self.unanswered = 0
        """Requests that `generate` has taken and not answered yet; 0 outside of it."""

    def _prepare(self, model: ResolvedModel, requests: Sequence[Iterable[Request]]) -> None:
        """Prepare the start of a worker for a model and its requests."""
        self._open_message = open_message(self._settings, model, self._rendering)
        self._model = model
        self._from_hub = needs_hub_token(self._settings, model)
        self._planned = requests

    @property
    def info(self) -> EngineInfo:
        """Properties of the loaded engine."""
        if self._info is None:
            raise RuntimeError("the engine is not loaded: use it as a context manager")
        return self._info

    def measure(self) -> Speed | None:
        """Return measurements; see `MeasuredEngine`."""
        return self._measured() if self._busy else self._speed

    def limit(self, in_flight: int | None) -> None:
        """Set `in_flight` for the following calls of `generate`, and empty the prefix cache."""
        if self._process is None or self._busy:
            raise RuntimeError("requests in flight are limited between two calls of `generate`")
        self._send({"type": "limit", "in_flight": in_flight})
        self.in_flight = in_flight

    def check_batches(self) -> None:
        """Answer fixed prompts each alone and all together; see `CheckedEngine`."""
        if self._process is None or self._busy:
            raise RuntimeError("batches are checked between two calls of `generate`")
        self._wake()
        answer = self._swap({"type": "batches"})
        if answer["refused"] is None:
            self.batches = BatchCheck.of(answer["before"], answer["after"])
        else:
            logger.warning("batches are not checked: %s", answer["refused"])
        self.limit(self.in_flight)  # forgets the prompts

    def read_ahead(self, model: ResolvedModel) -> None:
        """Begin to read the weights of a later model; see `SwitchingEngine`."""
        if model.identity.kind == "hub":
            if self._coming is None or not self._coming.is_alive():
                self._coming = threading.Thread(
                    target=self._download, args=(model,), name="download", daemon=True
                )
                self._coming.start()
        else:
            self._read_ahead(Path(model.path))

    def _download(self, model: ResolvedModel) -> None:
        try:
            folder = files_folder(model, download=True)
        except RegradeError as error:
            logger.warning("%s is not downloaded ahead: %s", model.identity.name, error)
            return
        if folder is not None:
            self._read_ahead(folder)

    def _read_ahead(self, folder: Path) -> None:
        process = self._process
        if process is None:  # it ended while the model was downloaded
            return
        with suppress(OSError):  # an engine that has ended is noticed where it answers
            process.channel.send(
                {"type": "read_ahead", "model": str(folder), "extra": self._open_message["extra"]}
            )

    def sleep(self, *, deep: bool) -> None:
        """Give back the GPU's memory; see `SleepingEngine`.

        Weights are dropped only if it is proven that others can be read into their place.
        """
        if self._process is None or self._busy:
            raise RuntimeError("the engine sleeps between two calls of `generate`")
        folder = files_folder(self._model, download=False)
        proven = False
        if deep and folder is not None:
            quantization = self._model.identity.quantization
            record = stored_record(reload_key(self._settings, self.info, quantization, folder))
            proven = record is not None and record.same
        level = _DEEP if proven else 1
        self._checked(self._swap({"type": "sleep", "level": level}))
        self._asleep = level
        logger.info("%s sleeps (level %d)", self._model.identity.name, level)

    def _wake(self) -> None:
        """Wake up with the same weights.

        Raises:
            EngineError: If vLLM fails, or the weights in memory are not those from before it slept.
        """
        level, self._asleep = self._asleep, 0
        message: Message = {"type": "wake"}
        if level == _DEEP:
            folder = str(files_folder(self._model, download=True))
            message = {"type": "reload", "model": folder, "probe": False, "wakes": True}
        if level:
            answer = self._checked(self._swap(message))
            if self.info.weights is None or answer["weights"] != self.info.weights.memory:
                raise self._failure("its weights changed while it slept")

    def _checked(self, answer: Message) -> Message:
        if answer["refused"] is not None:
            raise self._failure(answer["refused"])
        return answer

    def switch(self, model: ResolvedModel, requests: Sequence[Iterable[Request]]) -> None:
        """Go on with another model; see `SwitchingEngine`."""
        if self._process is None or self._busy:
            raise RuntimeError("models are switched between two calls of `generate`")
        name, former = model.identity.name, self._model
        if self._coming is not None and self._coming.is_alive():
            self._progress(f"downloading {name}")
            self._coming.join()
        folder = files_folder(model, download=True)
        if former.identity.kind == "hub":  # it was being downloaded when it was loaded
            with suppress(HubError, ModelError):
                self._digests = read_digests(former, download=True)
        reason = reason_for_new_start(self._settings, former, model, self.info, self._digests)
        if any(map(shows_images, requests)):
            reason = "its questions show images, which each model's own processor reads"
        replaced: Message | None = None
        key: dict[str, Any] = {}
        if reason is None and folder is not None:
            key = reload_key(self._settings, self.info, model.identity.quantization, folder)
            record = stored_record(key)
            if record is not None and not record.same:
                reason = (
                    f"replaced weights gave other answers than a new engine ('{record_path(key)}')"
                )
            elif record is None and self._asleep == _DEEP:
                reason = "nothing is proven yet, and the former weights were dropped"
            else:
                wakes = self._asleep == _DEEP
                if not wakes:
                    self._wake()
                self._progress(f"reading the weights of {name}")
                reloading = {"type": "reload", "model": str(folder), "wakes": wakes}
                answer = self._swap({**reloading, "probe": not record})
                self._asleep = 0
                reason = answer["refused"]
                if reason is None and record is not None:
                    self._replaced(model, answer)
                    return
                replaced = answer if reason is None else None
        proof = "its answers prove on this machine that weights can be replaced"
        logger.info("%s gets a new start of the engine: %s", name, reason or proof)
        self._end()
        self._answered = False
        self._prepare(model, requests)
        self._process = self._start()
        self._open()
        if replaced is not None:
            fresh = self._swap({"type": "probe"})
            if fresh["refused"] is not None:
                logger.warning("nothing is proven about replaced weights: %s", fresh["refused"])
                return
            probes = (replaced["before"], replaced["after"], fresh["after"])
            self._prove(compared(key, self.info.dtype, *probes))

    def _swap(self, message: Message) -> Message:
        """Send a message for which the worker stops answering requests, and return its answer."""
        self._send(message)
        while (answer := self._receive())["type"] != "swapped":
            pass
        return answer

    def _replaced(self, model: ResolvedModel, answer: Message) -> None:
        self._prepare(model, self._planned)
        self._digests = read_digests(model)
        weights = loaded_weights(self._settings, model, answer["weights"], replaced=True)
        self._info = replace(
            self.info, load_seconds=answer["seconds"], compile_seconds=0.0, weights=weights
        )

    def _prove(self, record: ReloadRecord | None) -> None:
        if record is None:
            logger.info(
                "The two models answer too much alike to prove that weights can be replaced: tried again with the next one."
            )
            return
        path = keep_record(record)
        if record.same:
            logger.info(
                "Replaced weights gave the answers of a new engine (largest difference of log-probabilities %.2g): from now on "
                "models like these share an engine on this machine ('%s').",
                record.difference,
                path,
            )
            return
        logger.error(
            "Weights that were replaced in the running engine gave OTHER answers than a new engine (log-probabilities differ by "
            "%.2g%s): each model gets a start of its own on this machine. No answer was taken from them. '%s' has the "
            "figures; delete it to try again.",
            record.difference,
            ", and tokens differ" if record.tokens_differ else "",
            path,
        )

    @property
    def pid(self) -> int | None:
        """Process id of the supervisor, the root of the engine's process tree; None if it is not started."""
        return None if self._process is None else self._process.pid

    def generate(self, requests: Iterable[Request]) -> Iterator[list[Completion]]:
        """Yield completions as they finish; see `Engine.generate`."""
        process = self._process
        if process is None or self._info is None:
            raise RuntimeError("the engine is not loaded: use it as a context manager")
        if self._busy:
            raise RuntimeError(
                "the engine still serves another stream of requests: exhaust or close it first"
            )
        self._wake()
        self._busy = True
        self._round += 1
        self._speed, self.occupancy, self._answers = None, None, 0
        withdrawn: frozenset[int] = frozenset()
        try:
            take = self._source(requests)
            while True:
                if isinstance(requests, Withdrawable) and requests.withdrawn is not withdrawn:
                    new, withdrawn = requests.withdrawn - withdrawn, requests.withdrawn
                    self._send({"type": "withdraw", "round": self._round, "keys": [*new]})
                while (taken := take(min(_CHUNK, self._window - self.unanswered))).count:
                    self._send({**taken.message, "round": self._round})
                    self.unanswered += taken.count
                    if process.channel.has_message():
                        break
                if not self.unanswered:
                    self._speed = self._measured(last=True)
                    return
                if self._unread:
                    message = self._unread.popleft()
                elif isinstance(requests, Withdrawable) and not process.channel.has_message(
                    _GLANCE
                ):
                    continue  # other machines may have answered the rest
                else:
                    message = self._receive()
                if message["type"] == "completions" and message["round"] == self._round:
                    self.unanswered -= len(message["completions"])
                    completions = [
                        _from_wire(fields)
                        for fields in message["completions"]
                        if not fields.get("withdrawn")
                    ]
                    self._answers += sum(completion.error is None for completion in completions)
                    self._answered = self._answered or bool(completions)
                    yield completions
        finally:
            unanswered, self.unanswered, self._busy = self.unanswered, 0, False
            self._unread.clear()
            if unanswered and self._process is process:
                self._cancel(process)

    def _measured(self, *, last: bool = False) -> Speed | None:
        """Return the measurements of this round; None if it had no answer yet. The last ones reset them in the worker."""
        asked = {"round": self._round, "answered": self._answers, "last": last}
        self._send({"type": "measure", **asked})
        while True:
            message = self._receive()
            if message["type"] == "measured" and message["round"] == self._round:
                found = message["occupancy"]
                self.occupancy = None if found is None else Occupancy.model_validate(found)
                return Speed.model_validate(message["speed"]) if self._answers else None
            self._unread.append(message)

    def _source(self, requests: Iterable[Request]) -> "_Take":
        """Return what takes the next requests: first those that became ready, whose beginning vLLM has just computed."""
        stream = next((n for n, known in enumerate(self._planned) if known == requests), None)
        waiting = iter(requests if stream is None else ())
        take_planned: _Take | None = None
        if stream is not None:
            take_planned = _take_tokenised(stream, self._sent[stream], requests)

        def take(n: int) -> _Taken:
            found = requests.ready(n) if isinstance(requests, Growing) else ()
            if not found:
                if take_planned is not None:
                    return take_planned(n)
                found = [*islice(waiting, n)]
            for message in image_messages(found, self._images):
                self._send(message)
            return _Taken(len(found), {"type": "requests", "requests": [*map(to_wire, found)]})

        return take

    def _start(self) -> EngineProcess:
        if (early := take_early(hub_token=self._from_hub)) is not None:
            self._log = early.log
            return early
        slot = take_engine_slot(self._model.path, self._progress)
        return EngineProcess.of_worker(self._log, hub_token=self._from_hub, slot=slot)

    def _open(self) -> None:
        process, self._info, self.batches = self._running(), None, None
        self._asleep = 0
        streams = [iter(requests) for requests in self._planned]
        firsts = [[*islice(stream, 1)] for stream in streams]
        later = [
            part for pool in self._planned if isinstance(pool, Pooled) for part in pool.parts[1:]
        ]
        first = [*chain(*firsts), *first_requests(later)]
        self._images = set()
        images: dict[str, str] = {}
        for message in image_messages(first, self._images):
            images |= message["images"]
        planned = sum(len(requests) for requests in self._planned if isinstance(requests, Sized))
        self._send(
            {
                **self._open_message,
                "sample": [to_wire(request) for request in first],
                "planned": planned,
                "shows_images": any(map(shows_images, self._planned)),
                "images": images,
            }
        )
        self._sent = []
        for stream, requests in enumerate(map(chain, firsts, streams)):
            keys: list[int] = []
            self._sent.append(keys)
            for message in ahead_messages(stream, requests, self._images):
                self._send(message)
                keys += (request["key"] for request in message.get("requests", ()))
                while process.channel.has_message():
                    self._receive()
        self._send({"type": "load"})
        self._digests = read_digests(self._model)  # while it loads
        while (message := self._receive())["type"] != "loaded":
            pass
        info = message["info"]
        parsed = {
            "memory": EngineMemory.model_validate(info["memory"]),
            "computed": Computed.model_validate(info["computed"]),
            "weights": loaded_weights(self._settings, self._model, info["weights"]),
        }
        self._info = EngineInfo(**(info | parsed))
        self._window = message["window"]

    def _cancel(self, process: EngineProcess) -> None:
        try:
            process.channel.send({"type": "cancel", "round": self._round})
        except OSError:
            self._end()  # the worker has ended

    def _failure(self, reason: str) -> EngineError:
        when = "did not start" if self._info is None else "ended before its work was done"
        return EngineError(f"The engine {when}: {reason}.", str(self._log), self._answered)


@dataclass(frozen=True, slots=True)
class _Taken:
    """Requests to send next: their number, and the message about them."""

    count: int
    message: Message


_Take = Callable[[int], _Taken]
"""Takes up to n requests."""


def _take_tokenised(stream: int, keys: Sequence[int], requests: Iterable[Request]) -> _Take:
    """Take requests of a planned stream, which the worker has already, except withdrawn ones."""
    first = 0

    def take(n: int) -> _Taken:
        nonlocal first
        withdrawn = requests.withdrawn if isinstance(requests, Withdrawable) else frozenset()
        begin = first
        skipped: list[int] = []
        while first < len(keys) and first - begin - len(skipped) < n:
            if keys[first] in withdrawn:
                skipped.append(first - begin)
            first += 1
        passed = first - begin
        message = {"type": "tokenised", "stream": stream, "first": begin, "count": passed}
        return _Taken(passed - len(skipped), message | ({"skipped": skipped} if skipped else {}))

    return take


def _from_wire(fields: Mapping[str, Any]) -> Completion:
    values: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in fields.items()}
    for name in ("label_logprobs", "token_logprobs"):
        if name in values:  # JSON has no infinity: orjson writes null.
            values[name] = tuple(-math.inf if value is None else value for value in values[name])
    return Completion(**values)
