"""Small real objects for tests that do not care how they came about."""

from datetime import UTC, datetime, timedelta
from typing import Any

from regrade.answers.manifest import ImagesKept, Session
from regrade.answers.origin import SetDescription
from regrade.records import Completion, Sample
from regrade.records.columns import generation_row
from regrade.records.specification import (
    BenchmarkIdentity,
    ModelIdentity,
    PromptIdentity,
    Specification,
)
from regrade.settings import SamplingParams

WEIGHTS = (2).to_bytes(8, "little") + b"{}"
"""A safetensors file without a tensor."""


def specification(
    benchmark: str | BenchmarkIdentity = "sums",
    model: str | ModelIdentity = "org/tiny",
    **changes: Any,
) -> Specification:
    fields: dict[str, Any] = {
        "model": model
        if isinstance(model, ModelIdentity)
        else ModelIdentity(name=model, kind="hub", revision="a" * 40),
        "benchmark": benchmark
        if isinstance(benchmark, BenchmarkIdentity)
        else BenchmarkIdentity(
            name=benchmark, version=1, source="local", source_revision="b" * 64, split="test"
        ),
        "prompt": PromptIdentity(format="chat", template="{{ question }}", n_shots=0),
        "method": "generate",
        "sampling": SamplingParams(),
    }
    return Specification(**(fields | changes))


def description(
    n_samples: int,
    scorers: tuple[str, ...] = ("number",),
    images: ImagesKept | None = None,
    **changes: Any,
) -> SetDescription:
    specified = specification(**changes)
    return SetDescription(
        specification=specified, n_samples=n_samples, scorers=scorers, images=images
    )


def session(minute: int = 0, **changes: Any) -> Session:
    """A session of vLLM without counts; its number is the minute at which it begins."""
    fields: dict[str, Any] = {
        "id": f"{minute:012x}",
        "started_at": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minute),
        "regrade_version": "0",
        "engine": "vllm",
        "engine_version": "0.32.0",
        "device": "cpu",
        "dtype": "float32",
        "max_model_len": 512,
        "chat_template_sha256": None,
        "engine_settings": {},
        "load_seconds": 1.0,
    }
    return Session(**(fields | changes))


def row(number: int, text: str = "", *, repeat: int = 0, **changes: Any) -> dict[str, Any]:
    sample = Sample(
        f"sample-{number:05d}", number, str(number), {}, subset="even" if number % 2 == 0 else "odd"
    )
    completion = Completion(
        number,
        prompt=f"What is {number}?",
        text=text or f"It is {number}.\n#### {number}",
        finish_reason="stop",
        prompt_tokens=5,
        completion_tokens=7,
        latency=0.25,
    )
    return generation_row(sample, repeat, completion) | changes
