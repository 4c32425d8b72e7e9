"""IFBench: requests with 58 new kinds of instructions that a program can check, unlike those that models were trained on.

Paper:    Pyatkin et al. 2025, Generalizing Verifiable Instruction Following, https://arxiv.org/abs/2507.02833
Dataset:  https://huggingface.co/datasets/allenai/IFBench_test; 300 requests, with 1 or 2 instructions each
Revision: the newest commit, which becomes part of the specification
Licence:  ODC-BY-1.0

The request is sent as it is. The headline number is the share of requests whose instructions are all followed (prompt-level),
judged loosely: also without the first line, the last line or the asterisks of the answer, as in the paper.
"""

from regrade.benchmarks.ifeval import IfEval
from regrade.settings import SamplingParams, ScorerName


class IfBench(IfEval):
    """IFBench as chat: the request alone."""

    name = "ifbench"
    version = 1
    description = "Requests with unusual instructions that a program can check."
    paper = "https://arxiv.org/abs/2507.02833"
    scorers: tuple[ScorerName, ...] = ("ifbench",)
    hub_dataset = "allenai/IFBench_test"
    sampling = SamplingParams(temperature=0.0, max_tokens=2048)
    """Greedy decoding; some requests ask for long texts."""


benchmark = IfBench
