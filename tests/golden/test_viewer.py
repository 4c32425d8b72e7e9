"""The viewer's pages: sets, answers, one answer with all that can be stored of it, comparisons."""

import json
from pathlib import Path

from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.records.messages import Part, PartedMessage
from regrade.records.trajectory import call_of, trajectory_text
from regrade.settings import SamplingParams
from tests.builders import row
from tests.golden.conftest import Door
from tests.pages.viewer.reading import Reader
from tests.stored import numbers, publish, score, score_with_an_older_scorer

SENT = "<|im_start|>user\nWhat is 1?<|im_end|>\n<|im_start|>assistant\n"
DID = trajectory_text(
    [
        PartedMessage("assistant", (Part("text", "Adding."), call_of("c", "add", '{"x": 2}'))),
        PartedMessage("tool", (Part("tool_result", "two", "c", "add"),)),
        PartedMessage("assistant", (Part("text", "So #### 2"),)),
    ]
)
ANSWERS = {
    "thought": row(1, "It is\n#### 6")
    | {"question": "What is one?", "prompt": SENT, "reasoning": "six it is"}
    | {"doc": json.dumps({"tests": ["assert f(1) == 2"]}), "time_to_first_token": 0.125},
    "agent": row(2, "So #### 2") | {"trajectory": DID},
    "tools": row(3, "Yes. #### 3")
    | {"tool_calls": '[{"name": "play", "arguments": {"artist": "<script>alert(1)</script>"}}]'},
    "thought-in-the-text": row(4, "<think>maybe #### 9</think>So\n#### 4"),
    "endless-thought": row(5, "<think>and so on"),
    "unparsed": row(6, "I do not know."),
    "truncated": row(7, "#### 1", finish_reason="length", completion_tokens=900, latency=9.0),
    "failed": row(8, error="server said no") | {"text": None},
}


def scored(folder: Path, scorer: str, *rows: dict[str, object], **changes: object) -> AnswerSet:
    answers = publish(LocalRepository(folder), rows, scorers=(scorer,), **changes)
    score(answers, scorer)
    return answers


def test_the_pages_of_a_repository(door: Door):
    reader = Reader(door.folder / "shown")
    rows = [*ANSWERS.values(), *numbers(9, 13)]
    base = scored(reader.repository.folder, "number", *rows, model="org/base")
    score_with_an_older_scorer(base, lambda _: {"value": 0.0, "extracted": "77"})
    changed = [ANSWERS["thought"] | {"text": "#### 1"}, ANSWERS["agent"] | {"text": "#### 3"}]
    others = [*changed, *rows[2:]]
    other = scored(reader.repository.folder, "number", *others, model="org/other")
    ids = [found.manifest.answer_set_id for found in (base, other)]
    pages = {
        "sets": "/",
        "answers": f"/sets/{ids[0]}",
        "compare": f"/compare/{ids[0]}/{ids[1]}",
        "question": f"/compare/{ids[0]}/{ids[1]}/question?sample=sample-00001",
        "difference": f"/compare/{ids[0]}/{ids[1]}/question?sample=sample-00001&view=difference",
    }
    for name, shown in ANSWERS.items():
        pages[f"answer-{name}"] = f"/sets/{ids[0]}/answer?sample={shown['sample_id']}&number=0"
    for name, address in pages.items():
        door.matches(f"viewer/{name}.html", reader.page(address).html)


def test_letters_and_repeats(door: Door):
    reader = Reader(door.folder / "shown")
    choices = {"text": None, "target": "B", "choices": ["red", "<b>blue</b>"]}
    ranked = {"label_logprobs": [-2.0, -0.5], "label_method": "single_token"}
    asked = {"method": "rank", "sampling": SamplingParams(max_tokens=1)}
    folder = reader.repository.folder
    letters = scored(folder, "choice_logprob", row(1) | choices | ranked, **asked)
    warm = SamplingParams(temperature=1.0)
    rows = [row(n, f"#### {n + repeat}", repeat=repeat) for n in range(4) for repeat in range(3)]
    several = scored(folder, "number", *rows, repeats=3, sampling=warm)
    for name, answers in {"answer-letters": letters, "answer-repeats": several}.items():
        address = f"/sets/{answers.manifest.answer_set_id}/answer?sample=sample-00001&number=0"
        door.matches(f"viewer/{name}.html", reader.page(address).html)
    several_page = reader.page(f"/sets/{several.manifest.answer_set_id}")
    door.matches("viewer/answers-repeats.html", several_page.html)
