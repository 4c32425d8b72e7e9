"""`regrade show`: every text of a stranger is shown as it is, and does nothing to the terminal."""

import json
import math
from pathlib import Path

import pytest

from regrade.answers.aliases import move_alias
from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.records.messages import Part, PartedMessage
from regrade.records.trajectory import call_of, trajectory_text
from tests.builders import row
from tests.command_line import Ran, regrade
from tests.comparing.sides import answer
from tests.judged import graded
from tests.stored import again, publish, score, score_with_an_older_scorer

HOSTILE = "a[/b]c [red]x[/] \x1b[5m\x1b]0;t\x07 :100: [s](x) \\"
SHOWN = "a[/b]c [red]x[/] \ufffd[5m\ufffd]0;t\ufffd :100: [s](x) \\"


def show(tmp_path: Path, *arguments: str, **changes: object) -> Ran:
    """Store a row and show it."""
    return show_set(publish(LocalRepository(tmp_path / "answers"), [row(1) | changes]), *arguments)


def show_set(answers: AnswerSet, *arguments: str) -> Ran:
    where = ("--answers", answers.repository.uri)
    return regrade("show", answers.manifest.answer_set_id, *where, *arguments)


@pytest.mark.parametrize(
    "column", ["sample_id", "subset", "prompt", "text", "reasoning", "target", "error"]
)
def test_a_hostile_text_is_shown_and_does_nothing(tmp_path: Path, column: str):
    ran = show(tmp_path, "--scorer", "exact", **{column: HOSTILE})

    assert SHOWN in ran.out
    assert "\x1b" not in ran.out


CHAT = '[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+0\\n=?"}]'
LETTERED = {"text": "The answer is A.", "target": "B", "choices": ["Rome", "Paris"]}


@pytest.mark.parametrize(
    ("changes", "options", "shown"),
    [
        (LETTERED, ("--scorer", "choice_letter"), "extracted A: Rome   target B: Paris"),
        ({"label_logprobs": [-0.5, -1.25]}, (), "log-probabilities: A -0.500, B -1.250"),
        ({"prompt": None, "question": "How many?"}, (), "How many?"),
        ({"prompt": CHAT, "prompt_kind": "messages"}, (), "system\nBe brief.\nuser\n1+0\n=?\n"),
        ({"subset": ""}, (), " repeat 0 · right"),  # an empty subset is not a missing one
    ],
)
def test_each_part_of_an_answer_is_shown_in_words(
    tmp_path: Path, changes: dict[str, object], options: tuple[str, ...], shown: str
):
    assert shown in show(tmp_path, *options, **changes).out


def test_a_log_probability_of_minus_infinity_is_a_text_in_json_which_has_no_such_number(
    tmp_path: Path,
):
    ran = show(tmp_path, "--json", label_logprobs=[-math.inf, -1.25])

    shown = json.loads(ran.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert shown["answers"][0]["label_logprobs"] == ["-inf", -1.25]


def test_a_model_with_several_answer_sets_is_shown_with_the_ids_of_the_others(tmp_path: Path):
    repository = LocalRepository(tmp_path / "answers")
    sums, words = (publish(repository, [row(1)], benchmark=name) for name in ("sums", "words"))
    ids = {found.manifest.answer_set_id: name for found, name in ((sums, "sums"), (words, "words"))}

    shown = regrade("show", "org/tiny", "--answers", repository.uri).err
    (newest,) = [
        found for found in ids if f"in a browser: regrade view {repository.uri} {found}" in shown
    ]
    (other,) = {*ids} - {newest}
    assert f"other answer sets of this model: {other} ({ids[other]})" in shown
    assert "other answer sets" not in regrade("show", other, "--answers", repository.uri).err


@pytest.mark.parametrize("scorer", ["number", "exact", "choice_letter"])
def test_an_answer_without_a_target_has_no_target_and_is_not_wrong(tmp_path: Path, scorer: str):
    asked: dict[str, object] = {"target": None, "text": "It is 4."}
    out = show(tmp_path, "--scorer", scorer, **asked).out
    assert " · no target" in out
    assert "It is 4." in out
    assert "wrong" not in out
    wrong = show(tmp_path, "--scorer", scorer, "--wrong", **asked)
    assert (wrong.code, "No answer matches." in wrong.out) == (0, True)
    [answer] = show(tmp_path, "--json", **asked).document["answers"]
    assert (answer["outcome"], answer["value"]) == ("no target", None)


def test_an_image_is_named_in_few_letters(tmp_path: Path):
    sha256 = "0123456789abcdef" * 4
    changes = {"prompt": f"<image:{sha256}> Red?", "images": [sha256]}
    assert "[image 01234567] Red?" in show(tmp_path, **changes).out
    [answer] = show(tmp_path, "--json", **changes).document["answers"]
    assert (answer["prompt"], answer["images"]) == (f"<image:{sha256}> Red?", [sha256])


def thirty(repository: LocalRepository) -> AnswerSet:
    """30 answers, of which every third is wrong; the number is the question's."""
    rows = [row(n, "#### 0" if n % 3 == 0 else "", latency=float(n)) for n in range(1, 31)]
    return publish(repository, rows)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> AnswerSet:
    """`thirty`, for tests that only read it."""
    return thirty(LocalRepository(tmp_path_factory.mktemp("many") / "answers"))


def listed(answers: AnswerSet, *options: str) -> tuple[list[int], dict[str, object]]:
    document = show_set(answers, "--json", *options).document
    return [answer["index"] for answer in document["answers"]], document


def test_pages_follow_each_other_and_say_how_many_there_are(many: AnswerSet):
    first, document = listed(many, "--wrong", "--limit", "4")
    second, _ = listed(many, "--wrong", "--limit", "4", "--page", "2")
    assert (first, second) == ([3, 6, 9, 12], [15, 18, 21, 24])
    assert (document["matching"], document["total"]) == (10, 30)

    shown = show_set(many, "--wrong", "--limit", "4", "--page", "2")
    assert "answers 5 to 8 of 10, out of 30 in the set" in shown.out
    assert "--page 3" in shown.err
    assert "This page is empty: 10 answers match." in show_set(many, "--wrong", "--page", "9").out


def test_the_filters_are_those_of_the_viewer_and_combine(many: AnswerSet):
    assert listed(many, "--wrong", "--subset", "even")[0] == [6, 12, 18, 24, 30]
    assert listed(many, "--search", "what IS 7?")[0] == [7]
    assert listed(many, "--min-seconds", "29")[0] == [29, 30]
    assert listed(many, "--sort", "seconds", "--descending", "--limit", "2")[0] == [30, 29]
    assert listed(many, "--verdict", "right", "--max-seconds", "4")[0] == [1, 2, 4]
    assert listed(many, "--sample", "sample-0002", "--wrong")[0] == [21, 24, 27]


def test_answers_against_another_set_are_those_that_changed(repository: LocalRepository):
    many = thirty(repository)
    other = publish(repository, [row(n) for n in range(1, 31)], model="org/better")
    for answers in (many, other):
        score(again(answers))

    where = ("--against", other.manifest.answer_set_id, "--change", "worse", "--limit", "3")
    assert listed(again(many), *where)[0] == [3, 6, 9]


def test_of_grades_from_1_to_3_the_worst_is_wrong_and_the_best_right(tmp_path: Path):
    verdicts = graded(LocalRepository(tmp_path / "answers"), "org/a", (1, 2, 3))

    def matching(*filters: str) -> tuple[int, set[float]]:
        document = show_set(verdicts, "--limit", "60", "--json", *filters).document
        return document["matching"], {answer["value"] for answer in document["answers"]}

    assert matching("--verdict", "wrong") == (20, {1.0})
    assert matching("--verdict", "partly right") == (20, {2.0})
    assert matching("--verdict", "right") == (20, {3.0})
    assert matching("--wrong") == (40, {1.0, 2.0})


def test_a_scoring_by_a_function_of_a_file_is_shown_by_its_stored_name_and_named_beside_the_first(
    tmp_path: Path,
):
    answers = publish(LocalRepository(tmp_path / "answers"), [row(1), row(2)])
    score(answers)
    score_with_an_older_scorer(again(answers), lambda _: {"value": 0.25}, scorer="close")

    shown = show_set(answers, "--scorer", "close")

    assert "close v0: 25.0" in shown.out
    assert "partly right" in shown.out
    assert "--scorer close-0-00000000" in shown.err
    assert show_set(answers, "--scorer", "clos").code == 2
    assert "also close v0: 25.0 % (n=2): --scorer close" in show_set(answers).out


def test_the_viewer_begins_with_a_scoring_that_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    answers = publish(LocalRepository(tmp_path / "answers"), [row(1)])
    score(answers)
    set_id = answers.manifest.answer_set_id
    monkeypatch.setattr("regrade.pages.viewer.serving.serve", lambda *_: None)
    view = ("view", answers.repository.uri)
    address, *_ = regrade(*view, set_id, "--scorer", "number", "--port", "0").out.splitlines()
    assert address.endswith(f"/sets/{set_id}?scorer=number")


def test_answers_are_named_by_their_id_their_model_or_an_alias(tmp_path: Path):
    repository = LocalRepository(tmp_path / "answers")
    older = answer(repository, "org/one", right=1, total=2)
    newer = answer(repository, "org/one", right=1, total=2, n_shots=3)
    other = answer(repository, "org/two", right=1, total=2)
    move_alias(repository, "release", [other])

    def shown(name: str) -> Ran:
        return regrade("show", name, "--answers", repository.uri, "--json")

    ids = [found.manifest.answer_set_id for found in (older, newer, other)]
    for name, number in {ids[0][:6]: 0, "org/one": 1, "one": 1, "release": 2}.items():
        assert shown(name).document["answer_set_id"] == ids[number]
    assert shown("nobody").code == 2
    assert "`regrade list` shows all answer sets" in shown("nobody").err


def test_what_is_about_one_answer_set_asks_which_of_several(tmp_path: Path):
    repository = LocalRepository(tmp_path / "answers")
    sets = [answer(repository, "org/one", right=1, total=2, n_shots=n) for n in (0, 3)]
    ids = [answers.manifest.answer_set_id for answers in sets]
    for words in (
        ["export", "org/one", str(tmp_path / "log"), "--format", "inspect"],
        ["label", "org/one", "--report"],
        ["panel", "org/one"],
        ["verify", "org/one"],
        ["score", "--answer-set", "org/one"],
    ):
        ran = regrade(*words, "--answers", repository.uri)
        assert ran.code == 2
        assert "'org/one' has 2 answer sets" in ran.err
        assert all(answer_set_id in ran.err for answer_set_id in ids)


def test_what_an_agent_did_is_shown_in_short_before_its_answer(tmp_path: Path):
    did = trajectory_text(
        [
            PartedMessage("assistant", (call_of("c", "add", '{"x": 1}'),)),
            PartedMessage("tool", (Part("tool_result", "x" * 9000 + "\x1b[31m", "c", "add"),)),
            PartedMessage("assistant", (Part("text", "It is 1."),)),
        ]
    )
    out = show(tmp_path, trajectory=did, text="It is 1.").out
    assert 'assistant calls add: {"x": 1}' in out
    assert "characters left out" in out
    assert out.count("It is 1.") == 1
    assert len(out) < 5000
    assert "\x1b" not in out
    odd = show(tmp_path / "other", trajectory="no JSON \x1b", text="It is 1.")
    assert "no JSON" in odd.out
