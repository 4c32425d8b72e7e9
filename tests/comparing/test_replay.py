"""Replays: equal to the model's own noise or not, what is left out, and where two models part."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.opening import newest_revision
from regrade.answers.sets import AnswerSet, list_sets, readable_sets
from regrade.answers.verify import verify
from regrade.comparing.replay import Replay, blocks, compared
from regrade.comparing.sides import find_side
from regrade.records.specification import REPLAYS
from regrade.settings.errors import RepositoryError
from regrade.text.markdown import markdown
from tests.builders import row
from tests.stored import numbers, publish

QUESTIONS, TOKENS = 40, 30
Logprobs = Any


class Stored:
    """A repository with answers, and the log-probabilities that their model gives them."""

    def __init__(self, folder: Path) -> None:
        self.repository = LocalRepository(folder)
        self.answers = publish(self.repository, numbers(0, QUESTIONS))
        self.random = np.random.default_rng(0)
        self.logprobs = -self.random.exponential(0.5, (QUESTIONS, TOKENS))

    def replay(
        self, *readings: Logprobs, model: str = "org/tiny", greedy: Logprobs = None, **changes: Any
    ) -> AnswerSet:
        """Publish a replay with the log-probabilities of each reading; `greedy` tells the first choices."""
        rows = [
            row(
                number,
                repeat=repeat,
                token_ids=[*range(TOKENS)],
                token_logprobs=logprobs[number].tolist(),
                token_is_greedy=[True] * TOKENS if greedy is None else greedy[number].tolist(),
            )
            | changes.get(str(number), {})
            for repeat, logprobs in enumerate(readings)
            for number in range(QUESTIONS)
        ]
        return publish(
            self.repository,
            rows,
            benchmark="replay:sums",
            model=model,
            repeats=len(readings),
            scorers=(),
            method="rank",
        )

    def noisy(self, size: float) -> Logprobs:
        return self.logprobs + self.random.normal(0, size, self.logprobs.shape)


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    return Stored(tmp_path / "answers")


def replayed(stored: Stored, own: AnswerSet, other: AnswerSet) -> Replay:
    found = compared(stored.answers, own, other)
    assert isinstance(found, Replay)
    return found


def test_a_model_that_finds_the_same_is_the_same(stored: Stored) -> None:
    own = stored.replay(stored.logprobs, stored.logprobs)
    other = stored.replay(stored.logprobs, model="org/other")

    found = replayed(stored, own, other)

    assert (found.same, found.verdict) == (True, "the same up to noise")
    assert (found.answers, found.tokens) == (QUESTIONS, QUESTIONS * TOKENS)
    assert (found.difference.value, found.absolute.largest, found.noise.largest) == (0, 0, 0)
    assert (found.parted, found.left_out) == (0, {})


def test_differences_as_large_as_those_of_the_model_from_itself_are_noise(stored: Stored) -> None:
    own = stored.replay(stored.noisy(0.01), stored.noisy(0.01))
    other = stored.replay(stored.noisy(0.01), model="org/other")

    found = replayed(stored, own, other)

    assert found.same
    assert found.noise.mean == pytest.approx(found.absolute.mean, rel=0.1)


def test_a_model_that_differs_by_more_than_noise_is_another_one(stored: Stored) -> None:
    own = stored.replay(stored.noisy(0.01), stored.noisy(0.01))
    other = stored.replay(stored.noisy(0.03) - 0.02, model="org/other")

    found = replayed(stored, own, other)

    assert not found.same
    assert found.difference.value == pytest.approx(-0.02, abs=0.005)
    assert found.difference.low < found.difference.value < found.difference.high < 0
    assert found.verdict.startswith(f"differs by {found.excess.value:.3g} [")
    assert found.verdict.endswith("] nats per token beyond the noise")
    assert "differs by" in markdown(blocks(found))


def test_where_the_two_part_is_the_first_token_that_is_no_longer_the_first_choice(
    stored: Stored,
) -> None:
    greedy = np.ones((QUESTIONS, TOKENS), bool)
    greedy[3, 7] = greedy[3, 9] = greedy[5, 2] = False
    changed = stored.logprobs.copy()
    changed[3, 7] -= 2
    own = stored.replay(stored.logprobs, stored.logprobs)
    other = stored.replay(changed, model="org/other", greedy=greedy)

    found = replayed(stored, own, other)

    assert found.parted == 2 / QUESTIONS
    assert [(p.sample_id, p.token, p.of) for p in found.partings] == [
        ("sample-00003", 8, TOKENS),
        ("sample-00005", 3, TOKENS),
    ]
    assert found.other.not_first == 3 / (QUESTIONS * TOKENS)
    assert found.not_first.value == 3 / (QUESTIONS * TOKENS)


def test_answers_that_one_could_not_read_or_read_with_other_tokens_are_left_out_and_counted(
    stored: Stored,
) -> None:
    own = stored.replay(stored.logprobs, stored.logprobs)
    other = stored.replay(
        stored.logprobs,
        model="org/other",
        **{
            "1": {"error": "Too long.", "error_permanent": True, "token_ids": None},
            "2": {"token_ids": [*range(1, TOKENS + 1)]},
        },
    )

    found = replayed(stored, own, other)

    assert found.answers == QUESTIONS - 2
    assert found.left_out == {"Too long.": 1, "The two models have other tokens for it.": 1}
    assert "Too long." in markdown(blocks(found))


def test_nothing_to_compare_has_its_reason(stored: Stored) -> None:
    own = stored.replay(stored.logprobs, stored.logprobs)
    failed = {"error": "Too long.", "error_permanent": True, "token_ids": None}
    every = {str(number): failed for number in range(QUESTIONS)}
    other = stored.replay(stored.logprobs, model="org/other", **every)

    assert compared(stored.answers, own, other) == "Too long."


def test_a_replay_is_no_result_of_its_model_but_part_of_what_is_verified(stored: Stored) -> None:
    replay = stored.replay(stored.logprobs, model="org/other")
    revision = newest_revision(stored.repository)

    assert replay.folder.startswith("replays/replay-sums/org--other/")
    ids = [answers.manifest.answer_set_id for answers in list_sets(stored.repository, revision)]
    assert ids == [stored.answers.manifest.answer_set_id]
    [found], damaged = readable_sets(stored.repository, revision, tops=(REPLAYS,))
    assert (found.manifest, damaged) == (replay.manifest, [])
    assert "org/other" not in stored.repository.fetch("README.md", revision).read_text()
    with pytest.raises(RepositoryError, match="no answers of 'org/other'"):
        find_side("org/other", stored.repository.uri)

    checked = verify(stored.repository, revision)
    assert (checked.answer_sets, checked.rows, checked.problems) == (2, 2 * QUESTIONS, [])
    shard = Path(stored.repository.uri, replay.folder, replay.manifest.shards[0].name)
    shard.chmod(0o644)
    shard.write_bytes(shard.read_bytes()[:-1])
    assert verify(stored.repository, revision).problems
