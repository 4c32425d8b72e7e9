"""Accuracy over cost: models side by side, the Pareto front, and the significant differences."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain, combinations

from regrade.comparing.candidates import Candidate, Made, candidates, complete_sets, key_of
from regrade.comparing.comparison import LEVEL, CompareOptions, compare_sets
from regrade.comparing.costs import Costs, Over, Prices, costs_of
from regrade.comparing.likeness import NotComparableError
from regrade.comparing.models import FrozenModel
from regrade.judging.labels.calibrate import calibrate
from regrade.records.rubrics.facts import judge_run
from regrade.scorers import JUDGE
from regrade.scoring.score import score_answers
from regrade.settings.errors import DamagedAnswersError, RepositoryError, SettingsError
from regrade.stats.scale import SHARES, Scale
from regrade.stats.significance import holm

_OnDamage = Callable[[DamagedAnswersError], object]


class PricedModel(FrozenModel):
    """A model, or a quantisation of it, with its accuracy and cost on a benchmark."""

    name: str
    model: str
    answer_set_id: str
    repository: str
    accuracy: float
    """On `scale`."""
    accuracy_stderr: float | None
    accuracy_low: float | None
    accuracy_high: float | None
    n: int
    cost: float
    """Cost of a question; see `Tradeoff.over`."""
    seconds: float | None
    tokens: float | None
    prompt_tokens: float | None
    devices: tuple[str, ...]
    on_front: bool
    """No other model is as accurate for less, or more accurate for the same cost."""
    scale: Scale = SHARES
    calibration: str = ""
    """The figure corrected by labels, or `uncalibrated`; only for verdicts of a judge and for answers that people
    labelled."""


class PairedDifference(FrozenModel):
    """Two choices, compared question by question."""

    better: str
    worse: str
    difference: float
    """Accuracy of `better` minus that of `worse`, over the questions that both answered."""
    low: float
    high: float
    n: int
    p_value: float
    p_adjusted: float
    """After Holm's correction for all pairs of the benchmark."""
    real: bool
    """`p_adjusted` is at most 0.05."""
    scale: Scale = SHARES
    """Scale of the accuracies."""


class Tradeoff(FrozenModel):
    """A benchmark: its choices from the cheapest to the dearest, and their differences."""

    benchmark: str
    over: Over
    choices: tuple[PricedModel, ...]
    pairs: tuple[PairedDifference, ...]
    left_out: tuple[str, ...] = ()
    """Answer sets without a place in the chart, and pairs that cannot be compared, with the reason."""


class Tradeoffs(FrozenModel):
    """Trade-offs of all benchmarks."""

    over: Over
    currency: str
    benchmarks: tuple[Tradeoff, ...]


def tradeoffs(
    repositories: Sequence[str],
    *,
    over: Over,
    prices: Prices,
    currency: str,
    models: Collection[str] = (),
    benchmarks: Collection[str] = (),
    options: CompareOptions | None = None,
    on_damage: _OnDamage = lambda _: None,
) -> Tradeoffs:
    """Return the trade-off of each benchmark, from stored answers only.

    A model stands for its complete, intact answer set with the most questions, or the newest of these. Quantisations, and
    other engine settings that change what is computed, are choices of their own; so are revisions of a model, and models in
    different repositories. The verdicts of a judge stand for the model that it judged, with the costs of that model's answers.

    Args:
        repositories: Addresses of answer repositories.
        over: Cost of the chart.
        prices: Prices for `money`.
        currency: Name of the currency.
        models: Only these models. Empty: all.
        benchmarks: Only these benchmarks. Empty: all.
        options: Options of the comparisons.
        on_damage: Called with the damage of answers and labels that are left out.

    Raises:
        RepositoryError: If a repository does not exist, or nothing fits.
        DamagedAnswersError: If nothing fits of what can be read, and the rest is damaged.
        SettingsError: If `over` is `money` and no price is given.
    """
    if over == "money" and not prices.gpu_hour and not prices.tokens:
        raise SettingsError(
            "The cost in money needs a price: `--gpu-hour 2.50` for an hour of a GPU, or `--token-price 0.15,0.60` for a "
            "million tokens of prompts and of answers."
        )
    read = [complete_sets(uri) for uri in dict.fromkeys(repositories)]
    sets = [made for found, _ in read for made in found]
    damaged = [*chain.from_iterable(errors for _, errors in read)]
    chosen = [
        made
        for made in sets
        if (not models or made.model.name in models or made.model.name.rpartition("/")[2] in models)
        and (not benchmarks or made.benchmark in benchmarks)
    ]
    if not chosen:
        if damaged:
            raise damaged[0]
        known = sorted({made.model.name for made in sets}) or ["none"]
        raise RepositoryError(
            ", ".join(repositories),
            f"no complete answers fit. Models with complete answers: {', '.join(known)}. `regrade list` shows all.",
        )
    for error in damaged:
        on_damage(error)
    costs = {key_of(made.answers): costs_of(made.answers.manifest) for made in sets}
    found = [
        _tradeoff(
            name,
            [made for made in chosen if made.benchmark == name],
            costs,
            over,
            prices,
            options or CompareOptions(),
            on_damage,
        )
        for name in dict.fromkeys(made.benchmark for made in chosen)
    ]
    return Tradeoffs(over=over, currency=currency, benchmarks=tuple(found))


def _tradeoff(
    benchmark: str,
    sets: Sequence[Made],
    costs: Mapping[tuple[str, str], Costs],
    over: Over,
    prices: Prices,
    options: CompareOptions,
    on_damage: _OnDamage,
) -> Tradeoff:
    left_out: list[str] = []
    placed: list[tuple[Candidate, PricedModel]] = []
    for ranked in candidates(sets, costs, options.scorer):
        for candidate in ranked:
            try:
                choice = _choice(candidate, over, prices, on_damage)
            except DamagedAnswersError as error:
                on_damage(error)
                left_out.append(f"{candidate.name}: {error}")
                continue
            if isinstance(choice, str):
                left_out.append(f"{candidate.name}: {choice}")
            else:
                placed.append((candidate, choice))
            break
    usual = Counter(candidate.scorer for candidate, _ in placed).most_common(1)
    left_out += [
        f"{candidate.name}: it is scored by {candidate.scorer}, others by {scorer}: `--scorer` chooses one for all"
        for scorer, _ in usual
        for candidate, _ in placed
        if candidate.scorer != scorer
    ]
    placed = [entry for entry in placed if entry[0].scorer == usual[0][0]]
    placed.sort(key=lambda entry: (entry[1].cost, -entry[1].accuracy))
    front = pareto_front([(choice.cost, choice.accuracy) for _, choice in placed])
    choices = [
        choice.model_copy(update={"on_front": number in front})
        for number, (_, choice) in enumerate(placed)
    ]
    pairs: list[PairedDifference] = []
    for left, right in combinations([candidate for candidate, _ in placed], 2):
        try:
            pairs.append(_difference(left, right, options))
        except NotComparableError as error:
            left_out.append(f"{left.name} and {right.name} are not compared: {error}")
    adjusted = holm([pair.p_value for pair in pairs])
    return Tradeoff(
        benchmark=benchmark,
        over=over,
        choices=tuple(choices),
        pairs=tuple(
            pair.model_copy(update={"p_adjusted": p, "real": p <= LEVEL})
            for pair, p in zip(pairs, adjusted, strict=True)
        ),
        left_out=tuple(left_out),
    )


def pareto_front(places: Sequence[tuple[float, float]]) -> set[int]:
    """Return the positions on the Pareto front.

    Args:
        places: Cost, and accuracy, of each choice.
    """
    return {
        number
        for number, (cost, accuracy) in enumerate(places)
        if not any(
            other_cost <= cost
            and other_accuracy >= accuracy
            and (other_cost, other_accuracy) != (cost, accuracy)
            for other_cost, other_accuracy in places
        )
    }


def _choice(
    candidate: Candidate, over: Over, prices: Prices, on_damage: _OnDamage
) -> PricedModel | str:
    """Return the model with its accuracy and cost, or the reason to leave it out."""
    specification, set_id = candidate.answers.manifest.specification, key_of(candidate.answers)[1]
    if candidate.scorer == JUDGE and judge_run(specification) is None:
        return f"a judge grades its answers: `regrade judge {set_id} --judge MODEL`"
    model = candidate.model
    cost = candidate.costs.per_question(over, model, prices)
    if cost is None:
        has_price = over != "money" or {model, ""} & {*prices.gpu_hour, *prices.tokens}
        return f"its {over} are not known" if has_price else "no price is given for it"
    scored = score_answers(candidate.answers, candidate.scorer)
    file, metrics = scored.file, scored.file.summary.overall
    if metrics.accuracy is None:
        return "it has no scored answer"
    labelled = calibrate(scored, on_damage=on_damage)
    return PricedModel(
        name=candidate.name,
        model=model,
        answer_set_id=set_id,
        repository=candidate.answers.repository.uri,
        accuracy=metrics.accuracy,
        accuracy_stderr=metrics.accuracy_stderr,
        accuracy_low=metrics.accuracy_low,
        accuracy_high=metrics.accuracy_high,
        n=metrics.n,
        cost=cost,
        seconds=candidate.costs.seconds,
        tokens=candidate.costs.tokens,
        prompt_tokens=candidate.costs.prompt_tokens,
        devices=candidate.costs.devices,
        on_front=False,
        scale=file.scale,
        calibration="" if labelled is None else labelled.text,
    )


def _difference(left: Candidate, right: Candidate, options: CompareOptions) -> PairedDifference:
    comparison = compare_sets(left.answers, right.answers, options).comparison
    sign = 1 if comparison.difference >= 0 else -1
    ends = sorted((sign * comparison.low, sign * comparison.high))
    better, worse = (right, left) if sign > 0 else (left, right)
    return PairedDifference(
        better=better.name,
        worse=worse.name,
        difference=abs(comparison.difference),
        low=ends[0],
        high=ends[1],
        n=comparison.n,
        p_value=comparison.p_value,
        p_adjusted=comparison.p_value,
        real=False,
        scale=comparison.scale,
    )
