"""MMLU: multiple choice questions on 57 subjects, answered by ranking the letters.

Paper:    Hendrycks et al. 2021, Measuring Massive Multitask Language Understanding,
          https://arxiv.org/abs/2009.03300
Dataset:  https://huggingface.co/datasets/cais/mmlu (config `all`), from https://github.com/hendrycks/test;
          14,042 test and 285 dev questions, 27 of the test repeated within their subject
Licence:  MIT

The worked examples are the first dev questions of the same subject. Questions of a subject stay together, so that
an engine computes their shared prefix once. Prompts and labels are those of lm-evaluation-harness' task `mmlu` with
`--num_fewshot 5`, character by character (tests/benchmarks/test_harness_prompts.py).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from regrade.benchmarks.questions.samples import Question
from regrade.benchmarks.questions.standard import PublishedBenchmark
from regrade.benchmarks.questions.targets import (
    RowError,
    choice_letters,
    choice_texts,
    listed,
    question_text,
)
from regrade.records import Sample
from regrade.settings import Method, PromptFormat, SamplingParams, ScorerName

# The 57 subjects of MMLU in four categories, grouped as in https://github.com/hendrycks/test.

CATEGORIES = {
    category: tuple(subjects.split())
    for category, subjects in {
        "STEM": """
            abstract_algebra astronomy college_biology college_chemistry college_computer_science
            college_mathematics college_physics computer_security conceptual_physics
            electrical_engineering elementary_mathematics high_school_biology
            high_school_chemistry high_school_computer_science high_school_mathematics
            high_school_physics high_school_statistics machine_learning
        """,
        "humanities": """
            formal_logic high_school_european_history high_school_us_history
            high_school_world_history international_law jurisprudence logical_fallacies
            moral_disputes moral_scenarios philosophy prehistory professional_law world_religions
        """,
        "social sciences": """
            econometrics high_school_geography high_school_government_and_politics
            high_school_macroeconomics high_school_microeconomics high_school_psychology
            human_sexuality professional_psychology public_relations security_studies sociology
            us_foreign_policy
        """,
        "other": """
            anatomy business_ethics clinical_knowledge college_medicine global_facts human_aging
            management marketing medical_genetics miscellaneous nutrition professional_accounting
            professional_medicine virology
        """,
    }.items()
}

SUBJECTS = frozenset(subject for subjects in CATEGORIES.values() for subject in subjects)


OPENING = "The following are multiple choice questions (with answers) about {subject}."
TEMPLATE = "{question}\n{choices}\nAnswer:"


class Mmlu(PublishedBenchmark):
    """MMLU as plain text: worked examples of the subject, then the question; the most likely letter is the answer."""

    name = "mmlu"
    version = 2
    description = "Multiple choice questions of 57 subjects, answered by the likeliest letter."
    paper = "https://arxiv.org/abs/2009.03300"
    method: Method = "rank"
    scorers: tuple[ScorerName, ...] = ("choice_logprob",)
    groups = CATEGORIES
    hub_dataset, config, split, shots_split = "cais/mmlu", "all", "test", "dev"
    shots_by_subset = True
    default_n_shots = 5
    default_format: PromptFormat = "completion"
    columns = ("question", "subject", "choices", "answer")
    opening_template = OPENING
    question_template = TEMPLATE
    sampling = SamplingParams(temperature=0.0, max_tokens=1)
    """Greedy decoding; ranking needs a single token."""

    def read(self, rows: Sequence[Mapping[str, Any]]) -> list[Question]:
        """Return questions whose target is the letter of the right choice."""
        choices = [choice_texts(index, row["choices"]) for index, row in enumerate(rows)]
        targets = choice_letters([row["answer"] for row in rows], choices)
        return [
            Question(
                content=question_text(index, row["question"]),
                target=targets[index],
                fields=row,
                subset=_subject(index, row),
                choices=choices[index],
            )
            for index, row in enumerate(rows)
        ]

    def question(self, sample: Sample) -> str:
        """Return the question as it appears in the prompt."""
        return self.question_template.format(
            question=sample.fields["question"].strip(), choices=self.listed_choices(sample)
        )

    def listed_choices(self, sample: Sample) -> str:
        """Return the choices as lines, with the dataset's white space around them."""
        return listed(sample.choices, strip=False)


def _subject(index: int, row: Mapping[str, Any]) -> str:
    subject = row["subject"]
    if subject not in SUBJECTS:
        raise RowError(
            index,
            f"the subject {subject!r} is not one of the 57 subjects of MMLU; for other subjects, describe the file "
            "as a dataset benchmark",
        )
    return str(subject)


benchmark = Mmlu
