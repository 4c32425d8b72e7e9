"""Pages in real Chromium: no text on those of Prefect and MLflow runs, and no page elsewhere frames them or reads the viewer."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from regrade.answers.local import LocalRepository
from regrade.answers.sets import list_sets
from regrade.pages.report.gathering import gather
from regrade.pages.report.page import html_report
from regrade.pages.report.request import ReportRequest
from regrade.records.messages import Part, PartedMessage
from regrade.records.trajectory import call_of, trajectory_text
from regrade.tracking.traces import TracedAnswer, log_traces
from tests.browser.attacks import Attacker, hostile_page
from tests.browser.pages import PATIENCE, Pages, chromium
from tests.builders import row
from tests.command_line import ROOT
from tests.http_server import Handler, serving
from tests.pages.viewer.reading import served
from tests.server_process import free_port, server_process
from tests.stored import publish, score

pytestmark = [pytest.mark.prefect, pytest.mark.slow, pytest.mark.timeout(900)]
HOSTILE = (
    "</pre></title></textarea></style><script>window.taken = 1</script><img src=x onerror='window.taken=1'>"
    "<svg onload='window.taken=1'></svg><iframe srcdoc='<script>parent.taken=1</script>'></iframe>"
    "\"' onmouseover='window.taken=1' autofocus onfocus='window.taken=1' x=\"\n\n"
    "[link](javascript:window.taken=1) <a href='javascript:window.taken=1'>link</a> "
    "![i](SPY/image) <style>@import 'SPY/style'</style> {{constructor.constructor('window.taken=1')()}} "
    "<details open ontoggle='window.taken=1'>x</details> `x` $x$ \u202eevil\u200b \x1b[5m"
)
LOOK = """
for (const link of document.querySelectorAll("a")) if ((link.href || "").startsWith("javascript:")) link.click();
const handlers = document.querySelectorAll("[onerror],[onload],[onmouseover],[onfocus],[ontoggle],iframe[srcdoc]");
return [window.taken || 0, handlers.length];
"""
FRAMED = """
const [url, done] = arguments;
const frame = document.createElement("iframe");
frame.onload = () => setTimeout(() => {
    try { done(frame.contentDocument === null ? "other origin" : frame.contentDocument.body.innerText); }
    catch (error) { done("other origin"); }
}, 3000);
frame.src = url;
document.body.append(frame);
"""

LOADED = """
const [url, done] = arguments;
const script = document.createElement("script");
script.onload = () => done("loaded");
script.onerror = () => done("refused");
script.src = url;
document.body.append(script);
"""


@pytest.fixture
def spy() -> Iterator[tuple[str, list[str]]]:
    """Address of a server elsewhere, and what was asked of it."""
    asked: list[str] = []

    class Elsewhere(Handler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.reply(b"", headers={"Content-Type": "text/plain"})

    with serving(Elsewhere) as address:
        yield address, asked


def nothing_happens(browser: webdriver.Chrome, address: str, shown: str = "evil") -> None:
    browser.get(address)
    WebDriverWait(browser, PATIENCE).until(lambda page: shown in page.page_source, address)
    assert browser.execute_script(LOOK) == [0, 0], address
    assert browser.execute_script("return window.taken || 0") == 0, address


def no_other_page_frames(browser: webdriver.Chrome, address: str) -> None:
    with hostile_page() as page:
        browser.get(page)
        browser.execute_async_script(FRAMED, address)
        log = browser.get_log("browser")  # type: ignore[no-untyped-call]
        assert any("frame-ancestors" in entry["message"] for entry in log), log


def test_nothing_in_a_text_runs_on_the_pages_of_prefect(pages: Pages, spy: tuple[str, list[str]]):
    text = HOSTILE.replace("SPY", spy[0])
    artifact = {"key": "result", "type": "markdown", "data": text, "description": text}
    stored = pages.post("/artifacts/", artifact)
    flow = pages.post("/flows/", {"name": "hostile"})
    run = {"flow_id": flow["id"], "name": f"evil {text[:200]}", "parameters": {"model": text}}
    state = {"type": "FAILED", "name": "Failed", "message": text}
    started = pages.post("/flow_runs/", run | {"state": state, "tags": [text[:60]]})
    for path in (
        f"/artifacts/artifact/{stored['id']}",
        f"/runs/flow-run/{started['id']}",
        f"/runs/flow-run/{started['id']}?tab=Parameters",
    ):
        nothing_happens(pages.browser, pages.address + path)
    no_other_page_frames(pages.browser, pages.address)
    assert spy[1] == []


MORE = (
    "\x00]]>--><!-- <base href='SPY/base'><meta http-equiv=refresh content='0;url=SPY/refresh'>"
    "<link rel=stylesheet href=SPY/sheet><form action=SPY/form><button formaction='javascript:window.taken=1'>evil</button></form>"
    "<svg></p><style><a id='</style><img src=SPY/mutated onerror=window.taken=1>'><math><mtext></form><script>window.taken=1</script>"
    "<div style='position:fixed;inset:0;background:url(SPY/css)'>evil</div><object data='SPY/object'></object>\n\n"
    "<javascript:window.taken=1> <SPY/auto> SPY/bare [evil][1] ![evil][2]\n\n[1]: javascript:window.taken=1\n[2]: SPY/reference\n\n"
    "$\\href{javascript:window.taken=1}{evil}$ $\\style{background:url(SPY/tex)}{x}$ \\(\\text{<img src=SPY/text onerror=window.taken=1>}\\) "
    "$$\\class{x}{\\unicode{x202e}}<script>window.taken=1</script>$$\n\n```</code></pre><script>window.taken=1</script>\nevil\n```\n\n"
    "| a |\n|-|\n| <img src=SPY/cell onerror=window.taken=1> |\n\n\u202d\u2067evil\u2069 \x07 \x1b]8;;SPY/osc\x07evil\ufeff"
)
"""Further texts for pages that show Markdown, formulas and hidden characters."""
FIELDS = ("question", "text", "reasoning", "target", "error", "subset", "sample_id")


def hostile_answers(repository: LocalRepository, text: str) -> None:
    """Publish sets by models with hostile names, in which every field of an answer holds a text."""
    roles = json.dumps([{"role": text, "content": text}, {"role": "user", "content": text}])
    did = trajectory_text(
        [
            PartedMessage(text[:40], (Part("text", text), Part("reasoning", text))),
            PartedMessage("assistant", (call_of(text, text, json.dumps({text: text})),)),
            PartedMessage("tool", (Part("tool_result", text, text, text), Part("image", text))),
        ]
    )
    markers = f"<|im_start|>{text}\n{text}<|im_end|>\n<|im_start|>user\n{text}<|im_end|>\n"
    for model, end in ((f"<b>evil</b>{text[:80]}", "#### 1"), (f"evil'{text[80:160]}", "#### 9")):
        rows = [row(1, f"{text}\n{end}", question=text, prompt=roles, prompt_kind="messages")]
        rows += [row(2, f"<think>{text}</think>{text}\n{end}", prompt=markers, prompt_kind="text")]
        rows += [row(n, f"evil {end}") | {field: text} for n, field in enumerate(FIELDS, 3)]
        rows += [row(30, f"{text}\n{end}", trajectory=did), row(31, end, trajectory=text)]
        shown = {"question": text, "subset": text, "prompt": roles, "prompt_kind": "messages"}
        # Right in one of the two sets: the comparison links its page.
        rows += [row(20, end, target="#### 1", **shown)]
        score(publish(repository, rows, model=model, benchmark="sums"), "exact")


@pytest.mark.filterwarnings("ignore:constrained_layout")  # a name takes all the place of the plot
def test_nothing_in_a_text_runs_on_pages_of_the_viewer_or_in_a_report(
    tmp_path: Path, spy: tuple[str, list[str]]
):
    repository = LocalRepository(tmp_path / "answers")
    hostile_answers(repository, (HOSTILE + MORE).replace("SPY", spy[0]))
    stored = list_sets(repository, repository.head())
    ids = [answers.manifest.answer_set_id for answers in stored]
    report = tmp_path / "report.html"
    request = ReportRequest(
        answers=repository.uri, names=(ids[0],), base=ids[1], scorer="exact", allow=("overlap",)
    )
    report.write_text(html_report(gather(request)))
    with served(repository) as url, chromium(tmp_path / "profile") as browser:
        compared = f"{url}/compare/{ids[0]}/{ids[1]}?scorer=exact"
        pages = [f"{url}/", f"{url}/sets/{ids[0]}", compared, report.as_uri()]
        for page in pages:
            browser.get(page)
            words = browser.find_element(By.TAG_NAME, "body").text
            assert "evil" in words, (page, browser.title, words[:300])
            assert browser.execute_script(LOOK) == [0, 0], page
            links = browser.execute_script(
                "return [...document.querySelectorAll('a[href]')].map(link => link.href)"
            )
            assert all(link.startswith((url, "file:")) for link in links), links
            for path, given in (("/answer?", "format=markdown"), ("/question?", "view=difference")):
                if page in pages[1:3]:
                    found = dict.fromkeys(link.split("#")[0] for link in links if path in link)
                    pages += [each for link in found for each in (link, f"{link}&{given}")]
        log = browser.get_log("browser")  # type: ignore[no-untyped-call]
    assert len(pages) > 20, pages
    assert any("/question?" in page for page in pages), pages
    assert [entry for entry in log if "Content Security" in entry["message"]] == []
    assert spy[1] == []


def test_a_page_elsewhere_reads_nothing_after_a_login(tmp_path: Path):
    repository, token = LocalRepository(tmp_path / "answers"), "a-token-of-the-viewer"
    score(publish(repository, [row(1, "a secret #### 1")], model="org/secret", benchmark="sums"))
    with served(repository, token) as url:
        address = f"{url}/"
        for path in ("health", "static/viewer.js", f"?token={token}"):
            assert httpx.get(address + path).status_code == 401, path
        with chromium(tmp_path / "profile") as browser, hostile_page() as page:
            browser.get(address.replace("//", f"//any:{token}@", 1))
            assert "org/secret" in browser.page_source
            browser.get(page)
            attacker = Attacker(browser)
            for kind in ("get", "simple", "form", "json"):
                told = attacker.request(kind, address)
                assert told["type"] in ("error", "opaque"), told
                assert "secret" not in told.get("text", "")
            assert browser.execute_async_script(LOADED, f"{address}static/viewer.js") == "refused"


def test_nothing_in_a_text_runs_on_the_pages_of_mlflow(tmp_path: Path, spy: tuple[str, list[str]]):
    text, more = (each.replace("SPY", spy[0]) for each in (HOSTILE, MORE))
    from mlflow import MlflowClient

    port = free_port()
    where = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--workers", "1", "--app-name", "guarded"]
    command += ["--backend-store-uri", f"sqlite:///{tmp_path / 'mlflow.db'}"]
    command += ["--artifacts-destination", str(tmp_path / "artifacts")]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}:{ROOT}/infra/mlflow",
        "MLFLOW_SERVER_CORS_ALLOWED_ORIGINS": where,
        "MLFLOW_SERVER_ALLOWED_HOSTS": "127.0.0.1:*",
    }
    log = tmp_path / "server.log"
    with server_process(command, f"{where}/health", log, folder=tmp_path, environment=environment):
        client = MlflowClient(tracking_uri=where)
        experiment = client.create_experiment(f"evil {text[:200].replace('/', '|')}")
        client.set_experiment_tag(experiment, "mlflow.note.content", text)
        tags = {"mlflow.note.content": text, "evil": text}
        run = client.create_run(experiment, run_name=f"evil {text[:200]}", tags=tags).info.run_id
        client.log_param(run, "evil", text[:500])
        artifacts = ("evil.html", "evil.md", "evil.json", "evil.txt", "evil.svg")
        for name in artifacts:
            client.log_text(run, text, name)
        pages = [f"{where}/#/experiments/{experiment}"]
        pages += [
            f"{pages[0]}/runs/{run}{tab}" for tab in ("", *map("/artifacts/{}".format, artifacts))
        ]
        traced = [
            TracedAnswer("evil", n, given, given, given) for n, given in enumerate((text, more))
        ]
        shown = log_traces(
            where, "a" * 8, traced, seed=0, scorer="exact", judge=False, expected=text
        )
        traces = client.search_traces(locations=[shown.experiment])
        assert len(traces) == 2
        pages += [f"{where}/#/experiments/{shown.experiment}/traces"]
        pages += [f"{pages[-1]}?selectedEvaluationId={trace.info.trace_id}" for trace in traces]
        with chromium(tmp_path / "profile") as browser:
            for page in pages:
                nothing_happens(browser, page)
            no_other_page_frames(browser, where)
    assert spy[1] == []
