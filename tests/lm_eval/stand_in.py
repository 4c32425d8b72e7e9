"""A deterministic stand-in for a model: its responses depend on the request alone."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

_TEXTS = (
    "The answer is (A).",
    " The answer is 18.\n#### 18",
    "\\boxed{\\frac{3}{2}}",
    "Paris",
    "one two three four five words",
    "False",
    " 5",
    "So the answer is False.",
    "A\n\nQ: another question",
    "Joy: 3\nFear: 4\nPride: 0\nShame: 1",
    "Tom and the cat",
)


def _share(*content: object) -> float:
    digest = hashlib.sha256(repr(content).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def generated(context: str, repeat: int) -> str:
    """Return a text, without the stop texts of lm_eval."""
    numbers = re.findall(r"\d+", context[-200:])
    if _share("numbers", context, repeat) < 0.3 and numbers:
        return f" so we get {numbers[-1]}. The answer is {numbers[-1]}.\n#### {numbers[-1]}"
    return _TEXTS[int(_share("text", context, repeat) * len(_TEXTS))]


def cut(text: str, stops: Sequence[str]) -> str:
    """Return the text before the first stop text, as lm_eval's models return it."""
    for stop in stops:
        if stop:
            text = text.split(stop)[0]
    return text


def ranked(context: str, continuation: str) -> tuple[float, bool]:
    """Return the log-probability of a continuation, and True if it is the likeliest."""
    greedy = _share("greedy", context, continuation) < 0.3
    return -20 * _share("logprob", context, continuation), greedy


def rolled(text: str) -> float:
    """Return the log-probability of a text."""
    return -len(text) * (1 + _share("rolling", text))


def chat_text(messages: Sequence[Mapping[str, str]], add_generation_prompt: bool = True) -> str:
    """Return a chat as text; without a generation prompt, the last message is continued."""
    text = "".join(f"<|{m['role']}|>{m['content']}<|end|>" for m in messages)
    return f"{text}<|assistant|>" if add_generation_prompt else text[: -len("<|end|>")]


class StandIn(LM):  # type: ignore[misc]  # lm_eval has no types
    """The stand-in as a model of lm_eval."""

    tokenizer_name = "stand-in"

    def __init__(self) -> None:
        super().__init__()
        self._asked: Counter[int] = Counter()

    def loglikelihood(self, requests: Sequence[Instance], **_: object) -> list[tuple[float, bool]]:
        """Rank continuations."""
        return [ranked(*request.args) for request in requests]

    def loglikelihood_rolling(self, requests: Sequence[Instance], **_: object) -> list[float]:
        """Rank texts."""
        return [rolled(request.args[0]) for request in requests]

    def generate_until(self, requests: Sequence[Instance], **_: object) -> list[str]:
        """Generate texts, other ones for each repeat."""
        texts = []
        for request in requests:
            context, arguments = request.args
            repeat = self._asked[id(request)]
            self._asked[id(request)] += 1
            texts.append(cut(generated(context, repeat), arguments["until"]))
        return texts

    def apply_chat_template(
        self, chat_history: list[dict[str, Any]], add_generation_prompt: bool = True
    ) -> str:
        """Render a chat."""
        return chat_text(chat_history, add_generation_prompt)
