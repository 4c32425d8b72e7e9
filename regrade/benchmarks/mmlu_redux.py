"""MMLU-Redux 2.0: questions of MMLU that experts checked, without those that they found wrong.

Paper:    Gema et al. 2024, Are We Done with MMLU?, https://arxiv.org/abs/2406.04127
Dataset:  https://huggingface.co/datasets/edinburgh-dawg/mmlu-redux-2.0 (57 configs, one for each subject; split `test`); 5,700
          questions. The newest commit is read, and recorded
Licence:  CC-BY-4.0

Only questions with `error_type` `ok` are asked; the log says how many are left out. No correction of the dataset is used.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from regrade.benchmarks.mmlu import CATEGORIES, SUBJECTS
from regrade.benchmarks.questions.configs import SUBSET
from regrade.benchmarks.questions.multiple_choice import ChoiceQuestions
from regrade.benchmarks.questions.problems import only_element
from regrade.benchmarks.questions.targets import choice_place, choice_texts


class MmluRedux(ChoiceQuestions):
    """MMLU-Redux 2.0 in a chat, without worked examples."""

    name = "mmlu_redux"
    description = "Questions of MMLU without those with errors, with the letter read from the text."
    paper = "https://arxiv.org/abs/2406.04127"
    groups = CATEGORIES
    hub_dataset, split = "edinburgh-dawg/mmlu-redux-2.0", "test"
    configs = MappingProxyType({subject: subject for subject in sorted(SUBJECTS)})
    columns = ("question", "choices", "answer", "error_type", SUBSET)
    subset_column = SUBSET

    def reason_left_out(self, row: Mapping[str, Any]) -> str | None:
        """Return the reason to leave a question out: experts found an error in it."""
        return None if row["error_type"] == "ok" else "error_type is not `ok`"

    def choices(self, index: int, row: Mapping[str, Any]) -> tuple[tuple[str, ...], int]:
        """Return the choices and the place of the right one."""
        choices, right = choice_texts(index, row["choices"]), only_element(row["answer"])
        return choices, choice_place(index, "the answer", right, len(choices))


benchmark = MmluRedux
