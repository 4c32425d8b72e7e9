"""Prompts of reference implementations, read from the packages that hold them (`--prompts`)."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from lm_eval.api.task import ConfigurableTask

from regrade.benchmarks import open_benchmark
from regrade.benchmarks.base import Benchmark
from regrade.jobs.plan import make_plan
from regrade.lm_eval.package import tasks_folder
from regrade.settings import PromptSettings
from regrade.settings.errors import NotInstalledError, SettingsError
from tests.benchmarks.files import write_parquet
from tests.benchmarks.programming import HUMANEVAL_ROWS, MBPP_ROWS
from tests.benchmarks.rows import AIME_2024, GPQA
from tests.scorers.batches import generations, scored
from tests.sums import MODEL, SERVER, Sums

ROWS: dict[str, list[dict[str, Any]]] = {
    "humaneval_plus": HUMANEVAL_ROWS,
    "mbpp_plus": MBPP_ROWS,
    "aime_2024": AIME_2024,
    "gpqa_diamond": GPQA,
}
# Packages that are not installed here, as small as regrade's reading of them: the same files, names and kinds of texts.
EVALPLUS = {
    "codegen.py": """
def run_codegen(model, perf=None):
    instruction_prefix = "Write {this}:"
    response_prefix = "It is:"
    if perf:
        instruction_prefix = "Write it fast:"
""",
    "provider/utility.py": '''
_MAGIC_SPLITTER_ = "-[[]]-"

def make_raw_chat_prompt(task_prompt: str, instruction_prefix: str, response_prefix: str) -> str:
    if not response_prefix:
        return task_prompt
    task_prompt = f"""\\
{instruction_prefix}
```
{task_prompt.strip()}
```
"""
    response = f"""\\
{response_prefix}
```python
{_MAGIC_SPLITTER_}
```
"""
    task_prompt = (task_prompt + response).split(_MAGIC_SPLITTER_)[0]
    return task_prompt
''',
}
INSPECT_AI = {
    "solver/_multiple_choice.py": '''
SINGLE_ANSWER_TEMPLATE_COT = r"""
Choose one of {letters}; end with 'ANSWER: $LETTER'.

{question}

{choices}
""".strip()
'''
}
INSPECT_EVALS = {
    "utils/aime_common.py": '''
USER_PROMPT_TEMPLATE = """
Solve it; end with "ANSWER: $ANSWER".

{prompt}
""".strip()
'''
}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Packages of references that the environment of the tests lacks."""
    packages = {"evalplus": EVALPLUS, "inspect_ai": INSPECT_AI, "inspect_evals": INSPECT_EVALS}
    for package, files in packages.items():
        for name, text in {"__init__.py": "raise ImportError('imported')", **files}.items():
            path = tmp_path / "site" / package / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    return tmp_path / "site"


def opened(folder: Path, name: str, **prompt: Any) -> Benchmark:
    source = write_parquet(folder / "test.parquet", ROWS[name])
    return open_benchmark(name, source=str(source), prompt=PromptSettings(**prompt))


def asked(folder: Path, name: str, reference: str, number: int = 0) -> list[str]:
    benchmark = opened(folder, name, prompts=reference)
    prompt = benchmark.prompt(benchmark.samples()[number])
    assert not isinstance(prompt, str)
    assert [message["role"] for message in prompt] == ["user", "assistant"][: len(prompt)]
    return [message["content"] for message in prompt]


class Docs(list[dict[str, Any]]):
    """Rows as far as the harness uses a dataset."""

    @property
    def features(self) -> dict[str, Any]:
        return self[0]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("humaneval_plus", "humaneval/humaneval_instruct.yaml"),
        ("mbpp_plus", "mbpp/mbpp_plus_instruct.yaml"),
    ],
)
def test_programs_are_asked_for_as_the_harness_asks_for_them(
    tmp_path: Path, name: str, file: str
) -> None:
    config: dict[str, Any] = {}
    path: Path | None = tasks_folder() / file
    while path is not None:
        loader = yaml.BaseLoader(path.read_text())
        loader.yaml_constructors = {**loader.yaml_constructors, "!function": lambda *_: None}
        read = loader.get_single_data()
        config = {**read, **config}
        path = path.with_name(read["include"]) if "include" in read else None
    kept = ("task", "doc_to_text", "doc_to_target", "gen_prefix", "output_type", "test_split")
    task = ConfigurableTask(
        config={key: config[key] for key in kept if key in config}
        | {"num_fewshot": 0, "custom_dataset": lambda **_: {"test": Docs(ROWS[name])}}
    )
    for number, row in enumerate(ROWS[name]):
        theirs = task.fewshot_context(
            row,
            0,
            apply_chat_template=True,
            chat_template=lambda messages, **_: json.dumps(messages),
            gen_prefix=task.doc_to_prefix(row),
        )

        assert asked(tmp_path, name, "lm_eval", number) == [
            message["content"] for message in json.loads(theirs)
        ]


@pytest.mark.usefixtures("installed")
def test_evalplus_asks_with_an_instruction_and_opens_the_models_turn(tmp_path: Path) -> None:
    for name, begins in (
        ("humaneval_plus", HUMANEVAL_ROWS[0]["prompt"].strip()),
        (
            "mbpp_plus",
            f'"""\n{MBPP_ROWS[0]["prompt"].strip()}\n{MBPP_ROWS[0]["test_list"][0]}\n"""',
        ),
    ):
        user, assistant = asked(tmp_path, name, "evalplus")
        assert user == f"Write {{this}}:\n```\n{begins}\n```\n"
        assert assistant == "It is:\n```python\n"


@pytest.mark.usefixtures("installed")
def test_inspects_templates_get_the_problem_or_the_choices_and_their_last_line_is_read(
    tmp_path: Path,
) -> None:
    (problem,) = asked(tmp_path, "aime_2024", "inspect_evals")
    assert problem.endswith(AIME_2024[0]["problem"])
    (question,) = asked(tmp_path, "gpqa_diamond", "inspect_evals")
    assert question.startswith("Choose one of A,B,C,D; end with 'ANSWER: $LETTER'.\n\n")
    sample = opened(tmp_path, "gpqa_diamond").samples()[0]
    assert f"\n\nA) {sample.choices[0]}\nB) {sample.choices[1]}\n" in question

    answer = "So it is.\n\nANSWER: "
    assert scored("math", generations([f"{answer}33"], "33"))["value"].to_pylist() == [1.0]
    letters = generations([f"{answer}B", f"{answer}B."], "B", choices=["x", "y", "z", "w"])
    assert scored("choice_letter", letters)["value"].to_pylist() == [1.0, 1.0]


@pytest.mark.usefixtures("installed")
def test_package_and_text_are_part_of_the_identity_and_of_no_other(tmp_path: Path) -> None:
    own = opened(tmp_path, "humaneval_plus").prompt_identity
    read = opened(tmp_path, "humaneval_plus", prompts="evalplus").prompt_identity

    assert (read.prompts, read.prefill) == ("evalplus", "It is:\n```python\n")
    assert read.template == "Write {{this}}:\n```\n{task_prompt}\n```\n"
    assert not {"prompts", "prefill"} & own.model_dump().keys()


def test_a_reference_that_cannot_be_used_is_refused_with_what_there_is(
    tmp_path: Path, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SettingsError, match="'mbpp_plus' cannot be asked with the prompts of insp"):
        opened(tmp_path, "mbpp_plus", prompts="inspect_evals")
    with pytest.raises(SettingsError, match="chats without worked examples. Leave out `--format c"):
        opened(tmp_path, "mbpp_plus", prompts="evalplus", format="completion")
    (installed / "evalplus" / "provider" / "utility.py").write_text("task_prompt = 1")
    with pytest.raises(SettingsError, match="no text is assigned to `task_prompt`"):
        opened(tmp_path, "mbpp_plus", prompts="evalplus")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(installed)])
    with pytest.raises(NotInstalledError, match="evalplus is not installed here"):
        opened(tmp_path, "mbpp_plus", prompts="evalplus")


def test_a_benchmark_with_prompts_of_its_own_takes_no_others() -> None:
    prompt = PromptSettings(prompts="lm_eval")
    with pytest.raises(SettingsError, match=r"'sums' has the prompts of its own task or template"):
        make_plan(Sums(1), MODEL, SERVER, sampling=None, prompt=prompt, repeats=1)
