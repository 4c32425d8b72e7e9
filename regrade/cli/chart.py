"""`regrade chart`: models on accuracy over cost."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from regrade.cli.command_list import command
from regrade.cli.options import Allow, Benchmarks, SeveralAnswers
from regrade.cli.output import TABLE, Output, end_if_left_out
from regrade.comparing.chart_text import blocks, chart_of
from regrade.comparing.comparison import CompareOptions
from regrade.comparing.costs import Over, Prices
from regrade.comparing.tradeoff import Tradeoff, tradeoffs
from regrade.records.specification import path_component
from regrade.settings.errors import DamagedAnswersError, OperationError, SettingsError
from regrade.settings.view_address import default_answers
from regrade.stats.charts import DRAWING_ERRORS
from regrade.stats.curves import curve_chart
from regrade.stats.drawing import ImageFormat
from regrade.text.files import write_file

_FORMATS = ("png", "svg")


@command(group="Compare and decide", noun="settings")
def chart(
    *,
    over: Over = "seconds",
    answers: SeveralAnswers = (),
    model: tuple[str, ...] = (),
    benchmark: Benchmarks = (),
    gpu_hour: tuple[str, ...] = (),
    token_price: tuple[str, ...] = (),
    currency: str = "$",
    allow: Allow = (),
    scorer: str | None = None,
    image: Path | None = None,
    output: Output = TABLE,
) -> None:
    """Show models on accuracy over seconds, tokens or money per question, from stored answers.

    A model stands for its complete answer set with the most questions. Quantisations are choices of their own. The chart has
    95 % intervals and the Pareto front; paired tests say which differences are real. Damaged answer sets are left out and named,
    and the next fullest takes their place; the exit code is then 1.

    Args:
        model: Only this model. May be given several times.
        over: Cost: seconds of generating, tokens of answers, or money.
        gpu_hour: Price of an hour of one GPU, such as `2.50`, or `MODEL=2.50` for one model.
        token_price: Price of a million tokens of prompts and of answers, such as `0.15,0.60`, or `MODEL=0.15,0.60`.
        currency: Currency of the prices.
        scorer: Scorer of all answers; each benchmark's first if not given.
        image: File for the chart, ending in `.png` or `.svg`; with several benchmarks, each gets its name in front of the ending.

    Examples:
        chart --benchmark gsm8k --image chart.svg
        chart --over money --gpu-hour 2.50
        chart --over money --token-price org/model=0.15,0.60
    """
    kind = "" if image is None else image.suffix.removeprefix(".").lower()
    if image is not None and kind not in _FORMATS:
        raise SettingsError(f"`--image {image}` should end in `.png` or `.svg`.")
    prices = Prices(
        {name: _price("--gpu-hour", text) for name, text in _by_model("--gpu-hour", gpu_hour)},
        {name: _pair(text) for name, text in _by_model("--token-price", token_price)},
    )
    damaged: list[DamagedAnswersError] = []
    result = tradeoffs(
        answers or (default_answers(),),
        over=over,
        prices=prices,
        currency=currency,
        models=model,
        benchmarks=benchmark,
        options=CompareOptions(allow=allow, scorer=scorer),
        on_damage=damaged.append,
    )
    if image is not None:
        for tradeoff in result.benchmarks:
            if tradeoff.choices:
                several = len(result.benchmarks) > 1
                name = f"{image.stem}-{path_component(tradeoff.benchmark)}{image.suffix}"
                write_file(
                    image.with_name(name) if several else image,
                    _drawn(tradeoff, currency, cast("ImageFormat", kind)),
                )
    output.show(result, lambda: blocks(result), damaged)
    end_if_left_out(damaged)


def _drawn(tradeoff: Tradeoff, currency: str, image: ImageFormat) -> bytes:
    curves, axes, front = chart_of(tradeoff, currency)
    try:
        return curve_chart(curves, axes, front, image)
    except DRAWING_ERRORS as error:
        raise OperationError(
            f"The chart of {tradeoff.benchmark} cannot be drawn: {error}"
        ) from error


def _by_model(option: str, given: Sequence[str]) -> list[tuple[str, str]]:
    """Return model ("" for all) and price of each `[MODEL=]PRICE`."""
    prices = [(model, price) for model, _, price in (text.rpartition("=") for text in given)]
    models = [model for model, _ in prices]
    if twice := [model for model in models if models.count(model) > 1]:
        raise SettingsError(f"`{option}` is given twice for {twice[0] or 'all models'}.")
    return prices


def _price(option: str, text: str) -> float:
    try:
        price = float(text)
    except ValueError:
        price = -1.0
    if not 0 <= price < float("inf"):
        raise SettingsError(f"`{option} {text}` should be a price, such as `2.50` or `MODEL=2.50`.")
    return price


def _pair(text: str) -> tuple[float, float]:
    parts = text.split(",")
    if len(parts) != 2:
        raise SettingsError(
            f"`--token-price {text}` should be two prices of a million tokens, of prompts and of answers, such as `0.15,0.60`."
        )
    return _price("--token-price", parts[0]), _price("--token-price", parts[1])
