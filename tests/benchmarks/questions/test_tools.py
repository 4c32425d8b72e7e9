"""A dataset's functions and right calls, in BFCL's form and in OpenAI's."""

import json
from pathlib import Path
from typing import Any

import pytest

from regrade.settings.errors import SettingsError, SourceError
from tests.benchmarks.files import write_jsonl
from tests.benchmarks.questions.test_dataset import opened

BFCL = {
    "name": "spotify.play",
    "parameters": {
        "type": "dict",
        "properties": {
            "artist": {"type": "string"},
            "seconds": {"type": "float", "description": "How long."},
            "places": {"type": "tuple", "items": {"type": "any"}},
        },
        "required": ["artist"],
    },
}
PLAIN = {"name": "play", "parameters": {"type": "object", "properties": {"n": {"anyOf": []}}}}
OPENAI = {"type": "function", "function": {"name": "play.it", "parameters": {}}}
RIGHT = [{"spotify.play": {"artist": ["Abba"], "seconds": [1.5, ""]}}]
COLUMNS = {"scorer": "tool_calls", "target_column": "right", "tools_column": "function"}


def row(function: Any = (BFCL,), right: Any = RIGHT, question: str = "Play.") -> dict[str, Any]:
    return {"question": question, "function": function, "right": right}


def test_functions_of_bfcl_become_those_of_openai_and_are_kept_with_the_right_calls(tmp_path: Path):
    [sample] = opened(write_jsonl(tmp_path / "own.jsonl", [row()]), **COLUMNS).samples()

    [tool] = sample.tools
    function = tool["function"]
    assert (tool["type"], function["name"]) == ("function", "spotify_play")
    assert function["parameters"]["type"] == "object"
    assert function["parameters"]["properties"] == {
        "artist": {"type": "string"},
        "seconds": {
            "type": "number",
            "format": "float",
            "description": "How long. This is a float type value.",
        },
        "places": {"type": "array", "items": {"type": "string"}},
    }
    assert sample.doc == {"tools": [tool]}
    assert json.loads(sample.target) == [
        {"spotify_play": {"artist": ["Abba"], "seconds": [1.5, ""]}}
    ]
    assert sample.question == "Play."


def test_other_functions_stay_as_they_are_also_as_json_text(tmp_path: Path):
    rows = [row([PLAIN, OPENAI], []), row(json.dumps([PLAIN, OPENAI]), "[]")]
    one, other = opened(write_jsonl(tmp_path / "own.jsonl", rows), **COLUMNS).samples()

    assert one.tools == ({"type": "function", "function": PLAIN}, OPENAI)
    assert other.tools == one.tools
    assert (one.target, other.id) == ("[]", f"{one.id}-2")


def test_the_functions_decide_the_id_of_a_question(tmp_path: Path):
    path = write_jsonl(tmp_path / "own.jsonl", [row([PLAIN], []), row([OPENAI], [])])
    one, other = opened(path, **COLUMNS).samples()
    without = opened(path, scorer="exact", target_column="question").samples()

    assert one.id != other.id
    assert without[1].id == f"{without[0].id}-2"
    assert without[0].tools == ()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (row(None), "expected a list of functions"),
        (row([]), "expected a list of functions"),
        (row("[{"), "expected a list of functions"),
        (row([{"parameters": {}}]), "expected a list of functions"),
        (row([BFCL, BFCL]), "two functions 'spotify_play'"),
        (row(right=None), "expected a list of right calls"),
        (row(right=[{"spotify.play": {"artist": "Abba"}}]), "expected a list of right calls"),
        (row(right=[{"stop": {}}]), "calls 'stop', but the question has spotify_play"),
    ],
)
def test_what_is_no_function_or_no_right_call_is_refused(
    tmp_path: Path, given: dict[str, Any], reason: str
):
    with pytest.raises(SourceError, match=reason):
        opened(write_jsonl(tmp_path / "own.jsonl", [given]), **COLUMNS).samples()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format": "completion"}, "Use `prompt.format=chat`"),
        ({"tools_column": None}, "Set `datasets.tools_column`"),
        ({"scorer": "code"}, "cannot take into account"),
    ],
)
def test_a_benchmark_with_tools_is_a_chat(tmp_path: Path, changes: dict[str, Any], reason: str):
    path = write_jsonl(tmp_path / "own.jsonl", [row()])
    with pytest.raises(SettingsError, match=reason):
        opened(path, **(COLUMNS | changes))
