"""Find the tokens of labels that continue a prompt.

If each label adds exactly one token to the prompt, one forward pass over the prompt gives the log-probabilities of all
labels. Otherwise (a label has two tokens, or merges with the end of the prompt), each label needs a separate pass.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from regrade.text.text import common_length

Tokens = list[int]

MAX_SINGLE_TOKENS = 128
"""vLLM's limit on `logprob_token_ids`."""
_TAIL = 32
"""Number of characters at the end of a prompt that determine the tokens of a label after it."""


@dataclass(frozen=True, slots=True)
class Passes:
    """Sequences of tokens that the model scores in one pass each: labels, continuations, or windows of a text."""

    sequences: tuple[Tokens, ...]
    """Token ids of context and label, or of a window with the tokens before it."""
    starts: tuple[int, ...]
    """First position of each sequence whose tokens are scored."""
    owners: tuple[int, ...]
    """Number of the label to which each sequence belongs."""

    def without_first(self, surplus: Sequence[int]) -> "Passes":
        """Return the sequences without so many tokens at the beginning of each."""
        cut = zip(self.sequences, self.starts, surplus, strict=True)
        sequences, starts = zip(*((ids[n:], start - n) for ids, start, n in cut), strict=True)
        return Passes(sequences, starts, self.owners)


def single_tokens(prompt: Tokens, sequences: Sequence[Tokens]) -> Tokens | None:
    """Return the token of each label, or None if a label is not one more token or two labels have the same.

    Args:
        prompt: Token ids of the prompt.
        sequences: Token ids of prompt + label, tokenised as one text, for each label.
    """
    length = len(prompt)
    if len(sequences) > MAX_SINGLE_TOKENS:
        return None
    if any(len(s) != length + 1 or s[:length] != prompt for s in sequences):
        return None
    tokens = [s[length] for s in sequences]
    return tokens if len(set(tokens)) == len(tokens) else None


def label_passes(prompt: Tokens, sequences: Sequence[Tokens]) -> Passes:
    """Return the sequences, all scored from the first position at which any of them differs from the prompt.

    Their sums are therefore comparable.
    """
    start = min(common_length(prompt, sequence) for sequence in sequences)
    count = len(sequences)
    return Passes(tuple(sequences), (start,) * count, tuple(range(count)))


class LabelTokens:
    """Chooses one-pass or per-label ranking for a prompt; cached by labels and the prompt's last characters."""

    def __init__(self) -> None:
        self._cache: dict[tuple[tuple[str, ...], str], Tokens | None] = {}

    def of(
        self,
        text: str,
        prompt: Tokens,
        labels: tuple[str, ...],
        continued: Callable[[Sequence[str]], list[Tokens]],
    ) -> Tokens | Passes:
        """Return the token of each label, or the sequences to score separately.

        Args:
            text: The prompt.
            prompt: The prompt's token ids.
            labels: Texts to rank as continuations.
            continued: Returns the token ids of the prompt with each of the labels after it.
        """
        ending = (labels, text[-_TAIL:])
        tokens = self._cache.get(ending)
        if tokens is not None:
            return tokens
        sequences = continued(labels)
        if ending not in self._cache:
            self._cache[ending] = single_tokens(prompt, sequences)
        return self._cache[ending] or label_passes(prompt, sequences)
