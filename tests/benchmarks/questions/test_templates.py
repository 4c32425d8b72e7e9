import pytest

from regrade.benchmarks.questions.templates import RowTemplate, TemplateValueError
from regrade.settings.errors import SettingsError


def test_a_template_knows_the_columns_it_reads() -> None:
    template = RowTemplate(
        "prompt", "{{ a }}{% for x in range(3) %}{{ x }}{% endfor %}{% if b %}{{ c.d }}{% endif %}"
    )

    assert template.names == {"a", "b", "c"}


def test_a_column_with_any_name_is_read_from_the_row() -> None:
    template = RowTemplate("prompt", "{{ row['the question'] }} {{ row[\"a.b\"] | upper }} {{ c }}")

    assert (template.row_columns, template.names) == ({"the question", "a.b"}, {"c"})
    row = {"the question": "Why?", "a.b": "so", "c": 1}
    assert template.render({**row, "row": row}) == "Why? SO 1"


@pytest.mark.parametrize(
    "text",
    ["{{ row }}", "{{ row.name }}", "{{ row[name] }}", "{{ row[0] }}", "{{ row['a'] }}{{ row }}"],
)
def test_the_row_is_used_by_names_in_quotes_alone(text: str) -> None:
    with pytest.raises(SettingsError, match=r"template prompt uses `row` .* `row\['NAME'\]`"):
        RowTemplate("prompt", text)


def test_a_loop_may_call_its_own_variable_row() -> None:
    template = RowTemplate("prompt", "{% for row in rows %}{{ row }}{% endfor %}")

    assert (template.names, template.row_columns) == ({"rows"}, frozenset())


def test_a_name_of_several_words_that_is_not_valid_tells_what_is() -> None:
    with pytest.raises(SettingsError, match=r"not valid Jinja.*`row\['NAME'\]`"):
        RowTemplate("prompt", "{{ the question }}")


def test_text_is_filled_in_as_it_is() -> None:
    assert RowTemplate("prompt", "{{ q }}!").render({"q": "<1 & {{ x }}>"}) == "<1 & {{ x }}>!"


@pytest.mark.parametrize(
    ("text", "values", "problem"),
    [
        ("{{ thing.name }}", {"thing": {}}, "has no attribute 'name'"),
        ("{{ q }}", {"q": None}, "a value that is null"),
        ("{{ q + 1 }}", {"q": "x"}, "the template prompt cannot be filled"),
        ("{{ 1 / q }}", {"q": 0}, "division by zero"),
        ("{{ q.__class__.__mro__ }}", {"q": "x"}, "unsafe"),
        ("{{ 'a' * 10**10 }}", {}, "the result of `*` would be too large"),
        ("{{ 10**9 * q }}", {"q": "ab"}, "the result of `*` would be too large"),
        ("{{ (q * 1000000) | length }}", {"q": [1, 2]}, "the result of `*` would be too large"),
        ("{{ 9**(9**9) }}", {}, "the result of `**` would be too large"),
        ("{{ q.ljust(2000000000) }}", {"q": "a"}, "more than 1,000,000 characters"),
        ("{{ q.center(width) }}", {"q": "a", "width": 10**10}, "more than 1,000,000"),
        ("{{ q | center(2000000000) }}", {"q": "a"}, "more than 1,000,000 characters"),
        ("{{ q | indent(width=2000000000) }}", {"q": "a\nb"}, "more than 1,000,000 characters"),
        ("{{ '\t'.expandtabs(2000000000) }}", {}, "more than 1,000,000 characters"),
        ("{{ '%2000000000d' % 1 }}", {}, "more than 1,000,000 characters"),
        ("{{ '%*d' % (n, 1) }}", {"n": 10**10}, "more than 1,000,000 characters"),
        ("{{ '%2000000000d' | format(1) }}", {}, "more than 1,000,000 characters"),
        ("{{ '{:>2000000000}'.format(q) }}", {"q": "a"}, "more than 1,000,000 characters"),
        ("{{ '{:a>2000000000}'.format(q) }}", {"q": "a"}, "more than 1,000,000 characters"),
        ("{{ '%(q)2000000000s' | format(q='a') }}", {}, "more than 1,000,000 characters"),
        ("{{ '{:{}}'.format(q, 10**10) }}", {"q": "a"}, "more than 1,000,000 characters"),
        ("{{ q.append(1) }}", {"q": [1]}, "'append' of 'list' object is unsafe"),
    ],
)
def test_what_cannot_be_filled_in_is_refused(
    text: str, values: dict[str, object], problem: str
) -> None:
    with pytest.raises(TemplateValueError) as error:
        RowTemplate("prompt", text).render(values)

    assert problem in str(error.value)


def test_a_template_may_multiply() -> None:
    text = "{{ '-' * 20 }}{{ 3 * 7 }} {{ 2**10 }} {{ 0.5 * n }}"

    assert RowTemplate("prompt", text).render({"n": 4}) == "-" * 20 + "21 1024 2.0"


def test_a_template_may_format_large_numbers() -> None:
    text = "{{ '{:,}'.format(n) }} {{ '%d' % n }} {{ '%5.1f' | format(n) }} {{ 7 % 4 }} {{ 'in: 12345678 {}'.format(n) }}"

    rendered = RowTemplate("prompt", text).render({"n": 12345678})
    assert rendered == "12,345,678 12345678 12345678.0 3 in: 12345678 12345678"


def test_null_may_be_asked_for() -> None:
    template = RowTemplate("prompt", "{% if hint %}{{ hint }} {% endif %}{{ q }}")

    assert template.render({"hint": None, "q": "Why?"}) == "Why?"


@pytest.mark.parametrize("text", ["{{ q", "{% for %}", "{{ q | no_such_filter }}"])
def test_a_template_that_is_not_jinja_is_refused(text: str) -> None:
    with pytest.raises(
        SettingsError, match=r"The template shot_answer is not valid Jinja \(line 1\)"
    ):
        RowTemplate("shot_answer", text)
