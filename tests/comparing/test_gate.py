import itertools
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from scipy.stats import binom

from regrade.answers.aliases import move_alias
from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.comparing import verdict_text
from regrade.comparing.beforehand import check_comparable
from regrade.comparing.gate import gate, gate_report
from regrade.comparing.gate_report import BenchmarkVerdict, GateReport, summarised
from regrade.comparing.job import CompareJob
from regrade.comparing.junit import junit
from regrade.comparing.likeness import NotComparableError
from regrade.comparing.sides import find_side
from regrade.settings import GateSettings
from regrade.settings.errors import RepositoryError, SettingsError
from regrade.text.blocks import Heading
from regrade.text.markdown import markdown
from tests.comparing.sides import TOTAL, answer
from tests.stored import score


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A baseline with 380 of 400 right on each of two benchmarks."""
    repository = LocalRepository(tmp_path_factory.mktemp("baseline") / "answers")
    sets = [
        answer(repository, "org/base", right=380, benchmark=name) for name in ("sums", "products")
    ]
    move_alias(repository, "baseline", sets)
    return repository.folder


@pytest.fixture
def repository(baseline: Path, tmp_path: Path) -> LocalRepository:
    """The baseline in a folder of the test's own."""
    return LocalRepository(shutil.copytree(baseline, tmp_path / "answers"))


def verdict(
    repository: LocalRepository, candidate: str, *benchmarks: str, **settings: object
) -> GateReport:
    chosen = GateSettings(**settings)
    return gate(candidate, chosen, answers=repository.uri, benchmarks=benchmarks)


def test_a_baseline_is_not_judged_against_itself(repository: LocalRepository) -> None:
    for candidate in ("org/base", "baseline"):
        report = verdict(repository, candidate)

        assert (report.verdict, report.exit_code) == ("cannot tell", 2)
        assert "Baseline and candidate are the same answers" in report.summary
        assert (
            "sums, products: Baseline and candidate are the same answers of org/base: nothing was compared"
            in report.summary
        )


def test_answers_that_a_run_has_made_and_that_are_the_baseline_pass_without_a_comparison(
    repository: LocalRepository,
) -> None:
    side = find_side("org/base", repository.uri)

    report = gate(side, GateSettings(), answers=repository.uri)

    assert (report.verdict, report.exit_code) == ("pass", 0)
    assert report.summary == (
        "pass: sums, products: The baseline is these answers of org/base: there was nothing to compare."
    )


def test_limits_hold_for_answers_that_are_the_baseline_too(repository: LocalRepository) -> None:
    bad = answer(repository, "org/bad", right=200, unparsed=200)
    score(bad)
    move_alias(repository, "last", [bad])
    settings = GateSettings(baseline="last", max_unparsed=1.0)

    report = gate(find_side("org/bad", repository.uri), settings, answers=repository.uri)

    assert report.verdict == "regression"
    assert "unparsed" in report.summary


def test_equal_answers_of_another_model_pass(repository: LocalRepository) -> None:
    for name in ("sums", "products"):
        answer(repository, "org/same", right=380, benchmark=name)

    report = verdict(repository, "org/same")

    assert (report.verdict, report.exit_code) == ("pass", 0)
    assert [benchmark.benchmark for benchmark in report.benchmarks] == ["sums", "products"]
    assert all(
        benchmark.low is not None and benchmark.low > -0.01 for benchmark in report.benchmarks
    )


def test_a_large_drop_on_one_benchmark_is_a_regression(repository: LocalRepository) -> None:
    answer(repository, "org/bad", right=340)
    answer(repository, "org/bad", right=380, benchmark="products")

    report = verdict(repository, "bad")

    assert (report.verdict, report.exit_code) == ("regression", 1)
    verdicts = {benchmark.benchmark: benchmark for benchmark in report.benchmarks}
    assert {name: benchmark.verdict for name, benchmark in verdicts.items()} == {
        "sums": "regression",
        "products": "pass",
    }
    sums = verdicts["sums"]
    assert sums.high < -0.01
    assert sums.high_level == pytest.approx(0.975)  # the stricter of two
    assert report.summary.startswith("regression: sums: -10.00 points, at best")
    assert "points, at worst" in verdicts["products"].reason
    assert "not worse by more than the accepted drop of 1" in verdicts["products"].reason


def test_a_small_drop_cannot_be_told_with_few_questions(repository: LocalRepository) -> None:
    answer(repository, "org/maybe", wrong=(*range(390, 400), *range(14)))

    report = verdict(repository, "maybe", "sums")

    assert (report.verdict, report.exit_code) == ("cannot tell", 2)
    (benchmark,) = report.benchmarks
    assert benchmark.low < -0.01 < benchmark.high
    assert benchmark.questions_needed > 400
    assert f"needs about {benchmark.questions_needed:,}" in benchmark.reason


def test_a_larger_accepted_drop_changes_the_verdict(repository: LocalRepository) -> None:
    answer(repository, "org/bad", right=360)

    assert verdict(repository, "bad", "sums").verdict == "regression"
    assert verdict(repository, "bad", "sums", max_drop_of=("sums=5",)).verdict == "cannot tell"
    assert verdict(repository, "bad", "sums", max_drop_of=("sums=9",)).verdict == "pass"


def with_rights(folder: Path, **rights: int) -> LocalRepository:
    """A repository in which org/base has all 400 of each benchmark right, and org/new as many as are given."""
    repository = LocalRepository(folder / "answers")
    for name, right in rights.items():
        answer(repository, "org/base", right=400, benchmark=name)
        answer(repository, "org/new", right=right, benchmark=name)
    return repository


def test_each_benchmark_is_judged_at_its_own_level_of_holms_procedure(tmp_path: Path) -> None:
    repository = with_rights(tmp_path, sums=300, products=394, roots=400)  # p: tiny, 1/64 and 1

    report = verdict(repository, "new", baseline="org/base", max_drop=0)

    judged = {benchmark.benchmark: benchmark for benchmark in report.benchmarks}
    verdicts = [benchmark.verdict for benchmark in report.benchmarks]
    assert verdicts == ["regression", "regression", "cannot tell"]
    levels = [benchmark.high_level for benchmark in report.benchmarks]
    assert levels == pytest.approx([1 - 0.05 / 3, 1 - 0.05 / 2, 1 - 0.05])
    assert {benchmark.low_level for benchmark in report.benchmarks} == {0.95}
    (alone,) = verdict(repository, "new", "products", baseline="org/base", max_drop=0).benchmarks
    assert alone.p_regression_adjusted == pytest.approx(1 / 64)
    assert judged["products"].p_regression == pytest.approx(1 / 64)
    assert judged["products"].p_regression_adjusted == pytest.approx(2 / 64)
    assert judged["roots"].p_pass == 1.0


def test_after_the_first_test_that_does_not_reject_the_level_stays(tmp_path: Path) -> None:
    repository = with_rights(tmp_path, sums=395, products=396, roots=400)  # p: 1/32, 1/16 and 1

    report = verdict(repository, "new", baseline="org/base", max_drop=0)

    assert report.verdict == "cannot tell"
    levels = [benchmark.high_level for benchmark in report.benchmarks]
    assert levels == pytest.approx([1 - 0.05 / 3] * 3)
    (alone,) = verdict(repository, "new", "roots", baseline="org/base", max_drop=0).benchmarks
    finds = (alone.detectable_drop, report.benchmarks[-1].detectable_drop)
    # Without a change, 5 losses are needed at 5 %, 6 at 1.67 %, found with 80 %.
    assert finds == pytest.approx((0.01672, 0.01971), abs=1e-4)


@pytest.mark.parametrize("side", ["candidate", "baseline"])
def test_a_side_with_incomplete_answers_cannot_be_judged_by_name_nor_by_id(
    repository: LocalRepository, side: str
) -> None:
    unfinished = answer(repository, "org/half", right=9, total=10, declared=TOTAL).manifest

    by_name, by_id = (
        verdict(repository, name)
        if side == "candidate"
        else verdict(repository, "base", baseline=name)
        for name in ("half", unfinished.answer_set_id)
    )

    assert by_name.exit_code == by_id.exit_code == 2
    assert f"the {side} has no complete answers to it" in by_name.summary
    assert f"only {unfinished.answer_set_id} (10 of 400 answers)" in by_name.notes[0]
    base, candidate = ("baseline", "half") if side == "candidate" else ("half", "base")
    job = CompareJob(
        base=base, candidate=candidate, answers=repository.uri, gate=GateSettings(baseline=base)
    )
    assert gate_report(job.compared(), job.gate, {}) == by_name


def test_a_gate_of_two_sides_with_incomplete_answers_is_refused(
    repository: LocalRepository,
) -> None:
    answer(repository, "org/half", right=9, total=10, declared=TOTAL)

    with pytest.raises(RepositoryError, match="no complete answers"):
        verdict(repository, "half", baseline="half")


def test_a_benchmark_that_was_not_run_is_not_passed(repository: LocalRepository) -> None:
    answer(repository, "org/half", right=380)
    answer(repository, "org/half", right=380, benchmark="roots")

    report = verdict(repository, "half")

    assert report.verdict == "cannot tell"
    assert "the candidate has no complete answers to it" in report.summary
    assert "roots: the baseline has no answers to it" in report.notes[0]
    assert verdict(repository, "half", "sums").verdict == "pass"


def test_sides_of_two_benchmarks_without_a_common_question_are_told_by_their_names_however_few_they_have(
    repository: LocalRepository,
) -> None:
    answer(repository, "org/roots", right=10, total=10, start=TOTAL, benchmark="roots")

    report = verdict(repository, "roots", "sums", "roots", allow=("questions", "overlap"))

    assert report.verdict == "cannot tell"
    assert "no benchmark in common: the baseline has sums, the candidate roots." in report.summary
    assert "no question has a value on both sides" in report.summary


def test_what_is_not_comparable_cannot_be_told(repository: LocalRepository) -> None:
    answer(repository, "org/shots", right=100, n_shots=5)

    report = verdict(repository, "shots", "sums")

    assert (report.verdict, report.exit_code) == ("cannot tell", 2)
    assert "worked examples: '0' against '5'" in report.summary
    assert verdict(repository, "shots", "sums", allow=("few_shot",)).verdict == "regression"


def test_a_partial_run_says_what_it_covers(repository: LocalRepository) -> None:
    answers = answer(repository, "org/part", right=200, total=200, declared=400)
    name = answers.manifest.answer_set_id

    report = verdict(repository, name)
    allowed = verdict(repository, name, allow=("overlap",), max_drop=3.0)

    assert report.verdict == "cannot tell"
    assert "200 of 400 questions (50.0 %)" in report.summary
    assert allowed.verdict == "pass"
    assert "200 (50.0 %)" in markdown(verdict_text.blocks(allowed))
    assert verdict(repository, name, min_coverage=50.0, max_drop=3.0).verdict == "pass"


@pytest.mark.parametrize(
    ("unparsed", "expected", "text"),
    [
        (0, "pass", ""),
        (4, "pass", "I do not know."),
        (7, "cannot tell", "I do not know."),
        (40, "regression", "<think>I do not know"),
    ],
)
def test_a_limit_on_unparsed_answers_is_tested_like_the_rest(
    repository: LocalRepository, unparsed: int, expected: str, text: str
) -> None:
    # The last 20 are wrong anyway. Reasoning that never ended counts, too.
    answer(repository, "org/mute", right=380, unparsed=unparsed, unparsed_text=text)

    report = verdict(repository, "mute", "sums", max_unparsed=1.0, max_drop=20)

    assert report.verdict == expected
    (check,) = report.benchmarks[0].checks
    assert (check.name, check.value, check.limit) == ("unparsed", unparsed / 400, 0.01)
    named = f"{unparsed / 4:.1f} % unparsed, at most 1 % allowed" in report.benchmarks[0].reason
    assert named == (expected != "pass")  # a kept limit is no reason
    assert check.p == pytest.approx(1.0 if unparsed == 0 else binom.sf(unparsed - 1, 400, 0.01))
    assert check.p_adjusted == pytest.approx(min(1.0, 2 * check.p), abs=1e-6) or check.p > 0.5


def test_of_repeats_each_question_counts_once_for_a_limit(tmp_path: Path) -> None:
    repository = LocalRepository(tmp_path / "answers")
    for model, unparsed in (("org/base", 0), ("org/mute", 4)):  # 4 questions, 16 of 400 answers
        answer(
            repository, model, right=90, unparsed=unparsed, total=100, repeats=4, temperature=1.0
        )

    report = verdict(repository, "mute", baseline="org/base", max_unparsed=1.0, max_drop=20)

    (check,) = report.benchmarks[0].checks
    assert check.value == 0.04
    assert check.p == pytest.approx(binom.sf(3, 100, 0.01))


def test_a_limit_of_none_at_all_is_broken_by_one(repository: LocalRepository) -> None:
    answer(repository, "org/mute", right=380, unparsed=1)
    cut = {"finish_reason": "length"}
    answer(repository, "org/cut", right=380, row_changes=cut)

    assert verdict(repository, "mute", "sums", max_unparsed=0, max_drop=9).verdict == "regression"
    assert verdict(repository, "cut", "sums", max_truncated=5, max_drop=9).verdict == "regression"


@pytest.mark.parametrize("text", ["sums", "sums=", "=1", "sums=x", "sums=-1", "sums=nan"])
def test_a_drop_that_is_none_is_refused(repository: LocalRepository, text: str) -> None:
    with pytest.raises(SettingsError, match="should be `benchmark=points`"):
        verdict(repository, "org/base", max_drop_of=(text,))


def test_a_drop_of_a_benchmark_that_nobody_has_is_refused(repository: LocalRepository) -> None:
    with pytest.raises(SettingsError, match="'gsm8k', which neither side has"):
        verdict(repository, "org/base", max_drop_of=("gsm8k=1",))


NASTY = "bad ]]> <b> ``` | \x1b[31m \x00 name"


def test_nothing_in_a_name_or_an_answer_breaks_out_of_the_page(repository: LocalRepository) -> None:
    nasty = {"prompt": "</details>\n# <script>\n```"}
    answers = answer(repository, NASTY, right=100, row_changes=nasty)
    report = verdict(repository, answers.manifest.answer_set_id)
    report = report.model_copy(update={"candidate": NASTY})

    page, xml = markdown(verdict_text.blocks(report)), junit(report)

    outside = [line for line in page.splitlines() if not line.startswith("    ")]
    assert not any("<script>" in line or "<b>" in line or "```" in line for line in outside)
    assert "\x1b" not in page
    assert page.count("</details>") == page.count("<details>") + sum(
        line.startswith("    </details>") for line in page.splitlines()
    )
    root = ElementTree.fromstring(xml)
    case = root.find(".//testcase")
    assert case.get("name") == "sums"
    assert "<b> ``` |" in str(case.get("classname"))
    failure = case.find("failure")
    assert "worse by more" in str(failure.text)
    assert root.get("failures") == "1"


def planned(base: AnswerSet, candidate: AnswerSet, **settings: object) -> None:
    chosen = GateSettings(**settings)
    check_comparable([(base.manifest, candidate.manifest)], chosen)


@pytest.mark.parametrize(("asked", "stored"), [(50, 400), (400, 50)])
def test_a_plan_with_a_part_of_the_questions_is_refused_by_both_numbers(
    tmp_path: Path, asked: int, stored: int
) -> None:
    repository = LocalRepository(tmp_path / "answers")
    base = answer(repository, "org/base", total=stored)
    candidate = answer(repository, "org/new", total=asked)

    with pytest.raises(NotComparableError) as told:
        planned(base, candidate)

    assert f"sums: {asked} questions, and the baseline has {stored} (`--limit`)" in str(told.value)
    assert "90 % have to be compared" in str(told.value)
    assert str(told.value).endswith("pass `--allow overlap`.")
    planned(base, candidate, allow=("overlap",))
    planned(base, candidate, min_coverage=12)


def test_a_plan_with_other_settings_is_refused(tmp_path: Path) -> None:
    repository = LocalRepository(tmp_path / "answers")
    base = answer(repository, "org/base")

    with pytest.raises(NotComparableError, match=r"sums: temperature: '0\.0' against '0\.7'"):
        planned(base, answer(repository, "org/new", temperature=0.7))
    planned(base, answer(repository, "org/new", temperature=0.7), allow=("sampling",))
    planned(base, answer(repository, "org/new"))


def test_where_not_even_an_unchanged_model_passes_is_an_error_before_stored_answers_are_compared(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "regrade.gate")
    repository = LocalRepository(tmp_path / "answers")
    for model, benchmark in itertools.product(("org/base", "org/same"), ("sums", "products")):
        answer(repository, model, right=40, total=50, benchmark=benchmark)

    with pytest.raises(SettingsError) as told:
        verdict(repository, "org/same", baseline="org/base")
    for name in ("sums", "products"):
        assert f"{name}: 50 questions cannot show" in str(told.value)
        assert f"`--max-drop-of {name}=6`" in str(told.value)
    assert verdict(repository, "org/same", baseline="org/base", max_drop=6).verdict == "pass"
    assert "with 50 questions, an unchanged model passes in 80 % of the runs" in caplog.text
    compared = CompareJob(
        base="org/base", candidate="org/same", answers=repository.uri, gate=GateSettings()
    )
    with pytest.raises(SettingsError, match="299 questions, or accept 6 points"):
        compared.compared()
    # Whatever the verdict says beforehand, its own tests say at the end.
    sides = find_side("org/same", repository.uri)
    judged = gate(sides, GateSettings(baseline="org/base"), answers=repository.uri)
    assert judged.verdict == "cannot tell"
    assert "with 50 questions, not even a model that changes no answer passes" in judged.summary


def test_a_report_survives_json_and_a_newer_one_is_refused(repository: LocalRepository) -> None:
    answer(repository, "org/bad", right=340, unparsed=30)
    report = verdict(repository, "bad", "sums", max_unparsed=1.0)

    assert GateReport.model_validate_json(report.model_dump_json()) == report
    newer = report.model_dump(mode="json") | {"report_version": 99}
    with pytest.raises(ValueError, match="report_version"):
        GateReport.model_validate(newer)


def test_a_benchmark_without_numbers_has_a_section_unless_the_summary_tells_its_reason() -> None:
    def told(verdict: str, *reasons: tuple[str, str]) -> tuple[int, list[str]]:
        judged = [
            BenchmarkVerdict(benchmark=f"b{n}", verdict=given, reason=reason, max_drop=0.01)
            for n, (given, reason) in enumerate(reasons)
        ]
        report = GateReport(
            verdict=verdict,
            summary="regression: b0: Sure.",
            base="base",
            candidate="m",
            error_rate=0.05,
            benchmarks=tuple(judged),
        )
        blocks = verdict_text.blocks(report)
        sections = [b.text for b in blocks if isinstance(b, Heading) and b.level == 2]
        return len(summarised(report.verdict, judged)), [str(text) for text in sections]

    # The same words as a reason that the summary has, of another verdict.
    assert told("regression", ("regression", "Sure."), ("pass", "Sure.")) == (1, ["b1"])
    assert told("cannot tell", ("cannot tell", "Same."), ("cannot tell", "Same.")) == (1, [])
    assert told("pass", ("pass", "Same."), ("pass", "Same.")) == (1, [])
    assert told("pass", ("pass", "Sure."), ("pass", "Better.")) == (0, ["b0", "b1"])
    many = [("cannot tell", f"Reason {n}.") for n in range(7)]
    assert told("cannot tell", *many) == (5, ["b5", "b6"])
