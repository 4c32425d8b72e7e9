"""Requests to the Hub per publish, by the number of answer sets and shards in the repository; they should not grow.

Run:    python -m perf.hub_requests [--sizes 1 100 1000]
Needs:  the Hub server of the tests; nothing leaves this machine
Counts: all requests of one process with an empty download cache: its first publish, a later publish of the same answer
        set (the commit of every minute), publishing its scores, and listing the repository again
Report: requests, and of these the pages of listings (the server has 1,000 entries on a page)
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

os.environ["HF_HUB_DISABLE_XET"] = "1"  # read at the import of huggingface_hub

import pyarrow as pa

from perf.growth import shard_of
from perf.measuring import arguments_of, report
from regrade.answers.documents import json_bytes
from regrade.answers.hub import HubRepository
from regrade.answers.local import LocalRepository
from regrade.answers.manifest import Shard
from regrade.answers.origin import begin_session
from regrade.answers.overview import CARD, updated_card
from regrade.answers.publishing import publish_answers, publish_scores
from regrade.answers.scorefile import ScoreFile
from regrade.answers.sets import list_sets
from regrade.answers.spool import Spool
from regrade.records.columns import GENERATION_SCHEMA
from regrade.scoring.score import score_answers
from tests.builders import description, row, session
from tests.hub_server.server import HubServer
from tests.hub_server.store import Entry, Repo
from tests.stored import publish

N_SAMPLES = 100_000
"""Questions of the answer set that is generated: more than there are rows, so that it stays incomplete."""


def _shard(number: int) -> tuple[Shard, bytes]:
    return shard_of(number, pa.Table.from_pylist([row(number)], schema=GENERATION_SCHEMA))


def _score_file() -> ScoreFile:
    with tempfile.TemporaryDirectory() as scratch:
        repository = LocalRepository(Path(scratch) / "answers")
        return score_answers(publish(repository, [row(0)]), "number").file


def fill(repo: Repo, repository: HubRepository, n_sets: int, n_shards: int) -> None:
    """Add scored answer sets of other models, and `n_shards` shards of model `org/mine`, with a card of them."""
    tree = dict(next(reversed(repo.commits.values())).tree)
    now = datetime.now(UTC)
    scored = _score_file()
    shard, content = _shard(0)
    for number in range(n_sets):
        described = description(1, model=f"org/model-{number:05d}")
        manifest = described.manifest([shard], [], now)
        folder = described.specification.folder
        tree[f"answers/{folder}/manifest.json"] = Entry(json_bytes(manifest), False)
        tree[f"answers/{folder}/{shard.name}"] = Entry(content, True)
        file = scored.model_copy(update={"answer_set_id": manifest.answer_set_id})
        tree[f"scores/{folder}/{file.label}.json"] = Entry(json_bytes(file), False)
        tree[f"scores/{folder}/{file.label}.parquet"] = Entry(b"PAR1", True)
    described = description(N_SAMPLES, model="org/mine")
    shards = [_shard(number) for number in range(n_shards)]
    manifest = described.manifest([listed for listed, _ in shards], [], now)
    folder = f"answers/{described.specification.folder}"
    tree[f"{folder}/manifest.json"] = Entry(json_bytes(manifest), False)
    tree |= {f"{folder}/{listed.name}": Entry(data, True) for listed, data in shards}
    head = repo.add("main", "answers", tree).oid
    card = updated_card(repository, head, {})[CARD]
    repo.add("main", "card", tree | {CARD: Entry(card, False)})


def measure(server: HubServer, n_sets: int, n_shards: int) -> list[dict[str, Any]]:
    """Count the requests of one process that publishes into a repository with this many sets and shards."""
    user = server.store.add_user(f"user-{n_sets}-{n_shards}-{len(server.store.users)}")
    server.store.objects.clear()  # of other sizes: nothing is uploaded that is there
    repo = server.store.create("datasets", user.name, "answers", private=True, url="")
    rows: list[dict[str, Any]] = []

    @contextmanager
    def counted(what: str) -> Iterator[None]:
        before = len(server.seen)
        yield
        seen = server.seen[before:]
        pages = sum("/tree/" in request.path for request in seen)
        sizes = {"sets": n_sets, "shards": n_shards}
        rows.append({"what": what, **sizes, "requests": len(seen), "of which listing": pages})

    with tempfile.TemporaryDirectory() as scratch:

        def opened(cache: str) -> HubRepository:
            return HubRepository(
                f"{user.name}/answers",
                endpoint=server.endpoint,
                token=user.write_token,
                cache=Path(scratch) / cache,
            )

        fill(repo, opened("filling"), n_sets, n_shards)
        repository = opened("cache")
        described = description(1, model="org/new")
        with counted("publish a new answer set"), Spool(Path(scratch) / "new") as spool:
            begin_session(spool, repository.uri, described, session(0))
            spool.append([row(0)])
            published = publish_answers(repository, spool, described)
        assert published is not None  # noqa: S101 - the spool had a row
        scored = score_answers(published, "number")
        assert scored.table is not None  # noqa: S101 - not scored before
        with counted("publish its scores"):
            publish_scores(repository, [(scored.answers, scored.file, scored.table)])
        described = description(N_SAMPLES, model="org/mine")
        with Spool(Path(scratch) / "mine") as spool:
            for minute, what in ((0, "continue an answer set"), (1, "commit of the next minute")):
                begin_session(spool, repository.uri, described, session(minute))
                spool.append([row(n_shards + minute)])
                with counted(what):
                    publish_answers(repository, spool, described, only_new=True)
        head = str(repository.head())
        list_sets(repository, head)
        with counted("list the sets again"):
            list_sets(repository, str(repository.head()))
    return rows


def main() -> None:
    """Measure and report."""
    parser = arguments_of(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 100, 1_000])
    options = parser.parse_args()
    server = HubServer()
    server.start()
    try:
        rows = [entry for n in options.sizes for entry in measure(server, n, n)]
    finally:
        server.stop()
    report("hub_requests", sorted(rows, key=lambda entry: str(entry["what"])))


if __name__ == "__main__":
    main()
