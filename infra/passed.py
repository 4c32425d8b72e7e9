"""Record of a pass of the tests of infra/ on the files that are here: `python -m infra.passed [--write]`.

They take long, and test what is packed and how it is run rather than what regrade computes. `make test-infra` notes in
`.ci/infra-passed` what they passed on; `.ci/run` leaves them out while that is unchanged.
"""

import argparse
import hashlib
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOTE = Path(".ci/infra-passed")
TESTED = (
    "infra",
    "prefect.yaml",
    "regrade/orchestration",
    "regrade/tracking",
    "requirements",
    "tests/infra",
)
"""Files and folders that `make test-infra` tests."""


def digest(root: Path) -> str:
    """Return a hash of what the tests test, without files that git ignores."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *TESTED]
    listed = subprocess.run(listing, cwd=root, capture_output=True, text=True, check=True).stdout
    found = hashlib.sha256()
    for name in sorted(filter(None, listed.split("\0"))):
        path = root / name
        if path.is_file():  # git also lists what was removed since the last commit
            found.update(f"{name}\n{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()


def has_passed(root: Path) -> bool:
    """Return if the tests passed on the files that are in a working tree now."""
    note = root / NOTE
    return note.is_file() and note.read_text().strip() == digest(root)


def main() -> None:
    """Note that the tests passed, or end with 1 if they have to run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"the tests passed: write {NOTE}")
    if parser.parse_args().write:
        (ROOT / NOTE).write_text(f"{digest(ROOT)}\n")
        print(f"{NOTE} is written; commit it with what you changed.")
    elif has_passed(ROOT):
        print(f"The tests of infra/ passed on these files ({NOTE}).")
    else:
        raise SystemExit(f"The tests of infra/ have not passed on these files ({NOTE}).")


if __name__ == "__main__":
    main()
