"""Benchmarks whose questions are made to a length in tokens, such as RULER's: with the tokenizer of a model."""

from collections.abc import Sequence
from pathlib import Path

from regrade.benchmarks.base import Benchmark
from regrade.benchmarks.questions.harness import HarnessBenchmark
from regrade.lm_eval.made import Tokenizer
from regrade.models.base import ResolvedModel
from regrade.models.files import files_folder
from regrade.models.fingerprints import files_sha256
from regrade.models.local import tokenizer_files
from regrade.models.resolving import resolve_here
from regrade.settings import HarnessTasks, SamplingSettings
from regrade.settings.errors import ModelError, SettingsError
from regrade.settings.files import at_home

Opened = tuple[Benchmark, SamplingSettings | None]


def measured(opened: Sequence[Opened], model: ResolvedModel, chosen: HarnessTasks) -> list[Opened]:
    """Return benchmarks with the questions for a model: others for those that a tokenizer measures.

    Args:
        opened: Benchmarks, each with its sampling settings.
        model: The model to evaluate.
        chosen: The tasks of the harness; they may name a tokenizer instead of the model's.

    Raises:
        SettingsError: If a tokenizer or arguments are given, and no task makes its questions.
        ModelError: If the named tokenizer does not exist.
        HubError: If the Hub cannot be reached or fails.
    """
    made = {
        benchmark.name: benchmark
        for benchmark, _ in opened
        if isinstance(benchmark, HarnessBenchmark) and benchmark.makes_questions
    }
    if not made and (chosen.tokenizer or chosen.metadata):
        raise SettingsError(
            "`lm_eval.tokenizer` and `lm_eval.metadata` are for tasks of the harness that make their questions, such as "
            "`lm_eval:ruler_vt`, and none is chosen. Leave them out."
        )
    if not made:
        return list(opened)
    tokenizer = _of_model(model) if chosen.tokenizer is None else _of_name(chosen.tokenizer)
    if tokenizer is None:
        return list(opened)
    return [
        (made[benchmark.name].made_with(tokenizer) if benchmark.name in made else benchmark, own)
        for benchmark, own in opened
    ]


def _of_model(model: ResolvedModel) -> Tokenizer | None:
    if model.identity.kind == "served":
        return None
    folder = files_folder(model, download=True, weights=False)
    return None if folder is None else _in_folder(folder)


def _of_name(name: str) -> Tokenizer:
    folder = at_home(name)
    if folder.is_dir():
        found = _in_folder(folder)
    else:
        found = _of_model(resolve_here(name, needs_weights=False, reads_weights=False))
    if found is None:
        raise ModelError(name, "it has no tokenizer. Name a model or a folder with one.")
    return found


def _in_folder(folder: Path) -> Tokenizer | None:
    """Return the tokenizer in a folder; None if there is none."""
    files = tokenizer_files(folder)
    if not files:
        return None
    config = [path for path in (folder / "config.json",) if path.is_file()]
    return Tokenizer((*files, *config), files_sha256(folder, files))
