"""Chats as the model's own tokens, for each kind of tokenizer: equal to what the template or vLLM's code gives itself.

Tokenizers of transformers are trained here in the kinds that models use; Mistral's come with mistral-common.
"""

import json
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import save_file
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from regrade.engines.vllm_process.chat import Chat, TemplateChat, TemplateVariables, open_chat
from regrade.engines.vllm_process.labels import LabelTokens
from regrade.engines.vllm_process.logs import last_error
from regrade.models import chat_template
from regrade.settings.errors import SettingsError
from tests.engines.vllm_process.test_labels import TEXT, byte_level, metaspace
from tests.memory import taking_at_most

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # while vLLM imports torch
    pytest.mark.filterwarnings("ignore:.*SwigPy.*"),
]
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
INST = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
    "{% else %} {{ m.content }} {{ eos_token }}{% endif %}{% endfor %}"
)
LETTERS = ("A", "B", "C", "D")
QUESTION = ({"role": "user", "content": "what is it?"},)
NONE = TemplateVariables()


def with_prefix_space() -> Tokenizer:
    """Like RoBERTa or Falcon: a space is added before the text."""
    tokenizer = byte_level()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    return tokenizer


def o200k() -> Tokenizer:
    """Like GPT-4o and gpt-oss: words with their case, numbers of up to three digits, and a space before a word."""
    split = Regex(r" ?[\p{Lu}\p{Lt}]*[\p{Ll}]+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+|.")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(split, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    return tokenizer


KINDS: dict[str, tuple[Callable[[], Tokenizer], str]] = {
    "byte-level": (byte_level, CHATML),
    "byte-level with prefix space": (with_prefix_space, CHATML),
    "SentencePiece, Llama 2": (metaspace, INST),
    "SentencePiece, Gemma": (metaspace, CHATML.replace("<|im_start|>", "<start_of_turn>")),
    "o200k": (o200k, CHATML),
}


def tokenizer_of(make: Callable[[], Tokenizer], template: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # importing torch warns
        from transformers import PreTrainedTokenizerFast

    inner = make()
    inner.add_special_tokens(["<|im_start|>", "<|im_end|>", "<start_of_turn>", "<s>", "</s>"])
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, chat_template=template, bos_token="<s>", eos_token="</s>"
    )


@pytest.fixture(params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Any:
    return tokenizer_of(*KINDS[request.param])


def label_tokens(chat: Chat, messages: Any = QUESTION) -> Any:
    (rendered,) = chat.render([messages], NONE)
    return LabelTokens().of(
        rendered.text,
        rendered.ids,
        LETTERS,
        lambda labels: chat.answered(messages, rendered, labels, NONE),
    )


def test_the_tokens_are_the_templates_own(tokenizer: Any):
    chat = TemplateChat(tokenizer, tokenizer.chat_template)
    several = [QUESTION, ({"role": "system", "content": "Be brief."}, *QUESTION)]

    rendered = chat.render(several, NONE)

    for messages, found in zip(several, rendered, strict=True):
        own = tokenizer.apply_chat_template(
            [*messages], tokenize=True, add_generation_prompt=True, return_dict=False
        )
        assert found.ids == own
        assert found.text == tokenizer.apply_chat_template(
            [*messages], tokenize=False, add_generation_prompt=True
        )


def test_a_ranked_label_is_the_token_with_which_the_models_own_turn_begins(tokenizer: Any):
    chat = TemplateChat(tokenizer, tokenizer.chat_template)
    (rendered,) = chat.render([QUESTION], NONE)

    tokens = label_tokens(chat)

    assert isinstance(tokens, list)
    for letter, token in zip(LETTERS, tokens, strict=True):
        turns = [*QUESTION, {"role": "assistant", "content": letter}]
        whole = tokenizer.apply_chat_template(turns, tokenize=True, return_dict=False)
        assert whole[: len(rendered.ids)] == rendered.ids
        assert token == whole[len(rendered.ids)]


def test_a_tokenizer_with_a_method_of_its_own_gives_the_tokens_itself():
    class Other(type(tokenizer_of(byte_level, CHATML))):  # type: ignore[misc]
        def apply_chat_template(self, conversation: Any, *, tokenize: bool, **_: Any) -> Any:
            return [7, 8, 9] if tokenize else "seven"

    tokenizer = tokenizer_of(byte_level, CHATML)
    tokenizer.__class__ = Other

    (rendered,) = TemplateChat(tokenizer, CHATML).render([QUESTION], NONE)

    assert (rendered.text, rendered.ids) == ("seven", [7, 8, 9])


def test_what_a_template_makes_of_some_questions_costs_only_these():
    hostile = (
        "{% set q = messages[-1].content %}{% if q == 'grow' %}{{ 'x' * 2000000 }}{% endif %}"
        "{% if q == 'fail' %}{{ 1 / 0 }}{% endif %}{{ q }}"
    )
    tokenizer = tokenizer_of(byte_level, hostile)
    asked = [
        ({"role": "user", "content": text},) for text in ("grow", "fail", "fine", "y" * 400_000)
    ]

    rendered = TemplateChat(tokenizer, hostile).render(asked, NONE)

    errors = [chat.error for chat in rendered]
    assert errors[2:] == [None, None]
    assert [chat.ids for chat in rendered[:2]] == [[], []]
    assert "makes 2,000,004 characters of 4" in str(errors[0])
    assert "ZeroDivisionError" in str(errors[1])


@pytest.mark.parametrize(
    ("work", "limit", "seconds"),
    [
        ("{{ q * 2500000000 }}", "2048 MiB of memory", 30),
        ("{{ q.ljust(2500000000) }}", "2048 MiB of memory", 30),
        (
            "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
            "CPU time",
            3,
        ),
    ],
)
def test_a_template_that_takes_too_much_for_some_questions_is_refused_by_a_child_process(
    work: str, limit: str, seconds: int, monkeypatch: pytest.MonkeyPatch
):
    quick = replace(chat_template._LIMITS_OF_ENGINE, cpu_seconds=seconds)
    monkeypatch.setattr(chat_template, "_LIMITS_OF_ENGINE", quick)
    hostile = (
        f"{{% set q = messages[-1].content %}}{{% if q == '?' %}}{work}{{% endif %}}{{{{ q }}}}"
    )
    chat = TemplateChat(tokenizer_of(byte_level, hostile), hostile)

    (fine,) = chat.render([({"role": "user", "content": "fine"},)], NONE)
    refused = pytest.raises(SettingsError, match=f"takes more than .*{limit}.* for 1 question")
    with taking_at_most(200 << 20), refused:
        chat.render([({"role": "user", "content": "?"},)], NONE)

    assert fine.error is None


ENDLESS = """
import sys
from regrade.engines.vllm_process import chat
chat._SECONDS = 1.0

class Tokenizer:
    special_tokens_map = {}

    def apply_chat_template(self, conversation, *, chat_template, **options):
        from jinja2.sandbox import ImmutableSandboxedEnvironment
        return ImmutableSandboxedEnvironment().from_string(chat_template).render(messages=conversation)

chat.lengths_of = lambda template, chats: [0] * len(chats)  # the engine's own limit is the second
endless = chat.TemplateChat(Tokenizer(), sys.argv[1])
print(endless.render([[{"role": "user", "content": "once"}]], chat.TemplateVariables())[0].error, flush=True)
endless.render([[{"role": "user", "content": "?"}]], chat.TemplateVariables())
"""


@pytest.mark.parametrize(
    "work",
    [
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{{ (messages|length + 6) ** 99999999 }}",
    ],
)
def test_a_template_that_does_not_end_ends_the_engine_and_the_reason_is_said(
    work: str, tmp_path: Path
):
    template = f"{{% if messages[0].content == '?' %}}{work}{{% endif %}}"
    log = tmp_path / "engine.log"
    with log.open("wb") as output:
        done = subprocess.run(
            [sys.executable, "-c", ENDLESS, template],
            stdout=output,
            stderr=output,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert "chat template took longer than 0:00:01" in last_error(log)


def test_a_template_for_parts_gets_parts():
    parts = (
        "{% for m in messages %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endfor %}"
    )
    tokenizer = tokenizer_of(byte_level, parts)

    (rendered,) = TemplateChat(tokenizer, parts, content_parts=True).render([QUESTION], NONE)

    assert rendered.text == "what is it?"


def test_arguments_win_over_the_day():
    template = "{{ date_string or strftime_now('%Y') }}"
    chat = TemplateChat(tokenizer_of(byte_level, template), template)
    day = date(2026, 1, 31)

    (printed,) = chat.render([QUESTION], TemplateVariables({}, day))
    (given,) = chat.render([QUESTION], TemplateVariables({"date_string": "May"}, day))

    assert (printed.text, given.text) == ("2026", "May")


MISTRAL = {
    "tekken": ("tekken_240911.json", "tekken.json"),
    "SentencePiece": ("mistral_instruct_tokenizer_240323.model.v3", "tokenizer.model.v3"),
}
PARAMS = {
    "dim": 64,
    "n_layers": 1,
    "head_dim": 32,
    "hidden_dim": 64,
    "n_heads": 2,
    "n_kv_heads": 1,
    "norm_eps": 1e-5,
    "vocab_size": 131_072,
    "rope_theta": 1e6,
    "max_position_embeddings": 4096,
}


def mistral_folder(folder: Path, kind: str) -> Path:
    """A model in Mistral's own format; its weights are not read here."""
    import mistral_common

    stored, name = MISTRAL[kind]
    shutil.copy(Path(mistral_common.__file__).parent / "data" / stored, folder / name)
    (folder / "params.json").write_text(json.dumps(PARAMS))
    save_file({}, folder / "consolidated.safetensors")
    return folder


def opened(folder: Path, chat_template: str | None = None, **arguments: Any) -> tuple[Chat, Any]:
    """The chat of a model by real vLLM, and its tokenizer."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm.tokenizers import cached_tokenizer_from_config

    model = EngineArgs(model=str(folder), dtype="float32", **arguments).create_model_config()
    tokenizer = cached_tokenizer_from_config(model)
    chat = open_chat(model, tokenizer, chat_template=chat_template)
    assert chat is not None
    return chat, tokenizer


@pytest.mark.parametrize("kind", MISTRAL)
def test_mistrals_own_tokenizers_give_control_tokens(kind: str, tmp_path: Path):
    from mistral_common.protocol.instruct.messages import AssistantMessage, UserMessage
    from mistral_common.protocol.instruct.request import ChatCompletionRequest
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

    folder = mistral_folder(tmp_path, kind)
    reference = MistralTokenizer.from_file(str(folder / MISTRAL[kind][1]))
    user = UserMessage(content="what is it?")

    chat, _ = opened(folder)
    (rendered,) = chat.render([QUESTION], NONE)
    tokens = label_tokens(chat)

    own = reference.encode_chat_completion(ChatCompletionRequest(messages=[user]))
    assert rendered.ids == own.tokens
    assert rendered.text == "<s>[INST]what is it?[/INST]"
    assert isinstance(tokens, list)
    for letter, token in zip(LETTERS, tokens, strict=True):
        begun = AssistantMessage(content=letter, prefix=True)
        turn = reference.encode_chat_completion(ChatCompletionRequest(messages=[user, begun]))
        assert turn.tokens == [*rendered.ids, token]


def test_a_chat_that_mistrals_tokenizer_rejects_fails_its_row_alone(tmp_path: Path):
    chat, _ = opened(mistral_folder(tmp_path, "tekken"))
    reply = ({"role": "user", "content": "a"}, {"role": "narrator", "content": "b"})

    refused, fine = chat.render([reply, QUESTION], NONE)

    assert "rejects the messages" in str(refused.error)
    assert fine.error is None


def test_a_template_for_a_model_that_is_rendered_in_code_is_refused(tmp_path: Path):
    with pytest.raises(SettingsError, match="mode 'mistral'.*tokenizer_mode=hf"):
        opened(mistral_folder(tmp_path, "tekken"), chat_template="{{ messages }}")


def test_models_without_a_template_that_vllm_renders_in_code_are_chats(
    demo_model: Path, tmp_path: Path
):
    folder = shutil.copytree(demo_model, tmp_path / "model")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["eos_token"] = (
        "<\N{FULLWIDTH VERTICAL LINE}end\N{LOWER ONE EIGHTH BLOCK}of\N{LOWER ONE EIGHTH BLOCK}sentence\N{FULLWIDTH VERTICAL LINE}>"
    )
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    chat, tokenizer = opened(folder, tokenizer_mode="deepseek_v32")

    (short,) = chat.render([QUESTION], NONE)
    (long,) = chat.render([QUESTION], TemplateVariables({"thinking": True}))

    own = tokenizer.apply_chat_template([*QUESTION], tokenize=True)
    assert short.ids == own
    assert short.text.endswith("</think>")
    assert long.text.endswith("<think>")
    (first, *_) = chat.answered(QUESTION, short, ["A"], NONE)
    assert first[: len(short.ids)] == short.ids
    assert tokenizer.decode(first[len(short.ids) :]) == "A"


def test_the_template_of_the_demo_model_is_its_file(demo_model: Path):
    chat, _ = opened(demo_model)

    assert chat.template == (demo_model / "chat_template.jinja").read_text()
    assert opened(demo_model, chat_template=CHATML)[0].template == CHATML
