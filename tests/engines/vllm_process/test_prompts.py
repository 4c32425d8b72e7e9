"""Prompts with a real tokenizer of transformers, trained in the tests."""

import warnings
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from tokenizers.processors import TemplateProcessing

from regrade.engines.vllm_process.chat import TemplateChat
from regrade.engines.vllm_process.context import Need
from regrade.engines.vllm_process.labels import Passes
from regrade.engines.vllm_process.prompts import Prompts
from regrade.settings.errors import SettingsError
from tests.engines.vllm_process.test_labels import byte_level

SAMPLING = {"max_tokens": 8}
TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}{% if loud %}!{% endif %}"
)


@dataclass(frozen=True)
class Small:
    prompts: Prompts
    cutting: Prompts
    """Cuts prompts that do not fit."""
    tokenizer: Any


@pytest.fixture(scope="module")
def small() -> Small:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # importing torch warns
        from transformers import PreTrainedTokenizerFast

    inner = byte_level()
    inner.add_special_tokens(["<s>"])
    begin = ("<s>", inner.token_to_id("<s>"))
    inner.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[begin])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, chat_template=TEMPLATE)
    chats = TemplateChat(tokenizer, TEMPLATE)
    return Small(Prompts(tokenizer, chats), Prompts(tokenizer, chats, truncate=True), tokenizer)


def request(
    key: int, prompt: Any, labels: tuple[str, ...] = (), day: str | None = None, **arguments: Any
) -> dict:
    return {
        "key": key,
        "prompt": prompt,
        "sampling": SAMPLING,
        "labels": list(labels),
        "ranking": "labels",
        "contexts": [],
        "template_arguments": arguments,
        "day": day,
    }


def chat(*turns: tuple[str, str]) -> list[dict[str, str]]:
    return [{"role": role, "content": content} for role, content in turns]


def test_text_gets_the_special_tokens_and_a_chat_does_not(small: Small):
    text, messages = small.prompts.prepare(
        [request(0, "what is it?"), request(1, chat(("user", "what is it?")))]
    )

    assert text.ids == small.tokenizer("what is it?")["input_ids"]
    assert text.ids[0] == small.tokenizer.convert_tokens_to_ids("<s>")
    assert messages.text == "<user>what is it?</><assistant>"
    assert messages.ids == small.tokenizer(messages.text, add_special_tokens=False)["input_ids"]


def test_a_given_template_and_its_arguments_are_used(small: Small):
    prompts = Prompts(small.tokenizer, TemplateChat(small.tokenizer, f"other {TEMPLATE}"))

    loud, quiet = prompts.prepare(
        [request(0, chat(("user", "q")), loud=True), request(1, chat(("user", "q")))]
    )

    assert loud.text == "other <user>q</><assistant>!"
    assert quiet.text == "other <user>q</><assistant>"


def test_the_day_that_a_template_prints_is_the_one_of_the_request(small: Small):
    dated = "{{ strftime_now('%d %b %Y') }}: {{ messages[0].content }}"
    prompts = Prompts(small.tokenizer, TemplateChat(small.tokenizer, dated))

    first, later, today = prompts.prepare(
        [
            request(0, chat(("user", "q")), day="2026-01-31"),
            request(1, chat(("user", "q")), day="2026-02-01"),
            request(2, chat(("user", "q"))),
        ]
    )

    assert first.text == "31 Jan 2026: q"
    assert later.text == "01 Feb 2026: q"
    assert today.text == f"{datetime.now().astimezone():%d %b %Y}: q"


def test_a_label_after_an_open_thought_fails_its_row_for_good(small: Small):
    opening = TemplateChat(small.tokenizer, TEMPLATE + "<think>\n")
    prompts = Prompts(small.tokenizer, opening)

    ranked, generated = prompts.prepare(
        [request(0, chat(("user", "q")), ("A", "B")), request(1, chat(("user", "q")))]
    )

    assert "opens a thought" in str(ranked.error)
    assert ranked.error_permanent
    assert generated.error is None


def test_an_answer_with_reasoning_has_what_the_models_context_leaves(small: Small):
    def most(spare: int, **changes: Any) -> int:
        asked = {**request(0, chat(("user", "q"))), "reasons": True, **changes}
        (unlimited,) = small.prompts.prepare([asked])
        limit = len(unlimited.ids) + spare
        prompts = Prompts(small.tokenizer, TemplateChat(small.tokenizer, TEMPLATE), limit=limit)
        (prepared,) = prompts.prepare([asked])
        return int(prepared.sampling["max_tokens"])

    assert [most(spare) for spare in (9, 8, 7, 4)] == [8, 8, 7, 4]
    assert most(3) == 8  # less than half is refused with the numbers
    assert most(7, reasons=False) == 8
    assert most(7, prompt="q") == 8
    assert SAMPLING == {"max_tokens": 8}


def test_an_error_of_the_template_fails_only_its_row(small: Small):
    refusing = "{% if messages|length > 1 %}{{ raise_exception('no system message') }}{% endif %}ok"
    prompts = Prompts(small.tokenizer, TemplateChat(small.tokenizer, refusing))

    refused, fine = prompts.prepare(
        [request(0, chat(("system", "s"), ("user", "q"))), request(1, chat(("user", "q")))]
    )

    assert "no system message" in str(refused.error)
    assert fine.error is None


def test_the_need_counts_prompt_and_new_tokens(small: Small):
    generate, single, several = small.prompts.prepare(
        [
            request(0, "Answer:"),
            request(1, "Answer:", (" A", " B")),
            request(2, "Answer:", (" A", " A and B")),
        ]
    )

    assert generate.need == Need(len(generate.ids), 8)
    assert single.need == Need(len(single.ids), 1)
    assert isinstance(several.ranking, Passes)
    assert several.need.new == len(several.ranking.sequences[1]) - len(several.ids) + 1


def test_a_prompt_that_just_fits_is_not_changed(small: Small):
    (prepared,) = small.prompts.prepare([request(0, "what is it? " * 5)])
    exact = len(prepared.ids) + 8

    assert small.prompts.fit(prepared, exact) == prepared
    assert small.prompts.fit(prepared, exact - 1).error is not None


def test_a_prompt_longer_than_the_models_own_context_is_refused_for_good(small: Small):
    (prepared,) = small.prompts.prepare([request(0, "what is it? " * 5)])
    context = len(prepared.ids) + 7

    below_it = small.prompts.fit(prepared, context)
    at_the_limit = Prompts(small.tokenizer, None, limit=context).fit(prepared, context)

    assert (at_the_limit.error, at_the_limit.error_permanent) == (below_it.error, True)
    assert not below_it.error_permanent


def test_a_prompt_is_cut_from_the_left_so_that_the_answer_fits(small: Small):
    (prepared,) = small.prompts.prepare([request(0, "what is it? " * 50 + "Answer: A")])

    cut = small.cutting.fit(prepared, 30)

    assert cut.ids == prepared.ids[-22:]
    assert cut.truncated
    assert cut.error is None
    assert prepared.text.endswith(cut.text)
    assert small.tokenizer(cut.text, add_special_tokens=False)["input_ids"] == cut.ids


def test_label_sequences_are_cut_with_their_prompt(small: Small):
    (prepared,) = small.prompts.prepare(
        [request(0, "what is it? " * 50 + "Answer:", (" A", " A and B"))]
    )
    assert isinstance(prepared.ranking, Passes)

    cut = small.cutting.fit(prepared, 40)

    assert isinstance(cut.ranking, Passes)
    for before, after in zip(prepared.ranking.sequences, cut.ranking.sequences, strict=True):
        assert len(after) < 40
        assert after[cut.ranking.starts[0] :] == before[prepared.ranking.starts[0] :]
        assert after[: cut.ranking.starts[0]] == cut.ids


def test_a_prompt_is_not_cut_if_the_answer_alone_exceeds_the_context(small: Small):
    (prepared,) = small.prompts.prepare([request(0, "what is it?")])

    assert small.cutting.fit(prepared, 8).error is not None


def test_repeats_of_a_prompt_are_rendered_and_tokenised_once(
    small: Small, monkeypatch: pytest.MonkeyPatch
):
    rendered = []
    apply = small.tokenizer.apply_chat_template
    monkeypatch.setattr(
        small.tokenizer,
        "apply_chat_template",
        lambda messages, **options: rendered.append(messages) or apply(messages, **options),
    )
    first, second = chat(("user", "what is it?")), chat(("user", "who?"))
    prompts = [first, first, second, "plain", "plain", first]

    prepared = small.prompts.prepare([request(k, prompt) for k, prompt in enumerate(prompts)])

    assert rendered == [first, second, first]
    assert [p.key for p in prepared] == [*range(6)]  # in their order, chats and texts
    assert prepared[0].ids == prepared[1].ids == prepared[5].ids != prepared[2].ids
    assert prepared[3].ids == prepared[4].ids == small.tokenizer("plain")["input_ids"]


def test_a_label_that_changes_the_whole_prompt_fails_its_row_alone(small: Small):
    class Other(TemplateChat):
        def answered(self, messages, rendered, answers, variables):
            return [[7, *rendered.ids, number] for number, _ in enumerate(answers)]

    prompts = Prompts(small.tokenizer, Other(small.tokenizer, TEMPLATE))

    (ranked,) = prompts.prepare([request(0, chat(("user", "q")), ("A", "B"))])

    assert "splits the prompt differently" in str(ranked.error)
    assert ranked.error_permanent


def test_an_answer_that_the_chat_begins_is_continued(small: Small) -> None:
    begun = chat(("user", "hi"), ("assistant", "The answer is"))

    (prepared,) = small.prompts.prepare([request(0, begun)])

    assert prepared.text == "<user>hi</><assistant>The answer is"


def test_continuations_in_a_chat_follow_its_text(small: Small) -> None:
    asked = request(0, chat(("user", "hi")), (" two words", " x")) | {"ranking": "continuations"}

    (prepared,) = small.prompts.prepare([asked])

    assert prepared.greedy
    assert prepared.contexts is None
    separate = prepared.separate
    assert separate is not None
    before = len(small.tokenizer(prepared.text, add_special_tokens=False)["input_ids"])
    assert separate.starts == (before, before)
    assert [small.tokenizer.decode(s[before:]) for s in separate.sequences] == [" two words", " x"]


def test_each_continuation_has_its_own_context(small: Small) -> None:
    asked = request(0, "one", ("!", "!")) | {
        "ranking": "continuations",
        "contexts": ["one", "another context"],
    }

    (prepared,) = small.prompts.prepare([asked])

    assert prepared.contexts == ("one", "another context")
    assert prepared.separate is not None
    first, second = prepared.separate.starts
    assert first < second


class _Beginning:
    """A tokenizer that names the token at the beginning of a text."""

    bos_token_id, eos_token_id = 0, None

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def __call__(self, text: list[str], *, add_special_tokens: bool) -> Any:
        return self._tokenizer(text, add_special_tokens=add_special_tokens)

    def decode(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids))


def test_a_text_to_rank_fits_the_windows_of_the_context(small: Small) -> None:
    prompts = Prompts(_Beginning(small.tokenizer), None, window=16)
    text = "one two three four " * 20

    (prepared,) = prompts.prepare([request(0, "", (text,)) | {"ranking": "text"}])

    assert prepared.separate is not None
    assert set(prepared.separate.owners) == {0}
    assert max(map(len, prepared.separate.sequences)) <= 15
    assert prompts.fit(prepared, 16).error is None


def test_continuations_that_do_not_fit_are_cut_from_the_left_each_for_itself(small: Small) -> None:
    asked = request(0, "x", ("!", "!")) | {
        "ranking": "continuations",
        "contexts": ["a short one", "a long context " * 30],
    }
    (prepared,) = small.prompts.prepare([asked])

    refused = small.prompts.fit(prepared, 32)
    cut = small.cutting.fit(prepared, 32)

    assert refused.error
    assert cut.separate is not None
    assert prepared.separate is not None
    assert cut.separate.sequences[0] == prepared.separate.sequences[0]
    assert cut.separate.sequences[1] == prepared.separate.sequences[1][-31:]
    scored = [
        [len(s) - n for s, n in zip(p.sequences, p.starts, strict=True)]
        for p in (cut.separate, prepared.separate)
    ]
    assert scored[0] == scored[1]
    assert cut.truncated


def cut_in_the_middle(prompts: Prompts, prompt: Any) -> Any:
    (prepared,) = prompts.prepare([request(0, prompt) | {"cut_middle": True}])
    return prepared


def test_the_two_ends_of_a_prompt_are_kept_if_it_is_cut_in_the_middle(small: Small):
    prompt = chat(("user", "begin " + "what is it? " * 50 + "the end"))
    (whole,) = small.prompts.prepare([request(0, prompt)])
    prepared = cut_in_the_middle(small.prompts, prompt)

    cut = small.prompts.fit(prepared, 41)

    assert cut.ids == [*whole.ids[:16], *whole.ids[-17:]]
    assert cut.text.startswith("<user>begin")
    assert cut.text.endswith(" end</><assistant>")
    assert (cut.truncated, cut.error) == (True, None)


def test_the_context_is_chosen_for_what_is_left_of_a_prompt(small: Small):
    prompts = Prompts(small.tokenizer, TemplateChat(small.tokenizer, TEMPLATE), limit=64)
    prompt = chat(("user", "begin " + "what is it? " * 50 + "the end"))

    prepared = cut_in_the_middle(prompts, prompt)

    assert prepared.need.total == 64
    assert prepared.truncated
    direct = small.prompts.fit(cut_in_the_middle(small.prompts, prompt), 41)
    assert prompts.fit(prepared, 41).ids == direct.ids


def test_a_prompt_that_fits_is_not_cut_in_the_middle(small: Small):
    prepared = cut_in_the_middle(small.prompts, chat(("user", "what is it?")))

    assert small.prompts.fit(prepared, 512) == prepared
    assert not prepared.truncated


def test_the_turns_that_follow_are_counted_with_their_answers_at_their_longest(small: Small):
    turns = chat(("user", "what is it?"))

    alone, followed = small.prompts.prepare(
        [request(0, turns), request(1, turns) | {"later": ["and then?", "why"]}]
    )

    tokens = small.tokenizer(["and then?", "why"], add_special_tokens=False)["input_ids"]
    assert (alone.later, followed.later) == (0, sum(map(len, tokens)) + 2 * (8 + 32))
    assert followed.need == alone.need


@pytest.mark.parametrize(
    ("template", "reads_calls", "reason"),
    [
        (TEMPLATE, True, "the chat template of 'demo' writes none"),
        ("{{ tools }}", False, "engine.tool_parser` does not say"),
    ],
)
def test_tools_that_the_model_does_not_get_or_that_are_not_read_are_refused(
    small: Small, template: str, reads_calls: bool, reason: str
) -> None:
    chat = TemplateChat(small.tokenizer, template)
    with pytest.raises(SettingsError, match=reason):
        Prompts(small.tokenizer, chat, reads_calls=reads_calls).check_tools("demo")
