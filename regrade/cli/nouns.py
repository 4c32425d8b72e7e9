"""Nouns under which the commands stand that are not for every day: `regrade answers import` is `regrade import`."""

from collections.abc import Sequence

NOUNS: dict[str, tuple[str, tuple[str, ...]]] = {
    "answers": (
        "Generate, import, publish, check and hand on answers.",
        (
            "generate",
            "import",
            "harness",
            "publish",
            "verify",
            "replay",
            "export",
            "publish-results",
        ),
    ),
    "judges": (
        "Let models grade answers, combine their verdicts, and compare them with people's labels.",
        ("judge", "panel", "label"),
    ),
    "settings": (
        "Find settings that fit a machine, and what they cost and change.",
        ("plan", "sweep", "tune", "chart", "noise"),
    ),
    "server": (
        "Run evaluations on a Prefect server and its workers.",
        ("deploy", "worker", "trigger"),
    ),
}
"""Noun -> first line of its help, and its commands. Each is also a command without the noun."""


def without_noun(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without a noun in front of one of its commands."""
    if len(arguments) > 1 and arguments[1] in NOUNS.get(arguments[0], ("", ()))[1]:
        return list(arguments[1:])
    return list(arguments)
