"""What a comparison says, as `regrade compare --json` prints it.

Accuracies, differences and rates are shares (0.01 is one percentage point), as everywhere in results.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict

Cluster = Literal["question", "subset"]
"""What is taken to be independent: questions, or subsets where these are passages with several questions each."""


class Part(BaseModel):
    """Base: frozen, and nothing that this version does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ComparedSide(Part):
    """One of the two sides on one benchmark, over all its answers and not only those that have a partner."""

    model: str
    answer_set_id: str
    repository: str
    revision: str
    """Commit that was read."""
    questions: int
    """Questions that were asked for, answered or not."""
    rows: int
    expected_rows: int
    accuracy: float | None
    """Over everything that this side answered."""
    unparsed: int
    truncated: int
    failed: int
    """Rows without an answer: missing, not wrong."""

    @property
    def unparsed_rate(self) -> float | None:
        """Share of the rows in which nothing could be read."""
        return self.unparsed / self.rows if self.rows else None

    @property
    def truncated_rate(self) -> float | None:
        """Share of the rows that were cut off."""
        return self.truncated / self.rows if self.rows else None


class SubsetComparison(Part):
    """One subset, and whether it moved more than looking at all of them explains."""

    name: str
    n: int
    base: float
    candidate: float
    difference: float
    p_value: float
    p_adjusted: float
    """After Benjamini and Hochberg: of the subsets said to have moved, at most 5 % did not, on average."""
    moved: bool


class FlipExample(Part):
    """One question that one side answered right and the other wrong."""

    kind: Literal["right to wrong", "wrong to right"]
    question: str
    """Sample id on the baseline's side."""
    subset: str
    prompt: str | None
    target: str | None
    base_text: str | None
    base_extracted: str | None
    candidate_text: str | None
    candidate_extracted: str | None


class Comparison(Part):
    """Two answer sets on one benchmark, question by question."""

    benchmark: str
    scorer: str
    """Scorer, version and source hash that graded both sides."""
    base: ComparedSide
    candidate: ComparedSide
    paired_by: Literal["sample_id", "prompt"]
    """`prompt`: by prompt, target and choices, where the ids are not of the same making."""
    n: int
    """Questions with a value on both sides; repeats of a question are one value, their mean."""
    coverage: float
    """Share of the questions of the larger side that were compared."""
    clusters: int
    """Independent groups among the `n`; as many, unless subsets are passages."""
    base_accuracy: float
    """Over the `n` questions, as is all that follows."""
    candidate_accuracy: float
    difference: float
    """Candidate minus baseline."""
    low: float
    """Ends of the 95 % interval of the difference (score test, each end at 97.5 %)."""
    high: float
    right_to_wrong: int
    """Questions with a lower value than before; with repeats, of their mean."""
    wrong_to_right: int
    test: Literal["exact McNemar", "paired permutation"]
    p_value: float
    """Two-sided, of no difference at all."""
    detectable_drop: float
    """Smallest true drop that this test (two-sided, 5 %) would find with a chance of 80 %."""
    subsets: tuple[SubsetComparison, ...] = ()
    examples: tuple[FlipExample, ...] = ()
    allowed: tuple[str, ...] = ()
    """Differences that were named as meant, each as a sentence."""
    notes: tuple[str, ...] = ()
    """What is not known of a side, and other things that a reader should know."""


class Refusal(Part):
    """A benchmark on which the two sides are not compared."""

    benchmark: str
    reason: str


class Comparisons(Part):
    """Everything that two sides have in common."""

    base: str
    """The baseline as it was asked for."""
    candidate: str
    compared: tuple[Comparison, ...]
    refused: tuple[Refusal, ...] = ()
    only_base: tuple[str, ...] = ()
    """Benchmarks that the candidate has no complete answers to."""
    only_candidate: tuple[str, ...] = ()
