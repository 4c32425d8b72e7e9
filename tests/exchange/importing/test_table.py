import json
from pathlib import Path

import pytest

from regrade.exchange.importing import table
from regrade.exchange.importing.base import Columns, ImportedSet, RowScore, TableOptions
from regrade.exchange.importing.files import ImportFileError, SourceFile
from regrade.scorers.programs.task import read_task
from regrade.settings.errors import SettingsError
from tests.benchmarks.programming import CONTEST_ROWS, contest
from tests.exchange.importing.writing import jsonl, parquet

ROW = {
    "q": "2+2?",
    "sent": "Q: 2+2?",
    "gold": "So it is\nA: 4",
    "runs": {"big": {"text": "It is 4.", "right": True}},
    "options": ["3", "4"],
    "topic": "sums",
    "percent": 80,
}
COLUMNS = Columns(
    text="runs.big.text",
    question="q",
    prompt="sent",
    target="gold",
    choices="options",
    subset="topic",
    score="runs.big.right",
)


def read(path: Path, columns: Columns, target_after: str | None = None) -> ImportedSet:
    return table.read(SourceFile(path), TableOptions(columns, target_after))


def test_named_columns_are_read_wherever_they_are(tmp_path: Path):
    for path in (jsonl(tmp_path / "a.jsonl", ROW), parquet(tmp_path / "a.parquet", [ROW])):
        found = read(path, COLUMNS, "A:")
        [row] = found.rows
        assert (row.text, row.question, row.prompt) == ("It is 4.", "2+2?", "Q: 2+2?")
        assert (row.target, row.choices, row.subset) == ("4", ("3", "4"), "sums")
        assert row.scores == {"runs.big.right": RowScore(1.0)}
        assert found.recorded["columns"]["text"] == "runs.big.text"
        assert (found.model, found.benchmark) == (None, None)


def test_what_is_not_named_is_not_known(tmp_path: Path):
    [row] = read(jsonl(tmp_path / "a.jsonl", {"text": "4"}), Columns(text="text")).rows
    assert (row.target, row.prompt, row.choices, row.subset, row.scores) == (None, None, (), "", {})


def test_missing_numbers_of_pandas_are_missing(tmp_path: Path):
    nan = float("nan")
    path = parquet(tmp_path / "a.parquet", [{"a": "x", "gold": nan, "ok": nan, "final": nan}])
    columns = Columns(text="a", target="gold", score="ok", extracted="final")
    [row] = read(path, columns).rows
    assert (row.target, row.scores) == (None, {"ok": RowScore(None)})


def test_a_number_stays_a_number_and_a_text_a_text(tmp_path: Path):
    path = jsonl(tmp_path / "a.jsonl", *({"a": "x", "gold": gold} for gold in (1, 1.5, "# 1", [1])))
    found = read(path, Columns(text="a", target="gold"))
    assert [row.target for row in found.rows] == [1, 1.5, "# 1", "[1]"]
    found = read(path, Columns(text="a", target="gold"), "#")
    assert [row.target for row in found.rows] == ["1", "1.5", "1", "[1]"]


def test_extracted_answers_belong_to_the_answers_of_their_row(tmp_path: Path):
    rows = [
        {"a": ["x", "y"], "final": ["1", None]},
        {"a": ["x", "y"], "final": "1"},
        {"a": "x", "final": 1},
    ]
    found = read(jsonl(tmp_path / "a.jsonl", *rows), Columns(text="a", extracted="final"))
    name = "final equals target"
    assert [(original.name, original.by_target) for original in found.originals] == [(name, True)]
    assert [row.scores.get(name) for row in found.rows] == [
        RowScore(None, "1"),
        RowScore(None, None),
        None,
        None,
        RowScore(None, "1"),
    ]


def test_a_missing_answer_stays_missing_alone_and_among_others(tmp_path: Path):
    path = jsonl(tmp_path / "a.jsonl", {"text": None}, {"text": ["4", None]})
    assert [row.text for row in read(path, Columns(text="text")).rows] == [None, "4", None]


def test_several_answers_in_one_row_are_repeats(tmp_path: Path):
    found = read(
        jsonl(tmp_path / "a.jsonl", {"text": ["4", "5"], "s": 1}), Columns(text="text", score="s")
    )
    assert [(row.index, row.repeat, row.text, row.scores) for row in found.rows] == [
        (0, 0, "4", {}),
        (0, 1, "5", {}),
    ]


def test_a_table_without_named_columns_says_which_there_are(tmp_path: Path):
    with pytest.raises(SettingsError, match=r"--column\.text NAME.*Its columns: q, sent"):
        read(jsonl(tmp_path / "a.jsonl", ROW), Columns())


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (
            Columns(text="answer"),
            "`--column.text answer`: there is no field 'answer'. Fields: 'q', 'sent'",
        ),
        (
            Columns(text="q", target="right"),
            "`--column.target right`: there is no field 'right'. Fields: 'q', 'sent'",
        ),
        (Columns(text="runs"), "'runs' should be a text"),
        (Columns(text="q", score="topic"), "'topic' should be true, false or a number"),
        (
            Columns(text="q", score="percent"),
            "the score 'percent' is 80, outside of 0 to 1. .*--score-range",
        ),
        (Columns(text="q", choices="topic"), "'topic' should be a list of texts"),
    ],
)
def test_a_column_that_does_not_fit_is_named_with_its_row(
    tmp_path: Path, columns: Columns, says: str
):
    with pytest.raises(ImportFileError, match=f"row 0: {says}"):
        read(jsonl(tmp_path / "a.jsonl", ROW), columns)


def test_a_row_may_lack_a_column_that_others_have(tmp_path: Path):
    rows = ({"q": "1+1", "a": "2", "right": "2", "ok": True}, {"q": "1+2", "a": "4"})
    columns = Columns(text="a", question="q", target="right", score="ok")
    found = read(jsonl(tmp_path / "a.jsonl", *rows), columns)
    assert [row.target for row in found.rows] == ["2", None]


def test_a_text_before_the_target_that_no_row_has_is_refused(tmp_path: Path):
    rows = ({"a": "2", "right": "so #### 2"}, {"a": "3", "right": "3"})
    path, columns = jsonl(tmp_path / "a.jsonl", *rows), Columns(text="a", target="right")
    assert [row.target for row in read(path, columns, "####").rows] == ["2", "3"]
    with pytest.raises(
        ImportFileError, match="`--target-after 'Q:'`: no target in the column 'right'"
    ):
        read(path, columns, "Q:")


IFEVAL = {
    "key": 1,
    "prompt": "Write # twice.",
    "instruction_id_list": ["keywords:letter_frequency"],
    "kwargs": [{"letter": "#", "let_frequency": 2, "let_relation": "at least", "keyword": None}],
}
HUMANEVAL = {
    "prompt": "def f(x):\n",
    "test": "def check(candidate):\n    assert candidate(1) == 1\n",
    "entry_point": "f",
}
MBPP = {"test_list": ["assert f(1) == 1"], "test_setup_code": "import math"}
SANITIZED_MBPP = {"test_list": ["assert f(1) == 1"], "test_imports": ["import math"]}


def test_a_document_reaches_the_scorers_also_as_its_benchmark_publishes_it(tmp_path: Path):
    own = {"function": "f", "cases": [{"input": [1], "output": 2}]}
    asserted = {
        "tests": [{"source": "assert f(1) == 2"}]
    }  # as docs/import.md and the option's help have them
    given = (IFEVAL, HUMANEVAL, MBPP, own, json.dumps(own), asserted)
    rows = [{"text": "x", "doc": doc} for doc in given]
    path = jsonl(tmp_path / "a.jsonl", *rows)

    docs = [str(row.doc) for row in read(path, Columns(text="text", doc="doc")).rows]

    kwargs = {"letter": "#", "let_frequency": 2, "let_relation": "at least"}
    instruction = {"id": "keywords:letter_frequency", "kwargs": kwargs}
    assert json.loads(docs[0]) == {"prompt": "Write # twice.", "instructions": [instruction]}
    tasks = [read_task("s", doc) for doc in docs[1:]]
    assert [(task.function, task.has_check) for task in tasks] == [
        ("f", True), (None, False), ("f", False), ("f", False), (None, False)
    ]  # fmt: skip
    assert tasks[1].tests[0].source == "import math\nassert f(1) == 1"


def test_answers_to_problems_of_contests_reach_their_tests(tmp_path: Path):
    problem = contest("1", "2025-01-01")
    function = CONTEST_ROWS[-1]
    rows = [{"text": "x", "doc": doc} for doc in (problem, function, SANITIZED_MBPP)]
    path = jsonl(tmp_path / "a.jsonl", *json.loads(json.dumps(rows, default=str)))

    found = read(path, Columns(text="text", doc="doc")).rows

    script, called, mbpp = (read_task("s", str(row.doc)) for row in found)
    assert [(case.input, case.output) for case in script.cases] == [
        ("1\n", "2\n"),
        ("20\n", "40\n"),
    ]
    assert (script.function, script.imports) == (None, "competition")
    assert called.function is not None
    assert called.function.startswith("Solution.")
    assert mbpp.tests[0].source == "\nimport math\nassert f(1) == 1"
    broken = jsonl(
        tmp_path / "b.jsonl", {"text": "x", "doc": {**problem, "private_test_cases": "?"}}
    )
    with pytest.raises(
        ImportFileError, match="its document cannot be used: the private tests cannot"
    ):
        read(broken, Columns(text="text", doc="doc"))


def test_conversations_and_criteria_are_kept_for_a_judge(tmp_path: Path):
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}]
    criteria = [{"criterion": "Is polite.", "points": 5, "tags": ["axis:style"]}]
    rows = [{"text": "x", "prompt": turns, "rubrics": criteria}, {"text": "x", "prompt": "Hi"}]
    path = jsonl(tmp_path / "a.jsonl", *({"rubrics": None} | row for row in rows))

    first, second = read(path, Columns(text="text", prompt="prompt", doc="rubrics")).rows

    assert (json.loads(str(first.prompt)), first.prompt_kind) == (turns, "messages")
    assert json.loads(str(first.doc)) == {"criteria": criteria}
    assert (second.prompt, second.prompt_kind, second.doc) == ("Hi", "text", None)


def test_a_document_that_is_none_is_refused_with_its_row(tmp_path: Path):
    for doc, says in (("no JSON", "should be JSON"), ({**IFEVAL, "kwargs": []}, "kwargs is 0")):
        path = jsonl(tmp_path / "a.jsonl", {"text": "x", "doc": doc})
        with pytest.raises(ImportFileError, match=says):
            read(path, Columns(text="text", doc="doc"))
