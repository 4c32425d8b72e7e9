from pathlib import Path
from typing import Any

import pytest

from regrade.exchange.importing.base import ImportedRow, Reported, RowScore
from regrade.exchange.importing.files import ImportFileError
from regrade.exchange.importing.record import as_json
from tests.exchange.importing.writing import document, jsonl, read

TIME = "2026-01-02T03-04-05.678901"


def sample(doc_id: int, text: str | list[str], score: float, **changes: Any) -> dict[str, Any]:
    return {
        "doc_id": doc_id,
        "doc": {"question": f"What is {doc_id}?", "answer": f"It is.\n#### {doc_id}"},
        "target": f"It is.\n#### {doc_id}",
        "arguments": {
            "gen_args_0": {"arg_0": f"Q: What is {doc_id}?\nA:", "arg_1": {"until": ["Q:"]}}
        },
        "resps": [[text] if isinstance(text, str) else text],
        "filtered_resps": [str(doc_id)],
        "filter": "strict-match",
        "metrics": ["exact_match"],
        "exact_match": score,
    } | changes


def results(folder: Path, **changes: Any) -> None:
    content = {
        "results": {
            "sums": {
                "exact_match,strict-match": 0.5,
                "exact_match_stderr,strict-match": 0.25,
                "exact_match,flexible-extract": 0.75,
            }
        },
        "configs": {
            "sums": {
                "dataset_path": "org/sums",
                "dataset_name": "main",
                "test_split": "test",
                "repeats": 1,
            }
        },
        "n-shot": {"sums": 5},
        "n-samples": {"sums": {"original": 10, "effective": 4}},
        "config": {"limit": 4.0, "model_sha": "c" * 40},
        "model_name": "org/model",
        "chat_template": "{{ messages }}",
        "lm_eval_version": "0.4.9",
    }
    document(folder / f"results_{TIME}.json", content | changes)


def test_what_the_results_tell_is_taken_from_beside_the_samples(tmp_path: Path):
    results(tmp_path)
    found = read(jsonl(tmp_path / f"samples_sums_{TIME}.jsonl", sample(1, "1", 1.0)))

    assert (found.model, found.model_revision, found.benchmark) == ("org/model", "c" * 40, "sums")
    assert (found.n_samples, found.limit, found.n_shots, found.format) == (4, 4, 5, "chat")
    assert (found.config, found.split) == ("main", "test")
    assert found.recorded["dataset"] == "org/sums"
    assert [original.reported for original in found.originals] == [Reported(0.5, 0.25, 4)]


def test_one_answer_read_by_two_filters_is_one_row_with_two_scores(tmp_path: Path):
    results(tmp_path)
    flexible = {"filter": "flexible-extract", "exact_match": 1.0, "filtered_resps": ["7"]}
    path = jsonl(
        tmp_path / f"samples_sums_{TIME}.jsonl",
        sample(0, "It is 7.", 0.0, filtered_resps=["[invalid]"]),
        sample(1, "#### 1", 1.0),
        sample(0, "It is 7.", 0.0) | flexible,
        sample(1, "#### 1", 1.0, filter="flexible-extract"),
    )
    found = read(path)

    assert [(row.index, row.text) for row in found.rows] == [(0, "It is 7."), (1, "#### 1")]
    assert [original.name for original in found.originals] == [
        "exact_match,strict-match",
        "exact_match,flexible-extract",
    ]
    assert found.rows[0].scores == {
        "exact_match,strict-match": RowScore(0.0, None, unread=True),
        "exact_match,flexible-extract": RowScore(1.0, "7"),
    }


def test_without_results_what_they_would_tell_is_not_known(tmp_path: Path):
    found = read(jsonl(tmp_path / f"samples_sums_{TIME}.jsonl", sample(6, "6", 1.0)))

    assert found.model is None
    assert found.n_shots is None
    assert found.format is None
    assert found.originals[0].reported is None
    assert found.n_samples == 7  # row 6 exists, so the run had at least 7


def test_a_file_under_another_name_tells_no_task(tmp_path: Path):
    results(tmp_path)
    assert read(jsonl(tmp_path / "mine.jsonl", sample(1, "1", 1.0))).benchmark is None


def test_several_answers_to_a_question_are_repeats_without_the_score_of_all(tmp_path: Path):
    answers = sample(0, "", 0.5, resps=[["a", None, "b"]])
    found = read(jsonl(tmp_path / "a.jsonl", answers))
    assert [(row.repeat, row.text, row.scores) for row in found.rows] == [
        (0, "a", {}),
        (1, None, {}),
        (2, "b", {}),
    ]


def test_messages_sent_to_a_chat_server_are_kept_as_messages(tmp_path: Path):
    messages = '[{"role": "user", "content": "2+2?"}]'
    found = read(
        jsonl(
            tmp_path / "a.jsonl",
            sample(0, "4", 1.0, arguments={"gen_args_0": {"arg_0": [messages]}}),
        )
    )
    assert (found.rows[0].prompt, found.rows[0].prompt_kind) == (messages, "messages")
    assert found.format == "chat"


def test_a_model_in_a_folder_is_called_by_its_last_part(tmp_path: Path):
    results(tmp_path, model_name="/work/models/mine/")
    assert read(jsonl(tmp_path / f"samples_sums_{TIME}.jsonl", sample(1, "1", 1.0))).model == "mine"


def ranked(
    *requests: tuple[str, str, float], target: object = "1", acc: float = 1.0
) -> dict[str, Any]:
    return sample(0, "", 0.0) | {
        "target": target,
        "arguments": {
            f"gen_args_{i}": {"arg_0": context, "arg_1": continuation}
            for i, (context, continuation, _) in enumerate(requests)
        },
        "resps": [[[str(logprob), "False"]] for *_, logprob in requests],
        "filtered_resps": [[str(logprob), "False"] for *_, logprob in requests],
        "filter": "none",
        "metrics": ["acc"],
        "acc": acc,
    }


def only_row(tmp_path: Path, content: dict[str, Any]) -> ImportedRow:
    [row] = read(jsonl(tmp_path / "a.jsonl", content)).rows
    assert row.scores["acc,none"].value is not None
    return row


XY = (("Q", " x", -2.0), ("Q", " y", -1.0))


@pytest.mark.parametrize(
    ("recorded", "target"),
    [
        ("1", 1),
        (1, 1),
        ("[1]", 1),
        (" y", " y"),
        ("y", "y"),
        ("(B)", "(B)"),
        ("['y']", "y"),
        ("2", None),
        ("-1", "-1"),
        ("[0, 1]", None),
        ("[]", None),
        (None, None),
    ],
)
def test_the_right_one_of_ranked_choices_is_an_index_a_letter_or_a_text(
    tmp_path: Path, recorded: object, target: object
):
    row = only_row(tmp_path, ranked(*XY, target=recorded))
    assert (row.target, row.choices, row.prompt) == (target, ("x", "y"), "Q")


def test_contexts_that_differ_by_choice_are_part_of_the_choices(tmp_path: Path):
    # As of winogrande: the harness records the continuation as the target.
    start, end = "One.\nMaria beat ", "\nshe was better."
    requests = [(f"{start}{name}", end, logprob) for name, logprob in (("Mary", -3.0), ("May", -1))]
    row = only_row(tmp_path, ranked(*requests, target=end))
    assert row.choices == ("Mary\nshe was better.", "May\nshe was better.")
    assert (row.prompt, row.target, row.label_logprobs) == (start, None, (-3.0, -1.0))


def test_contexts_without_a_common_beginning_have_no_prompt(tmp_path: Path):
    row = only_row(tmp_path, ranked(("Mary", " won.", -3.0), ("May", " won.", -1.0), target="won."))
    assert (row.choices, row.prompt) == (("Mary won.", "May won."), None)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3)], ids=["behind", "alternating"])
def test_choices_ranked_without_context_for_mutual_information_are_no_choices(
    tmp_path: Path, order: tuple[int, ...]
):
    requests = [*XY, ("", "x", -9.0), ("", "y", -8.0)]
    row = only_row(tmp_path, ranked(*(requests[i] for i in order)))
    assert (row.choices, row.label_logprobs, row.target) == (("x", "y"), (-2.0, -1.0), 1)


@pytest.mark.parametrize(
    ("recorded", "known"),
    [
        ([["-1", "False"], ["-2", "True"]], (False, True)),
        ([[-1, True], [-2, False]], (True, False)),
        ([["-1", "False"], ["-2"]], None),
    ],
)
def test_whether_a_choice_is_greedy_is_kept_if_the_harness_says_it_of_all(
    tmp_path: Path, recorded: list[list[object]], known: tuple[bool, ...] | None
):
    row = only_row(tmp_path, ranked(*XY) | {"resps": [[response] for response in recorded]})
    assert row.label_is_greedy == known


@pytest.mark.parametrize("null", [[[None, "False"]], [["None", "False"]], [None]])
def test_a_row_that_lacks_a_log_probability_is_a_missing_answer_in_a_file_that_is_read(
    tmp_path: Path, null: list[object]
):
    lacking = ranked(*XY) | {"resps": [null, [["-1", "False"]]]}
    path = jsonl(tmp_path / "a.jsonl", lacking, ranked(*XY) | {"doc_id": 1})

    found = read(path)

    assert found.method == "rank"
    assert [(row.choices, row.label_logprobs, row.text) for row in found.rows] == [
        (("x", "y"), None, None),
        (("x", "y"), (-2.0, -1.0), None),
    ]


def test_the_log_probability_of_a_single_text_is_no_choice(tmp_path: Path):
    row = only_row(tmp_path, ranked(("The sky is", " blue", -0.5), target=" blue"))
    assert (row.target, row.choices, row.label_logprobs) == (None, ("blue",), (-0.5,))


@pytest.mark.parametrize(
    ("recorded", "target"),
    [
        ("['Paris', 'paris']", None),
        ("['Paris']", "Paris"),
        ("[not a list", "[not a list"),
        ("[{(1, 2): 3}]", "[{(1, 2): 3}]"),
        (f"[0x{'f' * 6000}]", f"[0x{'f' * 6000}]"),
        (7, 7),
    ],
)
def test_several_accepted_texts_are_no_target(tmp_path: Path, recorded: object, target: object):
    [row] = read(jsonl(tmp_path / "a.jsonl", sample(0, "Paris", 1.0, target=recorded))).rows
    assert row.target == target


@pytest.mark.parametrize(
    ("doc", "question"),
    [
        *(({name: "Why?"}, "Why?") for name in ("query", "problem", "prompt", "input", "goal")),
        ({"question": {"stem": "Why?"}, "query": "Why?"}, "Why?"),
        ({"premise": "It rains.", "hypothesis": "It is wet."}, None),
    ],
)
def test_the_question_is_the_text_that_the_dataset_has_for_it(
    tmp_path: Path, doc: dict[str, Any], question: str | None
):
    known = sample(1, "1", 1.0)
    one, row = read(jsonl(tmp_path / "a.jsonl", sample(0, "So.", 1.0, doc=doc), known)).rows
    assert (one.question, one.content) == (question, as_json(doc))
    assert row.question == row.content == "What is 1?"


def test_choices_that_were_ranked_keep_their_log_probabilities(tmp_path: Path):
    both = {"metrics": ["acc", "acc_norm"], "acc_norm": 0.0}
    found = read(jsonl(tmp_path / "a.jsonl", ranked(*XY) | both))

    [row] = found.rows
    assert (found.method, row.label_logprobs, row.text) == ("rank", (-2.0, -1.0), None)
    assert {name: score.value for name, score in row.scores.items()} == {
        "acc,none": 1.0,
        "acc_norm,none": 0.0,
    }


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"doc_id": None}, "doc_id"),
        ({"resps": "text"}, "resps"),
        ({"resps": [[["x", "False"]]], "target": "0"}, "log-probabilities"),
        ({"resps": [[3]]}, "list of texts"),
    ],
)
def test_a_row_that_is_not_the_harness_own_is_named(
    tmp_path: Path, changes: dict[str, Any], says: str
):
    path = jsonl(tmp_path / "a.jsonl", sample(0, "0", 1.0), sample(1, "1", 1.0) | changes)
    with pytest.raises(ImportFileError, match=rf"a\.jsonl', row 1: .*{says}"):
        read(path)
