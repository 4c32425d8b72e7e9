"""The pinned packages of requirements/*.txt."""

import re

from tests.command_line import ROOT


def entries(name: str) -> dict[str, str]:
    """Package -> its lines in `requirements/NAME.txt`: version, marker and hashes."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    found = re.findall(r"^([a-z0-9._-]+)==.*\n(?:    --hash=.*\n?)+", text, re.MULTILINE)
    whole = [match[0] for match in re.finditer(r"^\S.*\n(?:    --hash=.*\n?)+", text, re.MULTILINE)]
    assert "".join(whole) == text, f"{name}.txt has other lines than packages with hashes"
    return dict(zip(found, whole, strict=True))


def versions(name: str) -> dict[str, str]:
    """Package -> version in `requirements/NAME.txt`."""
    return {
        package: entry.split()[0].partition("==")[2] for package, entry in entries(name).items()
    }
