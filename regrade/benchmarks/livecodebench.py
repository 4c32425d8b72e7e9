"""LiveCodeBench: problems of programming contests, release v6, all dates.

Paper:    Jain et al. 2024, LiveCodeBench, https://arxiv.org/abs/2403.07974
Dataset:  https://huggingface.co/datasets/lighteval/code_generation_lite (config `release_v6`), the data of
          https://huggingface.co/datasets/livecodebench/code_generation_lite, which needs its script to be run; 1,055 problems
          from May 2023 to April 2025
Licence:  MIT for the code; the problems belong to the contests (LeetCode, AtCoder, Codeforces)

The release and the dates are part of the benchmark's identity. `livecodebench_2408_2505` has the contests from August 2024 to May
2025, `livecodebench_240801_250201` those from 1 August 2024 to 1 February 2025, a window of cards that quote release v5, whose
problems release v6 contains. Any other two months or days may stand there. Results are also shown by difficulty. 10 answers per question at temperature 0.2, as in the paper;
pass@k follows from them.

The tests of all problems are gigabytes. They are not stored with the answers: scoring reads them from the dataset, at the
commit from which the questions came, or from the same file (`regrade score --source`).
"""

import json
from calendar import monthrange
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from regrade.benchmarks.questions.contest_tests import ContestTestsError, contest_cases
from regrade.benchmarks.questions.problems import checked_doc, text_of
from regrade.benchmarks.questions.reading import Source
from regrade.benchmarks.questions.samples import Question
from regrade.benchmarks.questions.sources import LocalSource, open_hub
from regrade.benchmarks.questions.standard import PublishedBenchmark
from regrade.benchmarks.questions.targets import RowError
from regrade.records import Sample
from regrade.records.specification import BenchmarkIdentity
from regrade.scorers.programs.task import Case, CasesOf, Task
from regrade.settings import SamplingParams, ScorerName
from regrade.settings.errors import SettingsError, SourceError

INSTRUCTION = "Solve the following programming problem in Python."
FUNCTION = "Complete the code below, and answer with the complete program in one Markdown code block.\n\n```python\n{starter}\n```"
SCRIPT = (
    "The program reads the input from standard input and prints the answer to standard output. Do not run it on the examples. "
    "Answer with the complete program in one Markdown code block."
)


class LiveCodeBench(PublishedBenchmark):
    """LiveCodeBench as chat: the problem, and the starter code of problems that ask for a function."""

    name = "livecodebench"
    description = "Problems of programming contests, May 2023 to April 2025 (LiveCodeBench v6)."
    paper = "https://arxiv.org/abs/2403.07974"
    scorers: tuple[ScorerName, ...] = ("code",)
    repeats = 10
    long_thoughts = True
    hub_dataset, config, split = "lighteval/code_generation_lite", "release_v6", "test"
    first_day: date | None = None
    """First day of the contests, included; None: no limit."""
    last_day: date | None = None
    """Last day of the contests, included; None: no limit."""
    columns = (
        *("question_id", "question_content", "starter_code"),
        *("contest_date", "difficulty", "metadata"),
    )
    question_template = f"{INSTRUCTION}\n\n{{question}}\n\n{{form}}"
    sampling = SamplingParams(temperature=0.2, top_p=0.95, max_tokens=8192)
    """Temperature 0.2 and top-p 0.95, as in the paper, with more room than its 2,000 tokens."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Release, and the dates of the contests."""
        return {
            "release": self.config,
            "first_day": self.first_day and self.first_day.isoformat(),
            "last_day": self.last_day and self.last_day.isoformat(),
        }

    def reason_left_out(self, row: Mapping[str, Any]) -> str | None:
        """Return the reason to leave a problem out: its contest was outside of the window."""
        day = _day(0, row["contest_date"])
        if (self.first_day and day < self.first_day) or (self.last_day and day > self.last_day):
            return f"no contest between {self.first_day or 'the first day'} and {self.last_day or 'the last day'}"
        return None

    def read_row(self, index: int, row: Mapping[str, Any]) -> Question:
        """Return a problem; there is no target, but hidden tests."""
        name, starter = text_of(index, row, "question_id"), row["starter_code"] or ""
        question, function = text_of(index, row, "question_content"), _function(index, row)
        if function and "class Solution" in starter:
            function = f"Solution.{function}"
        return Question(
            content={"question_id": name, "question": question},
            target="",
            subset=text_of(index, row, "difficulty"),
            fields={"question": question, "starter": starter.rstrip()},
            doc=checked_doc(
                index, function=function, imports="competition", question=name, deep=False
            ),
        )

    def question(self, sample: Sample) -> str:
        """Return the problem as it appears in the prompt."""
        starter = sample.fields["starter"]
        form = FUNCTION.replace("{starter}", starter) if starter else SCRIPT
        text = self.question_template.replace("{form}", form)
        return text.replace("{question}", sample.fields["question"].strip())

    @classmethod
    def cases_of(cls, identity: BenchmarkIdentity, path: str | None) -> CasesOf:
        """Return the function that gives the task of a question, with its public and private tests.

        Args:
            identity: Identity of the questions: the tests come from the same revision.
            path: File or folder with the questions, if they did not come from the Hub.

        Raises:
            SettingsError: If the questions came from a file, and none is given.
            SourceError: If the source is missing, or holds other questions.
        """
        source: Source
        if identity.source != "local":
            source = open_hub(
                identity.name, identity.source, identity.config, identity.source_revision
            )
        elif path is None:
            raise SettingsError(
                f"The questions of benchmark '{identity.name}' came from a file, and their tests are too large to be stored "
                f"with the answers. Give the same file to score them: `--source {identity.name}=PATH`."
            )
        else:
            source = LocalSource(identity.name, path, identity.split)
            if source.revision((identity.split,)) != identity.source_revision:
                raise SourceError(
                    identity.name,
                    path,
                    "its content is not that of the file from which the questions came",
                )
        columns = ("question_id", "public_test_cases", "private_test_cases", "metadata")
        rows = source.table(identity.split, columns)
        ids = source.rows(identity.split, ("question_id",))
        places = {str(row["question_id"]): place for place, row in enumerate(ids)}

        def cases(question: str) -> Task:
            if question not in places:
                raise source.error(f"it has no question '{question}'")
            place = places[question]
            row = rows[place]
            try:
                return contest_task(place, row)
            except (RowError, ContestTestsError) as error:
                raise source.error(f"question '{question}': {error}") from error

        return cases


def contest_task(index: int, row: Mapping[str, Any]) -> Task:
    """Return the task of a row, with its public and private tests.

    Raises:
        RowError: If the metadata cannot be read.
        ContestTestsError: If the tests cannot be read, or there are none.
    """
    function = _function(index, row)
    tests = contest_cases(row, is_function=function is not None)
    return Task(
        function=function and f"Solution.{function}",
        imports="competition",
        deep=False,
        cases=tuple(Case(input=given, output=expected) for given, expected in tests),
    )


def _function(index: int, row: Mapping[str, Any]) -> str | None:
    """Return the name of the function that a problem asks for; None for a program that reads its input."""
    metadata = row["metadata"]
    try:
        content = json.loads(metadata) if isinstance(metadata, str) else metadata
        name = (content or {}).get("func_name")
    except (ValueError, AttributeError) as error:
        raise RowError(
            index, f"metadata is {str(metadata)[:100]!r}; expected a JSON object"
        ) from error
    return str(name) if name else None


def _day(index: int, value: object) -> date:
    """Return the day of a contest from a date, a time or an ISO text."""
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    try:
        return datetime.fromisoformat(str(value)).date()
    except ValueError as error:
        raise RowError(index, f"contest_date is {value!r}; expected a date") from error


def benchmark(name: str) -> type[LiveCodeBench]:
    """Return LiveCodeBench, or the part of it between the two months (YYMM) or days (YYMMDD) in the name.

    Raises:
        SettingsError: If the name has no such dates.
    """
    first, _, last = name.removeprefix(LiveCodeBench.name).removeprefix("_").partition("_")
    if not first:
        return LiveCodeBench
    begin, end = _limit(name, first), _limit(name, last, is_end=True)
    if begin > end:
        raise SettingsError(f"Benchmark '{name}' ends before it begins.")
    form = ("%B %Y", "%d %B %Y")
    window = " to ".join(
        f"{day:{form[len(text) == 6]}}".lstrip("0") for text, day in ((first, begin), (last, end))
    )
    members = {
        "__doc__": f"LiveCodeBench, {window}.",
        "name": name,
        "description": f"Problems of programming contests, {window} (LiveCodeBench v6).",
        "first_day": begin,
        "last_day": end,
    }
    return type(f"LiveCodeBench{first}To{last}", (LiveCodeBench,), members)


def _limit(name: str, text: str, *, is_end: bool = False) -> date:
    year, month, day = 2000 + int(text[:2]), int(text[2:4]), int(text[4:] or 1)
    try:
        if is_end and len(text) == 4:
            day = monthrange(year, month)[1]
        return date(year, month, day)
    except ValueError as error:
        raise SettingsError(
            f"Benchmark '{name}': '{text}' is no month (YYMM) or day (YYMMDD)."
        ) from error
