"""One answer set on its way through a flow.

A plain class, because Prefect walks through dataclasses, lists and models that are handed to a task, and there may
be a hundred thousand samples in here.
"""

from regrade.answers.base import Repository
from regrade.answers.manifest import Session
from regrade.answers.sets import AnswerSet
from regrade.answers.spool import Spool
from regrade.generation import Plan
from regrade.records import Sample


class Work:
    """A planned answer set, what is missing of it, and what has become of it."""

    def __init__(
        self, plan: Plan, repository: Repository, spool: Spool, missing: list[tuple[Sample, int]]
    ) -> None:
        self.plan = plan
        self.repository = repository
        self.spool = spool
        self.missing = missing
        self.session: Session | None = None
        """What this flow run generated; None while it has not."""
        self.published: AnswerSet | None = None
        self.load_seconds = 0.0
        self.generate_seconds = 0.0
        self.publish_seconds = 0.0

    @property
    def title(self) -> str:
        """Benchmark and model, as people say it."""
        specified = self.plan.specification
        return f"{specified.benchmark.name} · {specified.model.name}"
