"""Answers as lm_eval's models return them: without thoughts and stop texts."""

from collections.abc import Sequence

THOUGHT_END = "</think>"
_THOUGHT = "<think>"


def response_of(text: str, stops: Sequence[str], *, reasoning_open: bool) -> str | None:
    """Return a response as lm_eval's vLLM model returns it with `think_end_token`; None if a thought never ends.

    Args:
        text: The answer as generated.
        stops: Stop texts of the task, in its order.
        reasoning_open: A thought is open at the beginning of the text.
    """
    _, end, after = text.rpartition(THOUGHT_END)
    if end:
        answer = after.lstrip()
    elif reasoning_open or text.lstrip().startswith(_THOUGHT):
        return None
    else:
        answer = text
    for stop in stops:
        if stop:
            answer = answer.split(stop)[0]
    return answer
