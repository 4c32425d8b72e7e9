"""Prompts as completion text or chat messages, and the settings of a chat template."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regrade.errors import SettingsError
from regrade.records import Message
from regrade.settings import PromptSettings

Turn = tuple[str, str]
"""Question and answer of a worked example."""

_PYTHON_WORDS: Mapping[str, bool | None] = {"True": True, "False": False, "None": None}


def completion_prompt(
    system: str | None, opening: str, turns: Sequence[Turn], question: str
) -> str:
    """Return plain text that ends where the answer begins; blank lines separate its parts.

    An answer follows its question after a space, or directly where the question ends in white space.
    """
    examples = [
        f"{asked}{'' if asked[-1:].isspace() else ' '}{answered}" for asked, answered in turns
    ]
    parts = [*([system] if system else []), *([opening] if opening else []), *examples, question]
    return "\n\n".join(parts)


def chat_prompt(
    system: str | None, opening: str, turns: Sequence[Turn], question: str
) -> tuple[Message, ...]:
    """Return messages: the system's, then worked examples as turns, then the question. The opening stands once."""
    messages = [{"role": "system", "content": system}] if system else []
    for asked, answered in turns:
        messages.append({"role": "user", "content": asked})
        messages.append({"role": "assistant", "content": answered})
    messages.append({"role": "user", "content": question})
    if opening:
        first = messages[1 if system else 0]
        first["content"] = f"{opening}\n\n{first['content']}"
    return tuple(messages)


def chat_settings(prompt: PromptSettings) -> dict[str, Any]:
    """Return `chat_template` (as sha256) and `chat_template_args` as they enter the identity of a chat prompt.

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
    """Return `name=value` arguments by name; values are JSON, Python's `True`, `False`, `None`, or else text.

    Raises:
        SettingsError: If one has no name or no `=`, or a name is given twice.
    """
    values: dict[str, Any] = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals or not name.isidentifier():
            raise SettingsError(
                f"chat_template_args has '{argument}', expected `name=value`, such as `enable_thinking=false`."
            )
        if name in values:
            raise SettingsError(f"chat_template_args gives '{name}' twice. Give it once.")
        try:
            values[name] = _PYTHON_WORDS[value] if value in _PYTHON_WORDS else json.loads(value)
        except json.JSONDecodeError:
            values[name] = value
    return values


def read_chat_template(path: str | None) -> str | None:
    """Return the text of a chat template file, or None for the model's own template.

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
