"""`judge-answers` with a scripted judge behind an OpenAI-compatible server: real flow, Prefect server, repository, MLflow."""

import json
from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from flows.evaluate_model import evaluate_model
from flows.judge_answers import judge_answers
from regrade.answers.sets import AnswerSet
from regrade.judging.readings import judged_answers, run_of
from regrade.records.columns import GENERATION_SCHEMA
from regrade.results.page import blocks
from regrade.results.results import Evaluation, TooFewVerdictsError
from regrade.settings.errors import SettingsError, UserError
from regrade.text.markdown import markdown
from regrade.tracking.connection import connect
from tests.benchmarks.files import write_parquet
from tests.judging.running import verdicts
from tests.judging.scripted import ScriptedJudge, by_reference, candidates
from tests.stored import sets_in

pytestmark = [pytest.mark.usefixtures("mlflow_database"), pytest.mark.prefect]
Judging = Callable[..., Evaluation]


def engine_at(url: str) -> dict[str, Any]:
    return {"kind": "openai", "base_url": url, "max_retries": 0, "model_revision": "r1"}


@pytest.fixture
def judging(flows_on_server: str, spool_home: Path, tmp_path: Path) -> Judging:
    """Runs the flow against a scripted judge; more parameters go to the flow."""

    def run(judge: ScriptedJudge, **parameters: Any) -> Evaluation:
        with judge.served() as url:
            return judge_answers(
                **{
                    "judges": ("judge-7b",),
                    "engine": engine_at(url),
                    "answers": str(tmp_path / "answers"),
                    "tracking_uri": f"sqlite:///{tmp_path}/mlflow.db",
                    **parameters,
                }
            )

    return run


def the_set(evaluation: Evaluation) -> AnswerSet:
    [entry] = evaluation.answer_sets
    [found] = sets_in(Path(evaluation.repository), answer_set_id=entry.answer_set_id)
    return found


def others(evaluation: Evaluation) -> dict[str, float]:
    [entry] = evaluation.answer_sets
    return {result.name: result.value for result in entry.scores[0].other_results}


def test_answers_that_wait_for_a_judge_are_judged_once(judging: Judging, tmp_path: Path):
    answers = candidates(
        tmp_path / "answers",
        ["It is 1.", "It is 5.", "I don't know.", None],
        benchmark="simpleqa_verified",
    )
    judge = ScriptedJudge(by_reference)

    evaluation = judging(judge, price={"input": 2.0, "output": 10.0}, scoring={"min_coverage": 0.7})

    [entry] = evaluation.answer_sets
    [score] = entry.scores
    assert (entry.benchmark, entry.model, entry.judged) == (
        "judge:correct:simpleqa_verified",
        "judge-7b",
        "org/tiny",
    )
    assert (score.metrics["n"], score.metrics["accuracy"]) == (3, pytest.approx(1 / 3))
    assert score.headline
    found = others(evaluation)
    assert found["coverage"] == 0.75
    assert found["failed_share"] == 0.25  # there is no answer to judge
    assert found["not_attempted"] == pytest.approx(1 / 3)
    assert found["correct_given_attempted"] == 0.5
    assert (entry.figures["prompt_tokens"], entry.figures["completion_tokens"]) == (300, 30)
    assert entry.cost == pytest.approx(300 * 2e-6 + 30 * 10e-6)
    assert len(judge.bodies) == 3  # the failed answer cost no request

    again_ = judging(judge, scoring={"min_coverage": 0.7})
    assert len(judge.bodies) == 3
    assert again_.answer_sets[0].answer_set_id == entry.answer_set_id

    judge_set = the_set(evaluation)
    assert {v.sample_id: (v.outcome, v.label) for v in verdicts(judge_set)} == {
        "sample-00001": ("scored", "A"),
        "sample-00002": ("scored", "B"),
        "sample-00003": ("scored", "C"),
        "sample-00004": ("failed", None),
    }
    run = run_of(judge_set)
    assert run.judged is not None
    assert run.judged.answer_set_id == answers.manifest.answer_set_id
    assert judged_answers(judge_set)["sample-00002", 0].answer == "It is 5."


def test_a_judge_that_fails_after_its_first_answer_set_ends_the_run(
    judging: Judging, tmp_path: Path
):
    for number, benchmark in enumerate(("simpleqa_verified", "hle")):
        candidates(tmp_path / "answers", [f"It is {number + 1}."], benchmark=benchmark)

    class Closing(ScriptedJudge):
        def reply(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
            if "It is 2." in body["messages"][-1]["content"]:
                sleep(1)  # until the other answer set is complete
                return 401, {}
            return super().reply(body)

    with pytest.raises(SettingsError, match="API key"):
        judging(Closing(by_reference), rubric="correct")
    stored = [found.manifest for found in sets_in(tmp_path / "answers")]
    judged = [m for m in stored if m.specification.benchmark.name.startswith("judge:")]
    assert [manifest.state for manifest in judged] == ["complete"]


def test_too_few_verdicts_for_a_headline_number_end_with_an_error(judging: Judging, tmp_path: Path):
    candidates(tmp_path / "answers")

    def partly(texts: dict[str, str]) -> str:
        return by_reference(texts) if int(texts["reference"]) <= 5 else "Correct, I think."

    judge = ScriptedJudge(partly)
    too_few = rf"5 of 9 answers have a verdict \(4 have none.* --answers {tmp_path}"
    with pytest.raises(TooFewVerdictsError, match=too_few) as told:
        judging(judge, rubric="correct")
    assert told.value.evaluation.answer_sets[0].scores[0].metrics["n"] == 5
    assert not isinstance(told.value, UserError), "the command ends with 1"

    judge.judge = by_reference
    with pytest.raises(TooFewVerdictsError):  # nothing is asked again: the replies are stored
        judging(judge, rubric="correct")
    assert len(judge.bodies) == 9


def test_several_judges_are_combined_in_the_result_the_page_and_mlflow(
    judging: Judging, tmp_path: Path
):
    answers = candidates(tmp_path / "answers", ["It is 1.", "It is 5.", "It is 3.", "It is 9."])
    always = json.dumps({"explanation": "x", "verdict": "A"})
    lenient = ScriptedJudge(lambda _: always)
    lenient.name = "judge-one"
    alone = judging(lenient, judges=("judge-one",), rubric="correct")
    assert alone.panels == ()

    evaluation = judging(ScriptedJudge(by_reference), rubric="correct")

    [panel] = evaluation.panels
    assert panel.answer_set_id == answers.manifest.answer_set_id
    assert [judge.judge for judge in panel.judges] == ["judge-one@r1", "judge-7b@r1"]
    majority, mean = panel.combined
    assert (majority.rule, majority.n, majority.mean) == ("majority", 2, None)
    assert (mean.rule, mean.n, mean.mean) == ("mean", 4, 0.75)
    assert [pair.equal for pair in panel.agreement] == [0.5]
    assert "| mean | 75.0 ±" in markdown(blocks(evaluation))

    uri = f"sqlite:///{tmp_path}/mlflow.db"
    with connect(uri) as client:
        run = client.get_run(str(panel.mlflow_run_id))
        parent = client.get_run(run.data.tags["mlflow.parentRunId"])
    assert run.info.status == "FINISHED"
    assert (run.data.metrics["mean"], run.data.metrics["unanimous"]) == (0.75, 0.5)
    assert run.data.metrics["agreement/judge-one_r1 and judge-7b_r1"] == 0.5
    assert run.data.tags["regrade.judges"] == "judge-one@r1, judge-7b@r1"
    assert parent.data.tags["regrade.model"].startswith("org/tiny")

    third = ScriptedJudge(by_reference)
    third.name = "judge-three"
    [larger] = judging(third, judges=("judge-three",), rubric="correct").panels
    assert (larger.combined[0].mean, larger.mlflow_run_id) == (0.5, panel.mlflow_run_id)
    with connect(uri) as client:
        updated = client.get_run(str(panel.mlflow_run_id)).data
    assert (updated.metrics["majority"], updated.metrics["mean"]) == (0.5, pytest.approx(2 / 3))


def test_an_evaluation_ends_with_the_judge(flows_on_server: str, spool_home: Path, tmp_path: Path):
    source = tmp_path / "eval.jsonl"
    facts = [{"problem": f"What is {n}?", "answer": str(n), "topic": "Sums"} for n in range(1, 5)]
    source.write_text("".join(json.dumps(fact) + "\n" for fact in facts))

    def both(texts: dict[str, str]) -> str:
        return by_reference(texts) if texts else "It is 3."  # the candidate's prompt has no marks

    scripted = ScriptedJudge(both)
    with scripted.served() as url:
        engine = engine_at(url)
        parameters = {
            "model": "judge-7b",
            "benchmarks": ("simpleqa_verified",),
            "sources": ({"benchmark": "simpleqa_verified", "path": str(source)},),
            "engine": engine,
            "answers": str(tmp_path / "answers"),
            "tracking_uri": f"sqlite:///{tmp_path}/mlflow.db",
            "price": {"output": 1.0},
        }
        with pytest.raises(SettingsError, match="name one with `judge.judges`"):
            evaluate_model(**parameters)
        assert not scripted.bodies
        evaluation = evaluate_model(**parameters, judge={"judges": ("judge-7b",), "engine": engine})

    assert isinstance(evaluation, Evaluation)
    candidate, verdict_set = evaluation.answer_sets
    assert (candidate.benchmark, candidate.scores) == ("simpleqa_verified", ())
    assert candidate.cost == pytest.approx(40e-6)
    assert verdict_set.benchmark == "judge:correct:simpleqa_verified"
    assert verdict_set.scores[0].metrics["accuracy"] == 0.25
    assert len(scripted.bodies) == 8


def test_hle_is_judged_by_its_withheld_questions_which_nothing_publishes(
    judging: Judging, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    private = tmp_path / "private"
    monkeypatch.setenv("REGRADE_QUESTIONS", str(tmp_path / "questions"))
    monkeypatch.setenv("REGRADE_QUESTIONS_REPOSITORY", str(private))
    exam = {"image": "", "answer_type": "exactMatch", "category": "Law"}
    questions = [
        exam | {"question": "Which zyxwort is fairest?", "answer": "3"},
        exam | {"question": "And which zyxwort is last?", "answer": "42"},
        exam | {"question": "What is shown?", "answer": "4", "image": "data:image/png;base64,iV"},
    ]
    source = write_parquet(tmp_path / "test.parquet", questions)

    def both(texts: dict[str, str]) -> str:
        return by_reference(texts) if texts else "I count.\nAnswer: 3\nConfidence: 80%"

    scripted = ScriptedJudge(both)
    with scripted.served() as url:
        engine = engine_at(url)
        evaluation = evaluate_model(
            model="judge-7b",
            benchmarks=("hle",),
            sources=({"benchmark": "hle", "path": str(source)},),
            engine=engine,
            answers=str(tmp_path / "answers"),
            tracking_uri=f"sqlite:///{tmp_path}/mlflow.db",
            judge={"judges": ("judge-7b",), "engine": engine},
        )

    assert isinstance(evaluation, Evaluation)
    _, verdict_set = evaluation.answer_sets
    assert verdict_set.benchmark == "judge:correct:hle"
    assert verdict_set.scores[0].metrics["accuracy"] == 0.5
    asked = [prompt for prompt in scripted.prompts if "Reference answer" in prompt]
    assert sorted(("fairest" in prompt, "last" in prompt) for prompt in asked) == [
        (False, True),
        (True, False),
    ]
    for answers in sets_in(tmp_path / "answers"):
        assert answers.manifest.withheld
        for shard in answers.manifest.shards:
            batches = answers.shard(shard, GENERATION_SCHEMA.names).batches()
            assert "zyxwort" not in str([batch.to_pylist() for batch in batches])
    tracked = [tmp_path / "mlflow.db", *(tmp_path / "mlartifacts").rglob("*")]
    assert not any(b"zyxwort" in file.read_bytes() for file in tracked if file.is_file())

    # Another machine, without the questions and then with the private repository.
    monkeypatch.setenv("REGRADE_QUESTIONS", str(tmp_path / "elsewhere"))
    monkeypatch.delenv("REGRADE_QUESTIONS_REPOSITORY")
    judge = ScriptedJudge(by_reference)
    with pytest.raises(SettingsError, match="2 of 2 are missing in '.*/elsewhere/.*set REGRADE_"):
        judging(judge, judge_repeats=2)
    assert not judge.bodies
    monkeypatch.setenv("REGRADE_QUESTIONS_REPOSITORY", str(private))
    assert judging(judge, judge_repeats=2).answer_sets[0].scores[0].metrics["accuracy"] == 0.5
    assert sum("zyxwort" in prompt for prompt in judge.prompts) == 2  # the first verdicts are known
