"""`regrade show`: every text of a stranger is shown as it is, and does nothing to the terminal."""

import json
from pathlib import Path

import pytest

from regrade.answers.aliases import move_alias
from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.cli.main import run
from regrade.records.messages import Part, PartedMessage
from regrade.records.trajectory import call_of, trajectory_text
from tests.builders import row
from tests.comparing.sides import answer
from tests.judged import graded
from tests.stored import again, numbers, publish, score, score_with_an_older_scorer

HOSTILE = "a[/b]c [red]x[/] \x1b[5m\x1b]0;t\x07 :100: [s](x) \\"
SHOWN = "a[/b]c [red]x[/] \ufffd[5m\ufffd]0;t\ufffd :100: [s](x) \\"


def show(tmp_path: Path, *arguments: str, **changes: object) -> int:
    repository = LocalRepository(tmp_path / "answers")
    answers = publish(repository, [row(1) | changes])
    set_id = answers.manifest.answer_set_id
    return run(["show", set_id, "--answers", repository.uri, *arguments])


@pytest.mark.parametrize(
    "column", ["sample_id", "subset", "prompt", "text", "reasoning", "target", "error"]
)
def test_a_hostile_text_is_shown_and_does_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], column: str
):
    assert show(tmp_path, "--scorer", "exact", **{column: HOSTILE}) == 0

    out = capfd.readouterr().out
    assert SHOWN in out
    assert "\x1b" not in out


def test_a_letter_is_shown_with_the_text_of_its_choice(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    asked = {"text": "The answer is A.", "target": "B", "choices": ["Rome", "Paris"]}
    assert show(tmp_path, "--scorer", "choice_letter", **asked) == 0
    assert "extracted A: Rome   target B: Paris" in capfd.readouterr().out


def test_an_empty_subset_is_not_a_missing_one(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    assert show(tmp_path, subset="") == 0

    shown = capfd.readouterr().out
    assert "no subset" not in shown
    assert "repeat 0 · right" in shown


def test_a_set_that_is_incomplete_and_a_number_that_is_not_stored_are_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    repository = LocalRepository(tmp_path / "answers")
    found = publish(repository, numbers(0, 3), total=100)
    name = ["show", found.manifest.answer_set_id, "--answers", repository.uri]

    assert run(name) == 0
    shown = capfd.readouterr().out
    assert "(n=3), scored just now, not stored\nincomplete: 3 of 100 answers\n" in shown
    score(found)
    assert run(name) == 0
    assert "(n=3)\nincomplete" in capfd.readouterr().out


def test_a_model_with_several_answer_sets_is_shown_with_the_ids_of_the_others(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    repository = LocalRepository(tmp_path / "answers")
    sums, words = (publish(repository, [row(1)], benchmark=name) for name in ("sums", "words"))
    ids = {found.manifest.answer_set_id: name for found, name in ((sums, "sums"), (words, "words"))}

    assert run(["show", "org/tiny", "--answers", repository.uri]) == 0
    shown = capfd.readouterr().err
    (newest,) = [
        found for found in ids if f"in a browser: regrade view {repository.uri} {found}" in shown
    ]
    (other,) = {*ids} - {newest}
    assert f"other answer sets of this model: {other} ({ids[other]})" in shown
    assert run(["show", other, "--answers", repository.uri]) == 0
    assert "other answer sets" not in capfd.readouterr().err


def test_a_hostile_text_is_itself_in_json(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    assert show(tmp_path, "--json", subset=HOSTILE) == 0

    (answer,) = json.loads(capfd.readouterr().out)["answers"]
    assert answer["subset"] == HOSTILE


@pytest.mark.parametrize("scorer", ["number", "exact", "choice_letter"])
def test_an_answer_without_a_target_has_no_target_and_is_not_wrong(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], scorer: str
):
    assert show(tmp_path, "--scorer", scorer, target=None, text="It is 4.") == 0
    out = capfd.readouterr().out
    assert " · no target" in out
    assert "It is 4." in out
    assert "wrong" not in out
    assert show(tmp_path, "--scorer", scorer, "--wrong", target=None, text="It is 4.") == 0
    assert "No answer matches." in capfd.readouterr().out
    assert show(tmp_path, "--json", target=None, text="It is 4.") == 0
    [answer] = json.loads(capfd.readouterr().out)["answers"]
    assert (answer["outcome"], answer["value"]) == ("no target", None)


def test_the_question_is_shown_where_the_prompt_is_not_known(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    assert show(tmp_path, prompt=None, question="How many?") == 0
    assert "How many?" in capfd.readouterr().out


def test_an_image_is_named_in_few_letters(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    sha256 = "0123456789abcdef" * 4
    changes = {"prompt": f"<image:{sha256}> Red?", "images": [sha256]}
    assert show(tmp_path, **changes) == 0
    assert "[image 01234567] Red?" in capfd.readouterr().out
    assert show(tmp_path, "--json", **changes) == 0
    [answer] = json.loads(capfd.readouterr().out)["answers"]
    assert (answer["prompt"], answer["images"]) == (f"<image:{sha256}> Red?", [sha256])


def test_a_heading_names_the_set_and_what_was_extracted_is_at_the_end(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    assert show(tmp_path) == 0

    lines = [line for line in capfd.readouterr().out.splitlines() if line]
    assert lines[0].startswith("org/tiny · sums · ")
    assert lines[1].startswith("number v")
    assert lines[1].endswith("(n=1), scored just now, not stored")
    assert lines[2].startswith("sample-00001 repeat 0 · odd · right")
    assert lines[3:] == [
        "What is 1?",
        "It is 1.",
        "#### 1",
        "extracted 1   target 1",
        "answers 1 to 1 of 1",
    ]


def thirty(repository: LocalRepository) -> AnswerSet:
    """30 answers, of which every third is wrong; the number is the question's."""
    rows = [row(n, "#### 0" if n % 3 == 0 else "", latency=float(n)) for n in range(1, 31)]
    return publish(repository, rows)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> AnswerSet:
    """`thirty`, for tests that only read it."""
    return thirty(LocalRepository(tmp_path_factory.mktemp("many") / "answers"))


def listed(
    answers: AnswerSet, capfd: pytest.CaptureFixture[str], *options: str
) -> tuple[list[int], dict[str, object]]:
    where = ("--answers", answers.repository.uri)
    assert run(["show", answers.manifest.answer_set_id, *where, "--json", *options]) == 0
    document = json.loads(capfd.readouterr().out)
    return [answer["index"] for answer in document["answers"]], document


def test_pages_follow_each_other_and_say_how_many_there_are(
    many: AnswerSet, capfd: pytest.CaptureFixture[str]
):
    first, document = listed(many, capfd, "--wrong", "--limit", "4")
    second, _ = listed(many, capfd, "--wrong", "--limit", "4", "--page", "2")
    assert (first, second) == ([3, 6, 9, 12], [15, 18, 21, 24])
    assert (document["matching"], document["total"]) == (10, 30)

    set_id = many.manifest.answer_set_id
    where = ("--answers", many.repository.uri)
    assert run(["show", set_id, *where, "--wrong", "--limit", "4", "--page", "2"]) == 0
    shown = capfd.readouterr()
    assert "answers 5 to 8 of 10, out of 30 in the set" in shown.out
    assert "--page 3" in shown.err
    assert run(["show", set_id, *where, "--wrong", "--page", "9"]) == 0
    assert "This page is empty: 10 answers match." in capfd.readouterr().out


def test_the_filters_are_those_of_the_viewer_and_combine(
    many: AnswerSet, capfd: pytest.CaptureFixture[str]
):
    assert listed(many, capfd, "--wrong", "--subset", "even")[0] == [6, 12, 18, 24, 30]
    assert listed(many, capfd, "--search", "what IS 7?")[0] == [7]
    assert listed(many, capfd, "--min-seconds", "29")[0] == [29, 30]
    assert listed(many, capfd, "--sort", "seconds", "--descending", "--limit", "2")[0] == [30, 29]
    assert listed(many, capfd, "--verdict", "right", "--max-seconds", "4")[0] == [1, 2, 4]
    assert listed(many, capfd, "--sample", "sample-0002", "--wrong")[0] == [21, 24, 27]


def test_answers_against_another_set_are_those_that_changed(
    repository: LocalRepository, capfd: pytest.CaptureFixture[str]
):
    many = thirty(repository)
    other = publish(repository, [row(n) for n in range(1, 31)], model="org/better")
    for answers in (many, other):
        score(again(answers))

    where = ("--against", other.manifest.answer_set_id, "--change", "worse", "--limit", "3")
    assert listed(again(many), capfd, *where)[0] == [3, 6, 9]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--change worse", "`--change` needs `--baseline"),
        ("--wrong --verdict right", "exclude each other"),
        ("--page 0", "`--page 0`"),
        ("--limit 0", "`--limit 0`"),
        ("--subset nothing", "`--subset nothing` should be"),
        ("--against ffff", "ffff"),
        ("--verdict odd", "odd"),
    ],
)
def test_a_filter_that_cannot_be_used_is_named(
    many: AnswerSet, options: str, says: str, capfd: pytest.CaptureFixture[str]
):
    where = ("--answers", many.repository.uri)
    assert run(["show", many.manifest.answer_set_id, *where, *options.split()]) == 2
    assert says in capfd.readouterr().err


def test_a_chat_is_shown_as_turns(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+0\n=?"}]
    assert show(tmp_path, prompt=json.dumps(messages), prompt_kind="messages") == 0

    lines = capfd.readouterr().out.splitlines()
    start = lines.index("system")
    assert lines[start : start + 5] == ["system", "Be brief.", "user", "1+0", "=?"]


def test_log_probabilities_have_their_letters(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    assert show(tmp_path, label_logprobs=[-0.5, -1.25]) == 0

    assert "log-probabilities: A -0.500, B -1.250" in capfd.readouterr().out


def test_of_grades_from_1_to_3_the_worst_is_wrong_and_the_best_right(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    repository = LocalRepository(tmp_path / "answers")
    set_id = graded(repository, "org/a", (1, 2, 3)).manifest.answer_set_id
    capfd.readouterr()

    def matching(*filters: str) -> tuple[int, set[float]]:
        given = [set_id, "--answers", repository.uri, "--limit", "60", "--json", *filters]
        assert run(["show", *given]) == 0
        document = json.loads(capfd.readouterr().out)
        return document["matching"], {answer["value"] for answer in document["answers"]}

    assert matching("--verdict", "wrong") == (20, {1.0})
    assert matching("--verdict", "partly right") == (20, {2.0})
    assert matching("--verdict", "right") == (20, {3.0})
    assert matching("--wrong") == (40, {1.0, 2.0})


def test_a_scoring_by_a_function_of_a_file_is_shown_by_its_stored_name_and_named_beside_the_first(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    answers = publish(LocalRepository(tmp_path / "answers"), [row(1), row(2)])
    score(answers)
    score_with_an_older_scorer(again(answers), lambda _: {"value": 0.25}, scorer="close")
    where = [answers.manifest.answer_set_id, "--answers", answers.repository.uri]

    assert run(["show", *where, "--scorer", "close"]) == 0

    shown = capfd.readouterr()
    assert "close v0: 25.0" in shown.out
    assert "partly right" in shown.out
    assert "--scorer close-0-00000000" in shown.err
    assert run(["show", *where, "--scorer", "clos"]) == 2
    capfd.readouterr()
    assert run(["show", *where]) == 0
    assert "also close v0: 25.0 % (n=2): --scorer close" in capfd.readouterr().out


def test_the_viewer_begins_with_a_scoring_that_exists(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    answers = publish(LocalRepository(tmp_path / "answers"), [row(1)])
    score(answers)
    set_id = answers.manifest.answer_set_id
    monkeypatch.setattr("regrade.pages.viewer.serving.serve", lambda *_: None)
    assert run(["view", answers.repository.uri, set_id, "--scorer", "number", "--port", "0"]) == 0
    assert capfd.readouterr().out.splitlines()[0].endswith(f"/sets/{set_id}?scorer=number")
    assert run(["view", answers.repository.uri, set_id, "--scorer", "close"]) == 2
    assert "`--scorer close` should be a stored scoring" in capfd.readouterr().err
    assert run(["view", answers.repository.uri, "--scorer", "number"]) == 2
    assert "needs one answer set" in capfd.readouterr().err


def test_answers_are_named_by_their_id_their_model_or_an_alias(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    repository = LocalRepository(tmp_path / "answers")
    older = answer(repository, "org/one", right=1, total=2)
    newer = answer(repository, "org/one", right=1, total=2, n_shots=3)
    other = answer(repository, "org/two", right=1, total=2)
    move_alias(repository, "release", [other])
    where = ["--answers", repository.uri, "--json"]

    def shown(name: str) -> object:
        assert run(["show", name, *where]) == 0
        return json.loads(capfd.readouterr().out)["answer_set_id"]

    ids = [found.manifest.answer_set_id for found in (older, newer, other)]
    assert [shown(ids[0][:6]), shown("org/one"), shown("one"), shown("release")] == [
        ids[0],
        ids[1],
        ids[1],
        ids[2],
    ]
    assert run(["show", "nobody", *where]) == 2
    assert "`regrade list` shows all answer sets" in capfd.readouterr().err


def test_what_is_about_one_answer_set_asks_which_of_several(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
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
        assert run([*words, "--answers", repository.uri]) == 2
        said = capfd.readouterr().err
        assert "'org/one' has 2 answer sets" in said
        assert all(answer_set_id in said for answer_set_id in ids)


def test_what_an_agent_did_is_shown_in_short_before_its_answer(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    did = trajectory_text(
        [
            PartedMessage("assistant", (call_of("c", "add", '{"x": 1}'),)),
            PartedMessage("tool", (Part("tool_result", "x" * 9000 + "\x1b[31m", "c", "add"),)),
            PartedMessage("assistant", (Part("text", "It is 1."),)),
        ]
    )
    assert show(tmp_path, trajectory=did, text="It is 1.") == 0
    out = capfd.readouterr().out
    assert 'assistant calls add: {"x": 1}' in out
    assert "characters left out" in out
    assert out.count("It is 1.") == 1
    assert len(out) < 5000
    assert "\x1b" not in out
    assert show(tmp_path / "other", trajectory="no JSON \x1b", text="It is 1.") == 0
    assert "no JSON" in capfd.readouterr().out
