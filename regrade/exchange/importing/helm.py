"""Reader of HELM's runs (https://github.com/stanford-crfm/helm): `runs/SUITE/RUN/scenario_state.json`.

`run_spec.json` of the same folder has the run's name, and `per_instance_stats.json` the metrics of each answer. Copies of questions that
HELM perturbed, with typing errors for example, are left out.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from regrade.exchange.importing.base import (
    ImportedRow,
    ImportedSet,
    OriginalScore,
    RowScore,
    TableOptions,
)
from regrade.exchange.importing.files import SourceFile, finite
from regrade.exchange.importing.record import Json, Record, as_json
from regrade.records.characters import whole_characters

_METRICS: Final = (
    *("exact_match", "quasi_exact_match", "prefix_exact_match", "quasi_prefix_exact_match"),
    *("final_number_exact_match", "math_equiv", "math_equiv_chain_of_thought", "f1_score"),
    *("chain_of_thought_correctness", "ifeval_strict_accuracy"),
)
"""Metrics of single answers from 0 to 1 that are imported. The others are named as left out."""
_Key = tuple[str, int]
"""Id of a question, and the number of the set of worked examples."""


def read(file: SourceFile, _: TableOptions) -> ImportedSet:
    """Read the answers, and their metrics if they lie in the same folder.

    Raises:
        ImportFileError: If the run ranked choices one by one, or measured a text, instead of generating answers.
    """
    document = file.record(file.document)
    spec = document.part("adapter_spec")
    states = document.get("request_states")
    if not isinstance(states, list) or not states:
        raise file.error("'request_states' should be a list of answers.")
    scores = _scores(file)
    rows, n_perturbed = [], 0
    places: dict[str, int] = {}
    answered: Counter[int] = Counter()
    for index, value in enumerate(states):
        state = file.record(value, index)
        if state.get("instance.perturbation") is not None:
            n_perturbed += 1
            continue
        if state.get("reference_index") is not None or spec.get("method") == "language_modeling":
            raise state.error(
                f"the method '{spec.get('method')}' generates no answers; only texts can be imported."
            )
        # A question asked again, with other worked examples, is the same one.
        place = places.setdefault(str(state.get("instance.id") or f"row {index}"), index)
        found = _rows(place, answered[place], state, scores)
        answered[place] += len(found)
        rows += found
    # Such as `mmlu:subject=anatomy,model=openai_gpt-4`.
    run = file.facts("run_spec.json").text("name") or file.path.parent.name
    name, arguments = run.partition(":")[::2]
    own = [part for part in arguments.split(",") if not part.startswith(("model=", "model_dep"))]
    names = dict.fromkeys(metric for row in rows for metric in row.scores)
    return ImportedSet(
        rows,
        model=spec.text("model") or spec.text("model_deployment"),
        benchmark=name or None,
        format="chat" if rows and rows[0].prompt_kind == "messages" else None,
        n_shots=spec.integer("max_train_instances"),
        config=",".join(filter(None, own)) or None,
        recorded={"adapter_spec": spec.value, "perturbed_left_out": n_perturbed},
        originals=tuple(OriginalScore(metric) for metric in names),
    )


def _scores(file: SourceFile) -> Mapping[_Key, Mapping[str, RowScore]]:
    stats = file.consult("per_instance_stats.json")
    if stats is None:
        return {}
    found: dict[_Key, dict[str, RowScore]] = {}
    for record in stats.rows:
        if record.get("perturbation") is not None:
            continue
        key = (str(record.get("instance_id")), record.integer("train_trial_index") or 0)
        for stat in record.parts("stats"):
            name, value = stat.get("name.name"), finite(stat.get("mean"))
            if value is None or not isinstance(name, str) or stat.get("name.perturbation"):
                continue
            if name in _METRICS:
                found.setdefault(key, {})[name] = RowScore(value)
            else:
                file.leave_out(f"metric {name}")
    return found


def _rows(
    index: int, first: int, state: Record, scores: Mapping[_Key, Mapping[str, RowScore]]
) -> list[ImportedRow]:
    trial = state.integer("train_trial_index") or 0
    question = state.text("instance.input.text")
    mapping = state.get("output_mapping")
    choices = (
        tuple(map(whole_characters, map(str, mapping.values())))
        if isinstance(mapping, dict)
        else ()
    )
    messages = state.get("request.messages")
    prompt = as_json(messages) if messages else state.text("request.prompt")
    completions = state.part("result").parts("completions")
    answers = completions or [Record({}, state.error)]
    error = None if completions else state.text("result.error") or "HELM has no completion of it"
    known = scores.get((str(state.get("instance.id")), trial), {})
    return [
        ImportedRow(
            index=index,
            repeat=repeat,
            content=question or prompt or f"row {index}",
            question=question or None,
            target=_target(state, choices),
            choices=choices,
            prompt=prompt,
            prompt_kind="messages" if messages else "text",
            text=answer.text("text"),
            reasoning=answer.text("thinking.text"),
            finish_reason=_finished(answer.get("finish_reason")),
            latency=finite(state.get("result.request_time")),
            error=error,
            scores=dict(known) if len(answers) == 1 else {},
        )
        for repeat, answer in enumerate(answers, first)
    ]


def _target(state: Record, choices: tuple[str, ...]) -> str | int | None:
    """Right answer, with choices its number; None if there are several or none."""
    right = [
        whole_characters(reference.text("output.text") or "")
        for reference in state.part("instance").parts("references")
        if _is_right(reference.get("tags"))
    ]
    if len(right) != 1:
        return None
    if choices:
        return choices.index(right[0]) if choices.count(right[0]) == 1 else None
    return right[0]


def _is_right(tags: Json) -> bool:
    return isinstance(tags, list) and "correct" in tags


def _finished(reason: Json) -> str | None:
    found = reason.get("reason") if isinstance(reason, dict) else None
    return (
        whole_characters({"endoftext": "stop"}.get(found, found))
        if isinstance(found, str)
        else None
    )
