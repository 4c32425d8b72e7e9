"""Groups of the commands, their examples, and their exit codes, as the help shows them."""

import re
from typing import TYPE_CHECKING

from cyclopts import Group
from cyclopts.help import DefaultFormatter

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

VERDICTS = ("gate", "trigger")
"""Commands whose exit codes 1 and 2 are verdicts."""
GROUPS: dict[str, tuple[str, ...]] = {
    "Get answers": ("evaluate", "generate", "plan", "sweep", "tune", "import", "publish"),
    "Grade and read": ("score", "judge", "label", "panel", "list", "show", "view", "diff"),
    "Compare and decide": ("compare", "gate", "promote", "chart"),
    "Hand on": ("report", "export", "publish-results", "verify"),
    "Servers and CI": ("trigger", "deploy", "worker"),
    "This installation": ("benchmarks", "scorers", "completion"),
}
"""Commands by what people do, in the order of the help. Names of commands that do not exist are left out."""
OTHER = Group("Other", sort_key=len(GROUPS))
"""Group of `--help`, `--version`, and of commands that `GROUPS` lacks."""
EXAMPLES: dict[str, tuple[str, ...]] = {
    "evaluate": (
        "evaluate --model org/model --benchmark gsm8k --limit 50",
        "evaluate --model ./checkpoint-500 --benchmark mmlu --benchmark gsm8k --answers hf://datasets/ORG/NAME",
        "evaluate --model served --engine openai --base-url http://127.0.0.1:8000/v1 --benchmark gsm8k_chat",
        "evaluate --config evaluation.yaml",
    ),
    "generate": ("generate --model org/model --benchmark gsm8k --temperature 0.7 --repeats 8",),
    "plan": (
        "plan org/model --gpus 8 --gpu h100 --benchmark gsm8k_chat",
        "plan ./checkpoint --gpu-memory 24GiB --max-model-len 8192 --json",
    ),
    "sweep": (
        "sweep --model org/model --benchmark gsm8k --in-flight 1,4,16",
        "sweep --model org/model --benchmark mmlu --engine.max-num-batched-tokens 8192,16384 --n-shots 0,5",
        "sweep --model org/model --model org/other --benchmark gsm8k --engine.quantization default,fp8",
    ),
    "tune": (
        "tune --model org/model --benchmark gsm8k",
        "tune --model org/model --benchmark gsm8k --ttft-p99 2 --tpot-p99 0.05",
    ),
    "chart": (
        "chart --benchmark gsm8k --image chart.svg",
        "chart --over money --gpu-hour 2.50",
        "chart --over money --token-price org/model=0.15,0.60",
    ),
    "report": ("report report.html", "report 1f0c6a2b report.md --base baseline"),
    "export": ("export 1f0c6a2b exported/ --format every-eval-ever",),
    "publish-results": ("publish-results org/model --pull-request",),
    "score": (
        "score --stale",
        "score --answers hf://datasets/ORG/NAME --model org/model",
        "score --answer-set 1f0c6a2b --scorer my_scorer.py:score",
    ),
    "judge": (
        "judge --judge org/judge-32b",
        "judge 1f0c6a2b --judge org/judge-32b --rubric accuracy_style --judge-repeats 3",
        "judge org/model --judge served --rubric pairwise --baseline baseline --engine openai --base-url http://127.0.0.1:8000/v1",
        "judge --judge org/judge-32b --self-test",
    ),
    "panel": ("panel 1f0c6a2b", "panel 1f0c6a2b --without org/judge-32b"),
    "label": (
        "label 1f0c6a2b --sample 200 --out labels.csv",
        "label 1f0c6a2b --read labels.csv --rater ana",
    ),
    "deploy": ("deploy",),
    "worker": ("worker --pool gpu",),
    "trigger": (
        "trigger evaluate-model --model org/model --benchmark gsm8k --wait",
        "trigger evaluate-model --model org/model --benchmark gsm8k --wait --baseline baseline --max-drop 1",
    ),
    "publish": ("publish",),
    "import": ("import results/ --answers ./answers", "import lm_eval_output/ --json"),
    "list": (
        "list",
        "list --model org/model --benchmark gsm8k --sort accuracy",
        "list --json",
    ),
    "diff": ("diff 1f0c6a2b", "diff 1f0c6a2b --from number@1 --to number"),
    "compare": ("compare baseline org/model", "compare 1f0c6a2b 77ab01cd --examples 5"),
    "gate": (
        "gate org/model --baseline baseline --max-drop 1",
        "gate org/model --max-drop-of gsm8k=0.5 --markdown verdict.md --junit verdict.xml",
    ),
    "promote": ("promote org/model", "promote 1f0c6a2b --alias release"),
    "verify": ("verify", "verify 1f0c6a2b --answers hf://datasets/ORG/NAME"),
    "show": (
        "show 1f0c6a2b --wrong",
        "show 1f0c6a2b --verdict unparsed --truncated yes --page 2",
        "show 1f0c6a2b --search 'square root' --sort length --descending",
        "show 1f0c6a2b --against 77ab01cd --change worse",
    ),
    "view": ("view", "view hf://datasets/ORG/NAME 1f0c6a2b"),
    "benchmarks": ("benchmarks", "benchmarks 'arc*' --lm-eval"),
    "scorers": ("scorers",),
    "completion": ("completion", "completion bash --install"),
}
"""Command -> examples, without `regrade`. Each is one that the command accepts."""
_CODES = {
    "gate": "0 pass, 1 regression, 2 cannot tell, 3 no verdict: bad usage, missing answers or a failure",
    "trigger": "0 started, or with --wait done and no regression; 1 regression; 2 cannot tell; 3 could not be run; "
    "4 cancelled; 5 not in time",
    "plan": "0 it fits, 1 nothing fits or failed, 2 bad usage or input, 130 interrupted, 143 stopped",
}
_USUAL = "0 done, 1 failed, 2 bad usage or input, 130 interrupted, 143 stopped"


_GROUPS = {
    command: group
    for number, (title, commands) in enumerate(GROUPS.items())
    for group in [Group(title, sort_key=number)]
    for command in commands
}


def group_of(command: str) -> Group:
    """Return the group of a command in the help."""
    return _GROUPS.get(command, OTHER)


class PlainWords(DefaultFormatter):
    """Help with words for the values of options in place of Python's types: `--model TEXT`, `--limit NUMBER`."""

    def __call__(self, console: "Console", options: "ConsoleOptions", panel: "HelpPanel") -> None:
        """Show a panel of options."""
        entries = [
            entry.copy(metavar=entry.metavar and in_words(entry.metavar)) for entry in panel.entries
        ]
        super().__call__(console, options, panel.copy(entries=entries))

    def render_usage(self, console: "Console", options: "ConsoleOptions", usage: object) -> None:
        """Show the line that begins with `Usage:`."""
        super().render_usage(console, options, usage and in_words(str(usage)))


def in_words(types: str) -> str:
    """Return a text with words for the types."""
    return re.sub(r"\b(?:INT|FLOAT)\b", "NUMBER", re.sub(r"\bSTR\b", "TEXT", types))


def epilogue(command: str) -> str:
    """Return the end of a command's help as markdown: examples and exit codes; of all commands for an empty name."""
    lines = [f"- `regrade {example}`" for example in EXAMPLES.get(command, ())]
    examples = ["Examples:", "", *lines, ""] if lines else []
    if not command:
        examples = ["`regrade COMMAND --help` shows the options of a command, with examples.", ""]
    codes = _CODES.get(command, _USUAL)
    more = "" if command else f" ({' and '.join(VERDICTS)} have others)"
    return "\n".join([*examples, f"Exit codes: {codes}{more}."])
