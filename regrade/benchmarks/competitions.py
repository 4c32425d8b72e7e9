"""AIME and HMMT: problems of mathematical competitions.

The newest commit of each dataset is read, and recorded.

AIME (American Invitational Mathematics Examination): the 30 problems of both rounds of a year. Answers are whole numbers, some written
with leading zeros (`033`), which do not count. The average over 16 answers to each problem is reported (avg@16), sampled as in the
evaluation of DeepSeek-R1 (temperature 0.6, top-p 0.95, 32,768 tokens). Licence: see the dataset of `aime_2025`, CC-BY-NC-SA-4.0 for
`aime_2026`, not stated for `aime_2024`; the problems are the Mathematical Association of America's.

HMMT (Harvard-MIT Mathematics Tournament): 30 problems, 33 in February 2026, with formulas as answers. Four answers to each problem,
as on the leaderboard of MathArena (avg@4). Licence: CC-BY-NC-SA-4.0.
"""

from regrade.benchmarks.questions.problems import BoxedProblems, IntegerProblems

MATH_ARENA = "https://arxiv.org/abs/2505.23281"
"""Balunović et al. 2025, MathArena: Evaluating LLMs on Uncontaminated Math Competitions."""
WIKI = "https://artofproblemsolving.com/wiki/index.php/"

TABLE = {
    "aime_2024": ("AIME 2024", "HuggingFaceH4/aime_2024", "train", f"{WIKI}2024_AIME_I"),
    "aime_2025": ("AIME 2025", "math-ai/aime25", "test", f"{WIKI}2025_AIME_I"),
    "aime_2026": ("AIME 2026", "MathArena/aime_2026", "train", MATH_ARENA),
    "hmmt_feb_2025": ("HMMT February 2025", "MathArena/hmmt_feb_2025", "train", MATH_ARENA),
    "hmmt_feb_2026": ("HMMT February 2026", "MathArena/hmmt_feb_2026", "train", MATH_ARENA),
    "hmmt_nov_2025": ("HMMT November 2025", "MathArena/hmmt_nov_2025", "train", MATH_ARENA),
}
"""Title, dataset, split and paper of each competition, by the benchmark's name."""


def benchmark(name: str) -> type[BoxedProblems]:
    """Return the benchmark of a competition."""
    title, dataset, problem_split, source = TABLE[name]
    is_aime = name.startswith("aime")
    base: type[BoxedProblems] = IntegerProblems if is_aime else BoxedProblems
    answers = "whole numbers from 0 to 999" if is_aime else "formulas"
    members = {
        "__doc__": f"{title}.",
        "name": name,
        "description": f"Problems of {title}, with {answers} as answers.",
        "paper": source,
        "hub_dataset": dataset,
        "split": problem_split,
        "long_thoughts": True,
        "repeats": 16 if is_aime else 4,
    }
    return type(title.replace(" ", ""), (base,), members)
