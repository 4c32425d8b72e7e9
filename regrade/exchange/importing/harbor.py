"""Reader of Harbor's jobs (https://harborframework.com): `jobs/JOB/result.json`, or the `result.json` of trials without a job's.

A trial is an answer: its rewards are in its `result.json`, and what the agent did in `agent/trajectory.json`, in the Agent
Trajectory Interchange Format (ATIF). Agent, model and dataset of a job make an answer set.
"""

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any

from regrade.exchange.importing.base import ImportedRow, ImportedSet, Reported, TableOptions
from regrade.exchange.importing.files import ImportFileError, SourceFile, finite
from regrade.exchange.importing.messages import (
    Conversation,
    Files,
    conversation,
    no_files,
    read_messages,
    split,
)
from regrade.exchange.importing.record import Json, Record
from regrade.exchange.importing.rewards import numbered, reward_scores, scored
from regrade.records.characters import whole_characters
from regrade.records.images import LARGEST
from regrade.records.messages import Part, PartedMessage

RESULT = "result.json"
_TRAJECTORY = "trajectory.json"
_MOST_CONTINUATIONS = 100
_JOB = frozenset({"n_total_trials", "stats"})
_TRIAL = frozenset({"trial_name", "task_name", "agent_info", "task_checksum"})
_ROLES = {"agent": "assistant", "user": "user", "system": "system"}
_Trial = tuple[Record, Conversation]
"""Result of a trial, and what the agent did."""


def is_job(document: Json) -> bool:
    """Return True for the result of a job or of a trial."""
    return _has(document, _JOB) or _has(document, _TRIAL)


def _has(document: Json, fields: frozenset[str]) -> bool:
    return isinstance(document, dict) and document.keys() >= fields


def is_part(file: SourceFile) -> bool:
    """Return True for a trial that is imported with its job, or with the first trial of the same folder."""
    if not _has(file.document, _TRIAL):
        return False
    jobs = file.path.parent.parent
    if (jobs / RESULT).is_file():
        return True
    others = sorted(path for path in jobs.glob(f"*/{RESULT}") if path.is_file())
    return bool(others) and others[0] != file.path and _is_trial(SourceFile(others[0]))


def _is_trial(file: SourceFile) -> bool:
    try:
        return _has(file.document, _TRIAL)
    except ImportFileError:
        return False


def read(file: SourceFile, options: TableOptions) -> list[ImportedSet]:
    """Read the trials of a job, or a trial and those beside it.

    Raises:
        ImportFileError: If there is no trial, or one cannot be read.
    """
    document = file.record(file.document)
    job = document if set(document.names) >= _JOB else None
    trials = list(_job_trials(file) if job is not None else _trials_beside(file))
    if not trials:
        raise file.error(f"no folder beside it has the '{RESULT}' of a trial.")
    groups: dict[tuple[str, str, str], list[_Trial]] = {}
    for trial, did in sorted(trials, key=_begin):
        agent = trial.part("agent_info")
        model = "/".join(
            filter(None, (agent.text("model_info.provider"), agent.text("model_info.name")))
        )
        name = agent.text("name") or "agent"
        group = (name, model or name, trial.text("source") or "harbor")
        groups.setdefault(group, []).append((trial, did))
    return [_set(file, options, job, *group, found) for group, found in groups.items()]


def _begin(trial: _Trial) -> tuple[str, str]:
    return trial[0].text("started_at") or "", trial[0].text("trial_name") or ""


def _job_trials(file: SourceFile) -> Iterator[_Trial]:
    for folder in file.folders():
        found = file.part(folder, RESULT)
        if found is not None:
            yield _trial(file, found, (folder,))


def _trials_beside(file: SourceFile) -> Iterator[_Trial]:
    """Yield the trial of a file; with those of the folders beside it if the file is the first of them."""
    yield _trial(file, file, ())
    if is_part(file):
        return
    for path in sorted(file.path.parent.parent.glob(f"*/{RESULT}")):
        other = file.other(path)
        if path != file.path and not path.parent.is_symlink() and _is_trial(other):
            yield _trial(other, other, ())
            file.parts += [path, *other.parts]


def _trial(root: SourceFile, file: SourceFile, folder: tuple[str, ...]) -> _Trial:
    record = file.record(file.document)
    steps = [step.text("step_name") or "" for step in record.parts("step_results")]
    places = [(*folder, "steps", step, "agent") for step in steps] or [(*folder, "agent")]
    documents = [
        (document, partial(_image, root, place))
        for place in places
        for document in _documents(root, place)
    ]
    messages = [m for document, images in documents for m in _messages(document, images)]
    return record, conversation(*split(messages))


def _documents(root: SourceFile, place: tuple[str, ...]) -> Iterator[Record]:
    """Yield the trajectory in a folder, and the files that continue it."""
    name: str | None = _TRAJECTORY
    for _ in range(_MOST_CONTINUATIONS):
        file = None if name is None else root.part(*place, name)
        if file is None:
            return
        document = file.record(file.document)
        yield document
        name = document.text("continued_trajectory_ref")


def _image(root: SourceFile, place: tuple[str, ...], address: str) -> bytes | None:
    """Return the content of an image at a path that begins in the folder of a trajectory; None if there is none."""
    file = root.part(*place, *address.split("/"), hashed=False)
    return None if file is None or file.path.stat().st_size > LARGEST else file.content()


def _messages(document: Record, images: Files) -> Iterator[PartedMessage]:
    """Yield the messages of a trajectory, with the images that its user shows."""
    for step in document.parts("steps"):
        if step.get("is_copied_context") is True:
            continue
        source = step.text("source") or ""
        message: dict[str, Any] = {
            "role": _ROLES.get(source, source),
            "content": step.get("message"),
            "reasoning_content": step.get("reasoning_content"),
            "tool_calls": [
                {
                    "id": call.get("tool_call_id"),
                    "name": call.get("function_name"),
                    "arguments": call.get("arguments"),
                }
                for call in step.parts("tool_calls")
            ],
        }
        names = {
            call["id"]: call["name"]
            for call in message["tool_calls"]
            if isinstance(call["id"], str)
        }
        results = [
            {
                "role": "tool",
                "content": result.get("content"),
                "tool_call_id": result.get("source_call_id"),
                "name": names.get(result.text("source_call_id") or ""),
            }
            for result in step.part("observation").parts("results")
        ]
        files = images if source == "user" else no_files
        said, *observed = read_messages([message, *results], step, files=files)
        yield said
        parts: tuple[Part, ...] = tuple(part for result in observed for part in result.parts)
        if parts:
            yield PartedMessage("tool", parts)


def _set(
    file: SourceFile,
    options: TableOptions,
    job: Record | None,
    agent: str,
    model: str,
    source: str,
    trials: list[_Trial],
) -> ImportedSet:
    rows = [
        _row(index, repeat, *trial)
        for index, repeat, trial in numbered(trials, lambda trial: trial[0].text("task_name"))
    ]
    named = trials[0][0].text("agent_info.model_info.name") or ""
    rows, originals = scored(file, rows, options, _reported(job, agent, named, source))
    return ImportedSet(
        rows,
        model=whole_characters(model),
        benchmark=source,
        format="chat",
        recorded={"agent": trials[0][0].part("agent_info").value, "job": _name(file, job)},
        originals=originals,
    )


def _name(file: SourceFile, job: Record | None) -> str:
    return (file.path.parent if job is not None else file.path.parent.parent).name


def _reported(job: Record | None, agent: str, model: str, source: str) -> Reported | None:
    """Mean reward that the job reports for an agent, a model and a dataset."""
    stats = None if job is None else job.get("stats.evals")
    if not isinstance(stats, dict):
        return None
    keys = (
        f"{agent}__{model}__{source}",
        f"{agent}__{source}",
    )  # Harbor's `format_agent_evals_key`
    found: dict[str, Any] = next(
        (stats[key] for key in keys if isinstance(stats.get(key), dict)), {}
    )
    metrics = found.get("metrics")
    means = (
        [m.get("mean") for m in metrics if isinstance(m, dict)] if isinstance(metrics, list) else []
    )
    mean = next((number for value in means if (number := finite(value)) is not None), None)
    return None if mean is None or not 0 <= mean <= 1 else Reported(mean)


def _row(index: int, repeat: int, trial: Record, did: Conversation) -> ImportedRow:
    task = whole_characters(str(trial.need("task_name")))
    rewards = trial.get("verifier_result.rewards")
    exception = trial.text("exception_info.exception_type")
    message = trial.text("exception_info.exception_message")
    return ImportedRow(
        index=index,
        repeat=repeat,
        content=task,
        target=None,
        question=did.question or task,
        prompt=did.prompt,
        prompt_kind="messages",
        text=did.text,
        trajectory=did.trajectory or None,
        images=did.images,
        finish_reason=exception,
        completion_tokens=trial.integer("agent_result.n_output_tokens"),
        latency=_seconds(trial),
        error=f"{exception}: {message or ''}"[:2000] if exception and did.text is None else None,
        scores=reward_scores(rewards if isinstance(rewards, dict) else {}),
    )


def _seconds(trial: Record) -> float | None:
    ends = [trial.text(f"agent_execution.{end}") for end in ("started_at", "finished_at")]
    try:
        begin, end = (datetime.fromisoformat((t or "").replace("Z", "+00:00")) for t in ends)
        return (end - begin).total_seconds()
    except (ValueError, TypeError):  # absent, or one of them without a time zone
        return None
