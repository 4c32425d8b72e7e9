"""DocVQA: 5,349 questions about pages of documents (the validation split; the answers of the test split are not public).

Paper:    Mathew et al. 2021, DocVQA: A Dataset for VQA on Document Images, https://arxiv.org/abs/2007.00398
Dataset:  https://huggingface.co/datasets/lmms-lab-encoder/DocVQA (formerly lmms-lab/DocVQA; config `DocVQA`, split `validation`).
          The newest commit is read, and recorded
Licence:  Apache-2.0 for the dataset on the Hub; the pages come from the UCSF Industry Documents Library, and the challenge
          (https://rrc.cvc.uab.es/?ch=17) gives them out for research after a registration

The prompt is that of lmms-eval 0.7.3 (task `docvqa_val`), character by character (tests/scorers/test_peers.py).
"""

from regrade.benchmarks.questions.visual import ImageQuestions
from regrade.settings import ScorerName


class DocVqa(ImageQuestions):
    """DocVQA's validation split in a chat."""

    name = "docvqa"
    images_stay = True  # others own their rights: no copy is stored
    description = "Questions about pages of documents, graded by edit distance (ANLS)."
    paper = "https://arxiv.org/abs/2007.00398"
    scorers: tuple[ScorerName, ...] = ("anls",)
    hub_dataset, config, split = "lmms-lab-encoder/DocVQA", "DocVQA", "validation"
    columns = ("image", "question", "answers")
    answers_column = "answers"
    question_template = "{question}\nAnswer the question using a single word or phrase."


benchmark = DocVqa
