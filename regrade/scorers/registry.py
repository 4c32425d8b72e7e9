"""Scorers by name, and the hash that tells a score of today's scorer from one of an older scorer."""

import ast
import hashlib
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from regrade.errors import UnknownNameError
from regrade.scorers.base import Scorer

_SCORERS: Final = {
    "number": "regrade.scorers.number:NumberScorer",
    "number_strict": "regrade.scorers.number_strict:NumberStrictScorer",
    "choice_logprob": "regrade.scorers.choice_logprob:ChoiceLogprobScorer",
    "choice_letter": "regrade.scorers.choice_letter:ChoiceLetterScorer",
    "exact": "regrade.scorers.exact:ExactScorer",
}
_PACKAGE = "regrade.scorers"


def scorer_names() -> tuple[str, ...]:
    """Return the names of all scorers."""
    return tuple(_SCORERS)


def load_scorer(name: str) -> Scorer:
    """Return a scorer.

    Raises:
        UnknownNameError: If there is no scorer of this name.
    """
    module, _, attribute = _place(name).partition(":")
    scorer: Scorer = getattr(import_module(module), attribute)()
    return scorer


@cache
def source_hash(name: str) -> str:
    """Return the first 8 hex digits of the sha256 over the source of a scorer.

    The source is the scorer's module with every module of `regrade.scorers` that it imports, directly or not:
    it changes with any of these, and not with the code of another scorer.

    Raises:
        UnknownNameError: If there is no scorer of this name.
    """
    digest = hashlib.sha256()
    for module, source in sorted(scorer_sources(name).items()):
        digest.update(f"{module}\0{source}\0".encode())
    return digest.hexdigest()[:8]


def scorer_sources(name: str) -> dict[str, str]:
    """Return the source of the modules that a scorer is made of, by their names.

    Raises:
        UnknownNameError: If there is no scorer of this name.
    """
    sources: dict[str, str] = {}
    waiting = [_place(name).partition(":")[0]]
    while waiting:
        module = waiting.pop()
        if module in sources:
            continue
        spec = find_spec(module)
        if spec is None or spec.origin is None:
            continue
        sources[module] = Path(spec.origin).read_text(encoding="utf-8")
        waiting.extend(_imports(sources[module]))
    return sources


def _imports(source: str) -> list[str]:
    """Return the modules of this package that a source imports."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == _PACKAGE:
            found.extend(f"{_PACKAGE}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.append(node.module or "")
    return [name for name in found if name.startswith(f"{_PACKAGE}.")]


def _place(name: str) -> str:
    if name not in _SCORERS:
        raise UnknownNameError("scorer", name, scorer_names())
    return _SCORERS[name]
