"""The notebooks in examples/, run cell by cell."""

import ast
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
from matplotlib import pyplot
from matplotlib.container import ErrorbarContainer

from regrade.answers.local import LocalRepository
from tests.builders import row
from tests.command_line import ROOT
from tests.comparing.sides import answer
from tests.stored import publish, score

mpl.use("Agg")
NOTEBOOKS = ROOT / "examples" / "notebooks"


class Notebook:
    """Runs the cells of a notebook in one namespace, as Jupyter does."""

    def __init__(self, name: str) -> None:
        self.document = json.loads((NOTEBOOKS / name).read_text())
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.shown: list[Any] = []

    @property
    def code(self) -> list[str]:
        return ["".join(c["source"]) for c in self.document["cells"] if c["cell_type"] == "code"]

    def run(self) -> None:
        for number, source in enumerate(self.code, 1):
            tree = ast.parse(source, f"cell {number}")
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, f"cell {number}", "exec"), self.names)
            if isinstance(last, ast.Expr):
                value = eval(
                    compile(ast.Expression(last.value), f"cell {number}", "eval"), self.names
                )
                html = getattr(value, "_repr_html_", None)
                assert html() if html else repr(value)
                self.shown.append(value)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    repository = LocalRepository(tmp_path / "answers")
    monkeypatch.setenv("REGRADE_ANSWERS", repository.uri)
    yield repository
    pyplot.close("all")


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_is_one_and_has_no_outputs(path: Path):
    document = json.loads(path.read_text())
    assert document["nbformat"] == 4
    ids = [cell["id"] for cell in document["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in document["cells"]:
        assert cell["cell_type"] in ("markdown", "code")
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)


def test_why_did_it_drop_finds_the_cut_answers(repository: LocalRepository):
    base = [row(n) for n in range(60)]
    cut = {n for n in range(60) if n % 2 and n > 20}
    worse = [
        row(n, "Let me think", finish_reason="length", completion_tokens=512)
        if n in cut
        else row(n)
        for n in range(60)
    ]
    for model, rows in (("my-team/old-model", base), ("my-team/new-model", worse)):
        score(publish(repository, rows, model=model))
    notebook = Notebook("why-did-it-drop.ipynb")
    notebook.run()
    lost = notebook.names["lost"]
    assert set(lost.number) == cut
    assert notebook.names["compared"].verdict.verdict == "regression"
    [table] = [value for value in notebook.shown if "answers" in getattr(value, "columns", ())]
    assert list(table.index) == [False, True]
    assert list(table.truncated) == [0.0, 1.0]


def test_which_prompt_is_better_compares_the_two(repository: LocalRepository):
    for shots, right in ((0, 40), (5, 55)):
        sides = {"model": "my-team/model", "benchmark": "gsm8k", "n_shots": shots}
        score(answer(repository, right=right, total=60, **sides))
    notebook = Notebook("which-prompt-is-better.ipynb")
    notebook.run()
    compared = notebook.names["compared"]
    assert compared.comparison.difference == pytest.approx(0.25)
    assert compared.verdict.verdict == "pass"
    assert any(isinstance(c, ErrorbarContainer) for c in notebook.names["axes"].containers)
    assert list(notebook.names["sets"]["prompt.n_shots"].astype(int).sort_values()) == [0, 5]
