"""Worker side: the owner's planned requests, tokenised before the model is loaded.

Their lengths determine the context. The token ids are what is later sent to vLLM; until then they are in a temporary
file, so that memory does not grow with the number of requests.
"""

import pickle
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from regrade.engines.vllm_process.context import Need
from regrade.engines.vllm_process.prompts import Prepared


@dataclass(slots=True)
class Summary:
    """Properties of the planned requests that decide how the model is loaded."""

    requests: int = 0
    longest: Need | None = None
    """Most tokens for prompt and answer together, of a request that can be answered."""
    most_new: Need | None = None
    """Most tokens for an answer."""
    sampled: bool = False
    """A request has a temperature above 0."""
    ranked: bool = False
    """A request ranks labels."""
    passes: bool = False
    """A request ranks labels in a pass each, which share the context through the prefix cache."""
    budgeted: bool = False
    """A request has a budget for its reasoning."""
    structured: bool = False
    """An answer has a form."""
    structured_after_reasoning: bool = False
    """An answer has a form, and reasoning without it before."""
    first_error: str | None = None

    @property
    def needs(self) -> list[Need]:
        """The needs that decide the context; empty if no request can be answered."""
        return [need for need in (self.longest, self.most_new) if need is not None]

    def add(self, request: Prepared) -> None:
        """Count a request."""
        self.requests += 1
        self.sampled = self.sampled or request.sampling["temperature"] > 0
        self.ranked = self.ranked or bool(request.ranking)
        self.passes = self.passes or request.passes > 1
        self.budgeted = self.budgeted or request.sampling.get("thinking_token_budget") is not None
        self.structured = self.structured or request.structure is not None
        self.structured_after_reasoning = self.structured_after_reasoning or (
            request.structure is not None and request.reasons
        )
        if request.error is not None:
            self.first_error = self.first_error or request.error
            return
        need = request.need
        if self.longest is None or need.total > self.longest.total:
            self.longest = need
        if self.most_new is None or need.new > self.most_new.new:
            self.most_new = need


class PromptsAhead:
    """Tokenised requests of the owner's streams, kept in the order in which they came."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the worker runs
        self._starts: dict[int, int] = {}
        self.summary = Summary()

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
