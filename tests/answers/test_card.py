"""The dataset card: regrade's section is updated, text by people stays byte for byte."""

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from regrade.answers.overview import BEGIN, END, render_card


def lines(*benchmarks: str, state: str = "complete") -> dict[str, str]:
    """A line for an answer set of each benchmark."""
    return {f"{name}/org--model/0123456789abcdef": f"| {name} | {state} |" for name in benchmarks}


def front(card: str) -> dict:
    return yaml.safe_load(card.lstrip("\ufeff").split("---")[1])


def test_a_card_without_answer_sets_has_no_configurations() -> None:
    assert "configs" not in front(render_card(None, {}))


def test_doing_it_again_changes_nothing() -> None:
    card = render_card(None, lines("gsm8k", "mmlu"))

    assert card.index("| gsm8k |") < card.index("| mmlu |")
    assert render_card(card, lines("mmlu", "gsm8k")) == card


def test_the_table_is_replaced_and_the_text_around_it_stays() -> None:
    card = render_card(None, lines("gsm8k"))
    edited = card.replace("# Answers and scores", "# My words\r\n\ttab ") + "\r\nafter\n\n\n"

    updated = render_card(edited, lines("gsm8k", state="incomplete"))

    assert updated == edited.replace("| complete |", "| incomplete |")


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

    card = render_card(person, lines("gsm8k", "mmlu"))

    assert [config["config_name"] for config in front(card)["configs"]] == ["mine", "gsm8k", "mmlu"]
    assert front(card)["configs"][0] == {"config_name": "mine", "data_files": "x.csv"}
    assert front(card)["tags"] == ["other", "regrade", "evaluation"]
    assert (front(card)["license"], front(card)["pretty_name"]) == ("mit", "Größe")
    kept = iter(card.splitlines(keepends=True))
    assert all(line in kept for line in person.splitlines(keepends=True)[:-1])  # in this order
    assert "text without a newline at its end" in card
    assert render_card(card, lines("gsm8k", "mmlu")) == card


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

    assert render_card(person, lines("gsm8k")).startswith(person)


def test_a_configuration_of_the_same_name_is_the_persons() -> None:
    person = "---\nconfigs:\n- config_name: gsm8k\n  data_files: mine.csv\n---\n"

    card = front(render_card(person, lines("gsm8k", "mmlu")))
    configs = card["configs"]

    assert configs[0] == {"config_name": "gsm8k", "data_files": "mine.csv"}
    assert [config["config_name"] for config in configs] == ["gsm8k", "mmlu"]
    assert [info["config_name"] for info in card["dataset_info"]] == ["mmlu"]


def test_a_card_without_front_matter_gets_one() -> None:
    card = render_card("# Mine\n\ntext\n", lines("gsm8k"))

    assert front(card)["configs"][0]["config_name"] == "gsm8k"
    assert "\n\n# Mine\n\ntext\n\n<!--" in card


def test_a_mark_that_a_person_left_over_takes_no_text_with_it() -> None:
    person = f"# Mine\n{BEGIN}\nprecious\n"

    once = render_card(person, lines("gsm8k"))
    twice = render_card(once, lines("gsm8k", state="stopped"))

    assert "precious" in twice
    assert person in twice
    assert "| complete |" not in twice


@pytest.mark.parametrize("name", ["on", "123", "1e3", "null", "a.b-c_d"])
def test_a_benchmark_named_like_another_yaml_type_stays_a_text(name: str) -> None:
    assert front(render_card(None, lines(name)))["configs"][0]["config_name"] == name


@pytest.mark.parametrize("name", ["..", "*", "[a]", "a\nb", "", "{x}", "é"])
def test_a_benchmark_whose_name_would_be_a_pattern_gets_no_configuration(name: str) -> None:
    card = render_card(None, lines(name, "gsm8k"))

    assert [config["config_name"] for config in front(card)["configs"]] == ["gsm8k"]


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@example(text=["---\n", BEGIN, "\n---\n", END], names=[])
@given(
    text=st.lists(st.one_of(TEXT, st.sampled_from([BEGIN, END, "\n", "---\n", "tags:\n- a\n"]))),
    names=st.lists(st.sampled_from(["gsm8k", "---", "x_y", "on"]), max_size=4),
)
def test_nothing_of_a_person_is_lost_and_doing_it_twice_is_doing_it_once(
    text: list[str], names: list[str]
) -> None:
    person = "".join(text)

    card = render_card(person, lines(*names))

    assert render_card(card, lines(*names)) == card
    if BEGIN not in person and not person.startswith(("---", "\ufeff---")) and person:
        assert person in card
