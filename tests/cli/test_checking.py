"""Refusals come before any server starts, and name the option, or the key in the file."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.cli import flow_run as running
from regrade.cli.main import run
from regrade.cli.run import EvaluateOptions
from regrade.jobs import plans_of_job
from regrade.pages.viewer import serving
from tests.command_line import DEMO
from tests.lm_eval.rows import tasks_of_folders
from tests.stored import numbers, publish


class Imported:
    """A temporary server that may be imported, and not be started."""

    ended_by_error = contextlib.nullcontext

    def start(self) -> None:
        raise AssertionError("too late")


MODEL = str(DEMO / "regrade-demo")


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch):
    """Fail if a server is started or a flow begins; engine and MLflow may be imported."""

    def started(*_: object, **__: object) -> None:
        raise AssertionError("too late")

    monkeypatch.setattr(running, "prefect_server", started)
    monkeypatch.setattr(running, "flow_result", started)
    monkeypatch.setattr(running, "prepare", lambda _: None)
    monkeypatch.setattr(plans_of_job, "start_early", lambda *_, **__: None)
    monkeypatch.setattr(running, "TemporaryServer", lambda _: Imported())
    monkeypatch.setattr(serving, "bound_socket", started)


@pytest.fixture(autouse=True)
def small_index(monkeypatch: pytest.MonkeyPatch):
    """The index of all tasks takes seconds to build."""
    monkeypatch.setattr("regrade.lm_eval.index._installed", tasks_of_folders)


def cases(table: str) -> list[list[str]]:
    """Return words and answer of each line, `WORDS -> ANSWER`."""
    return [line.split(" -> ") for line in table.strip().splitlines()]


REFUSED = """
evaluat -> evaluate
evaluate --modle m -> Did you mean --model
evaluate --limit x -> `--limit x` should be a whole number.
evaluate --limit 1.5 -> `--limit 1.5` should be a whole number.
sweep --limit 1.5 -> `--limit 1.5` should be a whole number.
evaluate --temperature -1 -> `--temperature` should be 0 or more, not -1
evaluate --engine.max-model-len 0 -> `--engine.max-model-len` should be 1 or more, not 0
evaluate --benchmark gsm8k -> `--model` is missing. Parameters may also be in a `--config` file.
evaluate --model m -> nothing to evaluate: choose a benchmark (`--benchmark`)
evaluate --model m --benchmark gsm8 -> Did you mean 'gsm8k'?
evaluate --model m --benchmark gsm8k --scorer numbr -> Did you mean 'number'?
evaluate --model ./nope --benchmark gsm8k -> there is no folder 'nope'
evaluate --model MODEL --benchmark gsm8k --repeats 3 -> `--repeats 3`: with temperature
evaluate --model org/m --benchmark gsm8k --repeats 3 --temperature 0 -> `--repeats 3`
evaluate --model org/m --benchmark gsm8k --source gsm8k=nowhere.csv -> nowhere.csv
evaluate --model m --engine openai --base-url x --benchmark gsm8k -> `--base-url` should be an address that begins with `http://`
evaluate --model m --base-url http://x/v1 -> needs `--engine openai`
evaluate --model m --engine openai --engine.dtype auto -> not take `--engine.dtype`
evaluate --model m --engine openai --timeout -1 -> `--timeout` should be above 0
evaluate --model m --engine openai --max-retries -1 -> `--max-retries` should be 0
evaluate --model m --benchmark gsm8k --source gsm8k -> should be `BENCHMARK=PATH`
evaluate --model org/m --benchmark gsm8k --metrics-port 70000 -> `--metrics-port 70000`
evaluate --model org/m --benchmark gsm8k --judge m -> names a rubric for a judge
evaluate --model org/m --benchmark gsm8k --html x -> `--html` is for a verdict: name a baseline with `--baseline`
plan -> MODEL is missing.
plan MODEL --benchmark gsm8 -> Did you mean 'gsm8k'?
promote m --alias -> `--alias` needs a value
compare a b --min-coverage x -> `--min-coverage x` should be a number.
show -> ANSWER-SET is missing. See `regrade show --help`.
worker -> `--pool` is missing. See `regrade worker --help`.
worker --pool gpu --limit 0 -> `--limit 0` should be at least 1.
completion tcsh -> bash
import a.jsonl --scorer nmber -> Unknown scorer 'nmber'. Did you mean 'number'?
import a.jsonl --format tabel -> Did you mean "table"
judge 1f --model=m -> `--judge` names the models that judge
judge --rubric correct -> `--judge` is missing.
judge --judge m --rubric corect -> Did you mean 'correct'?
judge --judge m --rubric pairwise -> give the other side with `--baseline`
judge --judge m --criteria /nowhere.yaml -> '/nowhere.yaml' cannot be read
judge --judge m --rubric correct --baseline b -> leave out `--baseline`
judge --judge m --truncate -> A judge must see whole answers
judge --judge m --min-coverage 2 -> `--min-coverage` should be 1 or less, not 2
judge --judge m --answers /nowhere/at/all -> there is no such folder
judge nobody --judge m --answers stored -> there are no answers of 'nobody'
judge --judge m --config /nowhere.yaml -> cannot be read
chart --gpu-hour m=2 --gpu-hour m=3 -> `--gpu-hour` is given twice for m.
label 1f --out x.csv --seed 1000000000000000 -> `--seed 1000000000000000` should be 0 or more, and below
score --stale --force -> `--stale`
score --since yesterday -> `--since` should be a day, such as 2026-11-30, not 'yesterday'
score --answers nowhere -> nowhere
score --processes 0 -> `--processes` should be 1 or more, not 0
tune --model m --benchmark gsm8k --ttft-p99 -1 -> `--ttft-p99` should be above 0, not -1
sweep --model m --benchmark gsm8k -> nothing varies
sweep --benchmark gsm8k --in-flight 1,2 -> `--model` is missing
sweep --model m --benchmark gsm8k --n-shots 0,0 -> given twice
sweep --model m --nshots 0,2 -> Unknown option: --nshots. Did you mean --n-shots?
sweep --model m --in-flight 1,many -> `--in-flight 1,many` should be whole numbers
report -> Name the file to write
report org/tiny -> not 'org/tiny'
report x.html --examples 201 --answers stored -> from 0 to 200
report org/none x.html --answers stored -> there are no answers of 'org/none'
report org/tiny x.html --answers stored --scorer exact -> has a scoring by 'exact'
report org/tiny x.html --answers stored --base org/none -> there are no answers of 'org/none'
view nowhere -> there is no such folder
view stored ffff --port 0 -> no answers of 'ffff'
view stored --port 70000 -> from 0 to 65535
view stored --port 0 --against ffff -> needs the answer set
view stored --port 0 --scorer number -> needs one answer set
view stored org/tiny --port 0 --scorer close -> `--scorer close` should be a stored scoring
view stored --port 0 --at ffffffff -> should match one revision
view stored --port 0 --host 0.0.0.0 -> Set REGRADE_VIEW_TOKEN
show org/tiny --answers stored --change worse -> `--change` needs `--baseline
show org/tiny --answers stored --wrong --verdict right -> exclude each other
show org/tiny --answers stored --page 0 -> `--page 0`
show org/tiny --answers stored --limit 0 -> `--limit 0`
show org/tiny --answers stored --subset nothing -> `--subset nothing` should be
show org/tiny --answers stored --against ffff -> ffff
show org/tiny --answers stored --verdict odd -> odd
label org/tiny --answers stored -> Give one of `--out`, `--read`, `--to-mlflow`, `--from-mlflow` and `--report`
label org/tiny --answers stored --report --out labels.csv -> Give one of `--out`
scorers --json -q -> Mutually exclusive
list --answers /nowhere --quiet -> /nowhere
"""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        *cases(REFUSED),
        pytest.param(  # reads all tasks of the harness, in seconds; tests/lm_eval/test_requests.py reads some
            "evaluate --model m --benchmark lm_eval:arc_chalenge",
            "Did you mean 'arc_challenge'",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_wrong_setting_is_refused_at_once_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    says: str,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    if "stored" in arguments:
        publish(LocalRepository(tmp_path / "stored"), numbers(0, 1))
    assert run(arguments.replace("MODEL", MODEL).split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("regrade: ")
    assert says in line
    assert "pydantic" not in line
    assert not Path("x.html").exists()


SUMS = "--dataset.name sums --dataset.path sums.jsonl --dataset.scorer number"
REFUSED_BY_A_PLAN = """
generate --model MODEL SUMS --answers photos -> it has other files
generate --model MODEL SUMS --share auto -> needs a Slurm array
REGRADE_PUBLISH_SECONDS=x generate --model MODEL SUMS -> REGRADE_PUBLISH_SECONDS=x
REGRADE_SPOOL=sums.jsonl/x generate --model MODEL SUMS -> sums.jsonl/x
REGRADE_METRICS_PORT=x noise MODEL SUMS -> REGRADE_METRICS_PORT
REGRADE_ENGINE_SLOTS=x generate --model MODEL SUMS -> REGRADE_ENGINE_SLOTS=x
REGRADE_CPU_NICE=20 generate --model MODEL SUMS -> REGRADE_CPU_NICE=20
REGRADE_CHECK_FIT=x generate --model MODEL SUMS -> REGRADE_CHECK_FIT=x
evaluate --model MODEL JUDGED -> A judge model grades the answers to 'sums': name one
evaluate --model MODEL SUMS --promote --max-drop-of sum=3 -> 'sum', which neither side
evaluate --model MODEL SUMS --promote --max-drop 1 -> not even an unchanged model
evaluate --model MODEL SUMS --judge ./nope --rubric correct -> there is no folder 'nope'
evaluate --model MODEL SUMS --judge MODEL --rubric pairwise --judge.baseline nosuch -> 'nosuch'
evaluate --model MODEL SUMS --tracking-uri no://x -> `no:` is unknown. Known: `data
evaluate --model MODEL --follow 1 EMPTY -> empty.jsonl
evaluate --model MODEL WORDS -> row 1 (from 0) of split 'test': the target 'quatre' is not a number
evaluate --model MODEL SUMS --dataset.target-column right -> 'right'
evaluate --model MODEL SUMS --baseline org/tiny --max-drop 60 -> Not comparable: sums
noise MODEL JUDGED -> which has noise of its own
tune --model MODEL SUMS --answers photos -> it has other files
sweep --model MODEL --model ./nope SUMS -> there is no folder 'nope'
judge --judge ./nope --self-test -> there is no folder 'nope'
judge --judge MODEL org/tiny --self-test -> leave out the answer sets
judge --judge MODEL org/tiny --rubric pairwise --baseline org/tiny -> with itself
replay org/tiny --model ./nope --own-model MODEL -> Name the model that answered
harness ./nope -- true {output} -> there is no folder 'nope'
harness MODEL -- nosuchprogram {output} -> 'nosuchprogram' is not installed
harness MODEL --answers photos -- true {output} -> it has other files
harness MODEL --engine.tuned -- true {output} -> neither `--lora` nor `--engine.tuned`
"""


@pytest.mark.parametrize(("arguments", "says"), cases(REFUSED_BY_A_PLAN))
def test_what_takes_a_plan_to_notice_is_refused_before_anything_starts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    says: str,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    Path("sums.jsonl").write_text('{"question": "1 + 1?", "answer": "2"}\n' * 5)
    Path("words.jsonl").write_text(
        '{"question": "1?", "answer": "1"}\n{"question": "2?", "answer": "quatre"}\n'
    )
    Path("empty.jsonl").touch()
    Path("photos").mkdir()
    Path("photos/one.jpg").touch()
    publish(LocalRepository(tmp_path / "answers"), numbers(0, 5), benchmark="sums")
    named = {"SUMS": SUMS, "JUDGED": SUMS.replace("number", "judge"), "MODEL": MODEL}
    named |= {name.upper(): SUMS.replace("sums.j", f"{name}.j") for name in ("empty", "words")}
    for name, words in named.items():
        arguments = arguments.replace(name, words)
    words = arguments.split()
    while "=" in words[0]:
        monkeypatch.setenv(*words.pop(0).split("="))
    assert run(words) in (1, 2, 3)
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "order"),
    [
        (MODEL, ["checked", "engine", "server", "MLflow", "flow"]),
        # the Hub takes its time to answer: vLLM is imported meanwhile, and is given nothing to load
        ("org/m", ["engine", "checked", "server", "MLflow", "flow"]),
    ],
)
def test_everything_is_checked_before_engine_server_and_mlflow_begin(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, model: str, order: list[str]
):
    done: list[str] = []

    def step(name: str) -> Callable[..., None]:
        return lambda *_, **__: done.append(name)

    def ends(*_: object) -> None:
        done.append("flow")
        raise SystemExit

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("regrade.cli.run.begin_evaluation", step("checked"))
    monkeypatch.setattr(plans_of_job, "start_early", step("engine"))
    monkeypatch.setattr(Imported, "start", step("server"))
    monkeypatch.setattr(running, "prepare", step("MLflow"))
    monkeypatch.setattr(running, "prefect_server", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(running, "flow_result", ends)
    with pytest.raises(SystemExit):
        run(["evaluate", "--model", model, "--benchmark", "gsm8k"])
    assert done == order


REFUSED_IN_A_FILE = """
evaluate -> benchmark: gsm8k -> Unknown parameter 'benchmark' in '{}'. Did you mean 'benchmarks'?
evaluate -> stale: true -> Unknown parameter 'stale' in '{}'.
evaluate -> model: n -> '{}' cannot be read as YAML: 'model' is given twice
score -> since: 2026-02-30 -> '{}' cannot be read as YAML: day is out of range
generate -> engin: {} -> Did you mean 'engine'?
generate -> gate: {} -> run `regrade gate`
evaluate -> gate: {promote: true, stop_when_sure: true} -> `gate.promote` in '{}' moves an alias to complete answers only, and `gate.stop_when_sure` in
evaluate -> judge: {judges: [m], rubric: criteria, criteria: nowhere.yaml} -> 'nowhere.yaml' cannot be read
evaluate -> engine: {dtpe: x} -> `engine.dtpe` in '{}' is unknown. Did you mean 'dtype'?
evaluate -> datasets: [{naem: x, path: y}] -> is unknown. Did you mean 'name'?
evaluate -> judge: {judge: m} -> is unknown. Did you mean 'judges'?
plan -> engin: {} -> Unknown parameter 'engin' in '{}'. Did you mean 'engine'?
plan -> engine: {dtpe: x} -> `engine.dtpe` in '{}' is unknown. Did you mean 'dtype'?
evaluate --temperature 1 -> sampling: 3 -> `sampling:` in '{}' should be a group of settings
evaluate --n-shots 2 -> prompt: chat -> such as `prompt: {n_shots: 5}`, not 'chat'
evaluate --fresh -> reuse: [fresh] -> `reuse:` in '{}' should be a group of settings
evaluate --rubric correct -> judge: org/m -> such as `judge: {judges: [org/judge-32b]}`
evaluate -> lm_eval: arc_easy -> such as `lm_eval: {tasks: [arc_challenge]}`
evaluate -> suite: 5 -> `suite:` in '{}' should be a list, such as `suite: [core]`
evaluate --source gsm8k=x -> sources: gsm8k=x -> `sources:` in '{}' should be a list
evaluate -> engine: 5 -> such as `engine: {kind: openai}`, not 5
tune --ttft-p99 2 -> limits: 3 -> such as `limits: {ttft_p99: 2}`
"""


@pytest.mark.parametrize(("command", "content", "says"), cases(REFUSED_IN_A_FILE))
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
