"""Verdicts on real answers of real models to the same 1,319 questions of GSM8K."""

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.sets import list_sets
from regrade.comparing.gate import gate
from regrade.comparing.gate_report import GateReport
from regrade.comparing.together import compare_sides
from regrade.exchange.importing.base import Columns, TableOptions
from regrade.exchange.importing.building import Names
from regrade.exchange.importing.importer import import_files
from regrade.settings import GateSettings
from tests.command_line import DATA
from tests.stored import score

ZEROEVAL = DATA / "generations" / "zeroeval-gsm"
OPENAI = DATA / "generations" / "openai-gsm8k" / "solutions.jsonl"
LLAMA, QWEN, MIXTRAL = (
    "Meta-Llama-3-8B-Instruct",
    "Qwen2-7B-Instruct",
    "Mixtral-8x7B-Instruct-v0.1",
)

pytestmark = pytest.mark.skipif(
    not OPENAI.is_file(), reason="the folder of real answers is not beside the repository"
)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> str:
    repository = LocalRepository(tmp_path_factory.mktemp("real") / "answers")
    import_files(repository, sorted(ZEROEVAL.glob("*.json.gz")))
    for model in ("6b_finetuning", "6b_verification"):
        columns = Columns(question="question", target="ground_truth", text=f"{model}.solution")
        table = TableOptions(columns, "A:")
        import_files(repository, [OPENAI], table=table, names=Names(model=model, benchmark="gsm8k"))
    head = repository.head()
    assert head is not None
    for answer_set in list_sets(repository, head):
        score(answer_set, answer_set.manifest.scorers[0])  # once, not for every verdict
    return repository.uri


def verdict(answers: str, base: str, candidate: str, **settings: object) -> GateReport:
    chosen = GateSettings(baseline=base, **settings)  # type: ignore[arg-type]
    return gate(candidate, chosen, answers=answers, examples=0)


@pytest.mark.parametrize(
    ("base", "candidate", "flips", "p", "expected"),
    [
        # 1.5 points between the two best models, with 308 changed questions: not a significant difference.
        (LLAMA, QWEN, (144, 164), 0.279, "pass"),
        (QWEN, LLAMA, (164, 144), 0.279, "cannot tell"),
        (LLAMA, MIXTRAL, (215, 106), 1.2e-9, "regression"),
        (QWEN, MIXTRAL, (249, 120), 1.68e-11, "regression"),
        (MIXTRAL, QWEN, (120, 249), 1.68e-11, "pass"),
        ("6b_verification", "6b_finetuning", (293, 64), 3.9e-36, "regression"),
        ("6b_finetuning", "6b_verification", (64, 293), 3.9e-36, "pass"),
    ],
)
def test_pairs_of_models(
    answers: str, base: str, candidate: str, flips: tuple[int, int], p: float, expected: str
) -> None:
    report = verdict(answers, base, candidate)

    (one,) = report.benchmarks
    found = one.comparison
    assert found is not None
    assert (found.n, found.coverage, found.paired_by) == (1319, 1.0, "sample_id")
    assert (found.right_to_wrong, found.wrong_to_right) == flips
    assert found.p_value == pytest.approx(p, rel=0.05)
    assert report.verdict == expected


def test_how_much_more_it_would_take_to_tell_two_close_models_apart(answers: str) -> None:
    (one,) = verdict(answers, QWEN, LLAMA).benchmarks

    assert one.detectable_drop == pytest.approx(0.043, abs=0.001)
    assert one.questions_needed == pytest.approx(14_500, rel=0.01)
    assert verdict(answers, QWEN, LLAMA, max_drop=5).verdict == "pass"


def test_answers_of_two_tools_are_paired_by_content_and_what_is_not_known_is_told(
    answers: str,
) -> None:
    (found,) = compare_sides("6b_verification", LLAMA, answers=answers).comparisons.compared

    assert (found.n, found.right_to_wrong, found.wrong_to_right) == (1319, 45, 566)
    assert found.notes[0] == (
        "Unknown on one side or both: prompt format, prompt template, recorded max_tokens, recorded repetition_penalty, "
        "recorded temperature."
    )
