import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from regrade.scorers import scorer_names
from regrade.scoring import source_hash as hashing
from regrade.scoring.source_hash import hash_of, module_code, module_codes, source_hash
from tests.pythons import SUPPORTED, python

CODE = '''
"""Docstring."""
import re
from regrade.scorers.base import Reading, Scorer
from collections import OrderedDict

LIMIT = 3


class Example(Scorer):
    """Docstring."""

    name = "example"
    """Docstring of an attribute."""

    def read(self, text: str, *, strict: bool = False) -> str:
        """Return something."""
        found = re.search(f"{LIMIT}{text!r:>{LIMIT}}", text)  # a comment

        return f"""a
        b""" if found else text
'''
EXPECTED = "2ed149c5c77222f50022908d232ac975"


def digest(source: str, ours: tuple[str, ...] = ("regrade",)) -> str:
    return module_code(source, "regrade.scorers", ours).digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("  # a comment", "", id="a comment"),
        pytest.param('"""Docstring."""', '"""Other words,\nin two lines."""', id="a docstring"),
        pytest.param('"""Docstring of an attribute."""', "", id="a docstring of an attribute"),
        pytest.param("LIMIT = 3\n\n\n", "LIMIT = 3\n", id="blank lines"),
        pytest.param("LIMIT = 3", "LIMIT=3", id="spaces"),
        pytest.param("text)  #", "\n            text,\n        )  #", id="a broken line"),
        pytest.param(
            "self, text: str, *, strict: bool = False",
            "\n        self,\n        text: str,\n        *,\n        strict: bool = False,\n    ",
            id="a parameter on each line",
        ),
        pytest.param(
            "import re\nfrom regrade.scorers.base import Reading, Scorer\n",
            "from regrade.scorers.base import (\n    Scorer,\n    Reading,\n)\nimport re\n",
            id="the order of imports",
        ),
        pytest.param("regrade.scorers.base", "regrade.elsewhere", id="the place of our module"),
    ],
)
def test_how_the_code_is_written_down_is_not_part_of_the_hash(old: str, new: str) -> None:
    assert old in CODE

    assert digest(CODE.replace(old, new)) == digest(CODE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ('name = "example"', 'name = "other"'),
        ("{text!r:>", "{text!s:>"),
        ("a\n        b", "a\n       b"),
        ("if found else", "if not found else"),
        ("import re\n", "import re2 as re\n"),
        ("Reading, Scorer", "Reading as Scorer"),
        ("from collections", "from typing"),
        ("        return", "    return"),
    ],
)
def test_what_the_code_does_is_part_of_the_hash(old: str, new: str) -> None:
    assert old in CODE

    assert digest(CODE.replace(old, new)) != digest(CODE)


@pytest.mark.parametrize(
    ("code", "other"), [("x = (a,)", "x = (a)"), ("x = y[a,]", "x = y[a]"), ("x = 1", "x = '1'")]
)
def test_a_comma_that_means_something_is_part_of_the_hash(code: str, other: str) -> None:
    assert digest(code) != digest(other)


def test_the_hash_of_a_known_text_never_changes() -> None:
    """A change of these values makes all stored scores of all users stale."""
    assert digest(CODE)[:32] == EXPECTED


def test_stored_scores_of_the_last_version_are_not_stale() -> None:
    """Whoever changes a value makes all stored scores of the scorer stale, and says so in CHANGELOG.md."""
    last = {
        "anls": "ca9cf921",
        "choice_letter": "0afbba22",
        "choice_letter_first": "887044a6",
        "choice_logprob": "a689791b",
        "choice_or_text": "34176805",
        "code": "a51b9c1f",
        "exact": "e62afa2f",
        "ifbench": "170fd1d5",
        "ifeval": "34a60e69",
        "judge": "d40bafd9",
        "literal": "4588d5cb",
        "lm_eval": "e4aa652f",
        "math": "8826b3ac",
        "mathvista": "80402f82",
        "mmmu": "13f5e620",
        "mrcr": "e557bbbc",
        "number": "0abf02d9",
        "number_strict": "f3bdbb1f",
        "ocrbench": "7a08c278",
        "relaxed_accuracy": "d6a87f78",
        "text": "cdfc70a8",
        "tool_calls": "183d3a3f",
    }

    assert {name: source_hash(name) for name in scorer_names()} == last


@pytest.mark.parametrize("version", SUPPORTED)
def test_every_supported_python_gives_the_same_hash(version: str) -> None:
    code = (
        "import sys; from regrade.scoring.source_hash import hash_of as h, module_code as c;"
        "print(h('regrade.scorers.number', ('regrade.scorers',)));"
        "print(c(sys.stdin.read(), 'regrade.scorers', ('regrade',)).digest)"
    )
    done = subprocess.run(
        [python(version), "-c", code],
        input=CODE,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )

    assert done.stdout.split() == [
        hash_of("regrade.scorers.number", ("regrade.scorers",)),
        digest(CODE),
    ]


def test_threads_hash_at_once_without_an_error() -> None:
    """`ast.parse` in several threads fails on Python 3.11 up to 3.11.7."""

    def hashed(_: int) -> str:
        hashing._code_of.cache_clear()
        return hash_of("regrade.scorers.number", ("regrade.scorers",))

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(hashed, range(16)))) == 1


def test_a_scorer_of_another_package_is_hashed_with_its_own_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "their_scorers"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "words.py").write_text("STOP = ()\n")
    (package / "scorer.py").write_text(
        "from regrade.scorers.extraction import columns as c\nfrom .words import STOP\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    packages = ("regrade.scorers", "their_scorers")

    found = module_codes("their_scorers.scorer", packages)

    assert sorted(found) == [
        "regrade.scorers.extraction.columns",
        "their_scorers.scorer",
        "their_scorers.words",
    ]
    for name in [name for name in sys.modules if name.startswith("their_scorers")]:
        monkeypatch.delitem(sys.modules, name)
