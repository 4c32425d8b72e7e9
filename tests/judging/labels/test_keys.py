"""Keys of labels in a terminal."""

import pytest

from regrade.judging.labels.keys import COMMANDS, label_keys


@pytest.mark.parametrize(
    ("labels", "keys"),
    [
        (("A", "B", "C"), ["a", "b", "c"]),
        (("skip", "back", "quit"), ["s", "b", "u"]),
        (("wrong", "right"), ["w", "r"]),
        (("bad", "b"), ["a", "b"]),
        (("10", "1"), ["0", "1"]),
        (("q", "r"), ["1", "r"]),
        (("2", "?!", "<", "."), ["2", "1", "3", "4"]),
        ((), []),
    ],
)
def test_each_label_has_a_key_of_its_own(labels: tuple[str, ...], keys: list[str]) -> None:
    found = label_keys(labels)

    assert list(found) == keys
    assert tuple(found.values()) == labels
    assert not set(found) & set(COMMANDS)
