"""Worker side: tokenise the planned requests, if possible while the model loads, and choose its context length."""

import pickle
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from regrade.engines.vllm_process.channel import Message
from regrade.engines.vllm_process.context import Need, check_memory, choose_max_model_len
from regrade.engines.vllm_process.prompts import Prepared, Prompts, WireRequest
from regrade.settings.errors import SettingsError

# Worker side: the owner's planned requests, tokenised before the model is loaded.
# Their lengths determine the context. The token ids are sent to vLLM later; until then they are in a
# temporary file, so that memory does not grow with the number of requests.


@dataclass(slots=True)
class RequestsSummary:
    """Properties of the planned requests that decide how the model is loaded."""

    requests: int = 0
    longest: Need | None = None
    """Most tokens for prompt and answer together, of a request that can be answered."""
    most_new: Need | None = None
    """Most tokens for an answer."""
    conversation: int = 0
    """Most tokens of a conversation whose answers are all as long as they may be."""
    sampled: bool = False
    """A request has a temperature above 0."""
    ranked: bool = False
    """A request ranks labels."""
    passes: bool = False
    """A request ranks labels in separate passes, which share the context through the prefix cache."""
    budgeted: bool = False
    """A request has a budget for its reasoning."""
    structured: bool = False
    """An answer has a form."""
    structured_after_reasoning: bool = False
    """An answer has a form, and free reasoning before it."""
    most_images: int = 0
    """Most images of a prompt."""
    first_error: str | None = None

    @property
    def needs(self) -> list[Need]:
        """The needs that decide the context; empty if no request can be answered."""
        return [need for need in (self.longest, self.most_new) if need is not None]

    def within(self, limit: int) -> list[Need]:
        """Return the needs with the room of the longest conversation, as far as the model's limit allows it.

        Answers are rarely as long as they may be: turns beyond the limit fail alone.
        """
        if self.longest is None or not self.conversation:
            return self.needs
        whole = max(self.longest.total, min(self.conversation, limit))
        return [*self.needs, Need(whole - self.longest.new, self.longest.new)]

    def add(self, request: Prepared) -> None:
        """Count a request."""
        self.requests += 1
        structured = request.structure is not None
        self.sampled |= request.sampling["temperature"] > 0
        self.ranked |= bool(request.ranking)
        self.passes |= request.passes > 1
        self.budgeted |= request.sampling.get("thinking_token_budget") is not None
        self.structured |= structured
        self.structured_after_reasoning |= structured and request.reasons
        self.most_images = max(self.most_images, len(request.shown))
        if request.error is not None:
            self.first_error = self.first_error or request.error
            return
        need = request.need
        if request.later:
            self.conversation = max(self.conversation, need.total + request.later)
        if self.longest is None or need.total > self.longest.total:
            self.longest = need
        if self.most_new is None or need.new > self.most_new.new:
            self.most_new = need


class PromptsAhead:
    """Tokenised requests of the owner's streams, kept in the order in which they came."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the worker runs
        self._starts: dict[int, int] = {}
        self.summary = RequestsSummary()

    def close(self) -> None:
        """Delete the requests."""
        self._file.close()

    def add(self, stream: int, requests: Sequence[Prepared]) -> None:
        """Append requests of a stream; streams come one after the other."""
        self._starts.setdefault(stream, self._file.tell())
        for request in requests:
            self.summary.add(request)
            pickle.dump(request, self._file, pickle.HIGHEST_PROTOCOL)

    def read(self, stream: int, first: int, count: int) -> Iterator[Prepared]:
        """Yield the next `count` requests of a stream; `first` is the position of the first, and 0 starts again."""
        if first == 0:
            self._file.seek(self._starts[stream])
        for _ in range(count):
            yield pickle.load(self._file)


MANY = 20_000
"""Number of planned requests from which on the model loads while they are tokenised, which takes seconds."""
AS_MEMORY_ALLOWS = -1
"""vLLM's `max_model_len` for the longest context that the model allows and of which the KV cache holds one sequence."""
_T = TypeVar("_T")


class Tokenising:
    """The planned requests, tokenised in a thread. `summary` and `context` are what the model is loaded with.

    Requests with images are all read first, since vLLM reserves memory for the most images of a prompt. Otherwise, if the context is given,
    the model loads meanwhile. With many requests it also does, with the context that memory
    allows, unless prompts are cut to the context, or are sampled on a CPU, where vLLM computes each prompt at once and
    needs a small context. Otherwise the longest request decides, so that all of them are tokenised first.
    """

    def __init__(
        self,
        open_message: Message,
        messages: Iterator[Message],
        prompts: Prompts,
        *,
        model_limit: int,
        is_cpu: bool,
    ) -> None:
        """Begin.

        Args:
            open_message: The owner's settings, the first request of each stream, and the number of requests.
            messages: The owner's next messages: planned requests, then `load`.
            prompts: Tokenises them.
            model_limit: Context length in tokens that the model allows.
            is_cpu: vLLM computes on the CPU.

        Raises:
            SettingsError: If one of the first requests cannot be answered.
        """
        self._explicit: int | None = open_message["settings"]["max_model_len"]
        self._truncate: bool = open_message["rendering"]["truncate"]
        self._limit, self._is_cpu = model_limit, is_cpu
        model = open_message["model"]
        sample = tokenised(_as_messages(open_message["sample"]), prompts, model).summary
        self._ahead = _in_thread(lambda: tokenised(messages, prompts, model))
        many = open_message["planned"] >= MANY and not self._truncate
        by_memory = self._explicit is None and many and not (is_cpu and sample.sampled)
        meanwhile = bool(sample.needs) and (self._explicit is not None or by_memory)
        meanwhile = meanwhile and prompts.pictures is None
        self.summary = sample if meanwhile else self._ahead.result().summary
        if self.summary.requests and not self.summary.needs:
            raise SettingsError(str(self.summary.first_error))
        chosen = self._chosen(self.summary)
        self.context = AS_MEMORY_ALLOWS if meanwhile and by_memory else chosen

    @property
    def tight_context(self) -> int:
        """The smallest context for the requests; it differs from `context` if that is rounded up further."""
        if self.context == AS_MEMORY_ALLOWS:
            return self.context
        return self._chosen(self.summary, tight=True)

    @property
    def is_done(self) -> bool:
        """True once all requests are tokenised."""
        return self._ahead.done()

    def finished(self, max_model_len: int) -> PromptsAhead:
        """Wait for all requests and return them.

        Args:
            max_model_len: Context length in tokens with which the model was loaded.

        Raises:
            SettingsError: If the requests do not fit the context, or the options with which the model was loaded.
        """
        ahead = self._ahead.result()
        self._chosen(ahead.summary)
        if self.context == AS_MEMORY_ALLOWS:
            check_memory(ahead.summary.needs, max_model_len)
        if self._is_cpu and ahead.summary.sampled and not self.summary.sampled:
            raise SettingsError(
                "The first request of a benchmark is greedy, a later one is sampled: on a CPU, give them as two benchmarks."
            )
        return ahead

    def _chosen(self, summary: RequestsSummary, *, tight: bool = False) -> int:
        return choose_max_model_len(
            summary.within(self._limit),
            limit=self._limit,
            explicit=self._explicit,
            truncate=self._truncate,
            tight=tight,
        )


def _as_messages(sample: Sequence[WireRequest]) -> Iterator[Message]:
    """Yield the messages in which the owner would send these requests ahead."""
    requests = [{**request, "key": number} for number, request in enumerate(sample)]
    yield {"type": "ahead", "stream": 0, "requests": requests}
    yield {"type": "load"}


def _in_thread(call: Callable[[], _T]) -> Future[_T]:
    """Start a call in a daemon thread, and return the future of its result."""
    future: Future[_T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised by `result`
            future.set_exception(error)

    threading.Thread(target=run, name="tokenising", daemon=True).start()
    return future


def tokenised(messages: Iterator[Message], prompts: Prompts, model: str) -> PromptsAhead:
    """Return the planned requests, tokenised."""
    ahead = PromptsAhead()
    for message in messages:
        if message["type"] == "load":
            break
        if message["type"] == "images":
            prompts.keep_images(message["images"])
            continue
        requests = message["requests"]
        if not prompts.has_chats and any(isinstance(r["prompt"], list) for r in requests):
            raise SettingsError(
                f"Benchmarks use chat prompts, but the tokenizer of '{model}' has no chat template. "
                "Use `prompt.format=completion`, or set `prompt.chat_template`."
            )
        if any(request.get("tools") for request in requests):
            prompts.check_tools(model)
        ahead.add(message["stream"], prompts.prepare(requests))
    return ahead
