"""Contents of the test Hub, in memory: users, repositories with commits, LFS objects."""

import hashlib
import secrets
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime

LFS_SUFFIXES = (".parquet", ".arrow", ".bin", ".gz", ".safetensors", ".zip")
GITATTRIBUTES = "".join(
    f"*{suffix} filter=lfs diff=lfs merge=lfs -text\n" for suffix in LFS_SUFFIXES
)


class RefusedError(Exception):
    """A request that the Hub answers with an error status."""

    def __init__(self, status: int, message: str, code: str | None = None, **body: str) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.body = status, message, code, body


@dataclass(frozen=True)
class Entry:
    """A file in a commit."""

    content: bytes
    lfs: bool

    @property
    def size(self) -> int:
        return len(self.content)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def git_oid(self) -> str:
        stored = self.content
        if self.lfs:
            stored = (
                f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\n".encode()
            )
        return hashlib.sha1(b"blob %d\0" % len(stored) + stored).hexdigest()

    def row(self, path: str) -> dict:
        row = {"type": "file", "oid": self.git_oid, "size": self.size, "path": path}
        if self.lfs:
            row["lfs"] = {"oid": self.sha256, "size": self.size, "pointerSize": 134}
        return row


@dataclass(frozen=True)
class Commit:
    oid: str
    parent: str | None
    title: str
    date: str
    tree: dict[str, Entry]


@dataclass
class Repo:
    kind: str
    name: str
    owner: str
    private: bool
    commits: dict[str, Commit] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    def add(self, branch: str, title: str, tree: dict[str, Entry]) -> Commit:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        commit = Commit(secrets.token_hex(20), self.branches.get(branch), title, now, tree)
        self.commits[commit.oid] = commit
        self.branches[branch] = commit.oid
        return commit

    def at(self, revision: str) -> Commit:
        oid = self.branches.get(revision) or self.tags.get(revision) or revision
        if oid not in self.commits:
            raise RefusedError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return self.commits[oid]

    def history(self, revision: str) -> list[Commit]:
        found = [self.at(revision)]
        while found[-1].parent is not None:
            found.append(self.commits[found[-1].parent])
        return found


@dataclass(frozen=True)
class User:
    name: str
    write_token: str
    read_token: str


@dataclass
class Upload:
    """An LFS object during upload; its key authorises the upload."""

    oid: str
    size: int


class Store:
    """The state of the server; one lock for all changes."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.repos: dict[tuple[str, str], Repo] = {}
        self.users: dict[str, tuple[User, str]] = {}
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, Upload] = {}
        self.links: dict[str, Entry] = {}
        self.page_size = 1000
        self.preupload_tells_oids = True

    def add_user(self, name: str) -> User:
        user = User(name, "hf_W" + secrets.token_hex(16), "hf_R" + secrets.token_hex(16))
        self.users[user.write_token] = (user, "write")
        self.users[user.read_token] = (user, "read")
        return user

    def identity(self, authorization: str | None) -> tuple[User, str] | None:
        if not authorization:
            return None
        token = authorization.removeprefix("Bearer ")
        if token not in self.users:
            raise RefusedError(401, "Invalid credentials in Authorization header")
        return self.users[token]

    def repo(self, kind: str, name: str, authorization: str | None, *, write: bool = False) -> Repo:
        identity = self.identity(authorization)
        repo = self.repos.get((kind, name))
        if repo is None or (repo.private and (identity is None or identity[0].name != repo.owner)):
            raise RefusedError(
                404 if identity else 401, "Repository not found", code="RepoNotFound"
            )
        if write:
            self.may_write(repo.owner, identity)
        return repo

    def may_write(self, owner: str, identity: tuple[User, str] | None) -> None:
        if identity is None:
            raise RefusedError(401, "Invalid username or password.")
        user, role = identity
        if user.name != owner or role != "write":
            raise RefusedError(
                403, f"You don't have the rights to write under the namespace {owner}"
            )

    def create(self, kind: str, owner: str, short: str, *, private: bool, url: str) -> Repo:
        with self.lock:
            name = f"{owner}/{short}"
            if (kind, name) in self.repos:
                raise RefusedError(409, "You already created this repo", url=url)
            repo = self.repos[kind, name] = Repo(kind, name, owner, private)
            repo.add(
                "main", "initial commit", {".gitattributes": Entry(GITATTRIBUTES.encode(), False)}
            )
            return repo

    def commit(self, repo: Repo, branch: str, lines: list[dict]) -> Commit:
        header = lines[0]["value"]
        with self.lock:
            head = repo.at(branch)
            parent = header.get("parentCommit")
            if parent is not None and not head.oid.startswith(parent):
                raise RefusedError(
                    412,
                    "The branch was updated since you opened this page. Please refresh and try again.",
                )
            tree = dict(head.tree)
            for line in lines[1:]:
                self._apply(tree, line["key"], line["value"])
            return repo.add(branch, header["summary"], tree)

    def _apply(self, tree: dict[str, Entry], key: str, value: dict) -> None:
        path = value["path"]
        if key == "file":
            tree[path] = Entry(value["content"], False)
        elif key == "lfsFile":
            if value["oid"] not in self.objects:
                raise RefusedError(400, "LFS pointer pointed to a file that does not exist")
            tree[path] = Entry(self.objects[value["oid"]], True)
        elif key == "deletedFile":
            if tree.pop(path, None) is None:
                raise RefusedError(404, "A file with this name doesn't exist", "EntryNotFound")
        else:
            raise RefusedError(400, f"Unknown operation {key}")
