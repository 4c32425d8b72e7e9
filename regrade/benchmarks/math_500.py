"""MATH-500: 500 problems of the test split of MATH, with formulas as answers.

Paper:    Lightman et al. 2023, Let's Verify Step by Step, https://arxiv.org/abs/2305.20050; the problems are from
          Hendrycks et al. 2021, https://arxiv.org/abs/2103.03874
Dataset:  https://huggingface.co/datasets/HuggingFaceH4/MATH-500 (split `test`). The newest commit is read, and recorded
Licence:  MIT (MATH)

Results are also shown for each of the 7 subjects.
"""

from regrade.benchmarks.questions.problems import BoxedProblems


class Math500(BoxedProblems):
    """MATH-500, asked once."""

    name = "math_500"
    description = "Competition problems of 7 subjects, with formulas as answers."
    paper = "https://arxiv.org/abs/2305.20050"
    hub_dataset, split = "HuggingFaceH4/MATH-500", "test"
    columns = ("problem", "answer", "subject")
    subset_column = "subject"


benchmark = Math500
