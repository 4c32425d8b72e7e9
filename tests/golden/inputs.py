"""Frozen inputs: repositories with few answers, and results that no engine had to make.

Answers are published and scored as everywhere; only what needs an engine is written down here.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from regrade.answers.local import LocalRepository
from regrade.answers.origin import begin_session
from regrade.answers.publishing import publish_answers
from regrade.answers.sets import AnswerSet, readable_sets
from regrade.answers.spool import Spool, spool_folder
from regrade.comparing.comparison import flip_examples
from regrade.comparing.noise import MeasuredFloor, NoiseReport, floors_of
from regrade.exchange.importing.importer import Imports, import_files
from regrade.jobs.time_spent import TimeSpent
from regrade.records.computed import BatchCheck
from regrade.records.specification import AskedAgain, ModelIdentity, PromptIdentity
from regrade.results.results import (
    AnswerSetResult,
    EarlyEnd,
    Evaluation,
    SubsetResult,
    score_result,
)
from regrade.scoring.score import score_answers
from regrade.settings import SamplingParams
from regrade.stats.named import Aggregate
from regrade.stats.speed import Goodput, OtherSide, Speed, Spread
from regrade.tuning.plan.plan import MemoryPlan
from regrade.tuning.search.records import TrialRecord
from regrade.tuning.search.result import TuneResult
from regrade.tuning.sweep.results import SweepResult
from tests.builders import description, row, session
from tests.comparing.sides import answer
from tests.exchange.importing.test_lm_eval import TIME, results, sample
from tests.exchange.importing.writing import jsonl
from tests.judged import fill, judge, rows_of
from tests.stored import again, publish, result_of, score, score_with_an_older_scorer
from tests.tuning.plan.made import FITTING, LACKING, REFUSED, WITHOUT_KV_CACHE, plan
from tests.tuning.search.test_records import KEY, tuning
from tests.tuning.sweep.made import paired_test, point, sweep

QUESTIONS = 12
LATENCY = Spread(mean=0.25, p25=0.1, p50=0.2, p75=0.3, p99=0.4, n=QUESTIONS)
LIMITS = {"ttft": 2, "tpot": None, "e2el": 30}
SPEED = Speed(
    **dict.fromkeys(("ttft", "tpot", "itl", "e2el", "queue"), LATENCY),
    requests=QUESTIONS,
    running_mean=2.0,
    running_max=3,
    waiting_max=1,
    kv_cache_usage_max=0.5,
    prefix_hit_rate=0.25,
    preemptions=6,
    goodput=Goodput(limits=LIMITS, answers=QUESTIONS, within=9, unmeasured=1, per_second=1.5),
)
SPEEDS = {
    "shared engine": Speed(e2el=LATENCY.model_copy(update={"n": 2 * QUESTIONS})),
    "seen by the client": Speed(
        measured_by="client", itl=LATENCY, e2el=LATENCY, running_mean=2.0, running_max=3
    ),
    "client agrees": Speed(
        e2el=LATENCY, other_side=OtherSide(by="client", requests=QUESTIONS, e2el=0.2525)
    ),
    "client differs": Speed(
        e2el=LATENCY, other_side=OtherSide(by="client", requests=QUESTIONS, e2el=0.3)
    ),
    "ended early": Speed(),
}
"""Speeds by what is special about them; without limits, so that a terminal does not show them."""
SPENT = TimeSpent(
    seconds=90.0,
    parts={"loading": 60.0, "filling": 0.5, "full": 17.0, "draining": 1.0, "idle": 11.5},
    before=3.0,
    after=2.0,
    tokens=16_000,
    lost_tokens=0,
)

ASKED_AGAIN = AskedAgain(seed=1, in_flight=16, place="vllm 0.32.0 on NVIDIA H100 with 1 GPU")
BATCHES = BatchCheck(tokens=1792, differing=12, largest=1.9e-5)


def make_answers(folder: Path) -> dict[str, AnswerSet]:
    """Answer sets of several models on the same questions, by the model's name without `org/`."""
    repository = LocalRepository(folder / "answers")
    sets = {
        "base": answer(repository, "org/base", wrong=(1, 2), total=QUESTIONS),
        "candidate": answer(
            repository, "org/candidate", wrong=(2, 3, 5, 7), total=QUESTIONS, unparsed=1
        ),
        "sampled": sampled(repository),
        "fast": generated(folder, repository, "org/fast", right=6, seconds=6),
        "slow": generated(folder, repository, "org/slow", right=11, seconds=60, quantization="fp8"),
    }
    for found in sets.values():
        score(found)
    # Asked again: no file but those of the noise floor, and of comparisons with this model, shows it.
    generated(folder, repository, "org/fast", right=7, seconds=9, asked_again=ASKED_AGAIN)
    sets["unfinished"] = answer(
        repository, "org/unfinished", right=5, total=8, declared=20, benchmark="more-sums"
    )
    wrong = {"value": 0.0, "extracted": "0", "outcome": "scored"}
    sets["older"] = answer(repository, "org/older", wrong=(4,), total=QUESTIONS)
    score_with_an_older_scorer(
        sets["older"], lambda scored: wrong if scored["sample_id"][-1] in "67" else {}
    )
    return {name: again(found) for name, found in sets.items()}


def sampled(repository: LocalRepository) -> AnswerSet:
    """Three answers to each question, of which avg@3, pass@3 and maj@3 differ."""
    wrong = {3: (0, 1, 2), 6: (0, 2), 9: (1, 2)}
    rows = [
        row(number, f"#### {number + 1}" if repeat in wrong.get(number, ()) else "", repeat=repeat)
        for number in range(QUESTIONS)
        for repeat in range(3)
    ]
    return publish(
        repository,
        rows,
        model="org/sampled",
        repeats=3,
        sampling=SamplingParams(temperature=0.7),
        prompt=PromptIdentity(format="chat", template="{{ question }}", n_shots=0),
    )


def generated(
    folder: Path,
    repository: LocalRepository,
    model: str,
    *,
    right: int,
    seconds: float,
    quantization: str | None = None,
    asked_again: AskedAgain | None = None,
) -> AnswerSet:
    """Answers of a session of an engine, with their seconds."""
    identity = ModelIdentity(name=model, kind="hub", revision="a" * 40, quantization=quantization)
    described = description(QUESTIONS, model=identity, asked_again=asked_again)
    checked = {"in_flight": asked_again.in_flight, "batches": BATCHES} if asked_again else {}
    begun = session(device="NVIDIA H100", **checked)
    rows = [
        row(
            number,
            "" if number < right else f"#### {number + 1}",
            finished_at=seconds * (number + 1) / QUESTIONS,
        )
        for number in range(QUESTIONS)
    ]
    with Spool(folder / "spool" / described.specification.answer_set_id) as spool:
        begin_session(spool, repository.uri, described, begun)
        spool.append(rows)
        found = publish_answers(repository, spool, described)
    assert found is not None
    return found


def make_judged(folder: Path) -> dict[str, AnswerSet]:
    """Answers of two models, and the verdicts of two judges; the second finds more of them right."""
    repository = LocalRepository(folder / "judged")
    sets = {}
    for model, wrong in (("a", (0, 3, 6, 9)), ("b", (0, 1, 2, 3, 4, 5))):
        answers = answer(
            repository, f"org/{model}", wrong=wrong, total=2 * QUESTIONS, scorers=("judge",)
        )
        sets[model] = answers
        for name, lenient in (("strict", ()), ("kind", (0, 6))):
            verdicts: dict[int, str | None] = {n: "B" for n in wrong if n not in lenient}
            verdicts[11] = None
            sets[f"{model}-{name}"] = judge(
                answers,
                lambda number, _, verdicts=verdicts: verdicts.get(number, "A"),
                model=f"org/judge-{name}",
            )
    return {name: again(found) for name, found in sets.items()}


def label(sheet: Path, *wrong: int) -> None:
    """Fill a sheet as a person who finds these answers wrong."""
    rows = rows_of(sheet)
    for filled in rows:
        number = int(filled["sample_id"].removeprefix("sample-"))
        filled["label"] = "incorrect" if number in wrong else "correct"
    fill(sheet, rows)


def of_an_engine(evaluation: dict[str, Any]) -> dict[str, Any]:
    """The document of a scoring as that of an evaluation that generated its answers, for a price, and could not score all."""
    first, *others = evaluation["answer_sets"]
    (scored,) = first["scores"]
    lowest = SubsetResult(name="part 1", accuracy=0.25, accuracy_stderr=0.25, n=4)
    perplexity = Aggregate(subset="wikitext", name="word_perplexity,none", value=24.25, n=62)
    scored |= {
        "lowest": [lowest.model_dump()],
        "other_results": [perplexity.model_dump()],
        "notes": ["30.0 % of the answers were cut off at 512 tokens."],
    }
    changes = {
        "generated": QUESTIONS,
        "seconds": {"load": 30.0, "generate": 6.0, "publish": 0.5, "score": 0.25, "track": 1.0},
        "tokens_per_second": 14.0,
        "prompt_tokens": 60,
        "completion_tokens": 84,
        "cost": 0.0125,
        "speed": SPEED.model_dump(mode="json"),
    }
    left_out = {"answer_set": "0" * 16, "title": "sums · org/lost", "scorer": "number"}
    not_scored = [left_out | {"reason": "part-00000.parquet is damaged", "damaged": True}]
    more = {"not_scored": not_scored, "time_spent": SPENT.model_dump(mode="json")}
    return evaluation | more | {"answer_sets": [first | changes, *others]}


def unscored(folder: Path) -> Evaluation:
    """Answer sets that a run generated and did not score, each measured in another way; the last ended early."""
    sets = [
        AnswerSetResult(
            benchmark=name,
            model="org/tiny",
            answer_set_id=f"{number:016x}",
            revision="c" * 40,
            url=None,
            rows=QUESTIONS,
            expected_rows=QUESTIONS,
            generated=QUESTIONS,
            seconds={"load": 30.0, "generate": 6.0, "publish": 0.5},
            speed=speed,
        )
        for number, (name, speed) in enumerate(SPEEDS.items())
    ]
    early = EarlyEnd(
        verdict="regression",
        questions=8,
        of=QUESTIONS,
        text="stopped after 8 of 12: regression",
        saved_questions=4,
        saved_tokens=48,
        saved_seconds=3.0,
    )
    sets[-1] = sets[-1].model_copy(update={"rows": 8, "generated": 8, "stopped": early})
    return Evaluation(answer_sets=tuple(sets), repository=str(folder / "answers"))


def judged(folder: Path, sets: dict[str, AnswerSet], panel: dict[str, Any]) -> Evaluation:
    """The verdicts of two judges on the answers of a model as those of a run of `judge`, with their panel."""
    verdicts = [
        result_of(
            sets[name],
            score_result(score_answers(sets[name], "judge"), None),
            generated=2 * QUESTIONS,
            judged="org/a",
            seconds={"load": 30.0, "generate": 6.0, "publish": 0.5, "score": 0.25},
        )
        for name in ("a-strict", "a-kind")
    ]
    return Evaluation.model_validate(
        {
            "answer_sets": [found.model_dump(mode="json") for found in verdicts],
            "panels": [panel],
            "repository": str(folder / "judged"),
        }
    )


def of_lm_eval(folder: Path) -> Path:
    """Write what lm-evaluation-harness leaves, with two answers."""
    results(folder)
    jsonl(folder / f"samples_sums_{TIME}.jsonl", sample(1, "1", 1.0), sample(2, "2", 0.0))
    return folder


def imported(folder: Path) -> Imports:
    """The answers that a harness left, with where its time went."""
    found = import_files(LocalRepository(folder / "answers"), [of_lm_eval(folder / "left")])
    return replace(found, time_spent=SPENT)


def leave_in_the_spool(folder: Path, model: str = "org/left") -> None:
    """Leave answers on this machine as a run that was killed does."""
    described = description(4, model=model)
    specified = described.specification
    path = spool_folder(str(folder / "answers"), specified.answer_set_id)
    with Spool(path) as spool:
        begin_session(spool, str(folder / "answers"), described, session())
        spool.append([row(number) for number in range(3)])


def swept(folder: Path) -> SweepResult:
    """A sweep of three points, of which one failed."""
    points = (
        point(0, 1),
        point(1, 4, test=paired_test(0.02), speed_up=3.0, speed=SPEED),
        point(2, 16, failure="out of memory"),
    )
    return sweep(*points).model_copy(update={"folder": str(folder / "sweeps")})


def tuned(folder: Path) -> TuneResult:
    """A search with two measurements, of which the second was too slow for a limit."""
    key = KEY.model_copy(update={"limits": {"ttft_p99": 0.3}})
    first = {"start": 0, "settings": {}, "in_flight": 96, "requests": 96, "seconds": 9.0}
    second = {"start": 1, "settings": {"max_num_batched_tokens": 16384}, "in_flight": 192}
    second |= {"requests": 192, "seconds": 9.5, "broken": "TTFT p99 0.4 s is above 0.3 s"}
    trials = (TrialRecord(**first, rate=900.0, speed=SPEED), TrialRecord(**second, rate=990.0))
    update = {"trials": trials, "starts": 2, "remarks": ("prompts are short",), "rate": 900.0}
    return TuneResult(
        tuning=tuning(key).model_copy(update=update),
        path=key.path,
        repository=str(folder / "answers"),
        answer_set_id="0" * 16,
        answers_made=288,
        rows=288,
        expected_rows=1319,
        load_seconds=60.0,
        measure_seconds=18.5,
        time_spent=SPENT.model_copy(update={"advised": False}),
    )


def planned(*, fits: bool) -> MemoryPlan:
    """A plan of memory with splits that fit, one that does not and two that the model refuses, or without the first."""
    if fits:
        return plan(FITTING, WITHOUT_KV_CACHE, LACKING, *REFUSED)
    return plan(LACKING, *REFUSED, chosen=None)


def measured_noise(folder: Path) -> NoiseReport:
    """The noise floor of a model with answers of `make_answers`."""
    repository = LocalRepository(folder / "answers")
    head = str(repository.head())
    (answers,) = readable_sets(repository, head, model="org/fast")[0]
    floors = [
        MeasuredFloor(floor=found.floor, examples=flip_examples(found.sides, found.pairs, 1))
        for found in floors_of(answers, "number")
    ]
    return NoiseReport(
        model="org/fast",
        repository=repository.uri,
        revision=head,
        floors=tuple(floors),
        notes=("What was not tried.",),
    )
