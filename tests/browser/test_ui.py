"""The form of `evaluate-model` and the pages of results in a real browser; a whole run is in tests/infra/test_stack_pages.py.

`REGRADE_SCREENSHOTS` names a folder for the screenshots; those of docs/images/ were made by these tests.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.comparing import verdict_text
from regrade.comparing.gate import gate
from regrade.results.page import blocks
from regrade.results.results import Evaluation, score_result
from regrade.scoring.score import score_answers
from regrade.settings import GateSettings, SamplingParams
from regrade.stats.speed import Speed, Spread
from regrade.text.markdown import markdown
from tests.browser.pages import Pages
from tests.builders import row
from tests.comparing.sides import answer
from tests.golden.golden import FILES
from tests.stored import publish, result_of, score

pytestmark = [pytest.mark.prefect, pytest.mark.slow, pytest.mark.timeout(900)]
_WIDTHS = "return [...document.querySelectorAll('table')].map((t) => [t.offsetWidth, t.parentElement.clientWidth])"


@pytest.mark.usefixtures("deployments")
def test_wrong_values_are_refused_in_the_form(pages: Pages):
    before = len(pages.runs())
    pages.open_form("evaluate-model")
    pages.fill("Model", "Qwen/Qwen3-8B")
    pages.choose("Benchmarks", "gsm8k_chat")
    pages.browser.execute_script("window.scrollTo(0, 0)")
    pages.shot("form", 1000)

    pages.open_form("evaluate-model")
    pages.fill("Model", "Qwen/Qwen3-8B")
    pages.choose("Benchmarks", "gsm8k_chat")
    pages.unfold("Sampling", "Set by hand")
    pages.fill("Temperature", 5)
    pages.press("Submit")
    pages.text("'sampling.temperature'. Failure reason: 5 is greater than the maximum of 2")

    pages.fill("Temperature", 1)
    pages.unfold("Engine", "vLLM here")
    pages.fill("Tensor Parallel Size", 0)
    pages.press("Submit")
    pages.text("'engine.tensor_parallel_size'. Failure reason: 0 is less than the minimum of 1")
    pages.shot("form-refused", 1000)

    assert len(pages.runs()) == before


def result_of_repeats(folder: Path) -> str:
    """The page of a run with four answers to each question of two benchmarks, with names as long as those of the demo."""
    latency = Spread(mean=3.408, p25=2.677, p50=3.3, p75=3.869, p99=10.058, n=33_706)
    sets = []
    for benchmark in ("demo-arithmetic", "mmlu_generative"):
        answers = publish(
            LocalRepository(folder / benchmark),
            [row(n, "" if r < n % 5 else "#### 99", repeat=r) for n in range(8) for r in range(4)],
            repeats=4,
            benchmark=benchmark,
            sampling=SamplingParams(temperature=0.6),
        )
        scored = score_result(score_answers(answers, "number"), None)
        result = result_of(
            answers,
            scored.model_copy(update={"scorer": "choice_logprob"}),
            generated=32,
            seconds=dict.fromkeys(("load", "generate", "publish", "score", "track"), 1234.5),
            speed=Speed(**dict.fromkeys(("ttft", "tpot", "itl", "e2el", "queue"), latency)),
        )
        sets.append(result)
    return markdown(blocks(Evaluation(answer_sets=tuple(sets), repository="/answers")))


def verdict(folder: Path) -> str:
    """The page of a verdict on two benchmarks, whose intervals have two levels."""
    repository = LocalRepository(folder / "compared")
    for model, right in (("org/base", 390), ("org/new", 320)):
        for benchmark in ("demo-arithmetic", "mmlu_generative"):
            score(answer(repository, model, right=right, benchmark=benchmark))
    report = gate("org/new", GateSettings(baseline="org/base"), answers=repository.uri)
    return markdown(verdict_text.blocks(report))


def sweep(_folder: Path) -> str:
    """The page of a sweep of two settings."""
    return (FILES / "sweep.prefect.md").read_text().partition("\n")[2]


@pytest.mark.parametrize(
    ("made", "first"),
    [
        (result_of_repeats, ("org/tiny", "demo-arithmetic", "avg@4")),
        (verdict, ("regression: org/new", "demo-arithmetic")),
        (sweep, ("org/model", "3.00 times as fast", "3.00")),
    ],
)
def test_tables_of_a_result_fit_a_window_of_1280_pixels_and_its_headline_one_of_390(
    pages: Pages, tmp_path: Path, made: Callable[[Path], str], first: tuple[str, ...]
):
    artifact = {"key": "result", "type": "markdown", "data": made(tmp_path)}
    path = f"/artifacts/artifact/{pages.post('/artifacts/', artifact)['id']}"
    pages.browser.set_window_size(1280, 1000)
    pages.open(path)
    pages.text(first[-1])
    widths = pages.browser.execute_script(_WIDTHS)
    assert len(widths) >= 3
    assert [pair for pair in widths if pair[0] > pair[1]] == []

    pages.widen(390)
    pages.open(path)
    for text in first:
        pages.sees(text, 390)
