"""The scorer `code`, on questions of the real benchmarks' form, in a real sandbox."""

import json
from collections.abc import Iterator, Sequence
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
OPTIONS = ScoringOptions(processes=2)


def parquet(path: Path, rows: Rows) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def answers_to(sample: Sample, texts: Sequence[str | None]) -> Rows:
    completions = [
        Completion(number, prompt="?", text=text, finish_reason="stop")
        for number, text in enumerate(texts)
    ]
    return [generation_row(sample, n, completion) for n, completion in enumerate(completions)]


def scores_of(score: BatchScore, rows: Rows, prompt_format: str = "chat") -> Rows:
    batch = pa.RecordBatch.from_pylist(rows, schema=GENERATION_SCHEMA)
    batch = batch.select([*SHARED_COLUMNS, "text", "doc"])
    formats = pa.array([prompt_format] * len(rows), pa.string())
    return score(batch.append_column(PROMPT_FORMAT, formats)).to_pylist()


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
    return scores_of(score, answers_to(sample, texts), prompt_format)


def values(
    score: BatchScore, sample: Sample, *texts: str, prompt_format: str = "chat"
) -> list[float | None]:
    return [row["value"] for row in graded(score, sample, texts, prompt_format)]


def test_the_reference_solutions_pass_as_chat_and_as_completion(
    score: BatchScore, humaneval: Benchmark, mbpp: Benchmark
):
    for sample in humaneval.samples():
        whole = f"{sample.fields['prompt']}{sample.target}"
        assert values(score, sample, fenced(whole), whole) == [1, 1], sample.fields
        [chat] = graded(score, sample, [fenced(whole)])
        assert json.loads(chat["metrics"]) == {"base": 1, "plus": 1}
    for sample in (*humaneval.samples(), *mbpp.samples()):
        assert values(score, sample, fenced(sample.target)) == [1]
        assert values(score, sample, sample.target, prompt_format="completion") == [1]


def test_comments_and_docstrings_of_a_program_are_no_headings_of_another_question(
    score: BatchScore, humaneval: Benchmark
):
    sample = next(iter(humaneval.samples()))
    body = sample.target.rstrip("\n")
    inner = (
        '    def unused():\n        """Return.\n\n        Example:\n            1\n        """\n'
    )
    commented = f"    pass\n    # Input validation\n{inner}{body}"
    chat = fenced(f"answer = 0\n# Example usage\n{sample.fields['prompt']}{body}")
    ended = f"{body}\n\n### Question 2\nWrite another function."

    assert values(score, sample, commented, ended, prompt_format="completion") == [1, 1]
    assert values(score, sample, chat) == [1]


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
    nearly = "def halved(x):\n    return x / 2 + 1e-9"
    exact = "import numpy as np\ndef halved(x):\n    return np.float64(x) / 2"
    assert values(score, halved, fenced(nearly), fenced(exact)) == [1, 1]
    tuples = "def increased(n):\n    return tuple(x + 1 for x in n)"
    integers = "def increased(n):\n    return [float(x + 1) for x in n]"
    assert values(score, increased, fenced(tuples), fenced(integers)) == [0, 0]


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
    unparsed, empty, failed = scores_of(score, rows)
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
    texts = [fenced(endless), fenced(endless), fenced("def increased(n): return 1")]
    with load_scorer("code").session(ScoringContext(OPTIONS, specification())) as score:
        rows = graded(score, sample, texts)
    found = [(row["outcome"], row["value"]) for row in rows]
    assert found == [("timeout", 0), ("timeout", 0), ("scored", 0)]
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
SOURCES = {"doubled": SCRIPT, "doubled_2": "print(2)", "shifted": METHOD}


def with_source(path: Path) -> ScoringOptions:
    override = SourceOverride(benchmark="livecodebench", path=str(path))
    return OPTIONS.model_copy(update={"sources": (override,)})


def test_livecodebench_is_scored_by_tests_that_are_not_stored_with_the_answers(tmp_path: Path):
    contests = parquet(tmp_path / "contests.parquet", CONTEST_ROWS)
    benchmark = open_benchmark("livecodebench", source=str(contests))
    samples = benchmark.samples()
    assert [sample.subset for sample in samples] == ["easy", "hard", "medium"]
    answered = ((sample, fenced(SOURCES[sample.doc["question"]])) for sample in samples)
    rows = [row for sample, text in answered for row in answers_to(sample, [text])]
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
    scored = score_answers(answers, "code", options=with_source(contests))
    assert scored.table["value"].to_pylist() == [1, 0, 1]
    with pytest.raises(SettingsError, match="--source livecodebench=PATH"):
        score_answers(answers, "code", options=OPTIONS)
    other = parquet(tmp_path / "other.parquet", [*CONTEST_ROWS, contest("more", "2025-01-01")])
    with pytest.raises(SourceError, match="not that of the file"):
        score_answers(answers, "code", options=with_source(other))


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
