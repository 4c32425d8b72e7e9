"""Refusals come before any server starts, and name the option, or the key in the file."""

from pathlib import Path

import pytest

from regrade.cli import flow_run as running
from regrade.cli.main import run
from regrade.cli.run import EvaluateOptions
from tests.command_line import DEMO
from tests.lm_eval.rows import tasks_of_folders

MODEL = str(DEMO / "regrade-demo")


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch):
    """Fail if a server is started or a flow begins."""

    def started(*_: object, **__: object) -> None:
        raise AssertionError("too late")

    monkeypatch.setattr(running, "prefect_server", started)
    monkeypatch.setattr(running, "flow_result", started)


@pytest.fixture(autouse=True)
def small_index(monkeypatch: pytest.MonkeyPatch):
    """The index of all tasks takes seconds to build."""
    monkeypatch.setattr("regrade.lm_eval.index._installed", tasks_of_folders)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            "evaluate --benchmark gsm8k",
            "`--model` is missing. Parameters may also be in a `--config` file.",
        ),
        ("plan", "MODEL is missing."),
        ("evaluate --model m", "nothing to evaluate: choose a benchmark (`--benchmark`)"),
        ("evaluate --model m --benchmark gsm8", "Did you mean 'gsm8k'?"),
        ("evaluate --model m --benchmark gsm8k --scorer numbr", "Did you mean 'number'?"),
        pytest.param(  # reads all tasks of the harness, in seconds; tests/lm_eval/test_requests.py reads some
            "evaluate --model m --benchmark lm_eval:arc_chalenge",
            "Did you mean 'arc_challenge'",
            marks=pytest.mark.slow,
        ),
        (
            "tune --model m --benchmark gsm8k --ttft-p99 -1",
            "`--ttft-p99` should be above 0, not -1",
        ),
        ("generate --model m --benchmark gsm8k --limit 0", "`--limit` should be 1 or more, not 0"),
        ("evaluate --model ./nope --benchmark gsm8k", "there is no folder 'nope'"),
        (f"evaluate --model {MODEL} --benchmark gsm8k --repeats 3", "`--repeats 3`: "),
        ("evaluate --model org/m --benchmark gsm8k --repeats 3 --temperature 0", "`--repeats 3`"),
        ("evaluate --model org/m --benchmark gsm8k --source gsm8k=nowhere.csv", "nowhere.csv"),
        (
            "evaluate --model m --engine openai --base-url x --benchmark gsm8k",
            "`--base-url` should be an address that begins with `http://`",
        ),
        ("evaluate --model m --base-url http://x/v1", "needs `--engine openai`"),
        ("evaluate --model m --engine openai --timeout -1", "`--timeout` should be above 0"),
        ("evaluate --model m --engine openai --max-retries -1", "`--max-retries` should be 0"),
        ("evaluate --model m --engine openai --engine.dtype auto", "not take `--engine.dtype`"),
        ("evaluate --model m --benchmark gsm8k --source gsm8k", "should be `BENCHMARK=PATH`"),
        ("evaluate --model org/m --benchmark gsm8k --metrics-port 70000", "`--metrics-port 70000`"),
        ("evaluate --model org/m --benchmark gsm8k --judge m", "names a rubric for a judge"),
        (
            "evaluate --model org/m --benchmark hle --judge m --rubric corect",
            "Did you mean 'correct'?",
        ),
        ("promote m --alias", "`--alias` needs a value"),
        ("judge 1f --model=m", "`--judge` names the models that judge"),
        ("score --stale --force", "`--stale`"),
        ("score --scorer numbr", "Did you mean 'number'?"),
        (
            "score --since yesterday",
            "`--since` should be a day, such as 2026-11-30, not 'yesterday'",
        ),
        ("score --processes 0", "`--processes`"),
        ("score --answers nowhere", "nowhere"),
    ],
)
def test_a_wrong_setting_is_refused_at_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    says: str,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    assert run(arguments.split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("regrade: ")
    assert says in line


@pytest.mark.parametrize(
    ("command", "content", "says"),
    [
        (
            "evaluate",
            "benchmark: gsm8k",
            "Unknown parameter 'benchmark' in '{}'. Did you mean 'benchmarks'?",
        ),
        ("evaluate", "stale: true", "Unknown parameter 'stale' in '{}'."),
        ("generate", "engin: {}", "Did you mean 'engine'?"),
        ("generate", "gate: {}", "run `regrade gate`"),
        ("evaluate", "gate: {max_drop: x}", "`gate.max_drop` in '{}'"),
        (
            "evaluate",
            "gate: {promote: true, stop_when_sure: true}",
            "regrade: `gate.promote` in '{}' moves an alias to complete answers only, and `gate.stop_when_sure` in",
        ),
        (
            "evaluate",
            "sampling: {temperature: 3}",
            "`sampling.temperature` in '{}'",
        ),
        ("evaluate", "engine: {dtype: x}", "`engine.dtype` in '{}'"),
        (
            "evaluate",
            "judge: {judges: [m], rubric: criteria, criteria: nowhere.yaml}",
            "'nowhere.yaml' cannot be read",
        ),
        ("evaluate", "engine: {kind: openai, timeout: x}", "`engine.timeout` in '{}'"),
        (
            "evaluate",
            "engine: {dtpe: x}",
            "`engine.dtpe` in '{}' is unknown. Did you mean 'dtype'?",
        ),
        ("evaluate", "datasets: [{naem: x, path: y}]", "is unknown. Did you mean 'name'?"),
        ("evaluate", "judge: {judge: m}", "is unknown. Did you mean 'judges'?"),
        ("plan", "engin: {}", "Unknown parameter 'engin' in '{}'. Did you mean 'engine'?"),
        ("plan", "engine: {dtpe: x}", "`engine.dtpe` in '{}' is unknown. Did you mean 'dtype'?"),
        ("plan", "gpus: 0", "`gpus` in '{}' should be 1 or more, not 0"),
        (
            "evaluate --temperature 1",
            "sampling: 3",
            "`sampling:` in '{}' should be a group of settings",
        ),
        ("evaluate --n-shots 2", "prompt: chat", "such as `prompt: {n_shots: 5}`, not 'chat'"),
        ("evaluate --fresh", "reuse: [fresh]", "`reuse:` in '{}' should be a group of settings"),
        ("evaluate --rubric correct", "judge: org/m", "such as `judge: {judges: [org/judge-32b]}`"),
        ("evaluate", "lm_eval: arc_easy", "such as `lm_eval: {tasks: [arc_challenge]}`"),
        ("evaluate", "suite: 5", "`suite:` in '{}' should be a list, such as `suite: [core]`"),
        ("evaluate --source gsm8k=x", "sources: gsm8k=x", "`sources:` in '{}' should be a list"),
        ("evaluate", "engine: 5", "such as `engine: {kind: openai}`, not 5"),
        ("tune --ttft-p99 2", "limits: 3", "such as `limits: {ttft_p99: 2}`"),
    ],
)
def test_a_wrong_key_or_value_of_a_file_is_named_with_its_file(
    tmp_path: Path, command: str, content: str, says: str, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "k.yaml"
    file.write_text(f"model: m\nbenchmarks: [gsm8k]\n{content}\n")

    assert run([*command.split(), "--config", str(file)]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert says.replace("{}", str(file)) in line


def test_a_single_name_is_enough_for_benchmarks_and_engine(tmp_path: Path):
    file = tmp_path / "k.yaml"
    file.write_text("model: m\nbenchmarks: gsm8k\nengine: openai\n")

    options = EvaluateOptions(config=file, engine_base_url=("http://127.0.0.1:8000/v1",))

    chosen = options.parameters()
    assert chosen["benchmarks"] == ["gsm8k"]
    assert chosen["engine"] == {"base_url": "http://127.0.0.1:8000/v1", "kind": "openai"}


def test_only_parameters_of_the_command_are_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "k.yaml"
    file.write_text("model: m\nbenchmarks: [gsm8k]\nanswer_set: 1f\n")

    assert run(["generate", "--config", str(file)]) == 2

    known = capsys.readouterr().err.partition("Known: ")[2]
    assert "sampling" in known
    assert "answer_set" not in known
    assert "scorer" not in known
