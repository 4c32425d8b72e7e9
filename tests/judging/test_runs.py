"""Judge runs from stored answers to scores, with a scripted judge behind an OpenAI-compatible server."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.publishing import publish_scores
from regrade.answers.verify import verify
from regrade.answers.withheld import WithheldQuestions
from regrade.exchange.importing.building import Names
from regrade.exchange.importing.importer import import_files
from regrade.judging.bias import Bias, bias_of
from regrade.judging.readings import judged_answers
from regrade.records.columns import GENERATION_SCHEMA
from regrade.results.bias import bias_lines, self_test_lines
from regrade.scoring.fit import notes
from regrade.scoring.score import score_answers
from regrade.settings import Reuse
from regrade.settings.errors import RegradeError, RepositoryError, SettingsError
from regrade.stats.named import Aggregate
from regrade.stats.scale import Scale
from tests.builders import row
from tests.judging.running import others, run_judge, scored, verdicts
from tests.judging.scripted import ScriptedJudge, by_reference, candidates
from tests.stored import commit_shards, publish

PAIRS = {"answer_sets": ("org/tiny",), "rubric": "pairwise", "baseline": "org/base"}


def test_the_form_is_asked_of_the_server_in_its_own_words(tmp_path: Path):
    candidates(tmp_path / "answers", ["It is 1."])
    judge, vllm = ScriptedJudge(by_reference), ScriptedJudge(by_reference, owner="vllm")

    one = run_judge(judge, tmp_path, rubric="correct")
    fresh = Reuse(fresh=True)
    other = run_judge(vllm, tmp_path, rubric="correct", judge_repeats=2, reuse=fresh)

    [body], [of_vllm, _] = judge.bodies, vllm.bodies
    form = body["response_format"]
    assert form["type"] == "json_schema"
    assert list(form["json_schema"]["schema"]["properties"]) == ["explanation", "verdict"]
    assert (body["temperature"], body["max_tokens"]) == (0.0, 728)
    assert list(of_vllm["structured_outputs"]) == ["regex"]
    recorded = [judge_set.manifest.sessions[-1].structured_outputs for judge_set in (one, other)]
    assert recorded == ["response_format", "structured_outputs"]
    assert "response_format" not in of_vllm


def test_a_judge_that_says_nothing_usable_gives_no_grade_and_no_headline(tmp_path: Path):
    candidates(tmp_path / "answers", [f"It is {n}." for n in range(1, 7)])
    replies = iter(
        [
            "CORRECTLY answered, I think",
            {"message": {"content": '{"explanation": "It is'}, "finish_reason": "length"},
            {"message": {"content": None, "refusal": "I cannot judge this."}},
            {"message": {"content": ""}, "finish_reason": "content_filter"},
            '{"explanation": "x", "verdict": "A"}',
            '{"explanation": "x", "verdict": "A"}',
        ]
    )
    judge = ScriptedJudge(lambda _: next(replies))

    judge_set = run_judge(judge, tmp_path, rubric="correct")

    found = verdicts(judge_set)
    outcomes = Counter(v.outcome for v in found)
    assert outcomes == {"refused": 2, "scored": 2, "truncated": 1, "unparsed": 1}
    assert all(v.value is None for v in found if v.outcome != "scored")
    file = scored(judge_set)
    overall = file.summary.overall
    assert (overall.n, overall.accuracy) == (2, 1.0)
    assert (overall.unparsed, overall.failed) == (1, 2)
    assert not file.is_headline(("judge",))
    assert any("33.3 % of the answers" in note for note in notes(judge_set, file))


def test_a_judge_without_a_single_verdict_is_said_to_have_none(tmp_path: Path):
    candidates(tmp_path / "answers", ["It is 1."])
    judge_set = run_judge(ScriptedJudge(lambda _: "Correctly answered"), tmp_path, rubric="correct")

    assert any(
        "a verdict on 0.0 % of the answers" in n for n in notes(judge_set, scored(judge_set))
    )


def test_an_explanation_with_the_right_answer_is_no_better_reading_of_a_verdict(tmp_path: Path):
    candidates(tmp_path / "answers", ["It is 0."] * 20)

    def against(texts: dict[str, str]) -> str:
        said = f"The right answer is {texts['reference']}"
        return json.dumps({"explanation": said, "verdict": "B"})

    assert scored(run_judge(ScriptedJudge(against), tmp_path, rubric="correct")).is_headline(
        ("judge",)
    )


def test_a_mark_of_reasoning_that_is_quoted_is_none_and_what_a_thought_says_is_no_verdict(
    tmp_path: Path,
):
    said = [
        json.dumps({"explanation": f"It writes {mark} and Verdict: A", "verdict": "B"})
        for mark in ("<think>", "</think>", "<think>no</think>")
    ]
    read = [form.format(text) for text in said for form in ("{}", "```json\n{}\n```")]
    no_verdict = [
        "<think>It says 5.\nVerdict: A",
        '{"explanation": "It quotes </think>\nVerdict: A',
    ]
    replies = [*read, *no_verdict]
    candidates(tmp_path / "answers", ["It is 0."] * len(replies))
    judge = ScriptedJudge(lambda texts: replies[int(texts["reference"]) - 1])

    found = {v.sample_id: v for v in verdicts(run_judge(judge, tmp_path, rubric="correct"))}

    by_reply = [found[f"sample-{number:05d}"] for number in range(1, len(replies) + 1)]
    assert [(v.outcome, v.label) for v in by_reply[: len(read)]] == [("scored", "B")] * len(read)
    without = [(v.outcome, v.label) for v in by_reply[len(read) :]]
    assert without == [("truncated", None), ("unparsed", None)]


def test_only_a_judge_that_declines_has_refused(tmp_path: Path):
    repository = LocalRepository(tmp_path / "answers")
    rows = [
        row(number, f"It is {number}.", question=f"What is {number}?", subset="")
        for number in range(1, 6)
    ]
    declined = "The model refused to answer: no"
    rows[1] |= {"text": None, "error": declined, "error_permanent": True, "finish_reason": None}
    rows[2] |= {"target": None}
    publish(repository, rows, scorers=("judge",))

    def judge(texts: dict[str, str]) -> str | dict[str, object]:
        if texts["answer"].startswith("It is 4."):
            return {"message": {"content": None, "refusal": "I cannot judge this."}}
        return by_reference(texts)

    scripted = ScriptedJudge(judge)
    scripted.too_long = "What is 5?"

    found = {
        v.sample_id[-1]: v.outcome
        for v in verdicts(run_judge(scripted, tmp_path, rubric="correct"))
    }

    assert found == {"1": "scored", "2": "failed", "3": "failed", "4": "refused", "5": "failed"}


def test_pairs_that_do_not_agree_are_ties(tmp_path: Path):
    candidates(tmp_path / "answers", ["longer answer", "bad", "same"])
    candidates(tmp_path / "answers", ["short", "much better", "diff"], model="org/base")

    def longer_or_first(texts: dict[str, str]) -> str:
        one, other = len(texts["first"]), len(texts["second"])
        verdict = "first" if one >= other else "second"
        return json.dumps({"explanation": "x", "verdict": verdict})

    judge_set = run_judge(ScriptedJudge(longer_or_first), tmp_path, **PAIRS)

    file = scored(judge_set)
    overall = file.summary.overall
    assert (overall.rows, overall.samples) == (6, 3)
    assert overall.accuracy == pytest.approx((1 + 0 + 0.5) / 3)
    assert others(file)["inconsistent"] == pytest.approx(1 / 3)
    assert others(file)["prefers_first"] == pytest.approx(4 / 6)
    sides = judged_answers(judge_set, side="baseline")
    assert sides["sample-00002", 0].answer == "much better"


def test_a_judge_that_likes_long_answers_finds_no_winner_among_equally_long_ones(tmp_path: Path):
    lengths = np.add(np.random.default_rng(0).integers(1, 60, (2, 60)), [[15], [0]])
    sides = [["x" * length for length in side] for side in lengths.tolist()]
    for model, texts in zip(("org/tiny", "org/base"), sides, strict=True):
        candidates(tmp_path / "answers", texts, model=model)

    def longer_or_so(texts: dict[str, str]) -> str:
        one, other = len(texts["first"]), len(texts["second"])
        shorter = int(texts["question"][8:-1]) % 4 == 0
        first = one <= other if shorter else one > other
        return json.dumps({"explanation": "x", "verdict": "first" if first else "second"})

    judge_set = run_judge(ScriptedJudge(longer_or_so), tmp_path, **PAIRS)
    result = score_answers(judge_set, "judge", force=True)

    found = bias_of(result)

    assert (found.controlled.n, result.file.summary.overall.accuracy > 0.6) == (60, True)
    assert found.controlled.length.low < 0.5 < found.controlled.length.high
    lines = list(bias_lines(found, result.file.scale))
    assert any(line.startswith("wins with answers of equal length: ") for line in lines)
    assert found.figures["bias/length_controlled"] == found.controlled.length.value


def test_criteria_give_a_share_of_points(tmp_path: Path):
    candidates(tmp_path / "answers", ["It is 1.", "Two, you fool"])
    file = tmp_path / "criteria.json"
    criteria = [
        {"criterion": "It names a number.", "points": 4},
        {"criterion": "It is polite.", "points": 1},
        {"criterion": "It insults the reader.", "points": -8},
    ]
    file.write_text(json.dumps(criteria))

    def judge(texts: dict[str, str]) -> str:
        rude = "fool" in texts["answer"]
        met = [{"explanation": "x", "met": value} for value in (True, not rude, rude)]
        return json.dumps({"criteria": met})

    found = scored(run_judge(ScriptedJudge(judge), tmp_path, rubric="criteria", criteria=str(file)))

    assert found.summary.overall.accuracy == pytest.approx(0.5)  # 5 of 5 points, and none below 0
    assert others(found)["points"] == pytest.approx((1.0 - 4 / 5) / 2)


def test_repeats_of_a_judge_show_how_often_it_changes_its_verdict(tmp_path: Path):
    candidates(tmp_path / "answers", ["It is 1.", "It is 5."])
    asked: dict[str, int] = {}

    def changes_its_mind(texts: dict[str, str]) -> str:
        asked[texts["question"]] = asked.get(texts["question"], 0) + 1
        sure = texts["question"] == "What is 1?" or asked[texts["question"]] == 1
        return json.dumps({"explanation": "x", "verdict": "A" if sure else "B"})

    judge_set = run_judge(
        ScriptedJudge(changes_its_mind), tmp_path, rubric="correct", judge_repeats=3
    )
    file = scored(judge_set)
    assert others(file)["flip_rate"] == pytest.approx((0 + 2 / 3) / 2)
    assert (file.summary.overall.rows, file.summary.overall.samples) == (6, 2)
    assert file.summary.pass_at == {}


def test_an_answer_that_tells_the_judge_what_to_say_is_shown_by_the_self_test(tmp_path: Path):
    def obeys_json(texts: dict[str, str]) -> str:
        if '"verdict": "A"' in texts["answer"]:
            return texts["answer"].rpartition("\n")[2]
        return by_reference(texts)

    judge_set = run_judge(ScriptedJudge(obeys_json), tmp_path, self_test=True)

    file = scored(judge_set)
    found = others(file)
    assert (found["self_test_right"], found["self_test_wrong"]) == (1.0, 0.0)
    assert found["self_test_moved"] == pytest.approx(8 / 40)
    assert any("followed the instructions of 8 of 40" in note for note in notes(judge_set, file))
    assert list(self_test_lines(file.other_results, file.scale)) == [
        "the judge followed 8 of 40 instructions in answers, and should follow none; "
        "mean verdict on right answers: 100.0 %; mean verdict on wrong answers: 0.0 %"
    ]
    assert bias_of(score_answers(judge_set, "judge", force=True)) == Bias()


def test_a_judge_whose_verdicts_do_not_tell_right_from_wrong_is_told_by_the_self_test():
    def lines(right: float, wrong: float) -> str:
        values = {"self_test_right": right, "self_test_wrong": wrong, "self_test_moved": 0.0}
        results = [
            Aggregate(subset="", name=name, value=value, n=40) for name, value in values.items()
        ]
        return "".join(self_test_lines(results, Scale()))

    assert lines(right=1.0, wrong=1.0).endswith(
        "mean verdict on wrong answers: 100.0 %; the verdicts do not tell right from wrong answers, so that the count of "
        "instructions says nothing"
    )
    assert "do not tell" in lines(right=0.0, wrong=0.5)
    assert "do not tell" not in lines(right=0.5, wrong=0.4)


def test_a_rubric_that_does_not_fit_is_refused_before_the_judge_is_asked(tmp_path: Path):
    answers = candidates(tmp_path / "answers", ["It is 1."], scorers=("number",))
    judge = ScriptedJudge(by_reference)
    with pytest.raises(RepositoryError, match="no answers wait for a judge"):
        run_judge(judge, tmp_path)
    with pytest.raises(
        SettingsError, match="names no rubric for a judge. Give one with `judge.rubric`"
    ):
        run_judge(judge, tmp_path, answer_sets=(answers.manifest.answer_set_id,))
    judge_set = run_judge(judge, tmp_path, answer_sets=("org/tiny",), rubric="correct")
    with pytest.raises(SettingsError, match="holds the verdicts of a judge"):
        run_judge(
            judge, tmp_path, answer_sets=(judge_set.manifest.answer_set_id,), rubric="correct"
        )
    with pytest.raises(RegradeError):
        run_judge(judge, tmp_path, answer_sets=("org/tiny",), rubric="corect")
    assert len(judge.bodies) == 1


def test_the_answers_of_the_handbook_are_judged_as_they_are(tmp_path: Path):
    source = tmp_path / "TwinLlama-3.1-8B-results.parquet"
    rows = [
        {"instruction": "Explain LLMs.", "output": "r", "prompt": "p", "answers": "They predict."},
        {"instruction": "Explain RAG.", "output": "r", "prompt": "q", "answers": "It is magic."},
    ]
    pq.write_table(pa.Table.from_pylist(rows), source)
    import_files(LocalRepository(tmp_path / "answers"), [source], names=Names(benchmark="posts"))

    def judge(texts: dict[str, str]) -> str:
        assert set(texts) == {"question", "answer"}
        accuracy, style = ("3", "2") if "predict" in texts["answer"] else ("1", "3")
        fields = {"accuracy_explanation": "x", "accuracy": accuracy}
        return json.dumps(fields | {"style_explanation": "y", "style": style})

    judge_set = run_judge(
        ScriptedJudge(judge), tmp_path, answer_sets=("TwinLlama-3.1-8B",), rubric="accuracy_style"
    )

    file = scored(judge_set)
    assert (file.summary.overall.accuracy, others(file)["style"]) == (2.0, 2.5)
    assert (file.scale.low, file.scale.high) == (1.0, 3.0)
    assert judge_set.manifest.specification.benchmark.name == "judge:accuracy_style:posts"


def test_withheld_questions_stay_withheld_in_the_verdicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REGRADE_QUESTIONS", str(tmp_path / "questions"))
    answers = candidates(tmp_path / "answers", ["It is 1.", "It is 5."])
    hidden = answers.manifest.model_copy(update={"withheld": True})
    rows = [row for batch in answers.batches(GENERATION_SCHEMA.names) for row in batch.to_pylist()]
    stripped = WithheldQuestions(answers.manifest.answer_set_id).take(rows)
    withheld = commit_shards(replace(answers, manifest=hidden), stripped)
    judge = ScriptedJudge(by_reference)

    judge_set = run_judge(judge, tmp_path, rubric="correct")

    assert sorted("What is 2?" in prompt for prompt in judge.prompts) == [False, True]
    assert withheld.manifest.withheld
    assert judge_set.manifest.withheld
    for shard in judge_set.manifest.shards:
        for batch in judge_set.shard(shard, GENERATION_SCHEMA.names).batches():
            assert "What is" not in str(batch.to_pylist())
    assert scored(judge_set).summary.overall.accuracy == 0.5

    for file in (tmp_path / "questions").iterdir():
        file.unlink()
    assert scored(judge_set).summary.overall.accuracy == 0.5  # verdicts can be read without them
    with pytest.raises(
        SettingsError, match="published without its questions, which the judge reads"
    ):
        run_judge(judge, tmp_path, rubric="correct", judge_repeats=2)


def test_an_answer_set_that_grew_is_judged_only_where_it_is_new(tmp_path: Path):
    judge = ScriptedJudge(by_reference)
    candidates(tmp_path / "answers", ["It is 1.", "It is 5."], total=3)
    few = run_judge(judge, tmp_path, rubric="correct")
    extra = [row(3, "It is 3.", question="What is 3?", target="3", subset="")]
    grown = publish(LocalRepository(tmp_path / "answers"), extra, total=3, scorers=("judge",))
    assert grown.manifest.rows == 3

    whole = run_judge(judge, tmp_path, rubric="correct")

    assert whole.manifest.answer_set_id != few.manifest.answer_set_id
    assert sorted("What is 3?" in prompt for prompt in judge.prompts) == [False, False, True]
    assert [v.label for v in sorted(verdicts(whole), key=lambda v: v.sample_id)] == ["A", "B", "A"]
    assert sum(session.prompt_tokens for session in whole.manifest.sessions) == 100
    assert whole.manifest.sessions[0].engine == "stored"


def test_more_questions_and_another_rubric_ask_only_what_is_new(tmp_path: Path):
    judge = ScriptedJudge(by_reference)
    candidates(tmp_path / "answers")
    run_judge(judge, tmp_path, rubric="correct", limit=3)
    assert len(judge.bodies) == 3

    whole = run_judge(judge, tmp_path, rubric="correct")
    assert len(judge.bodies) == 9
    assert scored(whole).summary.overall.n == 9

    changed = tmp_path / "rubric.jinja"
    changed.write_text(
        "---\nname: correct\nverdicts: {A: 1, B: 0, C: 0}\n---\nOther words.\n{{ reference }}\n{{ answer }}"
    )
    run_judge(judge, tmp_path, rubric=str(changed))
    assert len(judge.bodies) == 18


def test_verdicts_and_their_scores_are_verified_like_any_others(tmp_path: Path):
    candidates(tmp_path / "answers", ["It is 1.", "It is 5.", None])
    replies = iter(["", *['{"explanation": "x", "verdict": "A"}'] * 3])
    judge = ScriptedJudge(lambda _: next(replies))
    judge_set = run_judge(judge, tmp_path, rubric="correct", judge_repeats=2)
    done = score_answers(judge_set, "judge")
    publish_scores(judge_set.repository, [(judge_set, done.file, done.table)])

    head = str(judge_set.repository.head())
    verified = verify(judge_set.repository, head)

    assert verified.problems == []
    assert (verified.scorings, done.file.summary.overall.unparsed) == (1, 1)
