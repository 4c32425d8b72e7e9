import json
import shutil
from pathlib import Path

import pytest

from regrade.answers.aliases import aliased_sets, move_alias, read_alias
from regrade.answers.hub import HubRepository
from regrade.answers.local import LocalRepository
from regrade.answers.verify import verify
from regrade.comparing.comparison import CompareOptions
from regrade.comparing.sides import find_side, named_id
from regrade.comparing.together import compare_sides
from regrade.settings.errors import (
    DamagedAnswersError,
    RepositoryError,
    SettingsError,
    UnknownNameError,
)
from tests.builders import row
from tests.comparing.sides import answer
from tests.hub_server.fixtures import Hub
from tests.stored import commit_manifest, publish


def test_a_quick_look_never_takes_the_place_of_a_full_run(repository: LocalRepository) -> None:
    full = answer(repository, "org/a", right=5, total=10)
    answer(repository, "org/a", right=3, total=4, n_shots=2)  # newer, complete, fewer questions
    answer(repository, "org/a", right=5, total=10, n_shots=4, declared=20)  # incomplete

    (found,) = find_side("org/a", repository.uri).sets.values()

    assert found.manifest.answer_set_id == full.manifest.answer_set_id


def test_a_model_is_its_newest_complete_set_of_each_benchmark(repository: LocalRepository) -> None:
    answer(repository, "org/a", right=5, total=10)
    newer = answer(repository, "org/a", right=5, total=10, n_shots=2)
    answer(repository, "org/a", right=5, total=10, n_shots=4, declared=20)  # incomplete
    other = answer(repository, "org/a", right=5, total=10, benchmark="products")

    for name in ("org/a", "a"):
        side = find_side(name, repository.uri)
        ids = {key: answers.manifest.answer_set_id for key, answers in side.sets.items()}
        assert ids == {
            "sums": newer.manifest.answer_set_id,
            "products": other.manifest.answer_set_id,
        }
    assert [*find_side("a", repository.uri, ["products"]).sets] == ["products"]


def test_a_model_with_incomplete_answers_only_is_refused_with_their_ids(
    repository: LocalRepository,
) -> None:
    answers = answer(repository, "org/a", right=5, total=10, declared=20)
    rows = [row(0), row(1, error="timeout")]
    failed = publish(repository, rows, model="org/c")

    for name, found, state in (
        ("a", answers, "10 of 20 answers"),
        ("c", failed, "2 of 2 answers, 1 failed"),
    ):
        with pytest.raises(RepositoryError, match=rf"{found.manifest.answer_set_id} \({state}\)"):
            find_side(name, repository.uri)
    assert find_side(answers.manifest.answer_set_id, repository.uri).one_set
    with pytest.raises(RepositoryError, match="no answers of 'b', and no alias"):
        find_side("b", repository.uri)


def test_a_set_that_cannot_be_read_may_be_the_one_that_a_model_stands_for(
    repository: LocalRepository,
) -> None:
    answer(repository, "org/a", right=5, total=10)
    other = answer(repository, "org/a", right=5, total=10, benchmark="products")
    commit_manifest(other, schema_version=99)

    with pytest.raises(
        DamagedAnswersError,
        match=f"'{other.folder}/manifest.json' is damaged: .* It may be what 'a' stands for",
    ):
        find_side("a", repository.uri)
    assert [*find_side("a", repository.uri, ["sums"]).sets] == ["sums"]


def test_a_judges_verdicts_that_cannot_be_read_say_nothing_about_its_own_answers(
    repository: LocalRepository, caplog: pytest.LogCaptureFixture
) -> None:
    answer(repository, "org/a", right=5, total=10)
    verdicts = answer(repository, "org/a", right=5, total=10, benchmark="judge:correct:sums")
    commit_manifest(verdicts, schema_version=99)

    assert [*find_side("a", repository.uri).sets] == ["sums"]
    assert f"'{verdicts.folder}/manifest.json' is damaged" in caplog.text


def test_an_id_on_one_side_asks_the_other_for_the_same_benchmark(
    repository: LocalRepository,
) -> None:
    base = answer(repository, "org/a", right=5, total=10)
    for name in ("sums", "products"):
        answer(repository, "org/b", right=5, total=10, benchmark=name)

    found = compare_sides(base.manifest.answer_set_id[:8], "org/b", answers=repository.uri)

    assert [*found.compared] == ["sums"]
    assert found.only_base == found.only_candidate == ()
    back = compare_sides("org/b", base.manifest.answer_set_id, answers=repository.uri)
    assert [*back.compared] == ["sums"]


def test_benchmarks_that_only_one_side_has_are_named(
    repository: LocalRepository, tmp_path: Path
) -> None:
    elsewhere = LocalRepository(tmp_path / "elsewhere")
    answer(elsewhere, "org/a", right=5, total=10)
    answer(elsewhere, "org/a", right=5, total=10, benchmark="products")
    answer(repository, "org/b", right=5, total=10)
    answer(repository, "org/b", right=5, total=10, benchmark="roots")

    found = compare_sides("a", "b", answers=repository.uri, base_answers=elsewhere.uri)

    assert ([*found.compared], found.only_base, found.only_candidate) == (
        ["sums"],
        ("products",),
        ("roots",),
    )


def test_a_scorer_that_is_not_here_refuses_its_benchmark_and_ends_nothing_unless_it_is_chosen(
    repository: LocalRepository,
) -> None:
    for model in ("org/a", "org/b"):
        answer(repository, model, right=5, total=10)
        answer(repository, model, right=5, total=10, benchmark="products", scorers=("theirs",))

    found = compare_sides("a", "b", answers=repository.uri)

    assert [*found.compared] == ["sums"]
    assert "'theirs'" in found.refused["products"]
    with pytest.raises(UnknownNameError, match="theirs"):
        compare_sides("a", "b", answers=repository.uri, options=CompareOptions(scorer="theirs"))


@pytest.mark.parametrize("other", ["products", "lm_eval:arc_easy", "judge:correct:sums"])
def test_an_alias_stands_for_answer_sets_until_it_is_moved(
    repository: LocalRepository, other: str
) -> None:
    first = answer(repository, "org/a", right=5, total=10)
    product = answer(repository, "org/a", right=5, total=10, benchmark=other)
    second = answer(repository, "org/b", right=5, total=10)

    move_alias(repository, "baseline", [first, product])
    alias, revision = move_alias(repository, "baseline", [second])

    assert alias.answer_sets == {
        "sums": second.manifest.answer_set_id,
        other: product.manifest.answer_set_id,
    }
    assert repository.head() == revision
    assert move_alias(repository, "baseline", [second])[1] == revision  # nothing to commit
    side = find_side("baseline", repository.uri)
    assert side.sets["sums"].manifest.answer_set_id == second.manifest.answer_set_id


def test_an_alias_is_taken_before_an_id_that_begins_alike(repository: LocalRepository) -> None:
    sets = [answer(repository, f"org/{number}", right=1, total=2) for number in range(8)]
    ids = [found.manifest.answer_set_id for found in sets]
    name = next(key for key in ids if key[0].isalpha())
    meant = next(found for found in sets if found.manifest.answer_set_id != name)
    _, revision = move_alias(repository, name, [meant])

    assert named_id(repository, revision, name) == meant.manifest.answer_set_id
    [found] = find_side(name, repository.uri).sets.values()
    assert found.manifest == meant.manifest


def test_a_model_named_like_the_first_three_digits_of_an_id_is_a_model(
    repository: LocalRepository,
) -> None:
    other = answer(repository, "org/b", right=1, total=2).manifest.answer_set_id
    meant = answer(repository, f"org/{other[:3]}", right=1, total=2).manifest

    head = repository.head()
    assert head is not None
    assert named_id(repository, head, other[:3]) == meant.answer_set_id
    assert named_id(repository, head, other[:4]) == other[:4]


def test_an_alias_survives_a_copy_of_the_folder_without_its_log(
    repository: LocalRepository, tmp_path: Path
) -> None:
    move_alias(repository, "baseline", [answer(repository, "org/a", right=5, total=10)])
    shutil.copytree(repository.folder, tmp_path / "copy", ignore=lambda *_: {".regrade"})

    assert [*find_side("baseline", str(tmp_path / "copy")).sets] == ["sums"]


def alias_file(benchmark: str, answer_set_id: str, name: str = "baseline") -> bytes:
    sets = {benchmark: answer_set_id}
    moved = {"name": name, "answer_sets": sets, "moved_at": "2026-01-01T00:00:00Z"}
    return json.dumps(moved).encode()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{", "not an alias"),
        (b"[]", "not an alias"),
        (b'{"schema_version": 99}', "upgrade regrade"),
        (alias_file("sums", "%s", name="other"), "to alias 'other'"),
        (alias_file("../../x", "0123456789abcdef"), "not an alias"),
        (alias_file("sums", "../../etc"), "not an alias"),
        (alias_file("sums", "0123456789abcdef"), "sums has no answer set '0123456789abcdef'"),
    ],
)
def test_an_alias_from_a_stranger_is_checked(
    repository: LocalRepository, content: bytes, says: str
) -> None:
    answers = answer(repository, "org/a", right=5, total=10)
    content = content.replace(b"%s", answers.manifest.answer_set_id.encode())
    repository.commit({"aliases/baseline.json": content}, "stranger", parent=repository.head())

    with pytest.raises(DamagedAnswersError, match=says):
        find_side("baseline", repository.uri)


def test_verify_names_aliases_that_stand_for_nothing(repository: LocalRepository) -> None:
    answers = answer(repository, "org/a", right=5, total=10)
    move_alias(repository, "baseline", [answers])
    gone = alias_file("sums", "0" * 16, name="gone")
    files = {"aliases/gone.json": gone, "aliases/note.txt": b"hello"}
    head = repository.commit(files, "stranger", parent=repository.head())

    problems = {problem.path: problem.problem for problem in verify(repository, head).problems}

    assert [*problems] == ["aliases/gone.json", "aliases/note.txt"]
    assert "sums has no answer set '0000000000000000'" in problems["aliases/gone.json"]


def test_an_alias_is_kept_on_the_hub_too(hub: Hub, tmp_path: Path) -> None:
    repository = HubRepository(
        hub.repo_id, endpoint=hub.endpoint, token=hub.token, cache=tmp_path / "cache"
    )
    answers = answer(repository, "org/a", right=5, total=10)

    alias, revision = move_alias(repository, "baseline", [answers])

    assert read_alias(repository, revision, "baseline") == alias
    assert aliased_sets(repository, revision, alias)["sums"].revision == revision


@pytest.mark.parametrize("name", ["", "Up", "../x", "a b", "9", "x" * 64])
def test_a_name_that_is_no_file_name_is_no_alias(repository: LocalRepository, name: str) -> None:
    answers = answer(repository, "org/a", right=5, total=10)

    with pytest.raises(SettingsError, match="63 lower-case letters"):
        move_alias(repository, name, [answers])


def test_two_sets_of_one_benchmark_are_no_alias(repository: LocalRepository) -> None:
    sets = [answer(repository, name, right=5, total=10) for name in ("org/a", "org/b")]

    with pytest.raises(SettingsError, match="one answer set of each benchmark"):
        move_alias(repository, "baseline", sets)
