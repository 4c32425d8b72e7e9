"""MMMU: college questions of 30 subjects with one to seven images, most of them with choices.

Paper:    Yue et al. 2024, MMMU: A Massive Multi-discipline Multimodal Understanding and Reasoning Benchmark for Expert AGI,
          https://arxiv.org/abs/2311.16502
Dataset:  https://huggingface.co/datasets/MMMU/MMMU (30 configs, one for each subject; split `validation`), 900 questions, 30 for each
          subject. The newest commit is read, and recorded
Licence:  Apache-2.0; the images come from textbooks, lectures and the web, and belong to their owners

Prompts are those of lmms-eval 0.7.3 (task `mmmu_val`), character by character (tests/scorers/test_peers.py): the letter, or a word
or phrase, without reasoning. Images stand where the question or a choice names them. The scorer reads open answers by the authors'
rule, and letters as `choice_letter` does.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from regrade.benchmarks.questions.configs import SUBSET
from regrade.benchmarks.questions.targets import RowError, choice_letter
from regrade.benchmarks.questions.visual import (
    NUMBERED,
    ImageQuestions,
    accepted_list,
    listed_texts,
    question_with_images,
    with_images,
)
from regrade.records import Sample
from regrade.scorers.extraction.accepted import stored_target
from regrade.settings import SamplingParams, ScorerName

CHOICE_TEMPLATE = (
    "{question}\n{choices}\n\nAnswer with the option's letter from the given choices directly."
)
OPEN_TEMPLATE = "{question}\n\nAnswer the question using a single word or phrase."
DISCIPLINES = {
    "Art and Design": ("Art", "Art_Theory", "Design", "Music"),
    "Business": ("Accounting", "Economics", "Finance", "Manage", "Marketing"),
    "Science": ("Biology", "Chemistry", "Geography", "Math", "Physics"),
    "Health and Medicine": (
        *("Basic_Medical_Science", "Clinical_Medicine", "Diagnostics_and_Laboratory_Medicine"),
        *("Pharmacy", "Public_Health"),
    ),
    "Humanities and Social Science": ("History", "Literature", "Sociology", "Psychology"),
    "Tech and Engineering": (
        *("Agriculture", "Architecture_and_Engineering", "Computer_Science", "Electronics"),
        *("Energy_and_Power", "Materials", "Mechanical_Engineering"),
    ),
}
"""Subjects, which are the names of the configs, by discipline."""
SUBJECTS = tuple(sorted(subject for several in DISCIPLINES.values() for subject in several))


class Mmmu(ImageQuestions):
    """MMMU's validation split in a chat."""

    name = "mmmu"
    images_stay = True  # others own their rights: no copy is stored
    description = "College questions about images of 30 subjects, with choices or open."
    paper = "https://arxiv.org/abs/2311.16502"
    scorers: tuple[ScorerName, ...] = ("mmmu",)
    hub_dataset, split = "MMMU/MMMU", "validation"
    configs: Mapping[str, str] = {subject: subject for subject in SUBJECTS}
    groups = DISCIPLINES
    image_columns = NUMBERED
    columns = ("question", "options", "answer", "question_type", *NUMBERED, SUBSET)
    subset_column = SUBSET
    sampling = SamplingParams(temperature=0.0, max_tokens=4096)
    question_template = f"{CHOICE_TEMPLATE}\n\n{OPEN_TEMPLATE}"

    def form(self, sample: Sample) -> str:
        """Return the template of a question with choices, or of an open one."""
        return CHOICE_TEMPLATE if sample.choices else OPEN_TEMPLATE

    def text(self, index: int, row: Mapping[str, Any]) -> str:
        """Return the question, with the marks of the images that it names."""
        return question_with_images(index, row)

    def choices(self, index: int, row: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the choices, with the marks of the images that they name; () for an open question."""
        kind = row["question_type"]
        if kind == "open":
            return ()
        if kind != "multiple-choice":
            raise RowError(index, f"question_type is {kind!r}; expected multiple-choice or open")
        return tuple(
            with_images(index, text, row) for text in listed_texts(index, "options", row["options"])
        )

    def target(self, index: int, row: Mapping[str, Any], choices: Sequence[str]) -> str:
        """Return the letter, or the accepted answers to an open question, which may be a list in Python's notation."""
        answer = row["answer"]
        if choices:
            return choice_letter(index, "the answer", answer, len(choices))
        if isinstance(answer, str) and answer.startswith("["):
            answer = list(listed_texts(index, "answer", answer))
        return stored_target(accepted_list(index, "answer", answer))


benchmark = Mmmu
