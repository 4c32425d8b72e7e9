from pathlib import Path
from typing import Any

import PIL.Image
import pytest

from regrade.benchmarks import open_dataset
from regrade.benchmarks.base import Benchmark
from regrade.scorers.extraction.accepted import accepted_texts
from regrade.settings import DatasetBenchmark, PromptSettings, SamplingParams
from regrade.settings.errors import SettingsError, SourceError
from tests.benchmarks.files import Rows, write_jsonl, write_parquet
from tests.pictures import file_of

SUMS: Rows = [
    {"question": "1+1?", "answer": "One more.\n#### 1,002", "kind": "easy", "hint": None},
    {"question": "2+2?", "answer": "5", "kind": "hard", "hint": "Count."},
]
PICKS: Rows = [
    {"question": "First?", "options": ["red", "green", "blue"], "answer": 0, "topic": "x"},
    {"question": "Last?", "options": ["red", "green"], "answer": 1, "topic": "y"},
]


def opened(path: Path, *, prompt: PromptSettings | None = None, **settings: Any) -> Benchmark:
    if "prompt_template" in settings:
        settings["prompt"] = settings.pop("prompt_template")
    given = DatasetBenchmark(name="own", path=str(path), **settings)
    return open_dataset(given, prompt=prompt or PromptSettings())


def only_prompt(benchmark: Benchmark, row: int = 0) -> Any:
    prompt = benchmark.prompt(benchmark.samples()[row])
    return prompt[-1]["content"] if isinstance(prompt, tuple) else prompt


@pytest.fixture
def sums(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "sums.jsonl", SUMS)


@pytest.fixture
def picks(tmp_path: Path) -> Path:
    return write_parquet(tmp_path / "picks.parquet", PICKS)


@pytest.mark.parametrize("scorer", ["number", "number_strict"])
def test_a_number_after_hashes_is_the_target(sums: Path, scorer: str) -> None:
    benchmark = opened(sums, scorer=scorer, subset_column="kind")

    found = [(sample.target, sample.subset) for sample in benchmark.samples()]
    assert found == [("1002", "easy"), ("5", "hard")]
    assert benchmark.scorers == (scorer,)
    assert benchmark.method == "generate"


@pytest.mark.parametrize(
    ("answers", "targets"),
    [
        ([["Paris", "City of Light"], ["Rome"]], ['["Paris", "City of Light"]', "Rome"]),
        ([[42, 43], [44]], ['["42", "43"]', "44"]),
        (['["a"]', "Ada"], [r'["[\"a\"]"]', "Ada"]),
    ],
)
def test_a_list_of_accepted_texts_is_one_target_of_the_text_scorer(
    tmp_path: Path, answers: list[Any], targets: list[str]
) -> None:
    rows = [{"question": f"{number}?", "answer": answer} for number, answer in enumerate(answers)]
    benchmark = opened(write_jsonl(tmp_path / "qa.jsonl", rows), scorer="text")

    found = [sample.target for sample in benchmark.samples()]

    assert found == targets
    for target, answer in zip(found, answers, strict=True):
        given = answer if isinstance(answer, list) else [answer]
        assert accepted_texts(target) == [str(text) for text in given]


def test_a_worked_example_shows_the_first_accepted_text(tmp_path: Path) -> None:
    rows = [{"question": "Capital?", "answer": ["Paris", "City of Light"]}]
    path, shots = (write_jsonl(tmp_path / name, rows) for name in ("qa.jsonl", "shots.jsonl"))

    benchmark = opened(path, scorer="text", n_shots=1, shots_path=str(shots), format="completion")

    assert "Paris" in only_prompt(benchmark)
    assert "City of Light" not in only_prompt(benchmark)


@pytest.mark.parametrize("target", [[], ["Paris", None], ["Paris", ["x"]], [" "], None, True])
def test_a_list_without_texts_is_refused_by_name(tmp_path: Path, target: object) -> None:
    path = write_jsonl(tmp_path / "qa.jsonl", [{"question": "Capital?", "answer": target}])

    with pytest.raises(SourceError, match="is not a text or number, or a list of them"):
        opened(path, scorer="text").samples()


def test_a_template_sees_the_columns(sums: Path) -> None:
    template = "{{ kind | upper }}: {{ question }}{% if hint %} ({{ hint }}){% endif %}\n"

    benchmark = opened(sums, prompt_template=template)
    assert only_prompt(benchmark, 0) == "EASY: 1+1?"
    assert only_prompt(benchmark, 1) == "HARD: 2+2? (Count.)"


def test_columns_with_spaces_and_dots_are_part_of_the_prompt(sums: Path, tmp_path: Path) -> None:
    rows = [
        {"the question": row["question"], "a.b": row["hint"] or "-", "the answer": row["answer"]}
        for row in SUMS
    ]
    path = write_jsonl(tmp_path / "odd.jsonl", rows)
    shots = write_jsonl(tmp_path / "shots.jsonl", [{**rows[0], "a solution": "It is."}])
    benchmark = opened(
        path,
        prompt=PromptSettings(format="completion"),
        prompt_template="{{ row['the question'] }} {{ row['a.b'] }}",
        target_column="the answer",
        n_shots=1,
        shots_path=str(shots),
        shot_answer="{{ row['a solution'] }}",
    )

    assert only_prompt(benchmark, 1) == "1+1? - It is.\n\n2+2? Count."
    named = opened(sums, prompt_template="{{ question }}").samples()
    odd = opened(
        path, prompt_template="{{ row['the question'] }}", target_column="the answer"
    ).samples()
    assert [sample.question for sample in odd] == [sample.question for sample in named]


def test_choices_are_listed_where_the_prompt_is_left_alone(picks: Path) -> None:
    benchmark = opened(picks, choices_column="options", scorer="choice_letter")

    assert only_prompt(benchmark) == "First?\nA. red\nB. green\nC. blue\nAnswer:"
    assert [s.target for s in benchmark.samples()] == ["A", "B"]
    assert [s.choices for s in benchmark.samples()] == [("red", "green", "blue"), ("red", "green")]


def test_a_template_sees_the_choices_as_a_list(picks: Path) -> None:
    template = "{{ question }} {{ choices | join(' or ') }}?"
    settings = {"choices_column": "options", "scorer": "choice_letter"}

    benchmark = opened(picks, prompt_template=template, **settings)

    assert only_prompt(benchmark) == "First? red or green or blue?"


def test_ranking_is_what_choice_logprob_means(picks: Path) -> None:
    settings = {"choices_column": "options", "scorer": "choice_logprob", "subset_column": "topic"}
    chat = opened(picks, **settings)
    text = opened(picks, prompt=PromptSettings(format="completion"), **settings)

    assert chat.method == text.method == "rank"
    assert [chat.labels(s) for s in chat.samples()] == [("A", "B", "C"), ("A", "B")]
    assert text.labels(text.samples()[1]) == (" A", " B")
    assert chat.sampling == SamplingParams(max_tokens=1)


def test_a_ranked_prompt_does_not_end_in_white_space(picks: Path) -> None:
    settings = {"choices_column": "options", "scorer": "choice_logprob", "format": "completion"}

    benchmark = opened(picks, prompt_template="{{ question }} Answer: ", **settings)

    assert only_prompt(benchmark) == "First? Answer:"


def test_worked_examples_come_from_a_file_of_their_own(sums: Path, tmp_path: Path) -> None:
    shots = write_jsonl(tmp_path / "shots.jsonl", [{"question": "3+3?", "answer": "#### 6"}])

    benchmark = opened(
        sums,
        scorer="number",
        n_shots=1,
        shots_path=str(shots),
        shot_answer="{{ answer }} or {{ target }}",
    )

    assert benchmark.prompt(benchmark.samples()[0]) == (
        {"role": "user", "content": "3+3?"},
        {"role": "assistant", "content": "#### 6 or 6"},
        {"role": "user", "content": "1+1?"},
    )


def test_worked_examples_of_choices_know_the_label(picks: Path, tmp_path: Path) -> None:
    write_parquet(tmp_path / "train.parquet", PICKS)

    benchmark = opened(
        picks,
        choices_column="options",
        scorer="choice_letter",
        n_shots=2,
        shot_answer="({{ label }})",
        prompt=PromptSettings(format="completion"),
    )

    assert str(benchmark.prompt(benchmark.samples()[0])).startswith(
        "First?\nA. red\nB. green\nC. blue\nAnswer: (A)\n\nLast?\nA. red\nB. green\nAnswer: (B)\n\n"
    )


def test_changes_to_the_prompt_win_over_the_settings(sums: Path, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "train.jsonl", SUMS)

    identity = opened(
        sums, n_shots=2, prompt=PromptSettings(n_shots=0, format="completion")
    ).prompt_identity

    assert (identity.n_shots, identity.format, identity.template) == (
        0,
        "completion",
        "{{ question }}",
    )


def test_ids_stay_when_the_words_of_the_prompt_change(sums: Path) -> None:
    plain = opened(sums)
    wordy = opened(sums, prompt_template="Please answer: {{ question }}")
    other = opened(sums, prompt_template="{{ question }} {{ kind }}")

    ids = [sample.id for sample in plain.samples()]

    assert [sample.id for sample in wordy.samples()] == ids
    assert not set(ids) & {sample.id for sample in other.samples()}


def test_what_decides_the_targets_is_part_of_the_identity(sums: Path) -> None:
    def identity(**settings: Any) -> Any:
        return opened(sums, **settings).identity

    assert identity(scorer="number") == identity(scorer="number_strict")
    assert identity(scorer="number") != identity(scorer="exact")
    assert identity() != identity(target_column="kind")
    assert identity() != identity(subset_column="kind")
    assert identity().parameters["target"] == "text"


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"name": "gsm8k"}, "The name 'gsm8k' belongs to an installed benchmark"),
        ({"scorer": "choice_letter"}, "which needs choices. Set `datasets.choices_column`"),
        (
            {"prompt": "{{ question"},
            "The template `datasets.prompt` is not valid Jinja (line 1): unexpected end of template, expected 'end of print statement'. A",
        ),
        ({"shot_answer": "{% if %}"}, "The template `datasets.shot_answer` is not valid Jinja"),
        ({"revision": "main"}, "reads local files"),
        ({"config": "main"}, "reads local files"),
        ({"n_shots": 1, "shots_split": "test"}, "also as worked examples"),
        (
            {"path": "org/name", "shots_path": "a.jsonl"},
            "Set `datasets.shots_split` instead of `datasets.shots_path`",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    sums: Path, settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SettingsError) as error:
        open_dataset(DatasetBenchmark(**{"name": "own", "path": str(sums), **settings}))

    assert problem in str(error.value)


@pytest.mark.parametrize("path", ["absent", "absent.jsonl", "org/absent.csv", "a/b/c", "org/"])
def test_a_path_that_is_neither_here_nor_a_hub_name_is_refused(path: str) -> None:
    with pytest.raises(SourceError, match="is not the name of a Hub dataset"):
        open_dataset(DatasetBenchmark(name="own", path=path))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"prompt": "{{ query }}"},
            "no column 'query'; found 'question', 'answer', 'kind', 'hint'. Rename the columns, or change `datasets.prompt`",
        ),
        (
            {"system": "{{ row['a b'] }}"},
            "no column 'a b'; found 'question', 'answer', 'kind', 'hint'. Rename the columns, or change `datasets.system`",
        ),
        ({"target_column": "gold"}, "or change `datasets.target_column`"),
        (
            {"subset_column": "group", "doc_columns": ("group",)},
            "or change `datasets.subset_column` and `datasets.doc_columns`",
        ),
        ({"choices_column": "options"}, "or change `datasets.choices_column`"),
        ({"prompt": "{{ question }} {{ hint }}"}, "row 0 (from 0) of split 'test': the template `datasets.prompt`"),
        ({"prompt": "{{ kind.name }}"}, "has no attribute 'name'"),
        ({"prompt": "{{ hint or '' }}"}, "row 0 (from 0) of split 'test': the prompt is empty"),
        ({"scorer": "number", "target_column": "kind"}, "row 0 (from 0) of split 'test': the target 'easy' is not a number"),
        ({"target_column": "hint"}, "the target None is not a text or number"),
        ({"subset_column": "hint"}, "the subset (column 'hint') is None"),
        ({"system": "{{ hint }}"}, "row 0 (from 0) of split 'test': the template `datasets.system` cannot be filled"),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_used_are_refused_before_anything_is_asked(
    sums: Path, settings: dict[str, Any], problem: str
) -> None:
    benchmark = open_dataset(DatasetBenchmark(**{"name": "own", "path": str(sums), **settings}))

    with pytest.raises(SourceError) as error:
        benchmark.samples()

    assert problem in str(error.value)


def test_a_later_row_that_cannot_be_asked_is_named(tmp_path: Path) -> None:
    rows = [{"question": "q", "answer": "a"}, {"question": None, "answer": "a"}]

    with pytest.raises(SourceError, match=r"row 1 \(from 0\) of split 'test': .* null"):
        opened(write_jsonl(tmp_path / "a.jsonl", rows)).samples()


def test_bytes_have_no_place_in_a_prompt(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", [{"question": b"\x00", "answer": "a"}])

    with pytest.raises(SourceError, match="column 'question' holds an image or other binary data"):
        opened(path).samples()


def test_many_prompts_are_made_one_at_a_time(tmp_path: Path) -> None:
    import tracemalloc

    long = "word " * 2000
    rows = [{"question": f"q{i}", "answer": "a"} for i in range(2000)]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    benchmark = opened(path, prompt_template=long + "{{ question }}")
    samples = benchmark.samples()

    tracemalloc.start()
    total = sum(len(str(benchmark.prompt(sample))) for sample in samples)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert total > 20_000_000
    assert peak < 2_000_000


def test_a_system_message_sees_columns_of_any_name(tmp_path: Path) -> None:
    rows = [{"the question": "Who?", "my role": "a poet", "answer": "Poe"}]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    settings = {"prompt_template": "{{ row['the question'] }}", "scorer": "text"}
    benchmark = opened(path, system="You are {{ row['my role'] }}.", **settings)
    plain = opened(path, **settings)

    (sample,) = benchmark.samples()

    assert benchmark.prompt(sample) == (
        {"role": "system", "content": "You are a poet."},
        {"role": "user", "content": "Who?"},
    )
    assert benchmark.prompt_identity.system == "You are {{ row['my role'] }}."
    assert sample.id != plain.samples()[0].id  # the role is part of what is asked
    text = opened(path, system="You are {{ row['my role'] }}.", format="completion", **settings)
    assert text.prompt(sample) == "You are a poet.\n\nWho?"


def test_the_option_system_replaces_the_system_message_and_is_plain_text(sums: Path) -> None:
    prompt = PromptSettings(system="Say {{ nothing }}.")

    benchmark = opened(sums, scorer="number", system="{{ kind }}", prompt=prompt)

    assert benchmark.prompt(benchmark.samples()[0])[0] == {
        "role": "system",
        "content": "Say {{ nothing }}.",
    }
    assert benchmark.prompt_identity.system == "Say {{ nothing }}."


def picture(color: str = "red", path: str | None = "a.png") -> dict[str, Any]:
    return {"bytes": file_of("PNG", color), "path": path}


PICTURE = picture()
SEEN = "{{ question }} {{ picture }}"


def shown(tmp_path: Path, *values: object, **settings: Any) -> Benchmark:
    """Open questions whose column `picture` has these values."""
    rows = [{"question": "What is it?", "picture": value, "answer": "1"} for value in values]
    path = write_parquet(tmp_path / "a.parquet", rows)
    return opened(path, **{"prompt_template": SEEN, **settings})


def test_an_image_stands_where_the_template_prints_it(tmp_path: Path) -> None:
    benchmark = shown(tmp_path, PICTURE)

    [sample] = benchmark.samples()

    [image] = sample.images
    assert image.content == PICTURE["bytes"]
    assert only_prompt(benchmark) == f"What is it? {image.mark}"
    assert sample.question == f"What is it? {image.mark}"


def test_a_list_of_images_is_printed_one_by_one(tmp_path: Path) -> None:
    red, blue = picture(), picture("blue")
    template = "{% for one in row['picture'] %}{{ one }} or {% endfor %}{{ question }}"

    benchmark = shown(tmp_path, [red, blue, red], prompt_template=template)

    one, other = benchmark.samples()[0].images
    assert [one.content, other.content] == [red["bytes"], blue["bytes"]]
    assert only_prompt(benchmark) == f"{one.mark} or {other.mark} or {one.mark} or What is it?"


def test_a_text_can_name_the_place_of_an_image(tmp_path: Path) -> None:
    row = {"question": "Is <image 1> red?", "image_1": PICTURE, "answer": "1"}
    path = write_parquet(tmp_path / "a.parquet", [row])

    benchmark = opened(
        path, prompt_template="{{ question | replace('<image 1>', image_1 | string) }}"
    )

    assert only_prompt(benchmark) == f"Is {benchmark.samples()[0].images[0].mark} red?"


def test_the_id_depends_on_the_content_of_an_image_and_not_on_its_name(tmp_path: Path) -> None:
    [red] = shown(tmp_path, picture()).samples()
    [renamed] = shown(tmp_path, picture(path=None)).samples()
    [blue] = shown(tmp_path, picture("blue")).samples()

    assert red.id == renamed.id
    assert red.id != blue.id


def test_a_question_may_lack_its_image(tmp_path: Path) -> None:
    template = "{{ question }}{% if picture %} {{ picture }}{% endif %}"

    benchmark = shown(tmp_path, PICTURE, None, prompt_template=template)

    assert benchmark.samples()[1].images == ()
    assert only_prompt(benchmark, 1) == "What is it?"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"bytes": b"<svg/>", "path": "a.svg"}, "image in cannot be used: it is no PNG, JPEG"),
        ([{"bytes": b"GIF89a", "path": "a.gif"}], "image in cannot be used: it is no PNG, JPEG"),
        ({"bytes": None, "path": "/etc/passwd"}, "names the image '/etc/passwd' without its bytes"),
        (b"\x89PNG", "holds an image or other binary data, which a prompt cannot use"),
    ],
    ids=["svg", "gif", "path", "bytes"],
)
@pytest.mark.parametrize("setting", ["prompt_template", "system"])
def test_what_is_no_image_is_refused(
    tmp_path: Path, value: object, says: str, setting: str
) -> None:
    says = says.replace("image in", "image in column 'picture'")

    with pytest.raises(SourceError, match=f"row 0 .*{says}"):
        shown(tmp_path, value, **{"prompt_template": "{{ question }}", setting: SEEN}).samples()


def test_too_many_images_in_a_question_are_refused(tmp_path: Path) -> None:
    many = [picture(f"#{number:06x}") for number in range(33)]

    with pytest.raises(SourceError, match="row 0 .* has 33 images; at most 32"):
        shown(tmp_path, many).samples()


def test_an_image_needs_a_chat(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="shows an image, .* set `datasets.format=chat`"):
        shown(tmp_path, PICTURE, format="completion").samples()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"prompt_template": SEEN}, "a worked example shows an image; set `datasets.n_shots=0`"),
        ({"shot_answer": "{{ picture }}"}, "split 'train': column 'picture' holds an image"),
    ],
)
def test_an_image_in_a_worked_example_is_refused(
    tmp_path: Path, settings: dict[str, Any], says: str
) -> None:
    row = {"question": "What is it?", "picture": PICTURE, "answer": "1"}
    write_parquet(tmp_path / "test.parquet", [row])
    write_parquet(tmp_path / "train.parquet", [row | {"question": "And it?"}])

    with pytest.raises(SourceError, match=says):
        opened(tmp_path, n_shots=1, **settings).samples()


def test_an_image_of_the_type_of_datasets_is_read(tmp_path: Path) -> None:
    from datasets import Dataset, Features, Image, Value

    rows = {"question": ["What is it?"], "picture": [PIL.Image.new("RGB", (4, 3))], "answer": ["1"]}
    features = Features(
        {"question": Value("string"), "picture": Image(), "answer": Value("string")}
    )
    Dataset.from_dict(rows, features=features).to_parquet(str(tmp_path / "a.parquet"))

    [sample] = opened(tmp_path / "a.parquet", prompt_template=SEEN).samples()

    assert [(image.width, image.height) for image in sample.images] == [(4, 3)]
    assert opened(tmp_path / "a.parquet").samples()[0].images == ()


TURNS = [
    {"role": "user", "content": "My head aches."},
    {"role": "assistant", "content": "Since when?"},
    {"role": "user", "content": "Since May."},
]
RUBRICS = [{"criterion": "Asks for the age.", "points": 5, "tags": []}]


def test_a_conversation_is_sent_as_it_is_and_columns_are_kept_for_the_judge(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "health.jsonl", [{"prompt": TURNS, "rubrics": RUBRICS}])
    judge = {"scorer": "judge", "target_column": "", "messages_column": "prompt"}
    benchmark = opened(path, doc_columns=("rubrics",), **judge)

    [sample] = benchmark.samples()

    assert benchmark.prompt(sample) == tuple(TURNS)
    assert (sample.target, sample.doc) == ("", {"rubrics": RUBRICS, "messages": TURNS})
    assert benchmark.prompt_identity.template == "{{ row['prompt'] }}"
    with_system = opened(path, prompt=PromptSettings(system="Be brief."), **judge)
    assert with_system.prompt(sample)[0] == {"role": "system", "content": "Be brief."}
    with pytest.raises(
        SettingsError, match="has no `datasets.target_column`, without which only a judge"
    ):
        opened(path, messages_column="prompt", target_column="")
    with pytest.raises(SettingsError, match="leave out `datasets.prompt`"):
        opened(path, **judge, prompt_template="{{ prompt }}")


@pytest.mark.parametrize(
    "turns", ["Hello", [], TURNS[:2], [{"role": "user"}], [{"role": "x", "content": ""}]]
)
def test_what_is_no_conversation_with_a_last_question_is_refused(
    tmp_path: Path, turns: Any
) -> None:
    path = write_jsonl(tmp_path / "health.jsonl", [{"prompt": turns}])
    with pytest.raises(SourceError, match="expected a list of objects with `role`"):
        opened(path, scorer="judge", target_column="", messages_column="prompt").samples()
