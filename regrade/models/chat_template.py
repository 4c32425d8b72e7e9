"""Read a model's chat template: does the model reason before it answers, and which argument switches reasoning.

The template is rendered without the model's tokenizer, so that a run can be planned on a machine without one.
"""

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

import jinja2
import jinja2.meta
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from regrade.processes.lasting import lasting_process
from regrade.processes.limited import Limits, Stopped
from regrade.settings.errors import SettingsError

logger = logging.getLogger("regrade.plan")

FILES = ("chat_template.jinja", "chat_template.json")
"""Files that replace the template in `tokenizer_config.json`."""
SWITCHES = ("enable_thinking", "thinking")
"""Arguments by which templates switch reasoning on and off."""
BUDGETS = ("thinking_budget", "reasoning_budget")
"""Arguments by which templates state a number of tokens for reasoning."""
_ALWAYS = frozenset({"gpt_oss", "seed_oss"})
"""Types of models that reason, although their templates do not open a thought."""
_IN_CODE: Mapping[str, str | None] = {
    "deepseek_v32": "thinking",
    "deepseek_v4": "thinking",
    "inkling": None,
    "kimi_k3": None,
}
"""Types of models whose chats vLLM renders in code, with the argument that switches reasoning on."""
OPEN_THOUGHTS = ("<think>", "[THINK]", "<seed:think>", "<|channel|>analysis<|message|>", "◁think▷")
"""Texts with which a prompt opens a thought."""
_CLOSED = ("</think>", "[/THINK]", "</seed:think>", "◁/think▷", "<channel|>")
_BEGUN = r"\[THINK\]|<\|channel\|>analysis"
"""Text in a default system message that asks for reasoning."""
NO_THINK = "/no_think"
"""System message by which some templates (NVIDIA's, SmolLM3's) switch reasoning off."""
_GENERATION = re.compile(r"\{%-?\s*(?:end)?generation\s*-?%\}")
_LONGEST = 1 << 20
"""Longest prompt that a template may make of a question mark, in characters."""
_PROBE = ({"role": "user", "content": "?"},)


@dataclass(frozen=True)
class ChatTemplate:
    """Jinja chat template of a model."""

    text: str
    model_type: str = ""
    """`model_type` in the model's `config.json`."""
    special_tokens: Mapping[str, str] = field(default_factory=dict)
    """Special tokens by the name that templates use, such as `bos_token`."""
    system: str | None = None
    """System message of the prompts."""
    origin: str = "the model's chat template"
    """Name of the template in messages."""

    @cached_property
    def arguments(self) -> frozenset[str]:
        """Names that the template reads; empty if it is no valid template."""
        names = self._asked().get("names")
        return frozenset(map(str, names)) if isinstance(names, list) else frozenset()

    @property
    def prints_the_day(self) -> bool:
        """True if the template can print today's date."""
        return "strftime_now" in self.arguments

    @property
    def switch(self) -> str | None:
        """Argument that switches reasoning on and off, or None."""
        return next((name for name in SWITCHES if name in self.arguments), None)

    @property
    def budget(self) -> str | None:
        """Argument that limits the tokens of the reasoning, or None."""
        return next((name for name in BUDGETS if name in self.arguments), None)

    def thinks(self, arguments: Mapping[str, Any]) -> bool:
        """Return True if a model is expected to reason before its answer.

        It is if its prompt opens a thought; if its prompt can skip the thought, and does not; if the arguments switch it
        on, and change the prompt; or if models of its type always reason.

        Args:
            arguments: Arguments of the template.
        """
        prompt = self._render(arguments)
        if prompt is None or prompt.endswith(_CLOSED):
            return False
        opened = prompt.endswith(OPEN_THOUGHTS) or re.search(_BEGUN, prompt)
        if opened or self.model_type in _ALWAYS:
            return True
        skipped = self._without_thought(arguments)
        if skipped is not None and skipped.endswith(_CLOSED):
            return True
        if self.switch is None:
            return self.model_type == "kimi_k2" and "<think>" in self.text
        return bool(arguments.get(self.switch)) and skipped not in (None, prompt)

    def switched(self, thinking: Literal["on", "off"]) -> dict[str, Any]:
        """Return the arguments that switch reasoning on or off; empty if none are needed.

        Raises:
            SettingsError: If the template cannot.
        """
        wanted = thinking == "on"
        if self.thinks({}) is wanted:
            return {}
        if self.switch is None or self.thinks({self.switch: wanted}) is not wanted:
            raise SettingsError(
                f"`prompt.thinking={thinking}`: {self.origin} cannot switch reasoning {thinking}. {self._advice}"
            )
        return {self.switch: wanted}

    @property
    def switched_off_by_system(self) -> bool:
        """True if the system message `NO_THINK`, but no argument, switches reasoning off."""
        return self.switch is None and NO_THINK in self.text

    def _without_thought(self, arguments: Mapping[str, Any]) -> str | None:
        """Return the prompt with reasoning switched off; None if the template cannot, or fails."""
        if self.switch is not None:
            return self._render({**arguments, self.switch: False})
        if self.switched_off_by_system:
            return replace(self, system=NO_THINK)._render(arguments)
        return None

    @property
    def _advice(self) -> str:
        if self.switched_off_by_system:
            return f"It reads the system message: `prompt.system={NO_THINK}` switches reasoning off, `prompt.system=/think` on."
        known = sorted(self.arguments - {"messages", "add_generation_prompt", "tools"})
        reads = f"It reads {', '.join(known)} (`prompt.chat_template_args=NAME=VALUE`). "
        return f"{reads if known else ''}`prompt.chat_template=FILE` replaces the template."

    def _render(self, arguments: Mapping[str, Any]) -> str | None:
        """Return the text before an answer, without white space at its end; None if the template fails."""
        answer = self._asked(arguments)
        if "text" in answer:
            return str(answer["text"])
        logger.warning(
            "whether the model reasons is not known, because its chat template cannot be rendered here (%s): "
            "`--sampling model` asks it as its card says",
            answer["problem"],
        )
        return None

    def _asked(self, arguments: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Return what a child process says of the template: it is the work of strangers, and need not end.

        Raises:
            SettingsError: If the template passes the limits, which the engine's process has not.
        """
        system = [{"role": "system", "content": self.system}] if self.system else []
        values = {"messages": [*system, *_PROBE], **self.special_tokens, **(arguments or {})}
        answer = lasting_process(asked, _LIMITS).compute(
            {"template": self.text, "values": None if arguments is None else values}
        )
        if isinstance(answer, Stopped):
            raise SettingsError(
                f"A prompt cannot be made: {self.origin} takes more than {_ALLOWED[answer.limit]} for a question mark, and would "
                "hold up the engine. Replace it by `prompt.chat_template=FILE`, or use `prompt.format=completion`."
            )
        assert isinstance(answer, dict)  # noqa: S101 - `asked` returns it
        return answer


@dataclass(frozen=True)
class RenderedInCode(ChatTemplate):
    """Stands in for the template of a model whose chats vLLM renders in code."""

    text: str = ""
    code_switch: str | None = None
    """Argument that switches reasoning on; the default is off."""

    @cached_property
    def arguments(self) -> frozenset[str]:
        """Names that the code reads."""
        return frozenset({self.code_switch} if self.code_switch else ())

    @property
    def _advice(self) -> str:
        return "vLLM renders its chats in code. Leave the option out."

    def thinks(self, arguments: Mapping[str, Any]) -> bool:
        """Return True if the reasoning is switched on."""
        return self.code_switch is not None and bool(arguments.get(self.code_switch))


def rendered_in_code(model_type: str) -> RenderedInCode | None:
    """Return the stand-in for the template if vLLM renders the chats of such models in code; else None."""
    if model_type not in _IN_CODE:
        return None
    return RenderedInCode(model_type=model_type, code_switch=_IN_CODE[model_type])


def asked(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `names` that a template reads or, with `values`, its `text`; `problem` if it fails. Runs in a child process."""
    environment = _environment()
    template = _GENERATION.sub("", request["template"])
    try:
        if request["values"] is None:
            del environment.globals["strftime_now"]  # jinja leaves out the names that it knows
            parsed = environment.parse(template)
            return {"names": sorted(jinja2.meta.find_undeclared_variables(parsed))}
        text = environment.from_string(template).render(
            **{"tools": None, "documents": None, "add_generation_prompt": True, **request["values"]}
        )
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - a template can raise whatever Python can
        return {"problem": str(error)[:500]}
    if len(text) > _LONGEST:
        return {"problem": f"it makes a prompt of {len(text):,} characters"}
    return {"text": text.rstrip()}


def lengths_of(template: str, chats: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the length in characters of the prompt that a template makes of each chat, 0 if it fails.

    They are written in a child process, which ends if a template does not, or takes all memory.

    Args:
        template: Text of the template.
        chats: Values of the template's variables.

    Raises:
        SettingsError: If the template passes the limits.
    """
    lengths: list[int] = []
    while len(lengths) < len(chats):
        part: list[Mapping[str, Any]] = []
        size = 0
        for chat in chats[len(lengths) :]:
            size += sum(len(str(message["content"])) for message in chat["messages"])
            if part and size > _TEXT_AT_ONCE:
                break
            part.append(chat)
        child = lasting_process(measured, _LIMITS_OF_ENGINE)
        found = child.compute({"template": template, "chats": part})
        if isinstance(found, Stopped):
            raise SettingsError(
                f"The model's chat template takes more than {_ALLOWED_TO_ENGINE[found.limit]} for {len(part):,} "
                f"{'question' if len(part) == 1 else 'questions'}. Replace it by `prompt.chat_template=FILE`, or use "
                "`prompt.format=completion`."
            )
        assert isinstance(found, list)  # noqa: S101 - `measured` returns it
        lengths += [int(str(length)) for length in found]
    return lengths


def measured(request: Mapping[str, Any]) -> list[int]:
    """Return the length of the text that a template makes of each chat, 0 if it fails. Runs in a child process."""
    environment, lengths = _environment(), []
    try:
        template = environment.from_string(_GENERATION.sub("", request["template"]))
    except jinja2.TemplateError:
        return [0] * len(request["chats"])
    for chat in request["chats"]:
        try:
            text = template.render(**{"tools": None, "documents": None, **chat})
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - a template can raise whatever Python can
            text = ""
        lengths.append(len(text))
    return lengths


_LIMITS = Limits(cpu_seconds=5, seconds=60, memory=512 << 20)
_LIMITS_OF_ENGINE = Limits(cpu_seconds=30, seconds=300, memory=2 << 30)
_TEXT_AT_ONCE = 16 << 20
"""Most text of chats that the child gets at once, in characters; a single chat may have more."""


def _in_words(limits: Limits) -> dict[str, str]:
    return {
        "cpu": f"{limits.cpu_seconds:g} s of CPU time",
        "time": f"{limits.seconds:g} s",
        "memory": f"{limits.memory >> 20} MiB of memory",
        "crash": "the stack of a process",
    }


_ALLOWED, _ALLOWED_TO_ENGINE = _in_words(_LIMITS), _in_words(_LIMITS_OF_ENGINE)


def _environment() -> jinja2.Environment:
    """Return a Jinja environment with the functions that transformers gives templates."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = lambda value, **options: json.dumps(
        value, **{"ensure_ascii": False, **options}
    )
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = _today
    return environment


def _raise(message: str) -> str:
    raise jinja2.TemplateError(message)


def _today(form: str) -> str:
    return datetime.now().astimezone().strftime(form)


def find_template(
    tokenizer_config: Mapping[str, Any], files: Mapping[str, str], model_type: str
) -> ChatTemplate | None:
    """Return the chat template that transformers would use for a model; None if there is none.

    Args:
        tokenizer_config: Content of `tokenizer_config.json`.
        files: Text of `chat_template.jinja` and `chat_template.json`, if there are any.
        model_type: `model_type` in `config.json`.
    """
    stored = tokenizer_config.get("chat_template")
    if isinstance(stored, list):  # several templates, by name
        entries = [entry for entry in stored if isinstance(entry, dict)]
        stored = {str(e.get("name")): e.get("template") for e in entries}.get("default")
    if FILES[1] in files:
        try:
            stored = json.loads(files[FILES[1]])["chat_template"]
        except (ValueError, KeyError, TypeError, RecursionError):
            logger.warning("'%s' holds no chat template, and is not used", FILES[1])
    text = files.get(FILES[0], stored)
    if not isinstance(text, str) or not text:
        return None
    tokens = {
        name: str(value.get("content") if isinstance(value, Mapping) else value)
        for name, value in tokenizer_config.items()
        if name.endswith("_token") and isinstance(value, (str, Mapping))
    }
    return ChatTemplate(text, model_type, tokens)
