"""The form of a verdict, as the engine's grammar sees it."""

import base64
import json
import time
from pathlib import Path

import mistral_common
import pytest

from regrade.records.rubrics import open_rubric
from regrade.records.rubrics.forms import structure_of

pytestmark = pytest.mark.vllm
VOCABULARY = 130_000
SECONDS = 0.1


def vocabulary() -> list[bytes]:
    """The tokens of a real tokenizer of the usual size."""
    (file, *_) = sorted((Path(mistral_common.__file__).parent / "data").glob("tekken*.json"))
    tokens = json.loads(file.read_text())["vocab"][:VOCABULARY]
    return [base64.b64decode(token["token_bytes"]) for token in tokens]


def test_a_verdict_costs_the_engine_little_for_each_token():
    import xgrammar

    tokens = vocabulary()
    info = xgrammar.TokenizerInfo(tokens, xgrammar.VocabType.RAW, stop_token_ids=[2])
    pattern = structure_of(open_rubric("criteria"), 20).regex
    matcher = xgrammar.GrammarMatcher(xgrammar.GrammarCompiler(info).compile_regex(pattern))
    mask = xgrammar.allocate_token_bitmask(1, len(tokens))
    one = r'{"explanation": "It says \"72\" and so does the target.", "met": true}'
    slowest = 0.0
    for character in f'{{"criteria": [{", ".join([one] * 20)}]}}':
        assert matcher.accept_string(character)
        started = time.process_time()
        matcher.fill_next_token_bitmask(mask)
        slowest = max(slowest, time.process_time() - started)
    assert slowest < SECONDS
