"""Tasks of lm_eval that show images: prompts in its order of texts and images, scores by the task's own code."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import datasets
import PIL.Image
import pytest

from regrade.answers.local import LocalRepository
from regrade.benchmarks import open_benchmark
from regrade.lm_eval.index import TaskEntry, entries_of
from regrade.lm_eval.opened import open_dataset_task
from regrade.lm_eval.package import tasks_folder
from regrade.lm_eval.plan import plan_tasks
from regrade.records.messages import parts_of
from regrade.scoring.score import score_answers
from regrade.settings import PromptSettings
from regrade.settings.errors import SettingsError
from tests.lm_eval.stored import harness_task, publish_task
from tests.pictures import file_of

pytestmark = pytest.mark.usefixtures("indexed")
CHARTQA, MMMU = "chartqa", "mmmu_val_art"
RED, BLUE = file_of("PNG"), file_of("JPEG", "blue")


@pytest.fixture(scope="module")
def index() -> Mapping[str, TaskEntry]:
    folders = ("chartqa", "mmmu", "pisa", "common_voice")
    return {e.name: e for folder in folders for e in entries_of(tasks_folder() / folder)}


def stored_file(content: bytes) -> dict[str, Any]:
    return {"bytes": content, "path": None}


def write(path: Path, rows: list[dict[str, Any]], *columns: str) -> Path:
    """Write a split whose columns of images `datasets` decodes."""
    table = datasets.Dataset.from_list(rows)
    for column in columns:
        table = table.cast_column(column, datasets.Image())
    table.to_parquet(path)
    return path.parent


def chartqa(folder: Path, *files: bytes) -> Path:
    rows = [
        {"image": stored_file(file), "query": f"How high is bar {n}?", "label": [str(n)]}
        for n, file in enumerate(files or (RED, BLUE))
    ]
    return write(folder / "test.parquet", rows, "image")


def mmmu(folder: Path) -> Path:
    """Two images in one question, one of them twice; choices; a question that is open; and a place without an image."""
    asked = [
        ("multiple-choice", "<image 2> beside <image 1>?", "['<image 1>', 'blue']", "B"),
        ("open", "Which colour has <image 1>?", "[]", "['red']"),
        ("multiple-choice", "No picture?", "['yes', 'no']", "A"),
    ]
    columns = ("question_type", "question", "options", "answer")
    places = [f"image_{n}" for n in range(1, 8)]
    images = dict.fromkeys(places) | {"image_1": stored_file(RED), "image_2": stored_file(BLUE)}
    rows = [
        {"id": f"validation_Art_{n}", **dict(zip(columns, one, strict=True)), **images}
        for n, one in enumerate(asked)
    ]
    return write(folder / "validation.parquet", rows, *places)


def shown(benchmark: Any, number: int) -> list[str | bytes]:
    """The only message of a prompt: texts, and the bytes of images."""
    sample = benchmark.samples()[number]
    [message] = benchmark.prompt(sample)
    images = {image.sha256: image.content for image in sample.images}
    parts = parts_of(message["content"], images)
    return [part.text if part.sha256 is None else images[part.sha256] for part in parts]


def test_images_stand_where_the_task_has_them_with_the_bytes_of_the_dataset(tmp_path: Path) -> None:
    charts = harness_task(f"{CHARTQA}@chat", chartqa(tmp_path))

    for number, file in enumerate((RED, BLUE)):
        image, text = shown(charts, number)
        assert image == file
        assert isinstance(text, str)
        assert text.startswith(f"How high is bar {number}?\nAnalyze the image")


def test_an_image_may_be_shown_twice_and_among_the_choices(tmp_path: Path) -> None:
    art = harness_task(f"{MMMU}@chat", mmmu(tmp_path))

    end = "\n(B) blue\n\nAnswer with the option's letter from the given choices directly."
    assert shown(art, 0) == [BLUE, " beside ", RED, "?\n\n(A) ", RED, end]
    assert [len(sample.images) for sample in art.samples()] == [2, 1, 0]
    assert shown(art, 2) == [
        "No picture?\n\n(A) yes\n(B) no\n\nAnswer with the option's letter from the given choices directly."
    ]
    document = json.loads(str(art.samples()[1].doc))
    assert document["image_1"].startswith("<image:")
    assert document["image_3"] is None


@pytest.mark.parametrize(
    ("task", "texts"),
    [
        (CHARTQA, ["It is 0.\nFinal Answer: 0", "FINAL ANSWER: 7"]),
        (MMMU, ["I say (B).", "It is red", "B"]),
    ],
)
def test_stored_answers_get_the_values_of_the_tasks_own_code(
    task: str, texts: list[str], tmp_path: Path
) -> None:
    folder = (chartqa if task == CHARTQA else mmmu)(tmp_path)
    benchmark = harness_task(f"{task}@chat", folder)
    repository = LocalRepository(tmp_path / "answers")
    answers = publish_task(
        benchmark, repository, tmp_path, lambda row: {"text": texts[row["index"]]}
    )
    assert answers is not None

    scored = score_answers(answers, "lm_eval")

    [config] = plan_tasks(task, {**benchmark._index}).configs.values()  # type: ignore[attr-defined]
    original = open_dataset_task(config, benchmark._data.splits)  # type: ignore[attr-defined]
    documents = [document for _, document in original.doc_iterator()]
    values = [original.process_results(d, [text]) for d, text in zip(documents, texts, strict=True)]
    found = {row["sample_id"]: json.loads(row["metrics"]) for row in scored.table.to_pylist()}
    for sample, value in zip(benchmark.samples(), values, strict=True):
        theirs = {f"{name},none": float(one) for name, one in value.items()}
        assert {name: found[sample.id][name] for name in theirs} == theirs
    assert {value for given in values for value in given.values()} == {0.0, 1.0}


def test_a_format_that_no_model_gets_is_sent_as_png_with_its_pixels(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    PIL.Image.new("CMYK", (4, 3), (10, 20, 30, 0)).save(buffer, "TIFF")

    content, _ = shown(harness_task(f"{CHARTQA}@chat", chartqa(tmp_path, buffer.getvalue())), 0)

    assert isinstance(content, bytes)
    with PIL.Image.open(io.BytesIO(content)) as sent, PIL.Image.open(buffer) as original:
        assert (sent.format, sent.tobytes()) == ("PNG", original.convert("RGB").tobytes())


def test_a_place_without_an_image_fails_its_question_alone(tmp_path: Path) -> None:
    rows = [
        {"image": stored_file(RED), "query": query, "label": ["1"]}
        for query in ("<image> or", "What")
    ]
    charts = harness_task(f"{CHARTQA}@chat", write(tmp_path / "test.parquet", rows, "image"))

    errors = [sample.error for sample in charts.samples()]

    assert errors == ["The task's prompt has 2 places for images, and its document 1 images.", None]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            {},
            "'chartqa' cannot be run: it shows images, which a chat alone can hold; add `--format chat`",
        ),
        ({"format": "chat", "n_shots": 2}, "worked examples would show theirs; add `--n-shots 0`"),
    ],
)
def test_a_prompt_that_cannot_hold_images_is_refused(
    settings: dict[str, Any], says: str, tmp_path: Path
) -> None:
    prompt = PromptSettings(**settings)
    benchmark = open_benchmark("lm_eval:chartqa", prompt=prompt, source=str(chartqa(tmp_path)))

    with pytest.raises(SettingsError, match=says):
        benchmark.samples()


def test_a_task_that_plays_audio_is_refused_by_name(index: Mapping[str, TaskEntry]) -> None:
    with pytest.raises(SettingsError, match="'common_voice_en' cannot be run: it plays audio"):
        plan_tasks("common_voice_en", index)


def test_no_task_with_images_is_refused(index: Mapping[str, TaskEntry]) -> None:
    seeing = [e.name for e in index.values() if e.kind == "task" and "voice" not in e.name]

    assert len(seeing) > 30
    assert not [name for name in seeing if index[name].refusal]
