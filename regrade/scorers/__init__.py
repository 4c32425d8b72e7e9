"""Scorers: a module for each, which reads a value from answers and compares it with the target."""

from typing import TYPE_CHECKING

from regrade.scorers.user_functions.files import is_specification, load_file, loaded
from regrade.scorers.user_functions.values import Score as Score
from regrade.settings import registry

if TYPE_CHECKING:
    from regrade.scorers.sessions import AnyScorer
    from regrade.settings import Method

JUDGE = "judge"
"""Scorer of judge runs; also the first scorer of benchmarks whose answers a judge grades."""


def scorer_names() -> tuple[str, ...]:
    """Names of all installed scorers."""
    return registry.names("scorer")


def is_known(name: str) -> bool:
    """Return True if a scorer of this name is installed, or was loaded from a file by this process."""
    return name in scorer_names() or loaded(name) is not None


def stored_name(name: str) -> str:
    """Return the name of a scorer in stored scores; of `path/to/file.py:name`, which is loaded, the plain name.

    Raises:
        SettingsError: If the file cannot be used.
    """
    return load_file(name).name if is_specification(name) else name


def load_scorer(name: str) -> "AnyScorer":
    """Return a scorer.

    Args:
        name: Name of an installed scorer, or `path/to/file.py:name`.

    Raises:
        UnknownNameError: If no scorer of this name is installed.
        PluginError: If the scorer is installed but cannot be used.
        SettingsError: If the file cannot be used.
    """
    name = stored_name(name)
    file = loaded(name)
    if file is not None:
        definition = registry.checked("scorer", name, file.definition, f"'{file.path.name}'")
    else:
        definition = registry.load("scorer", name)
    if isinstance(definition, type):
        scorer: AnyScorer = definition()
        return scorer
    from regrade.scorers.user_functions.functions import FunctionScorer  # noqa: PLC0415 - needs Arrow

    return FunctionScorer(name, definition)


def method_of(scorer: "AnyScorer") -> "Method":
    """Return the method that produces the answers of a scorer: `rank` if it reads log-probabilities of labels.

    A `SessionScorer` may take answers of both methods, and itself refuses those that it cannot score.
    """
    ranks = "label_logprobs" in scorer.columns and not hasattr(scorer, "session")
    return "rank" if ranks else "generate"
