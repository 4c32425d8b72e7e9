"""The scorer `code`, on questions of the real benchmarks' form, in a real sandbox."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.origin import SetDescription
from regrade.answers.publishing import publish_answers
from regrade.answers.spool import Spool
from regrade.benchmarks import open_benchmark
from regrade.benchmarks.base import Benchmark
from regrade.processes.sandbox.limits import Limits
from regrade.records import Completion, Sample
from regrade.records.columns import GENERATION_SCHEMA, generation_row
from regrade.scorers import code as code_module
from regrade.scorers import load_scorer
from regrade.scorers.base import PROMPT_FORMAT, SHARED_COLUMNS
from regrade.scorers.sessions import BatchScore, ScoringContext
from regrade.scoring.score import label_of, score_answers
from regrade.settings import PromptSettings, ScoringOptions, SourceOverride
from regrade.settings.errors import SettingsError, SourceError
from tests.benchmarks.programming import (
    BASE_ROWS,
    CONTEST_ROWS,
    HUMANEVAL_ROWS,
    INCREASED,
    MBPP_ROWS,
    contest,
)
from tests.builders import specification
from tests.processes.sandbox.bubblewrap import needs_bubblewrap

pytestmark = needs_bubblewrap
Rows = list[dict[str, Any]]
Graded = Callable[[Sample, Sequence[str | None]], list[dict[str, Any]]]
OPTIONS = ScoringOptions(processes=2)


def parquet(path: Path, rows: Rows) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def batch_of(rows: Rows, prompt_format: str = "chat") -> pa.RecordBatch:
    batch = pa.RecordBatch.from_pylist(rows, schema=GENERATION_SCHEMA)
    batch = batch.select([*SHARED_COLUMNS, "text", "doc"])
    return batch.append_column(PROMPT_FORMAT, pa.array([prompt_format] * len(rows), pa.string()))


def answers_to(sample: Sample, texts: Sequence[str | None]) -> Rows:
    return [
        generation_row(
            sample, number, Completion(number, prompt="?", text=text, finish_reason="stop")
        )
        for number, text in enumerate(texts)
    ]


def test_no_more_programs_run_at_once_than_fit_into_the_free_memory(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    opened = Mock(side_effect=code_module.open_sandbox)
    monkeypatch.setattr(code_module, "open_sandbox", opened)
    monkeypatch.setattr(code_module, "free_memory", lambda: 13 << 30)
    scorer = load_scorer("code")
    with scorer.session(ScoringContext(ScoringOptions(processes=64), specification())):
        assert opened.call_args.kwargs["processes"] == 3
    assert "3 programs run at the same time instead of 64" in caplog.text


@pytest.fixture(scope="module")
def score() -> Iterator[BatchScore]:
    scorer = load_scorer("code")
    with scorer.session(ScoringContext(OPTIONS, specification())) as opened:
        yield opened


@pytest.fixture(scope="module")
def humaneval(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    folder = tmp_path_factory.mktemp("humaneval")
    parquet(folder / "base.parquet", BASE_ROWS)
    return open_benchmark(
        "humaneval_plus", source=str(parquet(folder / "test.parquet", HUMANEVAL_ROWS))
    )


@pytest.fixture(scope="module")
def mbpp(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    path = tmp_path_factory.mktemp("mbpp") / "test.parquet"
    return open_benchmark("mbpp_plus", source=str(parquet(path, MBPP_ROWS)))


def fenced(source: str, language: str = "python") -> str:
    return f"Here it is:\n```{language}\n{source}\n```\nThat works."


def graded(
    score: BatchScore, sample: Sample, texts: Sequence[str | None], prompt_format: str = "chat"
) -> Rows:
    return score(batch_of(answers_to(sample, texts), prompt_format)).to_pylist()


def test_the_reference_solutions_pass_as_chat_and_as_completion(
    score: BatchScore, humaneval: Benchmark, mbpp: Benchmark
):
    for sample in humaneval.samples():
        whole = f"{sample.fields['prompt']}{sample.target}"
        [chat, bare, continued] = graded(
            score, sample, [fenced(whole), whole, fenced(sample.target)]
        )
        assert [chat["value"], bare["value"], continued["value"]] == [1, 1, 1], sample.fields
        assert json.loads(chat["metrics"]) == {"base": 1, "plus": 1}
        [completion] = graded(score, sample, [sample.target], "completion")
        assert completion["value"] == 1
    for sample in mbpp.samples():
        [chat] = graded(score, sample, [fenced(sample.target)])
        [completion] = graded(score, sample, [sample.target], "completion")
        assert [chat["value"], completion["value"]] == [1, 1]


def test_a_program_that_passes_only_the_first_tests_is_right_in_base_and_wrong_in_plus(
    score: BatchScore, humaneval: Benchmark, mbpp: Benchmark
):
    increased, halved, repeated, zero = humaneval.samples()
    similar, root = mbpp.samples()
    for sample, source in (
        (increased, "def increased(n):\n    return [2, 3]"),
        (halved, "def halved(x):\n    return 1.5"),
        (repeated, "def repeated(n):\n    return 'aaa'"),
        (zero, "def find_zero(xs):\n    return -xs[0]"),
        (similar, "def similar(a, b):\n    return [x for x in a if x in b] if a else 'x'"),
        (root, "def root(x):\n    return x ** 0.5 if x else 1"),
    ):
        [row] = graded(score, sample, [fenced(source)])
        assert (row["value"], row["outcome"]) == (0, "scored")
        assert json.loads(row["metrics"]) == {"base": 1, "plus": 0}, source


def test_results_are_compared_as_evalplus_compares_them(score: BatchScore, humaneval: Benchmark):
    increased, halved, *_ = humaneval.samples()
    nearly, exact, tuples, integers = [
        "def halved(x):\n    return x / 2 + 1e-9",
        "import numpy as np\ndef halved(x):\n    return np.float64(x) / 2",
        "def increased(n):\n    return tuple(x + 1 for x in n)",
        "def increased(n):\n    return [float(x + 1) for x in n]",
    ]
    assert [row["value"] for row in graded(score, halved, [fenced(nearly), fenced(exact)])] == [
        1,
        1,
    ]
    assert [
        row["value"] for row in graded(score, increased, [fenced(tuples), fenced(integers)])
    ] == [0, 0]


def test_the_program_is_shown_with_its_place(score: BatchScore, humaneval: Benchmark):
    sample = humaneval.samples()[1]
    source = "def halved(x):\n    return x / 2\n"
    text = f"<think>```python\nx\n```</think>Größe:\n```python\n{source}```"
    [row] = graded(score, sample, [text])
    assert row["extracted"] == source
    assert text[row["start"] : row["end"]] == source
    assert row["value"] == 1


def test_an_answer_without_a_program_is_unparsed_and_one_that_failed_has_no_value(
    score: BatchScore, humaneval: Benchmark
):
    sample = humaneval.samples()[0]
    rows = answers_to(sample, ["I cannot do that.", "", None])
    rows[2]["error"] = "the request failed"
    unparsed, empty, failed = score(batch_of(rows)).to_pylist()
    assert (unparsed["outcome"], unparsed["value"], unparsed["extracted"]) == ("unparsed", 0, None)
    assert json.loads(unparsed["metrics"]) == {"base": 0, "plus": 0}
    assert empty["outcome"] == "unparsed"
    assert (failed["outcome"], failed["value"], failed["metrics"]) == ("failed", None, None)


def test_a_program_that_does_not_end_is_a_timeout_after_a_second_run_alone(
    monkeypatch: pytest.MonkeyPatch, humaneval: Benchmark
):
    monkeypatch.setattr(code_module, "LIMITS", Limits(call_cpu_seconds=1))
    runs: list[str] = []
    original = code_module.Workers._run

    def counted(self: code_module.Workers, job: code_module.Job) -> Any:
        runs.append(job.program)
        return original(self, job)

    monkeypatch.setattr(code_module.Workers, "_run", counted)
    sample = humaneval.samples()[0]
    endless = "def increased(n):\n    while n: pass\n    return n"
    with load_scorer("code").session(ScoringContext(OPTIONS, specification())) as score:
        rows = graded(
            score, sample, [fenced(endless), fenced(endless), fenced("def increased(n): return 1")]
        )
    assert [row["outcome"] for row in rows] == ["timeout", "timeout", "scored"]
    assert [row["value"] for row in rows] == [0, 0, 0]
    assert len(runs) == 3  # the same program runs once, and once more alone


def test_answers_without_tests_are_refused(score: BatchScore):
    with pytest.raises(SettingsError, match="sample 'a' has none"):
        graded(score, Sample("a", 0, "1", {}), ["x = 1"])
    with pytest.raises(SettingsError, match="sample 'b': .*either tests, or cases"):
        graded(score, Sample("b", 0, "1", {}, doc={"function": "f"}), ["x = 1"])
    with pytest.raises(SettingsError, match="cannot be used: SyntaxError"):
        sample = Sample("c", 0, "1", {}, doc={"tests": [{"source": "assert ("}]})
        graded(score, sample, [fenced("x = 1")])


def test_the_environment_names_what_decides_the_scores():
    scorer = load_scorer("code")
    environment = scorer.environment(OPTIONS)
    assert environment["sandbox"] == "bwrap"
    assert environment["python"].startswith("3.")
    assert "6 s CPU per case" in environment["limits"]
    landlock = ScoringOptions(sandbox="landlock")
    assert label_of("code", OPTIONS) != label_of("code", landlock)


SCRIPT = "n = int(input())\nprint(2 * n)"
METHOD = (
    "class Solution:\n    def shifted(self, numbers, by):\n        return [n + by for n in numbers]"
)


def contest_answers(benchmark: Benchmark, sources: dict[str, str]) -> Rows:
    rows = []
    for sample in benchmark.samples():
        rows += answers_to(sample, [fenced(sources[sample.doc["question"]])])
    return rows


@pytest.fixture
def contests(tmp_path: Path) -> Path:
    return parquet(tmp_path / "contests.parquet", CONTEST_ROWS)


def test_livecodebench_is_scored_by_tests_that_are_not_stored_with_the_answers(
    tmp_path: Path, contests: Path
):
    benchmark = open_benchmark("livecodebench", source=str(contests))
    assert [sample.subset for sample in benchmark.samples()] == ["easy", "hard", "medium"]
    rows = contest_answers(
        benchmark, {"doubled": SCRIPT, "doubled_2": "print(2)", "shifted": METHOD}
    )
    assert all("40" not in (row["doc"] or "") for row in rows)
    repository = LocalRepository(tmp_path / "answers")
    described = SetDescription(
        specification=specification().model_copy(update={"benchmark": benchmark.identity}),
        n_samples=len(rows),
        scorers=("code",),
    )
    with Spool(tmp_path / "spool") as spool:
        spool.append(rows)
        answers = publish_answers(repository, spool, described)
    options = OPTIONS.model_copy(
        update={"sources": (SourceOverride(benchmark="livecodebench", path=str(contests)),)}
    )
    scored = score_answers(answers, "code", options=options)
    assert scored.table["value"].to_pylist() == [1, 0, 1]
    with pytest.raises(SettingsError, match="--source livecodebench=PATH"):
        score_answers(answers, "code", options=OPTIONS)
    other = parquet(tmp_path / "other.parquet", [*CONTEST_ROWS, contest("more", "2025-01-01")])
    wrong = OPTIONS.model_copy(
        update={"sources": (SourceOverride(benchmark="livecodebench", path=str(other)),)}
    )
    with pytest.raises(SourceError, match="not that of the file"):
        score_answers(answers, "code", options=wrong)


def test_a_prompt_that_ends_before_the_function_is_completed(score: BatchScore, tmp_path: Path):
    benchmark = open_benchmark(
        "humaneval_plus",
        source=str(parquet(tmp_path / "test.parquet", [INCREASED])),
        prompt=PromptSettings(format="completion"),
    )
    [sample] = benchmark.samples()
    prompt = benchmark.prompt(sample)
    assert prompt.endswith('"""\n')
    [row] = graded(score, sample, ["    return [n + offset() for n in numbers]"], "completion")
    assert (row["value"], row["metrics"]) == (1, None)
