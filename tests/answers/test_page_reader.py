"""docs/answer-format.md suffices to read answers and to check their ids, without regrade."""

from pathlib import Path
from typing import Any

import pytest

from regrade.answers.local import LocalRepository
from regrade.records.specification import AdapterIdentity
from regrade.settings import SamplingParams
from tests.answers.conftest import add
from tests.answers.page_reader import check, id_of
from tests.builders import description, row, specification
from tests.command_line import ROOT

FROZEN = sorted((ROOT / "tests" / "frozen").glob("*/*/answers/*/*/*/manifest.json"))
MODEL = specification().model
CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"repeats": 2, "engine": {"dtype": "float16", "hf_overrides": {"ü\n": [1, 0.5, None, True]}}},
    {"sampling": SamplingParams(min_p=0.0000125, top_p=1e-7, temperature=1, stop=("\x1b", "end"))},
    {"engine": {"rope": {"theta": 1.5e16, "base": 1e6, "small": 0.00001, "exact": 1e15}}},
    {"sampling": None},
    {"specification_version": 1, "engine": {}},
    {"model": MODEL.model_copy(update={"adapter": AdapterIdentity(name="a", revision="1")})},
    {"model": MODEL.model_copy(update={"quantization": "fp8"})},
    {
        "benchmark": specification().benchmark.model_copy(
            update={"limit": 0, "parameters": {"a": 1}}
        )
    },
    {"prompt": specification().prompt.model_copy(update={"truncate": True, "labels": "turn"})},
)


def test_the_reader_knows_nothing_of_regrade():
    lines = (ROOT / "tests" / "answers" / "page_reader.py").read_text().splitlines()
    assert not [
        line for line in lines if "import" in line and "regrade" in line and ":" not in line
    ]
    assert len([line for line in lines if line.strip()]) <= 60


@pytest.mark.parametrize("manifest", FROZEN, ids=lambda path: "/".join(path.parts[-7:-4]))
def test_a_reader_of_the_page_checks_frozen_answers(manifest: Path):
    assert check(manifest) == []


def test_a_reader_of_the_page_checks_fresh_answers_and_sees_what_is_wrong(tmp_path: Path):
    repository = LocalRepository(tmp_path / "answers")
    add(repository, tmp_path / "spool" / "set", description(4), [row(n) for n in range(4)])
    (manifest,) = repository.folder.glob("answers/*/*/*/manifest.json")
    assert check(manifest) == []
    stored = manifest.read_text()
    manifest.write_text(stored.replace('"limit": null', '"limit": 3'))
    assert check(manifest)
    manifest.write_text(stored.replace('"n_samples": 4', '"n_samples": 5'))
    assert check(manifest) == ["1 lost"]
    manifest.write_text(stored)
    (shard,) = manifest.parent.glob("*.parquet")
    shard.rename(shard.with_name("part-00000-00000000.parquet"))
    manifest.write_text(stored.replace(shard.name, "part-00000-00000000.parquet"))
    assert check(manifest) == ["name of part-00000-00000000.parquet"]


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_a_reader_of_the_page_finds_the_id_of_every_kind_of_specification(changes: dict[str, Any]):
    changed = specification().model_copy(update=changes)
    assert id_of(changed.model_dump(mode="json")) == changed.answer_set_id


def test_small_and_large_numbers_are_spelled_as_ever_in_ids():
    changed = specification(engine={"rope": [1.5e16, 1e15, 1e6, 0.0000125, 1e-7]})
    assert changed.answer_set_id == "7fd081edfcf6295b"
