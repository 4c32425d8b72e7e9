"""Mutation tests: mutants are run in a copy of the repository, and counted."""

import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from perf.mutants import MODULES, exit_code, row
from perf.mutants_running import BaselineError, ModuleTests, Outcome, copied

ROOT = Path(__file__).parents[2]
RULE = "def doubled(n):\n    return 2 * n\n"
TEST = "from rule import doubled\n\ndef test_it():\n    assert doubled(3) == 6\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "rule.py").write_text(RULE)
    (tmp_path / "test_rule.py").write_text(TEST)
    (tmp_path / ".gitignore").write_text("ignored.py\n")
    (tmp_path / "ignored.py").write_text("")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    return tmp_path


@pytest.fixture
def copy(checkout: Path) -> Iterator[Path]:
    with copied(checkout) as folder:
        yield folder


def test_the_copy_has_the_files_that_git_does_not_ignore_and_is_removed(checkout: Path) -> None:
    with copied(checkout) as folder:
        names = {path.name for path in folder.iterdir()}

    assert names == {"rule.py", "test_rule.py", ".gitignore"}
    assert not folder.parent.exists()


@pytest.mark.slow
def test_a_mutant_is_killed_or_survives_and_the_module_is_restored(copy: Path) -> None:
    tests = ModuleTests.measured(copy, "rule.py", ["test_rule.py"])

    assert tests.outcome(RULE.replace("*", "+")) is Outcome.KILLED
    assert tests.outcome(RULE.replace("2 * n", "n * 2")) is Outcome.SURVIVED
    assert (copy / "rule.py").read_text() == RULE


def test_a_mutant_that_does_not_end_times_out(copy: Path) -> None:
    tests = ModuleTests(copy, "rule.py", ["test_rule.py"], limit=2)

    assert tests.outcome("import time; time.sleep(60)\n") is Outcome.TIMED_OUT


def test_tests_that_fail_without_a_change_judge_no_mutants(copy: Path) -> None:
    (copy / "test_rule.py").write_text(TEST.replace("6", "7"))

    with pytest.raises(BaselineError, match=r"(?s)do not pass without a change.*assert 6 == 7"):
        ModuleTests.measured(copy, "rule.py", ["test_rule.py"])


@pytest.mark.slow
def test_tests_of_another_module_judge_no_mutants(copy: Path) -> None:
    (copy / "other.py").write_text("")

    with pytest.raises(BaselineError, match=r"do not import other\.py"):
        ModuleTests.measured(copy, "other.py", ["test_rule.py"])


def test_the_score_is_the_share_noticed_and_a_timeout_is_noticed() -> None:
    outcomes = Counter({Outcome.KILLED: 18, Outcome.TIMED_OUT: 1, Outcome.SURVIVED: 1})

    assert row("answers/spool", 326, outcomes) == {
        "module": "answers/spool",
        "mutants possible": 326,
        "run": 20,
        "killed": 18,
        "timed out": 1,
        "survived": 1,
        "score": "95%",
    }


def test_the_exit_code_is_1_below_the_least_share_of_all_modules_and_if_none_ran() -> None:
    rows = [
        row("a", 9, Counter({Outcome.KILLED: 10})),
        row("b", 9, Counter({Outcome.KILLED: 9, Outcome.SURVIVED: 1})),
    ]

    assert exit_code(rows, 0.95) == 0
    assert exit_code(rows, 0.96) == 1
    assert exit_code([row("c", 0, Counter())], 0) == 1


def test_each_module_and_its_tests_exist() -> None:
    paths = [path for tests in MODULES.values() for path in tests]
    paths += [f"regrade/{name}.py" for name in MODULES]

    assert [path for path in paths if not (ROOT / path).exists()] == []
