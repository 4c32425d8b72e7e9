"""Train the demo model on the CPU, from random weights, and write it to `regrade-demo/`.

Run `python -m infra.demo.train`; README.md has the duration and the accuracy.
"""

import argparse
import itertools
import math
import random
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import jinja2
import torch
from torch.nn import functional
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from infra.demo.prompts import ARITHMETIC_PROMPT, CHOICE_CHAT_PROMPT, CHOICE_PROMPT, LETTERS
from infra.demo.questions import arithmetic_training_questions, choice_training_questions
from infra.demo.tokenizer import END_OF_TURN, train_tokenizer

MODEL = Path(__file__).parent / "regrade-demo"
SEED = 11
STEPS = 1600
BATCH = 32
PEAK_RATE = 1.5e-3
WARM_UP = 50
IGNORED = -100
"""Label of a token that does not count in the loss."""
DRILL_PROBLEMS = 8
"""Word problems whose calculations make a drill."""

Example = tuple[list[int], list[int]]
"""Token ids and labels."""


def new_model(tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """Return an untrained model, small enough for the repository."""
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=32,
        max_position_embeddings=32768,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen3ForCausalLM(config)  # type: ignore[no-untyped-call]


def training_texts(seed: int) -> Iterator[tuple[list[dict[str, str]] | str, str]]:
    """Yield prompts (a chat, or a text to complete) with their answers."""
    rng = random.Random(seed)
    arithmetic, choice, choice_chat = (
        jinja2.Template(text) for text in (ARITHMETIC_PROMPT, CHOICE_PROMPT, CHOICE_CHAT_PROMPT)
    )
    problems, items = arithmetic_training_questions(seed), choice_training_questions(seed)
    while True:
        kind = rng.choices(("arithmetic", "choice", "choice chat"), (4, 4, 1))[0]
        if kind == "arithmetic":
            problem = next(problems)
            yield [{"role": "user", "content": arithmetic.render(problem)}], problem["answer"]
            continue
        item = next(items)
        letter = LETTERS[item["answer"]]
        if kind == "choice":
            yield choice.render(item), f" {letter}"
        else:
            yield [{"role": "user", "content": choice_chat.render(item)}], letter


def _as_text(tokenizer: PreTrainedTokenizerFast, chat: list[dict[str, str]]) -> str:
    return str(tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False))


def _encode(tokenizer: PreTrainedTokenizerFast, pieces: Iterable[tuple[str, str]]) -> Example:
    ids: list[int] = []
    labels: list[int] = []
    for given, wanted in pieces:
        before = tokenizer.encode(given, add_special_tokens=False)
        after = tokenizer.encode(wanted, add_special_tokens=False)
        ids += before + after
        labels += [IGNORED] * len(before) + after
    return ids, labels


def question_examples(tokenizer: PreTrainedTokenizerFast, seed: int) -> Iterator[Example]:
    """Yield questions as token ids and labels; only the answer and its end token count in the loss."""
    for prompt, answer in training_texts(seed):
        text = prompt if isinstance(prompt, str) else _as_text(tokenizer, prompt)
        yield _encode(tokenizer, [(text, answer + END_OF_TURN)])


def drill_examples(tokenizer: PreTrainedTokenizerFast, seed: int) -> Iterator[Example]:
    """Yield only the calculations of word problems; only the results count in the loss.

    A word problem has one or two results in sixty tokens, too few to learn arithmetic.
    """
    problems = arithmetic_training_questions(seed + 1)
    while True:
        solutions = "\n".join(next(problems)["answer"] for _ in range(DRILL_PROBLEMS))
        yield _encode(tokenizer, re.findall(r"( \d+[-+*]\d+=)(\d+\.)", solutions))


def examples(tokenizer: PreTrainedTokenizerFast, seed: int) -> Iterator[Example]:
    """Yield training examples: two questions, then a drill."""
    questions = question_examples(tokenizer, seed)
    for drill in drill_examples(tokenizer, seed):
        yield next(questions)
        yield next(questions)
        yield drill


def _batches(source: Iterator[Example], rng: random.Random) -> Iterator[list[Example]]:
    while True:
        # Examples of similar length share a batch, which reduces padding.
        pool = sorted(itertools.islice(source, 32 * BATCH), key=lambda example: len(example[0]))
        batches = [pool[i : i + BATCH] for i in range(0, len(pool), BATCH)]
        rng.shuffle(batches)
        yield from batches


def _loss(model: Qwen3ForCausalLM, batch: Sequence[Example], padding: int) -> torch.Tensor:
    width = max(len(ids) for ids, _ in batch)
    ids = torch.tensor([ids + [padding] * (width - len(ids)) for ids, _ in batch])
    labels = torch.tensor([labels + [IGNORED] * (width - len(labels)) for _, labels in batch])
    # No mask is needed: padding is on the right, and no token attends to later tokens.
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
    wanted = labels[:, 1:]
    counted = wanted != IGNORED
    return functional.cross_entropy(model.lm_head(hidden[counted]), wanted[counted])


def train(tokenizer: PreTrainedTokenizerFast, seed: int, steps: int) -> Qwen3ForCausalLM:
    """Train a new model and return it, in float32.

    Args:
        tokenizer: The trained tokenizer.
        seed: Seed of the weights and of the order of the questions.
        steps: Number of batches.
    """
    torch.manual_seed(seed)
    model = new_model(tokenizer)
    print(f"{sum(weight.numel() for weight in model.parameters()):,} parameters", flush=True)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=PEAK_RATE, betas=(0.9, 0.98), weight_decay=0.05
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min((step + 1) / WARM_UP, 0.5 + 0.5 * math.cos(math.pi * step / steps)),
    )
    started = time.monotonic()
    recent = 0.0
    batches = _batches(examples(tokenizer, seed), random.Random(seed))
    for step, batch in enumerate(itertools.islice(batches, steps), start=1):
        # Ten times as fast as float32 on a CPU with bfloat16 instructions.
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = _loss(model, batch, int(tokenizer.pad_token_id))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        recent += loss.item()
        if step % 50 == 0:
            minutes = (time.monotonic() - started) / 60
            print(f"step {step}  loss {recent / 50:.4f}  {minutes:.1f} min", flush=True)
            recent = 0.0
    return model


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the tokenizer and the model, and write both.

    Args:
        arguments: Arguments of the command line; None: those of this process.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=MODEL)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args(arguments)
    tokenizer = train_tokenizer()
    model = train(tokenizer, options.seed, options.steps)
    model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    model.bfloat16().save_pretrained(options.out)
    tokenizer.save_pretrained(options.out)


if __name__ == "__main__":
    main()
