"""Answer repositories on a failing Hub: refusals, lost answers, late reads, wrong content."""

import logging
import os
import pickle
import time
import traceback
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from regrade.answers.hub import FILES_PER_COMMIT, HubRepository
from regrade.hub.client import bound_requests
from regrade.hub.retries import RetryPolicy
from regrade.settings.errors import DamagedAnswersError, HeadMovedError, HubError, RepositoryError
from tests.hub_server.faults import Action, Answer, Corrupt, CutUpload, Drop, Lag, Stall, Truncate
from tests.hub_server.fixtures import Hub

QUICK = RetryPolicy(attempts=5, first_wait=0.02, longest_wait=0.1, total=8)
SHARD = "answers/b/m/0/part-00000-01234567.parquet"
MANIFEST = "answers/b/m/0/manifest.json"
Make = Callable[..., HubRepository]


@pytest.fixture
def make(hub: Hub, tmp_path: Path) -> Iterator[Make]:
    """Build repositories of the test's user; keyword arguments replace the defaults."""

    def build(**changes: object) -> HubRepository:
        usual = {"endpoint": hub.endpoint, "token": hub.token, "cache": tmp_path / "cache"}
        return HubRepository(hub.repo_id, **(usual | {"retries": QUICK} | changes))

    yield build
    bound_requests(120.0)


@pytest.fixture
def repository(make: Make) -> HubRepository:
    return make()


@pytest.fixture
def first(repository: HubRepository) -> str:
    return repository.commit({MANIFEST: b"1", "README.md": b"a"}, "first", parent=None)


def commits(hub: Hub) -> int:
    return len(hub.repo().commits)


@pytest.mark.parametrize(
    "fault",
    [
        Answer(503),
        Answer(500, text="<html>"),
        Answer(408),
        Drop(),
        Answer(500, afterwards=True),
        Answer(504, afterwards=True),
        Drop(afterwards=True),
    ],
    ids=repr,
)
@pytest.mark.parametrize("oids", [True, False], ids=["oids", "no-oids"])
def test_a_commit_happens_once_whatever_happens_to_its_answer(
    hub: Hub, repository: HubRepository, first: str, fault: Action, oids: bool
) -> None:
    hub.store.preupload_tells_oids = oids
    hub.fail("POST", "/commit/main", fault)

    second = repository.commit({MANIFEST: b"2", SHARD: b"PAR1"}, "second", parent=first)

    assert commits(hub) == 3  # the Hub's initial commit, and two
    assert repository.head() == second
    assert repository.fetch(SHARD, second).read_bytes() == b"PAR1"


@pytest.mark.parametrize("oids", [True, False], ids=["oids", "no-oids"])
def test_a_head_that_is_shown_late_after_a_lost_answer_makes_no_second_commit(
    hub: Hub, repository: HubRepository, first: str, oids: bool
) -> None:
    hub.store.preupload_tells_oids = oids
    hub.fail("POST", "/commit/main", Drop(afterwards=True))
    hub.fail("GET", "/answers$", Lag(), count=3)

    second = repository.commit({MANIFEST: b"2", SHARD: b"PAR1"}, "second", parent=first)

    assert commits(hub) == 3
    assert hub.repo().branches["main"] == second


def test_a_head_that_moved_is_told_even_while_it_is_shown_late(
    hub: Hub, make: Make, repository: HubRepository, first: str
) -> None:
    make().commit({MANIFEST: b"2"}, "someone else", parent=first)
    hub.fail("GET", "/answers$", Lag(), count=2)

    with pytest.raises(HeadMovedError):
        repository.commit({MANIFEST: b"3"}, "too late", parent=first)

    assert commits(hub) == 3


def test_someone_else_between_a_lost_answer_and_the_retry_is_a_moved_head(
    hub: Hub, make: Make, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.fail("POST", "/commit/main", Answer(503))
    meanwhile = [lambda: make().commit({MANIFEST: b"2"}, "someone else", parent=first)]
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: meanwhile and meanwhile.pop()())

    with pytest.raises(HeadMovedError):
        make().commit({MANIFEST: b"3"}, "late", parent=first)
    assert not meanwhile


def test_a_wait_longer_than_the_budget_is_not_begun(
    hub: Hub, repository: HubRepository, first: str
) -> None:
    message = "You have exceeded the rate limit for repository commits (128 per hour)."
    limited = Answer(429, {"Retry-After": "3000", "X-Error-Message": message})
    hub.fail("POST", "/commit/main", limited)
    began = time.monotonic()

    with pytest.raises(HubError, match=r"128 per hour.*try again in 3000 s") as caught:
        repository.commit({MANIFEST: b"2"}, "second", parent=first)

    assert caught.value.retryable
    assert time.monotonic() - began < 2
    assert hub.requests("POST", "/commit/main") == 2


def test_a_fault_that_stays_is_a_retryable_error_after_the_last_try(
    hub: Hub, repository: HubRepository, first: str
) -> None:
    hub.fail("POST", "/commit/main", Answer(502), count=-1)

    with pytest.raises(HubError, match="HTTP status 502") as caught:
        repository.commit({MANIFEST: b"2"}, "second", parent=first)

    assert caught.value.retryable
    assert hub.requests("POST", "/commit/main") == 1 + QUICK.attempts
    assert commits(hub) == 2
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/answers$"),
        ("POST", "/paths-info/"),
        ("POST", "/api/validate-yaml"),
        ("POST", "/repos/create"),
        ("HEAD", "/resolve/"),
        ("GET", "/resolve/"),
    ],
)
@pytest.mark.parametrize("fault", [Answer(503, text="<html>"), Drop()], ids=repr)
def test_what_the_library_does_not_retry_is_retried(
    hub: Hub, repository: HubRepository, method: str, path: str, fault: Action
) -> None:
    hub.fail(method, path, fault)

    revision = repository.commit({"README.md": b"hello"}, "first", parent=repository.head())

    assert repository.fetch("README.md", revision).read_bytes() == b"hello"
    assert commits(hub) == 2


@pytest.mark.parametrize(("method", "path"), [("POST", "/paths-info/"), ("GET", "/answers$")])
@pytest.mark.parametrize("text", ["<html>busy</html>", '[{"path": "\udcff"}]'])
def test_a_reply_that_is_not_json_or_not_utf8_is_asked_for_again(
    hub: Hub, repository: HubRepository, method: str, path: str, text: str
) -> None:
    hub.fail(method, path, Answer(200, text=text))

    revision = repository.commit({"README.md": b"hello"}, "first", parent=repository.head())

    assert repository.head() == revision
    assert commits(hub) == 2


@pytest.mark.parametrize("fault", [Answer(400), Answer(500), CutUpload(100_000)], ids=repr)
def test_an_upload_that_the_storage_did_not_get_whole_is_sent_again(
    hub: Hub, repository: HubRepository, fault: Action
) -> None:
    content = os.urandom(1 << 20)
    hub.fail("PUT", "/lfs/", fault)

    revision = repository.commit({SHARD: content}, "first", parent=None)

    assert hub.requests("PUT", "/lfs/") == 2
    assert repository.fetch(SHARD, revision).read_bytes() == content


def test_no_signed_address_reaches_a_log_or_the_terminal(
    hub: Hub,
    repository: HubRepository,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.INFO)
    hub.fail("PUT", "/lfs/", Answer(503))
    hub.fail("PUT", "/lfs/", CutUpload(after_bytes=1), after=1)
    content = os.urandom(50_000)

    revision = repository.commit({SHARD: content}, "first", parent=None)
    hub.fail("GET", "/cdn/", Truncate(20_000))
    hub.fail("GET", "/cdn/", Answer(503), after=1)
    repository.fetch(SHARD, revision)
    hub.fail("PUT", "/lfs/", Answer(422), count=-1)
    with pytest.raises(HubError) as caught:
        repository.commit({SHARD: os.urandom(99)}, "second", parent=revision)

    lines = [record.getMessage() for record in caplog.records]
    assert any("/lfs/" in line and "?***" in line for line in lines)  # they are logged, masked
    assert any("/cdn/" in line and "?***" in line for line in lines)
    shown = "\n".join([*lines, str(caught.value), *capfd.readouterr()])
    assert "X-Amz-Signature" not in shown
    logging.makeLogRecord({"msg": "one without a name, as for an unforeseen error"})


@pytest.mark.parametrize("fault", [Corrupt(), Truncate(20_000), Drop()], ids=repr)
def test_a_download_that_fails_once_is_made_good(
    hub: Hub, repository: HubRepository, fault: Action
) -> None:
    content = os.urandom(50_000)
    revision = repository.commit({SHARD: content}, "first", parent=None)
    hub.fail("GET", "/cdn/", fault)

    assert repository.fetch(SHARD, revision).read_bytes() == content


@pytest.mark.parametrize(("path", "where"), [(SHARD, "/cdn/"), (MANIFEST, "/resolve/")])
def test_a_download_of_equal_size_that_is_wrong_twice_is_refused(
    hub: Hub, repository: HubRepository, path: str, where: str
) -> None:
    revision = repository.commit({path: b"PAR1" * 99}, "first", parent=None)
    hub.fail("GET", where, Corrupt(), count=2)

    with pytest.raises(DamagedAnswersError, match="differs from the committed"):
        repository.fetch(path, revision)


def test_a_cached_file_that_was_altered_is_downloaded_again(repository: HubRepository) -> None:
    revision = repository.commit({SHARD: b"PAR1" * 99}, "first", parent=None)
    repository.fetch(SHARD, revision).write_bytes(b"PAR2" * 99)

    assert repository.fetch(SHARD, revision).read_bytes() == b"PAR1" * 99


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/answers$"), ("GET", "/tree/"), ("POST", "/commit/")]
)
def test_a_hub_that_stalls_is_given_up_and_asked_again(
    hub: Hub, make: Make, method: str, path: str
) -> None:
    repository = make(timeout=0.3)
    head = repository.commit({MANIFEST: b"1"}, "first", parent=None)
    hub.fail(method, path, Stall(20))
    began = time.monotonic()

    revision = repository.commit({MANIFEST: b"2"}, "second", parent=repository.head())

    assert MANIFEST in repository.files(revision)
    assert revision != head
    assert time.monotonic() - began < 10


def test_no_answer_at_all_is_a_retryable_error(make: Make) -> None:
    says = r"reading its head: no answer from http://127\.0\.0\.1:9 \(ConnectError\)"
    with pytest.raises(HubError, match=says) as caught:
        make(endpoint="http://127.0.0.1:9").head()

    assert caught.value.retryable


def test_long_listings_come_in_pages(hub: Hub, make: Make) -> None:
    hub.store.page_size = 7
    additions: dict[str, Path | bytes] = {f"scores/{n}.json": b"%d" % n for n in range(30)}
    revision = make().commit(additions, "many", parent=None)
    hub.server.forget()
    hub.store.page_size = 7

    assert make().files(revision, "scores").keys() == additions.keys()
    assert hub.requests("GET", "/tree/") > 4


def test_the_listing_after_a_commit_needs_no_request_and_is_what_the_hub_lists(
    hub: Hub, make: Make, repository: HubRepository, first: str
) -> None:
    repository.files(first)
    second = repository.commit({MANIFEST: b"2", SHARD: b"PAR1"}, "second", parent=first)
    asked = len(hub.server.seen)

    derived = repository.files(second)

    assert len(hub.server.seen) == asked
    assert derived == make().files(second)
    assert list(derived) == sorted(derived)


def test_files_that_someone_else_committed_are_listed_after_the_same_commit_of_ours(
    hub: Hub, make: Make, repository: HubRepository, first: str
) -> None:
    repository.files(first)
    same = make().commit({MANIFEST: b"2"}, "the same", parent=first)
    other = make().commit({SHARD: b"PAR1"}, "something else", parent=same)

    assert repository.commit({MANIFEST: b"2"}, "the same", parent=first) == other
    assert repository.files(other) == make().files(other)


def test_a_content_is_downloaded_once_for_all_revisions_and_paths(
    hub: Hub, make: Make, repository: HubRepository, first: str
) -> None:
    repository.fetch(MANIFEST, first)
    second = repository.commit({SHARD: b"PAR1", "scores/1.json": b"1"}, "2", parent=first)
    repository.files(second)
    asked = len(hub.server.seen)

    assert repository.fetch(MANIFEST, second).read_bytes() == b"1"
    assert repository.fetch("scores/1.json", second).read_bytes() == b"1"
    assert len(hub.server.seen) == asked


def test_new_shards_go_ahead_and_what_names_them_comes_last(
    hub: Hub, repository: HubRepository, first: str
) -> None:
    shards = {f"answers/b/m/0/part-{n:05d}.parquet": b"PAR1%d" % n for n in range(250)}
    additions = shards | {MANIFEST: b"2", "README.md": b"b"}

    revision = repository.commit(additions, "many", parent=first)

    history = [*reversed(hub.repo().history(revision))][1:]
    sizes = [len(new.tree.items() - old.tree.items()) for old, new in pairwise(history)]
    assert len(sizes) == 3
    assert sum(sizes) == 252
    assert max(sizes) <= FILES_PER_COMMIT
    assert [commit.tree[MANIFEST].content for commit in history] == [b"1", b"1", b"1", b"2"]


def test_a_repository_that_was_made_by_hand_takes_the_first_commit(hub: Hub, make: Make) -> None:
    hub.store.create("datasets", hub.user, "answers", private=True, url="")

    revision = make().commit({MANIFEST: b"1"}, "first", parent=make().head())

    assert make().head() == revision


def test_a_public_repository_is_read_without_a_token(hub: Hub, make: Make) -> None:
    revision = make().commit({SHARD: b"PAR1"}, "first", parent=None)
    hub.repo().private = False
    reader = make(token=None)

    assert reader.head() == revision
    assert reader.fetch(SHARD, revision).read_bytes() == b"PAR1"


def test_tags_and_branches_are_resolved(hub: Hub, repository: HubRepository, first: str) -> None:
    hub.repo().tags["v1.0"] = first
    repository.commit({MANIFEST: b"2"}, "second", parent=first)

    assert repository.resolve("v1.0") == first


def test_pages_of_files_and_folders(hub: Hub, repository: HubRepository) -> None:
    page = f"{hub.endpoint}/datasets/{hub.repo_id}"

    assert repository.url("a" * 40) == f"{page}/tree/{'a' * 40}"
    assert repository.url("a" * 40, MANIFEST) == f"{page}/blob/{'a' * 40}/{MANIFEST}"
    assert repository.url("a" * 40, "answers/b/m-2.5") == f"{page}/tree/{'a' * 40}/answers/b/m-2.5"


def test_a_private_repository_without_a_token_or_with_a_wrong_one_says_so(
    make: Make, first: str
) -> None:
    with pytest.raises(RepositoryError, match=r"wrong or has expired \(401\)"):
        make(token="hf_" + "x" * 30).head()
    with pytest.raises(RepositoryError, match=r"private and no token is set\. Set `HF_TOKEN`"):
        make(token=None).head()
    with pytest.raises(RepositoryError, match="no token is set"):
        make(token=None).files(first)
    with pytest.raises(RepositoryError, match="needs a token"):
        make(token=None).check_writable()


def test_a_token_that_may_only_read_says_so(hub: Hub, make: Make, first: str) -> None:
    reader = make(token=hub.read_token)

    assert reader.head() == first
    with pytest.raises(RepositoryError, match=r"does not allow it \(403\).*write access"):
        reader.check_writable()
    with pytest.raises(RepositoryError, match=f"(?s)while committing.*{hub.repo_id}"):
        reader.commit({MANIFEST: b"2"}, "second", parent=first)
    assert hub.requests("POST", "/commit/main") == 1


def test_a_private_repository_of_someone_else_looks_as_if_it_were_not_there(
    hub: Hub, make: Make, first: str
) -> None:
    stranger = make(token=hub.store.add_user(f"{hub.user}-stranger").write_token)

    with pytest.raises(RepositoryError, match=r"while creating the repository.*403"):
        stranger.commit({MANIFEST: b"1"}, "first", parent=None)
    assert stranger.head() is None
    with pytest.raises(RepositoryError, match="token in use may not see it"):
        stranger.files(first)


def test_a_card_that_the_hub_refuses_is_final_and_quoted(
    hub: Hub, repository: HubRepository
) -> None:
    with pytest.raises(HubError, match=r"committing.*README") as caught:
        repository.commit({"README.md": b"---\n- a: [\n---\n"}, "first", parent=None)

    assert not caught.value.retryable
    assert hub.requests("POST", "/api/validate-yaml") == 1


def test_offline_mode_says_so(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)

    with pytest.raises(RepositoryError, match="Unset `HF_HUB_OFFLINE`"):
        make().head()


@pytest.mark.parametrize("token", ["hf_secret secret", "hf_secret\nX: y", "hf_sécret", "hf_s\x00"])
def test_a_token_that_cannot_be_one_is_refused_without_showing_it(make: Make, token: str) -> None:
    with pytest.raises(RepositoryError, match="is malformed") as caught:
        make(token=token).head()

    assert "cret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("token", ["hf_abcdefghijklmnop", "not-of-the-usual-form"])
def test_the_token_is_in_no_error_log_or_repr(
    hub: Hub, make: Make, caplog: pytest.LogCaptureFixture, token: str
) -> None:
    caplog.set_level(logging.DEBUG)
    echo = {"X-Error-Message": f"no good: {token}"}
    shown = []
    for status in (400, 401, 403, 404, 409, 422, 429, 500):
        hub.fail("GET", "/answers$", Answer(status, echo, text=f"no good: {token}"), count=-1)
        with pytest.raises((HubError, RepositoryError)) as caught:
            make(token=token).head()
        shown += [repr(caught.value.args), *traceback.format_exception(caught.value)]
        hub.server.forget()
    shown += [repr(make(token=token)), str(vars(make(token=token)))]

    assert token not in "\n".join(shown)
    records = [record for record in caplog.records if record.name.startswith("regrade")]
    assert records
    assert token not in "\n".join(record.getMessage() for record in records)
