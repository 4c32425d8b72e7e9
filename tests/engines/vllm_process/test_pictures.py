"""Images in prompts of vLLM: tiny models that see; transformers' processor and forward pass give what is expected."""

import base64
import copy
import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import PIL.Image
import pytest

from regrade.engines.base import EngineInfo, PromptRendering
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process.chat import open_chat
from regrade.engines.vllm_process.cpu import check_sight
from regrade.engines.vllm_process.engine import open_message as whole_open_message
from regrade.engines.vllm_process.pictures import Pictures, open_pictures
from regrade.engines.vllm_process.plan_worker import Planner
from regrade.engines.vllm_process.prompts import Prompts
from regrade.records import Completion, Request
from regrade.records.images import Image, read_image
from regrade.settings import SamplingParams
from regrade.settings.errors import SettingsError
from tests.architectures import PLACEHOLDERS, SeeingReference, seeing_model
from tests.engines.vllm_process import asking
from tests.engines.vllm_process.test_arguments import open_message

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # while vLLM imports torch
    pytest.mark.filterwarnings("ignore:.*SwigPy.*"),
]
EXTRA = ("kv_cache_memory_bytes=268435456",)
LOOKS_BACK = 'hf_overrides={"is_mm_prefix_lm": false}'
"""The parts of an image in Gemma see only those before them, also in `SeeingReference`: vLLM's attention on a CPU knows nothing else."""
TOKENS = 8
GREEDY = SamplingParams(temperature=0, max_tokens=TOKENS)
ONE = SamplingParams(temperature=0, max_tokens=1)
TOLERANCE = 1e-2
"""Largest difference of log-probabilities."""


def drawn(size: tuple[int, int], mode: str = "RGB") -> PIL.Image.Image:
    """A picture whose pixels all differ from their neighbours."""
    width, height = size
    plain = PIL.Image.new("RGB", size)
    plain.putdata(
        [(x * 7 % 256, y * 11 % 256, x * y % 256) for y in range(height) for x in range(width)]
    )
    return plain.convert(mode)


def as_file(picture: PIL.Image.Image) -> Image:
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return read_image(buffer.getvalue())


RED_PICTURE, WIDE_PICTURE = PIL.Image.new("RGB", (128, 128), "red"), drawn((160, 96))
RED, WIDE = as_file(RED_PICTURE), as_file(WIDE_PICTURE)
CHATS: Mapping[int, tuple[str, tuple[Image, ...], list[PIL.Image.Image]]] = {
    0: (f"{RED.mark}What is this?", (RED,), [RED_PICTURE]),
    1: (f"{WIDE.mark}What is this?", (WIDE,), [WIDE_PICTURE]),
    2: ("What is this?", (), []),
    3: (
        f"First {RED.mark} then {WIDE.mark} and {RED.mark} again.",
        (RED, WIDE),
        [RED_PICTURE, WIDE_PICTURE, RED_PICTURE],
    ),
}
"""Text, images and what they show, by key."""


def asked(key: int, **fields: Any) -> Request:
    text, images, _ = CHATS[key % 10]
    chat = ({"role": "user", "content": text},)
    return Request(key, chat, fields.pop("sampling", GREEDY), images=images, **fields)


LABELS = ("A", "the second one")
REQUESTS = [*map(asked, CHATS), asked(11, sampling=ONE, labels=LABELS)]


@dataclass(frozen=True)
class Seen:
    """Answers of a model, and those that transformers computes."""

    reference: SeeingReference
    placeholder: str
    info: EngineInfo
    answers: Mapping[int, Completion]
    again: Mapping[int, Completion]
    log: str

    def prompt(self, key: int) -> str:
        """The prompt as transformers gets it."""
        prompt = self.answers[key].prompt
        for image in (RED, WIDE):
            prompt = prompt.replace(image.mark, self.placeholder)
        return prompt


@pytest.fixture(scope="module")
def eyes(demo_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return seeing_model("qwen3_vl", demo_model, tmp_path_factory.mktemp("qwen") / "model")


@pytest.fixture(scope="module", params=["qwen3_vl", pytest.param("gemma3", marks=pytest.mark.slow)])
def seen(
    request: pytest.FixtureRequest,
    eyes: Path,
    demo_model: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Seen:
    work = tmp_path_factory.mktemp(request.param)
    kind = request.param
    folder = eyes if kind == "qwen3_vl" else seeing_model(kind, demo_model, work / "model")
    extra = EXTRA if kind == "qwen3_vl" else (*EXTRA, LOOKS_BACK)
    settings = VllmEngine(enforce_eager=True, extra=extra)
    with asking.opened(folder, work / "vllm.log", settings, REQUESTS) as engine:
        rounds = [
            {answer.key: answer for answer in asking.ask(engine, requests)}
            # The second was not planned, and finds images and prompts in vLLM's caches.
            for requests in (REQUESTS, [asked(1), asked(0), asked(10)])
        ]
        info = engine.info
    log = (work / "vllm.log").read_text(errors="replace")
    return Seen(SeeingReference(folder), PLACEHOLDERS[kind], info, *rounds, log)


@pytest.mark.parametrize("key", CHATS)
def test_answers_are_those_of_transformers(seen: Seen, key: int) -> None:
    answer, pictures = seen.answers[key], CHATS[key][2]
    prompt = seen.prompt(key)
    inputs = seen.reference.inputs(prompt, pictures) if pictures else text_inputs(seen, prompt)

    assert answer.error is None
    assert list(answer.token_ids or ()) == seen.reference.greedy(inputs, TOKENS)
    assert answer.prompt_tokens == inputs["input_ids"].shape[1]


def text_inputs(seen: Seen, prompt: str) -> Mapping[str, Any]:
    tokenizer = seen.reference.processor.tokenizer
    found: Mapping[str, Any] = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)
    return found


def test_labels_after_an_image_have_the_log_probabilities_of_transformers(seen: Seen) -> None:
    answer = seen.answers[11]
    prompt, (_, _, pictures) = seen.prompt(11), CHATS[1]

    expected = [seen.reference.logprob(prompt, label, pictures) for label in LABELS]

    assert answer.label_logprobs == pytest.approx(expected, abs=TOLERANCE)
    assert answer.label_method == "per_choice"


def test_a_prompt_is_stored_with_marks_where_the_images_stood(seen: Seen) -> None:
    assert [seen.answers[0].prompt.count(image.mark) for image in (RED, WIDE)] == [1, 0]
    assert [seen.answers[3].prompt.count(image.mark) for image in (RED, WIDE)] == [2, 1]
    assert seen.placeholder not in seen.answers[3].prompt


def test_images_that_vllm_has_already_give_the_same_answers(seen: Seen) -> None:
    assert [seen.again[key].token_ids for key in (0, 1, 10)] == [
        seen.answers[key].token_ids for key in (0, 1, 0)
    ]
    assert seen.again[0].prompt_tokens == seen.answers[0].prompt_tokens


def test_the_context_has_room_for_the_tokens_of_images(seen: Seen) -> None:
    longest = seen.answers[3].prompt_tokens
    assert longest is not None
    assert seen.info.max_model_len == 256 >= longest + TOKENS


# What decides before an engine computes: in this process, without weights.


@dataclass(frozen=True)
class Opened:
    model: Any
    """vLLM's configuration."""
    pictures: Pictures
    prompts: Prompts
    tokenizer: Any


Opener = Callable[..., Opened]


@pytest.fixture
def opened() -> Iterator[Opener]:
    """Opens a model's processor: its folder, a chat template, and `engine.extra`."""
    from regrade.engines.vllm_process.arguments import engine_arguments, model_config
    from regrade.engines.vllm_process.internals import cached_tokenizer_from_config

    with ExitStack() as stack:

        def open_model(folder: Path, template: str | None = None, *extra: str) -> Opened:
            message = open_message(folder, VllmEngine(extra=extra))
            model = model_config(engine_arguments({**message, "shows_images": True}, is_cpu=True))
            tokenizer = copy.deepcopy(cached_tokenizer_from_config(model))
            chat = open_chat(model, tokenizer, chat_template=template)
            pictures = open_pictures(model, tokenizer, chat, message["extra"])
            assert pictures is not None
            stack.callback(pictures.close)
            pictures.keep({i.sha256: base64.b64encode(i.content).decode() for i in (RED, WIDE)})
            prompts = Prompts(tokenizer, chat, pictures=pictures, truncate=True)
            return Opened(model, pictures, prompts, tokenizer)

        yield open_model


def wire(key: int, text: str, *images: Image, **fields: Any) -> dict[str, Any]:
    return {
        "key": key,
        "prompt": [{"role": "user", "content": text}],
        "sampling": {"max_tokens": TOKENS, "temperature": 0},
        "labels": [],
        "ranking": "labels",
        "contexts": [],
        "template_arguments": {},
        "day": None,
        "images": [image.sha256 for image in images],
        **fields,
    }


@pytest.mark.parametrize("kind", ["qwen3_vl", "gemma3"])
@pytest.mark.parametrize("mode", ["RGB", "L", "P"])
def test_pixels_are_those_of_the_models_own_processor(
    opened: Opener, eyes: Path, demo_model: Path, tmp_path: Path, kind: str, mode: str
) -> None:
    import torch
    from transformers import AutoProcessor

    folder = eyes if kind == "qwen3_vl" else seeing_model(kind, demo_model, tmp_path / "model")
    model = opened(folder)
    picture = drawn((90, 70), mode)
    file = as_file(picture)
    model.pictures.keep({file.sha256: base64.b64encode(file.content).decode()})
    prompt = f"{PLACEHOLDERS[kind]}What?"
    expected = AutoProcessor.from_pretrained(folder)(
        text=prompt, images=[[picture.convert("RGB")]], return_tensors="pt"
    )
    ids = model.tokenizer(prompt, add_special_tokens=False)["input_ids"]

    found = model.pictures.processed(ids, (file.sha256,))

    pixels = found["mm_kwargs"].get_data()["pixel_values"]
    assert pixels.dtype == torch.float32
    assert torch.equal(pixels, expected["pixel_values"].reshape(pixels.shape))
    assert found["prompt_token_ids"] == expected["input_ids"][0].tolist()


def test_a_transparent_picture_lies_on_white_and_a_turned_one_is_upright(
    opened: Opener, eyes: Path
) -> None:
    clear = as_file(PIL.Image.new("RGBA", (8, 8), (255, 0, 0, 0)))
    turned, buffer = PIL.Image.new("RGB", (40, 20), "blue"), io.BytesIO()
    exif = PIL.Image.Exif()
    exif[0x0112] = 6  # orientation: to be turned by 90 degrees
    turned.save(buffer, "JPEG", exif=exif)
    file = read_image(buffer.getvalue())
    pictures = opened(eyes).pictures
    pictures.keep({i.sha256: base64.b64encode(i.content).decode() for i in (clear, file)})

    one, other = (
        found.media
        for found in pictures.prompt([], (clear.sha256, file.sha256))["multi_modal_data"]["image"]
    )

    assert (one.mode, one.getpixel((0, 0))) == ("RGB", (255, 255, 255))
    assert other.size == (20, 40)


def test_a_template_of_plain_texts_gets_images_before_the_text_as_from_vllms_server(
    opened: Opener, eyes: Path, demo_model: Path
) -> None:
    plain = (demo_model / "chat_template.jinja").read_text()
    (prepared,) = opened(eyes, plain).prompts.prepare([wire(0, f"Look: {RED.mark} Well?", RED)])

    assert prepared.text == (
        f"<|im_start|>user\n{RED.mark}\nLook: \n Well?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert prepared.error is None


def test_a_prompt_that_does_not_fit_with_its_images_fails_uncut(opened: Opener, eyes: Path) -> None:
    prompts = opened(eyes).prompts
    (prepared,) = prompts.prepare([wire(0, f"{RED.mark}What is this?", RED)])
    without = len(prepared.ids)

    assert (prepared.prompt_tokens, prepared.need.total) == (without + 15, without + 15 + TOKENS)
    fits = prompts.fit(prepared, without + 15 + TOKENS)
    assert (fits.error, fits.ids) == (None, prepared.ids)
    failed = prompts.fit(prepared, without + 14 + TOKENS)
    assert failed.error is not None
    assert f"The prompt has {without + 15} tokens" in failed.error
    assert failed.ids == prepared.ids


def test_marks_without_an_image_are_text(opened: Opener, eyes: Path) -> None:
    (prepared,) = opened(eyes).prompts.prepare([wire(0, f"{RED.mark} {WIDE.mark}", WIDE)])

    assert prepared.shown == (WIDE.sha256,)
    assert prepared.text.count(RED.mark) == 1


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"prompt": f"{RED.mark}What?"}, "in chats only"),
        ({"labels": ["A"], "ranking": "continuations"}, "cannot be ranked after images"),
        ({"images": ["0" * 64], "prompt": [{"role": "user", "content": f"<image:{'0' * 64}>"}]}, "rejects the images"),
    ],
    ids=["text", "continuations", "unknown"],
)  # fmt: skip
def test_what_cannot_be_shown_fails_alone(
    opened: Opener, eyes: Path, fields: Any, error: str
) -> None:
    requests = [wire(0, f"{RED.mark}What?", RED, **fields), wire(1, f"{RED.mark}Well?", RED)]

    first, second = opened(eyes).prompts.prepare(requests)

    assert error in str(first.error)
    assert first.error_permanent
    assert second.error is None


def test_more_images_than_the_model_takes_are_refused(opened: Opener, eyes: Path) -> None:
    few = opened(eyes, None, 'limit_mm_per_prompt={"image": 1}')

    (prepared,) = few.prompts.prepare([wire(0, RED.mark + WIDE.mark, RED, WIDE)])

    assert prepared.error == "The prompt shows 2 images; the model takes at most 1."
    with pytest.raises(SettingsError, match="shows 2 images, but .* takes at most 1"):
        few.pictures.limits(len(prepared.shown))
    assert few.pictures.limits(1) == {"image": 1, "video": 0}


def test_a_model_that_sees_nothing_is_refused(opened: Opener, demo_model: Path) -> None:
    with pytest.raises(SettingsError, match=r"show images, but .*Qwen3ForCausalLM.* takes none"):
        opened(demo_model)


def test_a_model_whose_images_vllm_reads_wrongly_on_a_cpu_is_refused(
    opened: Opener, demo_model: Path, eyes: Path, tmp_path: Path
) -> None:
    folder = seeing_model("gemma3", demo_model, tmp_path / "model")

    with pytest.raises(SettingsError, match=r"wrong answers about images .* 'gemma3'.* Use a GPU"):
        check_sight(opened(folder).model)
    check_sight(opened(folder, None, LOOKS_BACK).model)
    check_sight(opened(eyes).model)


def test_on_a_cpu_vllm_has_one_attention_which_knows_no_view_in_both_directions() -> None:
    """A failure means that `check_sight` can let Gemma 3 see on a CPU."""
    from vllm.platforms.cpu import CpuPlatform
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    settings = SimpleNamespace(use_sparse=False, use_mla=False)
    taken = {
        CpuPlatform.get_attn_backend_cls(asked, settings)
        for asked in (None, AttentionBackendEnum.FLEX_ATTENTION, AttentionBackendEnum.TRITON_ATTN)
    }

    assert taken == {AttentionBackendEnum.CPU_ATTN.get_path()}
    assert not AttentionBackendEnum.CPU_ATTN.get_class().supports_mm_prefix()


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("interleave_mm_strings=true", "would change what the model sees"),
        ("language_model_only=true", "takes none in vLLM with these settings"),
    ],
)
def test_settings_that_contradict_images_are_refused(
    opened: Opener, eyes: Path, extra: str, message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        opened(eyes, None, extra)


def test_settings_of_the_processor_change_the_tokens(opened: Opener, eyes: Path) -> None:
    small = opened(eyes, None, 'mm_processor_kwargs={"size": {"longest_edge": 4096, "shortest_edge": 1024}}')  # fmt: skip
    (prepared,) = small.prompts.prepare([wire(0, f"{RED.mark}What is this?", RED)])

    assert prepared.image_tokens == 3  # 2 x 2 instead of 4 x 4, less the placeholder


def test_a_chat_is_rendered_once_for_all_repeats(
    opened: Opener, eyes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = opened(eyes)
    calls: list[object] = []
    monkeypatch.setattr(model.pictures, "tokens", lambda *arguments: calls.append(arguments) or 100)

    prepared = model.prompts.prepare([wire(k, f"{RED.mark}What?", RED) for k in range(3)])

    assert len(calls) == 1
    assert [request.prompt_tokens for request in prepared] == [100, 100, 100]


def test_template_variables_reach_a_chat_with_images(opened: Opener, eyes: Path) -> None:
    loud = "{% for m in messages %}{% for p in m.content %}{{ '<|vision_start|><|image_pad|><|vision_end|>' if p.type == 'image' else p.text }}{% endfor %}{% endfor %}{% if loud %}!{% endif %}"
    model = opened(eyes, loud)
    (prepared,) = model.prompts.prepare(
        [wire(0, f"{RED.mark}What?", RED, template_arguments={"loud": True})]
    )

    assert prepared.text == f"{RED.mark}What?!"


def test_a_plan_of_memory_counts_the_images(eyes: Path) -> None:
    settings = VllmEngine()
    model = settings.resolve_to_plan(str(eyes), needs_tokenizer=True)
    opening = whole_open_message(settings, model, PromptRendering())
    planner = Planner({**opening, "target": None, "shows_images": True})
    files = {RED.sha256: base64.b64encode(RED.content).decode()}

    length = planner.length(
        iter(
            [
                {"type": "images", "images": files},
                {"type": "ahead", "stream": 0, "requests": [wire(0, f"{RED.mark}What?", RED)]},
                {"type": "load"},
            ]
        )
    )
    split = planner.split({"tensor": 1, "pipeline": 1, "data": 1, "reserved": 0})

    assert length["longest_prompt"] == 32
    assert split["refused"] is None
    assert split["parameters"] == tensors_of(eyes)


def tensors_of(folder: Path) -> int:
    """Number of parameters in a model's file, those of its tower too."""
    from safetensors.torch import load_file

    return sum(tensor.numel() for tensor in load_file(folder / "model.safetensors").values())
