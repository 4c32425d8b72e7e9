"""BFCL's two files for each category, joined by the questions' ids, from a folder and from a Hub over HTTP."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from regrade.benchmarks import open_benchmark
from regrade.benchmarks.base import Benchmark
from regrade.records import Sample
from regrade.settings import PromptSettings
from regrade.settings.errors import SourceError
from tests.benchmarks.files import Rows, write_jsonl
from tests.hub_server.here import use_hub
from tests.hub_server.server import HubServer
from tests.hub_server.store import Entry
from tests.scorers.batches import batch_score, generations

CATEGORIES = ("simple", "multiple", "parallel", "parallel_multiple")
FUNCTION = {
    "name": "math.area",
    "description": "Area of a triangle.",
    "parameters": {
        "type": "dict",
        "properties": {
            "base": {"type": "float", "description": "Its base."},
            "unit": {"type": "string", "description": "cm if not given"},
        },
        "required": ["base"],
    },
}
OTHER = FUNCTION | {"name": "math.length"}
RIGHT = [{"math.area": {"base": [10.0], "unit": ["cm", ""]}}]


def question(category: str, number: int = 0, **changes: Any) -> dict[str, Any]:
    turns = [{"role": "user", "content": f"How large is {category} {number}?"}]
    return {
        "id": f"{category}_{number}",
        "question": [turns],
        "function": [FUNCTION, OTHER],
    } | changes


def files(version: str, before: str = "") -> dict[str, Rows]:
    """Return the files of all categories: two questions each, the right calls in another order."""
    found: dict[str, Rows] = {}
    for category in (*CATEGORIES, "irrelevance"):
        shown = "simple_python" if (version, category, before) == ("v4", "simple", "") else category
        file = f"BFCL_{version}_{before}{shown}.json"
        found[file] = [question(category, number) for number in (0, 1)]
        if category != "irrelevance":
            found[f"possible_answer/{file}"] = [
                {"id": f"{category}_{number}", "ground_truth": RIGHT} for number in (1, 0)
            ]
    return found


def write(folder: Path, found: Mapping[str, Rows]) -> Path:
    for name, rows in found.items():
        (folder / name).parent.mkdir(exist_ok=True)
        write_jsonl(folder / name, rows)
    return folder


def opened(folder: Path, found: Mapping[str, Rows], name: str = "bfcl") -> Benchmark:
    return open_benchmark(name, source=str(write(folder, found)))


def value(sample: Sample, *calls: dict[str, Any]) -> float:
    changes = {"doc": json.dumps(sample.doc), "tool_calls": json.dumps(calls)}
    batch = generations([""], sample.target, **changes)
    return float(batch_score("tool_calls")(batch)["value"][0].as_py())


@pytest.mark.parametrize("version", ["v3", "v4"])
def test_questions_and_right_calls_are_joined_by_their_ids(tmp_path: Path, version: str) -> None:
    found = files(version)
    path = f"possible_answer/BFCL_{version}_multiple.json"
    found[path] = [
        {"id": "multiple_1", "ground_truth": [{"math.length": {"base": [1.5]}}]},
        {"id": "multiple_0", "ground_truth": RIGHT},
    ]

    samples = opened(tmp_path, found).samples()

    assert Counter(sample.subset for sample in samples) == dict.fromkeys(
        (*CATEGORIES, "irrelevance"), 2
    )
    one, other = [sample for sample in samples if sample.subset == "multiple"]
    assert json.loads(one.target) == [{"math_area": {"base": [10.0], "unit": ["cm", ""]}}]
    assert json.loads(other.target) == [{"math_length": {"base": [1.5]}}]
    assert value(one, {"name": "math_area", "arguments": {"base": 10}}) == 1.0
    assert value(one, {"name": "math_length", "arguments": {"base": 10}}) == 0.0


def test_the_model_is_asked_with_the_turns_and_the_functions_as_tools(tmp_path: Path) -> None:
    found = files("v4")
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Area?"}]
    found["BFCL_v4_simple_python.json"][0]["question"] = [turns]
    source = str(write(tmp_path, found))

    first = open_benchmark("bfcl", source=source).samples()[0]

    assert open_benchmark("bfcl", source=source).prompt(first) == tuple(turns)
    assert first.question == "Area?"
    assert [tool["function"]["name"] for tool in first.tools] == ["math_area", "math_length"]
    asked = open_benchmark("bfcl", source=source, prompt=PromptSettings(system="Call."))
    assert [turn["content"] for turn in asked.prompt(first)] == ["Call.", "Be brief.", "Area?"]  # type: ignore[index]


def test_no_call_is_right_where_no_function_fits(tmp_path: Path) -> None:
    samples = opened(tmp_path, files("v3")).samples()
    sample = next(sample for sample in samples if sample.subset == "irrelevance")

    assert sample.target == "[]"
    assert value(sample) == 1.0
    assert value(sample, {"name": "math_area", "arguments": {"base": 10}}) == 0.0


def test_questions_of_users_are_a_benchmark_of_their_own(tmp_path: Path) -> None:
    benchmark = opened(tmp_path, files("v4", "live_"), "bfcl_live")

    assert {sample.subset for sample in benchmark.samples()} == {
        f"live_{category}" for category in (*CATEGORIES, "irrelevance")
    }


def test_a_question_without_a_function_is_left_out(tmp_path: Path) -> None:
    found = files("v4")
    found["BFCL_v4_irrelevance.json"][0]["function"] = []

    assert len(opened(tmp_path, found).samples()) == 9


def test_of_two_versions_the_newer_one_is_read(tmp_path: Path) -> None:
    found = files("v3")
    for rows in found.values():
        for row in rows:
            row["id"] = f"old_{row['id']}"
    newer = files("v4")
    newer["BFCL_v4_multiple.json"][0]["question"][0][0]["content"] = "Newer?"

    samples = opened(tmp_path, found | newer).samples()

    assert len(samples) == 10
    assert "Newer?" in {sample.question for sample in samples}


def test_the_identity_covers_both_files(tmp_path: Path) -> None:
    before = opened(tmp_path, files("v4")).identity.source_revision
    changed = files("v4")
    changed["possible_answer/BFCL_v4_parallel.json"][0]["ground_truth"] = RIGHT * 2

    assert opened(tmp_path, changed).identity.source_revision != before


@pytest.mark.parametrize(
    ("path", "rows", "message"),
    [
        ("BFCL_v4_parallel.json", None, "of version v3, BFCL_v3_simple.json, "),
        (
            "possible_answer/BFCL_v4_parallel.json",
            [{"id": "parallel_0", "ground_truth": RIGHT}],
            "'possible_answer/BFCL_v4_parallel.json' has no right calls for the question 'parallel_1'",
        ),
        ("BFCL_v4_parallel.json", [], "'BFCL_v4_parallel.json' holds no rows"),
        ("BFCL_v4_parallel.json", [{"question": "?"}], "line 1 of 'BFCL_v4_parallel.json' is no"),
        ("BFCL_v4_parallel.json", [question("parallel", question=[])], "the question is '[]'"),
        (
            "BFCL_v4_parallel.json",
            [question("parallel", question=[[{"role": "user", "content": "?"}]] * 2)],
            "expected a list with one list of messages",
        ),
        ("BFCL_v4_parallel.json", [question("parallel", function="x")], "column 'function' is 'x'"),
    ],
)
def test_files_that_do_not_fit_are_refused(
    tmp_path: Path, path: str, rows: Rows | None, message: str
) -> None:
    found = files("v4")
    if rows is None:
        del found[path]
    else:
        found[path] = rows

    with pytest.raises(SourceError) as error:
        opened(tmp_path, found).samples()

    assert message in str(error.value)


def test_a_line_that_is_no_json_is_refused(tmp_path: Path) -> None:
    write(tmp_path, files("v4"))
    (tmp_path / "BFCL_v4_multiple.json").write_text("{", "utf-8")

    with pytest.raises(
        SourceError, match="'BFCL_v4_multiple.json' cannot be read as lines of JSON"
    ):
        open_benchmark("bfcl", source=str(tmp_path)).samples()


def test_the_files_are_read_from_the_hub_at_one_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = HubServer()
    server.start()
    try:
        server.store.add_user("someone")
        repo = server.store.create(
            "datasets",
            "gorilla-llm",
            "Berkeley-Function-Calling-Leaderboard",
            private=False,
            url="",
        )
        tree = {
            path: Entry("".join(json.dumps(row) + "\n" for row in rows).encode(), lfs=False)
            for path, rows in files("v3").items()
        }
        commit = repo.add("main", "questions", tree).oid
        use_hub(monkeypatch, server.endpoint, home=tmp_path)
        benchmark = open_benchmark("bfcl")
        subsets = [sample.subset for sample in benchmark.samples()]
    finally:
        server.stop()
    assert Counter(subsets) == dict.fromkeys((*CATEGORIES, "irrelevance"), 2)
    assert benchmark.identity.source_revision == commit
