"""Publish scores; retried after temporary failures."""

import logging
from collections.abc import Sequence

from regrade.answers import publishing
from regrade.answers.base import Repository
from regrade.answers.result import Result
from regrade.text.text import counted
from tasks.step import PUBLISHING_DELAYS, step

logger = logging.getLogger("regrade.publish")


@step("publish scores", delays=PUBLISHING_DELAYS)
def publish_scores(repository: Repository, scored: Sequence[Result]) -> str | None:
    """Publish all new scorings in one commit, and return the revision; None if the repository has no commit."""
    new = [(entry.answers, entry.file, entry.table) for entry in scored if entry.table is not None]
    revision = publishing.publish_scores(repository, new)
    if new:
        logger.info("%s published at %s", counted(len(new), "scoring"), str(revision)[:12])
    return revision
