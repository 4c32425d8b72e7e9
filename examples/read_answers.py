"""Read answers of an answer repository without regrade: `read("answers", "gsm8k")`, or `read("hf://datasets/ORG/NAME", "gsm8k")`."""

import json

from datasets import Dataset, Features, concatenate_datasets, load_dataset
from fsspec.core import url_to_fs
from pyarrow.parquet import read_schema


def read(repository: str, benchmark: str) -> Dataset:
    """Return all answers to a benchmark, with their model and answer set, whatever version of the format wrote them."""
    files, root = url_to_fs(repository)
    found = []
    for path in files.glob(f"{root}/answers/{benchmark}/*/*/manifest.json"):
        folder, model, answer_set = path.rpartition("/")[0], *path.split("/")[-3:-1]
        with files.open(path) as manifest:
            shards = [shard["name"] for shard in json.load(manifest)["shards"]]
        with files.open(f"{folder}/{max(shards)}") as newest:
            features = Features.from_arrow_schema(read_schema(newest))
        parts = [f"{repository}/answers/{benchmark}/{model}/{answer_set}/{name}" for name in shards]
        rows = load_dataset("parquet", data_files=parts, features=features, split="train")
        rows = rows.add_column("model", [model] * len(rows))
        found.append(rows.add_column("answer_set_id", [answer_set] * len(rows)))
    return concatenate_datasets(found)
