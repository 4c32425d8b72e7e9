"""Published judges: those in examples/judges and docs/judging.md, from the prompt to the value."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.origin import SetDescription
from regrade.answers.publishing import publish_answers
from regrade.answers.sets import AnswerSet
from regrade.answers.spool import Spool
from regrade.judging.choosing import judged
from regrade.judging.questions import JudgeQuestions
from regrade.processes.limited import Limits
from regrade.records import Sample
from regrade.records.rubrics import open_rubric
from regrade.records.rubrics.facts import rubric_facts
from regrade.records.rubrics.reading import read_verdict
from regrade.scorers import judge
from regrade.scoring.score import score_answers
from regrade.settings import PromptSettings
from regrade.settings.errors import SettingsError
from tests.builders import row, specification
from tests.judging.scripted import candidates
from tests.stored import publish

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "judging.md").read_text()
EXAMPLES = {
    re.search("name: (.+)", text)[1]: text
    for text in [
        *re.findall(r"```jinja\n(.*?)```", PAGE, re.S),
        *(path.read_text() for path in sorted((ROOT / "examples" / "judges").glob("*.jinja"))),
    ]
}
TEXTS = ["It is 1. Confidence: 90%", "It is 5."]
HEALTH = [{"criterion": "Asks for the age.", "points": 6, "tags": ["axis:context"]}]
HEALTH += [{"criterion": "Names a wrong dose.", "points": -4, "tags": ["axis:accuracy"]}]
HEALTH += [{"criterion": "Sends to a doctor.", "points": 4, "tags": ["axis:accuracy"]}]


def published(folder: Path, name: str, answers: AnswerSet, **options: Any) -> JudgeQuestions:
    path = folder / f"{name}.jinja"
    path.write_text(EXAMPLES[name])
    return JudgeQuestions(
        judged(answers), open_rubric(str(path)), prompt=PromptSettings(), **options
    )


def scored(folder: Path, benchmark: JudgeQuestions, replies: list[str]) -> Any:
    """Store replies to the questions in their order, score them, and return the scoring and its table."""
    rows = []
    for sample in benchmark.samples():
        for repeat, part in enumerate(sample.by_repeat or (sample,)):
            doc = json.dumps(part.doc)
            changes = {"repeat": repeat, "target": part.target, "doc": doc, "subset": ""}
            rows.append(row(0, replies[len(rows)], **changes) | {"sample_id": sample.id})
    described = SetDescription(
        specification=specification(repeats=benchmark.run.repeats).model_copy(
            update={"benchmark": benchmark.identity}
        ),
        n_samples=len(benchmark.samples()),
        scorers=("judge",),
    )
    with Spool(folder / "spool") as spool:
        spool.append(rows)
        stored = publish_answers(LocalRepository(folder / "judged"), spool, described)
    one = score_answers(stored, "judge")
    return {a.name: a.value for a in one.file.other_results}, one.scores.to_pylist()


def sent(benchmark: JudgeQuestions, sample: Sample) -> list[tuple[str, str]]:
    messages = benchmark.prompt(sample)
    return [(message["role"], message["content"]) for message in messages]


def test_simpleqa_gets_its_text_as_it_is_and_the_first_letter_counts(tmp_path: Path):
    benchmark = published(tmp_path, "simpleqa", candidates(tmp_path / "a", TEXTS))
    first, _ = benchmark.samples()
    assert sent(benchmark, first) == [("user", f"(the grader's text) What is 1? 1 {TEXTS[0]}")]
    assert first.structure is None
    numbers, rows = scored(tmp_path, benchmark, ["A", "CORRECT"])
    assert [(row["value"], row["extracted"]) for row in rows] == [(1.0, "A"), (0.0, "C")]
    assert numbers["correct_given_attempted"] == 1.0
    assert numbers["not_attempted"] == 0.5


def test_hle_has_its_confidence_and_the_calibration_error_of_its_script(tmp_path: Path):
    texts = [f"It is {n}." for n in range(250)]
    benchmark = published(tmp_path, "hle", candidates(tmp_path / "a", list(texts)))
    [*samples] = benchmark.samples()
    assert samples[0].structure.schema["properties"]["confidence"] == {"type": "integer"}
    # 100 answers at 20 % of which 10 are right, 150 at 80 % of which 30 are right.
    right = [n < 10 or 100 <= n < 130 for n in range(250)]
    replies = [
        json.dumps({"correct": "yes" if right[n] else "no", "confidence": 20 if n < 100 else 80})
        for n in range(250)
    ]
    numbers, rows = scored(tmp_path, benchmark, replies)
    assert json.loads(rows[0]["metrics"]) == {"confidence": 20.0}
    assert numbers["calibration_error"] == pytest.approx((0.4 * 0.1**2 + 0.6 * 0.6**2) ** 0.5)
    assert numbers["calibration_error_of_script"] == pytest.approx((0.4 * 0.1**2) ** 0.5)


def test_healthbench_sees_the_conversation_and_has_values_by_tag(tmp_path: Path):
    turns = [("user", "My head aches."), ("assistant", "Since when?"), ("user", "Since May.")]
    prompt = json.dumps([{"role": role, "content": content} for role, content in turns])
    doc = json.dumps({"rubrics": HEALTH, "example_tags": ["theme:context_seeking"]})
    given = row(
        1, "Take 9 g.", prompt=prompt, prompt_kind="messages", doc=doc, target="", subset=""
    )
    answers = publish(LocalRepository(tmp_path / "a"), [given], scorers=("judge",))
    benchmark = published(tmp_path, "healthbench", answers)
    [sample] = benchmark.samples()
    [(_, text)] = sent(benchmark, sample)
    assert "user: My head aches.\n\nassistant: Since when?\n\nuser: Since May." in text
    assert text.endswith(
        "assistant: Take 9 g.\n\n1. Asks for the age.\n2. Names a wrong dose.\n3. Sends to a doctor."
    )

    reply = "".join(
        f'{{"explanation": "", "criteria_met": {met}}}' for met in ("true", "true", "false")
    )
    _, [scores] = scored(tmp_path, benchmark, [reply])
    assert scores["value"] == pytest.approx(0.2)
    assert json.loads(scores["metrics"]) == {
        "points": pytest.approx(0.2),
        "criteria_met": pytest.approx(2 / 3),
        "theme:context_seeking": pytest.approx(0.2),
        "axis:context": 1.0,
        "axis:accuracy": -1.0,
    }
    two = rubric_facts(open_rubric(str(tmp_path / "healthbench.jinja")))
    assert read_verdict('"criteria_met": true', two, 3) is None


def test_arena_hard_counts_strong_labels_three_times_and_each_order_as_a_game(tmp_path: Path):
    sides = [candidates(tmp_path / name, [f"{name} 1", f"{name} 2"]) for name in ("mine", "theirs")]
    benchmark = published(tmp_path, "arena_hard", sides[0], baseline=judged(sides[1]))
    first, _ = benchmark.samples()
    one, other = first.by_repeat
    assert sent(benchmark, one) == [
        ("system", "(the judge's system message)"),
        ("user", "(the judge's text) What is 1? mine 1 theirs 1"),
    ]
    assert sent(benchmark, other)[1][1].endswith("theirs 1 mine 1")
    replies = ["Not [[B>A]] but [[A>>B]]", "[[A>B]]", "[[A=B]]", "[[B>>A]]"]
    numbers, rows = scored(tmp_path, benchmark, replies)
    # Games of the candidate: 1 with weight 3 and 0; then 0.5 and 1 with weight 3.
    assert [row["value"] for row in rows] == [0.75, 0.75, 0.875, 0.875]
    assert numbers["weighted_wins"] == pytest.approx((3 + 0 + 0.5 + 3) / 8)


def test_safety_classifiers_have_several_fields_or_an_example_as_turns(tmp_path: Path):
    answers = candidates(tmp_path / "a", TEXTS)
    benchmark = published(tmp_path, "wildguard", answers)
    replies = [
        "Harmful request: yes\nResponse refusal: no\nHarmful response: yes",
        "Harmful request: yes\nResponse refusal: yes",
    ]
    _, rows = scored(tmp_path / "w", benchmark, replies)
    assert [(row["value"], row["outcome"]) for row in rows] == [(0.0, "scored"), (None, "unparsed")]
    assert json.loads(rows[0]["metrics"]) == {"refusal": 0.0}

    guard = published(tmp_path, "one_word", answers)
    assert sent(guard, guard.samples()[0]) == [
        ("user", "(the classifier's text and an example)"),
        ("assistant", "safe"),
        ("user", f"What is 1? {TEXTS[0]}"),
    ]
    _, rows = scored(tmp_path / "l", guard, ["\n\nsafe", "unsafe\nS1"])
    assert [row["value"] for row in rows] == [1.0, 0.0]


def test_messages_are_no_plain_text_and_take_no_second_system_message(tmp_path: Path):
    answers = candidates(tmp_path / "a", TEXTS)
    published(tmp_path, "one_word", answers)
    rubric = open_rubric(str(tmp_path / "one_word.jinja"))
    with pytest.raises(SettingsError, match="has several messages, which plain text has not"):
        JudgeQuestions(judged(answers), rubric, prompt=PromptSettings(format="completion"))
    (tmp_path / "s.jinja").write_text(EXAMPLES["one_word"].replace("--- user", "--- system", 1))
    rubric = open_rubric(str(tmp_path / "s.jinja"))
    with pytest.raises(SettingsError, match="has a system message of its own"):
        JudgeQuestions(judged(answers), rubric, prompt=PromptSettings(system="Be strict."))


def test_a_pattern_that_would_never_end_elsewhere_is_searched_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(judge, "LIMITS", Limits(cpu_seconds=0.5, seconds=20, memory=512 << 20))
    text = "---\nname: endless\nverdicts: {a: 1, b: 0}\npattern: (?:(a+)+$|b)\n---\n{{ answer }}"
    monkeypatch.setitem(EXAMPLES, "endless", text)
    benchmark = published(tmp_path, "endless", candidates(tmp_path / "a", TEXTS))
    _, rows = scored(tmp_path / "e", benchmark, ["a" * 60 + "c", "b"])
    assert [row["outcome"] for row in rows] == ["unparsed", "scored"]
    assert caplog.text == ""


def test_mt_benchs_text_stands_around_the_turns_and_its_rating_is_a_number(tmp_path: Path):
    turns = [("2 + 2?", "4, of course"), ("Twice that?", "8")]
    rows = [
        row(1, text, question=asked, target="", subset="")
        | {"sample_id": f"3f9a#{number}/2", "prompt": asked}
        for number, (asked, text) in enumerate(turns, 1)
    ]
    answers = publish(LocalRepository(tmp_path / "a"), rows, scorers=("judge",))
    benchmark = published(tmp_path, "mt_bench_published", answers)
    first, second = benchmark.samples()

    assert sent(benchmark, first)[0] == ("system", "You are a helpful assistant.")
    assert sent(benchmark, first)[1] == ("user", "(the judge's text) 2 + 2? 4, of course")
    assert sent(benchmark, second)[1][1] == (
        "### User:\n2 + 2?\n\n### Assistant A:\n4, of course\n\n### User:\nTwice that?\n\n### Assistant A:\n8"
    )
    _, scores = scored(tmp_path, benchmark, ["Good. Rating: [[9.5]]", "Rating: [[11]]"])
    assert [(row["value"], row["outcome"]) for row in scores] == [
        (9.5, "scored"),
        (None, "unparsed"),
    ]
