"""Worker side: tokenise the planned requests, if possible while the model is loaded, and choose its context by them."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import TypeVar

from regrade.engines.vllm_process.ahead import PromptsAhead
from regrade.engines.vllm_process.channel import Message
from regrade.engines.vllm_process.context import Need, check_memory, choose_max_model_len
from regrade.engines.vllm_process.prompts import Prompts, WireRequest
from regrade.errors import SettingsError

MANY = 20_000
"""Planned requests from which the model is loaded while they are tokenised, which takes seconds."""
AS_MEMORY_ALLOWS = -1
"""vLLM's `max_model_len` for the longest context, up to the model's own, of which the KV cache holds one sequence."""
_T = TypeVar("_T")


class Tokenising:
    """The planned requests, tokenised in a thread. `summary` and `context` are what the model is loaded with.

    If the context is given, the model is loaded meanwhile. With many requests it is too, in the context that memory allows;
    not if prompts are cut to the context, and not for sampling on a CPU, where vLLM then computes each prompt at once and
    needs a small context. Else the longest request decides, so that all of them are tokenised first.
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
            SettingsError: If the requests that are known so far cannot be answered.
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
        self.summary = sample if meanwhile else self._ahead.result().summary
        if self.summary.requests and not self.summary.needs:
            raise SettingsError(str(self.summary.first_error))
        chosen = self._chosen(self.summary.needs)
        self.context = AS_MEMORY_ALLOWS if meanwhile and by_memory else chosen

    def finished(self, max_model_len: int) -> PromptsAhead:
        """Wait for all requests and return them.

        Args:
            max_model_len: Context length in tokens with which the model was loaded.

        Raises:
            SettingsError: If the context, or the way in which the model was loaded, does not fit them.
        """
        ahead = self._ahead.result()
        self._chosen(ahead.summary.needs)
        if self.context == AS_MEMORY_ALLOWS:
            check_memory(ahead.summary.needs, max_model_len)
        if self._is_cpu and ahead.summary.sampled and not self.summary.sampled:
            raise SettingsError(
                "The first request of a benchmark is greedy, a later one is sampled: on a CPU, give them as two benchmarks."
            )
        return ahead

    def _chosen(self, needs: Sequence[Need]) -> int:
        return choose_max_model_len(
            needs, limit=self._limit, explicit=self._explicit, truncate=self._truncate
        )


def _as_messages(sample: Sequence[WireRequest]) -> Iterator[Message]:
    """Yield the messages with which the owner would plan these requests."""
    requests = [{**request, "key": number} for number, request in enumerate(sample)]
    yield {"type": "ahead", "stream": 0, "requests": requests}
    yield {"type": "load"}


def _in_thread(call: Callable[[], _T]) -> Future[_T]:
    """Start a call in a thread that does not hold up the end of the process, and return its future result."""
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
        requests = message["requests"]
        if not prompts.has_chats and any(isinstance(r["prompt"], list) for r in requests):
            raise SettingsError(
                f"Benchmarks use chat prompts, but the tokenizer of '{model}' has no chat template. "
                "Use format 'completion', or set prompt.chat_template."
            )
        ahead.add(message["stream"], prompts.prepare(requests))
    return ahead
