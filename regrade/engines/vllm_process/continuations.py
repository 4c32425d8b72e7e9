"""Tokens of contexts and continuations by the rules of lm-evaluation-harness, for equal log-probabilities.

A continuation's tokens are those of context and continuation as one text, from the number of the context's tokens on; white
space at the end of the context belongs to the continuation (`_encode_pair` in `lm_eval/api/model.py`). An empty context is
the tokenizer's first token, and a long text is ranked in windows (`get_rolling_token_windows` in `lm_eval/utils.py`).

A stored answer that is read again keeps the tokens that its model gave. Where they were not stored, it is tokenised again, and
read only if all that is known of it fits.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from regrade.engines.vllm_process.labels import Passes, Tokens, single_tokens

Encode = Callable[[Sequence[str]], list[Tokens]]
"""Returns the token ids of texts."""


def continuations(
    contexts: Sequence[str],
    texts: Sequence[str],
    *,
    encode: Encode,
    encode_alone: Encode,
    first_token: int,
) -> Passes:
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
    return Passes(tuple(sequences), tuple(starts), tuple(range(len(texts))))


OTHER_PROMPT = "The prompt has other tokens in this model, or a different number of them."
OTHER_TOKENS = "The tokens of the answer read differently in this model."
NO_TOKENS = (
    "The tokens of the answer were not stored, and tokenising it again does not give it exactly."
)


def answer_tokens(
    prompt: str,
    answer: Mapping[str, Any],
    *,
    encode: Encode,
    encode_alone: Encode,
    decode: Callable[[Tokens], str],
) -> tuple[Tokens, Tokens | str]:
    """Return the tokens of a prompt, and those of a stored answer to it, or the reason why they are not known.

    Args:
        prompt: The prompt.
        answer: Fields of `regrade.records.StoredAnswer`.
        encode: Tokenises texts as prompts.
        encode_alone: Tokenises texts without special tokens.
        decode: Returns the text of tokens, without special ones.
    """
    encode = encode_alone if answer["rendered"] else encode
    [ids] = encode([prompt])
    if not ids or answer["prompt_tokens"] not in (None, len(ids)):
        return ids, OTHER_PROMPT
    text = answer["text"]
    if (stored := answer["tokens"]) is not None:
        return ids, [*stored] if text.strip() in decode([*ids, *stored]) else OTHER_TOKENS
    before = decode(ids)
    [whole], [alone] = encode([prompt + text]), encode_alone([text])
    counted = answer["completion_tokens"]
    for tokens in (whole[len(ids) :] if whole[: len(ids)] == ids else alone, alone):
        # An answer may end in a token that is no text; stop texts are cut off with theirs.
        ended = counted is None or len(tokens) in (counted, counted - 1)
        cut = answer["stops"] and counted is not None and len(tokens) <= counted
        if tokens and (ended or cut) and decode([*ids, *tokens]) == before + text:
            return ids, tokens
    return ids, NO_TOKENS


def in_one_pass(ranking: Passes) -> tuple[Tokens, Tokens] | None:
    """Return the prompt and the token of each continuation, if each is one token after the same prompt; else None."""
    start = ranking.starts[0]
    prompt = ranking.sequences[0][:start]
    tokens = single_tokens(prompt, ranking.sequences)
    return None if tokens is None or start == 0 else (prompt, tokens)


def windows(tokens: Tokens, *, first_token: int, context: int) -> Passes:
    """Return the windows in which a text is scored, each token once.

    Args:
        tokens: Token ids of the text.
        first_token: Token before the first one.
        context: Context length of the model in tokens.
    """
    size = context - 2  # lm_eval keeps one token for the context, one for vLLM's generation
    whole = [first_token, *tokens]
    sequences, starts = [], []
    for begin in range(0, len(tokens), size):
        end = min(begin + size, len(tokens))
        sequences.append(whole[max(0, end - size) : end + 1])
        starts.append(len(sequences[-1]) - (end - begin))
    return Passes(tuple(sequences), tuple(starts), (0,) * len(sequences))
