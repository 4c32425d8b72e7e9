"""Clock jumps change neither the id, nor the rows, nor the shard order of an answer set."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from regrade.answers import origin, publishing
from regrade.answers.local import LocalRepository
from regrade.answers.origin import begin_session
from regrade.answers.publishing import publish_answers
from regrade.answers.sets import AnswerSet
from regrade.answers.spool import Spool
from tests.builders import description, row, session
from tests.stored import by_row

START = datetime(2026, 6, 1, tzinfo=UTC)


class Clock(datetime):
    """A clock that tests can set."""

    current = START

    @classmethod
    def now(cls, tz: object = None) -> datetime:
        return cls.current


def test_rows_shards_and_identity_survive_a_clock_that_jumps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for module in (publishing, origin):
        monkeypatch.setattr(module, "datetime", Clock)
    repository = LocalRepository(tmp_path / "answers")
    jumps = [timedelta(0), timedelta(days=-400), timedelta(days=9000), timedelta(0)]
    published: AnswerSet | None = None
    names: list[str] = []
    for number, jump in enumerate(jumps):
        Clock.current = START + jump
        with Spool(tmp_path / "spool" / "set") as spool:
            begun = session(jump.days + 1000, started_at=Clock.current)
            begin_session(spool, repository.uri, description(8), begun)
            spool.append([row(2 * number), row(2 * number + 1)])
            published = publish_answers(repository, spool, description(8))
        assert published is not None
        now = [shard.name for shard in published.manifest.shards]
        assert now[:-1] == names
        names = now

    assert published is not None
    assert published.manifest.state == "complete"
    assert published.manifest.specification == description(8).specification
    assert [sample_id for sample_id, _ in by_row(published, "text")] == [
        f"sample-{number:05d}" for number in range(8)
    ]
    assert len(published.manifest.sessions) == 3  # the first and the last begin at one time
