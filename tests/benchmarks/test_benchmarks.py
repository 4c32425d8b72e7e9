import subprocess
import sys
from pathlib import Path

import pytest

from regrade.benchmarks import benchmark_cards, open_benchmark
from regrade.benchmarks.base import Benchmark
from regrade.settings import PromptSettings
from regrade.settings.errors import SettingsError, SourceError, UnknownNameError
from tests.benchmarks.files import write_jsonl
from tests.benchmarks.rows import BENCHMARKS, CHATS, FOLDERS, WITH_SHOTS
from tests.benchmarks.visual import VISUAL

ALL = tuple(card.name for card in benchmark_cards())
SLOW = ("datasets", "huggingface_hub", "jinja2", "torch", "transformers", "vllm", "prefect")
PAPERS = (
    *("https://arxiv.org/abs/", "https://artofproblemsolving.com/"),
    *("https://x.ai/blog/", "https://gorilla.cs.berkeley.edu/"),
)
"""Address of a published benchmark."""
TESTED_ELSEWHERE = {
    *CHATS,
    *(
        "multi_if",
        "mt_bench",
        "hle",
        "simpleqa_verified",
        "ifeval",
        "ifbench",
        "humaneval_plus",
        "mbpp_plus",
    ),
    *VISUAL,
    *(name for name in ALL if name.startswith(("livecodebench", "bfcl"))),
}
"""Benchmarks whose rows other modules test: their prompts have no chat and plain text of the same question."""


def opened(name: str, folder: Path, **prompt: object) -> Benchmark:
    source = FOLDERS[name](folder)
    return open_benchmark(name, source=str(source), prompt=PromptSettings.model_validate(prompt))


@pytest.mark.parametrize("name", ALL)
def test_a_benchmark_is_what_its_card_says(name: str) -> None:
    card = next(card for card in benchmark_cards() if card.name == name)

    benchmark = open_benchmark(name)

    assert (benchmark.name, benchmark.version, benchmark.description) == (
        card.name,
        card.version,
        card.description,
    )
    assert (benchmark.method, benchmark.scorers) == (card.method, card.scorers)
    assert benchmark.prompt_identity.n_shots == card.n_shots
    assert benchmark.prompt_identity.format == card.format
    assert benchmark.repeats == card.repeats
    assert card.paper.startswith(PAPERS)


def test_cards_need_no_slow_import() -> None:
    code = (
        "import sys; from regrade.benchmarks import benchmark_cards; benchmark_cards();"
        f"print([name for name in {SLOW!r} if name in sys.modules])"
    )

    process = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )

    assert process.stdout.strip() == "[]"


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(UnknownNameError, match="Unknown benchmark 'gsm8'. Did you mean 'gsm8k'?"):
        open_benchmark("gsm8")


@pytest.mark.parametrize("name", ALL)
def test_a_source_that_is_not_there_is_refused_on_opening(name: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=f"Benchmark '{name}', source '.*absent'"):
        open_benchmark(name, source=str(tmp_path / "absent"))


def test_a_limit_of_0_is_refused_on_opening() -> None:
    with pytest.raises(SettingsError, match="limit is 0"):
        open_benchmark("gsm8k", limit=0)


@pytest.mark.parametrize("name", [*VISUAL, *CHATS, "multi_if", "mt_bench", "bfcl"])
def test_what_is_asked_in_chats_only_is_refused_as_plain_text(name: str) -> None:
    with pytest.raises(SettingsError, match="leave out `prompt.format=completion`"):
        open_benchmark(name, prompt=PromptSettings(format="completion"))


def test_the_rows_of_every_published_benchmark_are_tested() -> None:
    others = {card.name for card in benchmark_cards()} - set(BENCHMARKS)

    assert set(FOLDERS) == set(BENCHMARKS)
    assert others == TESTED_ELSEWHERE


@pytest.mark.parametrize(
    ("name", "n_shots"), [*((name, 0) for name in BENCHMARKS), *((name, 2) for name in WITH_SHOTS)]
)
def test_every_benchmark_speaks_chat_and_plain_text(
    tmp_path: Path, name: str, n_shots: int
) -> None:
    chat = opened(name, tmp_path, format="chat", n_shots=n_shots, system="Be brief.")
    text = opened(name, tmp_path, format="completion", n_shots=n_shots, system="Be brief.")

    for sample in chat.samples():
        messages, prompt = chat.prompt(sample), text.prompt(sample)

        assert isinstance(messages, tuple)
        turns = ["user", "assistant"] * n_shots
        assert [m["role"] for m in messages] == ["system", *turns, "user"]
        assert isinstance(prompt, str)
        assert prompt.startswith("Be brief.\n\n")
        assert prompt.endswith("Answer:")
        assert prompt.count("Answer:") == n_shots + 1
        question = next(
            str(sample.fields[column]).strip()
            for column in ("question", "problem", "Question")
            if column in sample.fields
        )
        assert question in prompt
        assert question in messages[-1]["content"]
        assert all(choice.strip() in prompt for choice in sample.choices)
    assert chat.samples() == text.samples()


@pytest.mark.parametrize("name", WITH_SHOTS)
def test_ids_do_not_depend_on_limit_and_prompt(tmp_path: Path, name: str) -> None:
    few = opened(name, tmp_path, format="chat", n_shots=2)
    all_ids = {sample.index: sample.id for sample in few.samples()}

    limited = open_benchmark(
        name, source=str(tmp_path), limit=1, prompt=PromptSettings(n_shots=0, format="completion")
    )

    first = min(all_ids)
    assert [(s.index, s.id) for s in limited.samples()] == [(first, all_ids[first])]
    assert limited.identity.limit == 1


@pytest.mark.parametrize("name", sorted(set(ALL) - set(WITH_SHOTS)))
def test_worked_examples_are_refused_where_there_are_none(name: str) -> None:
    with pytest.raises(SettingsError, match="has no worked examples, but `prompt.n_shots=1`"):
        open_benchmark(name, prompt=PromptSettings(n_shots=1))


def test_the_identity_names_content_and_no_path(tmp_path: Path) -> None:
    (here := tmp_path / "here").mkdir()
    (there := tmp_path / "there").mkdir()

    first, second = opened("gsm8k", here), opened("gsm8k", there)

    assert first.identity == second.identity
    assert (first.identity.source, first.identity.split, first.identity.config) == (
        "local",
        "test",
        None,
    )
    assert str(tmp_path) not in first.identity.model_dump_json()


def test_worked_examples_are_part_of_the_identity_only_where_they_are_used(tmp_path: Path) -> None:
    shown, none = opened("gsm8k", tmp_path, n_shots=1), opened("gsm8k", tmp_path, n_shots=0)
    write_jsonl(tmp_path / "train.jsonl", [{"question": "Else?", "answer": "#### 1"}])
    shown_after = open_benchmark("gsm8k", source=str(tmp_path), prompt=PromptSettings(n_shots=1))
    none_after = open_benchmark("gsm8k", source=str(tmp_path), prompt=PromptSettings(n_shots=0))

    # The identity is resolved once, at the first use.
    assert none.identity == none_after.identity
    assert shown.identity == shown_after.identity != none.identity


def test_a_chat_template_counts_only_where_it_is_used(tmp_path: Path) -> None:
    template = tmp_path / "template.jinja"
    template.write_text("{{ messages }}")
    settings = {"chat_template": str(template), "chat_template_args": ("enable_thinking=false",)}

    chat = opened("gsm8k_chat", tmp_path, **settings).prompt_identity
    text = opened("gsm8k", tmp_path, **settings).prompt_identity

    assert chat.chat_template is not None
    assert chat.chat_template_args == {"enable_thinking": False}
    assert (text.chat_template, text.chat_template_args) == (None, {})


def test_more_worked_examples_than_there_are_is_refused(tmp_path: Path) -> None:
    (here := tmp_path / "here").mkdir()
    (there := tmp_path / "there").mkdir()

    with pytest.raises(
        SourceError, match="has 3 worked examples, but `prompt.n_shots=4`; set it to 3"
    ):
        opened("gsm8k", here, n_shots=4).samples()
    with pytest.raises(
        SourceError, match="has 3 worked examples for 'virology', but `prompt.n_shots=4`"
    ):
        opened("mmlu", there, n_shots=4).samples()
