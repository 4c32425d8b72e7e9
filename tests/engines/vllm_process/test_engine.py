import math
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from regrade.engines.base import Engine, LimitedEngine, MeasuredEngine
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process import process
from regrade.engines.vllm_process.cpu import AUTOGROUP, VARIABLE
from regrade.engines.vllm_process.engine import VllmProcess, _from_wire
from regrade.engines.vllm_process.extra import parse_extra
from regrade.models.base import ResolvedModel
from regrade.records import Completion, Request
from regrade.records.specification import ModelIdentity
from regrade.settings import SamplingParams
from regrade.settings.errors import EngineError, NotInstalledError, SettingsError
from tests.engine_fixtures import FAST
from tests.engines.vllm_process.asking import ask, opened
from tests.engines.vllm_process.measured import assert_measured
from tests.engines.vllm_process.test_taking import Withdrawing
from tests.processes.trees import living, wait_until

_ROOT = Path(__file__).parents[3]
SAMPLING = SamplingParams(max_tokens=8)
QUESTION = "Question: What is 2 plus 3?\nA. 4\nB. 5\nC. 6\nD. 7\nAnswer:"
CHAT = ({"role": "user", "content": "What is 2 plus 3?"},)


@pytest.mark.vllm
def test_info_describes_the_engine(vllm_engine: Engine):
    info = vllm_engine.info

    assert info.engine == "vllm"
    assert info.version
    assert info.max_model_len == 512
    assert info.dtype == "float32" or info.device != "cpu"
    assert info.chat_template_sha256 is not None
    assert info.load_seconds > 0
    computed = info.computed
    assert computed is not None
    assert (computed.dtype, computed.kv_cache_dtype) == (info.dtype, info.dtype)
    assert (computed.quantization, computed.layers, computed.rope) == ("none", (), "none")
    assert computed.runner in ("V1", "V2")
    assert computed.attention
    assert computed.variables is not None
    assert "VLLM_RPC_BASE_PATH" not in computed.variables


@pytest.mark.vllm
def test_on_a_cpu_the_engine_has_the_requested_priority(vllm_engine: Engine):
    supervisor = psutil.Process(_supervisor_pid(vllm_engine))
    inside = supervisor.children(recursive=True)
    nice = int(os.environ[VARIABLE])
    assert {process.nice() for process in inside} == {nice}
    if AUTOGROUP.exists():
        groups = [Path(f"/proc/{process.pid}/autogroup").read_text() for process in inside]
        assert all(group.endswith(f"nice {nice}\n") for group in groups)
        assert f"nice {nice}" not in AUTOGROUP.read_text()  # the test's own session


@pytest.mark.vllm
def test_an_engine_takes_the_worker_that_was_started_early_and_the_time_that_it_waited_is_no_loading(
    resolved_model: ResolvedModel, tmp_path: Path
):
    started = time.monotonic()
    process.start_early(tmp_path / "early.log", hub_token=False)
    early = process._early[0][0]
    while not early.channel.has_message():
        time.sleep(0.1)
    worker = psutil.Process(early.pid).children()[0]
    imported = started
    while time.monotonic() - imported < 3:  # it has imported vLLM once it computes no more
        seconds = sum(worker.cpu_times()[:2])
        time.sleep(0.5)
        if sum(worker.cpu_times()[:2]) - seconds > 0.05:
            imported = time.monotonic()
    asked = time.monotonic()

    with opened(resolved_model, tmp_path / "late.log") as engine:
        ready = time.monotonic()
        loading = engine.info.load_seconds

        assert isinstance(engine, VllmProcess)
        assert engine._process is early
        assert not process._early
    assert ready - asked < loading < ready - started - 2
    assert not (tmp_path / "late.log").exists()


def test_a_worker_that_was_started_early_is_not_taken_with_other_rights(tmp_path: Path):
    process.start_early(tmp_path / "log", hub_token=True)
    early = process._early[0][0]

    assert process.take_early(hub_token=False) is None
    assert early.has_ended()


def test_a_worker_that_nobody_took_ends(tmp_path: Path):
    process.start_early(tmp_path / "log", hub_token=False)
    early = process._early[0][0]

    process.end_early()

    assert early.has_ended()
    assert process.take_early(hub_token=False) is None


@pytest.mark.vllm
def test_on_a_cpu_the_engine_core_is_a_fork_of_a_process_that_has_imported_vllm(
    vllm_engine: Engine,
):
    supervisor = psutil.Process(_supervisor_pid(vllm_engine))
    (worker,) = supervisor.children()
    (server,) = (p for p in worker.children() if "forkserver" in " ".join(p.cmdline()))
    (core,) = server.children()

    assert core.cmdline() == server.cmdline()  # a new process would have its own
    assert core.children()  # its workers
    assert Path(f"/proc/{server.pid}/maps").read_text().count("/libtorch")


@pytest.mark.vllm
def test_requests_in_flight_are_limited_without_a_new_start_and_the_prefix_cache_is_emptied(
    vllm_engine: Engine,
):
    assert isinstance(vllm_engine, LimitedEngine)
    assert isinstance(vllm_engine, MeasuredEngine)
    prompt = "The same beginning of all prompts, long enough for several blocks. " * 8
    requests = [Request(n, f"{prompt}{n}", SAMPLING) for n in range(12)]
    most, hits = [], []
    try:
        for in_flight in (1, 1, 3, 12):
            vllm_engine.limit(in_flight)
            assert all(completion.error is None for completion in ask(vllm_engine, requests))
            speed = vllm_engine.measure()
            assert speed is not None
            most.append(speed.running_max)
            hits.append(speed.prefix_hit_rate)
    finally:
        vllm_engine.limit(None)
    assert most[:3] == [1, 1, 3]
    assert 3 < most[3] <= 12  # the first may be done before the last arrive
    assert hits[0] == hits[1]  # the first prompt was new again
    assert vllm_engine.info.max_num_seqs
    assert vllm_engine.info.max_num_batched_tokens


@pytest.mark.vllm
def test_every_request_gets_exactly_one_completion(vllm_engine: Engine):
    completions = ask(vllm_engine, (Request(k, f"{k} plus 1", SAMPLING) for k in range(600)))

    assert [c.key for c in completions] == list(range(600))
    assert all(c.error is None and c.text is not None for c in completions)
    assert [c.prompt for c in completions] == [f"{k} plus 1" for k in range(600)]


@pytest.mark.vllm
def test_the_stored_prompt_of_a_chat_is_the_text_after_the_template(vllm_engine: Engine):
    (completion,) = ask(vllm_engine, [Request(0, CHAT, SAMPLING)])
    (again,) = ask(vllm_engine, [Request(0, completion.prompt, SAMPLING)])

    assert completion.prompt_kind == "text"
    assert "What is 2 plus 3?" in completion.prompt
    assert completion.prompt != "What is 2 plus 3?"
    assert completion.prompt_tokens == again.prompt_tokens
    assert completion.text == again.text


@pytest.mark.vllm
def test_a_prompt_that_is_too_long_is_a_failed_row(vllm_engine: Engine):
    long, short = Request(0, "word " * 2000, SAMPLING), Request(1, "word", SAMPLING)

    failed, done = ask(vllm_engine, [long, short])

    assert "exceeds the context of 512" in str(failed.error)
    assert not failed.error_permanent  # the model allows 32,768
    assert failed.text is None
    assert failed.prompt == "word " * 2000
    assert done.error is None


@pytest.mark.vllm
def test_sampling_with_a_seed_is_repeatable(vllm_engine: Engine):
    def sample(seed: int) -> str | None:
        params = SamplingParams(max_tokens=24, temperature=1.5, seed=seed)
        return ask(vllm_engine, [Request(0, CHAT, params)])[0].text

    assert sample(1) == sample(1)
    assert len({sample(seed) for seed in range(4)}) > 1


@pytest.mark.vllm
def test_more_sampled_prompts_than_one_step_takes_are_all_answered(vllm_engine: Engine):
    """On a CPU, vLLM 0.32 ends at a sampled request with chunked prefill."""
    params = SamplingParams(max_tokens=2, temperature=1.0)
    numbers = " ".join(str(n) for n in range(90))

    completions = ask(vllm_engine, [Request(k, f"{k} {numbers}", params) for k in range(100)])

    assert sum(c.prompt_tokens for c in completions) > 20_000
    assert [c.error for c in completions] == [None] * 100


@pytest.mark.vllm
def test_a_stop_text_ends_the_answer_and_is_not_part_of_it(vllm_engine: Engine):
    def answers(stop: tuple[str, ...]) -> list[Completion]:
        params = SamplingParams(max_tokens=24, temperature=1, stop=stop)
        return ask(vllm_engine, [Request(k, f"{k} apples and", params) for k in range(8)])

    longest = max(answers(()), key=lambda completion: len(completion.text or ""))
    assert longest.text
    stop = longest.text[len(longest.text) // 2]

    cut = answers((stop,))[longest.key]

    assert cut.text == longest.text[: longest.text.index(stop)]
    assert cut.finish_reason == "stop"


@pytest.mark.vllm
def test_a_request_that_vllm_rejects_is_a_failed_row(vllm_engine: Engine):
    params = SamplingParams(max_tokens=8, stop=("",))

    rejected, done = ask(vllm_engine, [Request(0, "x", params), Request(1, "x", SAMPLING)])

    assert "vLLM rejected the request" in str(rejected.error)
    assert done.error is None


@pytest.mark.vllm
def test_one_pass_gives_the_same_numbers_as_a_pass_per_label(vllm_engine: Engine):
    labels = (" A", " B", " C", " D")
    two_tokens = " A and so on"  # with a label of several tokens, every label needs a pass
    prompts = [QUESTION.replace("2 plus 3", f"{n} plus {n + 1}") for n in range(8)]

    single = ask(vllm_engine, [Request(k, p, SAMPLING, labels) for k, p in enumerate(prompts)])
    several = ask(
        vllm_engine, [Request(k, p, SAMPLING, (*labels, two_tokens)) for k, p in enumerate(prompts)]
    )

    assert {(c.label_method, c.text, c.finish_reason) for c in single} == {
        ("single_token", None, None)
    }
    assert {(c.label_method, c.text, c.finish_reason) for c in several} == {
        ("per_choice", None, None)
    }
    for by_token, by_pass in zip(single, several, strict=True):
        assert by_token.label_logprobs is not None
        assert by_pass.label_logprobs is not None
        assert by_token.label_logprobs == pytest.approx(by_pass.label_logprobs[:4], abs=1e-4)
        assert by_pass.label_logprobs[4] < by_pass.label_logprobs[0] < 0


@pytest.mark.vllm
def test_a_pass_per_label_reads_the_cache_and_gives_the_same_numbers(vllm_engine: Engine):
    """The lengths differ by a token, so that a label is also at the end of a block of the cache (128 on a CPU)."""
    labels = (" A", " B", " A and so on, and so on")
    context = "3 apples and 4 pears. " * 8
    prompts = [f"{context}{'x ' * n}{QUESTION}" for n in range(24)]

    def rank(labels: tuple[str, ...]) -> list[Completion]:
        return ask(vllm_engine, [Request(k, p, SAMPLING, labels) for k, p in enumerate(prompts)])

    single, several, again = rank(labels[:2]), rank(labels), rank(labels)

    lengths = [completion.prompt_tokens for completion in several]
    assert min(lengths) < 128 < max(lengths)
    for by_token, first, second in zip(single, several, again, strict=True):
        assert first.label_logprobs[:2] == pytest.approx(by_token.label_logprobs, abs=1e-4)
        assert second.label_logprobs == pytest.approx(first.label_logprobs, abs=1e-4)


@pytest.mark.vllm
def test_the_order_of_the_labels_is_kept(vllm_engine: Engine):
    labels = (" A", " B", " C", " D")

    forwards, backwards = ask(
        vllm_engine,
        [Request(0, QUESTION, SAMPLING, labels), Request(1, QUESTION, SAMPLING, labels[::-1])],
    )

    assert forwards.label_logprobs == pytest.approx(tuple(backwards.label_logprobs or ())[::-1])


@pytest.mark.vllm
def test_requests_are_taken_lazily_and_a_stream_can_be_closed_early(vllm_engine: Engine):
    taken = []

    def requests():
        for key in range(100_000):
            taken.append(key)
            yield Request(key, f"count {key}", SamplingParams(max_tokens=64))

    stream = vllm_engine.generate(requests())
    next(stream)
    stream.close()
    started = time.monotonic()
    completions = ask(vllm_engine, [Request(7, "next", SAMPLING)])

    assert [c.key for c in completions] == [7]
    assert len(taken) < 10_000
    assert time.monotonic() - started < 10, "cancelled requests do not delay new requests"


@pytest.mark.vllm
def test_after_an_error_in_the_requests_the_engine_is_still_usable(vllm_engine: Engine):
    def requests():
        yield Request(0, "fine", SAMPLING)
        raise OSError("disk gone")

    with pytest.raises(OSError, match="disk gone"):
        ask(vllm_engine, requests())

    assert len(ask(vllm_engine, [Request(0, "again", SAMPLING)])) == 1


@pytest.mark.vllm
def test_only_one_stream_at_a_time(vllm_engine: Engine):
    stream = vllm_engine.generate(Request(k, "x", SAMPLING) for k in range(3000))
    next(stream)

    with pytest.raises(RuntimeError, match="another stream"):
        next(vllm_engine.generate([Request(0, "y", SAMPLING)]))
    stream.close()


@pytest.mark.vllm
def test_the_output_of_vllm_does_not_reach_the_terminal(
    vllm_engine: Engine, vllm_log: Path, capfd: pytest.CaptureFixture[str]
):
    ask(vllm_engine, [Request(0, "quiet", SAMPLING)])

    assert capfd.readouterr() == ("", "")
    assert "Initializing a V1 LLM engine" in vllm_log.read_text()


class Planned:
    """Requests that count how often they are rendered."""

    shows_images = False

    def __init__(self, requests) -> None:
        self.requests = [*requests]
        self.rendered = 0

    def __iter__(self):
        for request in self.requests:
            self.rendered += 1
            yield request


class Late(Planned):
    """Requests whose last part is rendered only after vLLM has begun to load the model."""

    def __iter__(self):
        for request in super().__iter__():
            if request.key == 600:
                wait_until(lambda: any("VLLM::" in _command(p) for p in _descendants()), 120)
            yield request


def _descendants() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def _command(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""


@pytest.mark.vllm
@pytest.mark.parametrize(
    ("changes", "prompts", "message"),
    [
        pytest.param(
            {"extra": ("gpu_memory_utilisation=0.5",)},
            (),
            "Did you mean 'gpu_memory_utilization'",
            id="unknown engine argument",
        ),
        pytest.param(
            {"max_model_len": None},
            ("word " * 40_000,),
            "together, but the model allows",
            id="prompt longer than the model allows",
        ),
        pytest.param(
            {"max_model_len": 8},
            ("word",),
            "`sampling.max_tokens` is 8, but `engine.max_model_len` is 8 tokens",
            marks=pytest.mark.slow,
            id="no room for a prompt",
        ),
        pytest.param(
            {"pipeline_parallel_size": 2},
            (),
            "vLLM cannot run a pipeline on a CPU",
            marks=pytest.mark.slow,
            id="pipeline on a CPU",
        ),
    ],
)
def test_impossible_settings_are_refused_before_the_weights_are_read(
    resolved_model: ResolvedModel, tmp_path: Path, changes, prompts, message
):
    log = tmp_path / "engine.log"
    settings = FAST.model_copy(update=changes)
    longest = [Request(k, prompt, SAMPLING) for k, prompt in enumerate(prompts)]

    with (
        pytest.raises(SettingsError, match=message),
        opened(resolved_model, log, settings, longest),
    ):
        pass

    assert "Starting to load model" not in log.read_text()


class Many(Late):
    """Requests that are told to be so many that the model is loaded meanwhile."""

    def __len__(self) -> int:
        return 100_000


@pytest.mark.slow
@pytest.mark.vllm
def test_many_requests_are_tokenised_while_the_model_loads_in_the_context_that_memory_allows(
    resolved_model: ResolvedModel, tmp_path: Path
):
    cache = 256 * 2**20
    settings = VllmEngine(enforce_eager=True, extra=(f"kv_cache_memory_bytes={cache}",))
    many = Many(Request(k, f"{k} plus 1", SAMPLING) for k in range(700))

    with opened(resolved_model, tmp_path / "log", settings, many) as engine:
        answers = ask(engine, many)
        assert engine.info.max_model_len == resolved_model.max_position_embeddings

    assert many.rendered == 700
    assert all(answer.error is None for answer in answers)


@pytest.mark.slow
@pytest.mark.vllm
def test_a_killed_engine_is_an_error_that_names_the_log_and_leaves_no_process(
    resolved_model: ResolvedModel, tmp_path: Path
):
    """Also tests truncation, and requests that are rendered and tokenised while the model is loaded."""
    log = tmp_path / "engine.log"
    settings = FAST.model_copy(update={"max_model_len": 128})
    long = Request(0, " ".join(str(n) for n in range(500)), SAMPLING)
    many = Late(Request(k, f"{k} plus 1", SAMPLING) for k in range(700))
    one = Planned([long])

    with opened(resolved_model, log, settings, many, one, truncate=True) as engine:
        (cut,) = ask(engine, one)
        answers = ask(engine, many)
        assert (many.rendered, one.rendered) == (700, 1)
        assert [c.key for c in answers] == [*range(700)]
        assert [c.prompt for c in answers] == [request.prompt for request in many.requests]
        few = [*range(0, 700, 70)]
        unplanned = ask(engine, [many.requests[k] for k in few])
        assert [c.text for c in unplanned] == [answers[k].text for k in few]
        assert cut.prompt_truncated
        assert cut.error is None
        assert cut.prompt_tokens == 120  # 128 less the 8 of the answer
        assert long.prompt[-40:] in cut.prompt
        assert len(cut.prompt) < len(long.prompt)

        tree = psutil.Process(_supervisor_pid(engine)).children(recursive=True)
        cores = [p for p in tree if "VLLM::" in _command(p)]
        assert cores, "vLLM's own processes are below the supervisor"
        with pytest.raises(EngineError) as caught:
            for _ in engine.generate(Request(k, "x", SAMPLING) for k in range(100_000)):
                cores[0].kill()

        assert caught.value.log == str(log)
        # The last processes are killed after the error: wait for them.
        wait_until(lambda: living([p.pid for p in tree]) == [])


def _supervisor_pid(engine: Engine) -> int:
    assert isinstance(engine, VllmProcess)
    assert engine.pid is not None
    return engine.pid


@pytest.mark.vllm
@pytest.mark.slow
def test_copies_of_the_model_answer_as_a_single_one(
    resolved_model: ResolvedModel, vllm_engine: Engine, tmp_path: Path
):
    settings = FAST.model_copy(update={"data_parallel_size": 2})
    requests = [Request(k, f"{k} plus 1", SAMPLING) for k in range(300)]
    requests += [Request(300, QUESTION, SAMPLING, (" A", " B")), Request(301, "x " * 600, SAMPLING)]
    requests += [Request(302, "x", SamplingParams(stop=("",)))]

    with opened(resolved_model, tmp_path / "engine.log", settings) as engine:
        stream = engine.generate(Request(k, "x", SAMPLING) for k in range(3000))
        next(stream)
        stream.close()
        completions = ask(engine, requests)
        measured = ask(engine, requests[:200])
        assert isinstance(engine, VllmProcess)
        speed = engine.measure()

    assert_measured(speed, measured)
    assert speed is not None
    assert speed.running_max > 100  # of both copies together
    alone = ask(vllm_engine, requests)
    assert [c.text for c in completions] == [c.text for c in alone]
    assert completions[300].label_logprobs == pytest.approx(alone[300].label_logprobs, abs=1e-4)
    assert [c.key for c in completions if c.error] == [301, 302]
    assert all(c.latency is not None for c in completions[:300])


@pytest.mark.vllm
def test_no_engine_process_outlives_an_owner_that_is_killed_while_it_loads(
    demo_model: Path, tmp_path: Path
):
    code = f"""
from pathlib import Path
from regrade.engines.base import PromptRendering
from tests.engine_fixtures import FAST
from tests.processes.trees import wait_until
model = FAST.resolve({str(demo_model)!r})
log = Path({str(tmp_path / "log")!r})
report = lambda stage: print(stage, flush=True)
FAST.open(model, requests=(), rendering=PromptRendering(), log=log, on_progress=report).__enter__()
"""
    owner = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
    )
    assert owner.stdout is not None
    assert any(line == b"loading the model\n" for line in owner.stdout)

    def tree() -> list[psutil.Process]:
        return psutil.Process(owner.pid).children(recursive=True)

    wait_until(lambda: len(tree()) >= 4)  # supervisor, worker, and what vLLM starts
    processes = tree()

    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    _, alive = psutil.wait_procs(processes, timeout=15)

    assert [process.cmdline() for process in alive] == []


def unopened(folder: Path, patch: pytest.MonkeyPatch, python: str | Path) -> Any:
    """An engine that is started by another Python, or by a program that is none."""
    patch.setenv("REGRADE_ENGINE_PYTHON", str(python))
    none = ModelIdentity(name="none", kind="local", revision="0")
    return opened(ResolvedModel(none, path="/none"), folder / "log")


def script(folder: Path, command: str) -> Path:
    python = folder / "python"
    python.write_text(f"#!/bin/sh\nexec {sys.executable} -c {command}\n")
    python.chmod(0o755)
    return python


def test_without_vllm_the_error_names_the_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The worker's environment has everything except vLLM."""
    hide = "import sys; sys.modules['vllm'] = None; import runpy; sys.argv.pop(0); "
    run = "runpy.run_module(sys.argv[1], run_name='__main__', alter_sys=False)"
    python = script(tmp_path, f'"{hide}{run}" "$@"')

    with (
        pytest.raises(NotInstalledError, match="make install"),
        unopened(tmp_path, monkeypatch, python),
    ):
        pass


def test_an_engine_python_that_is_not_an_executable_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with (
        pytest.raises(SettingsError, match="/no/such/python"),
        unopened(tmp_path, monkeypatch, "/no/such/python"),
    ):
        pass


def test_a_worker_that_cannot_start_is_an_engine_error_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    python = script(tmp_path, "'import no_such_module'")

    with (
        pytest.raises(EngineError, match="No module named 'no_such_module'") as caught,
        unopened(tmp_path, monkeypatch, python),
    ):
        pass

    assert caught.value.log == str(tmp_path / "log")


def test_extra_arguments_are_read_as_yaml():
    extra = parse_extra(("a=1", "b=true", "c={mode: 3}", "load-format=dummy", "d=x=y", "e="))

    assert extra == {
        "a": 1,
        "b": True,
        "c": {"mode": 3},
        "load_format": "dummy",
        "d": "x=y",
        "e": None,
    }


@pytest.mark.parametrize("pair", ["dtype", "=3", "a b=3", "x={"])
def test_malformed_extra_arguments_are_refused(pair: str):
    with pytest.raises(SettingsError, match="engine.extra"):
        parse_extra((pair,))


def test_an_extra_argument_with_two_values_is_refused_whatever_its_spelling():
    with pytest.raises(SettingsError, match="'block_size' is 16, and then 32"):
        parse_extra(("block-size=16", "block_size=32"))
    assert parse_extra(("block-size=16", "block_size=16")) == {"block_size": 16}


def test_infinite_log_probabilities_survive_the_channel():
    completion = _from_wire({"key": 1, "prompt": "p", "label_logprobs": [-0.5, None]})

    assert completion.label_logprobs == (-0.5, -math.inf)


@pytest.mark.vllm
def test_requests_that_are_withdrawn_are_left_out_wherever_they_are(vllm_engine: Engine):
    n = 6000  # more than the worker takes at a time
    requests = Withdrawing(Request(k, f"{k} plus 1", SAMPLING) for k in range(n))
    done: list[int] = []
    for batch in vllm_engine.generate(requests):
        done += [completion.key for completion in batch]
        if not requests.withdrawn:
            requests.withdrawn = frozenset(range(100, n - 10))
    kept = {*range(100), *range(n - 10, n)}
    assert kept <= set(done)
    assert len(done) == len(set(done))
    # Those that the engine had in work; the iterator of these requests does not leave out any itself.
    assert len(done) < n / 2
    assert len(ask(vllm_engine, [Request(0, QUESTION, SAMPLING)])) == 1


@pytest.mark.vllm
@pytest.mark.slow
def test_planned_requests_that_are_withdrawn_are_passed_over(
    resolved_model: ResolvedModel, tmp_path: Path
):
    planned = Withdrawing(Request(k + 7, f"{k} plus 1", SAMPLING) for k in range(6000))
    with opened(resolved_model, tmp_path / "engine.log", FAST, planned) as engine:
        planned.withdrawn = frozenset(range(7, 5007))
        done = ask(engine, planned)
    assert [c.key for c in done] == list(range(5007, 6007))
    assert all(c.prompt == f"{c.key - 7} plus 1" for c in done)


@pytest.mark.vllm
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_copies_of_a_model_that_is_split_answer_as_a_single_one(
    resolved_model: ResolvedModel, vllm_engine: Engine, tmp_path: Path
):
    """Two copies, each split into two: four processes with a part of the model each."""
    settings = FAST.model_copy(
        update={
            "data_parallel_size": 2,
            "tensor_parallel_size": 2,
            "extra": ("kv_cache_memory_bytes=67108864",),
        }
    )
    requests = [Request(k, f"{k} plus 1", SAMPLING) for k in range(60)]
    requests += [Request(60, QUESTION, SAMPLING, (" A", " B"))]
    with opened(resolved_model, tmp_path / "engine.log", settings) as engine:
        tree = psutil.Process(_supervisor_pid(engine)).children(recursive=True)
        workers = [process for process in tree if "VLLM::Worker" in _command(process)]
        completions = ask(engine, requests)
    alone = ask(vllm_engine, requests)
    assert len(workers) == 4
    assert [c.text for c in completions] == [c.text for c in alone]
    assert completions[60].label_logprobs == pytest.approx(alone[60].label_logprobs, abs=1e-4)
