"""Package and data for the checks of instructions, without downloading them."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from regrade.settings.errors import SettingsError

PACKAGES = ("if-verifiable", "nltk", "langdetect")
"""Packages whose versions decide the results."""
FILES: Mapping[str, Sequence[str]] = {
    "tokenizers/punkt_tab": (
        "english/abbrev_types.txt",
        "english/collocations.tab",
        "english/ortho_context.tab",
        "english/sent_starters.txt",
    ),
    "taggers/averaged_perceptron_tagger_eng": (
        "averaged_perceptron_tagger_eng.classes.json",
        "averaged_perceptron_tagger_eng.tagdict.json",
        "averaged_perceptron_tagger_eng.weights.json",
    ),
    "corpora/stopwords": ("english",),
}
"""Files of each NLTK resource that are read."""


def environment(scorer: str, resources: Sequence[str]) -> dict[str, str]:
    """Return the versions of the packages, and the first 8 digits of the sha256 of each resource.

    Args:
        scorer: Name of the scorer, for messages.
        resources: Keys of `FILES`.

    Raises:
        SettingsError: If a package or resource is missing.
    """
    try:
        versions = {name: version(name) for name in PACKAGES}
    except PackageNotFoundError as error:
        raise SettingsError(
            f"Scorer '{scorer}' needs the package '{error.name}'. Install it with `pip install 'regrade[ifeval]'`."
        ) from error
    return versions | {name.rpartition("/")[2]: _digest(scorer, name) for name in resources}


@cache
def _digest(scorer: str, resource: str) -> str:
    import nltk  # noqa: PLC0415 - takes a second

    digest = hashlib.sha256()
    for file in FILES[resource]:
        try:
            with nltk.data.find(f"{resource}/{file}").open() as content:
                digest.update(hashlib.sha256(content.read()).digest())
        except (LookupError, OSError) as error:
            name = resource.rpartition("/")[2]
            raise SettingsError(
                f"Scorer '{scorer}' needs NLTK's data '{name}', which is not on this machine. Download it once with "
                f"`python -m nltk.downloader {name}`, or copy it into a folder `{resource}` of a folder that NLTK_DATA names."
            ) from error
    return digest.hexdigest()[:8]


def folders() -> list[str]:
    """Return the folders in which NLTK looks for its data."""
    import nltk  # noqa: PLC0415 - as above

    return list(map(str, nltk.data.path))
