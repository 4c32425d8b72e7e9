from regrade.text.text import counted


def test_a_count_of_one_has_no_plural():
    shown = [counted(number, "point") for number in (0, 1, 1.0, 1.5, 1200)]
    assert shown == ["0 points", "1 point", "1 point", "1.5 points", "1,200 points"]
