"""Scorer `code`: runs the program in an answer against the question's tests, in a sandbox.

The score of an answer is 1 if its program passes all tests. Where the tests have groups, such as `base` and `plus`, each has
its own result too (a group is passed if those before it are). How programs are run: docs/code.md.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version as installed_version
from typing import Literal

import orjson
import pyarrow as pa

from regrade.processes.limited import available_cores, free_memory
from regrade.processes.sandbox.calling import Verdict
from regrade.processes.sandbox.interpreter import PACKAGES, find_interpreter
from regrade.processes.sandbox.limits import Limits
from regrade.processes.sandbox.running import Runner
from regrade.processes.sandbox.sandbox import Sandbox, open_backend, open_sandbox
from regrade.records.columns import SCORING_SCHEMA
from regrade.scorers.base import NEXT_QUESTION, PROMPT_FORMAT, TargetKind, answer_part
from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.pieces import Pieces, characters
from regrade.scorers.programs.hidden import hidden_cases
from regrade.scorers.programs.reading import Program, read_program
from regrade.scorers.programs.task import CasesOf, Task, read_task, sources
from regrade.scorers.sessions import BatchScore, ScoringContext, Unit
from regrade.settings import ScorerName, ScoringOptions
from regrade.stats.named import Aggregate

logger = logging.getLogger(__name__)
LIMITS = Limits()
_HEADING = (
    r"\n(?:#{2,6} *\**(?:Question|Problem|Instructions?|Task|Exercise|Human|User)\b|(?:Question|Problem|Exercise)(?: [0-9]+)?:|Q:"
    r"|(?:Human|User|Instruction):|\[INST\])"
)
"""Begin of another question after a completion, if the prompt's template has no heading: no comment such as `# Input`, and no line
within a docstring, such as an indented `Example:`."""
_NOTHING = r"[^\x00-\x{10FFFF}]"
"""Pattern that no text has: a program in a chat ends with its block."""


@dataclass(frozen=True, slots=True)
class Job:
    """A program to run: answers with the same program to the same question share a job."""

    sample: str
    doc: str
    program: str


class Code:
    """Runs the program of an answer against the tests of its question."""

    name: ScorerName = "code"
    version = 4
    description = (
        "The program in the answer, run against the question's tests in a sandbox: the last fenced block that defines "
        "what is tested, else the last one that says that it is Python, else the last one without a language."
    )
    unparsed = "Answers without a program."
    targets: TargetKind = "text"
    columns = ("text", "doc")
    unit: Unit = "rows"
    votes = False
    code = ("regrade.processes.sandbox",)

    def environment(self, options: ScoringOptions) -> Mapping[str, str]:
        """Return sandbox, Python, packages and limits.

        Raises:
            SandboxError: If the sandbox is not installed, or no Python can run in it.
        """
        interpreter = find_interpreter()
        open_backend(options.sandbox, interpreter, LIMITS)  # fails if it is not installed
        packages = {name: installed_version(name) for name in PACKAGES if interpreter.packages}
        return {
            "sandbox": options.sandbox,
            "python": interpreter.version,
            **packages,
            "limits": LIMITS.description,
        }

    @contextmanager
    def session(self, context: ScoringContext) -> Iterator[BatchScore]:
        """Open the sandbox, test that it holds, and yield the function that scores a batch."""
        processes = _at_once(context.options.processes or available_cores())
        with (
            open_sandbox(context.options.sandbox, limits=LIMITS, processes=processes) as sandbox,
            Workers(sandbox, processes, hidden_cases(context)) as workers,
        ):
            yield lambda batch: _score(batch, workers)

    def aggregates(
        self,
        scores: pa.Table,  # noqa: ARG002
        context: ScoringContext,  # noqa: ARG002
    ) -> Sequence[Aggregate]:
        """Return (): all results are means."""
        return ()


def _at_once(processes: int) -> int:
    """Return how many programs run at the same time: as many as the free memory holds if all of them use what they may."""
    fit = max(1, free_memory() // LIMITS.all_bytes)
    if fit < processes:
        logger.warning(
            "%d programs run at the same time instead of %d: the free memory holds no more if each uses all that it may.",
            *(fit, processes),
        )
    return min(fit, processes)


class Workers:
    """Threads that run jobs, each with a `Runner` of its own. A job that ran out of time runs once more, alone."""

    def __init__(self, sandbox: Sandbox, processes: int, cases_of: CasesOf) -> None:
        self._sandbox, self._cases_of = sandbox, cases_of
        self._pool = ThreadPoolExecutor(processes, "code")
        self._local = threading.local()
        self._runners = ExitStack()
        self._lock = threading.Lock()

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._runners.close()

    def run(self, jobs: Sequence[Job]) -> dict[Job, list[Verdict]]:
        """Return the verdict of each group of tests, up to the first that is not passed."""
        done = dict(zip(jobs, self._pool.map(self._run, jobs), strict=True))
        for job, verdicts in done.items():
            if verdicts[-1] == "timeout":
                done[job] = self._pool.submit(self._run, job).result()
        return done

    def _run(self, job: Job) -> list[Verdict]:
        task = read_task(job.sample, job.doc)
        parts = sources(task, job.program)
        if task.tests:
            return self._runner.run_tests(parts, task.suites)
        if task.question is not None:
            task = self._cases_of(task.question)
        return [run_cases(self._runner, parts, task)]

    @property
    def _runner(self) -> Runner:
        if not hasattr(self._local, "runner"):
            runner = Runner(self._sandbox)
            with self._lock:
                self._runners.enter_context(runner)
            self._local.runner = runner
        return self._local.runner  # type: ignore[no-any-return]


def run_cases(runner: Runner, parts: Sequence[str], task: Task) -> Verdict:
    """Run a program with each input of a task."""
    expected = [case.output for case in task.cases]
    if task.function is None:
        inputs = [str(case.input).encode() for case in task.cases]
        return runner.run_scripts(parts, inputs, [str(output) for output in expected])
    calls = [(task.function, case.input) for case in task.cases]
    return runner.run_calls(parts, calls, expected, deep=task.deep)


def _answers(batch: pa.RecordBatch) -> Pieces:
    """Return the answers; see `answer_part`. A heading that a program may have as comment or in a docstring ends none."""
    columns = {name: batch[name] for name in batch.schema.names}
    kind, heading, cue = (
        str(columns[name][0]) if name in columns and batch.num_rows else ""
        for name in (PROMPT_FORMAT, *NEXT_QUESTION)
    )
    if not heading:
        heading = _HEADING if kind == "completion" else _NOTHING
    for name, text in zip(NEXT_QUESTION, (heading, cue), strict=True):
        columns[name] = pa.repeat(text, batch.num_rows)
    return answer_part(pa.record_batch(columns))


def _indented(text: str, start: int, end: int) -> dict[str, object]:
    """Return an answer and its first character, with the indentation that `answer_part` drops where it ends an answer."""
    first = len(text[:start].rstrip(" \t"))
    return {"answer": text[first:end], "first": first}


def _score(batch: pa.RecordBatch, workers: Workers) -> pa.RecordBatch:
    first, end = characters(c.column(batch, "text"), _answers(batch))
    rows = [
        {**row, "answer": None, "first": 0}
        if start is None or end is None
        else {**row, **_indented(row["text"], start, end)}
        for row, start, end in zip(
            batch.to_pylist(), first.to_pylist(), end.to_pylist(), strict=True
        )
    ]
    programs: list[Program | None] = []
    jobs: list[Job | None] = []
    for row in rows:
        program = None
        if row["error"] is None:
            task = read_task(row["sample_id"], row["doc"])
            if row["answer"] is not None:
                is_completion = row.get(PROMPT_FORMAT) == "completion"
                program = read_program(row["answer"], task.defined, is_completion=is_completion)
        programs.append(program)
        jobs.append(None if program is None else Job(row["sample_id"], row["doc"], program.source))
    verdicts = workers.run(list(OrderedDict.fromkeys(job for job in jobs if job is not None)))
    scored = [
        _row(row, program, None if job is None else verdicts[job])
        for row, program, job in zip(rows, programs, jobs, strict=True)
    ]
    return pa.RecordBatch.from_pylist(scored, schema=SCORING_SCHEMA)


def _row(
    row: Mapping[str, object], program: Program | None, verdicts: Sequence[Verdict] | None
) -> dict[str, object]:
    outcome: Literal["failed", "unparsed", "timeout", "scored"] = "scored"
    if row["error"] is not None:
        outcome = "failed"
    elif verdicts is None:
        outcome = "unparsed"
    elif verdicts[-1] == "timeout":
        outcome = "timeout"
    right = verdicts is not None and verdicts[-1] == "passed"
    first = row["first"] if isinstance(row["first"], int) else 0
    groups = () if outcome == "failed" else _groups(row)
    passed = [verdict == "passed" for verdict in verdicts or ()]
    metrics = {
        name: float(number < len(passed) and passed[number]) for number, name in enumerate(groups)
    }
    return {
        **{name: row[name] for name in ("sample_id", "repeat", "subset")},
        "value": None if outcome == "failed" else float(right),
        "extracted": program and program.source,
        "start": program and first + program.start,
        "end": program and first + program.end,
        "outcome": outcome,
        "truncated": row["finish_reason"] == "length",
        "metrics": orjson.dumps(metrics).decode() if len(metrics) > 1 else None,
    }


def _groups(row: Mapping[str, object]) -> Sequence[str]:
    task = read_task(str(row["sample_id"]), str(row["doc"]))
    return tuple(test.name for test in task.tests)


scorer = Code
