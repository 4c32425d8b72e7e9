"""`regrade evaluate` with real vLLM and a model in Mistral's own format."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.command_line import Ran, regrade
from tests.engines.vllm_process.test_chat import PARAMS, mistral_folder

pytestmark = [pytest.mark.vllm, pytest.mark.prefect, pytest.mark.slow, pytest.mark.timeout(600)]
QUESTIONS = 12


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    file = tmp_path / "sums.jsonl"
    rows = [{"question": f"What is {n} plus 3?", "answer": n + 3} for n in range(QUESTIONS)]
    file.write_text("\n".join(json.dumps(row) for row in rows))
    return file


def evaluate(model: Path, questions: Path, *options: str) -> Ran:
    dataset = {"name": "sums", "path": str(questions), "format": "chat", "scorer": "number"}
    named = [word for name, value in dataset.items() for word in (f"--dataset.{name}", value)]
    answers = questions.parent / "answers"
    command = ["--model", model, "--answers", answers, "--engine.enforce-eager", "--json"]
    return regrade("evaluate", *command, *named, *options, process=True)


def shown_rows(answer_set: str, folder: Path) -> list[dict[str, Any]]:
    shown = regrade("show", answer_set, "--answers", folder / "answers", "--json")
    rows: list[dict[str, Any]] = shown.document["answers"]
    return rows


def test_a_model_in_mistrals_own_format_answers_chats(questions: Path, tmp_path: Path):
    folder = tmp_path / "mistral"
    folder.mkdir()
    mistral_folder(folder, "tekken")
    random = np.random.default_rng(0)
    sizes = ("dim", "n_heads", "n_kv_heads", "hidden_dim", "head_dim")
    dim, heads, kv, hidden, head = (PARAMS[name] for name in sizes)
    shapes = {
        "tok_embeddings.weight": (PARAMS["vocab_size"], dim),
        "output.weight": (PARAMS["vocab_size"], dim),
        "layers.0.attention.wq.weight": (heads * head, dim),
        "layers.0.attention.wk.weight": (kv * head, dim),
        "layers.0.attention.wv.weight": (kv * head, dim),
        "layers.0.attention.wo.weight": (dim, heads * head),
        "layers.0.feed_forward.w1.weight": (hidden, dim),
        "layers.0.feed_forward.w2.weight": (dim, hidden),
        "layers.0.feed_forward.w3.weight": (hidden, dim),
    }
    weights = {name: random.normal(0, 0.05, shape) for name, shape in shapes.items()}
    norms = ("norm", "layers.0.attention_norm", "layers.0.ffn_norm")
    weights |= {f"{name}.weight": np.ones(dim) for name in norms}
    tensors = {name: tensor.astype(np.float32) for name, tensor in weights.items()}
    save_file(tensors, folder / "consolidated.safetensors")

    ran = evaluate(folder, questions, "--max-tokens", "8")

    assert ran.code == 0, ran.err
    (answers,) = ran.document["answer_sets"]
    assert (answers["rows"], answers["failed"], answers["refused"]) == (QUESTIONS, 0, 0)
    (row, *_) = shown_rows(answers["answer_set_id"], tmp_path)
    assert row["prompt"].startswith("<s>[INST]What is ")
    assert row["prompt"].endswith("plus 3?[/INST]")
