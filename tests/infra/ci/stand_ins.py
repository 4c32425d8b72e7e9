"""Stand-ins for what a job installs and talks to: a package `regrade`, GitHub's command line, GitLab's notes."""

import json
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.http_server import Handler, serving

# Each command appends its words to `calls` in the home folder. `verdict` there says what `trigger` and `gate` do.
_PACKAGE = """
import json, os, pathlib, signal, sys, time
home = pathlib.Path(os.environ["HOME"])
def note(*words):
    with (home / "calls").open("a") as file:
        file.write(json.dumps(words) + "\\n")
def main():
    note("{release}", *sys.argv)
    command = sys.argv[1]
    code, report = json.loads((home / "verdict").read_text()).get(command, [0, ""])
    options = dict(zip(sys.argv, sys.argv[1:]))
    if "--id-file" in options:
        pathlib.Path(options["--id-file"]).write_text("the-id")
    if report:
        pathlib.Path(options["--markdown"]).write_text(report)
        pathlib.Path(options["--junit"]).write_text("<testsuites/>")
    if report == "waiting":
        def stop(number, _):
            note("signal", number)
            sys.exit(128 + number)
        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGTERM, stop)
        note("ready")
        time.sleep(60)
    sys.exit(code)
"""

# `gh api` on the comments in the file `comments` of the home folder; `refusing` there makes it fail.
_GH = """
import json, os, pathlib, sys
home = pathlib.Path(os.environ["HOME"])
if (home / "refusing").exists():
    sys.exit("HTTP 403: Resource not accessible by integration")
words = sys.argv[1:]
assert os.environ["GH_TOKEN"] == "job-token", words
comments = json.loads((home / "comments").read_text())
def post(body):
    text = pathlib.Path(body).read_text()
    comments.append({"id": len(comments) + 100, "user": {"type": "Bot"}, "body": text})
    (home / "comments").write_text(json.dumps(comments))
if words[:3] == ["pr", "comment", "7"]:
    post(words[words.index("--body-file") + 1])
    sys.exit()
path = next(word for word in words if word.startswith("repos/my-team/training/issues/"))
if "--jq" in words:
    query = words[words.index("--jq") + 1]
    assert query == '.[] | select(.user.type == "Bot" and (.body | startswith(env.MARKER))) | .id', query
    assert path.endswith("/issues/7/comments") and "--paginate" in words
    for comment in comments:
        if comment["user"]["type"] == "Bot" and comment["body"].startswith(os.environ["MARKER"]):
            print(comment["id"])
else:
    body = words[words.index("--field") + 1].removeprefix("body=@")
    if words[words.index("--method") + 1] == "PATCH":
        (found,) = [kept for kept in comments if path.endswith(f"/issues/comments/{kept['id']}")]
        found["body"] = pathlib.Path(body).read_text()
        (home / "comments").write_text(json.dumps(comments))
    else:
        assert path.endswith("/issues/7/comments")
        post(body)
"""

# Virtual environments with pip from the tests' environment: their own takes seconds to install. Outside of one, pip is
# refused, as by Debian's Python: it would install into the environment of the tests.
_PYTHON = """#!/bin/bash
if [ "$1 $2" = "-m venv" ]; then
  {python} -m venv --without-pip "${{@:3}}" && echo {packages} > "$(echo "${{!#}}"/lib/python3*/site-packages)/pip.pth"
elif [[ " $* " == *" pip "* ]]; then
  echo "error: externally-managed-environment" >&2
  exit 1
else
  exec {python} "$@"
fi
"""


@dataclass(frozen=True)
class Home:
    """Home folder of a runner: what its commands do and did."""

    path: Path

    def will(self, **verdicts: tuple[int, str]) -> None:
        """Set the exit code and the report of commands; others end with 0."""
        (self.path / "verdict").write_text(json.dumps(verdicts))

    def calls(self) -> list[list[str]]:
        lines = (self.path / "calls").read_text() if (self.path / "calls").exists() else ""
        return [json.loads(line) for line in lines.splitlines()]

    def comments(self) -> list[str]:
        return [comment["body"] for comment in json.loads((self.path / "comments").read_text())]


def package(folder: Path, release: str) -> Path:
    """A wheel of regrade 0.1.0 whose commands note `release`; all releases have this version."""
    folder = folder / release
    folder.mkdir()
    path = folder / "regrade-0.1.0-py3-none-any.whl"
    about = "regrade-0.1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("regrade.py", _PACKAGE.replace("{release}", release))
        wheel.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: regrade\nVersion: 0.1.0\n"
        )
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        entries = "[console_scripts]\nregrade = regrade:main\nprefect = regrade:main\n"
        wheel.writestr(f"{about}/entry_points.txt", entries)
        wheel.writestr(f"{about}/RECORD", "")
    return path


def commands(folder: Path, *, gh: bool = True) -> Path:
    """A folder with the commands of a runner's system: Python, coreutils, and `gh`."""
    folder.mkdir()
    for name in ("bash", "sh", "cat", "head", "mktemp", "mkdir", "rm", "env", "sleep"):
        (folder / name).symlink_to(Path("/bin", name).resolve())
    pip = folder.parent / "pip-only"
    pip.mkdir()
    import pip as installed

    (pip / "pip").symlink_to(Path(installed.__file__).parent)
    _command(folder / "python3", _PYTHON.format(python=sys.executable, packages=pip))
    (folder / "python").symlink_to("python3")
    if gh:
        _command(folder / "gh", f"#!{sys.executable}\n{_GH}")
    return folder


def _command(path: Path, script: str) -> None:
    path.write_text(script)
    path.chmod(0o755)


@dataclass
class Notes:
    """Notes of a merge request, on a server that answers as GitLab's API does."""

    url: str = ""
    stored: list[dict[str, Any]] = field(default_factory=list)
    per_page: int = 2
    refusing: bool = False


@contextmanager
def gitlab_api() -> Iterator[Notes]:
    """Server with the notes of merge request 7 in project 5; user 1 has the token `api-token`."""
    notes = Notes()

    class Api(Handler):
        def answer(self) -> None:
            url = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or "null")
            base = "/api/v4/projects/5/merge_requests/7/notes"
            status, found, further = 200, None, ""
            if self.headers["PRIVATE-TOKEN"] != "api-token" or notes.refusing:
                status, found = 403, {"message": "403 Forbidden"}
            elif url.path == "/api/v4/user":
                found = {"id": 1}
            elif self.command == "GET" and url.path == base:
                page = int(parse_qs(url.query)["page"][0])
                found = notes.stored[(page - 1) * notes.per_page : page * notes.per_page]
                further = str(page + 1) if page * notes.per_page < len(notes.stored) else ""
            elif self.command == "POST" and url.path == base:
                status = 201
                found = {"id": 100 + len(notes.stored), "author": {"id": 1}, **body}
                notes.stored.append(found)
            elif self.command == "PUT" and url.path.startswith(f"{base}/"):
                (found,) = [note for note in notes.stored if url.path == f"{base}/{note['id']}"]
                found.update(body)
            else:
                status, found = 404, {"message": "404 Not Found"}
            self.reply(found, status, {"X-Next-Page": further})

        do_GET = do_POST = do_PUT = answer

    with serving(Api) as address:
        notes.url = f"{address}/api/v4"
        yield notes
