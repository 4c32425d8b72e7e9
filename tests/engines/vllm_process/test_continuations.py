"""Tokens of continuations are those that lm-evaluation-harness ranks."""

import warnings
from typing import Any

import pytest
from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
from tokenizers.processors import TemplateProcessing

from regrade.engines.vllm_process.continuations import Encode, continuations, in_one_pass, windows
from regrade.engines.vllm_process.labels import Passes
from tests.engines.vllm_process.test_labels import byte_level

CONTEXTS = ["Question: what?\nAnswer:", "with spaces  ", "a line\n", "x", ""]
TEXTS = [" A", " twice", "A", " two words\n", "é½", " B"]


class Recording(TemplateLM):  # type: ignore[misc]
    """The part of the harness that makes tokens; it keeps them instead of asking a model."""

    eot_token_id = 0

    def __init__(self, tokenizer: Any, first: int) -> None:
        super().__init__()
        self.tokenizer, self.first = tokenizer, first
        self.pairs: list[tuple[list[int], list[int]]] = []

    @property
    def prefix_token_id(self) -> int:
        return self.first

    def tok_encode(self, string: str, add_special_tokens: bool = True, **_: Any) -> list[int]:
        if not string:
            return []
        return list(self.tokenizer(string, add_special_tokens=add_special_tokens)["input_ids"])

    def _loglikelihood_tokens(self, requests: Any, **_: Any) -> list[tuple[float, bool]]:
        self.pairs = [(context, continuation) for _, context, continuation in requests]
        return [(0.0, False)] * len(self.pairs)

    def loglikelihood_rolling(self, requests: Any, **_: Any) -> list[float]:
        raise NotImplementedError

    def generate_until(self, requests: Any, **_: Any) -> list[str]:
        raise NotImplementedError


@pytest.fixture(scope="module", params=[True, False], ids=["bos", "no bos"])
def tokenizer(request: pytest.FixtureRequest) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # importing torch warns
        from transformers import PreTrainedTokenizerFast

    inner = byte_level()
    inner.add_special_tokens(["<s>"])
    if request.param:
        begin = ("<s>", inner.token_to_id("<s>"))
        inner.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[begin])
    return PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>")


def continued(tokenizer: Any, contexts: list[str], texts: list[str]) -> Passes:
    def encode(special: bool) -> Encode:
        return lambda texts: list(tokenizer(list(texts), add_special_tokens=special)["input_ids"])

    return continuations(
        contexts,
        texts,
        encode=encode(True),
        encode_alone=encode(False),
        first_token=tokenizer.bos_token_id,
    )


def test_continuations_begin_where_the_harness_lets_them_begin(tokenizer: Any) -> None:
    pairs = [(context, text) for context in CONTEXTS for text in TEXTS]
    harness = Recording(tokenizer, tokenizer.bos_token_id)
    harness.loglikelihood(
        [Instance("loglikelihood", {}, pair, 0) for pair in pairs], disable_tqdm=True
    )

    found = continued(tokenizer, [context for context, _ in pairs], [text for _, text in pairs])

    expected = [context + continuation for context, continuation in harness.pairs]
    assert list(found.sequences) == expected
    assert list(found.starts) == [len(context) for context, _ in harness.pairs]


@pytest.mark.parametrize("length", [1, 6, 7, 8, 14, 15, 40])
def test_the_windows_of_a_text_are_those_of_the_harness(length: int) -> None:
    tokens = [*range(100, 100 + length)]
    pairs = map(
        make_disjoint_window,
        get_rolling_token_windows(tokens, prefix_token=1, max_seq_len=9 - 2, context_len=1),
    )

    found = windows(tokens, first_token=1, context=9)

    expected = [(context + scored, len(context)) for context, scored in pairs]
    assert list(zip(found.sequences, found.starts, strict=True)) == expected
    scored = [s[start:] for s, start in zip(found.sequences, found.starts, strict=True)]
    assert [token for part in scored for token in part] == tokens
    assert max(map(len, found.sequences)) <= 9 - 1


def test_letters_are_ranked_in_one_pass(tokenizer: Any) -> None:
    found = continued(tokenizer, ["Answer:"] * 2, [" A", " B"])
    tokens = [
        sequence[start:] for sequence, start in zip(found.sequences, found.starts, strict=True)
    ]

    single = in_one_pass(found)

    if all(len(token) == 1 for token in tokens):
        assert single == (found.sequences[0][:-1], [token[0] for token in tokens])
    else:
        assert single is None
