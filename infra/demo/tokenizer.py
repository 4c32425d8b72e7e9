"""The demo model's tokenizer: byte-level BPE with a token for each digit."""

import ast
import itertools
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from pydoc_data import topics

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from infra.demo.four_choices import ANIMALS, OBJECTS
from infra.demo.prompts import LETTERS
from infra.demo.questions import arithmetic_training_questions, choice_training_questions
from infra.demo.word_problems import BOXES, NAMES, THINGS

ENTRIES = 3072
WORD_REPEATS = 1000
END, START_OF_TURN, END_OF_TURN = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
# Numbers are split into digits, so that the model sees the columns that it has to add.
PIECES = r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s"
PROSE_MODULES = (
    "argparse", "collections", "decimal", "doctest", "email", "http", "inspect", "json",
    "logging", "random", "statistics", "string", "unittest", "urllib",
)  # fmt: skip
CHAT_TEMPLATE = (
    "{%- for turn in messages -%}\n"
    "{{ '<|im_start|>' ~ turn.role ~ '\\n' ~ turn.content ~ '<|im_end|>\\n' }}\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}\n"
    "{{ '<|im_start|>assistant\\n' }}\n"
    "{%- endif -%}\n"
)


def english_text() -> Iterator[str]:
    """Yield English text from the standard library: language topics and docstrings."""
    yield from topics.topics.values()
    library = Path(sysconfig.get_path("stdlib"))
    for module in PROSE_MODULES:
        place = library / module
        paths = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
        for path in paths:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                    yield ast.get_docstring(node) or ""


def _question_text() -> Iterator[str]:
    # Repeated often enough that each word becomes a token despite the amount of prose.
    words = (*NAMES, *THINGS, *BOXES, *ANIMALS, *OBJECTS)
    yield from [f" {word}" for word in words] * WORD_REPEATS
    for row in itertools.islice(arithmetic_training_questions(), 3000):
        yield f"{row['question']}\n{row['answer']}"
    for item in itertools.islice(choice_training_questions(), 3000):
        yield f"Question: {item['question']}\n" + "\n".join(item["choices"])
        yield f"Answer: {LETTERS[item['answer']]}"


def train_tokenizer() -> PreTrainedTokenizerFast:
    """Train the tokenizer on English text and on the training questions."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=ENTRIES,
        special_tokens=[END, START_OF_TURN, END_OF_TURN],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(itertools.chain(english_text(), _question_text()), trainer)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        eos_token=END_OF_TURN,
        pad_token=END,
        additional_special_tokens=[START_OF_TURN],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )
