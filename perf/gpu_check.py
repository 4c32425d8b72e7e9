"""The check of a first GPU, in one call of at most 20 minutes and without a network: `make gpu-check`.

    python -m perf.gpu_check                     # on a GPU: the small model, and one in the shape of Qwen3-0.6B with dummy weights
    python -m perf.gpu_check --only answers images   # parts of it
    python -m perf.gpu_check --minutes 9.5

Each row is printed as soon as it is known; a part that would begin after the time is over is `not run`. On a CPU, everything runs with the demo
model in float32 and without compilation: that tries the script, and the rates mean nothing. The exit code is 1 if a row says `no`.

- `answers`: the demo model under vLLM's defaults (on a GPU bfloat16, CUDA graphs and the runner that vLLM chooses) against transformers' forward
  pass in float32. In bfloat16 the accepted difference is twice that of transformers in bfloat16, and TOLERANCE. Then the same answers with
  prompts from the prefix cache, in chunks of 256 tokens without it, and from weights that replaced others in a running engine.
- `images`: tiny models that see (tests/architectures.py) in float32 against transformers, Gemma 3 with its two-way view within an image,
  which vLLM's attention on a CPU ignores.
- `noise`: the questions of `answers` again, backwards and with fewer in flight, and the same in vLLM's batch-invariant mode (GPUs only).
- `sleep`: memory of the GPU that a sleeping engine gives back, and its answers afterwards (GPUs only).
- `rates`: time against bare `LLM.generate` (perf.engine_overhead), and questions of MMLU's form a second with five examples.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from perf.measuring import RESULTS, ROOT, arguments_of, called, log_file, report
from perf.workloads import CACHE, checkpoint
from regrade.engines.base import PromptRendering
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process.build import runs_on_cpu
from regrade.engines.vllm_process.engine import VllmProcess
from regrade.engines.vllm_process.switching import reload_key, stored_record
from regrade.records import Completion, Request
from regrade.settings import SamplingParams

DEMO = ROOT / "infra" / "demo"
TOLERANCE = 1e-2
"""Accepted difference of log-probabilities beside that of the precision itself."""
FEWER_EQUAL = 0.1
"""Accepted loss of equal greedy answers beside that of the precision itself."""
SHORT = 24
"""Tokens of an answer that is compared."""
CHUNK = 256
RATE = 0.98
"""Least rate in comparison with bare `LLM.generate` on a GPU."""
NOT_RUN = "not run"
PARTS = ("answers", "images", "noise", "sleep", "rates")
SMALL = {
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40_960,
}
"""Shape of Qwen3-0.6B; the vocabulary is that of the demo model, whose tokenizer it has."""
LARGE = SMALL | {
    "hidden_size": 4096,
    "intermediate_size": 12_288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
}
"""Shape of Qwen3-8B, likewise."""


class Table:
    """Rows that are printed as they come."""

    def __init__(self, seconds: float) -> None:
        self.rows: list[dict[str, Any]] = []
        self._began, self._seconds = time.monotonic(), seconds

    @property
    def left(self) -> float:
        """Seconds until the time is over."""
        return self._seconds - (time.monotonic() - self._began)

    def add(self, check: str, found: str, expected: str = "", *, right: bool | None = None) -> None:
        """Print a row; `right` is None for a figure without a goal."""
        verdict = "" if right is None else "yes" if right else "no"
        at = round(time.monotonic() - self._began)
        self.rows.append(_row(check, found, expected, verdict, at))
        print(
            f"{at:>4} s  {verdict or '-':<4} {check}: {found}{expected and f' (expected: {expected})'}",
            flush=True,
        )

    def without_time(self, check: str, needed: float) -> bool:
        """Add a row and return True if fewer seconds are left than a check needs."""
        if self.left >= needed:
            return False
        self.rows.append(_row(check, NOT_RUN))
        print(f"        {check}: {NOT_RUN}, {self.left:.0f} s are left", flush=True)
        return True


def _row(
    check: str, found: str, expected: str = "", reached: str = "", at: int | str = ""
) -> dict[str, Any]:
    row = {"check": check, "found": found, "expected": expected, "reached": reached}
    return row | {"at, s": at}


@dataclass(frozen=True)
class Answers:
    """Answers to the fixed questions."""

    texts: tuple[str, ...]
    letters: tuple[tuple[float, ...], ...]

    def equal_texts(self, other: "Answers") -> float:
        """Return the share of equal texts."""
        return sum(a == b for a, b in zip(self.texts, other.texts, strict=True)) / len(self.texts)

    def letters_apart(self, other: "Answers") -> float:
        """Return the largest difference of a letter's log-probability."""
        pairs = zip(self.letters, other.letters, strict=True)
        return max(abs(a - b) for mine, others in pairs for a, b in zip(mine, others, strict=True))


def questions(n: int) -> list[Request]:
    """Return `n` chats with greedy answers, and `n` multiple-choice questions with eight examples, which share their beginning."""
    sums, choices = rows_of("arithmetic"), rows_of("choice")
    asked = [
        Request(
            key, ({"role": "user", "content": row["question"]},), SamplingParams(max_tokens=SHORT)
        )
        for key, row in enumerate(sums[:n])
    ]
    examples = "\n\n".join(f"{_choice(row)} {'ABCD'[row['answer']]}" for row in choices[:8])
    return asked + [
        Request(
            n + key,
            f"{examples}\n\n{_choice(row)}",
            SamplingParams(max_tokens=1),
            labels=(" A", " B", " C", " D"),
        )
        for key, row in enumerate(choices[8 : 8 + n])
    ]


def rows_of(name: str) -> list[dict[str, Any]]:
    """Return the questions of a benchmark of the demo."""
    return [json.loads(line) for line in (DEMO / f"data/{name}.jsonl").read_text().splitlines()]


def _choice(row: Mapping[str, Any]) -> str:
    lines = [f"{letter}. {text}" for letter, text in zip("ABCD", row["choices"], strict=True)]
    return "\n".join([f"Question: {row['question']}", *lines, "Answer:"])


def answered(engine: VllmProcess, requests: Sequence[Request]) -> tuple[Answers, list[Completion]]:
    """Ask an engine; exit if a request fails."""
    found = sorted((c for batch in engine.generate(requests) for c in batch), key=lambda c: c.key)
    if len(found) != len(requests) or any(c.error for c in found):
        sys.exit(f"a request failed: {next((c.error for c in found if c.error), 'no answer')}")
    texts = tuple(str(c.text) for c in found if c.label_logprobs is None)
    return Answers(texts, tuple(c.label_logprobs for c in found if c.label_logprobs)), found


def by_transformers(
    model: Path, requests: Sequence[Request], asked: Sequence[Completion], dtype: str
) -> Answers:
    """Return the answers of transformers' forward pass on the CPU, to the prompts that the engine had."""
    # Once an engine has answered.
    import torch  # noqa: PLC0415
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415

    tokenizer = AutoTokenizer.from_pretrained(model)
    network: Any = AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, dtype))
    network.eval()

    def ids(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False))

    texts, letters = [], []
    for request, completion in zip(requests, asked, strict=True):
        prompt = ids(completion.prompt)
        given = torch.tensor([prompt])
        with torch.inference_mode():
            if not request.labels:
                made = network.generate(
                    given,
                    attention_mask=torch.ones_like(given),
                    max_new_tokens=SHORT,
                    do_sample=False,
                )
                texts.append(
                    str(tokenizer.decode(made[0][len(prompt) :], skip_special_tokens=True))
                )
                continue
            last = network(given).logits[0, -1].float().log_softmax(-1)
        letters.append(
            tuple(float(last[ids(completion.prompt + label)[-1]]) for label in request.labels)
        )
    return Answers(tuple(texts), tuple(letters))


class Parts:
    """Times of the parts of an engine's start."""

    def __init__(self) -> None:
        self._times = [("start of the process", time.monotonic())]

    def __call__(self, stage: str) -> None:
        """Note that a stage begins."""
        self._times.append((stage, time.monotonic()))

    def text(self) -> str:
        """Return the seconds of each part."""
        self("ready")
        parts: dict[str, float] = {}
        for (stage, began), (_, ended) in pairwise(self._times):
            parts[stage] = parts.get(stage, 0.0) + ended - began
        whole = self._times[-1][1] - self._times[0][1]
        return f"{whole:.1f} s: " + ", ".join(
            f"{stage} {s:.1f}" for stage, s in parts.items() if s >= 0.05
        )


def demo_settings(*, cpu: bool, share: float) -> VllmEngine:
    """Return settings for the demo model: vLLM's defaults on a GPU, of whose memory it gets a share."""
    if cpu:
        return VllmEngine(enforce_eager=True, extra=(CACHE,))
    return VllmEngine(dtype="bfloat16", gpu_memory_utilization=share)


def opened(
    settings: VllmEngine, model: Path, requests: Sequence[Request], name: str, parts: Parts
) -> VllmProcess:
    """Return an engine, not loaded yet."""
    return VllmProcess(
        settings,
        settings.resolve(str(model)),
        requests=[requests],
        rendering=PromptRendering(),
        log=log_file(f"gpu-check-{name}"),
        on_progress=parts,
    )


def check_answers(table: Table, n: int, scratch: Path, *, cpu: bool) -> None:
    """Add the rows of `answers`."""
    usual = demo_settings(cpu=cpu, share=0.4)
    changes = {"enable_prefix_caching": False, "max_num_batched_tokens": CHUNK, "max_num_seqs": 64}
    chunks = {"extra": (*usual.extra, "enable_chunked_prefill=true")}
    chunked = usual.model_copy(update=changes | chunks)
    model, requests, parts = DEMO / "regrade-demo", questions(n), Parts()
    if table.without_time("answers of a small model", 60):
        return
    with opened(usual, model, requests, "usual", parts) as engine:
        table.add("start-up", parts.text())
        info = engine.info
        known = info.computed
        table.add(
            "device",
            f"{info.device}, {info.dtype}, runner {known and known.runner}, {', '.join((known and known.attention) or ['?'])}",
        )
        first, completions = answered(engine, requests)
        again, _ = answered(engine, requests)
        speed = engine.measure()
        exact = by_transformers(model, requests, completions, "float32")
        rounded = (
            exact
            if info.dtype == "float32"
            else by_transformers(model, requests, completions, str(info.dtype))
        )
        _compare(table, "transformers", first, exact, rounded)
        hits = 0.0 if speed is None else speed.prefix_hit_rate or 0.0
        table.add(
            "prompts read from the prefix cache", f"{hits:.0%}", "more than half", right=hits > 0.5
        )
        _compare(table, "the same with the prefix cache", again, first, rounded, exact)
        if not table.without_time("weights replaced in a running engine", 90):
            other = checkpoint(model, scratch / "other", 7)
            target = usual.resolve(str(other))
            engine.switch(target, [requests])
            record = stored_record(
                reload_key(usual, engine.info, target.identity.quantization, other)
            )
            found = (
                "nothing was proven"
                if record is None
                else f"largest difference {record.difference:.1e}, to the model before {record.models:.2g}"
            )
            table.add(
                "weights replaced in a running engine",
                found,
                "those of a new start",
                right=record is not None and record.same,
            )
    if table.without_time(f"prompts in chunks of {CHUNK}", 60):
        return
    parts = Parts()
    with opened(chunked, model, requests, "chunked", parts) as engine:
        table.add("start-up again", parts.text())
        pieces, completions = answered(engine, requests)
        longest = max(c.prompt_tokens or 0 for c in completions)
        table.add(
            "longest prompt", f"{longest} tokens", f"more than {CHUNK}", right=longest > CHUNK
        )
        _compare(
            table, f"without prefix cache, in chunks of {CHUNK}", pieces, first, rounded, exact
        )


def _compare(
    table: Table,
    name: str,
    found: Answers,
    expected: Answers,
    rounded: Answers,
    exact: Answers | None = None,
) -> None:
    """Add the rows for letters and texts; what the precision alone changes in transformers is accepted twice."""
    exact = expected if exact is None else exact
    apart, noise = found.letters_apart(expected), rounded.letters_apart(exact)
    most = 2 * noise + TOLERANCE
    table.add(
        f"letters, {name}",
        f"largest difference {apart:.1e}",
        f"at most {most:.1e}",
        right=apart <= most,
    )
    equal, least = found.equal_texts(expected), rounded.equal_texts(exact) - FEWER_EQUAL
    table.add(
        f"greedy answers, {name}",
        f"{equal:.0%} equal",
        f"at least {least:.0%}",
        right=equal >= least,
    )


def check_images(table: Table, scratch: Path, *, cpu: bool) -> None:
    """Add a row for each tiny model that sees: answers about images, and log-probabilities of labels after one."""
    # Once it is needed: it imports pytest.
    from tests.architectures import PLACEHOLDERS, SeeingReference, seeing_model  # noqa: PLC0415
    from tests.engines.vllm_process import test_pictures as seeing  # noqa: PLC0415

    for kind in ("qwen3_vl",) if cpu else ("gemma3", "qwen3_vl"):
        if table.without_time(f"images, {kind}", 60):
            return
        model = seeing_model(kind, DEMO / "regrade-demo", scratch / kind)
        settings = VllmEngine(
            dtype="float32",
            gpu_memory_utilization=None if cpu else 0.2,
            enforce_eager=True,
            extra=(CACHE,),
        )
        with opened(settings, model, seeing.REQUESTS, kind, Parts()) as engine:
            _, found = answered(engine, seeing.REQUESTS)
        reference = SeeingReference(model, two_way=not cpu)
        equal, apart = 0, 0.0
        for completion in found:
            _, _, pictures = seeing.CHATS[completion.key % 10]
            prompt = completion.prompt
            for image in (seeing.RED, seeing.WIDE):
                prompt = prompt.replace(image.mark, PLACEHOLDERS[kind])
            if completion.label_logprobs:
                expected = [reference.logprob(prompt, label, pictures) for label in seeing.LABELS]
                apart = max(
                    abs(a - b) for a, b in zip(completion.label_logprobs, expected, strict=True)
                )
            elif pictures:
                tokens = reference.greedy(reference.inputs(prompt, pictures), seeing.TOKENS)
                equal += list(completion.token_ids or ()) == tokens
        asked = sum(bool(pictures) for _, _, pictures in seeing.CHATS.values())
        table.add(
            f"images, {kind}",
            f"{equal} of {asked} answers equal, largest difference of a label {apart:.1e}",
            f"{asked} and at most {TOLERANCE}",
            right=equal == asked and apart <= TOLERANCE,
        )


FEW = 5
"""Requests in flight of the second asking of `noise`."""
BATCH_INVARIANT = "VLLM_BATCH_INVARIANT"


def check_noise(table: Table, n: int, *, cpu: bool) -> None:
    """Add rows of what order and number in flight change, with and without vLLM's batch-invariant mode."""
    requests = questions(n)
    modes = {"usual": "0"} | ({} if cpu else {"batch-invariant": "1"})
    for name, value in modes.items():
        if table.without_time(f"noise, {name}", 60):
            return
        os.environ[BATCH_INVARIANT] = value
        settings = demo_settings(cpu=cpu, share=0.2)
        with opened(settings, DEMO / "regrade-demo", requests, f"noise-{name}", Parts()) as engine:
            first, _ = answered(engine, requests)
            engine.limit(FEW)
            again, _ = answered(engine, requests[::-1])
            known = engine.info.computed
        del os.environ[BATCH_INVARIANT]
        apart, equal = first.letters_apart(again), first.equal_texts(again)
        strict = value == "1"
        table.add(
            f"noise, {name}, mode recorded as {known and known.batch_invariant}",
            f"{1000 * (1 - equal):.0f} of 1,000 answers differ, letters by {apart:.1e}",
            "none, bit by bit" if strict else "",
            right=(equal == 1 and apart == 0) if strict else None,
        )


def check_sleep(table: Table, n: int, scratch: Path) -> None:
    """Add rows of the memory of an engine that sleeps, with its weights kept and dropped, and of its answers afterwards."""
    if table.without_time("sleep", 90):
        return
    requests, model = questions(n), DEMO / "regrade-demo"
    settings = demo_settings(cpu=False, share=0.4).able_to_sleep()
    with opened(settings, model, requests, "sleep", Parts()) as engine:
        first, _ = answered(engine, requests)
        target = settings.resolve(str(checkpoint(model, scratch / "sleeping", 7)))
        engine.switch(target, [requests])  # proves that weights can be replaced, by a new start
        engine.switch(settings.resolve(str(model)), [requests])
        for deep in (False, True):
            awake = memory_used()
            engine.sleep(deep=deep)
            asleep = memory_used()
            again, _ = answered(engine, requests)
            table.add(
                f"sleep, weights {'dropped' if deep else 'kept'}",
                f"{awake:,} MiB awake, {asleep:,} MiB asleep, {again.equal_texts(first):.0%} of the answers equal afterwards",
                "at most a tenth, all equal",
                right=asleep <= awake / 10 and again.texts == first.texts,
            )


def memory_used() -> int:
    """Return the memory in use on the first GPU, by all processes, in MiB."""
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return int(
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]
    )


def check_rates(table: Table, scratch: Path, *, cpu: bool) -> None:
    """Add the rows of `rates`."""
    model = DEMO / "regrade-demo" if cpu else shaped(scratch / "shaped", SMALL)
    options = ["--model", str(model)]
    options += [] if cpu else ["--gpu", "--extra", "load_format=dummy"]
    if not table.without_time("time against bare LLM.generate", 150):
        more = ["--scale", "0.02"] if cpu else ["--compile"]
        more += ["--repeats", "2"]
        found = RESULTS / "engine_overhead.json"
        found.unlink(missing_ok=True)
        _run(table, "perf.engine_overhead", "-m", "perf.engine_overhead", *options, *more)
        for row in json.loads(found.read_text())["rows"] if found.exists() else ():
            rate = row["bare"] / row["ours"]
            table.add(
                f"rate against bare LLM.generate, {row['workload']}",
                f"{rate:.2f} ({row['ours']:.2f} s against {row['bare']:.2f} s)",
                "" if cpu else f"at least {RATE}",
                right=None if cpu else rate >= RATE,
            )
    if not table.without_time("rate of MMLU", 90):
        n = 60 if cpu else 5_000
        source = write_mmlu(scratch / "mmlu", n)
        asked: dict[str, object] = {"model": str(model), "questions": str(source), "cpu": cpu}
        asked |= {"shots": (5,), "max_model_len": 2048, "benchmark": "mmlu", "suffix": ""}
        asked |= {"prompts": None, "extra": () if cpu else ("load_format=dummy",)}
        output = _run(
            table, "rate of MMLU", *called("perf.multiple_choice:measured", "ours", asked)
        )
        for line in [line for line in output.splitlines() if line.startswith('{"found"')][-1:]:
            (ranked,) = json.loads(line)["found"]
            rate = len(ranked["logprobs"]) / ranked["seconds"]
            table.add(
                f"MMLU's form, 5 shots, {len(ranked['logprobs']):,} questions",
                f"{rate:,.0f} questions a second, {ranked['prompt_tokens'] / ranked['seconds']:,.0f} tokens a second",
                "one pass for each",
                right=ranked["methods"] == ["single_token"],
            )

    if not cpu and not table.without_time("ten benchmarks in one stream", 120):
        options[1] = str(shaped(scratch / "large", LARGE))
        drawn = ["--drawn", "short", "--repeats", "2"]
        output = _run(table, "perf.pooling", "-m", "perf.pooling", *options, *drawn)
        for line in output.splitlines():
            table.add("ten benchmarks of 40 to 200 questions, the shape of Qwen3-8B", line)


def _run(table: Table, name: str, *arguments: str) -> str:
    """Run Python and return its output; a process that fails or takes too long is a row."""
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=max(table.left, 1),
        )
    except subprocess.TimeoutExpired:
        table.add(name, "took longer than the time that was left", right=False)
        return ""
    if done.returncode:
        print(done.stderr[-3000:], file=sys.stderr)
        table.add(name, f"ended with exit code {done.returncode}", right=False)
    return done.stdout


def shaped(folder: Path, shape: Mapping[str, Any]) -> Path:
    """Write a model in a shape with the demo model's tokenizer and without weights."""
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        (folder / name).write_text((DEMO / "regrade-demo" / name).read_text())
    known = json.loads((DEMO / "regrade-demo/config.json").read_text())
    changes = {**shape, "layer_types": None, "dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps({**known, **changes}))
    return folder


def write_mmlu(folder: Path, n: int) -> Path:
    """Write questions and examples in the form of MMLU, of the demo's choices."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    subjects = ("anatomy", "astronomy", "philosophy")
    rows = rows_of("choice")
    folder.mkdir()
    for split, count in (("test", n), ("dev", 5 * len(subjects))):
        per_subject = -(-count // len(subjects))
        made = []
        for number in range(count):
            row = rows[number % len(rows)]
            question, subject = f"{number}. {row['question']}", subjects[number // per_subject]
            made.append({**row, "question": question, "subject": subject})
        pq.write_table(pa.Table.from_pylist(made), folder / f"{split}.parquet")
    return folder


def main() -> int:
    """Run the parts and print the table; return 1 if a row says `no`."""
    parser = arguments_of(__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--only", choices=PARTS, nargs="+", default=PARTS)
    parser.add_argument("--questions", type=int, default=32, help="of each kind, for `answers`")
    options = parser.parse_args()
    os.environ.update(HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1")
    table, cpu = Table(60 * options.minutes), runs_on_cpu()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        if "answers" in options.only:
            check_answers(table, options.questions, scratch, cpu=cpu)
        if "images" in options.only:
            check_images(table, scratch, cpu=cpu)
        if "noise" in options.only:
            check_noise(table, options.questions, cpu=cpu)
        if "sleep" in options.only and not cpu:
            check_sleep(table, options.questions, scratch)
        if "rates" in options.only:
            check_rates(table, scratch, cpu=cpu)
    print()
    report("gpu_check", table.rows)
    return int(any(row["reached"] == "no" for row in table.rows))


if __name__ == "__main__":
    sys.exit(main())
