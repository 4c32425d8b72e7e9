"""Search for the Hub token in all files, output and logs of a run with failures."""

from pathlib import Path

import pytest

from regrade.answers.origin import begin_session
from regrade.answers.spool import Spool, spool_folder
from tests.builders import description, row, session
from tests.command_line import Ran, regrade
from tests.hub_server.faults import Answer, Drop
from tests.hub_server.fixtures import Hub

pytestmark = [pytest.mark.prefect, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def environment(
    hub: Hub, tmp_path: Path, prefect_api: str, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    uri = f"hf://datasets/{hub.repo_id}"
    found = {
        "HF_TOKEN": hub.token,
        "HF_ENDPOINT": hub.endpoint,
        "HF_HOME": str(tmp_path / "home"),
        "REGRADE_SPOOL": str(tmp_path / "spool"),
        "REGRADE_LOGS": str(tmp_path / "logs"),
        "REGRADE_ANSWERS": uri,
        "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path / 'mlflow.db'}",
        "PREFECT_HOME": str(tmp_path / "prefect"),
    }
    monkeypatch.setenv("REGRADE_SPOOL", found["REGRADE_SPOOL"])
    described = description(5)
    folder = spool_folder(uri, described.specification.answer_set_id)
    with Spool(folder) as spool:
        begin_session(spool, uri, described, session())
        spool.append([row(number) for number in range(5)])
    return found


def test_no_file_and_no_line_that_a_run_writes_holds_the_token(
    hub: Hub, environment: dict[str, str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    said: list[Ran] = []

    def run(*arguments: str, code: int) -> None:
        said.append(regrade(*arguments, process=True, **environment))
        assert said[-1].code == code, said[-1].err

    text = f"no, not with {hub.token}"  # a server that repeats what it was sent
    hub.fail("POST", r"/preupload/main|/commit/main", Answer(401, text=text))
    run("publish", code=2)
    hub.fail("POST", r"/preupload/main|/commit/main", Answer(403, text=text))
    run("publish", code=2)
    hub.fail("POST", "/commit/main", Answer(500, text=text, afterwards=True))
    hub.fail("POST", "/preupload/main", Drop())
    run("publish", code=0)
    hub.fail("POST", "/commit/main", Answer(403, text=text))
    run("score", "--json", code=2)
    hub.fail("GET", r"/resolve/", Answer(503, text=text))
    run("score", "--json", code=0)
    (result,) = said[-1].document["answer_sets"]
    assert result["rows"] == 5
    assert result["mlflow_run_id"]
    run("verify", code=0)

    token = hub.token.encode()
    assert not [output for output in said if hub.token in output.out + output.err]
    folders = [tmp_path, *tmp_path_factory.getbasetemp().glob("prefect-server*")]
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert not [path for path in paths if token in path.read_bytes()]
    assert {".db", ".log", ".json"} <= {path.suffix for path in paths}
    published = hub.repo().at("main").tree
    assert len(published) >= 4  # shard, manifest, card, scores
    assert not [path for path, entry in published.items() if token in entry.content]
