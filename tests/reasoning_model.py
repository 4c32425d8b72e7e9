"""A model that opens a thought before its answers, made of the demo model: real vLLM runs it."""

import json
import shutil
from pathlib import Path

THOUGHT = ("<think>", "</think>")
TEMPLATE = (
    "{%- for turn in messages -%}{{ '<|im_start|>' ~ turn.role ~ '\\n' ~ turn.content ~ '<|im_end|>\\n' }}"
    "{%- endfor -%}{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n<think>\\n' }}"
    "{%- if enable_thinking is defined and not enable_thinking -%}{{ '\\n</think>\\n\\n' }}{%- endif -%}{%- endif -%}"
)


def reasoning_model(demo_model: Path, folder: Path, **generation_config: object) -> Path:
    """Copy the demo model; its two rarest tokens become the marks of a thought.

    Args:
        demo_model: Folder of the demo model.
        folder: Folder to make.
        generation_config: Values for `generation_config.json`.
    """
    shutil.copytree(demo_model, folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    rarest = sorted(vocabulary, key=vocabulary.__getitem__)[-len(THOUGHT) :]
    merges = tokenizer["model"]["merges"]
    tokenizer["model"]["merges"] = [pair for pair in merges if "".join(pair) not in rarest]
    for old, new in zip(rarest, THOUGHT, strict=True):
        vocabulary[new] = vocabulary.pop(old)
        tokenizer["added_tokens"].append(
            {
                **tokenizer["added_tokens"][0],
                "id": vocabulary[new],
                "content": new,
                "special": False,
            }
        )
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    stored = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps({**stored, **generation_config}))
    return folder
