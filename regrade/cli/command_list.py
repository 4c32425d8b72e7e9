"""The list of commands: of each its function, its line, group, examples and exit codes. It imports none of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

NOUNS = {
    "answers": "Generate, import, publish, check and hand on answers.",
    "judges": "Let models grade answers, combine their verdicts, and compare them with people's labels.",
    "settings": "Find settings that fit a machine, and what they cost and change.",
    "server": "Run evaluations on a Prefect server and its workers.",
}
"""Nouns under which the commands stand that are not for every day (`regrade answers import` is `regrade import`), and their lines."""


class Command(NamedTuple):
    """A command, as the help shows it."""

    name: str
    implementation: str = ""
    """Module below `regrade.cli`, and function, if their names are not that of the command."""
    noun: str = ""
    """Noun under which it stands; "" for a command on the first page of the help."""
    runs_flow: bool = False
    """It runs a flow on a Prefect server, whose import begins before its own."""
    gives_verdict: bool = False
    """Its exit codes 1 and 2 are verdicts."""
    codes: str = "0 done, 1 failed, 2 bad usage or input, 130 interrupted, 143 stopped"
    """Its exit codes."""

    @property
    def function(self) -> str:
        """Module below `regrade.cli`, and function."""
        usual = self.name.replace("-", "_")
        return self.implementation or f"{usual}:{usual}"

    @property
    def examples(self) -> tuple[str, ...]:
        """Examples without `regrade`. A short `--help` has the options of the first."""
        return tuple(line for line in EXAMPLES.splitlines() if line.split()[0] == self.name)

    @property
    def line(self) -> str:
        """First line of its help: that of the function's docstring, read without importing the module."""
        module, _, function = self.function.partition(":")
        code = (Path(__file__).parent / f"{module.replace('.', '/')}.py").read_text("utf-8")
        _, _, docstring = code.partition(f"\ndef {function}(")[2].partition('"""')
        return docstring.partition("\n")[0].partition('"""')[0]


GROUPS = {
    "Get answers": (
        Command(
            "evaluate",
            "run:evaluate",
            runs_flow=True,
            codes="0 done, and with `--baseline` the verdict is pass; 1 failed, or another verdict; 2 bad usage or input, 130 interrupted, 143 stopped",
        ),
        Command("generate", "run:generate", noun="answers", runs_flow=True),
        Command(
            "plan",
            noun="settings",
            codes="0 it fits, 1 nothing fits or failed, 2 bad usage or input, 130 interrupted, 143 stopped",
        ),
        Command("sweep", noun="settings", runs_flow=True),
        Command("tune", noun="settings", runs_flow=True),
        Command("import", "import_answers:import_answers", noun="answers"),
        Command("harness", noun="answers", runs_flow=True),
        Command("publish", noun="answers"),
    ),
    "Grade and read": (
        Command("score", "run:score"),
        Command("judge", noun="judges", runs_flow=True),
        Command("label", noun="judges"),
        Command("panel", "panel:show_panel", noun="judges"),
        Command("list", "list:list_answers"),
        Command("show"),
        Command("view"),
        Command("diff"),
    ),
    "Compare and decide": (
        Command("compare"),
        Command(
            "gate",
            gives_verdict=True,
            codes="0 pass, 1 regression, 2 cannot tell, 3 no verdict: bad usage, missing answers or a failure",
        ),
        Command("noise", noun="settings", runs_flow=True),
        Command("promote"),
        Command("replay", noun="answers", runs_flow=True),
        Command("chart", noun="settings"),
    ),
    "Hand on": (
        Command("report"),
        Command("export", noun="answers"),
        Command("publish-results", noun="answers"),
        Command("verify", noun="answers"),
    ),
    "Servers and CI": (
        Command(
            "trigger",
            "trigger.command:trigger",
            noun="server",
            gives_verdict=True,
            codes="0 started, or with --wait done and no regression; 1 regression; 2 cannot tell; 3 could not be run; 4 cancelled; 5 not in time",
        ),
        Command("deploy", noun="server"),
        Command("worker", noun="server"),
    ),
    "This installation": (
        Command("benchmarks", "installed:benchmarks"),
        Command("scorers", "installed:scorers"),
        Command("completion"),
    ),
}
"""Commands by the title of their group in the help, such as `Get answers`."""
EXAMPLES = """\
evaluate --model org/model --benchmark gsm8k --limit 50
evaluate --model org/model --benchmark mmlu --temperature 0.7 --repeats 4
evaluate --model served --engine openai --base-url http://127.0.0.1:8000/v1 --benchmark gsm8k_chat
evaluate --model run/checkpoint-* --benchmark gsm8k
evaluate --model ./checkpoint-500 --benchmark mmlu --benchmark gsm8k --answers hf://datasets/ORG/NAME
evaluate --model org/model --benchmark mmlu --baseline baseline --max-drop 1 --stop-when-sure
evaluate --config evaluation.yaml
generate --model org/model --benchmark gsm8k --temperature 0.7 --repeats 8
generate --model org/model --benchmark mmlu --limit 50 --max-tokens 2048
plan org/model --gpus 8 --gpu h100 --benchmark gsm8k_chat
plan ./checkpoint --gpu-memory 24GiB --max-model-len 8192 --json
sweep --model org/model --benchmark gsm8k --in-flight 1,4,16
sweep --model org/model --model org/other --benchmark gsm8k --engine.quantization default,fp8
tune --model org/model --benchmark gsm8k
tune --model org/model --benchmark gsm8k --limit 200 --max-tokens 512 --ttft-p99 2 --tpot-p99 0.05
import results/ --answers ./answers
import lm_eval_output/ --format lm-eval --scorer number --strict --json
harness org/model --harness inspect --engine.tool-parser hermes -- inspect_evals/gaia --limit 20
harness org/model --harness harbor -- --dataset terminal-bench@2.0 --agent terminus-2
harness org/model -- my-agent --url {base_url} --model {model} --out {output}
publish
score --scorer my_scorer.py:score
score --stale
score --answer-set 1f0c6a2b --force
score --benchmark gsm8k --since 2026-09-01
score --answers hf://datasets/ORG/NAME --model org/model
judge --judge org/judge-32b
judge 1f0c6a2b --judge org/judge-32b --rubric accuracy_style --judge-repeats 3
judge 1f0c6a2b --judge served --rubric pairwise --baseline baseline --engine openai --base-url http://127.0.0.1:8000/v1
judge --judge org/judge-32b --self-test
label 1f0c6a2b --sample 200 --out labels.csv
label 1f0c6a2b --read labels.csv --rater ana
label 1f0c6a2b --report
panel 1f0c6a2b
panel 1f0c6a2b --without org/judge-32b
list
list --model org/model --benchmark gsm8k --sort accuracy
list --json
show org/model --wrong
show 1f0c6a2b --verdict unparsed --truncated yes --page 2
show 1f0c6a2b --search 'square root' --sort length --descending
show 1f0c6a2b --baseline 77ab01cd --change worse
view
view hf://datasets/ORG/NAME 1f0c6a2b
diff 1f0c6a2b
diff 1f0c6a2b --baseline number@1 --to number
compare baseline org/model
compare 1f0c6a2b 77ab01cd --examples 5 --allow sampling --markdown comparison.md
gate org/model --baseline baseline --max-drop 3
gate org/model --max-drop 1 --max-drop-of gsm8k=3 --max-unparsed 2 --markdown verdict.md --junit verdict.xml
noise org/model --benchmark gsm8k
noise org/model --benchmark gsm8k --in-flight 1 --limit 200
promote org/model
promote 1f0c6a2b --alias release
replay 1f0c6a2b --model org/model-fp8
replay 1f0c6a2b --limit 200 --engine.kv-cache-dtype fp8
replay 1f0c6a2b --own-model run/checkpoint-500 --model run/checkpoint-500-awq --json
chart --benchmark gsm8k --image chart.svg
chart --over money --gpu-hour 2.50
chart --over money --token-price org/model=0.15,0.60
report report.html
report 1f0c6a2b report.md --baseline baseline
export 1f0c6a2b exported/ --format every-eval-ever --organization 'My team'
publish-results org/model --pull-request
verify
verify 1f0c6a2b --answers hf://datasets/ORG/NAME
trigger evaluate-model --model org/model --benchmark gsm8k --wait
trigger evaluate-model --model org/model --benchmark gsm8k --wait --baseline baseline --max-drop 3 --junit verdict.xml
deploy
worker --pool gpu
benchmarks
benchmarks 'arc*' --lm-eval
scorers
completion
completion bash --install
"""
"""An example in each line, which its command accepts."""
COMMANDS = {command.name: command for commands in GROUPS.values() for command in commands}


def names_under(noun: str) -> tuple[str, ...]:
    """Return the commands under a noun."""
    return tuple(name for name, command in COMMANDS.items() if command.noun == noun)


def without_noun(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without a noun in front of one of its commands."""
    if len(arguments) > 1 and arguments[0] in NOUNS and arguments[1] in names_under(arguments[0]):
        return list(arguments[1:])
    return list(arguments)
