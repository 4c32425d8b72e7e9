"""The manifest of an answer set: its specification, its files, and the sessions that generated them.

A manifest is untrusted input: it is validated on reading, and shard names are single path components.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from regrade.answers.rows import failed_rows, refused_rows
from regrade.records.columns import SCHEMA_VERSION
from regrade.records.computed import BatchCheck, Computed, LoadedWeights
from regrade.records.specification import Specification
from regrade.settings import AnswerSetId, Seconds, StoredName, StrictModel, Timestamp
from regrade.stats.speed import EngineMemory, Speed

SESSION_ID = r"^[0-9a-f]{12}$"
Count = Annotated[int, Field(ge=0, lt=2**63)]
"""A number in stored data with which numpy can count."""


ImagesKept = Literal["stored", "source"]
"""Place of the images that questions show. `stored`: beside the answers (`regrade.answers.images`). `source`: not to be copied, in the
row `index` of the benchmark's source. None: no question shows one, or version 0.2.0 made all answers, and copied none."""


class Shard(StrictModel):
    """A Parquet file of generations; its name includes the hash of its content."""

    name: str = Field(pattern=r"^part-[0-9]{5}-[0-9a-f]{8}\.parquet$")
    """`part-<number>-<first 8 digits of sha256>.parquet`, in the folder of the manifest."""
    rows: Count = Field(ge=1)
    bytes: Count = Field(ge=1)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    session: str | None = Field(None, pattern=SESSION_ID)
    """Session that generated all its rows. None: not known (version 1, and imported answers)."""
    failed: Count | None = None
    """Rows whose request failed and may succeed if it is sent again; None: not known (version 1)."""
    refused: Count | None = None
    """Rows whose request cannot succeed; None: not known (version 1)."""
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    seconds: Seconds = 0.0
    """Largest `finished_at` of its rows: the answer set's seconds of the session's generation."""
    label_methods: dict[str, int] = Field(default_factory=dict)
    """Rows per way of ranking labels: `single_token`, or the slower `per_choice` fallback."""


class Stopped(StrictModel):
    """A verdict that was sure before all questions were answered, so that the rest was not asked."""

    verdict: Literal["pass", "regression"]
    questions: int = Field(ge=0)
    """Questions that the verdict needed: the first ones of a random order, with an answer on both sides."""
    of: int = Field(ge=1)
    """Questions of the answer set."""
    baseline: AnswerSetId
    """Answer set of the baseline."""

    def __str__(self) -> str:
        return f"stopped after {self.questions:,} of {self.of:,}: {self.verdict}"


class Session(StrictModel):
    """A run of generation; an answer set that was continued has several.

    With an `id`, rows, seconds and tokens are those of the session's shards: rows that were lost, replaced or left out
    do not count. Without one (version 1), they are what the run counted.
    """

    id: str | None = Field(None, pattern=SESSION_ID)
    started_at: Timestamp
    regrade_version: str
    engine: str
    engine_version: str | None
    device: str | None
    dtype: str | None
    max_model_len: int | None
    chat_template_sha256: str | None
    prompt_day: date | None = None
    """Day that the chat template printed as today; None if it printed none, or only the server knows."""
    reasoning_parser: str | None = None
    """vLLM's parser that told reasoning and answer apart; None without one."""
    structured_outputs: str | None = None
    """Software that kept answers to their form, such as `xgrammar 0.2.8`; None: no answer had to have one, or only the server
    knows."""
    computed: Computed | None = None
    """Computation behind the answers. None: not known (of servers, and before it was recorded)."""
    weights: LoadedWeights | None = None
    """Weights behind the answers. None: not known (of servers, and before they were recorded)."""
    batches: BatchCheck | None = Field(None, exclude_if=lambda check: check is None)
    """Answers to fixed prompts, each alone and all together; None: not compared (only `regrade noise` does)."""
    mixed: tuple[str, ...] = ()
    """Differences to what earlier sessions computed, which `--mix` accepted."""
    engine_settings: dict[str, Any]
    in_flight: int | None = Field(None, ge=1)
    """Most requests at a time that the run allowed; None: as many as its engine takes by itself."""
    memory: EngineMemory | None = None
    """Memory and KV cache of the engine at its start. None: not known, as of servers."""
    sets: int = Field(1, ge=1, exclude_if=lambda sets: sets == 1)
    """Answer sets that the engine was given in one stream, this one included."""
    speed: Speed | None = None
    """Measurements inside the engine. None: the engine does not measure, or the session did not reach its end."""
    stopped: Stopped | None = None
    """The verdict at which the session left out the rest (`--stop-when-sure`); None: it asked all."""
    load_seconds: Seconds
    generate_seconds: Seconds = 0.0
    """Seconds from the first request until the session's last stored row; the set's share of them if others shared the engine."""
    rows: Count = 0
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    label_methods: dict[str, int] = Field(default_factory=dict)
    """Rows per way of ranking labels: `single_token`, or the slower `per_choice` fallback."""

    @property
    def shared(self) -> bool:
        """The engine was given other sets, or answered more than these rows, as it measured: lost ones, or choices.

        Of several sets none is alone, whatever was measured: the first to end has others at its end, the last at its beginning.
        """
        return self.sets > 1 or (self.speed is not None and self.speed.requests > self.rows)

    def counted(self, shards: Iterable[Shard]) -> Self:
        """Return the session with the counts of those shards that it generated; unchanged without an `id`."""
        if self.id is None:
            return self
        own = [shard for shard in shards if shard.session == self.id]
        methods: Counter[str] = Counter()
        for shard in own:
            methods.update(shard.label_methods)
        changes = {
            "rows": sum(shard.rows for shard in own),
            "generate_seconds": max((shard.seconds for shard in own), default=0.0),
            "prompt_tokens": sum(shard.prompt_tokens for shard in own),
            "completion_tokens": sum(shard.completion_tokens for shard in own),
            "label_methods": dict(sorted(methods.items())),
        }
        return self.model_copy(update=changes)


_HARMLESS = frozenset(
    {"temperature 1.0", "top_p 1.0", "presence_penalty 0.0", "frequency_penalty 0.0", "stop"}
)
"""Values that OpenAI's API has by default (https://platform.openai.com/docs/api-reference/chat/create), and stop texts,
which are applied to the answer."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all sessions that generated an answer set; zeros for imported answers, which have no session."""

    seconds: float
    """Wall-clock seconds of generating, without loading; shares of them where several answer sets shared an engine."""
    load_seconds: float
    """Seconds of loading engines. Answer sets that one engine answered share its load, and each counts all of it."""
    prompt_tokens: int
    completion_tokens: int
    """Generated tokens, reasoning included."""
    shared: bool
    """The seconds were not spent on these tokens alone, as far as known."""

    def per_second(self, tokens: int) -> float | None:
        """Return some of the tokens per second of generating; None if either is not known, or others had a share of the engine."""
        return tokens / self.seconds if tokens and self.seconds and not self.shared else None


class Manifest(StrictModel):
    """Description and contents of an answer set."""

    schema_version: int = SCHEMA_VERSION
    answer_set_id: AnswerSetId
    specification: Specification
    state: Literal["incomplete", "complete"]
    """`complete`: there is a row for every sample and repeat, and none that failed and may succeed."""
    n_samples: Count = Field(ge=1)
    """Number of questions; `n_samples * specification.repeats` rows are expected."""
    rows: Count
    shards: tuple[Shard, ...]
    replaced: tuple[str, ...] = ()
    """sha256 of former shards, whose rows were generated again; scorings of them are stale."""
    sessions: tuple[Session, ...]
    scorers: tuple[StoredName, ...]
    """Scorers of the benchmark; the first gives its headline number."""
    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Subsets by category, such as MMLU's `STEM`."""
    withheld: bool = False
    """The questions are not in the repository; `regrade.answers.withheld` keeps them."""
    images: ImagesKept | None = Field(None, exclude_if=lambda kept: kept is None)
    created_at: Timestamp
    updated_at: Timestamp

    @property
    def expected(self) -> int:
        """Rows of the complete answer set."""
        return self.n_samples * self.specification.repeats

    @property
    def answered(self) -> str:
        """Number of its answers that exist, and why no more: `228 of 400 answers, 2 failed, stopped after 169 of 400: regression`."""
        failed = f", {self.failed:,} failed" if self.failed else ""
        why = f", {self.stopped}" if self.stopped else ""
        return f"{self.rows:,} of {self.expected:,} answers{failed}{why}"

    def to_score(self, options: str = "") -> str:
        """Return the command that scores it, with commands in backticks.

        Of a set that was stopped, a number would mislead: it is what asks the rest, after the reason.
        """
        if self.stopped:
            return f"{self.answered}. `regrade evaluate` without `--stop-when-sure` asks the rest"
        return f"`regrade score --answer-set {self.answer_set_id}{options}`"

    @property
    def mixed(self) -> tuple[str, ...]:
        """Differences in what its sessions computed, which `--mix` accepted."""
        return tuple(dict.fromkeys(text for session in self.sessions for text in session.mixed))

    @property
    def stopped(self) -> Stopped | None:
        """The verdict at which the last session left out the rest; None if it asked all, or nothing is missing any more."""
        if self.state == "complete" or not self.sessions:
            return None
        return self.sessions[-1].stopped

    @property
    def doubts(self) -> tuple[str, ...]:
        """Sentences about what the settings do not say of its answers."""
        said = []
        if self.stopped:
            said.append(f"S{str(self.stopped)[1:]}. The rest was not asked.")
        if self.mixed:
            said.append(f"Its answers were not all computed alike: {'; '.join(self.mixed)}.")
        if self.not_sent:
            said.append(
                f"The server refused {', '.join(self.not_sent)}: its own values were in effect."
            )
        return tuple(said)

    @property
    def not_sent(self) -> tuple[str, ...]:
        """Sampling params that servers refused and that would have changed answers."""
        computed = [session.computed for session in self.sessions if session.computed is not None]
        refused = dict.fromkeys(text for known in computed for text in known.not_sent or ())
        return tuple(text for text in refused if text not in _HARMLESS)

    @property
    def totals(self) -> Totals:
        """Seconds and tokens of all sessions."""
        return Totals(
            seconds=sum((session.generate_seconds for session in self.sessions), 0.0),
            load_seconds=sum((session.load_seconds for session in self.sessions), 0.0),
            prompt_tokens=sum(session.prompt_tokens for session in self.sessions),
            completion_tokens=sum(session.completion_tokens for session in self.sessions),
            shared=any(session.shared for session in self.sessions),
        )

    @property
    def failed(self) -> int:
        """Rows whose request failed and may succeed if it is sent again, as far as known."""
        return sum(shard.failed or 0 for shard in self.shards)

    @property
    def refused(self) -> int:
        """Rows whose request cannot succeed, as far as known."""
        return sum(shard.refused or 0 for shard in self.shards)


def state_of(expected: int, shards: Iterable[Shard]) -> Literal["incomplete", "complete"]:
    """Return the state of an answer set with these shards; see `Manifest.state`."""
    rows = failed = 0
    for shard in shards:
        rows += shard.rows
        failed += shard.failed or 0
    return "complete" if rows == expected and not failed else "incomplete"


# Counts of the rows of a shard, by which sessions add up.

COLUMNS = (
    "error",
    "error_permanent",
    "prompt_tokens",
    "completion_tokens",
    "finished_at",
    "label_method",
)
"""Columns of `GENERATION_SCHEMA` that are counted."""


def count_rows(batches: Iterable[pa.RecordBatch]) -> dict[str, Any]:
    """Return the counts of a shard, as fields of `Shard`.

    Args:
        batches: Needs `COLUMNS`.
    """
    counts = dict.fromkeys(("failed", "refused", "prompt_tokens", "completion_tokens"), 0)
    methods: Counter[str] = Counter()
    seconds = 0.0
    for batch in batches:
        counts["failed"] += int(failed_rows(batch).sum())
        counts["refused"] += int(refused_rows(batch).sum())
        for name in ("prompt_tokens", "completion_tokens"):
            counts[name] += int(_numbers(batch, name).sum())
        seconds = max(seconds, float(_numbers(batch, "finished_at").max(initial=0.0)))
        methods.update(method for method in batch["label_method"].to_pylist() if method)
    return {**counts, "seconds": seconds, "label_methods": dict(sorted(methods.items()))}


def _numbers(batch: pa.RecordBatch, name: str) -> NDArray[np.float64]:
    values = batch[name].drop_null().to_numpy(zero_copy_only=False)
    return np.asarray(values, np.float64)
