"""Property test: for any value in any field, rows are built or a `UserError` names the file."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regrade.exchange.importing.base import Columns, FormatName, TableOptions
from regrade.exchange.importing.building import Names, build
from regrade.exchange.importing.files import SourceFile
from regrade.exchange.inspect_rows import KEY, kept_columns
from regrade.settings.errors import UserError
from tests.builders import row, specification
from tests.exchange.importing import (
    test_handbook,
    test_helm,
    test_inspect_log,
    test_lm_eval,
    test_mmlu_pro,
    test_table,
    test_zeroeval,
)
from tests.exchange.importing.test_harbor import STEPS, result
from tests.exchange.importing.test_lighteval import detail
from tests.exchange.importing.test_swe_bench import prediction
from tests.exchange.importing.test_terminal_bench import trial
from tests.exchange.importing.test_verifiers import episode, rollout, trace
from tests.exchange.importing.writing import document, sets

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.just("\ud800 \x1b[31m"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)
LOG = {**test_inspect_log.header(), "samples": [test_inspect_log.sample()]}
FACTS = {"specification": specification().model_dump(mode="json"), "scorers": ["number"]}
OF_A_ROW = kept_columns(row(0), test_inspect_log.sample())
OWN = {
    **test_inspect_log.header(eval={"metadata": {KEY: {**FACTS, "groups": {"all": ["even"]}}}}),
    "samples": [test_inspect_log.sample(metadata={KEY: OF_A_ROW})],
}
RANKED = {"target": "0", "resps": [[["-1", "False"]], [["-2", "False"]]], "arguments": {}}
CHAT = [{"role": "HUMAN", "prompt": "q"}]
FILES: list[tuple[FormatName, object]] = [
    ("lm-eval", [test_lm_eval.sample(0, "0", 1.0)]),
    ("lm-eval", [test_lm_eval.sample(0, "0", 1.0) | RANKED]),
    ("inspect", LOG),
    ("inspect", OWN),
    ("opencompass", {"0": {"origin_prompt": CHAT, "prediction": "a", "gold": "4"}}),
    ("zeroeval", [test_zeroeval.ROW]),
    ("helm", test_helm.scenario_of(test_helm.state())),
    ("mmlu-pro", [test_mmlu_pro.row("B")]),
    ("handbook", [test_handbook.ROW | {"accuracy": 2, "style": 3}]),
    ("lighteval", [detail(["4"])]),
    ("table", [test_table.ROW]),
    ("verifiers", [rollout()]),
    ("verifiers", [episode(trace())]),
    ("harbor", result(step_results=[{"step_name": "one"}])),
    ("terminal-bench", {"results": [trial("x", True)], "n_resolved": 1, "accuracy": 1.0}),
    ("swe-bench", [prediction(1)]),
    ("swe-bench", {"a__b-1": prediction(1)}),
    ("inspect", test_inspect_log.header() | {"samples": [test_inspect_log.agent()]}),
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    fields = dict(enumerate(value)) if isinstance(value, list) else value
    for key, field_value in fields.items() if isinstance(fields, dict) else ():
        yield from places(field_value, (*path, key))


def changed(content: object, data: st.DataObject) -> object:
    """The content with any value in one place."""
    copied = copy.deepcopy(content)
    *way, last = data.draw(st.sampled_from(list(places(content))))
    holder: Any = copied
    for step in way:
        holder = holder[step]
    holder[last] = data.draw(JSON)
    return copied


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_in_a_trajectory_beside_a_trial_is_kept_or_refused(
    tmp_path: Path, data: st.DataObject
):
    document(tmp_path / "agent" / "trajectory.json", changed({"steps": STEPS}, data))
    document(tmp_path / "result.json", result())
    try:
        [found] = sets("harbor", SourceFile(tmp_path / "result.json"))
        built = build(SourceFile(tmp_path / "result.json"), "harbor", found, Names())
    except UserError as error:
        says = str(error)
    else:
        built.table.validate(full=True)
        says = str(tmp_path)
    assert str(tmp_path) in says


@pytest.mark.parametrize(("name", "content"), FILES)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_in_any_field_is_kept_or_refused(
    tmp_path: Path, name: FormatName, content: object, data: st.DataObject
):
    path = document(tmp_path / "a.json", changed(content, data))
    columns = test_table.COLUMNS if name == "table" else Columns()
    try:
        [found, *_] = sets(name, SourceFile(path), TableOptions(columns, None))
        built = build(SourceFile(path), name, found, Names(model="m", benchmark="b"))
    except UserError as error:
        says = str(error)
    else:
        built.table.validate(full=True)
        says = f"{path} {built.description.specification.answer_set_id}"
    assert str(path) in says
