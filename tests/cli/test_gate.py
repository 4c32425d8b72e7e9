"""Exit codes and reports of `regrade compare`, `gate` and `promote`."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from regrade.answers.local import LocalRepository
from regrade.cli.verdict_files import VerdictFiles
from regrade.comparing.job import GateJob
from regrade.settings.errors import OperationError
from tests.command_line import Ran, regrade
from tests.comparing.sides import answer
from tests.stored import commit_shards, numbers, publish


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> LocalRepository:
    repository = LocalRepository(tmp_path_factory.mktemp("gating") / "answers")
    answer(repository, "org/good", right=400)
    answer(repository, "org/same", right=400)
    answer(repository, "org/maybe", right=397)
    answer(repository, "org/bad", right=340)
    return repository


def gate(repository: LocalRepository, *arguments: str | Path, **environment: str) -> Ran:
    base = ("--baseline", "org/good") if "--baseline" not in arguments else ()
    return regrade("gate", *arguments, *base, "--answers", repository.uri, **environment)


def test_without_a_verdict_no_report_of_an_earlier_one_is_left(
    repository: LocalRepository, tmp_path: Path
) -> None:
    page, html, xml = (tmp_path / f"verdict.{end}" for end in ("md", "html", "xml"))
    for path in (page, html, xml):
        path.write_text("pass")

    ran = gate(repository, "nobody", "--markdown", page, "--html", html, "--junit", xml)

    assert ran.code > 2, ran.err
    assert page.read_text().startswith("# regrade gate: no verdict")
    assert "there are no answers of 'nobody'" in page.read_text()
    assert ElementTree.fromstring(xml.read_text()).get("errors") == "1"
    assert not html.exists()


def test_an_evaluation_writes_its_verdict_even_if_it_fails_afterwards(
    repository: LocalRepository, tmp_path: Path
) -> None:
    judged = GateJob(candidate="bad", baseline="org/good", answers=repository.uri).verdict()
    xml, page = tmp_path / "verdict.xml", tmp_path / "verdict.md"
    files = VerdictFiles(junit=xml, markdown=page)

    with pytest.raises(OperationError), files.written("evaluate") as verdicts:
        assert ElementTree.fromstring(xml.read_text()).get("errors") == "1"  # if it is killed
        verdicts.append(judged)
        raise OperationError("MLflow is gone.")

    assert ElementTree.fromstring(xml.read_text()).get("failures") == "1"
    assert page.read_text().startswith("# ❌ regression")


def test_a_report_that_cannot_be_written_is_refused_before_anything_is_compared(
    repository: LocalRepository,
) -> None:
    ran = gate(repository, "nobody", "--markdown", "/dev/null/verdict.md")

    assert "'/dev/null/verdict.md' cannot be written" in ran.err
    assert "nobody" not in ran.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("same", "--no-such-option"), "--no-such-option"),
        (("same", "--max-drop", "-1"), "`--max-drop`"),
        (("same", "--benchmark", "gsm8k=1"), "is `--max-drop-of gsm8k=1`"),
        (("nobody",), "there are no answers of 'nobody'"),
        (("same", "--baseline", "baseline"), "regrade promote"),
        (("same", "--max-drop-of", "gsm8k=1"), "neither side has"),
    ],
)
def test_what_cannot_be_run_has_no_exit_code_of_a_verdict(
    repository: LocalRepository, arguments: tuple[str, ...], says: str
) -> None:
    ran = gate(repository, *arguments)

    assert ran.code == 3, ran.out
    assert says in ran.err


def test_a_crash_has_no_exit_code_of_a_verdict(repository: LocalRepository, tmp_path: Path) -> None:
    (tmp_path / "scipy").mkdir()
    (tmp_path / "scipy" / "__init__.py").write_text("raise RuntimeError('broken installation')")

    place = ("--baseline", "org/good", "--answers", repository.uri)
    xml = tmp_path / "verdict.xml"
    ran = regrade(
        *("gate", "bad", *place, "--json", "--junit", xml),
        process=True,
        PYTHONPATH=str(tmp_path),
        REGRADE_CACHE=str(tmp_path / "cache"),
    )

    assert ran.code == 3
    (line,) = [line for line in ran.err.splitlines() if line.startswith("regrade: ")]
    assert "RuntimeError: broken installation" in line
    assert "Traceback" not in ran.err
    assert ran.document["error"]["exit_code"] == 3
    assert ElementTree.fromstring(xml.read_text()).get("errors") == "1"
    assert "Traceback" in (tmp_path / "cache" / "errors.log").read_text()


def test_the_page_is_added_to_the_summary_of_a_job(
    repository: LocalRepository, tmp_path: Path
) -> None:
    page, summary = tmp_path / "deep" / "page.md", tmp_path / "summary.md"
    summary.write_text("before\n")

    ran = gate(repository, "bad", "--markdown", page, GITHUB_STEP_SUMMARY=str(summary))

    assert ran.code == 1
    assert summary.read_text() == f"before\n{page.read_text()}\n"


def test_a_set_without_answers_is_no_baseline_and_one_that_lacks_some_is_told(
    tmp_path: Path,
) -> None:
    repository = LocalRepository(tmp_path / "answers")
    some = publish(repository, numbers(0, 3), total=100)
    name, where = some.manifest.answer_set_id, ("--answers", repository.uri)

    assert "incomplete: 3 of 100 answers" in regrade("promote", name, *where).out
    commit_shards(some)
    refused = regrade("promote", name, *where)
    assert refused.code == 2
    assert f"Answer set '{name}' (sums) holds no answer" in refused.err
