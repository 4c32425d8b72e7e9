"""Whole runs against a failing test Hub, over HTTP with the real client."""

import re
import time

import pytest

from regrade.answers.hub import HubRepository
from tests.crash.conftest import LIMIT, Make, Reference
from tests.crash.harness import spooled, whole_rows
from tests.hub_server.faults import Answer, CutUpload, Drop, Stall
from tests.hub_server.fixtures import Hub

pytestmark = [pytest.mark.prefect, pytest.mark.slow, pytest.mark.timeout(600)]


def commits(hub: Hub) -> int:
    """Number of commits, except the Hub's initial commit."""
    return len(hub.repo().history("main")) - 1


def test_a_short_run_makes_one_commit(on_hub: Make, hub: Hub, hub_repository: HubRepository):
    done = on_hub(REGRADE_PUBLISH_SECONDS="60").finish()
    assert done.code == 0, done.err
    assert commits(hub) == 1
    whole_rows(hub_repository, LIMIT)


def test_a_run_ends_well_whatever_the_hub_does_meanwhile_and_repeats_no_commit(
    on_hub: Make, hub: Hub, hub_repository: HubRepository, reference: Reference
):
    hub.fail("POST", "/commit/main", Answer(504, afterwards=True))
    hub.fail("POST", "/commit/main", Answer(429, {"Retry-After": "1"}))
    hub.fail("POST", "/commit/main", Drop(afterwards=True))
    hub.fail("POST", "/commit/main", Stall(1.0))  # meanwhile another client commits: 412
    hub.fail("POST", "/preupload/main", Answer(500), after=1)
    hub.fail("PUT", "/lfs/", CutUpload(100), after=1)
    hub.fail("GET", "/answers$", Answer(503), after=2)

    others = 0
    with on_hub(REGRADE_PUBLISH_SECONDS="0.1").started() as run:
        while run.process.poll() is None:
            if hub.requests("POST", "/commit/main") - others == 4 and others == 0:
                head = hub.repo().branches["main"]
                hub_repository.commit({"notes.md": b"by somebody else"}, "notes", parent=head)
                others = 1
            time.sleep(0.01)
        done = run.wait()

    assert others == 1
    assert done.code == 0, done.err
    rows = whole_rows(hub_repository, LIMIT)
    assert {key: text for key, (text, _) in rows.items()} == reference.texts
    # Each commit adds a shard, except perhaps the last, which can only set the state, or joins ten and more of them.
    by_regrade = commits(hub) - others
    trees = [commit.tree for commit in hub.repo().commits.values()]
    shards = {path for tree in trees for path in tree if re.match(r"answers/.*\.parquet", path)}
    assert by_regrade - 1 <= len(shards) <= by_regrade + 1
    assert hub.requests("POST", "/commit/main") > commits(hub)


def test_a_token_that_is_refused_costs_no_answer(
    on_hub: Make, hub: Hub, hub_repository: HubRepository
):
    hub.fail("POST", "/commit/main", Answer(403), count=1000)
    command = on_hub(REGRADE_PUBLISH_SECONDS="1")

    refused = command.finish()

    assert refused.code == 2, refused.err
    assert "403" in refused.err
    assert "HF_TOKEN" in refused.err
    assert hub.repo_id in refused.err
    assert "regrade publish" in refused.err
    assert hub.token not in refused.err + refused.out
    left = spooled(command.spool)
    assert len(left) == LIMIT

    hub.server.forget()
    published = command.with_arguments("publish").finish()
    assert published.code == 0, published.err
    assert whole_rows(hub_repository, LIMIT) == left
