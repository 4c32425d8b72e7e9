"""A package of someone else with a scorer, a benchmark and an engine, as `pip install` would leave it."""

from pathlib import Path

SCORER = '''
import pyarrow as pa
from regrade.scorers.base import Reading, TargetKind, answer_part, score_rows
from regrade.scorers.extraction import columns as c
from .words import MARK

class Shouted:
    """The whole answer, with a mark at its end."""

    name = "shouted"
    version = 3
    description = "The whole answer, with a mark at its end."
    unparsed = "An answer without the mark."
    targets: TargetKind = "text"
    columns = ("target", "text")

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        texts = answer_part(batch).text
        read = c.choose(c.is_match(texts, MARK + r"\\z"), texts, None)
        return score_rows(batch, Reading(read, c.is_equal(read, c.column(batch, "target"))))
'''
BENCHMARK = '''
from regrade.benchmarks.gsm8k import Gsm8k

class Riddles(Gsm8k):
    """Riddles with a number as answer."""

    name = "riddles"
    version = 2
    description = "Riddles with a number as answer."
    scorers = ("shouted",)
    hub_dataset = "theirs/riddles"
'''
ENGINE = '''
from typing import Literal
from regrade.engines.base import BaseEngineSettings, EngineInfo
from regrade.models.base import ResolvedModel
from regrade.records import Completion
from regrade.records.specification import ModelIdentity

class EchoEngine(BaseEngineSettings):
    """Repeats what it is asked."""

    kind: Literal["echo"] = "echo"
    times: int = 1
    """Repetitions."""

    def resolve(self, model_name):
        identity = ModelIdentity(name=model_name, kind="served", revision="here")
        return ResolvedModel(identity, model_name)

    def open(self, model, *, requests, rendering, log, on_progress=None):
        return Echo(self.times)

class Echo:
    info = EngineInfo("echo", "1", None, None, None, None, 0.0)

    def __init__(self, times):
        self.times = times

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def generate(self, requests):
        for request in requests:
            text = request.prompt * self.times
            yield [Completion(request.key, request.prompt, text=text, finish_reason="stop")]
'''
ENTRY_POINTS = """[regrade.scorers]
shouted = their_package.scorer:Shouted

[regrade.benchmarks]
riddles = their_package.benchmark:Riddles

[regrade.engines]
echo = their_package.engine:EchoEngine
"""


def install(folder: Path, name: str, entry_points: str, **modules: str) -> Path:
    """Write a distribution, with its modules in the package `their_package`; return the folder for `sys.path`."""
    described = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text(entry_points)
    package = folder / "their_package"
    package.mkdir(exist_ok=True)
    for module, text in {"__init__": "", **modules}.items():
        (package / f"{module}.py").write_text(text)
    return folder


def install_all(folder: Path) -> Path:
    """Write the distribution `their-package` with all three kinds; return the folder for `sys.path`."""
    modules = {"scorer": SCORER, "words": 'MARK = "!"\n', "benchmark": BENCHMARK, "engine": ENGINE}
    return install(folder, "their-package", ENTRY_POINTS, **modules)
