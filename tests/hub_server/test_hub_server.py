"""The test Hub works with the real client; all tests that use it depend on this."""

import hashlib
import os
from pathlib import Path

import httpx2
import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, HfFileSystem
from huggingface_hub.errors import (
    BadRequestError,
    HfHubHTTPError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from tests.hub_server.faults import Answer, Corrupt, CutUpload, Drop, Lag, Stall, Truncate
from tests.hub_server.fixtures import Hub


@pytest.fixture
def api(hub: Hub) -> HfApi:
    return HfApi(endpoint=hub.endpoint, token=hub.token)


@pytest.fixture
def repo(hub: Hub, api: HfApi) -> str:
    api.create_repo(hub.repo_id, repo_type="dataset", private=True)
    return hub.repo_id


def add(api: HfApi, repo: str, parent: str | None = None, **files: bytes) -> str:
    operations = [CommitOperationAdd(name.replace("__", "."), data) for name, data in files.items()]
    return api.create_commit(
        repo, operations, commit_message="m", repo_type="dataset", parent_commit=parent
    ).oid


def test_it_knows_who_asks(hub: Hub, api: HfApi) -> None:
    assert api.whoami()["name"] == hub.user
    with pytest.raises(HfHubHTTPError) as caught:
        api.whoami(token="hf_wrong")
    assert caught.value.response.status_code == 401


def test_repositories_are_made_once(api: HfApi, repo: str) -> None:
    assert api.create_repo(repo, repo_type="dataset", exist_ok=True).repo_id == repo
    with pytest.raises(HfHubHTTPError, match="409"):
        api.create_repo(repo, repo_type="dataset")


def test_a_commit_writes_deletes_and_keeps_history(api: HfApi, repo: str, tmp_path: Path) -> None:
    first = add(api, repo, a__parquet=b"PAR1", README__md=b"hi", b__json=b"{}")
    second = api.create_commit(
        repo, [CommitOperationDelete("b.json")], commit_message="less", repo_type="dataset"
    ).oid

    titles = [commit.title for commit in api.list_repo_commits(repo, repo_type="dataset")]
    assert titles == ["less", "m", "initial commit"]
    assert set(api.list_repo_files(repo, repo_type="dataset", revision=first)) == {
        ".gitattributes",
        "README.md",
        "a.parquet",
        "b.json",
    }
    assert "b.json" not in api.list_repo_files(repo, repo_type="dataset", revision=second)
    folder = api.snapshot_download(
        repo, repo_type="dataset", revision=first, cache_dir=tmp_path, max_workers=1
    )
    assert (Path(folder) / "a.parquet").read_bytes() == b"PAR1"


def test_parquet_is_lfs_and_hashes_are_told(api: HfApi, repo: str) -> None:
    add(api, repo, a__parquet=b"PAR1", b__json=b"{}")

    parquet, text = api.get_paths_info(repo, ["a.parquet", "b.json", "no"], repo_type="dataset")

    assert parquet.lfs.sha256 == hashlib.sha256(b"PAR1").hexdigest()
    assert text.lfs is None
    assert text.blob_id == "9e26dfeeb6e641a33dae4961196235bdb965b21b"  # git hash-object of "{}"


def test_a_stale_parent_is_412(api: HfApi, repo: str) -> None:
    head = api.repo_info(repo, repo_type="dataset").sha
    add(api, repo, head, b__json=b"1")

    with pytest.raises(HfHubHTTPError) as caught:
        add(api, repo, head, b__json=b"2")

    assert caught.value.response.status_code == 412


@pytest.mark.parametrize("tells", [True, False])
def test_unchanged_files_are_dropped_only_where_their_hashes_are_told(
    hub: Hub, api: HfApi, repo: str, tells: bool
) -> None:
    hub.store.preupload_tells_oids = tells
    first = add(api, repo, a__parquet=b"PAR1", b__json=b"1")

    assert (add(api, repo, a__parquet=b"PAR1", b__json=b"1") == first) == tells


def test_trees_come_in_pages_by_folder_and_whole(hub: Hub, api: HfApi, repo: str) -> None:
    hub.store.page_size = 2
    paths = ["a/b/1.json", "a/b/2.json", "a/c.json", "ab/d.json", "e.json"]
    operations = [CommitOperationAdd(path, b"1") for path in paths]
    api.create_commit(repo, operations, commit_message="m", repo_type="dataset")

    def listed(folder: str | None, recursive: bool) -> set[str]:
        tree = api.list_repo_tree(repo, folder, recursive=recursive, repo_type="dataset")
        return {entry.path for entry in tree}

    assert listed(None, True) == {*paths, ".gitattributes", "a", "a/b", "ab"}
    assert listed(None, False) == {"a", "ab", "e.json", ".gitattributes"}
    assert listed("a", False) == {"a/b", "a/c.json"}
    with pytest.raises(RemoteEntryNotFoundError):
        listed("nothing", True)


def test_a_tag_stays_at_its_commit(api: HfApi, repo: str) -> None:
    first = add(api, repo, b__json=b"1")
    api.create_tag(repo, tag="v1", repo_type="dataset")
    add(api, repo, b__json=b"2")

    refs = api.list_repo_refs(repo, repo_type="dataset")
    assert [branch.name for branch in refs.branches] == ["main"]
    assert [tag.target_commit for tag in refs.tags] == [first]
    assert api.repo_info(repo, repo_type="dataset", revision="v1").sha == first
    with pytest.raises(RevisionNotFoundError):
        api.repo_info(repo, repo_type="dataset", revision="v2")


def test_tokens_decide_what_is_seen_and_written(hub: Hub, api: HfApi, repo: str) -> None:
    stranger = hub.store.add_user(f"{hub.user}-stranger")
    api.auth_check(repo, repo_type="dataset", write=True)
    api.auth_check(repo, repo_type="dataset", token=hub.read_token)

    with pytest.raises(HfHubHTTPError, match="403"):
        api.auth_check(repo, repo_type="dataset", write=True, token=hub.read_token)
    for token in (stranger.write_token, False):
        with pytest.raises(RepositoryNotFoundError):
            api.repo_info(repo, repo_type="dataset", token=token)


def test_the_storage_is_another_origin_and_is_told_no_token(
    hub: Hub, api: HfApi, repo: str, tmp_path: Path
) -> None:
    content = os.urandom(400)  # random, because known content is not uploaded again
    add(api, repo, a__parquet=content)

    local = api.hf_hub_download(repo, "a.parquet", repo_type="dataset", cache_dir=tmp_path)

    assert Path(local).read_bytes() == content
    outside = [seen for seen in hub.server.seen if seen.path.startswith(("/cdn/", "/lfs/"))]
    assert {seen.method for seen in outside} == {"PUT", "GET"}
    assert not any(seen.authorized for seen in outside)


def test_parts_of_files_are_served(hub: Hub, api: HfApi, repo: str) -> None:
    content = os.urandom(1000)
    add(api, repo, a__parquet=content, b__json=content)
    files = HfFileSystem(endpoint=hub.endpoint, token=hub.token, skip_instance_cache=True)

    for name in ("a.parquet", "b.json"):
        with files.open(f"datasets/{repo}/{name}", "rb", block_size=64) as file:
            file.seek(500)
            assert file.read(20) == content[500:520]


def test_lfs_content_must_be_what_was_announced(hub: Hub, api: HfApi, repo: str) -> None:
    claimed = hashlib.sha256(b"right").hexdigest()
    batch = f"{hub.endpoint}/datasets/{repo}.git/info/lfs/objects/batch"
    headers = {"Authorization": f"Bearer {hub.token}"}
    asked = {"operation": "upload", "objects": [{"oid": claimed, "size": 5}]}
    answer = httpx2.post(batch, json=asked, headers=headers).json()
    action = answer["objects"][0]["actions"]["upload"]

    assert httpx2.put(action["href"], content=b"wrong").status_code == 400
    assert httpx2.put(action["href"], content=b"righ").status_code == 400
    assert httpx2.put(action["href"], content=b"right").status_code == 200
    assert "actions" not in httpx2.post(batch, json=asked, headers=headers).json()["objects"][0]


def test_a_commit_of_content_that_was_never_sent_is_refused(
    hub: Hub, api: HfApi, repo: str
) -> None:
    line = {"path": "a.parquet", "algo": "sha256", "oid": "0" * 64, "size": 1}
    body = '{"key":"header","value":{"summary":"m","description":""}}\n'
    body += f'{{"key":"lfsFile","value":{str(line).replace(chr(39), chr(34))}}}\n'

    answer = httpx2.post(
        f"{hub.endpoint}/api/datasets/{repo}/commit/main",
        content=body,
        headers={"Authorization": f"Bearer {hub.token}"},
    )

    assert answer.status_code == 400
    assert len(hub.repo().commits) == 1


def test_a_bad_card_is_refused_before_anything_is_sent(hub: Hub, api: HfApi, repo: str) -> None:
    with pytest.raises((ValueError, BadRequestError)):
        add(api, repo, README__md=b"---\na: [\n---\n")

    assert hub.requests("POST", "/preupload/") == 0


def test_faults_hit_as_often_and_as_late_as_they_say(hub: Hub) -> None:
    hub.fail("GET", "/whoami", Answer(503, {"Retry-After": "7"}, "busy"), count=2, after=1)
    url, headers = f"{hub.endpoint}/api/whoami-v2", {"Authorization": f"Bearer {hub.token}"}

    answers = [httpx2.get(url, headers=headers) for _ in range(5)]

    assert [answer.status_code for answer in answers] == [200, 503, 503, 200, 200]
    assert (answers[1].headers["Retry-After"], answers[1].text) == ("7", "busy")
    assert hub.requests("GET", "/whoami") == 5


@pytest.mark.parametrize("afterwards", [True, False])
@pytest.mark.parametrize("fault", [Drop, lambda afterwards: Answer(500, afterwards=afterwards)])
def test_faults_happen_before_or_after_the_effect(
    hub: Hub, api: HfApi, repo: str, fault: type[Drop], afterwards: bool
) -> None:
    hub.fail("POST", "/commit/", fault(afterwards=afterwards))

    with pytest.raises(httpx2.HTTPError):
        add(api, repo, b__json=b"1")

    assert len(hub.repo().commits) == 1 + afterwards


def test_bodies_are_cut_changed_and_late(hub: Hub, repo: str) -> None:
    url, headers = f"{hub.endpoint}/api/whoami-v2", {"Authorization": f"Bearer {hub.token}"}
    right = httpx2.get(url, headers=headers).content

    hub.fail("GET", "/whoami", Truncate(10))
    with pytest.raises(httpx2.RemoteProtocolError):
        httpx2.get(url, headers=headers)
    hub.fail("GET", "/whoami", Corrupt())
    wrong = httpx2.get(url, headers=headers).content
    assert len(wrong) == len(right)
    assert sum(a != b for a, b in zip(wrong, right, strict=True)) == 1
    hub.fail("GET", "/whoami", Stall(5))
    with pytest.raises(httpx2.ReadTimeout):
        httpx2.get(url, headers=headers, timeout=0.1)
    hub.fail("PUT", "/lfs/", CutUpload(1000))
    with pytest.raises((httpx2.NetworkError, httpx2.RemoteProtocolError)):
        httpx2.put(f"{hub.endpoint}/lfs/none", content=bytes(10_000_000))


def test_a_lagging_head_is_the_one_before(hub: Hub, api: HfApi, repo: str) -> None:
    first = add(api, repo, b__json=b"1")
    second = add(api, repo, b__json=b"2")
    hub.fail("GET", "/answers$", Lag())

    heads = [api.repo_info(repo, repo_type="dataset").sha for _ in range(2)]

    assert heads == [first, second]
