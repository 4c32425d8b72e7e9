"""Reader of Terminal-Bench's runs (https://github.com/laude-institute/terminal-bench): `runs/RUN/results.json`.

Newer runs are Harbor's. `run_metadata.json` beside it names model and agent. Agents that log their calls leave
`TASK/TRIAL/agent-logs/episode-N/prompt.txt` and `response.txt`, which are the trajectory.
"""

from regrade.exchange.importing.base import ImportedRow, ImportedSet, Reported, TableOptions
from regrade.exchange.importing.files import SourceFile, finite
from regrade.exchange.importing.messages import conversation
from regrade.exchange.importing.record import Json, Record
from regrade.exchange.importing.rewards import numbered, reward_scores, scored
from regrade.records.characters import whole_characters
from regrade.records.messages import Part, PartedMessage

RESULTS = "results.json"
_RUN = frozenset({"results", "n_resolved", "accuracy"})
_TRIAL = frozenset({"trial_name", "task_id", "instruction", "is_resolved"})
_SCORE = "is_resolved"
_NO_FAILURE = ("unset", "none", None)
_EPISODE = "episode-"


def is_run(document: Json) -> bool:
    """Return True for the results of a run."""
    return isinstance(document, dict) and document.keys() >= _RUN


def read(file: SourceFile, options: TableOptions) -> ImportedSet:
    """Read the trials of a run.

    Raises:
        ImportFileError: If there are none.
    """
    document = file.record(file.document)
    results = document.get("results")
    if not isinstance(results, list) or not results:
        raise file.error("'results' should be a list of trials.")
    about = file.facts("run_metadata.json")
    trials = [file.record(trial, row) for row, trial in enumerate(results)]
    rows = [
        _row(file, index, repeat, trial)
        for index, repeat, trial in numbered(trials, lambda trial: trial.text("task_id"))
    ]
    accuracy = finite(document.get("accuracy"))
    reported = None if accuracy is None else Reported(accuracy, n=len(rows))
    rows, originals = scored(file, rows, options, reported)
    return ImportedSet(
        rows,
        model=about.text("model_name") or about.text("agent_name"),
        benchmark=about.text("dataset_name") or "terminal-bench",
        n_samples=about.integer("dataset_size") or None,
        repeats=about.integer("n_attempts"),
        format="chat",
        recorded={
            "agent": about.text("agent_name"),
            "arguments": about.get("agent_kwargs"),
            "dataset": about.text("dataset_version"),
            "run": about.text("run_id"),
        },
        originals=originals,
    )


def _row(file: SourceFile, index: int, repeat: int, trial: Record) -> ImportedRow:
    task = whole_characters(str(trial.need("task_id")))
    instruction = trial.text("instruction")
    messages = _messages(file, task, trial.text("trial_name") or "")
    found = conversation(messages[:1], messages[1:])
    failure = trial.text("failure_mode")
    failed = None if failure in _NO_FAILURE else failure
    return ImportedRow(
        index=index,
        repeat=repeat,
        content=instruction or task,
        target=None,
        question=instruction,
        prompt=found.prompt,
        prompt_kind="messages",
        text=found.text,
        trajectory=found.trajectory or None,
        finish_reason=failed,
        completion_tokens=trial.integer("total_output_tokens"),
        error=failed if found.text is None else None,
        scores=reward_scores({_SCORE: trial.get(_SCORE)}),
    )


def _messages(file: SourceFile, task: str, trial: str) -> list[PartedMessage]:
    """Return prompts and responses of an agent's episodes."""
    logs = (task, trial, "agent-logs")
    episodes = [name for name in file.folders(*logs) if name.removeprefix(_EPISODE).isdecimal()]
    messages = []
    for episode in sorted(episodes, key=lambda name: int(name.removeprefix(_EPISODE))):
        for name, role in (("prompt.txt", "user"), ("response.txt", "assistant")):
            part = file.part(*logs, episode, name)
            if part is not None:
                messages.append(PartedMessage(role, (Part("text", part.text()),)))
    return messages
