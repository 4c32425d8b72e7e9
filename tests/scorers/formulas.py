"""Formulas that hold Python, read by the scorer `math`: `python -m tests.scorers.formulas NESTINGS STEP` prints what was compiled of them.

A process of its own, because a hook that sees what Python compiles stays until the end.
"""

import random
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from regrade.scorers.mathematics.judging import judge

PAYLOADS = (
    *("PROOF", "PROOF()", "PROOF.x(1)", "'PROOF'", "__import__('PROOF')", "PROOF[0]", "PROOF{1}"),
)
PLACES = (
    *(r"%s", r"\text{%s}", r"\mathrm{%s}", r"\{%s, 1\}", r"\{\text{%s}, 1\}"),
    r"\left(%s, 2\right)",
    *(r"\operatorname{%s}(x)", r"\begin{pmatrix}%s\\1\end{pmatrix}", r"x \in \text{%s}", r"x=%s"),
    *(r"%s \cup \{1\}", r"\text{%s} \land x", r"\frac{%s}{2}", r"\sqrt{%s}", r"%s \le x", r"{%s}!"),
    *(r"\boxed{%s}", r"\mathbf{%s}", r"f(%s)", r"[%s, 2)", r"\sum_{%s=1}^{n} x", r"\int %s dx"),
    *(r"x_{%s}", r"\mathbb{%s}", r"%s \mod 3", r"\log_{%s} 2"),
)
SECONDS = 3.0
"""Time for a formula; the scorer has limits of its own."""


def formulas(nestings: int) -> Iterator[str]:
    """Yield each payload in each place, and that in some others."""
    drawn = random.Random(0)
    for place in PLACES:
        for outer in ("%s", *drawn.sample(PLACES, nestings)):
            for payload in PAYLOADS:
                yield outer.replace("%s", place.replace("%s", payload))


def main(nestings: int, step: int) -> None:
    """Read every formula, or each one after `step`, and print the number and what was compiled."""
    warnings.simplefilter("ignore")
    compiled: list[str] = []

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event == "compile" and "PROOF" in str(arguments[0]):
            compiled.append(str(arguments[0]))

    def give_up(*_: object) -> None:
        raise TimeoutError

    judge([["1", "1"]])
    sys.addaudithook(hook)
    eval("len('PROOF')")
    assert compiled.pop(), "the hook sees nothing"
    signal.signal(signal.SIGALRM, give_up)
    number = 0
    for formula in islice(formulas(nestings), 0, None, step):
        for target in ("1", r"\{1,2\}", formula):
            number += 1
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            with suppress(Exception):
                judge([[target, formula]])
            signal.setitimer(signal.ITIMER_REAL, 0)
    sys.stdout.write(f"{number} {compiled}\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
