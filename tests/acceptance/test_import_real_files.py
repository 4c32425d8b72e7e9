"""Import all real answers and score them again: the original's scores against ours."""

from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet, list_sets
from regrade.benchmarks import open_benchmark
from regrade.scoring.score import Result, score_answers
from tests.command_line import DATA, Ran, regrade

GENERATIONS = DATA / "generations"
OPENAI = GENERATIONS / "openai-gsm8k" / "solutions.jsonl"

pytestmark = pytest.mark.skipif(
    not GENERATIONS.is_dir(), reason="the folder of real answers is not beside the repository"
)

# (model, benchmark): rows and expected rows, right by the original (None: not in the file), reported n, right by us.
WHOLE: dict[tuple[str, str], tuple[int, int, int | None, tuple[float, int] | None, int]] = {
    ("6b_finetuning", "gsm8k"): (1319, 1319, 286, None, 286),
    ("6b_verification", "gsm8k"): (1319, 1319, 515, None, 515),
    ("Meta-Llama-3-8B", "mmlu-pro"): (12032, 12032, 4112, None, 4114),
    # ZeroEval publishes 78.47, 80.06, 70.13 and 95.01 %: 1,035, 1,056, 925 and 647 right. Where it differs by a
    # row or two is said row by row in test_published_scores.py.
    ("meta-llama/Meta-Llama-3-8B-Instruct", "gsm"): (1319, 1319, None, None, 1036),
    ("Qwen/Qwen2-7B-Instruct", "gsm"): (1319, 1319, None, None, 1056),
    ("mistralai/Mixtral-8x7B-Instruct-v0.1", "gsm"): (1319, 1319, None, None, 927),
    ("google/gemini-1.5-flash-exp-0827", "gsm"): (681, 681, None, None, 647),
    ("openai/gpt-4o", "inspect_evals-mmlu_0_shot"): (1, 1, 0, (0.0, 1), 0),
    ("openai/gpt-4o-mini", "popularity"): (100, 100, 63, (0.63, 100), 63),
    ("openai/gpt-4o-mini", "testtaskname"): (0, 3, 0, (2 / 3, 3), 0),
    # The samples were cut to 3 rows, too few for the reported score.
    ("gemma3:12b-u1", "gsm8k"): (3, 100, 1, (0.75, 100), 1),
    ("gemma3:12b-it-q4_K_M", "gsm8k"): (3, 100, 2, (0.77, 100), 2),
    # We read the last letter of an answer that was revised, the harness the first.
    ("gemma3_12b_u2", "mmlu_pro_plus_chemistry"): (3, 100, 1, (0.13, 100), 2),
    ("gemma3_12b_u2", "mmlu_pro_plus_health"): (3, 100, 1, (0.46, 100), 1),
    ("gemma3_12b_u2", "mmlu_pro_plus_psychology"): (3, 100, 1, (0.56, 100), 1),
    ("gemma-3-12b-it-base", "mmlu_pro_plus_chemistry"): (3, 100, 2, (0.15, 100), 2),
    ("gemma-3-12b-it-base", "mmlu_pro_plus_health"): (3, 100, 2, (0.46, 100), 2),
    ("gemma-3-12b-it-base", "mmlu_pro_plus_psychology"): (3, 100, 2, (0.56, 100), 2),
}
CANCELLED = ("openai/gpt-4o-mini", "popularity", 3)
"""The second log of the same model and task: 3 rows, of which 2 are right by the original and by us."""


def import_openai(answers: Path, model: str) -> Ran:
    columns = ("--column.text", f"{model}.solution", "--column.score", f"{model}.is_correct")
    asked = ("--column.question=question", "--column.target=ground_truth", "--target-after=A:")
    names = ("--model", model, "--benchmark", "gsm8k")
    return regrade("import", OPENAI, *columns, *asked, *names, "--answers", answers, "--json")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with all files, imported with `regrade import`."""
    folder = tmp_path_factory.mktemp("imported") / "answers"
    for ran in (
        regrade("import", GENERATIONS, "--answers", folder, "--json"),
        import_openai(folder, "6b_finetuning"),
        import_openai(folder, "6b_verification"),
    ):
        assert ran.code == 0, ran.err
    return folder


@pytest.fixture(scope="module")
def sets(answers: Path) -> list[AnswerSet]:
    repository = LocalRepository(answers)
    head = repository.head()
    assert head is not None
    return list_sets(repository, head)


@pytest.fixture(scope="module")
def ours(sets: list[AnswerSet]) -> dict[str, Result]:
    """Our scoring of each set, by its id."""
    manifests = [entry.manifest for entry in sets]
    scored = [score_answers(entry, entry.manifest.scorers[0]) for entry in sets]
    return {m.answer_set_id: result for m, result in zip(manifests, scored, strict=True)}


def name_of(entry: AnswerSet) -> tuple[str, str]:
    specified = entry.manifest.specification
    return specified.model.name, specified.benchmark.name


def is_cancelled(entry: AnswerSet) -> bool:
    return (*name_of(entry), entry.manifest.rows) == CANCELLED


def test_every_file_is_an_answer_set(sets: list[AnswerSet]) -> None:
    whole = [name_of(entry) for entry in sets if not is_cancelled(entry)]
    assert len(sets) == len(WHOLE) + 1 == 19
    assert sorted(whole) == sorted(WHOLE)


@pytest.mark.parametrize("name", WHOLE, ids=lambda name: f"{name[0]} {name[1]}")
def test_the_originals_score_stands_beside_ours(
    sets: list[AnswerSet], ours: dict[str, Result], name: tuple[str, str]
) -> None:
    rows, expected, theirs, reported, right = WHOLE[name]
    [entry] = [kept for kept in sets if name_of(kept) == name and not is_cancelled(kept)]
    manifest = entry.manifest

    assert (manifest.rows, manifest.n_samples) == (rows, expected)
    assert manifest.state == ("complete" if rows == expected else "incomplete")
    originals = entry.scores()
    assert len(originals) == (0 if theirs is None else 1)
    for file in originals:
        assert file.scorer == "original"
        assert file.original is not None
        assert sum(v or 0 for v in entry.score_table(file)["value"].to_pylist()) == theirs
        told = (file.original.reported, file.original.reported_n)
        assert told == (pytest.approx(reported) if reported else (None, None))
    scored = ours[manifest.answer_set_id]
    assert scored.table is not None
    assert sum(value or 0 for value in scored.table["value"].to_pylist()) == right
    assert scored.file.summary.overall.n == rows


def test_the_cancelled_log_keeps_its_score(sets: list[AnswerSet]) -> None:
    [entry] = [answer_set for answer_set in sets if is_cancelled(answer_set)]
    [file] = entry.scores()
    assert file.summary.overall.accuracy == pytest.approx(2 / 3)
    assert score_answers(entry, "exact").file.summary.overall.accuracy == pytest.approx(2 / 3)


def test_questions_of_gsm8k_are_the_same_whoever_asked_them(sets: list[AnswerSet]) -> None:
    def ids_of(entry: AnswerSet) -> set[str]:
        return {row["sample_id"] for b in entry.batches(["sample_id"]) for row in b.to_pylist()}

    of_gsm8k = [entry for entry in sets if name_of(entry)[1] in ("gsm", "gsm8k")]
    ids = {name_of(entry)[0]: ids_of(entry) for entry in of_gsm8k}
    assert ids["6b_finetuning"] == ids["6b_verification"]
    assert ids["Qwen/Qwen2-7B-Instruct"] == ids["meta-llama/Meta-Llama-3-8B-Instruct"]
    ours = open_benchmark("gsm8k_chat", source=str(DATA / "gsm8k" / "test.jsonl")).samples()
    assert ids["6b_finetuning"] == ids["Qwen/Qwen2-7B-Instruct"] == {sample.id for sample in ours}
    assert ids["google/gemini-1.5-flash-exp-0827"] < ids["Qwen/Qwen2-7B-Instruct"]
    assert ids["gemma3:12b-u1"] == ids["gemma3:12b-it-q4_K_M"]
