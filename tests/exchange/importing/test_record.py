import pytest

from regrade.exchange.importing.record import Record, as_json
from regrade.settings.errors import UserError


def record(**fields: object) -> Record:
    return Record(dict(fields), UserError)


def test_a_path_leads_through_objects_and_lists():
    found = record(a={"b": [{"c": "x"}]})
    assert found.text("a.b.0.c") == "x"
    for path in ("a.b.1.c", "a.b.-1", "a.c", "b", "a.b.0.c.d"):
        assert found.get(path) is None


def test_lists_of_lists_are_addressed_by_number_or_as_a_whole():
    found = record(a=[["x", "y"], ["z"]], b={"c": [{"d": [[1, 2]]}]}, **{"e[0]": "f"})
    for path, value in {
        "a.0.1": "y",
        "a[0][1]": "y",
        "a[1]": ["z"],
        "b.c[0].d[0][1]": 2,
        "a.*.0": ["x", "z"],
        "a[*][0]": ["x", "z"],
        "a.*.*": [["x", "y"], ["z"]],
        "a.*.1": ["y", None],
        "b.c[*].d.0.0": [1],
        "e[0]": "f",
        "a[2]": None,
        "a[x]": None,
        "a[-1]": None,
        "a.*.2": None,
        "b.*": None,
    }.items():
        assert found.get(path) == value, path
    assert found.texts("a[*].0") == ("x", "z")
    with pytest.raises(UserError, match="'a.*.1' should be a list of texts"):
        found.texts("a.*.1")


def test_a_field_whose_name_has_a_dot_comes_first():
    assert record(**{"a.b": 1, "a": {"b": 2}}).get("a.b") == 1


def test_a_field_of_another_kind_is_refused_with_what_was_found():
    found = record(a=3, b=["x", 3], c=-1, d=2**31, e=True, f=[])
    for call, says in (
        (lambda: found.text("a"), "'a' should be a text, found 3"),
        (lambda: found.texts("b"), "'b' should be a list of texts"),
        (lambda: found.integer("c"), "found -1"),
        (lambda: found.integer("d"), "found 2147483648"),
        (lambda: found.integer("e"), "found True"),
        (lambda: found.part("f"), "'f' should be an object"),
        (lambda: found.parts("b"), "'b' should be a list of objects"),
        (lambda: found.need("g"), "no field 'g'. Fields: 'a', 'b'"),
    ):
        with pytest.raises(UserError, match=says):
            call()


def test_half_a_surrogate_pair_does_not_reach_what_is_kept():
    assert as_json({"b": "\udc00", "a": 1}) == '{"a": 1, "b": "\N{REPLACEMENT CHARACTER}"}'
