"""The test Hub's faults and storage do what they say; what a client sees of it otherwise, tests/answers and tests/models prove."""

import hashlib
import os
from pathlib import Path

import httpx2
import pytest
from huggingface_hub import CommitOperationAdd, HfApi

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


@pytest.mark.parametrize("tells", [True, False])
def test_unchanged_files_are_dropped_only_where_their_hashes_are_told(
    hub: Hub, api: HfApi, repo: str, tells: bool
) -> None:
    hub.store.preupload_tells_oids = tells
    first = add(api, repo, a__parquet=b"PAR1", b__json=b"1")

    assert (add(api, repo, a__parquet=b"PAR1", b__json=b"1") == first) == tells


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
