"""Write the test questions of the two demo benchmarks, or check the committed files.

`python -m infra.demo.questions` writes `data/*.jsonl`; with `--check` it compares instead. All questions are generated
by this code; none comes from a data set.
"""

import argparse
import itertools
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from infra.demo.four_choices import SUBJECTS, Item, choice_items
from infra.demo.word_problems import word_problems

DATA = Path(__file__).parent / "data"
TEST_SEED = 20250
TRAINING_SEED = 7
TEST_ROWS = 400


def arithmetic_test_questions() -> list[dict[str, str]]:
    """Return the rows of `arithmetic.jsonl`."""
    rng = random.Random(TEST_SEED)
    rows: dict[str, dict[str, str]] = {}
    problems = word_problems(rng, held_out=True)
    while len(rows) < TEST_ROWS:
        row = next(problems)
        rows.setdefault(row["question"], row)
    return list(rows.values())


def choice_test_questions() -> list[Item]:
    """Return the rows of `choice.jsonl`: the same number for each subject and letter."""
    rng = random.Random(TEST_SEED)
    rows: list[Item] = []
    for subject in SUBJECTS:
        seen: dict[tuple[str, ...], Item] = {}
        for answer in range(4):
            items = choice_items(rng, subject, itertools.repeat(answer), held_out=True)
            full = len(seen) + TEST_ROWS // len(SUBJECTS) // 4
            while len(seen) < full:
                item = next(items)
                seen.setdefault((item["question"], *sorted(item["choices"])), item)
        rows.extend(seen.values())
    rng.shuffle(rows)
    return rows


def arithmetic_training_questions(seed: int = TRAINING_SEED) -> Iterator[dict[str, str]]:
    """Yield word problems for training, without end; none is a test question."""
    return word_problems(random.Random(seed), held_out=False)


def choice_training_questions(seed: int = TRAINING_SEED) -> Iterator[Item]:
    """Yield questions with choices for training, without end; none is a test question."""
    rng = random.Random(seed)
    answers = iter(lambda: rng.randrange(4), None)
    subjects = [choice_items(rng, subject, answers, held_out=False) for subject in SUBJECTS]
    while True:
        yield next(rng.choice(subjects))


def as_jsonl(rows: Sequence[Mapping[str, object]]) -> str:
    """Return the rows as JSON lines."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


FILES: dict[str, Callable[[], Sequence[Mapping[str, object]]]] = {
    "arithmetic.jsonl": arithmetic_test_questions,
    "choice.jsonl": choice_test_questions,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the files; return 1 if a checked file is out of date, else 0.

    Args:
        arguments: Arguments of the command line; None: those of this process.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    check = parser.parse_args(arguments).check
    status = 0
    for name, rows in FILES.items():
        path, text = DATA / name, as_jsonl(rows())
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path} is out of date: run `python -m infra.demo.questions`")
            status = 1
    return status


if __name__ == "__main__":
    raise SystemExit(main())
