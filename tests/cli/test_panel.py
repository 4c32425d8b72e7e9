"""`regrade panel`: judges that are left out."""

import json
from pathlib import Path

import pytest

from regrade.cli.main import run
from tests.judging.running import run_judge
from tests.judging.scripted import ScriptedJudge, by_reference, candidates


def test_a_panel_leaves_judges_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    answers = candidates(tmp_path / "answers", ["It is 1.", "It is 5."])
    always = json.dumps({"explanation": "x", "verdict": "A"})
    for name, judge in (("one", by_reference), ("two", lambda _: always), ("three", by_reference)):
        scripted = ScriptedJudge(judge)
        scripted.name = name
        run_judge(scripted, tmp_path, judges=(name,), rubric="correct")
    where = [answers.manifest.answer_set_id[:6], "--answers", str(tmp_path / "answers")]

    assert run(["panel", *where, "--without", "two", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [judge["judge"] for judge in document["judges"]] == ["one@r1", "three@r1"]
    means = {combined["rule"]: combined["mean"] for combined in document["combined"]}
    assert means == {"majority": 0.5, "mean": 0.5}
    assert [(row["majority"], row["mean"]) for row in document["rows"]] == [(1.0, 1.0), (0.0, 0.0)]
    assert run(["panel", *where, "--rubric", "pairwise"]) == 2
    assert "has no verdicts by rubric 'pairwise'" in capsys.readouterr().err
