import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from regrade import scorers
from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.benchmarks import competitions
from regrade.scorers import load_scorer, scorer_names
from regrade.scoring.score import is_stale, score_answers
from regrade.scoring.source_hash import _code_of, source_hash
from regrade.settings import registry
from regrade.settings.errors import PluginError, UnknownNameError
from tests.builders import row
from tests.command_line import ROOT, regrade
from tests.plugins import install, install_all
from tests.stored import again, publish, score

KINDS: tuple[registry.Kind, ...] = ("scorer", "benchmark", "engine")
CACHES = (
    registry.names,
    registry._entries,
    registry._loaded,
    registry._all_entry_points,
    source_hash,
    _code_of,
)


def forget() -> None:
    for cached in CACHES:
        cached.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "their_package"]:
        del sys.modules[name]


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Nothing is known of what is installed, neither here nor afterwards."""
    forget()
    yield monkeypatch
    monkeypatch.undo()
    forget()


def python(code: str, *paths: Path) -> str:
    """Run code in a process of its own, with packages installed in `paths`."""
    path = os.pathsep.join(map(str, [ROOT, *paths]))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_in_the_folder_is_one_of_its_kind(kind: registry.Kind):
    files = {path.stem for path in (ROOT / "regrade" / f"{kind}s").glob("*.py")}

    several = {*competitions.TABLE, "bfcl_live"} if kind == "benchmark" else set()
    names = {name for name in registry.names(kind) if not re.fullmatch(registry.WINDOW, name)}

    assert names - several == files - {"__init__", "base", "competitions"}
    assert several <= names
    assert registry.broken(kind) == ()


def test_listing_the_names_imports_none_of_them():
    code = (
        "import sys; from regrade.settings import registry; from regrade.settings import ScorerName, BenchmarkName;"
        "print([name for name in sys.modules if name.startswith(('regrade.scorers', 'regrade.benchmarks'))])"
    )
    assert python(code).strip() == "[]"


def put_beside_ours(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, text: str) -> None:
    """Make `regrade.scorers` a package of two folders, the second with a file."""
    (folder / f"{name}.py").write_text(text)
    paths = [*scorers.__path__, str(folder)]
    monkeypatch.setattr(scorers.__spec__, "submodule_search_locations", paths)
    monkeypatch.setattr(scorers, "__path__", paths)


def test_a_new_file_in_the_folder_is_found(fresh: pytest.MonkeyPatch, tmp_path: Path):
    text = (ROOT / "regrade/scorers/exact.py").read_text()
    (tmp_path / "_not_mine.py").write_text("")
    put_beside_ours(fresh, tmp_path, "mine", text.replace('"exact"', '"mine"'))

    assert load_scorer("mine").name == "mine"
    assert "_not_mine" not in scorer_names()


def test_a_file_that_holds_none_is_an_error_when_it_is_used(
    fresh: pytest.MonkeyPatch, tmp_path: Path
):
    put_beside_ours(fresh, tmp_path, "empty", "")

    with pytest.raises(PluginError, match="'regrade.scorers.empty:scorer' of regrade cannot be"):
        load_scorer("empty")
    assert load_scorer("number").name == "number"


def test_a_scorer_of_another_package_scores_stored_answers(
    fresh: pytest.MonkeyPatch, tmp_path: Path
):
    fresh.syspath_prepend(install_all(tmp_path / "site"))
    answers = stored(tmp_path)

    file = score(answers, "shouted")

    assert (file.scorer, file.version, file.summary.overall.accuracy) == ("shouted", 3, 0.5)
    assert not is_stale(file, again(answers))


def test_the_hash_of_a_scorer_of_another_package_covers_its_own_modules(
    fresh: pytest.MonkeyPatch, tmp_path: Path
):
    site = install_all(tmp_path / "site")
    fresh.syspath_prepend(site)
    before = source_hash("shouted"), source_hash("exact")
    (site / "their_package" / "words.py").write_text('MARK = "!!"\n')
    forget()
    after = source_hash("shouted"), source_hash("exact")

    assert before[0] != after[0]
    assert before[1] == after[1]


def stored(folder: Path) -> AnswerSet:
    rows = [row(0, text="yes!", target="yes!"), row(1, text="yes", target="yes")]
    return publish(LocalRepository(folder / "answers"), rows, scorers=("shouted",))


def test_what_names_a_scorer_that_is_not_installed_is_read_listed_and_shown(
    fresh: pytest.MonkeyPatch, tmp_path: Path
):
    fresh.syspath_prepend(install_all(tmp_path / "site"))
    answers, folder = stored(tmp_path), tmp_path / "answers"
    score(answers, "shouted")
    fresh.undo()
    forget()

    (listed,) = regrade("list", "--answers", folder, "--json").document["answer_sets"]
    shown = regrade("show", answers.manifest.answer_set_id, "--answers", folder, "--json").document
    wrong = regrade("show", answers.manifest.answer_set_id, "--answers", folder, "--wrong")

    assert [(score["scorer"], score["stale"]) for score in listed["scores"]] == [("shouted", False)]
    assert [answer["text"] for answer in shown["answers"]] == ["yes!", "yes"]
    # The stored scoring is shown, as the viewer does: it needs no installed scorer.
    assert [answer["outcome"] for answer in shown["answers"]] == ["scored", "unparsed"]
    assert wrong.code == 0, wrong.err
    with pytest.raises(UnknownNameError, match="Unknown scorer 'shouted'"):
        score_answers(again(answers), "shouted")


def test_a_benchmark_of_another_package_is_listed_and_planned(
    fresh: pytest.MonkeyPatch, tmp_path: Path
):
    site = install_all(tmp_path / "site")
    fresh.syspath_prepend(site)
    questions = tmp_path / "test.jsonl"
    questions.write_text(json.dumps({"question": "How many?", "answer": "#### 2"}) + "\n")

    listed = regrade("benchmarks", "--json").document["benchmarks"]
    planned = python(
        "from regrade.jobs.job import GenerationJob; from regrade.benchmarks import open_benchmark;"
        "from regrade.jobs.job import EngineSettings; from regrade.jobs.plan import make_plan;"
        "from regrade.settings import PromptSettings;"
        f"job = GenerationJob(model='m', benchmarks=('riddles',), answers='a', engine={{'kind': 'echo'}},"
        f"    prompt={{'n_shots': 0}}, sources=({{'benchmark': 'riddles', 'path': {str(questions)!r}}},));"
        "one = open_benchmark('riddles', prompt=job.prompt, source=job.source_of('riddles'));"
        "plan = make_plan(one, job.engine.resolve(job.model), job.engine, sampling=None, prompt=job.prompt, repeats=1);"
        "print(plan.specification.benchmark.name, plan.specification.benchmark.version, plan.rows)",
        site,
    )

    assert [benchmark["name"] for benchmark in listed][-1] == "riddles"
    assert planned.split() == ["riddles", "2", "1"]


def test_a_name_of_ours_is_refused_and_both_distributions_are_named(
    fresh: pytest.MonkeyPatch, tmp_path: Path
):
    points = "[regrade.scorers]\nnumber = their_package.scorer:Shouted\n"
    fresh.syspath_prepend(install(tmp_path, "their-package", points))

    with pytest.raises(PluginError) as caught:
        load_scorer("number")

    assert "'regrade.scorers.number:scorer' of regrade and " in str(caught.value)
    assert "'their_package.scorer:Shouted' of their-package 1.0" in str(caught.value)
    assert load_scorer("exact").name == "exact"


def test_a_name_of_two_packages_is_refused_and_both_are_named(
    fresh: pytest.MonkeyPatch, tmp_path: Path
):
    for name in ("one-package", "two-package"):
        points = "[regrade.scorers]\ntwice = their_package.scorer:Shouted\n"
        fresh.syspath_prepend(install(tmp_path, name, points))

    with pytest.raises(PluginError, match=r"of two-package 1\.0 and .* of one-package 1\.0"):
        load_scorer("twice")


@pytest.mark.parametrize(
    ("point", "module", "problem"),
    [
        ("mine = their_package.scorer:Mine", "import absent_module", "No module named 'absent_mod"),
        ("mine = their_package.scorer:Mine", "1 / 0", "ZeroDivisionError: division by zero"),
        ("mine = their_package.scorer:Mine", "", "has no attribute 'Mine'"),
        ("mine = their_package.scorer:Mine", "Mine = 1", "is not the class of a scorer"),
        ("mine = their_package.scorer:Mine", "class Mine:\n name = 'mine'", "it has no 'version'"),
        ("Mine-1 = their_package.scorer:Mine", "", "should have a name of a to z"),
    ],
)
def test_an_entry_point_that_cannot_be_used_says_why(
    fresh: pytest.MonkeyPatch, tmp_path: Path, point: str, module: str, problem: str
):
    site = install(tmp_path, "their-package", f"[regrade.scorers]\n{point}\n", scorer=module)
    fresh.syspath_prepend(site)

    with pytest.raises(PluginError) as caught:
        load_scorer(point.partition(" ")[0])

    assert "'their_package.scorer:Mine' of their-package 1.0" in str(caught.value)
    assert problem in str(caught.value)


def test_a_broken_package_is_listed_as_such_and_disturbs_no_other_command(
    fresh: pytest.MonkeyPatch, tmp_path: Path
):
    points = (
        "[regrade.scorers]\nbroken = their_package.scorer:Broken\n"
        "[regrade.benchmarks]\nbroken = their_package.benchmark:Broken\n"
        "[regrade.engines]\nbroken = their_package.engine:Broken\n"
    )
    bad = dict.fromkeys(("scorer", "benchmark", "engine"), "import absent_module")
    site = install(tmp_path / "site", "their-package", points, **bad)
    folder = tmp_path / "answers"
    score(publish(LocalRepository(folder), [row(0)]), "number")
    forget()
    fresh.syspath_prepend(site)

    listed_scorers = regrade("scorers", "--json").document
    benchmarks = regrade("benchmarks")
    listed = regrade("list", "--answers", folder)
    config = tmp_path / "job.yaml"
    config.write_text(
        "model: m\nbenchmarks: [gsm8k]\nengine: {kind: broken}\n" + f"answers: {folder}\n"
    )
    used = python(
        "import yaml; from regrade.jobs.job import GenerationJob, make_job; from regrade.settings.errors import PluginError\n"
        f"try: make_job(GenerationJob, yaml.safe_load(open({str(config)!r})))\n"
        "except PluginError as error: print(error)",
        site,
    )

    assert "absent_module" in listed_scorers["broken"]["broken"]
    assert {"number", "exact"} <= {scorer["name"] for scorer in listed_scorers["scorers"]}
    assert "broken cannot be used: " in benchmarks.out
    assert (listed.code, "number v3" in listed.out) == (0, True)
    assert "Engine 'broken' cannot be used: 'their_package.engine:Broken' of their" in used
