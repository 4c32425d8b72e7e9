"""Untrusted answer repositories: no code runs, no file leaves its folder, no memory or page overflows."""

import json
import math
import pickle
import re
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from markdown_it import MarkdownIt

from regrade.answers import parquet
from regrade.answers.local import LocalRepository
from regrade.answers.overview import BEGIN, END
from regrade.answers.parquet import ParquetReader
from regrade.answers.sets import AnswerSet, list_sets, readable_sets
from regrade.answers.verify import verify
from regrade.benchmarks.questions.reading import UnreadableError, read_file
from regrade.cli.terminal import stderr, stdout, visible
from regrade.exchange.importing.files import SourceFile
from regrade.records.columns import GENERATION_SCHEMA, SCHEMA_VERSION
from regrade.records.specification import specification_id
from regrade.scoring.score import score_answers
from regrade.settings.errors import DamagedAnswersError, RegradeError, RepositoryError
from regrade.stats.charts import accuracy_chart
from regrade.stats.metrics import SubsetMetrics
from regrade.stats.scale import SHARES
from regrade.text.markdown import escape
from tests.builders import row, session
from tests.memory import taking_at_most
from tests.stored import (
    again,
    commit_manifest,
    commit_shards,
    numbers,
    parquet_bytes,
    publish,
    score,
    table_bytes,
)
from tests.timing import taking_less_than

COLUMNS = ["sample_id", "repeat", "text"]
NASTY = "</td><script>alert(1)</script>|![x](http://e.vil)\n| a | b |\n<!-- regrade:end -->\x1b]0;pwned\x07\x1b[2J\u202e"
ESCAPES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def answers(repository: LocalRepository) -> AnswerSet:
    return publish(repository, numbers(0, 3))


def refused(answers: AnswerSet, says: str) -> None:
    with pytest.raises(DamagedAnswersError, match=says) as caught:
        list(answers.batches(COLUMNS))
    assert "part-" in caught.value.path


# Manifests


@pytest.mark.parametrize(
    "name",
    [
        "../../../../etc/passwd",
        "/etc/passwd",
        "part-00000-01234567.parquet/../x",
        "part-00000-0.pkl",
    ],
)
def test_a_shard_outside_of_its_folder_is_refused(
    repository: LocalRepository, answers: AnswerSet, name: str
) -> None:
    shard = answers.manifest.shards[0].model_dump() | {"name": name}
    head = commit_manifest(answers, shards=[shard])

    with pytest.raises(DamagedAnswersError, match=r"manifest\.json.*shards\.0\.name"):
        list_sets(repository, head)


def test_a_manifest_copied_to_another_place_is_refused(
    repository: LocalRepository, answers: AnswerSet
) -> None:
    other = "answers/sums/someone--else/" + answers.manifest.answer_set_id
    content = answers.manifest.model_dump_json().encode()
    head = repository.commit(
        {f"{other}/manifest.json": content}, "copied", parent=repository.head()
    )

    found, damaged = readable_sets(repository, head)
    assert len(found) == 1
    assert "belongs in" in damaged[0].problem


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 200_000,
        b'{"a":' * 100_000,
        b"\xff\xfe",
        b"null",
        b"1" * 5000,
        b'{"schema_version": 1e400}',
        b'{"schema_version": true}',
        pickle.dumps({"a": 1}),
        b" " * (33 * 2**20),
    ],
    ids=["deep", "deeper", "not-utf8", "null", "digits", "inf", "true", "pickle", "huge"],
)
def test_what_is_no_manifest_or_no_scoring_is_refused_by_name(
    repository: LocalRepository, answers: AnswerSet, content: bytes
) -> None:
    bad = "answers/sums/org--tiny/0123456789abcdef/manifest.json"
    scoring = f"{answers.scores_folder}/number-1-00000000.json"
    head = repository.commit({bad: content, scoring: content}, "bad", parent=repository.head())

    found, damaged = readable_sets(repository, head)
    assert [error.path for error in damaged] == [bad]
    assert len(str(damaged[0])) < 1000
    with pytest.raises(DamagedAnswersError, match="number-1-00000000"):
        found[0].scores()
    score(found[0])  # a bad file does not block scoring and publishing
    assert score_answers(again(answers), "number").table is None
    problems = verify(repository, str(repository.head())).problems
    assert {problem.path for problem in problems} == {bad, scoring}


@pytest.mark.parametrize(
    "changes",
    [
        {"sessions": [session().model_dump(mode="json") | {"engine_settings": {"a": math.nan}}]},
        {"n_samples": 10**30},
        {"sessions": [session().model_dump(mode="json") | {"prompt_tokens": 10**400}]},
    ],
    ids=["nan", "samples", "tokens"],
)
def test_numbers_that_nobody_can_count_with_are_refused_and_block_no_other_set(
    repository: LocalRepository, answers: AnswerSet, changes: dict[str, Any]
) -> None:
    head = commit_manifest(answers, **changes)

    found, (damaged,) = readable_sets(repository, head)
    assert (found, damaged.path) == ([], f"{answers.folder}/manifest.json")
    publish(repository, numbers(0, 3), benchmark="others")


def test_a_whole_number_that_no_id_can_have_is_damage(
    repository: LocalRepository, answers: AnswerSet
) -> None:
    specified = answers.manifest.specification.model_dump(mode="json") | {"repeats": 10**30}
    set_id = specification_id(specified | {"repeats": 1e30})
    document = answers.manifest.model_dump(mode="json") | {"answer_set_id": set_id}
    content = json.dumps(document | {"specification": specified}).encode()
    bad = f"answers/sums/org--tiny/{set_id}/manifest.json"
    head = repository.commit({bad: content}, "from a stranger", parent=repository.head())

    found, (damaged,) = readable_sets(repository, head)
    assert (len(found), damaged.path) == (1, bad)


def test_more_repeats_than_the_format_has_are_verified_like_few(
    repository: LocalRepository,
) -> None:
    publish(repository, numbers(0, 5), repeats=2**62, total=5)

    assert verify(repository, str(repository.head())).problems == []


def test_sizes_that_the_manifest_makes_up_are_refused_before_anything_is_read(
    repository: LocalRepository, answers: AnswerSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = answers.manifest.shards[0].model_dump() | {"bytes": 10**18}
    head = commit_manifest(answers, shards=[shard])
    (lying,) = list_sets(repository, head)
    fetched: list[str] = []
    monkeypatch.setattr(LocalRepository, "fetch", lambda s, path, r: fetched.append(path))

    refused(lying, "the manifest says 1000000000000000000 bytes")
    assert fetched == []


# Parquet


def bomb(rows: int, value: str, **options: Any) -> bytes:
    """A repeated value: a few kilobytes that decode to `rows` times their size."""
    columns: dict[str, Any] = {
        name: pa.array(np.zeros(rows), pa.int32()) for name in ("index", "repeat")
    }
    for name, text in (("sample_id", "same"), ("text", value)):
        indices = pa.array(np.zeros(rows, np.int32))
        columns[name] = pa.DictionaryArray.from_arrays(indices, pa.array([text]))
    return table_bytes(
        pa.table(columns),
        store_schema=False,
        row_group_size=rows,
        dictionary_pagesize_limit=2**30,
        **options,
    )


@pytest.mark.parametrize(
    ("rows", "length"),
    [
        pytest.param(100_000, 2_000_000, marks=pytest.mark.slow),
        (1_000, 66 * 2**20),
        (6_000_000, 10),
    ],
)
def test_a_bomb_is_refused_in_little_memory(answers: AnswerSet, rows: int, length: int) -> None:
    content = bomb(rows, "A" * length)
    assert len(content) < 100_000
    armed = commit_shards(answers, content)
    with (
        taking_at_most(900 << 20),
        pytest.raises(DamagedAnswersError, match="decodes to more|claims"),
    ):
        taking_less_than(20, lambda: deque(armed.batches(COLUMNS), maxlen=0))


@pytest.mark.slow  # a child process takes 2 GiB
@pytest.mark.parametrize("reader", ["answers", "import", "questions"])
def test_a_row_with_more_than_the_memory_holds_is_decoded_in_a_child_process_only(
    reader: str, tmp_path: Path
) -> None:
    texts = pa.DictionaryArray.from_arrays(np.zeros(40_000, np.int32), pa.array(["A" * 100_000]))
    one = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    path = tmp_path / "bomb.parquet"
    pq.write_table(pa.table({"choices": one}), path, store_schema=False, compression="zstd")
    assert path.stat().st_size < 400
    read: dict[str, Callable[[], object]] = {
        "answers": lambda: list(ParquetReader("x", path, GENERATION_SCHEMA, ["choices"]).batches()),
        "import": lambda: SourceFile(path).rows,
        "questions": lambda: read_file(path, ["choices"]),
    }
    before = pa.default_memory_pool().max_memory()
    with pytest.raises((RegradeError, UnreadableError), match="batch of its rows takes more than"):
        read[reader]()
    assert pa.default_memory_pool().max_memory() - before < 100 << 20


def test_the_lists_of_a_file_are_decoded_in_a_child_process_once(
    answers: AnswerSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(parquet, "bomb_in", lambda *given: asked.append(given))
    reader = answers.shard(answers.manifest.shards[0], ["sample_id", "choices"])
    list(reader.batches())
    reader.take([0])
    reader.of(["choices"]).take([1])
    assert [columns for _, columns, *_ in asked] == [["choices"]]


def test_long_answers_come_in_small_batches(
    answers: AnswerSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "BATCH_BYTES", 2**22)
    long = [row(number, text="x" * 200_000) for number in range(50)]
    same = [row(number, text="y" * 70_000) for number in range(150)]
    for rows in (long, same):
        published = commit_shards(answers, rows)
        sizes = [batch.nbytes for batch in published.batches(COLUMNS)]
        assert sum(sizes) > 10_000_000
        assert max(sizes) < 5 * 2**20


@pytest.mark.parametrize(
    ("column", "values", "says"),
    [
        ("text", pa.array([1, 2, 3]), "column 'text' should be string, found int64"),
        ("text", pa.array([b"\xff\xfe"] * 3, pa.binary()), "should be string, found binary"),
        ("repeat", pa.array(["0"] * 3), "column 'repeat' should be int32, found string"),
        ("repeat", pa.array([0, None, 0], pa.int32()), "column 'repeat' has a null"),
        ("sample_id", pa.array(["a", None, "c"]), "column 'sample_id' has a null"),
        ("choices", pa.array([[1]] * 3), "column 'choices' should be list"),
    ],
)
def test_a_column_of_the_wrong_type_is_refused_by_name(
    answers: AnswerSet, column: str, values: Any, says: str
) -> None:
    table = pa.Table.from_pylist(numbers(0, 3), schema=GENERATION_SCHEMA)
    position = table.schema.get_field_index(column)
    wrong = commit_shards(answers, table_bytes(table.set_column(position, column, values)))

    with pytest.raises(DamagedAnswersError, match=says):
        list(wrong.batches(GENERATION_SCHEMA.names))


def test_a_missing_or_doubled_column_is_refused_and_an_extra_one_is_not_read(
    answers: AnswerSet,
) -> None:
    table = pa.Table.from_pylist(numbers(0, 3), schema=GENERATION_SCHEMA)
    refused(commit_shards(answers, table_bytes(table.drop_columns(["text"]))), "no such column")
    doubled = table.append_column("text", pa.array(["#### 9"] * 3))
    refused(commit_shards(answers, table_bytes(doubled)), "found string, string")

    extra = commit_shards(answers, table_bytes(table.append_column("run_me", pa.array(["x"] * 3))))
    assert score_answers(extra, "number").file.summary.overall.accuracy == 1


def test_text_that_is_not_utf8_is_refused(answers: AnswerSet) -> None:
    table = pa.Table.from_pylist(numbers(0, 3), schema=GENERATION_SCHEMA)
    raw = pa.Array.from_buffers(
        pa.string(),
        3,
        [None, pa.array([0, 2, 4, 6], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfeabcd")],
    )
    position = table.schema.get_field_index("text")
    refused(commit_shards(answers, table_bytes(table.set_column(position, "text", raw))), "UTF8")


@pytest.mark.parametrize("newer", [str(SCHEMA_VERSION + 1), "99999999999", "two"])
def test_a_shard_newer_than_this_version_is_refused_by_name(answers: AnswerSet, newer: str) -> None:
    schema = GENERATION_SCHEMA.with_metadata({"regrade_schema_version": newer})
    refused(commit_shards(answers, parquet_bytes(numbers(0, 3), schema)), f"schema {newer}")


def test_no_pickle_in_a_file_is_ever_loaded(answers: AnswerSet, tmp_path: Path) -> None:
    proof = tmp_path / "it-ran"

    class Payload:
        def __reduce__(self) -> Any:
            return Path.touch, (proof,)

    extension = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": pickle.dumps(Payload()),
    }
    table = pa.Table.from_pylist(numbers(0, 3), schema=GENERATION_SCHEMA)
    fields = [field.with_metadata(extension) for field in table.schema]
    armed = commit_shards(
        answers, table_bytes(table.cast(pa.schema(fields, metadata=table.schema.metadata)))
    )

    with suppress(DamagedAnswersError):
        list(armed.batches(GENERATION_SCHEMA.names))
    assert not proof.exists()


def test_a_file_with_changed_bytes_gives_an_error_or_rows_but_never_a_crash(
    answers: AnswerSet,
) -> None:
    whole = parquet_bytes(numbers(0, 50))
    for seed in range(40):
        rng, content = np.random.default_rng(seed), bytearray(whole)
        for place in rng.integers(4, len(content) - 8, 3):
            content[place] = rng.integers(0, 256)
        changed = commit_shards(answers, bytes(content), rows=50)

        with suppress(DamagedAnswersError):
            assert sum(map(len, changed.batches(GENERATION_SCHEMA.names))) == 50


# Markup


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.comments: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.found.append(tag)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def tags(text: str) -> Tags:
    parser = Tags()
    parser.feed(text)
    return parser


def test_the_card_shows_markup_in_names_as_text(repository: LocalRepository) -> None:
    published = publish(repository, numbers(0, 2), model=f"org/{NASTY} `c` **b** ~s~")
    score(published)

    card = (repository.folder / "README.md").read_text()
    assert set(tags(card).found) <= {"br"}
    assert card.count(BEGIN) == card.count(END) == 1
    body = card[card.index(BEGIN) : card.index(END)]
    assert len([line for line in body.splitlines() if line.startswith("|")]) == 3
    (line,) = (line for line in body.splitlines() if "alert" in line)
    unescaped = re.sub(r"\\.", "", line)
    assert unescaped.count("|") == 7
    assert not set("[]`*~") & set(unescaped), "a link or another form"
    assert not ESCAPES.search(card)


def test_a_card_that_is_hostile_is_kept_and_breaks_nothing(repository: LocalRepository) -> None:
    publish(repository, numbers(0, 2))
    card = repository.folder / "README.md"
    front = (
        "a: " + "[" * 1_000,
        "a: &a [*a]",
        "- " * 1000 + "x",
        "!!python/object/apply:os.system [true]",
        "configs:\n- config_name: [a]",
    )
    for text in (*(f"---\n{yaml}\n---\n" for yaml in front), BEGIN * 2000, "\x1b]0;x\x07"):
        card.write_text(text)
        score(publish(repository, numbers(0, 2), benchmark=f"b{len(text)}"))
        assert "| Benchmark |" in card.read_text()
        assert text in card.read_text() or text.startswith("---") or BEGIN in text


def test_markdown_shows_everything_from_outside_as_text() -> None:
    assert escape(r"a\b & c#d_e") == r"a\\b &amp; c\#d\_e"
    for text in (
        NASTY,
        "50 % -> 40 %, `regrade label`, a|b, [x](http://evil.test), *y*, ~~z~~, &lt;",
    ):
        shown = escape(text)
        assert tags(shown).found == tags(shown).comments == []
        assert not ESCAPES.search(shown)
        assert "&#" not in shown  # Prefect's page would show it as it is
        table = f"| a | b |\n|---|---|\n| {shown} | c |\n"
        page = MarkdownIt("commonmark").enable("table").render(table)
        cells = re.findall(r"<td>(.*?)</td>", page)
        visible = "".join(c if c.isprintable() or c.isspace() else "\ufffd" for c in text)
        assert [unescape(cell) for cell in cells] == [" ".join(visible.split()), "c"]


@pytest.mark.parametrize(
    "text", [NASTY, "[/b]", r"\[/b]", "[red]x", r"\[x + 1\] = \[/x\]", "[[[", "]", "a\\"]
)
def test_a_terminal_shows_markup_and_escape_codes_as_text(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for console in (stdout, stderr):
        console.print(visible(text), soft_wrap=True)

    shown = capsys.readouterr()
    assert shown.out == shown.err == f"{visible(text)}\n"
    assert not ESCAPES.search(shown.out)


def test_a_chart_takes_any_name_as_text(answers: AnswerSet) -> None:
    name = r"$\frac{$ <b>"
    summary = score(answers).summary
    part = SubsetMetrics(name=name, category=name, metrics=summary.overall)
    named = summary.model_copy(update={"subsets": (part,), "categories": (part,)})

    assert accuracy_chart(named, SHARES, name).startswith(b"\x89PNG")


def test_a_folder_named_from_outside_is_an_error_and_no_path(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError):
        LocalRepository(tmp_path / "answers").commit({"../x": b""}, "out", parent=None)
