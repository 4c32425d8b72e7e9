"""Texts in a judge's prompt, between marks that they do not contain, and without the control tokens of a chat."""

import hashlib
import re
from collections.abc import Mapping

_CONTROL_TOKEN = re.compile(
    r"<(?=[|\uFF5C]|<?/?(?:s|bos|eos|eod|pad|unk|mask|sep|cls|sop|eop|think(?:ing)?|tools?|image|img|audio|video|SYS"
    r"|unused\d{1,6}|seed:\w{1,40}|channel|turn|\w{0,40}_\w{0,40})[|\uFF5C]?>)"
    r"|\[(?=\||e~\[|/?[A-Za-z]{0,20}[A-Z]{2}[A-Z_0-9]{0,40}\]|control_\d{1,6}\])"
    r"|\](?=~!?b[\[\]])"
)
"""First character of texts such as `<|im_end|>`, `<start_of_turn>`, `</s>`, `[INST]` and `</think>`, which tokenizers of chat
models turn into one token wherever they stand."""
_BREAK = "\N{ZERO WIDTH SPACE}"


def without_control_tokens(text: str) -> str:
    """Return a text with a zero-width space in all that a tokenizer would turn into a control token of a chat.

    Otherwise an answer could end the user's turn and speak as the judge.
    """
    return _CONTROL_TOKEN.sub(lambda found: found[0] + _BREAK, text)


def fenced(texts: Mapping[str, str]) -> dict[str, str]:
    """Return each text between two marks such as `<answer-3f9a2c1b>` and `</answer-3f9a2c1b>`, without control tokens.

    The digits depend on all texts of the prompt, so that the prompt is always the same, and none of the texts contains them:
    an answer cannot close its marks.

    Args:
        texts: Texts by the name that their marks have.
    """
    shown = {name: without_control_tokens(text) for name, text in texts.items()}
    content = "\0".join(shown.values())
    number = 0
    while True:
        mark = hashlib.sha256(f"{number}\0{content}".encode()).hexdigest()[:8]
        if mark not in content:
            break
        number += 1
    return {name: f"<{name}-{mark}>\n{text}\n</{name}-{mark}>" for name, text in shown.items()}
