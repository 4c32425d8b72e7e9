"""IFEval: requests with instructions that a program can check, such as a number of words.

Paper:    Zhou et al. 2023, Instruction-Following Evaluation for Large Language Models, https://arxiv.org/abs/2311.07911
Dataset:  https://huggingface.co/datasets/google/IFEval; 541 requests, with 1 to 3 instructions each
Revision: the newest commit, which becomes part of the specification
Licence:  Apache-2.0

The request is sent as it is. The headline number is the share of requests whose instructions are all followed in the answer
as it stands (prompt-level, strict); the other three numbers are metrics of the scoring.
"""

import json
from collections.abc import Mapping
from typing import Any

from regrade.benchmarks.questions.samples import Question
from regrade.benchmarks.questions.standard import PublishedBenchmark
from regrade.benchmarks.questions.targets import RowError, question_text
from regrade.records import Sample
from regrade.settings import SamplingParams, ScorerName


class IfEval(PublishedBenchmark):
    """IFEval as chat: the request alone."""

    name = "ifeval"
    description = "Requests with instructions that a program can check, such as a number of words."
    paper = "https://arxiv.org/abs/2311.07911"
    scorers: tuple[ScorerName, ...] = ("ifeval",)
    hub_dataset, split = "google/IFEval", "train"
    columns = ("key", "prompt", "instruction_id_list", "kwargs")
    question_template = "{prompt}"
    """The unchanged request, whose white space may be part of an instruction."""
    sampling = SamplingParams(temperature=0.0, max_tokens=1280)
    """Greedy decoding with 1,280 tokens, as in lm-evaluation-harness."""

    def read_row(self, index: int, row: Mapping[str, Any]) -> Question:
        """Return a request with its instructions as `doc`; the target is a list of the instructions' names."""
        prompt = question_text(index, row["prompt"])
        instructions = read_instructions(index, row)
        given = [instruction["kwargs"] for instruction in instructions]
        return Question(
            content={"prompt": prompt, "kwargs": given},
            target=", ".join(str(instruction["id"]) for instruction in instructions),
            fields={"prompt": prompt},
            doc={"key": row["key"], "prompt": prompt, "instructions": instructions},
        )

    def question(self, sample: Sample) -> str:
        """Return the request."""
        return str(sample.fields["prompt"])


def read_instructions(index: int, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the instructions of a row, each with `id` and `kwargs`, as the scorers read them from `doc`.

    Raises:
        RowError: If names and arguments do not fit together.
    """
    names = row["instruction_id_list"]
    is_list = isinstance(names, list) and names and all(isinstance(name, str) for name in names)
    if not is_list:
        raise RowError(index, f"instruction_id_list is {names!r}; expected a list of names")
    arguments = row["kwargs"]
    if not isinstance(arguments, list) or len(arguments) != len(names):
        found = len(arguments) if isinstance(arguments, list) else repr(arguments)
        raise RowError(index, f"there are {len(names)} instructions, but kwargs is {found}")
    given = [_arguments(index, fields) for fields in arguments]
    return [
        {"id": name.strip(), "kwargs": kwargs} for name, kwargs in zip(names, given, strict=True)
    ]


def _arguments(index: int, arguments: object) -> dict[str, Any]:
    """Return the arguments of an instruction. A table has all names, with null for those without a value."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError as error:
            raise RowError(index, f"kwargs has {arguments!r}, which is no JSON") from error
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise RowError(index, f"kwargs has {arguments!r}; expected arguments by name")
    return {name: _whole(value) for name, value in arguments.items() if value is not None}


def _whole(value: object) -> object:
    """Return a number without decimals as an integer, because nulls turn a column of integers into floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


benchmark = IfEval
