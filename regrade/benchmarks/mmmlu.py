"""MMMLU: the test questions of MMLU in 14 languages, translated by people.

Paper:    Hendrycks et al. 2021, Measuring Massive Multitask Language Understanding, https://arxiv.org/abs/2009.03300; the translations
          are OpenAI's
Dataset:  https://huggingface.co/datasets/openai/MMMLU (14 configs, one for each language; split `test`); 14,042 questions each.
          The newest commit is read, and recorded
Licence:  MIT

The instruction is in English for all languages, as in OpenAI's simple-evals. Subsets are the languages; `--limit` takes from all of
them. A question is left out if one of its choices is missing: readers of CSV take the word `None` for a missing value.
"""

from collections.abc import Mapping
from typing import Any

from regrade.benchmarks.questions.configs import SUBSET
from regrade.benchmarks.questions.multiple_choice import ChoiceQuestions
from regrade.benchmarks.questions.targets import choice_letter, choice_texts

LANGUAGES = {
    "AR_XY": "arabic",
    "BN_BD": "bengali",
    "DE_DE": "german",
    "ES_LA": "spanish",
    "FR_FR": "french",
    "HI_IN": "hindi",
    "ID_ID": "indonesian",
    "IT_IT": "italian",
    "JA_JP": "japanese",
    "KO_KR": "korean",
    "PT_BR": "portuguese",
    "SW_KE": "swahili",
    "YO_NG": "yoruba",
    "ZH_CN": "chinese",
}
"""Languages by the name of their config."""
_LETTERS = "ABCD"


class Mmmlu(ChoiceQuestions):
    """MMMLU in a chat, without worked examples."""

    name = "mmmlu"
    description = "Questions of MMLU in 14 languages, with the letter read from the text."
    paper = "https://arxiv.org/abs/2009.03300"
    hub_dataset, split = "openai/MMMLU", "test"
    configs = LANGUAGES
    columns = ("Question", *_LETTERS, "Answer", SUBSET)
    question_column = "Question"
    subset_column = SUBSET

    def reason_left_out(self, row: Mapping[str, Any]) -> str | None:
        """Return the reason to leave a question out: a choice is missing."""
        missing = any(row[letter] is None for letter in _LETTERS)
        return "a choice is missing" if missing else None

    def choices(self, index: int, row: Mapping[str, Any]) -> tuple[tuple[str, ...], int]:
        """Return the choices and the place of the right one."""
        letter = choice_letter(index, "the answer", row["Answer"], len(_LETTERS))
        return choice_texts(index, [row[name] for name in _LETTERS]), _LETTERS.index(letter)


benchmark = Mmmlu
