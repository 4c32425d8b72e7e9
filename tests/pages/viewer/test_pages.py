"""The viewer's pages over HTTP: lists, filters, one answer, comparisons; errors are pages, too."""

import re
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from regrade.answers.manifest import Stopped
from regrade.answers.origin import begin_session, note
from regrade.answers.publishing import publish_answers, publish_scores
from regrade.answers.spool import Spool
from regrade.pages.viewer.answer_facts import with_choice
from regrade.pages.viewer.filters import AnswerFilters
from regrade.records.messages import Part, PartedMessage
from regrade.records.trajectory import call_of, trajectory_text
from regrade.settings import SamplingParams
from regrade.stats.metrics import summarise
from tests.builders import description, row, session
from tests.comparing.sides import answer
from tests.pages.viewer.reading import Reader
from tests.stored import (
    again,
    commit_manifest,
    commit_shards,
    numbers,
    publish,
    score,
    score_with_an_older_scorer,
)

DOCS = Path(__file__).parents[3] / "docs" / "viewing.md"
HOSTILE = "</pre><script>alert(1)</script><b>x</b>\x1b[31m \u202eabc\u200b javascript:alert(1)"


def scored(
    reader: Reader, rows: list[dict[str, Any]], scorer: str = "number", **changes: Any
) -> str:
    """Publish and score rows; return the id of their set."""
    answers = publish(reader.repository, rows, scorers=(scorer,), **changes)
    score(answers, scorer)
    return answers.manifest.answer_set_id


def mixed() -> list[dict[str, Any]]:
    """Right: 0-3, wrong: 4-6, unparsed: 7, truncated and wrong: 8, failed: 9."""
    return [
        *numbers(0, 4),
        *(row(number, f"#### {number + 1}") for number in range(4, 7)),
        row(7, "I do not know."),
        row(8, "#### 1", finish_reason="length", completion_tokens=900, latency=9.0),
        row(9, text="x", error="server said no") | {"text": None},
    ]


@pytest.fixture(scope="module")
def mixed_reader(tmp_path_factory: pytest.TempPathFactory) -> tuple[Reader, str]:
    """The viewer of a repository with the set of `mixed`, and its id."""
    reader = Reader(tmp_path_factory.mktemp("mixed") / "answers")
    return reader, scored(reader, mixed())


def test_an_empty_repository_says_how_to_begin(reader: Reader):
    page = reader.get("/")
    assert page.status == 404
    assert "regrade generate" in page.text


def test_sets_of_one_benchmark_show_the_settings_that_tell_them_apart(reader: Reader):
    for temperature in (0.0, 0.7):
        scored(reader, numbers(0, 2), sampling=SamplingParams(temperature=temperature))
    scored(reader, numbers(0, 2), benchmark="other")
    lines = reader.page("/").rows
    assert sorted("temperature 0.7" in line for line in lines) == [False, False, True]
    assert sorted("temperature" in line for line in lines) == [False, True, True]


def test_a_set_that_was_stopped_when_its_verdict_was_sure_says_so(reader: Reader, tmp_path: Path):
    described, one = description(10), session()
    stopped = Stopped(verdict="regression", questions=4, of=10, baseline="b" * 16)
    with Spool(tmp_path / "spool") as spool:
        begin_session(spool, reader.repository.uri, described, one)
        spool.append(numbers(0, 4))
        note(spool, str(one.id), stopped=stopped)
        answers = publish_answers(reader.repository, spool, described)

    assert answers is not None
    says = "Stopped after 4 of 10: regression. The rest was not asked."
    assert says in reader.page("/").rows[0]
    assert says in reader.page(f"/sets/{answers.manifest.answer_set_id}").text


def test_sets_are_filtered_and_sorted_by_the_address(reader: Reader):
    scored(reader, [*numbers(0, 2), row(2, "#### 9")], model="org/middle")
    scored(reader, numbers(0, 3), model="org/best")
    answers = publish(reader.repository, numbers(0, 3), model="org/unscored", benchmark="other")
    names = [line.split()[0] for line in reader.page("/?sort=accuracy").rows]
    assert names == ["org/best", "org/middle", "org/unscored"]
    assert [line.split()[0] for line in reader.page("/?q=BEST").rows] == ["org/best"]
    assert len(reader.page(f"/?q={answers.manifest.answer_set_id[:6]}").rows) == 1
    assert "not scored" in reader.page("/?benchmark=other").rows[0]
    assert reader.get("/?benchmark=none").status == 400
    assert reader.get("/?q=&sort=accuracy").location == "/?sort=accuracy"


@pytest.mark.parametrize(
    ("query", "numbers_shown"),
    [
        ("verdict=right", [0, 1, 2, 3]),
        ("verdict=wrong&verdict=unparsed", [4, 5, 6, 7, 8]),
        ("verdict=failed", [9]),
        ("truncated=yes", [8]),
        ("truncated=no&verdict=wrong", [4, 5, 6]),
        ("subset=odd&verdict=wrong", [5]),
        ("q=DO+not+know", [7]),
        ("q=is+3&within=question", [3]),
        ("q=is+3&within=answer", [3]),
        ("q=What&within=answer", []),
        ("min_length=100", [8]),
        ("max_length=100&verdict=wrong", [4, 5, 6]),
        ("min_seconds=1.5", [8]),
        ("max_seconds=1.5&verdict=wrong", [4, 5, 6]),
        ("repeat=1", []),
        ("repeat=0&verdict=failed", [9]),
        ("max_length=0&verdict=wrong", []),
        ("descending=yes&verdict=right", [3, 2, 1, 0]),
        ("verdict=wrong&sort=length&descending=yes", [8, 4, 5, 6]),
        ("verdict=wrong&sort=extracted", [8, 4, 5, 6]),
        ("sort=seconds&descending=yes&verdict=wrong", [8, 4, 5, 6]),
    ],
)
def test_filters_combine_and_sort(
    mixed_reader: tuple[Reader, str], query: str, numbers_shown: list[int]
):
    reader, set_id = mixed_reader
    page = reader.page(reader.get(f"/sets/{set_id}?{query}").location or f"/sets/{set_id}?{query}")
    assert [int(line.split()[0]) for line in page.rows] == numbers_shown


def test_every_text_can_be_searched_and_means_itself(reader: Reader):
    texts = ("(", "[a", "\\", ".*", "\x00", "\u202e", "<b>", "%", "ẞ", "x" * 500)
    rows = [row(number, f"see {sought}\n#### 1") for number, sought in enumerate(texts)]
    set_id = scored(reader, rows)
    for number, sought in enumerate(texts):
        address = reader.get(f"/sets/{set_id}?q={quote(sought)}")
        page = reader.page(address.location or f"/sets/{set_id}?q={quote(sought)}")
        assert [int(line.split()[0]) for line in page.rows] == [number], sought


def test_a_chip_counts_what_it_would_show_and_adds_to_the_others(mixed_reader: tuple[Reader, str]):
    reader, set_id = mixed_reader
    page = reader.page(f"/sets/{set_id}?subset=odd")
    assert "right 2 wrong 1 unparsed 1 failed 1" in page.text
    wrong = page.keyed("w")
    assert wrong == f"/sets/{set_id}?verdict=wrong&subset=odd"
    assert (
        reader.page(wrong).keyed("u") == f"/sets/{set_id}?verdict=wrong&verdict=unparsed&subset=odd"
    )
    assert reader.page(wrong).keyed("w") == f"/sets/{set_id}?subset=odd"


def test_a_subset_with_an_empty_name_can_be_chosen(reader: Reader):
    named, unnamed = numbers(0, 2), [row(n, subset="") for n in (2, 3)]
    set_id = scored(reader, [*named, *unnamed])

    page = reader.page(f"/sets/{set_id}")
    (chosen,) = [link for link in page.links("subset=") if quote('""') in link]
    shown = reader.page(chosen)

    assert len(page.rows) == 4
    assert [text.split()[0] for text in shown.rows] == ["2", "3"]
    assert reader.get(f"/sets/{set_id}?subset=").location == f"/sets/{set_id}"  # all of them
    other = scored(reader, [*named, *unnamed], model="org/other")
    pairs = reader.page(f"/compare/{set_id}/{other}?subset={quote(chr(34) * 2)}")
    assert len(pairs.rows) == 2


def test_a_remembered_order_is_that_of_its_filters(reader: Reader):
    set_id = scored(reader, [row(n, latency=float(n % 3)) for n in range(6)])

    def order(query: str) -> list[str]:
        return [text.split()[0] for text in reader.page(f"/sets/{set_id}?{query}").rows]

    assert order("sort=seconds") == ["0", "3", "1", "4", "2", "5"]
    assert order("sort=seconds&descending=yes") == ["2", "5", "1", "4", "0", "3"]
    assert order("subset=even&sort=seconds") == ["0", "4", "2"]
    assert order("sort=seconds") == ["0", "3", "1", "4", "2", "5"]


def test_a_page_has_fifty_answers_and_leads_to_the_next(reader: Reader):
    set_id = scored(reader, numbers(0, 120))
    page = reader.page(f"/sets/{set_id}")
    assert len(page.rows) == 50
    assert page.keyed("p") is None
    second = page.keyed("n")
    assert second == f"/sets/{set_id}?page=2"
    last = reader.page(str(reader.page(second).keyed("n")))
    assert len(last.rows) == 20
    assert last.keyed("n") is None
    beyond = reader.page(f"/sets/{set_id}?page=9999")
    assert (beyond.rows, beyond.keyed("p")) == (last.rows, second)
    assert "101\N{EN DASH}120 of 120 answers" in beyond.text


@pytest.mark.parametrize(
    ("page", "known"),
    [
        ("/?modle=x", "ascending, at, benchmark, q, sort"),
        ("/sets/{}?verdcit=wrong&page=2", "verdict"),
        ("/sets/{}/answer?sample=1&nubmer=2", "number"),
        ("/compare/{}/{}?kinds=x", "Did you mean &#39;kind&#39;?"),
        ("/compare?base={}&candidat=x", "candidate"),
    ],
)
def test_a_name_that_an_address_cannot_have_is_refused_with_those_that_it_can(
    mixed_reader: tuple[Reader, str], page: str, known: str
):
    reader, answer_set = mixed_reader
    found = reader.get(page.format(answer_set, answer_set))
    assert found.status == 400
    assert "Unknown name in the address" in found.html
    assert known in found.html


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("page=0", "`page=0` in the address should be a whole number from 1"),
        ("page=abc", "should be a whole number"),
        ("verdict=good", "should be one of right,"),
        ("subset=none", "should be a subset of this answer set"),
        ("min_seconds=nan", "should be a number from 0"),
        ("sort=<b>", "`sort=<b>` in the address should be one of number"),
        ("scorer=x", "should be one of number-3-"),
        ("q=a&q=b", "should be given once"),
        ("repeat=-1", "should be a whole number"),
        ("q=" + "x" * 501, "should be 500 characters or shorter"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(
    mixed_reader: tuple[Reader, str], query: str, problem: str
):
    reader, set_id = mixed_reader
    page = reader.get(f"/sets/{set_id}?{query}")
    assert page.status == 400
    assert problem in page.text


@pytest.mark.parametrize(
    "address",
    [
        "/sets/ffff",
        "/sets/SET/answer?sample=none",
        "/sets/SET/answer",
        "/sets/SET/answer?sample=sample-00001&number=7",
        "/sets/SET?at=ffffffff",
        "/sets/SET?against=ffff&change=any",
        "/compare/SET/ffff",
        "/compare/SET/SET/question?sample=none",
        "/nothing",
        "/static/../app.py",
        "/static/nothing.css",
    ],
)
def test_what_is_not_there_is_not_found(mixed_reader: tuple[Reader, str], address: str):
    reader, set_id = mixed_reader
    assert reader.get(address.replace("SET", set_id)).status == 404


def test_the_first_digits_of_an_id_lead_to_the_set(mixed_reader: tuple[Reader, str]):
    reader, set_id = mixed_reader
    assert (
        reader.get(f"/sets/{set_id[:6]}?verdict=right").location == f"/sets/{set_id}?verdict=right"
    )


def test_a_number_in_an_address_is_not_rounded():
    filters = AnswerFilters.of({"min_seconds": ["12.3456789"], "max_seconds": ["1234567"]})
    assert filters.query == "min_seconds=12.3456789&max_seconds=1234567"


def test_every_state_of_the_list_survives_its_address():
    full = AnswerFilters(
        verdict=("wrong", "unparsed"), truncated="no", subset="a&b", q="ü ?", within="answer",
        min_length=1, max_length=2, min_seconds=0.5, max_seconds=1.25, repeat=1, against="ab", change="worse",
        sort="length", descending=True, page=3, scorer="number-3-x", format="markdown", at="abcd",
    )  # fmt: skip
    assert len(full.pairs()) == len(asdict(full))
    from starlette.datastructures import QueryParams

    params = QueryParams(full.query)
    assert AnswerFilters.of({name: params.getlist(name) for name in params}) == full


def test_a_hostile_trajectory_is_text(reader: Reader):
    hostile = [
        PartedMessage(
            HOSTILE,
            (
                Part("text", HOSTILE),
                Part("reasoning", HOSTILE),
                Part("image", HOSTILE),
                call_of(HOSTILE, HOSTILE, HOSTILE),
                Part("tool_result", HOSTILE, HOSTILE, HOSTILE),
            ),
        )
    ]
    for did in (trajectory_text(hostile), HOSTILE, f'[{{"role": "{HOSTILE[:20]}"}}]'):
        set_id = scored(reader, [row(5, did) | {"trajectory": did}])
        for form in ("", "&format=markdown"):
            page = reader.page(f"/sets/{set_id}/answer?sample=sample-00005{form}")
            assert "What the agent did" in page.text
            for evil in ("<script>alert", "<b>x</b>", "\u202e", "\u200b", "\x1b"):
                assert evil not in page.html


def test_of_a_long_trajectory_the_first_messages_are_shown_unless_all_are_asked_for(reader: Reader):
    did = trajectory_text(
        [PartedMessage("user", (Part("text", f"turn {n}."),)) for n in range(1200)]
    )
    set_id = scored(reader, [row(5) | {"trajectory": did}])
    address = f"/sets/{set_id}/answer?sample=sample-00005"
    assert "1,000 more messages are not shown" in reader.page(address).text
    assert "turn 1199." not in reader.page(address).text
    assert "turn 1199." in reader.page(f"{address}&full=yes").text


def test_next_and_previous_keep_the_filters(mixed_reader: tuple[Reader, str]):
    reader, set_id = mixed_reader
    page = reader.page(reader.page(f"/sets/{set_id}?verdict=wrong").links("answer")[0])
    assert "1 of 4" in page.text
    assert page.keyed("k") is None
    following = page.keyed("j")
    assert following is not None
    assert "verdict=wrong" in following
    assert "sample-00005" in following
    assert reader.page(following).keyed("b") == f"/sets/{set_id}?verdict=wrong"
    outside = reader.page(f"/sets/{set_id}/answer?sample=sample-00001&number=0&verdict=wrong")
    assert "not in the filtered list" in outside.text


def test_one_of_several_repeats_can_be_chosen(reader: Reader):
    rows = [row(n, f"#### {n + repeat}", repeat=repeat) for n in range(3) for repeat in range(2)]
    set_id = scored(reader, rows, repeats=2, sampling=SamplingParams(temperature=1.0))
    assert len(reader.page(f"/sets/{set_id}").rows) == 6
    second = reader.page(f"/sets/{set_id}?repeat=1")
    assert [text.split()[:2] for text in second.rows] == [[str(n), "r1"] for n in range(3)]
    first = reader.page(f"/sets/{set_id}?repeat=0")
    assert [text.split()[:2] for text in first.rows] == [[str(n), "r0"] for n in range(3)]


def test_one_of_several_scorings_can_be_chosen(reader: Reader):
    answers = publish(reader.repository, numbers(0, 3))
    old = score_with_an_older_scorer(answers, lambda _: {"value": 0.0, "extracted": "77"})
    score(answers)
    set_id = answers.manifest.answer_set_id
    assert len(reader.page(f"/sets/{set_id}?verdict=wrong&scorer={old.label}").rows) == 3
    assert len(reader.page(f"/sets/{set_id}?verdict=wrong").rows) == 0


def test_an_answer_without_a_scoring_can_be_read(reader: Reader):
    answers = publish(reader.repository, mixed())
    set_id = answers.manifest.answer_set_id
    page = reader.page(f"/sets/{set_id}")
    assert f"regrade score --answer-set {set_id}" in page.text
    assert "failed 1 not scored 9" in page.text
    assert "not scored question 1" in reader.page(page.links("sample-00001")[0]).text


def test_answers_that_changed_against_another_set_are_a_filter(reader: Reader):
    set_id = scored(reader, mixed())
    other = scored(reader, [*numbers(0, 3), row(3, "#### 9"), *numbers(4, 6)], model="org/other")
    worse = reader.page(f"/sets/{set_id}?against={other}&change=worse")
    assert [int(line.split()[0]) for line in worse.rows] == [4, 5]
    better = reader.page(f"/sets/{set_id}?against={other}&change=better")
    assert [int(line.split()[0]) for line in better.rows] == [3]
    any_change = reader.page(f"/sets/{set_id}?against={other}&change=any")
    assert len(any_change.rows) == 3
    unscored = publish(
        reader.repository, numbers(0, 3), model="org/unscored"
    ).manifest.answer_set_id
    page = reader.get(f"/sets/{set_id}?against={unscored}&change=worse")
    assert page.status == 404
    assert "has no scoring like this one" in page.text
    strangers = scored(reader, numbers(500, 503), model="org/strangers")
    assert (
        "no question in common" in reader.get(f"/sets/{set_id}?against={strangers}&change=any").text
    )


def test_questions_of_one_kind_of_change_are_listed_and_followed(reader: Reader):
    base = answer(reader.repository, "org/base", wrong=(1, 2, 3, 9), total=40)
    candidate = answer(reader.repository, "org/candidate", wrong=(2, 3, 4, 5, 6), total=40)
    ids = base.manifest.answer_set_id, candidate.manifest.answer_set_id
    page = reader.page(f"/compare/{ids[0]}/{ids[1]}")
    assert "right to wrong 3 wrong to right 2 both wrong, the same 2 both right 33" in page.text
    lost = reader.page(str(page.keyed("w")))
    assert ["right to wrong" in line for line in lost.rows] == [True] * 3
    assert "1 of 3" in reader.page(lost.links("question")[0]).text


def test_a_comparison_is_that_of_the_scores_as_they_are_now(reader: Reader):
    base, candidate = (
        answer(reader.repository, name, wrong=(), total=4) for name in ("org/a", "org/b")
    )
    score(base)
    file, address = score(candidate), [kept.manifest.answer_set_id for kept in (base, candidate)]
    assert "both right 4" in reader.page(f"/compare/{address[0]}/{address[1]}").text
    scores = again(candidate).score_table(file)
    wrong = scores.set_column(
        scores.schema.get_field_index("value"), scores.schema.field("value"), [[0.0] * 4]
    )
    now = file.model_copy(update={"scored_at": datetime.now(UTC), "summary": summarise(wrong, {})})
    publish_scores(reader.repository, [(again(candidate), now, wrong)])
    assert "right to wrong 4" in reader.page(f"/compare/{address[0]}/{address[1]}").text


def test_wrong_in_another_way_is_told_from_wrong_in_the_same_way(reader: Reader):
    base = publish(reader.repository, [row(1, "#### 8"), row(2, "#### 8")], model="org/a")
    other = publish(reader.repository, [row(1, "#### 8"), row(2, "#### 9")], model="org/b")
    page = reader.page(f"/compare/{base.manifest.answer_set_id}/{other.manifest.answer_set_id}")
    assert "both wrong, differently 1 both wrong, the same 1" in page.text


def test_every_key_is_explained_on_the_pages_and_in_the_docs(reader: Reader):
    base = answer(reader.repository, "org/base", wrong=(1, 2, 9), total=120)
    other = answer(reader.repository, "org/other", wrong=(3,), total=120)
    for answers in (base, other):
        score(answers)
    set_id = base.manifest.answer_set_id
    versus = f"/compare/{set_id}/{other.manifest.answer_set_id}"
    listed = reader.page(f"/sets/{set_id}?verdict=right&page=2")
    pages = [
        listed,
        reader.page(f"/sets/{set_id}?verdict=wrong"),
        reader.page(listed.links("answer")[0]),
        reader.page(versus),
        reader.page(reader.page(versus).links("question")[0]),
    ]
    used = {key for page in pages for key in re.findall(r'data-key="(.)"', page.html)}
    explained = {*re.findall(r"<kbd>(.)</kbd>", listed.html)}
    documented = re.search(r"## Keys\n(.*?)\n## ", DOCS.read_text(), re.DOTALL)
    assert documented is not None
    assert used == {*"bdhjkmnpuwx"}
    assert used | {"/", "?"} == explained
    assert explained == {*re.findall(r"`(.)`", documented[1])}


def test_sets_that_differ_in_more_than_the_model_are_compared_only_when_asked(reader: Reader):
    base = answer(reader.repository, "org/a", right=30, total=40)
    other = answer(reader.repository, "org/b", right=20, total=40, temperature=0.7)
    address = f"/compare/{base.manifest.answer_set_id}/{other.manifest.answer_set_id}"
    page = reader.page(address)
    assert "not comparable as they are: temperature" in page.text
    [allow] = [link for link in page.links() if "allow=sampling" in link]
    assert "75.00 % A 50.00 % B" in reader.page(allow).text


def test_two_chosen_sets_lead_to_their_comparison(reader: Reader):
    first, second = (scored(reader, numbers(0, 3), model=f"org/{name}") for name in "ab")
    chosen = reader.get(f"/compare?base={first[:6]}&candidate={second}")
    assert chosen.location == f"/compare/{first}/{second}"
    assert reader.get(f"/compare?base={first}").status == 400


def test_a_hostile_text_is_shown_and_is_no_markup_on_any_page(reader: Reader):
    columns = ("question", "prompt", "text", "reasoning", "target", "subset", "sample_id")
    hostile = [row(2) | dict.fromkeys(columns, HOSTILE), row(4) | {"error": HOSTILE}]
    rows = [row(1), *hostile, row(3, "#### 8")]
    base = scored(reader, rows, "exact")
    others = [{**answer, "text": "#### 9"} for answer in rows]
    other = scored(reader, others, "exact", model="<b>evil</b>\u202e")
    addresses = [
        "/",
        f"/sets/{base}",
        f"/sets/{base}?q=alert",
        f"/compare/{base}/{other}",
        *reader.page(f"/sets/{base}").links("answer"),
        *reader.page(f"/compare/{base}/{other}").links("question"),
    ]
    addresses += [f"{link}&format=markdown" for link in addresses if "answer" in link]
    for address in addresses:
        page = reader.page(address)
        assert "<script>alert" not in page.html, address
        assert "<b>x</b>" not in page.html, address
        assert "<b>evil" not in page.html, address
        assert "\u202e" not in page.html, address
        assert "\u200b" not in page.html, address
        assert "\x1b" not in page.html, address
        assert 'href="javascript' not in page.html


def test_a_long_text_is_cut_unless_all_of_it_is_asked_for(reader: Reader):
    set_id = scored(reader, [row(1, "a" * 70_000 + "\n#### 1")])
    page = reader.page(f"/sets/{set_id}/answer?sample=sample-00001&number=0")
    assert "10,007 more characters" in page.text
    [whole] = set(page.links("full=yes"))
    assert "a" * 70_000 in reader.page(whole).html
    # What was read stands in what is cut off.
    assert [bool(shown.links("#read")) for shown in (page, reader.page(whole))] == [False, True]


def test_a_question_side_by_side_folds_thoughts_and_cuts_long_texts(reader: Reader):
    thinking = [row(1, "<think>Is it 8?</think>It is #### 8")]
    base = scored(reader, thinking, model="org/a")
    other = scored(reader, [row(1, "a" * 70_000 + "\n#### 9")], model="org/b")
    [address] = reader.page(f"/compare/{base}/{other}").links("question")
    for view in ("", "&view=difference"):
        page = reader.page(address + view)
        thought, answer = re.findall(r"<pre[^>]*>(.*?)</pre>", page.html, re.DOTALL)[1:3]
        assert "Is it 8?" in thought
        assert "<think>" not in answer
        assert "10,007 more characters" in page.text
        [whole] = set(page.links("full=yes"))
        assert "a" * 70_000 in reader.page(whole).html
    assert "It is #### <mark>8</mark>" in reader.page(address).html


def test_damaged_answers_are_named(reader: Reader):
    set_id = scored(reader, numbers(0, 3))
    other = scored(reader, numbers(0, 3), model="org/other")
    [shard] = (reader.repository.folder / "answers/sums/org--tiny" / set_id).glob("*.parquet")
    shard.write_bytes(b"not a shard")
    page = reader.get(f"/sets/{set_id}")
    assert page.status == 500
    assert shard.name in page.text
    assert reader.page(f"/sets/{other}").status == 200
    newer = publish(reader.repository, numbers(0, 3), model="org/newer")
    commit_manifest(newer, schema_version=99)
    assert "upgrade regrade" in reader.get(f"/sets/{newer.manifest.answer_set_id}").text


def test_a_pinned_address_shows_what_was_there_then(reader: Reader):
    set_id = scored(reader, numbers(0, 3))
    before = reader.repository.head()
    scored(reader, numbers(0, 3), model="org/later")
    assert len(reader.page(f"/?at={before}").rows) == 1
    assert len(reader.page("/").rows) == 2
    assert f"at={before}" in reader.page(f"/sets/{set_id}?at={before}").links("verdict=")[0]


def test_new_answers_show_up_while_the_viewer_runs(reader: Reader):
    scored(reader, numbers(0, 3))
    assert len(reader.page("/").rows) == 1
    scored(reader, numbers(0, 3), model="org/later")
    assert len(reader.page("/").rows) == 2


def test_a_prefix_with_a_path_is_in_every_link(mixed_reader: tuple[Reader, str]):
    reader, set_id = mixed_reader
    under = Reader(reader.repository.folder, root="/view")
    for address in ("/", f"/sets/{set_id}"):
        links = [link for link in under.page(address).links() if link.startswith("/")]
        assert links
        assert all(link.startswith("/view/") for link in links)


def test_scores_in_another_order_are_those_of_their_answers(reader: Reader):
    answers = publish(reader.repository, [*numbers(0, 3), row(3, "#### 9")])
    score(answers)
    reversed_set = commit_shards(answers, [row(3, "#### 9"), *reversed(numbers(0, 3))])
    page = reader.page(f"/sets/{reversed_set.manifest.answer_set_id}?verdict=wrong")
    assert [int(line.split()[0]) for line in page.rows] == [3]
    assert "stale" in page.text


def test_answers_that_were_not_computed_alike_say_so_on_every_page(reader: Reader):
    answers = publish(reader.repository, mixed(), scorers=("number",))
    score(answers)
    mixed_by = "layers: Fp8LinearMethod against Fp8LinearMethod, 16-bit activations"
    changes = {"mixed": [mixed_by], "computed": {"not_sent": ["temperature 0.0", "top_p 1.0"]}}
    known = session().model_dump(mode="json")
    commit_manifest(again(answers), sessions=[known | changes])

    for address in ("/", f"/sets/{answers.manifest.answer_set_id}"):
        page = reader.page(address).text
        assert f"Its answers were not all computed alike: {mixed_by}." in page
        assert "The server refused temperature 0.0: its own values were in effect." in page


def test_a_letter_is_shown_with_the_text_of_its_choice(reader: Reader):
    choices = ["Rome", "Paris"]
    stored = row(0, "The answer is A.", target="B", choices=choices)
    answers = publish(reader.repository, [stored])
    score(answers, "choice_letter")
    page = reader.page(f"/sets/{answers.manifest.answer_set_id}").text
    assert "A: Rome B: Paris" in page
    assert with_choice("12", choices) == "12"
    assert with_choice("C", choices) == "C"
    assert with_choice("B", None) == "B"
