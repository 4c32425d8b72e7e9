"""Prompts of reference implementations, read from the installed packages that hold them (`--prompts`). None is copied here.

The texts are read out of the packages' files, which are not imported: some need the network for that. The text that was read is
the template in the prompts' identity.
"""

import ast
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from regrade.lm_eval.package import check_installed
from regrade.records import Message
from regrade.settings import PromptsOf
from regrade.settings.errors import NotInstalledError, SettingsError


class Wording(NamedTuple):
    """Texts of a reference's chat, with places for the parts of a question."""

    user: str
    """Template of the user's turn."""
    prefill: str | None
    """Template of the beginning of the model's turn; None if the model begins it."""
    fill: Callable[[str, Mapping[str, Any]], str]
    """Puts the parts of a question into a template."""

    def messages(self, system: str | None, values: Mapping[str, Any]) -> tuple[Message, ...]:
        """Return the chat of a question.

        Args:
            system: System message, or None.
            values: Parts of the question, by the names that the reference has for them.
        """
        turns = [("system", system)] if system else []
        turns.append(("user", self.fill(self.user, values)))
        if self.prefill is not None:
            turns.append(("assistant", self.fill(self.prefill, values)))
        return tuple({"role": role, "content": text} for role, text in turns)


def wording(reference: PromptsOf, benchmark: str) -> Wording:
    """Return the texts that a reference has for a benchmark.

    Raises:
        SettingsError: If it has none, or they are not where they are known to be.
        NotInstalledError: If its package is not installed.
    """
    read = _READERS[reference].get(benchmark)
    if read is None:
        having = [name for name, readers in _READERS.items() if benchmark in readers]
        others = f"those of {', '.join(having)}" if having else "only its own"
        raise SettingsError(
            f"Benchmark '{benchmark}' cannot be asked with the prompts of {reference} (`--prompts`): it has {others}. "
            f"{reference} has prompts for: {', '.join(_READERS[reference])}. A task of the harness, such as "
            "`lm_eval:mmlu_pro`, has the harness' prompts by itself."
        )
    return read()


class _Place(NamedTuple):
    """A text in a file of a package."""

    package: str
    file: str
    name: str
    """Variable to which the text is assigned."""

    @property
    def path(self) -> Path:
        """The file, if the package is installed."""
        spec = find_spec(self.package)
        if spec is None or spec.origin is None:
            raise NotInstalledError(self.package, f"pip install {self.package}")
        return Path(spec.origin).parent / self.file

    def error(self, problem: str) -> SettingsError:
        return SettingsError(
            f"The installed {self.package} has no prompt where regrade looks for it: {self.path}: {problem}. Install the "
            f"version that docs/benchmarks.md names, or leave `--prompts {self.package}` out."
        )


def _text(place: _Place) -> str:
    """Return the first text that Python code assigns to a name, outer statements before inner ones.

    An f-string becomes a template for `str.format`, whose fields have the names of the variables.
    """
    try:
        tree = ast.parse(place.path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise place.error(str(error)) from error
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign):
            continue
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        text = _of_expression(node.value) if place.name in names else None
        if text is not None:
            return text
    raise place.error(f"no text is assigned to `{place.name}`")


def _of_expression(value: ast.expr) -> str | None:
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value
    if isinstance(value, ast.JoinedStr):
        return "".join(map(_of_part, value.values))
    if (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr == "strip"
        and not value.args
    ):
        text = _of_expression(value.func.value)
        return None if text is None else text.strip()
    return None


def _of_part(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return _literal(str(part.value))
    names = [node.id for node in ast.walk(part) if isinstance(node, ast.Name)]
    return f"{{{names[0]}}}" if names else ""


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _formatted(place: _Place) -> Callable[[], Wording]:
    """Return a reader of a template that its package fills in by `str.format`."""
    return lambda: Wording(_text(place), None, str.format_map)


def _evalplus() -> Wording:
    """Return the chat of EvalPlus' command line: instruction, task in a block, and the model's opened block."""
    chat = "provider/utility.py"
    instruction, begins = (
        _text(_Place("evalplus", "codegen.py", f"{part}_prefix"))
        for part in ("instruction", "response")
    )
    user, model = (_Place("evalplus", chat, name) for name in ("task_prompt", "response"))
    asked, (begun, splitter, _) = _text(user), _text(model).partition("{_MAGIC_SPLITTER_}")
    if not splitter:
        raise model.error("the text of `response` does not say where the model goes on")
    return Wording(
        asked.replace("{instruction_prefix}", _literal(instruction)),
        begun.replace("{response_prefix}", _literal(begins)),
        str.format_map,
    )


def _harness(file: str) -> Callable[[], Wording]:
    """Return a reader of a task of lm-evaluation-harness, whose templates are Jinja over the row."""

    def read() -> Wording:
        check_installed()
        place = _Place("lm_eval", f"tasks/{file}", "doc_to_text")
        user = _yaml_text(place)
        if user is None:
            raise place.error("it has no `doc_to_text`")
        return Wording(user, _yaml_text(place._replace(name="gen_prefix")), _render)

    return read


def _yaml_text(place: _Place) -> str | None:
    """Return a text of a task's file, or of the file that it includes."""
    import yaml  # noqa: PLC0415 - slow to import

    class Loader(yaml.SafeLoader):
        """Reads functions as their names."""

    Loader.add_constructor("!function", lambda _, node: str(node.value))
    try:
        document = yaml.load(place.path.read_text(encoding="utf-8"), Loader)
    except (OSError, yaml.YAMLError) as error:
        raise place.error(str(error)) from error
    text = document.get(place.name)
    if text is None and "include" in document:
        included = str(Path(place.file).parent / document["include"])
        return _yaml_text(place._replace(file=included))
    return text if text is None else str(text)


def _render(template: str, values: Mapping[str, Any]) -> str:
    return str(_compiled(template).render(**values))


@cache
def _compiled(template: str) -> Any:  # noqa: ANN401 - Jinja is slow to import
    from jinja2 import StrictUndefined  # noqa: PLC0415
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415

    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, keep_trailing_newline=True
    )
    return environment.from_string(template)


_CHOICE = _Place("inspect_ai", "solver/_multiple_choice.py", "SINGLE_ANSWER_TEMPLATE_COT")
_AIME = _Place("inspect_evals", "utils/aime_common.py", "USER_PROMPT_TEMPLATE")
_READERS: Mapping[PromptsOf, Mapping[str, Callable[[], Wording]]] = {
    "lm_eval": {
        "humaneval_plus": _harness("humaneval/humaneval_instruct.yaml"),
        "mbpp_plus": _harness("mbpp/mbpp_plus_instruct.yaml"),
    },
    "inspect_evals": {
        "aime_2024": _formatted(_AIME),
        "aime_2025": _formatted(_AIME),
        "gpqa_diamond": _formatted(_CHOICE),
    },
    "evalplus": {"humaneval_plus": _evalplus, "mbpp_plus": _evalplus},
}
"""Readers by reference and benchmark. Tasks that lm-evaluation-harness itself can run here are `lm_eval:TASK`."""
