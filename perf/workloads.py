"""What engines are measured with."""

from dataclasses import dataclass

MAX_MODEL_LEN = 512
_WORDS = (
    "Anna",
    "buys",
    "apples",
    "at",
    "the",
    "market",
    "and",
    "gives",
    "some",
    "to",
    "her",
    "brother",
)


@dataclass(frozen=True)
class Workload:
    """Prompts, and how long their answers may be."""

    name: str
    requests: int
    max_tokens: int
    goal: float
    """Highest ratio of our time to that of bare `LLM.generate`."""

    def prompts(self) -> list[str]:
        """Return prompts of different lengths, each with a beginning of its own."""
        return [
            f"Question {n}: "
            + " ".join(_WORDS[k % len(_WORDS)] for k in range(20 + n % 30))
            + "\nAnswer:"
            for n in range(self.requests)
        ]


WARM_UP = Workload("warm-up", 64, 4, 0)
WORKLOADS = (
    Workload("2,000 x 64 tokens", 2000, 64, 1.05),
    Workload("10,000 x 1 token", 10_000, 1, 1.15),
)
