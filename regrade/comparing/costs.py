"""Cost of stored answers: seconds, tokens or money per question, from the sessions that generated them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Literal

from regrade.answers.manifest import Manifest, Session
from regrade.engines.vllm_process.settings import PARALLEL

Over = Literal["seconds", "tokens", "money"]
UNITS: Mapping[Over, str] = {
    "seconds": "seconds of generating per question",
    "tokens": "tokens of answers per question",
    "money": "cost per question",
}


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices, by model; the key "" holds for all other models."""

    gpu_hour: Mapping[str, float] = field(default_factory=dict)
    """Price of an hour of one GPU."""
    tokens: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Prices of a million tokens: of prompts, and of answers."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs per question; None if they are not known."""

    seconds: float | None
    """Wall-clock time of generating, over all sessions, without loading."""
    tokens: float | None
    """Tokens of answers."""
    prompt_tokens: float | None
    gpu_seconds: float | None
    """`seconds` times the GPUs that the engine used."""
    devices: tuple[str, ...]
    """Devices that generated; a server's is not known."""

    def per_question(self, over: Over, model: str, prices: Prices) -> float | None:
        """Return the cost of a question, or None if it is not known."""
        if over == "seconds":
            return self.seconds
        if over == "tokens":
            return self.tokens
        by_token = prices.tokens.get(model, prices.tokens.get(""))
        if by_token is not None:
            if self.tokens is None or self.prompt_tokens is None:
                return None
            return (self.prompt_tokens * by_token[0] + self.tokens * by_token[1]) / 1e6
        by_hour = prices.gpu_hour.get(model, prices.gpu_hour.get(""))
        if by_hour is None or self.gpu_seconds is None:
            return None
        return self.gpu_seconds * by_hour / 3600


UNKNOWN = Costs(None, None, None, None, ())


def costs_of(manifest: Manifest) -> Costs:
    """Return the costs of an answer set; imported answers have no sessions, and none are known."""
    sessions = [session for session in manifest.sessions if session.rows]
    measured = sum(session.rows for session in sessions) == manifest.rows
    if not sessions or not measured:
        return UNKNOWN
    n, totals = manifest.n_samples, manifest.totals
    seconds = [session.generate_seconds for session in sessions]
    has_tokens = all(session.completion_tokens for session in sessions)
    on_gpus = [_gpus(session) for session in sessions]
    known = [gpus for gpus in on_gpus if gpus is not None]
    return Costs(
        seconds=totals.seconds / n if all(seconds) else None,
        tokens=totals.completion_tokens / n if has_tokens else None,
        prompt_tokens=totals.prompt_tokens / n if has_tokens else None,
        gpu_seconds=sum(s * g for s, g in zip(seconds, known, strict=True)) / n
        if len(known) == len(sessions) and all(seconds)
        else None,
        devices=tuple(dict.fromkeys(session.device or "a server" for session in sessions)),
    )


def _gpus(session: Session) -> int | None:
    """Return the GPUs of a session; None for a server, whose GPUs are not known."""
    if session.engine != "vllm":
        return None
    sizes: Sequence[object] = [session.engine_settings.get(name, 1) for name in PARALLEL]
    return prod(size for size in sizes if isinstance(size, int))
