"""`regrade evaluate --benchmark lm_eval:TASK` with real vLLM, and scoring where it and torch are missing."""

from pathlib import Path

import pytest

from tests.command_line import DEMO, regrade
from tests.lm_eval.stored import data_folder
from tests.stored import sets_in

pytestmark = [pytest.mark.vllm, pytest.mark.prefect, pytest.mark.slow, pytest.mark.timeout(900)]

TASKS = {
    "gsm8k": ("openai/gsm8k", ("main",)),
    "arc_easy": ("allenai/ai2_arc", ("ARC-Easy",)),
    "winogrande": ("allenai/winogrande", ("winogrande_xl",)),
    "lambada_openai": ("EleutherAI/lambada_openai", ("default",)),
    "wikitext": ("EleutherAI/wikitext_document_level", ("wikitext-2-raw-v1",)),
}


def test_tasks_of_all_kinds_go_from_the_command_line_to_scores(
    tmp_path: Path, prefect_server: str
) -> None:
    chosen: list[str] = []
    for task, (path, names) in TASKS.items():
        folder = data_folder(tmp_path / task, path, names)
        chosen += ["--benchmark", f"lm_eval:{task}", "--source", f"lm_eval:{task}={folder}"]
    home = {"REGRADE_SPOOL": str(tmp_path / "spool"), "PREFECT_API_URL": prefect_server}
    where = ["--answers", str(tmp_path / "answers")]
    where += ["--tracking-uri", f"sqlite:///{tmp_path / 'mlflow.db'}"]

    ran = regrade(
        "evaluate",
        *("--model", DEMO / "regrade-demo", *chosen, *where, "--json"),
        *("--max-tokens", "16", "--truncate", "--engine.enforce-eager"),
        process=True,
        timeout=600,
        **home,
    )

    assert ran.code == 0, ran.err
    sets = {answer_set["benchmark"]: answer_set for answer_set in ran.document["answer_sets"]}
    assert list(sets) == [f"lm_eval:{task}" for task in TASKS]
    assert all(answer_set["failed"] == 0 for answer_set in sets.values())
    stored = sets_in(tmp_path / "answers")
    shared = [session.sets for answers in stored for session in answers.manifest.sessions]
    assert shared == [len(TASKS)] * len(TASKS), "all of them are one stream"
    blocked = tmp_path / "blocked"
    for name in ("torch", "vllm", "transformers"):
        (blocked / name).mkdir(parents=True)
        (blocked / name / "__init__.py").write_text("raise ImportError('it is missing here')")

    again = regrade(
        *("score", *where, "--force", "--json"),
        process=True,
        timeout=600,
        PYTHONPATH=str(blocked),
        **home,
    )

    assert again.code == 0, again.err
    scores = {
        answer_set["benchmark"]: answer_set["scores"][0]
        for answer_set in again.document["answer_sets"]
    }
    for benchmark, answer_set in sets.items():
        assert scores[benchmark]["metrics"] == answer_set["scores"][0]["metrics"]
    listed = regrade("list", *where[:2], "--json")
    assert {f"lm_eval:{task}" for task in TASKS} == {
        answer_set["benchmark"] for answer_set in listed.document["answer_sets"]
    }
