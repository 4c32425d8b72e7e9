"""A reader written from docs/answer-format.md alone: it checks an answer folder without regrade."""

import hashlib
import json
import re
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

PAGE = Path(__file__).parents[2] / "docs" / "answer-format.md"
LEFT_OUT = json.loads(PAGE.read_text().partition("```json\n")[2].partition("```")[0])
PARTS = ("model", "benchmark", "prompt", "sampling")


def as_json(value: Any) -> str:
    if isinstance(value, dict):
        fields = [f"{as_json(name)}:{as_json(value[name])}" for name in sorted(value)]
        return "{" + ",".join(fields) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(as_json, value)) + "]"
    if isinstance(value, float):
        plain = 1e-5 <= abs(value) < 1e-4  # Python would write an exponent
        return format(Decimal(repr(value)), "f") if plain else repr(value).replace("e-0", "e-")
    return json.dumps(value, ensure_ascii=False)


def id_of(specification: dict[str, Any]) -> str:
    kept = {
        name: {k: v for k, v in value.items() if k not in LEFT_OUT[name] or v != LEFT_OUT[name][k]}
        if name in PARTS and isinstance(value, dict)
        else value
        for name, value in specification.items()
        if name in PARTS or name not in LEFT_OUT or value != LEFT_OUT[name]
    }
    hashed = specification if specification["specification_version"] == 1 else kept
    return hashlib.sha256(as_json(hashed).encode()).hexdigest()[:16]


def check(manifest_file: Path) -> list[str]:
    """Return what is wrong with an answer set: its id, its shards, and lost, doubled or uncounted rows."""
    manifest, folder = json.loads(manifest_file.read_text()), manifest_file.parent
    specification, problems, rows = manifest["specification"], [], []
    if not id_of(specification) == manifest["answer_set_id"] == folder.name:
        problems.append(f"id {id_of(specification)}")
    for shard in manifest["shards"]:
        content = (folder / shard["name"]).read_bytes()
        sha256 = hashlib.sha256(content).hexdigest()
        if (sha256, len(content)) != (shard["sha256"], shard["bytes"]):
            problems.append(f"content of {shard['name']}")
        if not re.fullmatch(rf"part-\d+-{sha256[:8]}\.parquet", shard["name"]):
            problems.append(f"name of {shard['name']}")
        rows += pq.read_table(folder / shard["name"]).to_pylist()
    keys = Counter((row["sample_id"], row["repeat"]) for row in rows)
    answered = len({(row["sample_id"], row["repeat"]) for row in rows if row["error"] is None})
    asked = manifest["n_samples"] * specification["repeats"]
    counts = {"lost": asked - answered, "doubled": keys.total() - len(keys)}
    if manifest["state"] == "complete":
        problems += [f"{count} {name}" for name, count in counts.items() if count]
    names = {shard["name"] for shard in manifest["shards"]}
    if {file.name for file in folder.iterdir()} != {"manifest.json", *names}:
        problems.append("other files")
    sessions = manifest["sessions"]
    counted = sum(session["rows"] for session in sessions) if sessions else len(rows)
    if not keys.total() == manifest["rows"] == counted:
        problems.append("counts of rows")
    return problems
