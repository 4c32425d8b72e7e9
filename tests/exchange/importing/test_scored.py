"""Files of benchmarks with documents of their own: imported, then scored from what was imported."""

import json
from pathlib import Path
from typing import Any

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.sets import list_sets
from regrade.scoring.score import score_answers
from regrade.settings import ScoringOptions
from tests.benchmarks.programming import CONTEST_ROWS, INCREASED, MBPP_ROWS
from tests.command_line import regrade
from tests.exchange.importing.test_lm_eval import TIME, results, sample
from tests.exchange.importing.writing import jsonl
from tests.processes.sandbox.bubblewrap import needs_bubblewrap
from tests.scorers.instructions.nltk_folder import write_nltk_data

NO_COMMA = {
    "key": 1,
    "prompt": "Write without a comma.",
    "instruction_id_list": ["punctuation:no_comma", "length_constraints:number_words"],
    "kwargs": [{}, {"num_words": 4, "relation": "at least"}],
}
FOLLOWED = ("Four words without any.", "Well, four words or more")
DOUBLED, _, SHIFTED = CONTEST_ROWS


@pytest.fixture
def nltk_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_nltk_data(tmp_path / "nltk")
    monkeypatch.setattr("nltk.data.path", [str(folder)])
    monkeypatch.setenv("NLTK_DATA", str(folder))


def scored(path: Path, scorer: str, *options: str) -> tuple[list[Any], list[str]]:
    """Import a file and score its answers; the values by row, and the fields that were not imported."""
    answers = path.parent / "answers"
    arguments = (path, *options, "--scorer", scorer, "--answers", answers, "--json")
    imported = regrade("import", *arguments)
    assert imported.code == 0, imported.err
    repository = LocalRepository(answers)
    [answer_set] = list_sets(repository, repository.head() or "")
    table = score_answers(answer_set, scorer, options=ScoringOptions(processes=1)).table
    assert table is not None
    rows = sorted(table.to_pylist(), key=lambda row: (row["sample_id"], row["repeat"]))
    not_imported = imported.document["fields_not_imported"]
    return [row["value"] for row in rows], not_imported.get("lm-eval", [])


@pytest.mark.usefixtures("nltk_data")
def test_samples_of_ifeval_in_lm_eval_are_scored_and_their_doc_is_imported(tmp_path: Path):
    results(tmp_path)
    texts = sample(1, list(FOLLOWED), 1.0, doc=NO_COMMA, target=None)
    found, not_imported = scored(jsonl(tmp_path / f"samples_sums_{TIME}.jsonl", texts), "ifeval")
    assert found == [1, 0]
    assert not_imported == ["arguments.gen_args_0.arg_1"]


@needs_bubblewrap
@pytest.mark.parametrize(
    ("doc", "right", "wrong"),
    [
        (
            INCREASED,
            f"{INCREASED['prompt']}{INCREASED['canonical_solution']}",
            "def increased(n):\n    return n",
        ),
        (MBPP_ROWS[1], MBPP_ROWS[1]["code"], "def root(x):\n    return 2"),
        (DOUBLED, "print(2 * int(input()))", "print(2)"),
        (
            SHIFTED,
            "class Solution:\n    def shifted(self, a, n):\n        return [x + n for x in a]",
            "class Solution:\n    pass",
        ),
    ],
    ids=["humaneval", "mbpp", "livecodebench", "livecodebench-function"],
)
def test_a_table_of_programs_is_scored_by_its_tests(
    tmp_path: Path, doc: dict[str, Any], right: str, wrong: str
):
    row = {"text": [f"```python\n{text}\n```" for text in (right, wrong)], "doc": doc}
    path = jsonl(tmp_path / "a.jsonl", json.loads(json.dumps(row, default=str)))
    options = ("--column.text", "text", "--column.doc", "doc", "--model", "m", "--benchmark", "b")
    assert scored(path, "code", *options)[0] == [1, 0]
