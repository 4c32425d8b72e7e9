"""The ceiling of the house: what CONTRIBUTING.md says of rooms, floors and files holds."""

import ast
import tomllib
from collections import defaultdict

import pytest

from infra.floors import PAGE, ROOT, CircleError, files, floors, lonely, page, rooms, source

LONELY = {
    "regrade.benchmarks.gsm8k": "a benchmark: a plug-in that is found by its file",
    "regrade.pages.report.plots": "draws what the report's page lays out",
    "regrade.scorers.extraction.canonical": "one spelling for equal numbers; its source is hashed",
    "regrade.scorers.number_strict": "a scorer: a plug-in that is found by its file",
}
"""Modules under 70 lines with a single importer that stay files of their own, and why."""

HASHED = ("regrade.lm_eval", "regrade.processes", "regrade.records.rubrics", "regrade.scorers")
"""Packages with classes that keep their names, because scorers' hashes are of their source."""


def test_contributing_shows_the_tree_and_the_floors_of_today() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert page(text) == text, "run `python -m infra.floors --write`"


def test_there_are_at_most_30_rooms_on_9_floors() -> None:
    assert len(rooms()) <= 30
    assert len(floors(rooms())) <= 9


def test_every_import_between_rooms_points_to_a_lower_layer() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    outer, inner, *_ = config["tool"]["importlinter"]["contracts"]
    layers = [*outer["layers"][:-1], *inner["layers"]]
    depth = {room: n for n, layer in enumerate(layers) for room in layer.split(" | ")}

    upward = {(a, b) for a, below in rooms().items() for b in below if depth[a] >= depth[b]}

    assert not upward


def test_no_files_import_each_other_in_a_circle() -> None:
    floors(files())


def test_a_short_module_with_a_single_importer_in_its_folder_is_part_of_that_importer() -> None:
    assert set(lonely(below=70)) == set(LONELY), (
        "fold it into its importer, or name it in LONELY with a reason"
    )


def test_a_class_has_a_name_of_its_own() -> None:
    modules = defaultdict(list)
    for module in files():
        for node in ast.parse(source(module).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(module)

    several = {name: found for name, found in modules.items() if len(found) > 1}

    assert {n: f for n, f in several.items() if not any(m.startswith(HASHED) for m in f)} == {}


def test_a_room_stands_one_floor_above_the_highest_that_it_imports() -> None:
    imported = {"top": {"middle", "ground"}, "middle": {"ground"}, "ground": set[str]()}

    assert floors(imported) == [["ground"], ["middle"], ["top"]]


def test_a_circle_is_named_without_what_stands_on_it() -> None:
    imported = {"one": {"other"}, "other": {"one"}, "ground": set[str](), "top": {"one"}}

    with pytest.raises(CircleError, match=r"^import each other: one, other$"):
        floors(imported)
