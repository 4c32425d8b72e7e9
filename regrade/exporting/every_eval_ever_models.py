"""Models in Every Eval Ever: the one that answered, and the one that judged."""

from collections.abc import Iterator
from typing import Any

from regrade.answers.manifest import Session
from regrade.errors import RepositoryError, SettingsError
from regrade.exporting.scored import ScoredSet
from regrade.judging.readings import judged_answers
from regrade.rubrics.facts import JudgeRun
from regrade.specification import ModelIdentity


def model_info(model: ModelIdentity, session: Session | None) -> dict[str, Any]:
    """Return a model, with the engine of a session; None: the engine is not known."""
    details = texts(
        deployment_type="self_deployed" if model.kind in ("hub", "local") else "unknown",
        model_availability="unknown",
        kind=model.kind,
        revision=model.revision,
        quantization=model.quantization,
    )
    if model.adapter is not None:
        details["adapter"] = f"{model.adapter.name}@{model.adapter.revision}"
    found: dict[str, Any] = {"name": model.name, "id": model.name, "additional_details": details}
    if "/" in model.name:
        found["developer"] = model.name.split("/")[0]
    if session is not None:
        version = session.engine_version or "unknown"
        found["inference_engine"] = {"name": session.engine, "version": version}
    return found


def llm_scoring(scored: ScoredSet, run: JudgeRun) -> dict[str, Any]:
    """Return the judge with its rubric, and what people's labels say about all of its verdicts."""
    manifest, spec = scored.answers.manifest, scored.answers.manifest.specification
    session = manifest.sessions[-1] if manifest.sessions else None
    judge: dict[str, Any] = {"model_info": model_info(spec.model, session)}
    if spec.sampling is not None:
        judge["temperature"] = spec.sampling.temperature
    return {
        "judges": [judge],
        "input_prompt": spec.prompt.template,
        "additional_details": texts(
            rubric=run.rubric.name,
            rubric_source=run.rubric.source or None,
            rubric_sha256=run.rubric.sha256,
            verdicts_per_answer=run.judge_repeats * run.parts,
            baseline=run.baseline.model if run.baseline else None,
            by_labels_of_people=scored.by_labels,
        ),
    }


def answer_rows(scored: ScoredSet) -> Iterator[dict[str, Any]]:
    """Yield the rows of a scored set; of verdicts, with the judged answer in place of the judge's prompt and reply.

    None if the judged answers are not in this repository, or were changed since.
    """
    run = scored.run
    if run is None:
        yield from scored.rows()
        return
    try:
        judged = judged_answers(scored.answers)
    except (SettingsError, RepositoryError):
        return
    for row in scored.rows():
        given = judged[row["sample_id"], run.place(row["repeat"])[0]]
        about_reply = dict.fromkeys(_OF_THE_REPLY)
        yield row | about_reply | {"text": given.answer, "target": given.reference}


_OF_THE_REPLY = (
    "prompt",
    "prompt_kind",
    "reasoning",
    "finish_reason",
    "prompt_tokens",
    "completion_tokens",
    "time_to_first_token",
    "latency",
)
"""Columns of a verdict that are about the judge's reply."""


def texts(**values: object) -> dict[str, str]:
    """Return the known values as texts, which the format wants for all further details."""
    return {name: str(value) for name, value in values.items() if value is not None}
