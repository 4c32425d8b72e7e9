"""Generate answers of language models once, keep them, and grade them as often as you like.

In a notebook: `open` reads answers and scores as pandas frames, `score` and `evaluate` run the commands of these names
(docs/notebook.md). Nothing is imported before a name is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regrade.settings.project_folder import VERSION

if TYPE_CHECKING:
    from regrade.engines.openai import OpenAIEngine as OpenAIEngine
    from regrade.engines.vllm import VllmEngine as VllmEngine
    from regrade.notebook.answers import Answers as Answers
    from regrade.notebook.answers import ComparedAnswers as ComparedAnswers
    from regrade.notebook.answers import open_answers as open  # noqa: A004, F401 - `regrade.open`
    from regrade.notebook.running import evaluate as evaluate
    from regrade.notebook.running import score as score
    from regrade.results.results import Evaluation as Evaluation
    from regrade.settings import DatasetBenchmark as DatasetBenchmark
    from regrade.settings import PromptSettings as PromptSettings
    from regrade.settings import SamplingSettings as SamplingSettings
    from regrade.settings import ScoringOptions as ScoringOptions


__version__ = VERSION
_PUBLIC = {
    "Answers": "regrade.notebook.answers:Answers",
    "ComparedAnswers": "regrade.notebook.answers:ComparedAnswers",
    "DatasetBenchmark": "regrade.settings:DatasetBenchmark",
    "Evaluation": "regrade.results.results:Evaluation",
    "OpenAIEngine": "regrade.engines.openai:OpenAIEngine",
    "PromptSettings": "regrade.settings:PromptSettings",
    "SamplingSettings": "regrade.settings:SamplingSettings",
    "ScoringOptions": "regrade.settings:ScoringOptions",
    "VllmEngine": "regrade.engines.vllm:VllmEngine",
    "evaluate": "regrade.notebook.running:evaluate",
    "open": "regrade.notebook.answers:open_answers",
    "score": "regrade.notebook.running:score",
}
"""Public names, and where they are defined."""
__all__ = [*_PUBLIC]  # noqa: PLE0604 - names of the table


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    """Import a public name when it is first used."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'regrade' has no attribute '{name}'")
    module, _, attribute = _PUBLIC[name].partition(":")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    return sorted([*_PUBLIC, "__version__"])
