"""Tokens of contexts and continuations by the rules of lm-evaluation-harness, for equal log-probabilities.

A continuation's tokens are those of context and continuation as one text, from the number of the context's tokens on; white
space at the end of the context belongs to the continuation (`_encode_pair` in `lm_eval/api/model.py`). An empty context is
the tokenizer's first token, and a long text is ranked in windows (`get_rolling_token_windows` in `lm_eval/utils.py`).

A stored answer that is read again keeps the tokens that its model gave. Where they were not stored, it is tokenised again, and
read only if all that is known of it fits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regrade.engines.vllm_process.labels import Tokens, single_tokens

Encode = Callable[[Sequence[str]], list[Tokens]]
"""Returns the token ids of texts."""


@dataclass(frozen=True, slots=True)
class Continuations:
    """Continuations to score in one pass each, or a text to score in one pass per window."""

    sequences: tuple[Tokens, ...]
    """Token ids of context and continuation, or of a window with the tokens before it."""
    starts: tuple[int, ...]
    """First position of each sequence whose tokens are scored."""
    owners: tuple[int, ...]
    """Number of the continuation to which each sequence belongs."""

    def cut(self, length: int) -> "Continuations":
        """Return the sequences with tokens cut from the left, so that each has at most `length`."""
        surplus = [max(0, len(sequence) - length) for sequence in self.sequences]
        return Continuations(
            tuple(s[more:] for s, more in zip(self.sequences, surplus, strict=True)),
            tuple(start - more for start, more in zip(self.starts, surplus, strict=True)),
            self.owners,
        )


def continuations(
    contexts: Sequence[str],
    texts: Sequence[str],
    *,
    encode: Encode,
    encode_alone: Encode,
    first_token: int,
) -> Continuations:
    """Return the tokens of continuations after their contexts.

    Args:
        contexts: Context of each continuation.
        texts: The continuations.
        encode: Tokenises texts as prompts.
        encode_alone: Tokenises texts without special tokens.
        first_token: Token that stands for an empty context.
    """
    before = [context.rstrip() for context in contexts]
    whole = [context + text for context, text in zip(contexts, texts, strict=True)]
    unique = list(dict.fromkeys(filter(None, before)))
    lengths = {"": 0} | dict(zip(unique, map(len, encode(unique) if unique else []), strict=True))
    sequences = encode(whole)
    starts = [lengths[context] for context in before]
    for place, context in enumerate(contexts):
        if context == "":
            [alone] = encode_alone([texts[place]])
            sequences[place] = alone if alone[:1] == [first_token] else [first_token, *alone]
            starts[place] = 1
    return Continuations(tuple(sequences), tuple(starts), tuple(range(len(texts))))


OTHER_PROMPT = "The prompt has other tokens in this model, or a different number of them."
OTHER_TOKENS = "The tokens of the answer read differently in this model."
NO_TOKENS = (
    "The tokens of the answer were not stored, and tokenising it again does not give it exactly."
)


def answer_tokens(
    prompt: str,
    ids: Tokens,
    answer: Mapping[str, Any],
    *,
    encode: Encode,
    encode_alone: Encode,
    decode: Callable[[Tokens], str],
) -> Tokens | str:
    """Return the tokens of a stored answer, or the reason why they are not known.

    Args:
        prompt: The prompt.
        ids: Its tokens.
        answer: Fields of `regrade.records.StoredAnswer`.
        encode: Tokenises texts as this prompt.
        encode_alone: Tokenises texts without special tokens.
        decode: Returns the text of tokens, without special ones.
    """
    text = answer["text"]
    if (stored := answer["tokens"]) is not None:
        return [*stored] if text.strip() in decode([*ids, *stored]) else OTHER_TOKENS
    before = decode(ids)
    [whole], [alone] = encode([prompt + text]), encode_alone([text])
    counted = answer["completion_tokens"]
    for tokens in (whole[len(ids) :] if whole[: len(ids)] == ids else alone, alone):
        # An answer may end in a token that is no text; stop texts are cut off with theirs.
        ended = counted is None or len(tokens) in (counted, counted - 1)
        cut = answer["stops"] and counted is not None and len(tokens) <= counted
        if tokens and (ended or cut) and decode([*ids, *tokens]) == before + text:
            return tokens
    return NO_TOKENS


def in_one_pass(ranking: Continuations) -> tuple[Tokens, Tokens] | None:
    """Return the prompt and the token of each continuation, if each is one token after the same prompt; else None."""
    start = ranking.starts[0]
    prompt = ranking.sequences[0][:start]
    tokens = single_tokens(prompt, ranking.sequences)
    return None if tokens is None or start == 0 else (prompt, tokens)


def windows(tokens: Tokens, *, first_token: int, context: int) -> Continuations:
    """Return the windows in which a text is scored, each token once.

    Args:
        tokens: Token ids of the text.
        first_token: Token before the first one.
        context: Context length of the model in tokens.
    """
    size = context - 2  # lm_eval keeps one token for the context, one for vLLM's generation
    sequences, starts = [], []
    done = 0
    while done < len(tokens):
        count = min(len(tokens) - done, size)
        if done == 0:
            sequences.append([first_token, *tokens[:count]])
            starts.append(1)
        else:
            end = done + count
            sequences.append(tokens[end - size - 1 : end])
            starts.append(size + 1 - count)
        done += count
    return Continuations(tuple(sequences), tuple(starts), (0,) * len(sequences))
