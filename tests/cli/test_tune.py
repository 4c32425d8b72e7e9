"""`regrade tune` with real vLLM, and `regrade evaluate --engine.tuned` with what it found."""

from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.sets import list_sets
from tests.command_line import Ran, regrade
from tests.crash.harness import config, many_questions

pytestmark = [pytest.mark.slow, pytest.mark.vllm, pytest.mark.prefect, pytest.mark.timeout(900)]
QUESTIONS = 400
ENGINE = {
    "kind": "vllm",
    "dtype": "float32",
    "enforce_eager": True,
    "max_model_len": 512,
    "extra": ["kv_cache_memory_bytes=268435456"],
}


def test_an_evaluation_uses_what_was_tuned_for_its_kind_of_work_and_says_so(
    demo_model: Path, prefect_server: str, tmp_path: Path
):
    file = config(
        tmp_path,
        ENGINE,
        questions=many_questions(tmp_path, QUESTIONS),
        model=str(demo_model),
        answers=str(tmp_path / "answers"),
        sampling={"max_tokens": 16},
    )

    def ran(command: str, *options: str) -> Ran:
        done = regrade(
            *(command, "--config", file, "--json", *options),
            process=True,
            timeout=600,
            PREFECT_API_URL=prefect_server,
            REGRADE_SPOOL=str(tmp_path / "spool"),
        )
        assert done.code == 0, done.err
        return done

    by_hand = ("--engine.max-num-batched-tokens", "1024")
    tuned = ran("tune", "--starts", "2", "--engine.max-num-seqs", "16", *by_hand).document
    key, found = tuned["tuning"]["key"], tuned["tuning"]["settings"]
    assert tuned["tuning"]["starts"] == 1
    assert {trial["in_flight"] for trial in tuned["tuning"]["trials"]} == {8, 16}
    assert found["max_num_seqs"] in (8, 16)
    assert found["max_num_batched_tokens"] == 1024
    assert tuned["tuning"]["remarks"] == ["max_num_batched_tokens not varied: set by hand"]
    assert (key["hardware"]["device"], key["workload"]["method"]) == ("cpu", "generate")
    assert 0 < tuned["rows"] == tuned["answers_made"] < QUESTIONS
    assert (tmp_path / "answers" / tuned["path"]).is_file()

    evaluated = ran("evaluate", "--engine.tuned")
    used = (
        f"tuned: max_num_seqs={found['max_num_seqs']}, max_num_batched_tokens=1,024, as measured on"
    )
    assert used in evaluated.err
    assert (
        f"on cpu with {key['hardware']['count']} cores with vLLM {key['vllm']}: " in evaluated.err
    )
    (answers,) = evaluated.document["answer_sets"]
    assert answers["answer_set_id"] == tuned["answer_set_id"]
    assert (answers["generated"], answers["rows"]) == (QUESTIONS - tuned["rows"], QUESTIONS)
    repository = LocalRepository(tmp_path / "answers")
    (stored,) = list_sets(repository, repository.head() or "")
    used_settings = stored.manifest.sessions[-1].engine_settings
    assert {name: used_settings[name] for name in found} == found
