"""`regrade report`: the numbers of `compare`, chosen answers, and nothing in the file that runs or reaches out."""

import base64
import hashlib
import html
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from regrade.answers.base import Repository
from regrade.answers.hub import HubRepository
from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.pages.report.gathering import Report, gather
from regrade.pages.report.page import all_sets, html_report, markdown_report
from regrade.pages.report.request import ReportRequest
from regrade.settings import SamplingParams
from regrade.settings.errors import DamagedAnswersError
from regrade.text.blocks import Fold, SideBySide, plain
from tests.builders import row, session
from tests.command_line import regrade
from tests.comparing.sides import answer
from tests.hub_server.fixtures import Hub
from tests.judged import graded
from tests.judging.running import run_judge
from tests.judging.scripted import ScriptedJudge, candidates
from tests.stored import again, commit_manifest, numbers, publish, score

HOSTILE = "</pre></details><script>alert(1)</script><img src=x onerror=alert(2)> \x1b[31m \u202eabc\u200b ```"
MODEL = "org/<b>evil</b>\u202e"


def two_sides(repository: LocalRepository) -> tuple[AnswerSet, AnswerSet]:
    """Questions 1 and 2 are wrong in the baseline; 2, 3, 5 and 7 in the candidate; 39 cannot be read there."""
    base = answer(repository, "org/base", wrong=(1, 2), total=40)
    wrong = answer(repository, "org/candidate", wrong=(2, 3, 5, 7), total=40, unparsed=1)
    for side in (base, wrong):
        score(side)
    return again(base), again(wrong)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[AnswerSet, AnswerSet]:
    """Two sides in a repository of their own, for tests that only read it."""
    return two_sides(LocalRepository(tmp_path_factory.mktemp("sides") / "answers"))


def made(repository: Repository, *names: str, **changes: object) -> Report:
    return gather(ReportRequest(answers=repository.uri, names=names, **changes))  # type: ignore[arg-type]


def text_of(page: str) -> str:
    """The text that a reader sees, on one line."""
    body = page.split("</style>")[1]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


def shown(report: Report) -> list[tuple[str, int]]:
    """Kind and number of each answer, as the titles have them."""
    titles = [plain(fold.title).split(" · ") for fold in report.examples]
    return [(kind, int(place.split()[-1])) for kind, place, *_ in titles]


def heads(fold: Fold) -> list[str]:
    """Model and verdict of the answers side by side."""
    [both] = [block for block in fold.blocks if isinstance(block, SideBySide)]
    return [plain(answer[0].text) for answer in both.columns]


def test_flipped_answers_come_first_and_each_answer_is_shown_once(
    sides: tuple[AnswerSet, AnswerSet],
):
    report = made(sides[0].repository, "org/candidate", base="org/base")
    assert shown(report) == [
        ("right to wrong", 3),
        ("right to wrong", 5),
        ("right to wrong", 7),
        ("right to wrong", 39),
        ("wrong to right", 1),
        ("wrong", 2),
    ]
    assert report.available == 6
    assert "read: 39 → nothing · target: 39" in plain(report.examples[3].title)
    assert heads(report.examples[3]) == ["org/base right", "org/candidate unparsed"]


@pytest.mark.parametrize("limit", [0, 1, 7, 50])
def test_the_number_of_answers_is_the_limit_spread_over_kinds_and_sets(
    repository: LocalRepository, limit: int
):
    ids = []
    for model in ("org/one", "org/two"):
        rows = [row(n, f"#### {n + 1}") for n in range(30)]
        rows += [row(n, "no idea") for n in range(30, 60)]
        answers = publish(repository, rows, model=model)
        score(answers)
        ids.append(answers.manifest.answer_set_id)
    report = made(repository, *ids, examples=limit)
    assert len(report.examples) == limit
    if limit == 50:
        found = shown(report)
        assert [kind for kind, _ in found].count("unparsed") == 10
        of_first = [ids[0] in plain(fold.blocks[-1].text) for fold in report.examples]
        assert of_first.count(True) == 25
        numbers_shown = [
            number for (_, number), first in zip(found, of_first, strict=True) if first
        ]
        assert numbers_shown[0] == 0
        assert max(n for n in numbers_shown if n < 30) > 20


def test_nothing_in_the_file_runs_or_is_loaded_from_elsewhere(repository: LocalRepository):
    rows = [
        row(1, f"#### 9 {HOSTILE}", subset=HOSTILE, prompt=HOSTILE, target=HOSTILE)
        | {"sample_id": HOSTILE, "question": HOSTILE, "reasoning": HOSTILE},
        row(2, "x", error=HOSTILE) | {"text": None},
        *numbers(3, 6),
    ]
    score(publish(repository, rows, model=MODEL, total=5, scorers=("exact",)), "exact")
    page = html_report(made(repository))
    policy = html.unescape(re.findall(r'Content-Security-Policy" content="([^"]*)"', page)[0])
    [style] = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:" in policy
    tags = set(re.findall(r"<([a-zA-Z][\w-]*)", page.replace(style, "")))
    assert not tags & {"script", "iframe", "form", "link", "object", "embed", "base", "b0"}
    assert not re.findall(r"<[^>]* on\w+=", page)
    assert not re.findall(r'(?:src|href|srcset)="(?!data:image/png;base64,)', page)
    assert not re.findall(r"<(?:img)[^>]*src=x", page)
    for hidden in ("\x1b", "\u202e", "\u200b"):
        assert hidden not in page
    assert "U+202E" in page
    assert "<b>evil" not in page
    assert "alert(1)" in text_of(page)


def test_markdown_shows_hostile_texts_as_text(repository: LocalRepository):
    rows = [row(1, f"#### 9 {HOSTILE}\n# not a heading", question=HOSTILE), *numbers(3, 6)]
    score(publish(repository, rows, model=MODEL))
    page = markdown_report(made(repository))
    for line in page.split("\n"):
        if "<script" in line or "onerror" in line or "# not a heading" in line:
            assert line.startswith("    ")  # code
    assert "[U+202E]" in page
    assert "\u202e" not in page
    assert page.count("\n<details") == page.count("\n</details>") == 3


def test_markdown_can_be_posted_and_has_no_pictures_in_it(repository: LocalRepository):
    long = [row(number, f"{'because ' * 60}#### {number + 1}") for number in range(300)]
    score(publish(repository, long, model="org/many"))
    page = markdown_report(made(repository, "org/many"))
    assert 59_000 < len(page) <= 60_000
    assert "The rest is too long for this page." in page[-100:]
    assert "data:" not in page


def test_a_letter_is_shown_with_the_text_of_its_choice(repository: LocalRepository):
    cities = ["Rome", "Paris"]
    asked = [row(n, "The answer is A.", target="B", choices=cities) for n in range(3)]
    score(publish(repository, asked), "choice_letter")
    report = made(repository)
    for page in (markdown_report(report), html_report(report)):
        assert "Rome" in page
        assert "Paris" in page


def test_a_folded_answer_has_a_heading_without_backslashes(repository: LocalRepository):
    odd = "part_1 <b>*x*\n\n# no"
    rows = [row(1, "#### 9", subset=odd), *numbers(3, 6)]
    score(publish(repository, rows, benchmark="my_sums"))
    page = markdown_report(made(repository))
    shown = MarkdownIt("commonmark", {"html": True}).render(page)
    [*_, summary] = re.findall(r"<summary>(.*?)</summary>", shown, re.DOTALL)
    assert html.unescape(summary).startswith("wrong · my_sums 1 · part_1 <b>*x* # no · read: 9")
    assert "<b>" not in summary


def test_withheld_questions_stay_withheld(repository: LocalRepository):
    rows = [row(n, "#### 77", question="SECRET?", prompt="SECRET!") for n in range(4)]
    answers = publish(repository, rows)
    score(answers)
    manifest = answers.manifest.model_dump(mode="json") | {"withheld": True}
    content = answers.manifest.model_validate(manifest).model_dump_json().encode()
    repository.commit({f"{answers.folder}/manifest.json": content}, "x", parent=repository.head())
    report = made(repository)
    assert len(report.examples) == 4
    for page in (html_report(report), markdown_report(report)):
        assert "SECRET" not in page
        assert "This question must not be published." in page


def test_a_long_answer_shows_its_start_its_end_and_what_was_read(repository: LocalRepository):
    text = "START " + "x " * 9000 + "#### 41 then " + "y " * 9000 + "END"
    score(publish(repository, [row(1, text)]))
    page = html_report(made(repository))
    shown = page.split("<details", 1)[1]
    assert "START" in shown
    assert re.search(r"<mark>#### 41</mark>|<mark>41</mark>", shown)
    assert "characters left out" in shown
    score(publish(repository, [row(1, "x " * 9000 + "END")], model="org/other"))
    assert "END</pre>" in html_report(made(repository, "org/other"))


def test_the_commit_of_the_answers_is_exact(sides: tuple[AnswerSet, AnswerSet]):
    repository = sides[0].repository
    page = text_of(html_report(made(repository, "org/candidate")))
    assert f"answers at {repository.head()}" in page


def test_seconds_tokens_and_engine_are_those_of_the_sessions(repository: LocalRepository):
    answers = publish(repository, numbers(0, 4))
    score(answers)
    sessions = [
        session(
            id=None,
            started_at=datetime(2026, 11, day, tzinfo=UTC),
            regrade_version="0.1.0",
            load_seconds=30,
            generate_seconds=20,
            rows=2,
            prompt_tokens=1000,
            completion_tokens=2000,
        ).model_dump(mode="json")
        for day in (1, 2)
    ]
    commit_manifest(answers, sessions=sessions)
    report = made(repository)
    page, markdown = text_of(html_report(report)), markdown_report(report)
    assert "60.0 40.0" in page
    assert "2,000 4,000 100" in page
    assert "| 2,000 | 4,000 | 100 |" in markdown
    for shown in (page, markdown):
        assert shown.count("regrade 0.1.0, vllm 0.32.0, cpu, float32") == 1


def test_sets_that_differ_in_more_than_the_model_are_not_compared_unless_allowed(
    repository: LocalRepository,
):
    for model, shots in (("org/base", 0), ("org/candidate", 5)):
        score(answer(repository, model, wrong=(2,), total=20, n_shots=shots))
    from regrade.settings.errors import SettingsError

    with pytest.raises(SettingsError, match="few_shot"):
        made(repository, "org/candidate", base="org/base")
    report = made(repository, "org/candidate", base="org/base", allow=("few_shot",))
    assert report.sets[0].comparison is not None


def test_the_chosen_scorer_gives_the_numbers_of_the_baseline_too(repository: LocalRepository):
    for side in two_sides(repository):
        score(side, "exact")
    report = made(repository, "org/candidate", base="org/base", scorer="exact")
    [item] = report.sets
    assert item.base is not None
    scorings = [stored.headline for stored in all_sets(report)]
    assert [scoring.scorer for scoring in scorings if scoring] == ["exact", "exact"]


def test_repeats_have_their_averages_and_the_first_answer_is_shown(repository: LocalRepository):
    for model, wrong in (("org/base", 0), ("org/candidate", 2)):
        rows = [
            row(n, f"#### {n + (n < wrong)}", repeat=repeat) for n in range(6) for repeat in (0, 1)
        ]
        sampling = SamplingParams(temperature=0.6)
        score(publish(repository, rows, repeats=2, sampling=sampling, model=model))
    report = made(repository, "org/candidate", base="org/base")
    page = text_of(html_report(report))
    assert "avg@2 66.67" in page
    assert "pass@2 66.7" in page
    flips = [title for e in report.examples if "right to wrong" in (title := plain(e.title))]
    assert [title.split(" · ")[1:3] for title in flips] == [["sums 0", "even"], ["sums 1", "odd"]]
    assert not any("repeat" in title for title in flips)


def test_answers_on_the_hub_are_named_with_their_page(hub: Hub, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    monkeypatch.setenv("HF_TOKEN", hub.token)
    stored = HubRepository(hub.repo_id, endpoint=hub.endpoint, token=hub.token)
    score(publish(stored, numbers(0, 3)))
    report = gather(ReportRequest(answers=stored.uri))
    page = html_report(report)
    assert f"regrade view {stored.uri} " in text_of(page)
    assert f"{hub.endpoint}/datasets/{hub.repo_id}/tree/{stored.head()}/answers/sums/" in page
    assert hub.token not in page


def test_a_report_of_all_sets_names_the_damaged_ones_and_a_named_set_is_refused(
    repository: LocalRepository, tmp_path: Path
):
    two_sides(repository)
    unread = answer(repository, "org/unread", right=10, total=10)
    commit_manifest(unread, schema_version=99)
    cut = answer(repository, "org/cut", right=10, total=10)
    shard = repository.folder / cut.folder / cut.manifest.shards[0].name
    shard.chmod(0o644)
    shard.write_bytes(bytes(shard.stat().st_size))
    path = tmp_path / "report.html"

    ran = regrade("report", path, "--answers", repository.uri, "--json")

    page = path.read_text()
    assert {item.stored.model for item in made(repository).sets} == {"org/base", "org/candidate"}
    for damaged in (unread, cut):
        assert f"left out: '{damaged.folder}/" in text_of(page)
        assert any(f"{damaged.folder}/" in file["path"] for file in ran.document["damaged"])
    assert (ran.code, ran.err.count("left out: ")) == (1, 2)
    assert str(tmp_path) not in page
    with pytest.raises(DamagedAnswersError, match=cut.folder):
        made(repository, "org/cut")


def test_a_report_has_no_path_of_the_machine_that_made_it(sides: tuple[AnswerSet, AnswerSet]):
    repository = sides[0].repository
    report = made(repository, "org/candidate", base="org/base")
    for page in (html_report(report), markdown_report(report)):
        assert str(Path(repository.uri).parent) not in html.unescape(page)


def test_a_judges_verdicts_are_named_by_the_judged_model_and_grades_by_their_scale(
    repository: LocalRepository,
):
    graded(repository, "org/a", (3, 2))
    graded(repository, "org/b", (1, 2))
    benchmark = "judge:accuracy_style:sums"
    sets = {
        stored.answers.manifest.specification.benchmark.parameters["judge_run"]["judged"][
            "model"
        ]: stored.id
        for stored in (item.stored for item in made(repository).sets)
        if stored.answers.manifest.specification.benchmark.name == benchmark
    }
    report = made(repository, sets["org/b"], base=sets["org/a"])
    [flip, *_] = report.examples
    assert plain(flip.title).startswith("right to wrong · ")
    assert heads(flip) == ["org/a (judge org/judge) right", "org/b (judge org/judge) wrong"]
    page = text_of(html_report(report))
    assert f"org/b (judge org/judge) {sets['org/b'][:8]}" in page
    assert f"judge: org/judge at {'a' * 40} (hub)" in page
    assert f"model: org/b at {'a' * 40} (hub)" in page
    assert "| org/b (judge org/judge) " in html.unescape(markdown_report(report)).replace("\\", "")


def test_a_verdict_that_quotes_a_mark_of_reasoning_is_shown_whole(
    repository: LocalRepository, tmp_path: Path
):
    candidates(repository, ["It is 5."])
    said = json.dumps({"explanation": "It writes </think> and more", "verdict": "B"})
    verdicts = run_judge(ScriptedJudge(lambda _: said), tmp_path, rubric="correct")
    score(verdicts, "judge")
    [example] = made(repository, verdicts.manifest.answer_set_id).examples
    [_, _, quoted, _] = example.blocks  # no thought before it
    assert plain(quoted.text) == said
