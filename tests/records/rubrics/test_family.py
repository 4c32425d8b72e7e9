from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.records.rubrics.family import family_warning
from tests.builders import specification
from tests.comparing.sides import answer
from tests.judged import judge


@pytest.mark.parametrize(
    ("judge_model", "candidate", "found"),
    [
        ("Qwen/Qwen3-32B", "my-team/qwen-sft-3", "'qwen'"),
        ("meta-llama/Llama-3.1-70B-Instruct", "my-team/twinllama-8b", "'llama'"),
        ("openai/gpt-oss-120b", "openai/o5-mini", "'openai'"),
        ("org/same", "org/same", "judges its own answers"),
        ("Qwen/Qwen3-32B-Instruct", "mistralai/Mistral-7B-Instruct", None),
        ("Qwen/Qwen3-32B", "my-team/new-model-7b", None),
    ],
)
def test_a_judge_of_the_candidates_family_is_named(
    tmp_path: Path, judge_model: str, candidate: str, found: str | None
) -> None:
    answers = answer(LocalRepository(tmp_path / "answers"), candidate, right=3, total=3)
    warning = family_warning(
        judge(answers, lambda *_: "A", model=judge_model).manifest.specification
    )

    assert (warning is None) if found is None else (found in (warning or ""))


def test_answers_without_a_judge_have_no_warning() -> None:
    assert family_warning(specification()) is None
