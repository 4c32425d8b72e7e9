"""The result of a comparison, as `regrade compare --json` prints it.

Rates are shares (0.01 is one percentage point). Accuracies and differences are in the unit of the comparison's `scale`,
which also has shares, except for scores such as grades from 1 to 3.
"""

from datetime import date
from typing import Literal

from pydantic import BaseModel, ConfigDict

from regrade.records.computed import BatchCheck
from regrade.stats.estimates import wilson_interval
from regrade.stats.scale import SHARES, Scale

Cluster = Literal["question", "subset"]
"""Independent unit: a question, or a subset if each subset is a passage with several questions."""


Test = Literal["exact McNemar", "paired permutation", "corrected by labels, Student's t"]


class FrozenModel(BaseModel):
    """Base of the models: frozen, unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ComparedSide(FrozenModel):
    """One side on one benchmark, over all its answers, paired or not."""

    model: str
    answer_set_id: str
    repository: str
    revision: str
    """Commit from which the answers were read."""
    questions: int
    """Questions of the answer set, answered or not."""
    rows: int
    expected_rows: int
    repeats: int = 1
    """Answers per question."""
    accuracy: float | None
    """Mean over all answers of this side."""
    accuracy_stderr: float | None = None
    unparsed: int
    truncated: int
    failed: int
    """Rows without an answer: missing, not wrong."""
    figures: dict[str, float | None] = {}
    """Figures of this side, by name; see `regrade.answers.figures`."""


class SubsetComparison(FrozenModel):
    """Change in one subset, with p-values corrected for testing all subsets."""

    name: str
    n: int
    base: float
    candidate: float
    difference: float
    p_value: float
    p_adjusted: float
    """`p_value` after Benjamini and Hochberg's correction."""
    moved: bool
    """`p_adjusted` is at most 0.05; of all such subsets, at most 5 % did not move, on average."""


class FlipExample(FrozenModel):
    """A question that one side answered right and the other wrong."""

    kind: Literal["right to wrong", "wrong to right"]
    question: str
    """Sample id in the baseline."""
    subset: str
    prompt: str | None
    """The question where no prompt is stored; None for imported answers with neither."""
    target: str | None
    base_text: str | None
    base_extracted: str | None
    candidate_text: str | None
    candidate_extracted: str | None


class Asking(FrozenModel):
    """One time that the questions of an answer set were asked."""

    answer_set_id: str
    again: bool
    """The answers are there to be compared (`regrade noise`), and are no result."""
    engine: str
    """Engine and version, such as `vllm 0.32.0`; of several sessions all of them."""
    device: str
    dtype: str
    quantization: str
    in_flight: int | None
    """Most requests at a time; None: as many as the engine takes by itself."""
    order: Literal["of the benchmark", "random"]
    batch_invariant: bool | None
    """vLLM was told to compute each answer independently of the others; None: not known."""
    batches: BatchCheck | None = None
    """Answers to fixed prompts, each alone and all together; None: not compared."""
    at: date
    """Day of the last answer, UTC."""

    @property
    def place(self) -> str:
        """Engine and hardware."""
        return f"{self.engine} on {self.device}"


class NoiseFloor(FrozenModel):
    """Changes of an unchanged model that is asked the same questions again: two askings of one answer set, answer by answer."""

    model: str
    benchmark: str
    scorer: str
    first: Asking
    second: Asking
    temperature: float | None
    n: int
    """Answers on both sides."""
    unanswered: int
    """Answers that a side lacks, or whose request failed there."""
    scores_differ: int
    """Answers whose score differs. A score on one side only counts as well."""
    scores: tuple[float, float]
    """95 % interval of the share of such answers (Wilson). With several answers per question, it is as wide as for one."""
    texts_differ: int
    """Answers whose text differs in any character, or whose ranked log-probabilities differ in any bit."""
    texts: tuple[float, float]
    """95 % interval of the share of such answers."""
    logprob_difference: float | None = None
    """Largest difference of ranked log-probabilities; None: nothing was ranked."""
    questions: int
    changed: int
    """Questions whose value, a mean over its answers, differs."""
    mean_square: float
    """Mean square of these changes, as shares of the scale; 1 if there are none."""
    computed: tuple[str, ...] = ()
    """Differences in what the two engines computed."""

    @property
    def changed_interval(self) -> tuple[float, float]:
        """95 % interval of the share of questions whose value differs."""
        return wilson_interval(self.changed, self.questions)


class Noise(FrozenModel):
    """A comparison beside the noise floor of one of its models."""

    floor: NoiseFloor
    changed: float
    """Share of the compared questions whose value changed."""
    reach: float
    """Difference within which such noise alone stays in 95 of 100 comparisons of as many questions, in the unit of the scale, at
    the upper end of the floor's interval."""
    inside: bool
    """As few answers changed as of an unchanged model, as far as the intervals tell, and the difference is within `reach`."""


class Comparison(FrozenModel):
    """Two answer sets on one benchmark, question by question."""

    benchmark: str
    scale: Scale = SHARES
    """Scale of the scores."""
    calibration: str | None = None
    """`uncalibrated` for verdicts of a judge; with enough labels on both sides, the correction by them. None without a judge."""
    judged_difference: float | None = None
    """Difference of the verdicts, if `difference` and the fields around it are corrected by people's labels."""
    scorer: str
    """Scorer, version and source hash, the same for both sides."""
    base: ComparedSide
    candidate: ComparedSide
    paired_by: Literal["sample_id", "prompt"]
    """`prompt`: by prompt, target and choices, because the sample ids of the sides do not match."""
    n: int
    """Questions with a value on both sides; the value of a repeated question is the mean of its repeats."""
    coverage: float
    """Share of the questions of the larger side that were compared."""
    clusters: int
    """Independent groups of questions; fewer than `n` if they are turns of a conversation, or clustered by subset."""
    base_accuracy: float
    """Mean over the `n` questions, as are all fields below."""
    candidate_accuracy: float
    difference: float
    """Candidate minus baseline."""
    low: float
    """Lower end of the 95 % interval of the difference: the values that the tests do not exclude, each end at 97.5
    %."""
    high: float
    right_to_wrong: int
    """Questions with a lower value than in the baseline."""
    wrong_to_right: int
    test: Test
    p_value: float
    """Two-sided p-value of the hypothesis of no difference; below 0.05 exactly if the interval excludes 0. With repeats or
    passages, the larger one of the permutation test and Student's t."""
    detectable_drop: float
    """Smallest true drop that a two-sided test at 5 % would find with a probability of 80 %."""
    subsets: tuple[SubsetComparison, ...] = ()
    examples: tuple[FlipExample, ...] = ()
    noise: Noise | None = None
    """Changes of an unchanged model on this benchmark, beside this comparison; None: not measured (`regrade noise`)."""
    same_answers: bool = False
    """Both sides are the same answer set, with the same answers."""
    allowed: tuple[str, ...] = ()
    """Differences other than the model that `--allow` accepted, as texts."""
    notes: tuple[str, ...] = ()
    """Notes for the reader, such as values that are unknown on a side."""


class Refusal(FrozenModel):
    """A benchmark that was not compared, with the reason."""

    benchmark: str
    reason: str


class Comparisons(FrozenModel):
    """Comparisons of two sides on all benchmarks that both have."""

    base: str
    """Name of the baseline as given: alias, answer set id or model."""
    candidate: str
    compared: tuple[Comparison, ...]
    refused: tuple[Refusal, ...] = ()
    only_base: tuple[str, ...] = ()
    """Benchmarks to which the candidate has no complete answers."""
    only_candidate: tuple[str, ...] = ()
