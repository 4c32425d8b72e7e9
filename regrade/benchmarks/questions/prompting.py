"""Prompts as completion text or chat messages, and the settings of a chat template."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regrade.records import Message
from regrade.settings import PromptSettings
from regrade.settings.errors import SettingsError
from regrade.settings.pairs import named_values

Turn = tuple[str, str]
"""Question and answer of a worked example."""


def completion_prompt(
    system: str | None, opening: str, turns: Sequence[Turn], question: str
) -> str:
    """Return plain text that ends with the question; blank lines separate its parts.

    A worked example is the question and its answer, separated by a space unless the question ends in white space.
    """
    examples = [
        f"{example}{'' if example[-1:].isspace() else ' '}{answer}" for example, answer in turns
    ]
    return "\n\n".join([*filter(None, (system, opening)), *examples, question])


def system_turn(system: str | None) -> tuple[Message, ...]:
    """Return the system message as the first turn of a chat, () without one."""
    return ({"role": "system", "content": system},) if system else ()


def chat_prompt(
    system: str | None, opening: str, turns: Sequence[Turn], question: str
) -> tuple[Message, ...]:
    """Return the system message, worked examples as turns, and the question; the opening precedes the first turn."""
    messages = [{"role": "system", "content": system}] if system else []
    for example, answer in turns:
        messages.append({"role": "user", "content": example})
        messages.append({"role": "assistant", "content": answer})
    messages.append({"role": "user", "content": question})
    if opening:
        first = messages[1 if system else 0]
        first["content"] = f"{opening}\n\n{first['content']}"
    return tuple(messages)


def chat_settings(prompt: PromptSettings) -> dict[str, Any]:
    """Return `chat_template` (its sha256) and `chat_template_args`, for the identity of a chat prompt.

    Raises:
        SettingsError: If the template cannot be read, or an argument is not `name=value`.
    """
    template = read_chat_template(prompt.chat_template)
    return {
        "chat_template": None
        if template is None
        else hashlib.sha256(template.encode()).hexdigest(),
        "chat_template_args": chat_template_arguments(prompt.chat_template_args),
    }


def chat_template_arguments(arguments: Sequence[str]) -> dict[str, Any]:
    """Parse `name=value` arguments. A value is JSON, or Python's `True`, `False` or `None`; other values are text.

    Raises:
        SettingsError: If an argument is not `name=value`, or a name is given twice.
    """
    return named_values("chat_template_args", arguments, "enable_thinking=false")


def read_chat_template(path: str | None) -> str | None:
    """Return the text of a chat template file, or None for the model's template.

    Raises:
        SettingsError: If the file cannot be read, or is not UTF-8.
    """
    if path is None:
        return None
    try:
        return Path(path).expanduser().read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        problem = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingsError(
            f"The chat template '{path}' cannot be read ({problem}). Give a file with a Jinja template."
        ) from error
