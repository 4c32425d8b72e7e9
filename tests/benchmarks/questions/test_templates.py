import math
from collections.abc import Iterator
from datetime import date

import pytest

from regrade.benchmarks.questions import templates
from regrade.benchmarks.questions.templates import RowTemplate, TemplateValueError
from regrade.processes.limited import LimitedProcesses, Limits
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
        ("{{ q }}", {"q": math.nan}, "a value that is NaN"),
        ("{{ q + 1 }}", {"q": "x"}, "the template prompt cannot be filled"),
        ("{{ 1 / q }}", {"q": 0}, "division by zero"),
        ("{{ q.__class__.__mro__ }}", {"q": "x"}, "unsafe"),
        ("{{ q.append(1) }}", {"q": [1]}, "'append' of 'list' object is unsafe"),
    ],
)
def test_what_cannot_be_filled_in_is_refused(
    text: str, values: dict[str, object], problem: str
) -> None:
    with pytest.raises(TemplateValueError) as error:
        RowTemplate("prompt", text).render(values)

    assert problem in str(error.value)


@pytest.fixture(scope="module")
def small() -> Iterator[LimitedProcesses]:
    limits = Limits(cpu_seconds=0.5, seconds=20, memory=200 << 20)
    function = f"{templates.__name__}:{templates.asked.__name__}"
    with LimitedProcesses(function, limits, processes=1) as processes:
        yield processes


ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
DOUBLING = (
    "{% set n = namespace(x=q) %}{% for i in range(99) %}{% set n.x = n.x OP n.x %}{% endfor %}"
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (ENDLESS, "CPU time"),
        (
            "{% macro m(n) %}{% for i in range(99) %}{{ m(n) }}{% endfor %}{% endmacro %}{{ m(1) }}",
            "calls itself",
        ),
        ("{{ 9**(9**9) }}", "CPU time"),
        (DOUBLING.replace("OP", "~"), "MiB of memory"),
        (DOUBLING.replace("OP", "+"), "MiB of memory"),
        ("{% set a = q ~ q %}" + "{% set a = a ~ a %}" * 40, "MiB of memory"),
        ("{{ q" + "| replace('a', 'aaaaaaaaaa')" * 12 + " }}", "MiB of memory"),
        ("{{ q" + "| replace('a', q)" * 4 + " }}", "MiB of memory"),
        ("{{ q" + "| join(q)" * 4 + " }}", "MiB of memory"),
        ("{{ q" + "| list | string" * 12 + " }}", "MiB of memory|CPU time"),
        ("{% for a in q %}{{ q * 1000 }}{% endfor %}", "MiB of memory"),
        ("{{ 'a' * 10**10 }}", "MiB of memory"),
        ("{{ q.ljust(2000000000) }}", "MiB of memory"),
        ("{{ q | center(2000000000) }}", "MiB of memory"),
        ("{{ '%2000000000d' % 1 }}", "MiB of memory"),
        ("{{ '{:>2000000000}'.format(q) }}", "MiB of memory"),
        ("{% autoescape 'a' * 10**10 %}{% endautoescape %}", "MiB of memory"),
        ("{{ q * 100000 }}", "characters, more than 67,108,864"),
    ],
)
def test_a_template_that_grows_without_end_is_ended_in_a_process_of_its_own(
    small: LimitedProcesses, monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    monkeypatch.setattr(templates, "lasting_process", lambda *_: small)

    with pytest.raises((TemplateValueError, SettingsError), match=problem):
        RowTemplate("prompt", text).render({"q": "a" * 1000})


def _no_process(*_: object) -> None:
    raise AssertionError


def test_a_template_that_prints_a_row_needs_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "lasting_process", _no_process)
    text = (
        "{{ q.strip() | upper ~ '?' }} {{ x | join(', ') }}"
        "{% for c in x if c %} {{ 'AB'[loop.index0] }}. {{ c or 1 }}{% endfor %}"
    )

    row = {"q": " Why ", "x": ["so", "no"]}
    assert RowTemplate("prompt", text).render(row) == "WHY? so, no A. so B. no"
    with pytest.raises(AssertionError):  # the square of a long row is much
        RowTemplate("prompt", text).render({"q": "a" * 5000, "x": ["so", "no"]})


def test_a_process_gets_the_values_as_they_are() -> None:
    text = "{% set days = row['the days'] %}{% for day in days %}{{ day.year + n }} {% endfor %}"

    row = {"the days": [date(2025, 1, 1), date(2026, 1, 1)], "unused": lambda: 1}
    assert RowTemplate("prompt", text).render({"row": row, "n": 1}) == "2026 2027 "


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


@pytest.mark.parametrize(
    "text", ["{{ q", "{% for %}", "{{ q | no_such_filter }}", "{{ q | upper is no_such_test }}"]
)
def test_a_template_that_is_not_jinja_is_refused(text: str) -> None:
    with pytest.raises(
        SettingsError, match=r"The template shot_answer is not valid Jinja \(line 1\)"
    ):
        RowTemplate("shot_answer", text)
