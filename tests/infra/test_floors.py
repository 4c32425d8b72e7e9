import pytest

from infra.floors import PAGE, CircleError, floors, page


def test_the_drawing_in_contributing_is_of_today() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert page(text) == text, "run `python -m infra.floors --write`"


def test_a_room_stands_one_floor_above_the_highest_that_it_imports() -> None:
    imported = {"top": {"middle", "ground"}, "middle": {"ground"}, "ground": set[str]()}

    assert floors(imported) == [["ground"], ["middle"], ["top"]]


def test_rooms_that_import_each_other_are_refused_by_name() -> None:
    with pytest.raises(CircleError, match="one, other"):
        floors({"one": {"other"}, "other": {"one"}, "ground": set()})
