"""The client of the engine `openai`: sends many requests to a server at the same time."""

import asyncio
import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from itertools import islice
from typing import Any, Self, TypeVar

from prometheus_client.parser import text_string_to_metric_families

from regrade.engines.base import EngineInfo, Growing, PromptRendering, Withdrawable
from regrade.engines.openai_api import bodies
from regrade.engines.openai_api.meter import ClientMeter
from regrade.engines.openai_api.reading import read_answer
from regrade.engines.openai_api.settings import ServerSettings
from regrade.engines.openai_api.transport import RefusedError, Server, concerns_prompt
from regrade.models.base import ResolvedModel
from regrade.models.chat_template import OPEN_THOUGHTS
from regrade.models.served import reachable
from regrade.records import Completion, LabelMethod, Request, Structure
from regrade.records.computed import Computed
from regrade.settings.errors import SettingsError
from regrade.stats.occupancy import Occupancy
from regrade.stats.speed import OtherSide, Speed

# Means of a vLLM server's own measurements, from its Prometheus metrics before and after the requests.

_HISTOGRAMS = {
    "ttft": "vllm:time_to_first_token_seconds",
    "tpot": "vllm:request_time_per_output_token_seconds",
    "e2el": "vllm:e2e_request_latency_seconds",
}
"""vLLM's histogram of each latency (https://docs.vllm.ai/en/stable/usage/metrics/)."""

Totals = Mapping[str, tuple[float, float]]
"""Sum in seconds and number of values of each latency, since the server was started."""


def read_totals(text: str, model: str) -> Totals | None:
    """Return the totals of a model, over all engines of the server.

    Args:
        text: Answer of the server's `/metrics`.
        model: Name under which the server serves it.

    Returns:
        None if a histogram is missing: it is no vLLM server, or one of another version.

    Raises:
        ValueError: If the text is not in Prometheus' format.
    """
    totals: dict[str, list[float]] = {}
    names = {
        f"{metric}{part}": (latency, position)
        for latency, metric in _HISTOGRAMS.items()
        for position, part in enumerate(("_sum", "_count"))
    }
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in names and sample.labels.get("model_name") == model:
                latency, position = names[sample.name]
                totals.setdefault(latency, [0.0, 0.0])[position] += sample.value
    if totals.keys() != _HISTOGRAMS.keys():
        return None
    return {latency: (total, count) for latency, (total, count) in totals.items()}


def measured_between(before: Totals | None, after: Totals | None) -> OtherSide | None:
    """Return the server's means of the requests between two readings; None without any, or if the server was restarted."""
    if before is None or after is None:
        return None
    sums = {name: after[name][0] - before[name][0] for name in after}
    counts = {name: after[name][1] - before[name][1] for name in after}
    if counts["e2el"] < 1 or min(*counts.values(), *sums.values()) < 0:
        return None
    means = {name: sums[name] / counts[name] for name in sums if counts[name]}
    return OtherSide(by="engine", requests=round(counts["e2el"]), **means)


_TOPS = (20, 5, 1)
"""Numbers of likeliest tokens to request: vLLM's limit, OpenAI's limit, the minimum."""

_GLANCE = 1.0
"""Seconds between two checks for withdrawn requests."""

_SAME_REFUSALS = 8
"""First requests that all fail with one refusal, after which a run ends."""

_T = TypeVar("_T")

logger = logging.getLogger("regrade.generate")


class OpenAIClient:
    """A served model; implements `Engine`. Requests run in an event loop on a separate thread."""

    def __init__(
        self,
        settings: ServerSettings,
        model: ResolvedModel,
        *,
        rendering: PromptRendering,
        structure: Structure | None = None,
    ) -> None:
        """Prepare the client.

        Args:
            settings: Addresses and limits.
            model: The served model.
            rendering: Rules by which prompts are rendered.
            structure: Form of a planned answer; None if no planned answer has a form.

        Raises:
            SettingsError: If prompts should be cut.
        """
        if rendering.truncate:
            raise SettingsError(
                "`prompt.truncate` needs the model's tokenizer, which only engine 'vllm' has. Do not set it: "
                "the server rejects prompts that are too long, and their rows fail with its message."
            )
        self._settings = settings
        self._model = model
        self._structure = structure
        self._chat: bodies.Body = {}
        if rendering.chat_template is not None:
            self._chat["chat_template"] = rendering.chat_template
        self._info: EngineInfo | None = None
        self._is_vllm = model.served_by == "vllm"
        self._ending_known = False
        self._stops_thoughts = False
        self._batch_size = settings.batch_size
        self._chosen: Counter[str] = Counter()
        """Number of the body that `_post_first` sends, of those that it is given, by the field for which others were refused."""
        self._renamed: dict[str, str] = {}
        self._not_sent: dict[str, str] = {}
        self._is_tried = False
        self._meter = ClientMeter()
        self._before: Totals | None = None
        self._busy = False
        self._speed: Speed | None = None
        self.in_flight: int | None = None
        """Most requests in flight; None: `max_concurrency`."""
        self.unanswered = 0
        """Requests that `generate` has taken and not answered yet; 0 outside of it."""

    def measure(self) -> Speed | None:
        """Return measurements; see `MeasuredEngine`."""
        if self._busy:
            return self._meter.speed(measured_between(self._before, self._totals()))
        return self._speed

    @property
    def occupancy(self) -> Occupancy | None:
        """The same seconds, of the requests of this client in flight; see `MeasuredEngine`."""
        return self._meter.occupancy()

    @property
    def info(self) -> EngineInfo:
        """Properties that the server reports, and with its first answer also what it refuses."""
        if self._info is None:
            raise RuntimeError("the engine is not open: use it as a context manager")
        return self._info

    def limit(self, in_flight: int | None) -> None:
        """Set `in_flight` for the following calls of `generate`. The prefix cache is the server's, and stays."""
        self.in_flight = in_flight

    def __enter__(self) -> Self:
        started, settings = time.monotonic(), self._settings
        urls = reachable(settings.base_urls, settings.api_key_env)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="openai", daemon=True)
        self._thread.start()
        self._server = self._run(_connect(settings, urls))
        form = bodies.structure_body(self._structure, is_vllm=self._is_vllm, chat=True)
        self._info = EngineInfo(
            engine="openai",
            version=self._run(self._server.version()),
            device=None,
            dtype=None,
            max_model_len=self._model.max_position_embeddings,
            chat_template_sha256=None,
            load_seconds=time.monotonic() - started,
            structured_outputs=next(iter(form), None),
            computed=None
            if self._model.fingerprint is None
            else Computed(fingerprint=self._model.fingerprint),
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._info = None
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def generate(self, requests: Iterable[Request]) -> Iterator[list[Completion]]:
        """Yield completions as they finish; see `Engine.generate`."""
        finished: queue.SimpleQueue[Future[list[Completion]]] = queue.SimpleQueue()
        in_flight = self.in_flight or self._settings.max_concurrency
        slots = asyncio.Semaphore(in_flight)
        # More than are in flight, so that the server has work while the caller is busy.
        window = 3 * in_flight * self._batch_size
        groups = self._groups(requests)
        running: dict[Future[list[Completion]], list[Request]] = {}
        withdrawn: frozenset[int] = frozenset()
        self._before, self._meter = self._totals(), ClientMeter()
        held: list[list[Completion]] = []
        self._busy, self._speed = True, None
        try:
            while True:
                while self.unanswered < window and (group := _next_group(requests, groups)):
                    self.unanswered += len(group)
                    answering = self._answer_in_turn(group, slots)
                    future = asyncio.run_coroutine_threadsafe(answering, self._loop)
                    running[future] = group
                    future.add_done_callback(finished.put)
                if not running:
                    yield from held
                    self._speed = self.measure()
                    return
                if isinstance(requests, Withdrawable):
                    if requests.withdrawn is not withdrawn:
                        withdrawn = requests.withdrawn
                        for future, group in list(running.items()):
                            if all(request.key in withdrawn for request in group):
                                future.cancel()
                    try:
                        future = finished.get(timeout=_GLANCE)
                    except queue.Empty:
                        continue  # other machines may have answered the rest
                else:
                    future = finished.get()
                self.unanswered -= len(running.pop(future))
                if future.cancelled():
                    continue
                held.append(future.result())
                if not self._is_tried:
                    answered = any(answer.error is None for answer in held[-1])
                    if not answered and sum(map(len, held)) < _SAME_REFUSALS:
                        continue
                    _check_refusals(held)
                    self._is_tried = True
                yield from held
                held.clear()
        finally:
            self._busy, self.unanswered = False, 0
            for future in running:
                future.cancel()

    def _totals(self) -> Totals | None:
        """Return the totals of a vLLM server's own measurements, if it shows them."""
        text = self._run(self._server.metrics()) if self._is_vllm else None
        try:
            return None if text is None else read_totals(text, self._model.path)
        except ValueError:
            return None

    def _groups(self, requests: Iterable[Request]) -> Iterator[list[Request]]:
        """Yield groups of requests that can share an HTTP request: completion prompts with equal options."""
        waiting = iter(requests)
        while chunk := list(islice(waiting, self._batch_size)):
            groups: dict[Any, list[Request]] = {}
            for request in chunk:
                groups.setdefault(self._batch_key(request), []).append(request)
            yield from groups.values()

    def _batch_key(self, request: Request) -> object:
        sampling = request.sampling
        if not isinstance(request.prompt, str) or sampling.temperature > 0 or request.stored:
            return request.key  # an HTTP request has one chat, one seed, and one stored answer
        form = None if request.structure is None else repr(request.structure)
        return (request.labels, sampling.model_copy(update={"seed": 0}), form)

    async def _answer_in_turn(
        self, group: list[Request], slots: asyncio.Semaphore
    ) -> list[Completion]:
        async with slots:
            started, meter = time.monotonic(), self._meter
            meter.begin(len(group), full=slots.locked())
            tokens = 0
            try:
                answers = await self._answer(group)
                tokens = sum((a.prompt_tokens or 0) + (a.completion_tokens or 0) for a in answers)
                return answers
            finally:
                meter.end(len(group), time.monotonic() - started, tokens)

    async def _answer(self, group: list[Request]) -> list[Completion]:
        """Return a completion for each request; if the server rejects the group, send each request alone."""
        try:
            if group[0].stored:
                return [await read_answer(group[0], self._server, self._model.path)]
            return await (self._rank if group[0].labels else self._generate)(group)
        except (RefusedError, RecursionError) as problem:
            error = problem
            if isinstance(error, RecursionError):  # a message repeats the response
                error = RefusedError(None, "The server's response is nested too deeply.")
            if len(group) == 1:
                # A vLLM server may be started again with a longer context; others state the model's own.
                permanent = error.too_long and not self._is_vllm
                fields = bodies.prompt_fields(group[0])
                return [Completion(**fields, error=error.message, error_permanent=permanent)]
        completions = [c for request in group for c in await self._answer([request])]
        if all(completion.error is None for completion in completions):
            self._batch_size = 1  # the server rejects lists of prompts
        return completions

    async def _generate(self, group: list[Request]) -> list[Completion]:
        body = bodies.sampling_body(group[0].sampling, is_vllm=self._is_vllm)
        body |= bodies.structure_body(
            group[0].structure, is_vllm=self._is_vllm, chat=not isinstance(group[0].prompt, str)
        )
        started = time.monotonic()
        response = await self._post_generating(group, body)
        latency = time.monotonic() - started
        usage = (response.get("usage") or {}) if len(group) == 1 else {}
        choices = bodies.ordered_choices(response, len(group))
        times = [bodies.chunk_times(response, choice, latency) for choice in choices]
        completions = [
            bodies.completion(request, choice, usage, at)
            for request, choice, at in zip(group, choices, times, strict=True)
        ]
        for answer, at in zip(completions, times, strict=True):
            self._meter.add(at, answer.completion_tokens)
        return completions

    async def _post_generating(self, group: Sequence[Request], body: bodies.Body) -> dict[str, Any]:
        """Request answers. Stop texts end the answer after the reasoning of a chat, never the reasoning itself."""
        may_stop_thought = "stop" in body and not isinstance(group[0].prompt, str)
        if not may_stop_thought or not (self._stops_thoughts or group[0].reasons):
            response = await self._post_streaming(group, body)
            if not may_stop_thought or not bodies.is_stopped_thought(response):
                return response
            self._stops_thoughts = True  # a server applies stop texts to the reasoning as well
        whole = {name: value for name, value in body.items() if name != "stop"}
        return await self._post_streaming(group, whole)

    async def _rank(self, group: list[Request]) -> list[Completion]:
        """Rank labels by the likeliest first tokens; if a label is missing, by echoing prompt and label."""
        started = time.monotonic()
        await self._refuse_open_thought(group[0])
        chat = not isinstance(group[0].prompt, str)
        tops = [bodies.ranking_body(top, chat=chat) for top in _TOPS]
        response = await self._post_first(group, tops, "logprobs")
        ranked = []
        for request, choice in zip(
            group, bodies.ordered_choices(response, len(group)), strict=True
        ):
            logprobs = bodies.label_logprobs(choice, request.labels)
            method: LabelMethod = "single_token"
            if logprobs is None:
                logprobs, method = await self._rank_by_echo(request), "per_choice"
            ranked.append((request, logprobs, method))
        latency = time.monotonic() - started
        return [
            Completion(
                **bodies.prompt_fields(request),
                label_logprobs=logprobs,
                label_method=method,
                latency=latency,
            )
            for request, logprobs, method in ranked
        ]

    async def _refuse_open_thought(self, request: Request) -> None:
        """Refuse to rank labels if the server's chat template opens a thought; asked once, of vLLM's server only.

        Raises:
            SettingsError: If it does.
        """
        if self._ending_known or not self._is_vllm or isinstance(request.prompt, str):
            return
        body = {"model": self._model.path, **self._chat_fields(request)}
        ending = await self._server.prompt_ending(body)
        if ending is not None and ending.endswith(OPEN_THOUGHTS):
            raise SettingsError(
                f"The server's chat template opens a thought ('{ending[-20:]}'), where letters would be ranked. Use "
                "`prompt.thinking=off` if the template can switch it off, else `prompt.format=completion`."
            )
        self._ending_known = True

    async def _rank_by_echo(self, request: Request) -> tuple[float, ...]:
        missing = (
            f"The server returns only the {_TOPS[self._chosen['logprobs']]} likeliest tokens, and the labels {list(request.labels)} are "
            "not all among them"
        )
        if not isinstance(request.prompt, str):
            raise RefusedError(
                None, f"{missing}. A chat prompt cannot be echoed: use `prompt.format=completion`."
            )
        prompts = [request.prompt + label for label in request.labels]
        body = {"model": self._model.path, "prompt": prompts, **bodies.ECHO_BODY}
        try:
            response = await self._server.post("completions", body)
        except RefusedError as error:
            raise RefusedError(
                error.status, f"{missing}. Echoing the prompt failed: {error}"
            ) from error
        choices = bodies.ordered_choices(response, len(prompts))
        logprobs = [
            bodies.echoed_logprob(choice, label)
            for choice, label in zip(choices, request.labels, strict=True)
        ]
        if any(logprob is None for logprob in logprobs):
            raise RefusedError(
                None, f"{missing}. The server echoes prompts without log-probabilities."
            )
        return tuple(logprob for logprob in logprobs if logprob is not None)

    async def _post_first(
        self, group: Sequence[Request], alternatives: Sequence[bodies.Body], field: str
    ) -> dict[str, Any]:
        """Send the first of some bodies that the server does not refuse for a field; none of those before is sent again."""
        while True:
            number = self._chosen[field]
            try:
                return await self._post(group, alternatives[number])
            except RefusedError as error:
                is_last = number + 1 == len(alternatives)
                if error.status not in (400, 422) or field not in error.message or is_last:
                    raise
                self._chosen[field] = max(self._chosen[field], number + 1)

    async def _post_streaming(self, group: Sequence[Request], body: bodies.Body) -> dict[str, Any]:
        """Request a streamed answer, so that the timeout begins anew with each piece."""
        alternatives = [body | streaming for streaming in bodies.STREAMING]
        return await self._post_first(group, alternatives, "stream")

    async def _post(self, group: Sequence[Request], body: bodies.Body) -> dict[str, Any]:
        """Send a request without the fields that the server refuses, which its first refusal of each shows."""
        while True:
            sent = {
                self._renamed.get(name, name): value
                for name, value in body.items()
                if name not in self._not_sent
            }
            try:
                response = await self._send(group, sent)
            except RefusedError as error:
                field = bodies.refused_field(error, sent)
                if field is None:
                    raise
                self._leave_out(field, sent[field], error)
                continue
            self._learned()
            return response

    def _leave_out(self, field: str, value: object, error: RefusedError) -> None:
        if field in self._renamed or field in self._not_sent:
            return  # another request in flight was refused before
        if field in bodies.RENAMED:
            self._renamed[field] = bodies.RENAMED[field]
            logger.info("'%s' is sent instead of '%s': %s", bodies.RENAMED[field], field, error)
            return
        # Seeds and stop texts are different for each request.
        self._not_sent[field] = field if field in ("seed", "stop") else f"{field} {value}"
        logger.warning(
            "%s is not sent any more, so that %s; this is stored with the answers (%s)",
            self._not_sent[field],
            "answers are cut here" if field == "stop" else "the server's own value is in effect",
            error,
        )

    def _learned(self) -> None:
        """Note what the server takes, now that it has answered."""
        not_sent = tuple(map(str, self._not_sent.values()))
        known = self.info.computed or Computed()
        if known.not_sent != not_sent:
            self._info = replace(
                self.info, computed=known.model_copy(update={"not_sent": not_sent})
            )

    async def _send(self, group: Sequence[Request], body: bodies.Body) -> dict[str, Any]:
        body = {"model": self._model.path, **body}
        if not isinstance(group[0].prompt, str):
            return await self._server.post("chat/completions", body | self._chat_fields(group[0]))
        prompts = [request.prompt for request in group]
        body["prompt"] = prompts if len(prompts) > 1 else prompts[0]
        return await self._server.post("completions", body)

    def _chat_fields(self, request: Request) -> bodies.Body:
        """Return the fields of a body that make up a chat."""
        messages = bodies.messages_body(request)
        arguments = dict(request.template_arguments)
        switched = {"chat_template_kwargs": arguments} if arguments else {}
        tools = {"tools": [dict(tool) for tool in request.tools]} if request.tools else {}
        return {"messages": messages, **tools, **switched, **self._chat}

    async def _close(self) -> None:
        unfinished = asyncio.all_tasks() - {asyncio.current_task()}
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        await self._server.close()

    def _run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


def _next_group(
    requests: Iterable[Request], groups: Iterator[list[Request]]
) -> list[Request] | None:
    """Return what became ready, else the next group; None if nothing can be sent now."""
    grown = requests.ready(1) if isinstance(requests, Growing) else ()
    return [*grown] or next(groups, None)


def _check_refusals(held: Sequence[Sequence[Completion]]) -> None:
    """End a run whose first requests were all refused for the same reason, which does not lie in the question.

    Raises:
        SettingsError: If they were.
    """
    errors = [completion.error for batch in held for completion in batch]
    if errors[0] is not None and len({*errors}) == 1 and not concerns_prompt(errors[0]):
        raise SettingsError(
            f"The first {len(errors)} requests all failed in the same way, so that no more are sent, and none of them is stored: "
            f"{errors[0]}"
        )


async def _connect(settings: ServerSettings, urls: Sequence[str]) -> Server:
    # A coroutine, because aiohttp's session belongs to the event loop that creates it.
    return Server(settings, urls)
