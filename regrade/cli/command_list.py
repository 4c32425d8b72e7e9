"""The list of commands: of each its function, its line, group, examples and exit codes. It imports none of them."""

from collections.abc import Sequence
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
    function: str
    """Module below `regrade.cli`, and function."""
    line: str
    """First line of its help. The function's docstring is the full help and begins with it."""
    group: str
    """Title of its group in the help, such as `Get answers`. The groups stand there in the order of the list."""
    noun: str = ""
    """Noun under which it stands; "" for a command on the first page of the help."""
    runs_flow: bool = False
    """It runs a flow on a Prefect server, whose import begins before its own."""
    gives_verdict: bool = False
    """Its exit codes 1 and 2 are verdicts."""
    codes: str = "0 done, 1 failed, 2 bad usage or input, 130 interrupted, 143 stopped"
    """Its exit codes."""
    examples: tuple[str, ...] = ()
    """Examples without `regrade`, each of which the command accepts."""


COMMANDS = {
    command.name: command
    for command in (
        Command(
            "evaluate",
            "run:evaluate",
            "Evaluate a model: generate missing answers, publish, score and track them.",
            "Get answers",
            runs_flow=True,
            codes="0 done, and with `--baseline` the verdict is pass; 1 failed, or another verdict; 2 bad usage or input, 130 interrupted, 143 stopped",
            examples=(
                "evaluate --model org/model --benchmark gsm8k --limit 50",
                "evaluate --model run/checkpoint-* --benchmark gsm8k",
                "evaluate --model ./checkpoint-500 --benchmark mmlu --benchmark gsm8k --answers hf://datasets/ORG/NAME",
                "evaluate --model served --engine openai --base-url http://127.0.0.1:8000/v1 --benchmark gsm8k_chat",
                "evaluate --model org/model --benchmark mmlu --baseline baseline --max-drop 1 --stop-when-sure",
                "evaluate --config evaluation.yaml",
            ),
        ),
        Command(
            "generate",
            "run:generate",
            "Generate and publish missing answers, without scoring them.",
            "Get answers",
            noun="answers",
            runs_flow=True,
            examples=(
                "generate --model org/model --benchmark gsm8k --temperature 0.7 --repeats 8",
            ),
        ),
        Command(
            "plan",
            "plan:plan",
            "Plan a model's memory: the splits of GPUs that fit, and how many requests they hold.",
            "Get answers",
            noun="settings",
            codes="0 it fits, 1 nothing fits or failed, 2 bad usage or input, 130 interrupted, 143 stopped",
            examples=(
                "plan org/model --gpus 8 --gpu h100 --benchmark gsm8k_chat",
                "plan ./checkpoint --gpu-memory 24GiB --max-model-len 8192 --json",
            ),
        ),
        Command(
            "sweep",
            "sweep:sweep",
            "Evaluate at each point of a grid of settings: speed and accuracy, compared with the first point.",
            "Get answers",
            noun="settings",
            runs_flow=True,
            examples=(
                "sweep --model org/model --benchmark gsm8k --in-flight 1,4,16",
                "sweep --model org/model --benchmark mmlu --engine.max-num-batched-tokens 8192,16384 --n-shots 0,5",
                "sweep --model org/model --model org/other --benchmark gsm8k --engine.quantization default,fp8",
            ),
        ),
        Command(
            "tune",
            "tune:tune",
            "Find the fastest engine settings for a model, this machine and a kind of workload; the answers made are kept.",
            "Get answers",
            noun="settings",
            runs_flow=True,
            examples=(
                "tune --model org/model --benchmark gsm8k",
                "tune --model org/model --benchmark gsm8k --ttft-p99 2 --tpot-p99 0.05",
            ),
        ),
        Command(
            "import",
            "import_answers:import_answers",
            "Import answers that other tools generated.",
            "Get answers",
            noun="answers",
            examples=(
                "import results/ --answers ./answers",
                "import lm_eval_output/ --json",
            ),
        ),
        Command(
            "harness",
            "harness:harness",
            "Serve a model, run an external harness against it, and import its results.",
            "Get answers",
            noun="answers",
            runs_flow=True,
            examples=(
                "harness org/model --harness inspect --engine.tool-parser hermes -- inspect_evals/gaia --limit 20",
                "harness org/model --harness harbor -- --dataset terminal-bench@2.0 --agent terminus-2",
                "harness org/model -- my-agent --url {base_url} --model {model} --out {output}",
            ),
        ),
        Command(
            "publish",
            "publish:publish",
            "Publish answers that earlier runs on this machine left in the spool.",
            "Get answers",
            noun="answers",
            examples=("publish",),
        ),
        Command(
            "score",
            "run:score",
            "Score stored answers at one pinned commit, without a model.",
            "Grade and read",
            examples=(
                "score --scorer my_scorer.py:score",
                "score --stale",
                "score --answers hf://datasets/ORG/NAME --model org/model",
            ),
        ),
        Command(
            "judge",
            "judge:judge",
            "Let judge models grade stored answers, and keep their verdicts as answer sets of their own.",
            "Grade and read",
            noun="judges",
            runs_flow=True,
            examples=(
                "judge --judge org/judge-32b",
                "judge 1f0c6a2b --judge org/judge-32b --rubric accuracy_style --judge-repeats 3",
                "judge 1f0c6a2b --judge served --rubric pairwise --baseline baseline --engine openai --base-url http://127.0.0.1:8000/v1",
                "judge --judge org/judge-32b --self-test",
            ),
        ),
        Command(
            "label",
            "label:label",
            "Label answers by hand, and compare the verdicts of a judge or a scorer with the labels.",
            "Grade and read",
            noun="judges",
            examples=(
                "label 1f0c6a2b --sample 200 --out labels.csv",
                "label 1f0c6a2b --read labels.csv --rater ana",
            ),
        ),
        Command(
            "panel",
            "panel:show_panel",
            "Combine the verdicts of several judges on the same answers, and show how far they agree.",
            "Grade and read",
            noun="judges",
            examples=(
                "panel 1f0c6a2b",
                "panel 1f0c6a2b --without org/judge-32b",
            ),
        ),
        Command(
            "list",
            "list:list_answers",
            "List answer sets and their scores.",
            "Grade and read",
            examples=(
                "list",
                "list --model org/model --benchmark gsm8k --sort accuracy",
                "list --json",
            ),
        ),
        Command(
            "show",
            "show:show",
            "Show the answers of an answer set.",
            "Grade and read",
            examples=(
                "show org/model --wrong",
                "show 1f0c6a2b --verdict unparsed --truncated yes --page 2",
                "show 1f0c6a2b --search 'square root' --sort length --descending",
                "show 1f0c6a2b --baseline 77ab01cd --change worse",
            ),
        ),
        Command(
            "view",
            "view:view",
            "Read answers in a browser: filter, compare, see what the scorer read.",
            "Grade and read",
            examples=(
                "view",
                "view hf://datasets/ORG/NAME 1f0c6a2b",
            ),
        ),
        Command(
            "diff",
            "diff:diff",
            "Compare two scorings of the same answers, such as before and after a change of the scorer.",
            "Grade and read",
            examples=(
                "diff 1f0c6a2b",
                "diff 1f0c6a2b --baseline number@1 --to number",
            ),
        ),
        Command(
            "compare",
            "compare:compare",
            "Compare two models, or two answer sets, question by question.",
            "Compare and decide",
            examples=(
                "compare baseline org/model",
                "compare 1f0c6a2b 77ab01cd --examples 5",
            ),
        ),
        Command(
            "gate",
            "gate:gate",
            "Judge a candidate against the baseline: exit code 0 pass, 1 regression, 2 cannot tell.",
            "Compare and decide",
            gives_verdict=True,
            codes="0 pass, 1 regression, 2 cannot tell, 3 no verdict: bad usage, missing answers or a failure",
            examples=(
                "gate org/model --baseline baseline --max-drop 3",
                "gate org/model --max-drop 1 --max-drop-of gsm8k=3 --markdown verdict.md --junit verdict.xml",
            ),
        ),
        Command(
            "noise",
            "noise:noise",
            "Ask a model the same questions again, and measure what an unchanged model changes.",
            "Compare and decide",
            noun="settings",
            runs_flow=True,
            examples=(
                "noise org/model --benchmark gsm8k",
                "noise org/model --benchmark gsm8k --in-flight 1 --limit 200",
            ),
        ),
        Command(
            "promote",
            "promote:promote",
            "Make an answer set or a model the baseline.",
            "Compare and decide",
            examples=(
                "promote org/model",
                "promote 1f0c6a2b --alias release",
            ),
        ),
        Command(
            "replay",
            "replay:replay",
            "Read stored answers with another model, and say whether it is the same up to noise.",
            "Compare and decide",
            noun="answers",
            runs_flow=True,
            examples=(
                "replay 1f0c6a2b --model org/model-fp8",
                "replay 1f0c6a2b --engine.kv-cache-dtype fp8",
                "replay 1f0c6a2b --own-model run/checkpoint-500 --model run/checkpoint-500-awq --json",
            ),
        ),
        Command(
            "chart",
            "chart:chart",
            "Show models on accuracy over seconds, tokens or money per question, from stored answers.",
            "Compare and decide",
            noun="settings",
            examples=(
                "chart --benchmark gsm8k --image chart.svg",
                "chart --over money --gpu-hour 2.50",
                "chart --over money --token-price org/model=0.15,0.60",
            ),
        ),
        Command(
            "report",
            "report:report",
            "Write a report to hand on: one file with results, changes, plots and answers.",
            "Hand on",
            examples=(
                "report report.html",
                "report 1f0c6a2b report.md --baseline baseline",
            ),
        ),
        Command(
            "export",
            "export:export",
            "Write an answer set in the format of another tool, and print the files.",
            "Hand on",
            noun="answers",
            examples=(
                "export 1f0c6a2b exported/ --format every-eval-ever --organization 'My team'",
            ),
        ),
        Command(
            "publish-results",
            "publish_results:publish_results",
            "Write results into a model's repository on the Hub, for its page and the leaderboards.",
            "Hand on",
            noun="answers",
            examples=("publish-results org/model --pull-request",),
        ),
        Command(
            "verify",
            "verify:verify",
            "Check the integrity of an answer repository.",
            "Hand on",
            noun="answers",
            examples=(
                "verify",
                "verify 1f0c6a2b --answers hf://datasets/ORG/NAME",
            ),
        ),
        Command(
            "trigger",
            "trigger.command:trigger",
            "Start a deployment on the Prefect server at PREFECT_API_URL.",
            "Servers and CI",
            noun="server",
            gives_verdict=True,
            codes="0 started, or with --wait done and no regression; 1 regression; 2 cannot tell; 3 could not be run; 4 cancelled; 5 not in time",
            examples=(
                "trigger evaluate-model --model org/model --benchmark gsm8k --wait",
                "trigger evaluate-model --model org/model --benchmark gsm8k --wait --baseline baseline --max-drop 3",
            ),
        ),
        Command(
            "deploy",
            "deploy:deploy",
            "Create or update work pools and deployments on a Prefect server.",
            "Servers and CI",
            noun="server",
            examples=("deploy",),
        ),
        Command(
            "worker",
            "worker:worker",
            "Run the flow runs of a work pool on this machine.",
            "Servers and CI",
            noun="server",
            examples=("worker --pool gpu",),
        ),
        Command(
            "benchmarks",
            "installed:benchmarks",
            "List the benchmarks with their versions and sources, and the suites.",
            "This installation",
            examples=(
                "benchmarks",
                "benchmarks 'arc*' --lm-eval",
            ),
        ),
        Command(
            "scorers",
            "installed:scorers",
            "List the scorers with their versions and source hashes.",
            "This installation",
            examples=("scorers",),
        ),
        Command(
            "completion",
            "completion:completion",
            "Print or install the completion of a shell.",
            "This installation",
            examples=(
                "completion",
                "completion bash --install",
            ),
        ),
    )
}


def names_under(noun: str) -> tuple[str, ...]:
    """Return the commands under a noun."""
    return tuple(name for name, command in COMMANDS.items() if command.noun == noun)


def without_noun(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without a noun in front of one of its commands."""
    if len(arguments) > 1 and arguments[0] in NOUNS and arguments[1] in names_under(arguments[0]):
        return list(arguments[1:])
    return list(arguments)
