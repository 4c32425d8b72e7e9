"""HMMT February 2026: 33 problems of the Harvard-MIT Mathematics Tournament, with formulas as answers.

Paper:    Balunović et al. 2025, MathArena: Evaluating LLMs on Uncontaminated Math Competitions,
          https://arxiv.org/abs/2505.23281
Dataset:  https://huggingface.co/datasets/MathArena/hmmt_feb_2026 (split `train`). The newest commit is read, and recorded
Licence:  CC-BY-NC-SA-4.0

Four answers to each problem, as on the leaderboard of MathArena (avg@4).
"""

from regrade.benchmarks.questions.problems import BoxedProblems


class HmmtFeb2026(BoxedProblems):
    """HMMT February 2026, asked 4 times."""

    name = "hmmt_feb_2026"
    version = 1
    description = "Problems of HMMT February 2026, with formulas as answers."
    paper = "https://arxiv.org/abs/2505.23281"
    hub_dataset, split = "MathArena/hmmt_feb_2026", "train"
    repeats = 4


benchmark = HmmtFeb2026
