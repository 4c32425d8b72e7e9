"""Choices of multiple choice questions: conversion between positions, letters and texts."""

from string import ascii_uppercase

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from regrade.scorers.base import check_targets
from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.wording import comparable
from regrade.settings import ScorerName

_LETTERS = pa.array([*ascii_uppercase])


def target_letters(scorer: ScorerName, batch: pa.RecordBatch) -> c.Strings:
    """Return the batch's targets as capital letters; `(b)`, `B.` and `B)` are B.

    Raises:
        SettingsError: If a target is not a letter.
    """
    letter = r"\A\s*[(\[]?(?P<letter>[A-Za-z])[)\]]?[.:]?\s*\z"
    targets = c.uppered(c.captured(c.column(batch, "target"), letter)["letter"])
    check_targets(scorer, "the letter of a choice", batch, c.is_present(targets))
    return targets


def letters_at(positions: NDArray[np.int64]) -> c.Strings:
    """Return the letters of positions (0 is A); null for positions below 0 or above 25."""
    known = (positions >= 0) & (positions < len(_LETTERS))
    return c.choose(pa.array(known), c.taken(_LETTERS, np.where(known, positions, 0)), None)


def existing(letters: c.Strings, choices: c.Lists) -> c.Strings:
    """Return the letters, with null for a letter beyond the row's choices. Rows without choices keep any letter."""
    positions = pc.index_in(letters, value_set=_LETTERS).fill_null(-1).to_numpy()
    counts = c.list_lengths(choices)
    return c.choose(pa.array((counts > 0) & (positions >= counts)), None, letters)


def chosen_by_text(texts: c.Strings, choices: c.Lists) -> c.Strings:
    """Return the letter of the choice that equals each text; null if no choice, or more than one, is equal.

    Texts are compared after `comparable`.
    """
    counts = c.list_lengths(choices)
    owner = np.repeat(np.arange(len(texts)), counts)
    position = np.arange(owner.size) - np.repeat(np.cumsum(counts) - counts, counts)
    given = c.taken(comparable(texts), owner)
    equal = c.is_equal(comparable(c.flattened(choices)), given)
    hits = np.flatnonzero(equal.to_numpy(zero_copy_only=False))
    rows, first, times = np.unique(owner[hits], return_index=True, return_counts=True)
    found = np.full(len(texts), -1, np.int64)
    found[rows[times == 1]] = position[hits[first[times == 1]]]
    return letters_at(found)
