import re
from pathlib import Path

import pyarrow as pa
import pytest

from regrade.records.columns import GENERATION_SCHEMA, SCORING_SCHEMA

FORMAT = (Path(__file__).parents[2] / "docs" / "answer-format.md").read_text()
TYPES = {
    "string": pa.string(),
    "int32": pa.int32(),
    "bool": pa.bool_(),
    "float": pa.float32(),
    "double": pa.float64(),
}


def documented(heading: str) -> list[tuple[str, pa.DataType, bool]]:
    section = FORMAT.split(f"## {heading}")[1].split("\n## ")[0]
    columns = []
    for name, kind in re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.MULTILINE):
        words = kind.replace(", required", "").strip()
        scalar = TYPES[words.removeprefix("list of ")]
        of_type = pa.list_(pa.field("element", scalar)) if words.startswith("list of") else scalar
        columns.append((name, of_type, "required" not in kind))
    return columns


@pytest.mark.parametrize(
    ("heading", "schema"), [("Answers", GENERATION_SCHEMA), ("Scores", SCORING_SCHEMA)]
)
def test_the_columns_are_documented_one_by_one(heading: str, schema: pa.Schema):
    assert documented(heading) == [(field.name, field.type, field.nullable) for field in schema]
