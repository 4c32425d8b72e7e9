"""The dataset card: regrade's section is updated, text by people stays byte for byte."""

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from regrade.answers.overview import BEGIN, END, CardRow, render_card
from regrade.stats.scale import SHARES


def row(benchmark: str = "gsm8k", model: str = "org/model", **changes: object) -> CardRow:
    usual = {"answer_set_id": "0123456789abcdef", "rows": 1319, "state": "complete"}
    scores = [("number v1", 0.731, 0.0122, 1319, SHARES)]
    return CardRow(benchmark, model, **(usual | {"scores": scores} | changes))  # type: ignore[arg-type]


def front(card: str) -> dict:
    return yaml.safe_load(card.lstrip("\ufeff").split("---")[1])


def section(card: str) -> str:
    return card[card.rindex(BEGIN) : card.rindex(END) + len(END)]


def test_what_is_missing_is_not_shown_as_a_number() -> None:
    scores = [("exact v1", None, None, 0, SHARES), ("x v2", 0.5, None, 2, SHARES)]

    card = render_card(None, [row(scores=scores)])

    assert "exact v1: no score (n = 0)<br>x v2: 50.00 % (n = 2)" in card


def test_a_card_without_answer_sets_has_no_configurations() -> None:
    assert "configs" not in front(render_card(None, []))


def test_doing_it_again_changes_nothing() -> None:
    card = render_card(None, [row(), row("mmlu")])

    assert render_card(card, [row("mmlu"), row()]) == card


def test_the_table_is_replaced_and_the_text_around_it_stays() -> None:
    card = render_card(None, [row()])
    edited = card.replace("# Answers and scores", "# My words\r\n\ttab ") + "\r\nafter\n\n\n"

    updated = render_card(edited, [row(rows=7)])

    assert updated == edited.replace("1,319 | complete", "7 | complete")


PERSON = """---
license: mit   # a comment
configs:
    - config_name: mine
      data_files: "x.csv"

pretty_name: 'Größe'
tags:
- other

---
# Title

text without a newline at its end"""


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_a_persons_front_matter_is_only_added_to(ends: str) -> None:
    person = PERSON.replace("\n", ends)

    card = render_card(person, [row(), row("mmlu")])

    assert [config["config_name"] for config in front(card)["configs"]] == ["mine", "gsm8k", "mmlu"]
    assert front(card)["configs"][0] == {"config_name": "mine", "data_files": "x.csv"}
    assert front(card)["tags"] == ["other", "regrade", "evaluation"]
    assert (front(card)["license"], front(card)["pretty_name"]) == ("mit", "Größe")
    kept = iter(card.splitlines(keepends=True))
    assert all(line in kept for line in person.splitlines(keepends=True)[:-1])  # in this order
    assert "text without a newline at its end" in card
    assert render_card(card, [row(), row("mmlu")]) == card


@pytest.mark.parametrize(
    "front_matter",
    [
        "configs: [{config_name: mine, data_files: x.csv}]\ntags: [a]\n",
        "configs: none\ntags: a\n",
        "{configs: [], tags: []}\n",
        "broken: [\n",
        "- a\n- list\n",
    ],
)
def test_front_matter_that_cannot_be_added_to_safely_stays(front_matter: str) -> None:
    person = f"---\n{front_matter}---\ntext\n"

    assert render_card(person, [row()]).startswith(person)


def test_a_configuration_of_the_same_name_is_the_persons() -> None:
    person = "---\nconfigs:\n- config_name: gsm8k\n  data_files: mine.csv\n---\n"

    card = front(render_card(person, [row(), row("mmlu")]))
    configs = card["configs"]

    assert configs[0] == {"config_name": "gsm8k", "data_files": "mine.csv"}
    assert [config["config_name"] for config in configs] == ["gsm8k", "mmlu"]
    assert [info["config_name"] for info in card["dataset_info"]] == ["mmlu"]


def test_a_card_without_front_matter_gets_one() -> None:
    card = render_card("# Mine\n\ntext\n", [row()])

    assert front(card)["configs"][0]["config_name"] == "gsm8k"
    assert "\n\n# Mine\n\ntext\n\n<!--" in card


def test_a_mark_that_a_person_left_over_takes_no_text_with_it() -> None:
    person = f"# Mine\n{BEGIN}\nprecious\n"

    once = render_card(person, [row()])
    twice = render_card(once, [row(rows=5)])

    assert "precious" in twice
    assert person in twice
    assert "1,319 | complete" not in twice


@pytest.mark.parametrize("name", ["on", "123", "1e3", "null", "a.b-c_d"])
def test_a_benchmark_named_like_another_yaml_type_stays_a_text(name: str) -> None:
    assert front(render_card(None, [row(name)]))["configs"][0]["config_name"] == name


@pytest.mark.parametrize("name", ["../..", "a/b", "*", "[a]", "a\nb", "", "{x}", "é"])
def test_a_benchmark_whose_name_would_be_a_pattern_gets_no_configuration(name: str) -> None:
    card = render_card(None, [row(name), row()])

    assert [config["config_name"] for config in front(card)["configs"]] == ["gsm8k"]


def test_a_strangers_names_are_shown_and_do_nothing() -> None:
    evil = f"<script>alert(1)</script> | [x](javascript:1) `c` **b** ~s~ \n\n# h {END}"

    card = render_card(None, [row(evil, evil, state=evil, answer_set_id=evil)])

    rows = section(card).partition("|---|\n")[2].removesuffix(END).strip()
    assert card.count(END) == 1
    assert not set("<>`[]~*") & set(rows.replace("<br>", ""))
    assert rows.count("\n") == 0
    assert rows.count("|") == 7
    assert "javascript:1" in rows
    assert END not in render_card(card, []).partition(END)[2]


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
NAMES = st.one_of(TEXT, st.sampled_from([BEGIN, END, "a|b", "---", "x_y", "_x_"]))


@example(text=["---\n", BEGIN, "\n---\n", END], names=[])
@given(
    text=st.lists(st.one_of(TEXT, st.sampled_from([BEGIN, END, "\n", "---\n", "tags:\n- a\n"]))),
    names=st.lists(NAMES, max_size=4),
)
def test_nothing_of_a_person_is_lost_and_doing_it_twice_is_doing_it_once(
    text: list[str], names: list[str]
) -> None:
    person = "".join(text)
    rows = [row(name, name) for name in names]

    card = render_card(person, rows)

    assert render_card(card, rows) == card
    if BEGIN not in person and not person.startswith(("---", "\ufeff---")) and person:
        assert person in card
