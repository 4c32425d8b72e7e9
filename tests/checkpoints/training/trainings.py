"""Short trainings of the demo model on the CPU, in this process or as a program of several ranks."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regrade.checkpoints import training
from regrade.checkpoints.training import evaluations
from regrade.checkpoints.training.checkpoints import Queue
from tests.command_line import DEMO

if TYPE_CHECKING:
    from transformers import Trainer, TrainerState, TrainingArguments

# Replaces `regrade evaluate --follow`: opens each model that comes, and prints lines of the same form. Half of its imports
# would be of the Hub's client, which no folder needs.
EVALUATE = """
import json, os, pathlib, sys, time, types
sys.modules["regrade.models.hub"] = types.SimpleNamespace(HubHead=None, hub_head=None)
from regrade.checkpoints import following
if found := {"RANK", "WORLD_SIZE", "MASTER_ADDR", "TORCHELASTIC_RUN_ID"} & set(os.environ):
    sys.exit(f"the evaluation got variables of the training's ranks: {found}")
def say(ended, **others):
    print(json.dumps({"model": str(model), "ended": ended, **others}), flush=True)
following.SETTLE = following.POLL = 0.02
options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
print("between:", options["--between"], file=sys.stderr)
for coming in following.Following([options["--model"]], float(options["--follow"])):
    model = pathlib.Path(coming.model)
    step = int(model.name.split("-")[1])
    say(False)
    print("started", file=sys.stderr, flush=True)
    time.sleep(float(os.environ.get("SECONDS", "0.2")))
    if os.environ.get("DIES") == str(step):
        sys.exit("the engine ended: out of memory")
    if "FAILS" in os.environ:
        say(True, error="out of memory")
        continue
    score = {"headline": True, "metrics": {"accuracy": step / 100}}
    say(True, answer_sets=[{"benchmark": "sums", "scores": [score]}])
print("no further checkpoints", file=sys.stderr)
"""
ACCURACY = "regrade/sums/accuracy"


def quick_command(words: Sequence[str]) -> tuple[str, ...]:
    """A command that takes the place of `regrade evaluate`."""
    return (sys.executable, "-c", EVALUATE, *words)


def arguments_in(output: Path, **arguments: Any) -> "TrainingArguments":
    from transformers import TrainingArguments

    return TrainingArguments(output_dir=str(output), use_cpu=True, **arguments)


def save(
    hook: "training.EvaluateCheckpoints",
    output: Path,
    *steps: int,
    begun: "TrainerState | None" = None,
    **arguments: Any,
) -> "TrainerState":
    """Call the hook like a training that begins in a state, saves checkpoints at these steps and ends; return its state then."""
    from transformers import TrainerControl, TrainerState

    chosen = arguments_in(output, **arguments)
    state, control = begun or TrainerState(), TrainerControl()
    hook.on_train_begin(chosen, state, control)
    for step in steps:
        state.global_step = step
        hook.on_save(chosen, state, control)
        hook.on_step_end(chosen, state, control)
    hook.on_train_end(chosen, state, control)
    return state


def train(
    home: Path, hook: "training.EvaluateCheckpoints", *, resume: bool = False, **arguments: Any
) -> "Trainer":
    """Train for a few steps in `home/tiny-run`, with a checkpoint at each step."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer

    tokenizer = AutoTokenizer.from_pretrained(DEMO / "regrade-demo")
    model = AutoModelForCausalLM.from_pretrained(DEMO / "regrade-demo", dtype=torch.float32)
    ids = tokenizer("Ann has 3 apples and buys 4 more.")["input_ids"]
    given = {"max_steps": 4, "save_steps": 1, "logging_steps": 1, "report_to": "none", **arguments}
    trainer = Trainer(
        model=model,
        args=arguments_in(home / "tiny-run", disable_tqdm=True, **given),
        train_dataset=[{"input_ids": ids, "labels": ids}] * 8,
        processing_class=tokenizer,
    )
    hook.attach(trainer)
    trainer.train(resume_from_checkpoint=resume or None)
    return trainer


def keep(checkpoint: Path) -> Path:
    """Put a checkpoint into the queue, and return its place there."""
    queue = Queue(checkpoint.parent)
    assert queue.put(checkpoint) is None
    return queue.folder / checkpoint.name


def history(trainer: "Trainer") -> dict[int, float]:
    found = trainer.state.log_history
    return {logs["step"]: logs[ACCURACY] for logs in found if ACCURACY in logs}


if __name__ == "__main__":
    home, wait = Path(sys.argv[1]), sys.argv[2] == "True"
    evaluations.evaluation_command = quick_command
    hook = training.EvaluateCheckpoints(["gsm8k"], wait=wait, stop_on_failure=True)
    trained = train(home, hook, max_steps=2, save_total_limit=1, ddp_backend="gloo")
    rank = trained.args.process_index
    (home / f"history-{rank}.json").write_text(json.dumps(history(trained)))
