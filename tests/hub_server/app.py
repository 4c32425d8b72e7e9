"""HTTP routes of the test Hub: those that huggingface_hub and datasets call, without Xet."""

import base64
import hashlib
import json
import secrets
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlencode

import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.hub_server.store import LFS_SUFFIXES, Commit, Entry, RefusedError, Repo, Store, Upload

REGULAR_BYTES = 1 << 20
PART_BYTES = 64 << 10


class Routes:
    """Handlers for a store. `base` is the address of the Hub, `cdn` the address of its storage."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.base = self.cdn = ""

    def app(self) -> Starlette:
        repo, kinds = "/api/{kind}/{ns}/{name}", ("datasets", "models")
        table: list[tuple[str, str, Callable]] = [
            ("GET", "/api/whoami-v2", self.whoami),
            ("POST", "/api/repos/create", self.create),
            ("POST", "/api/validate-yaml", self.validate_yaml),
            ("GET", "/api/models", self.list_models),
            ("GET", f"{repo}/auth-check", self.auth_check),
            ("GET", f"{repo}/auth-check/write", self.auth_check),
            ("POST", f"{repo}/preupload/{{rev}}", self.preupload),
            ("POST", f"{repo}/commit/{{rev}}", self.commit),
            ("GET", f"{repo}/revision/{{rev}}", self.info),
            ("GET", f"{repo}/tree/{{rev}}", self.tree),
            ("GET", f"{repo}/tree/{{rev}}/{{path:path}}", self.tree),
            ("POST", f"{repo}/paths-info/{{rev}}", self.paths_info),
            ("GET", f"{repo}/commits/{{rev}}", self.commits),
            ("GET", f"{repo}/refs", self.refs),
            ("POST", f"{repo}/tag/{{rev}}", self.tag),
            ("GET", repo, self.info),
            ("PUT", "/lfs/{key}", self.put_object),
            ("GET", "/cdn/{key}", self.from_cdn),
        ]
        for prefix in ("/datasets", ""):
            short = prefix + "/{ns}/{name}"
            table += [
                ("POST", short + ".git/info/lfs/objects/batch", self.lfs_batch),
                ("POST", short + ".git/info/lfs/verify", self.lfs_verify),
                ("GET", short + "/resolve/{rev}/{path:path}", self.download),
            ]
        routes = [
            Route(path.replace("{kind}", kind), self._guarded(handler), methods=[method])
            for method, path, handler in table
            for kind in (kinds if "{kind}" in path else ("",))
        ]
        return Starlette(routes=routes)

    def _guarded(self, handler: Callable) -> Callable:
        async def endpoint(request: Request) -> Response:
            try:
                return await handler(request)
            except RefusedError as error:
                headers = {"X-Error-Message": error.message}
                if error.code:
                    headers["X-Error-Code"] = error.code
                return JSONResponse({"error": error.message, **error.body}, error.status, headers)

        return endpoint

    def _repo(self, request: Request, *, write: bool = False) -> Repo:
        path = request.url.path.removeprefix("/api")
        kind = "datasets" if path.startswith("/datasets/") else "models"
        name = f"{request.path_params['ns']}/{request.path_params['name']}"
        return self.store.repo(kind, name, request.headers.get("authorization"), write=write)

    def _at(self, request: Request) -> tuple[Repo, Commit]:
        repo = self._repo(request)
        commit = repo.at(request.path_params.get("rev", "main"))
        if request.scope.get("hub_lag") and commit.parent:
            commit = repo.commits[commit.parent]
        return repo, commit

    def _pages(self, request: Request, rows: list) -> Response:
        start, size = int(request.query_params.get("cursor", "0")), self.store.page_size
        headers = {}
        if start + size < len(rows):
            kept = [pair for pair in request.query_params.multi_items() if pair[0] != "cursor"]
            query = urlencode([*kept, ("cursor", start + size)])
            headers["Link"] = f'<{self.base}{request.url.path}?{query}>; rel="next"'
        return JSONResponse(rows[start : start + size], headers=headers)

    async def whoami(self, request: Request) -> Response:
        identity = self.store.identity(request.headers.get("authorization"))
        if identity is None:
            raise RefusedError(401, "Invalid username or password.")
        auth = {"type": "access_token", "accessToken": {"role": identity[1]}}
        return JSONResponse({"name": identity[0].name, "type": "user", "orgs": [], "auth": auth})

    async def create(self, request: Request) -> Response:
        asked = await request.json()
        identity = self.store.identity(request.headers.get("authorization"))
        owner = asked.get("organization") or (identity[0].name if identity else "")
        self.store.may_write(owner, identity)
        kind = asked.get("type", "model") + "s"
        prefix = "" if kind == "models" else f"/{kind}"
        url = f"{self.base}{prefix}/{owner}/{asked['name']}"
        private = asked.get("visibility") == "private"
        self.store.create(kind, owner, asked["name"], private=private, url=url)
        return JSONResponse({"url": url})

    async def validate_yaml(self, request: Request) -> Response:
        content = (await request.json())["content"]
        front = content.split("---\n")[1] if content.startswith("---\n") else ""
        try:
            parsed = yaml.safe_load(front) or {}
            problem = None if isinstance(parsed, dict) else "should be a mapping"
        except yaml.YAMLError as error:
            problem = str(error)
        errors = [{"message": problem}] if problem else []
        return JSONResponse({"errors": errors, "warnings": []}, 400 if errors else 200)

    async def auth_check(self, request: Request) -> Response:
        self._repo(request, write=request.url.path.endswith("/write"))
        return JSONResponse({})

    def _written(self, request: Request) -> Repo:
        """Repository that a request may write: a pull request only needs a token that may write somewhere."""
        if request.query_params.get("create_pr") != "1":
            return self._repo(request, write=True)
        identity = self.store.identity(request.headers.get("authorization"))
        if identity is None or identity[1] != "write":
            raise RefusedError(403, "A pull request needs a token with the role write")
        return self._repo(request)

    async def preupload(self, request: Request) -> Response:
        tree = self._written(request).at(request.path_params["rev"]).tree
        rows = []
        for asked in (await request.json())["files"]:
            path = asked["path"]
            lfs = path.endswith(LFS_SUFFIXES) or asked["size"] > REGULAR_BYTES
            row = {"path": path, "uploadMode": "lfs" if lfs else "regular", "shouldIgnore": False}
            if self.store.preupload_tells_oids and path in tree:
                row["oid"] = tree[path].sha256 if tree[path].lfs else tree[path].git_oid
            rows.append(row)
        return JSONResponse({"files": rows})

    async def lfs_batch(self, request: Request) -> Response:
        repo = self._repo(request, write=True)
        prefix = "" if repo.kind == "models" else f"/{repo.kind}"
        rows = []
        for wanted in (await request.json())["objects"]:
            row = {"oid": wanted["oid"], "size": wanted["size"]}
            if wanted["oid"] not in self.store.objects:
                key = secrets.token_hex(12)
                self.store.uploads[key] = Upload(**row)
                signed = f"?X-Amz-Signature={key}"
                upload = {"href": f"{self.base}/lfs/{key}{signed}"}
                verify = {"href": f"{self.base}{prefix}/{repo.name}.git/info/lfs/verify"}
                row["actions"] = {"upload": upload, "verify": verify}
            rows.append(row)
        return JSONResponse({"transfer": "basic", "objects": rows})

    def _upload(self, request: Request) -> Upload:
        if "authorization" in request.headers:
            raise RefusedError(400, "The storage takes no Authorization header")
        if (upload := self.store.uploads.get(request.path_params["key"])) is None:
            raise RefusedError(403, "Unknown upload")
        return upload

    async def put_object(self, request: Request) -> Response:
        upload, content = self._upload(request), await request.body()
        if len(content) != upload.size or hashlib.sha256(content).hexdigest() != upload.oid:
            raise RefusedError(400, f"Content does not match oid {upload.oid}")
        self.store.objects[upload.oid] = content
        return Response()

    async def lfs_verify(self, request: Request) -> Response:
        self._repo(request, write=True)
        asked = await request.json()
        if len(self.store.objects.get(asked["oid"], b"")) != asked["size"]:
            raise RefusedError(404, "Object not found")
        return Response()

    async def commit(self, request: Request) -> Response:
        repo = self._written(request)
        lines = [json.loads(line) for line in (await request.body()).splitlines()]
        for line in lines:
            if line["key"] == "file":
                line["value"]["content"] = base64.b64decode(line["value"]["content"])
        branch, more = request.path_params["rev"], {}
        page = f"{self.base}/{'' if repo.kind == 'models' else repo.kind + '/'}{repo.name}"
        if request.query_params.get("create_pr") == "1":
            number = 1 + sum(name.startswith("refs/pr/") for name in repo.branches)
            repo.branches[f"refs/pr/{number}"] = repo.at(branch).oid
            branch = f"refs/pr/{number}"
            more = {"pullRequestUrl": f"{page}/discussions/{number}"}
        commit = self.store.commit(repo, branch, lines)
        url = f"{page}/commit/{commit.oid}"
        return JSONResponse({"success": True, "commitOid": commit.oid, "commitUrl": url, **more})

    async def info(self, request: Request) -> Response:
        return JSONResponse(_info(*self._at(request)))

    async def list_models(self, request: Request) -> Response:
        """Answer with the models of an author that the token may see, a page at a time, with the fields asked for."""
        author, asked = request.query_params["author"], request.query_params.getlist("expand")
        rows = []
        for kind, name in sorted(self.store.repos):
            if kind == "models" and name.startswith(f"{author}/"):
                with suppress(RefusedError):
                    repo = self.store.repo(kind, name, request.headers.get("authorization"))
                    known = _info(repo, repo.at("main"))
                    rows.append({key: known[key] for key in ("_id", "id", *asked)})
        return self._pages(request, rows)

    async def tree(self, request: Request) -> Response:
        _, commit = self._at(request)
        prefix = request.path_params.get("path", "").strip("/")
        start = prefix + "/" if prefix else ""
        recursive = request.query_params.get("recursive", "").lower() == "true"
        rows, folders = [], set()
        for path, entry in sorted(commit.tree.items()):
            if not path.startswith(start):
                continue
            parts = path[len(start) :].split("/")
            depth = len(parts) - 1 if recursive else min(1, len(parts) - 1)
            folders |= {start + "/".join(parts[:n]) for n in range(1, depth + 1)}
            if recursive or len(parts) == 1:
                rows.append(entry.row(path))
        if prefix and not rows and not folders:
            message = f"{prefix} does not exist on {commit.oid}"
            raise RefusedError(404, message, "EntryNotFound")
        oid = hashlib.sha1(commit.oid.encode()).hexdigest()
        rows += [{"type": "directory", "oid": oid, "size": 0, "path": path} for path in folders]
        return self._pages(request, sorted(rows, key=lambda row: row["path"]))

    async def paths_info(self, request: Request) -> Response:
        _, commit = self._at(request)
        paths = (await request.form()).getlist("paths")
        return JSONResponse([commit.tree[p].row(p) for p in paths if p in commit.tree])

    async def commits(self, request: Request) -> Response:
        repo, commit = self._at(request)
        rows = [
            {"id": c.oid, "title": c.title, "message": "", "date": c.date, "authors": []}
            for c in repo.history(commit.oid)
        ]
        return self._pages(request, rows)

    async def refs(self, request: Request) -> Response:
        repo = self._repo(request)
        listed = [
            [{"name": n, "ref": f"refs/{kind}/{n}", "targetCommit": oid} for n, oid in refs.items()]
            for kind, refs in (("heads", repo.branches), ("tags", repo.tags))
        ]
        return JSONResponse({"branches": listed[0], "tags": listed[1], "converts": []})

    async def tag(self, request: Request) -> Response:
        repo = self._repo(request, write=True)
        name = (await request.json())["tag"]
        if name in repo.tags:
            raise RefusedError(409, f"Reference already exists: {name}")
        repo.tags[name] = repo.at(request.path_params["rev"]).oid
        return JSONResponse({})

    async def download(self, request: Request) -> Response:
        repo = self._repo(request)
        commit = repo.at(request.path_params["rev"])
        path, headers = request.path_params["path"], {"X-Repo-Commit": commit.oid}
        if (entry := commit.tree.get(path)) is None:
            headers |= {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"}
            return JSONResponse({"error": "Entry not found"}, 404, headers)
        if not entry.lfs:
            return _ranged(request, entry, headers | {"ETag": f'"{entry.git_oid}"'})
        headers |= {"X-Linked-Size": str(entry.size), "X-Linked-Etag": f'"{entry.sha256}"'}
        key = secrets.token_hex(12)
        self.store.links[key] = entry
        return RedirectResponse(f"{self.cdn}/cdn/{key}?X-Amz-Signature={key}", 302, headers)

    async def from_cdn(self, request: Request) -> Response:
        if "authorization" in request.headers:
            raise RefusedError(400, "The storage takes no Authorization header")
        if (entry := self.store.links.get(request.path_params["key"])) is None:
            raise RefusedError(403, "Unknown link")
        return _ranged(request, entry, {"ETag": f'"{entry.sha256}"'})


def _info(repo: Repo, commit: Commit) -> dict:
    return {
        "_id": "0",
        "id": repo.name,
        "sha": commit.oid,
        "private": repo.private,
        "gated": False,
        "disabled": False,
        "tags": [],
        "siblings": [{"rfilename": path} for path in sorted(commit.tree)],
        "lastModified": commit.date,
    }


def _ranged(request: Request, entry: Entry, headers: dict[str, str]) -> Response:
    asked = request.headers.get("range")
    if not asked:
        return Response(entry.content, 200, headers | {"Accept-Ranges": "bytes"})
    first, _, last = asked.removeprefix("bytes=").partition("-")
    start = int(first) if first else entry.size - int(last)
    end = min(int(last), entry.size - 1) if first and last else entry.size - 1
    if start > end:
        return Response(status_code=416, headers={"Content-Range": f"bytes */{entry.size}"})
    headers |= {"Content-Range": f"bytes {start}-{end}/{entry.size}"}
    return Response(entry.content[start : end + 1], 206, headers)
