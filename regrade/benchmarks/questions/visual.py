"""Questions about images, asked in a chat: base class of the benchmarks whose datasets have image columns."""

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

from regrade.benchmarks.questions.pictures import is_image, with_marks
from regrade.benchmarks.questions.samples import Question
from regrade.benchmarks.questions.standard import PublishedBenchmark
from regrade.benchmarks.questions.targets import (
    LETTERS,
    RowError,
    listed,
    question_text,
    text_target,
)
from regrade.records import Sample
from regrade.records.images import Image
from regrade.scorers.extraction.accepted import stored_target
from regrade.settings import SamplingParams

NUMBERED = tuple(f"image_{number}" for number in range(1, 8))
"""Image columns of MMMU and MMMU-Pro, named `<image 1>` to `<image 7>` in texts."""
_PLACE = re.compile(r"<image ([1-7])>")
_LONGEST_LIST = 100_000
"""Longest text that is read as a list of choices, in characters."""


class ImageQuestions(PublishedBenchmark):
    """Questions with images. A subclass names the columns, or gives the text, the target and the choices of a row."""

    only_chat = True
    image_columns: tuple[str, ...] = ("image",)
    answers_column = "answer"
    """Column with the accepted answers: a list of texts, or one."""
    sampling = SamplingParams(temperature=0.0, max_tokens=2048)
    """Greedy decoding. Evaluations that ask for a word allow few tokens; these leave room for models that think first."""

    def text(self, index: int, row: Mapping[str, Any]) -> str:
        """Return what identifies a question beside its images and choices, with the images' marks if they stand within it.

        Raises:
            RowError: If the row has no such text.
        """
        return question_text(index, row[self.question_column])

    def target(self, index: int, row: Mapping[str, Any], choices: Sequence[str]) -> str:  # noqa: ARG002 - without choices
        """Return the target in the form that the scorer compares with: the accepted answers.

        Raises:
            RowError: If the benchmark cannot use the answer.
        """
        return stored_target(accepted_list(index, self.answers_column, row[self.answers_column]))

    def choices(self, index: int, row: Mapping[str, Any]) -> tuple[str, ...]:  # noqa: ARG002 - most have none
        """Return the choices; () if there are none.

        Raises:
            RowError: If they cannot be read.
        """
        return ()

    def read(self, rows: Sequence[Mapping[str, Any]]) -> list[Question]:
        """Return the questions with their images. Rows that show the same image share its bytes."""
        known: dict[str, Image] = {}
        return [self._question(index, row, known) for index, row in enumerate(rows)]

    def question(self, sample: Sample) -> str:
        """Return the images that no text names, and the question as it appears in the prompt."""
        text = self.form(sample).format(
            question=sample.fields["text"], choices=listed(sample.choices, strip=False)
        )
        first = [image.mark for image in sample.images if image.mark not in text]
        return "".join(first) + text

    def form(self, sample: Sample) -> str:  # noqa: ARG002 - most have one for all questions
        """Return the template of a question."""
        return self.question_template

    def _question(self, index: int, row: Mapping[str, Any], known: dict[str, Image]) -> Question:
        for name in self.image_columns:
            if row[name] is not None and not is_image(row[name]):
                raise RowError(
                    index,
                    f"column '{name}' is {str(row[name])[:60]!r}; expected an image as `datasets` stores it (bytes and path)",
                )
        marked, images = with_marks(index, row, self.image_columns)
        if not images:
            raise RowError(index, f"it has no image in {', '.join(self.image_columns)}")
        text, choices = self.text(index, marked), self.choices(index, marked)
        return Question(
            content={"text": text, "images": [image.mark for image in images]},
            target=self.target(index, row, choices),
            fields={"text": text},
            subset=self.subset(index, row),
            choices=choices,
            images=tuple(known.setdefault(image.sha256, image) for image in images),
        )


def with_images(index: int, text: str, row: Mapping[str, Any]) -> str:
    """Return a text in which `<image 1>` to `<image 7>` are replaced by the marks in the columns `image_1` to `image_7`.

    Raises:
        RowError: If a column has no image.
    """
    for number in _PLACE.findall(text):
        if row[f"image_{number}"] is None:
            raise RowError(index, f"the text names <image {number}>, which the row lacks")
    return _PLACE.sub(lambda found: str(row[f"image_{found[1]}"]), text)


def question_with_images(index: int, row: Mapping[str, Any]) -> str:
    """Return the text in the column `question`, with the marks of its images.

    Raises:
        RowError: If it is no text, or names an image that the row lacks.
    """
    return with_images(index, question_text(index, row["question"]), row)


def listed_texts(index: int, column: str, value: object) -> tuple[str, ...]:
    """Return the texts of a list in a column or, as MMMU writes it, of its Python notation.

    Raises:
        RowError: If it is none, or has more texts than there are letters.
    """
    found = value
    if isinstance(value, str) and len(value) <= _LONGEST_LIST:
        try:
            found = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            found = None
    if (
        not isinstance(found, list)
        or not all(isinstance(text, str) for text in found)
        or len(found) > len(LETTERS)
    ):
        raise RowError(
            index,
            f"column '{column}' is {str(value)[:100]!r}; expected a list of up to {len(LETTERS)} texts, also in Python's notation",
        )
    return tuple(found)


def accepted_list(index: int, column: str, value: object) -> list[str]:
    """Return the accepted answers in a column: a list of texts, or one.

    Raises:
        RowError: If there is none.
    """
    texts = [text_target(text) for text in (value if isinstance(value, list) else [value])]
    known = [text for text in texts if text is not None]
    if not known:
        raise RowError(
            index, f"column '{column}' is {str(value)[:100]!r}; expected one or several texts"
        )
    return known
