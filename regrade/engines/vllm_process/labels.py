"""Which tokens a label is, as the continuation of a prompt.

Where each label is exactly one more token after the prompt, one forward pass over the prompt gives the
log-probabilities of all of them. Where it is not (it is two tokens, or it merges with the end of the prompt into
other tokens), each label needs a pass of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Tokens = list[int]
Tokenize = Callable[[Sequence[str]], list[Tokens]]
"""Texts to token ids, special tokens at the beginning included as the model gets them."""

MAX_SINGLE_TOKENS = 128
"""vLLM's own limit on `logprob_token_ids`."""
_TAIL = 32
"""Characters at the end of a prompt that decide how a label attaches to it."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The labels as continuations of one prompt, a pass for each."""

    sequences: tuple[Tokens, ...]
    """Token ids of prompt and label, for each label."""
    start: int
    """First position whose tokens count: the same for all labels, so that their sums compare."""


def single_tokens(prompt: Tokens, sequences: Sequence[Tokens]) -> Tokens | None:
    """Return the token of each label where each is exactly one more token, all distinct; otherwise None.

    Args:
        prompt: Token ids of the prompt.
        sequences: Token ids of the prompt with each label, tokenised as one text.
    """
    length = len(prompt)
    if len(sequences) > MAX_SINGLE_TOKENS:
        return None
    if any(len(s) != length + 1 or s[:length] != prompt for s in sequences):
        return None
    tokens = [s[length] for s in sequences]
    return tokens if len(set(tokens)) == len(tokens) else None


def choices(prompt: Tokens, sequences: Sequence[Tokens]) -> Choices:
    """Return what to score per label: from the first token in which any sequence leaves the prompt's own."""
    start = min(_common(prompt, sequence) for sequence in sequences)
    return Choices(tuple(sequences), start)


def _common(left: Tokens, right: Tokens) -> int:
    """Return the length of the common beginning."""
    for position, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return position
    return min(len(left), len(right))


class LabelTokens:
    """Decides for each prompt how its labels are ranked, and remembers it for prompts that end alike."""

    def __init__(self, tokenize: Tokenize) -> None:
        self._tokenize = tokenize
        self._known: dict[tuple[tuple[str, ...], str], Tokens | None] = {}

    def of(self, text: str, prompt: Tokens, labels: tuple[str, ...]) -> Tokens | Choices:
        """Return the single token of each label, or the sequences to score one by one.

        Args:
            text: The prompt.
            prompt: Its token ids.
            labels: Texts that may follow it.
        """
        ending = (labels, text[-_TAIL:])
        known = self._known.get(ending)
        if known is not None:
            return known
        sequences = self._tokenize([text + label for label in labels])
        if ending not in self._known:
            self._known[ending] = single_tokens(prompt, sequences)
        return self._known[ending] or choices(prompt, sequences)
