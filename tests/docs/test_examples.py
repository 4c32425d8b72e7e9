"""Every command on a page or in a help runs as it is shown: to its end, or until an engine or a server would start."""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn
from unittest import mock

import pytest
from prefect import Flow
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.utilities.schema_tools.validation import ValidationError, validate

from flows import scoring
from regrade.answers.local import LocalRepository
from regrade.cli import flow_run
from regrade.cli.command_list import COMMANDS
from regrade.cli.trigger import run as triggering
from regrade.exchange import harness
from regrade.orchestration import project_worker
from regrade.orchestration.deployment import deploy
from regrade.orchestration.deployment.desired import DesiredDeployment, read_desired
from regrade.pages.viewer import serving
from regrade.settings.errors import SettingsError
from regrade.tuning.plan import planner
from tasks.track import Tracked
from tests.command_line import ROOT, run_here
from tests.docs import world
from tests.docs.test_pages import PAGES, commands
from tests.docs.world import Ids
from tests.hub_server.here import use_hub
from tests.hub_server.server import HubServer

ON_PAGES = {str(page.relative_to(ROOT)): [*commands(page)] for page in PAGES}
IN_HELP = {
    f"{name} --help": [
        words for words in map(shlex.split, command.examples) if words not in of_pages
    ]
    for of_pages in [[words for found in ON_PAGES.values() for words in found]]
    for name, command in COMMANDS.items()
}
"""The words of the examples of each page, and of those in the help of each command that no page has."""
SHOWN = {page: found for page, found in (ON_PAGES | IN_HELP).items() if found}
OWN = ("docs/add-a-benchmark.md", "docs/add-a-scorer.md")
"""Pages that tests/docs/test_own.py follows, with real engines."""
STARTING = (
    *("evaluate", "generate", "sweep", "tune", "noise", "replay", "judge", "harness", "plan"),
    *("trigger", "deploy", "worker", "view"),
)
"""Commands that start an engine or a server, or need one; the others run to their end."""
WRITTEN = re.compile(r"[\w-]+\.(?:html|md|svg|png|csv|xml)|exported/?")
"""Names of files and folders that examples write."""
FILE = re.compile(r"^```yaml\n(# (\S+\.yaml):.*?)^```", re.DOTALL | re.MULTILINE)
"""A file that a page shows: its content, and the name with which it begins."""

# What examples presuppose beside the answers of all (tests/docs/world.py).

ON_THE_HUB = ("docs/ci.md", "export --help", "publish-results --help")
"""Pages where REGRADE_ANSWERS names answers on the Hub, as docs/ci.md exports it."""
ALIKE: Mapping[str, Ids] = {
    "label --help": {"1f0c6a2b": "JUDGE_SET"},
    "panel --help": {"1f0c6a2b": "PANEL"},
    "diff --help": {"1f0c6a2b": "ANSWER_SET"},
}
"""Pages whose ids stand for the answers that have another name elsewhere."""
PRESUPPOSED: Mapping[str, Callable[[Path], Ids]] = {
    "docs/code.md": world.make_programs,
    "docs/sweep.md": world.make_sweep,
    "replay 1f0c6a2b --own-model run/checkpoint-500 --model run/checkpoint-500-awq --json": world.make_of_a_checkpoint,
}
"""Pages and single examples about answers that others do not have."""


# Where an engine or a server would start: until there, everything is real.


class Boundary(SystemExit):
    """An example has come to where an engine or a server would start; for the command its process ends."""

    reached = 0

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__(0)
        Boundary.reached += 1


def _begun(flow: Flow[..., Any], parameters: dict[str, Any]) -> NoReturn:
    """End where the flow would start: what it is given has been checked, and planned."""
    flow.validate_parameters(parameters)
    raise Boundary


def _raise_boundary(*_: object, **__: object) -> NoReturn:
    raise Boundary


@cache
def _deployments() -> list[DesiredDeployment]:
    return read_desired(ROOT / "prefect.yaml")


class Server:
    """A Prefect server with the deployments of prefect.yaml, which refuses parameters as a real one does."""

    def deployment(self, name: str) -> SimpleNamespace:
        (found,) = (d for d in _deployments() if name in (d.name, d.path))
        schema = found.code["parameter_openapi_schema"]
        return SimpleNamespace(parameter_openapi_schema=schema, desired=found)

    def start(self, deployed: SimpleNamespace, parameters: dict[str, Any], _: str) -> NoReturn:
        desired: DesiredDeployment = deployed.desired
        given = desired.parameters | parameters
        try:
            validate(given, deployed.parameter_openapi_schema, raise_on_error=True)
        except ValidationError as error:
            raise SettingsError(f"Prefect refused the parameters: {error}") from error
        desired.flow.validate_parameters(given)
        raise Boundary


@contextlib.contextmanager
def _free_port(*_: object) -> Iterator[socket.socket]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        yield listener


def _work(pool: str, **_: object) -> NoReturn:
    if pool not in {deployment.pool for deployment in _deployments()}:
        raise SettingsError(f"There is no pool '{pool}'.")
    raise Boundary


def stop_at_boundaries(patch: pytest.MonkeyPatch) -> None:
    """Let no engine, no server and no program of others start, nor MLflow, which scorings are sent to."""
    nothing = contextlib.nullcontext
    temporary = SimpleNamespace(ended_by_error=nothing, start=lambda: None)
    patch.setattr(flow_run, "TemporaryServer", lambda _: temporary)
    patch.setattr(flow_run, "engine_begun", lambda *_: nothing(enter_result=False))
    patch.setattr(flow_run, "prefect_server", lambda *_, **__: nothing())
    patch.setattr(flow_run, "prepare", lambda *_: None)
    patch.setattr(flow_run, "flow_result", _begun)
    patch.setattr(scoring, "track_scorings", lambda *_: Tracked())
    patch.setattr(harness, "serving", _raise_boundary)
    patch.setattr(planner, "VllmPlanner", _raise_boundary)
    patch.setattr(triggering, "connected", lambda _: nothing(Server()))
    patch.setattr(deploy, "read_desired", lambda _: _deployments())
    patch.setattr(deploy, "get_client", _raise_boundary)
    patch.setattr(project_worker, "run_worker", _work)
    patch.setattr(serving, "bound_socket", _free_port)
    patch.setattr(serving, "serve", _raise_boundary)


# The examples.


@dataclass(frozen=True)
class World:
    """A folder with answers, which a Hub has, too, and what stands for the names in examples."""

    folder: Path
    names: Ids


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Made once, and copied for each page."""
    folder = tmp_path_factory.mktemp("world")
    server = HubServer()
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        use_hub(patch, server.endpoint)
        world.read_quickly(patch)
        world.serve_models(patch)
        stop_at_boundaries(patch)
        patch.setenv("HF_TOKEN", world.fill_hub(server))
        repository = LocalRepository(folder / "answers")
        names = world.make_answers(repository)
        world.put_answers(server, repository)
        yield World(folder, names)
    server.stop()


@pytest.fixture
def folder(made: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which a person runs the commands of a page."""
    shutil.copytree(made.folder, tmp_path, dirs_exist_ok=True)
    world.write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "REGRADE_SPOOL", "REGRADE_LOGS"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setenv("SHELL", "/bin/bash")
    return tmp_path


def as_here(words: list[str], names: Ids) -> list[str]:
    """Return the words of an example with the names that exist here; of an id as many digits as are shown."""
    pattern = "|".join(rf"(?<![\w-]){re.escape(name)}(?![\w-])" for name in names)

    def replaced(found: re.Match[str]) -> str:
        name = found[0]
        return names[name][: len(name)] if re.fullmatch("[0-9a-f]+", name) else names[name]

    return [re.sub(pattern, replaced, word) for word in words]


def run_example(words: list[str], names: Ids) -> None:
    """Run an example: it has to end well, after writing what it names, or where an engine or a server would start."""
    if "--read" in words:  # before, a person labels the answers of the sheet
        world.fill_sheet(Path("labels.csv"))
    out, err = io.StringIO(), io.StringIO()
    before = Boundary.reached
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ))  # `--metrics-port` sets a variable
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        if words[0] in ("deploy", "trigger", "worker"):
            server = temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"})
            stack.enter_context(server)
        code = run_here(as_here(words, names))
    shown = f"regrade {shlex.join(words)}: exit code {code}\n{err.getvalue()}"
    assert code in ((0, 1, 2) if words[0] == "gate" else (0,)), shown  # verdicts of a gate
    starts = Boundary.reached - before
    assert starts == (words[0] in STARTING), shown
    if "--json" in words and not starts:
        assert json.loads(out.getvalue())
    for name in filter(WRITTEN.fullmatch, words):
        path = Path(name)
        assert [*path.iterdir()] if path.is_dir() else path.stat().st_size, shown


@pytest.mark.parametrize("page", [page for page in SHOWN if page not in OWN])
def test_the_examples_of_a_page_run(
    page: str, made: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page in ON_THE_HUB:
        monkeypatch.setenv("REGRADE_ANSWERS", "hf://datasets/my-team/answers")
    if page == "examples/template/README.md":
        world.install_template(monkeypatch)
    for content, name in FILE.findall((ROOT / page).read_text() if page.endswith(".md") else ""):
        (folder / name).write_text(content)
    names = made.names | {shown: made.names[name] for shown, name in ALIKE.get(page, {}).items()}
    if page in PRESUPPOSED:
        names |= PRESUPPOSED[page](folder)
    for words in SHOWN[page]:
        example = shlex.join(words)
        more = PRESUPPOSED[example](folder) if example in PRESUPPOSED else {}
        run_example(words, names | more)


def test_every_example_is_run_here_or_by_the_tests_of_its_page() -> None:
    run = [words for page, found in SHOWN.items() if page not in OWN for words in found]
    own = [words for page in OWN for words in ON_PAGES[page]]
    shown = [words for page in PAGES for words in commands(page)]
    in_help = [shlex.split(text) for command in COMMANDS.values() for text in command.examples]
    assert len(run) + len(own) == len(shown) + sum(words not in shown for words in in_help)
    known = {*SHOWN, *map(shlex.join, run)}
    assert {*OWN, *ON_THE_HUB, *ALIKE, *PRESUPPOSED} <= known


@pytest.mark.parametrize(
    ("example", "problem"),
    [
        ("gate my-team/new-model --max-drop-of gsm8k=x", "should be `benchmark=points`"),
        ("gate my-team/new-model --max-drop 0.1", "not even an unchanged model would pass"),
        ("evaluate --model org/model --benchmark gsm9k", "Did you mean 'gsm8k'?"),
        ("evaluate --model 'run/step-*' --benchmark gsm8k", "no folder has such a name"),
        ("evaluate --model org/model@step3 --benchmark gsm8k", "it has no revision 'step3'"),
        ("evaluate --model org/model --benchmark gsm8k --baseline x", "no answers of 'x'"),
        ("evaluate --model org/name --benchmark gsm8k --engine openai", "Served: org/model"),
        ("show 0123abcd", "there are no answers of '0123abcd'"),
        (
            "trigger generate-answers --model m --benchmark gsm8k --param limit=x",
            "failed for field 'limit'",
        ),
        ("worker --pool tpu", "There is no pool 'tpu'"),
        ("list > labels.csv", "belongs to no option"),
    ],
)
def test_an_example_that_cannot_run_is_noticed(
    example: str, problem: str, made: World, folder: Path
) -> None:
    with pytest.raises(AssertionError, match=re.escape(problem)):
        run_example(shlex.split(example), made.names)
