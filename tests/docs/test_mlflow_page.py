"""docs/mlflow.md names every metric, parameter, tag and artifact that is logged."""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.comparing.gate import gate
from regrade.comparing.gate_report import tag_candidate
from regrade.scoring.score import score_answers
from regrade.scoring.wrong import wrong_examples
from regrade.settings import GateSettings
from regrade.stats.named import Aggregate
from regrade.tracking import Scoring, track
from regrade.tracking.connection import connect
from regrade.tracking.labels import move_alias_tag
from tests.builders import session
from tests.comparing.sides import answer
from tests.stored import score, tracked_as

PAGE = Path(__file__).parents[2] / "docs" / "mlflow.md"


def missing(page: str, logged: Iterable[str]) -> list[str]:
    """Names that a page lacks between backticks; there, `<...>` stands for any text."""
    names = re.findall(r"`([\w./<> -]+)`", page)
    patterns = ["".join(map(_pattern, re.split(r"(<[^>]*>)", name))) for name in names]
    return sorted(name for name in {*logged} if not any(re.fullmatch(p, name) for p in patterns))


def _pattern(part: str) -> str:
    return ".+" if part.startswith("<") else re.escape(part)


def tracked(uri: str, answers: AnswerSet) -> Scoring:
    scored = score_answers(answers, "number", force=True)
    begun = session(generate_seconds=1, prompt_tokens=1, completion_tokens=1)
    manifest = answers.manifest.model_copy(update={"sessions": (begun,)})
    part = Aggregate(subset="part", name="bits", value=1.0, stderr=1.0, n=1)
    file = scored.file.model_copy(update={"aggregates": (part,)})
    scoring = tracked_as(
        answers,
        file,
        manifest=manifest,
        url="https://hub.test/answers",
        latency={"latency_p50": 1.0, "time_to_first_token_p99": 1.0},
        examples=wrong_examples(answers, scored.file, scored.table),
        change="changed",
        diff="# changed",
    )
    intact = replace(scoring, file=file.model_copy(update={"left_out": ("part",)}))
    track(uri, [scoring, intact])
    return scoring


def test_the_page_names_everything_that_is_logged(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    repository = LocalRepository(tmp_path / "answers")
    one = answer(repository, "run/checkpoint-1", right=4, total=8, repeats=2, temperature=0.5)
    other = answer(repository, "run/checkpoint-2", right=2, total=8, repeats=2, temperature=0.5)
    for answers in (one, other):
        score(answers)
        tracked(uri, answers)
    report = gate(
        "run/checkpoint-2",
        GateSettings(baseline="run/checkpoint-1", max_drop=40),
        answers=repository.uri,
    )
    assert tag_candidate(uri, report) == 2
    move_alias_tag(uri, "baseline", {"sums": one.manifest.answer_set_id})

    logged: set[str] = set()
    with connect(uri) as client:
        experiment = client.get_experiment_by_name("regrade")
        assert experiment is not None
        for run in client.search_runs([experiment.experiment_id]):
            logged |= {*run.data.metrics, *run.data.tags}
            logged |= {entry.path for entry in client.list_artifacts(run.info.run_id)}
            if run.data.tags["regrade.kind"] != "scoring":
                logged |= {*run.data.params}
    ours = {name for name in logged if not name.startswith("mlflow.")}

    assert len(ours) > 60
    assert missing(PAGE.read_text(), ours) == []
    assert missing(PAGE.read_text(), ["invented", "regrade.invented"]) != []
