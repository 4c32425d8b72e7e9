"""The form of `evaluate-model` in a real browser; what follows it is in tests/infra/test_stack_pages.py.

`REGRADE_SCREENSHOTS` names a folder for the screenshots; those of docs/images/ were made by these tests.
"""

import pytest

from tests.browser.pages import Pages

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(900)]


@pytest.mark.usefixtures("deployments")
@pytest.mark.slow
def test_wrong_values_are_refused_in_the_form(pages: Pages):
    before = len(pages.runs())
    pages.open_form("evaluate-model")
    pages.fill("Model", "Qwen/Qwen3-8B")
    pages.choose("Benchmarks", "gsm8k_chat")
    pages.browser.execute_script("window.scrollTo(0, 0)")
    pages.shot("form", 1000)

    pages.open_form("evaluate-model")
    pages.press("Submit")
    pages.text("'model' is a required property")
    pages.shot("form-missing", 700)

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
