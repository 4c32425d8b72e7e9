"""LoRA adapters of the demo model, made by hand: the files that PEFT's `save_pretrained` writes."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

RANK, ALPHA = 4, 8
TARGETS = ("q_proj", "v_proj", "o_proj", "gate_proj", "down_proj")


def write_config(folder: Path, layers: Sequence[str] = ("up_proj",), **changes: Any) -> Path:
    """Write an adapter that no test loads into a new folder.

    Args:
        folder: New folder of the adapter.
        layers: Last parts of the names of its layers.
        changes: Values of `adapter_config.json`.
    """
    folder.mkdir(parents=True)
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "org/model",
        "r": RANK,
        "lora_alpha": ALPHA,
        "target_modules": list(TARGETS),
        "bias": "none",
        "modules_to_save": None,
    }
    (folder / "adapter_config.json").write_text(json.dumps(config | changes))
    names = [f"base_model.model.model.layers.0.mlp.{name}.lora_A.weight" for name in layers]
    save_file(
        {name: np.zeros(1, np.float32) for name in names}, folder / "adapter_model.safetensors"
    )
    return folder


def write_adapter(
    folder: Path, model: Path, *, scale: float = 0.05, prefix: str = "base_model.model."
) -> Path:
    """Write an adapter of random matrices.

    Args:
        folder: New folder of the adapter.
        model: Folder of the base model.
        scale: Standard deviation of the matrices B; with 0 the adapter changes nothing.
        prefix: Start of the names of all matrices.
    """
    random = np.random.default_rng(0)
    matrices = {}
    for name, (rows, columns) in _layers(model).items():
        a, b = random.normal(size=(RANK, columns)), random.normal(size=(rows, RANK))
        matrices[f"{prefix}{name}.lora_A.weight"] = (a / columns**0.5).astype(np.float32)
        matrices[f"{prefix}{name}.lora_B.weight"] = (b * scale).astype(np.float32)
    write_config(folder, base_model_name_or_path=model.name)
    save_file(matrices, folder / "adapter_model.safetensors")
    return folder


def write_merged(folder: Path, model: Path, adapter: Path) -> Path:
    """Write the model with the adapter added to its weights, in float32."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(model, folder)
    config = json.loads((model / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "float32"}))
    matrices = load_file(adapter / "adapter_model.safetensors")
    weights = {
        name: weight.float() for name, weight in load_file(model / "model.safetensors").items()
    }
    for name in _layers(model):
        a, b = (matrices[f"base_model.model.{name}.lora_{part}.weight"] for part in "AB")
        weights[f"{name}.weight"] += b @ a * (ALPHA / RANK)
    save_file(weights, folder / "model.safetensors")
    return folder


def _layers(model: Path) -> dict[str, tuple[int, int]]:
    """Shapes of the adapted layers, by name."""
    with safe_open(model / "model.safetensors", "np") as weights:
        return {
            name: tuple(weights.get_slice(full).get_shape())
            for full in weights.keys()
            if (name := full.removesuffix(".weight")).endswith(TARGETS)
        }
