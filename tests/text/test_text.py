from regrade.text.text import counted, significant, visible


def test_spaces_of_all_scripts_are_shown_and_control_characters_are_replaced():
    assert (
        visible("你好\u3000世界, 1\u202f000\u00a0€\n\t.")
        == "你好\u3000世界, 1\u202f000\u00a0€\n\t."
    )
    assert visible("\x1b[2J\u2028\u200b\u202e") == "\ufffd[2J\ufffd\ufffd\ufffd"


def test_a_count_of_one_has_no_plural():
    shown = [counted(number, "point") for number in (0, 1, 1.0, 1.5, 1200)]
    assert shown == ["0 points", "1 point", "1 point", "1.5 points", "1,200 points"]


def test_a_rounded_number_has_no_exponent_however_large():
    shown = [significant(number, 3) for number in (0, 0.01234, 99.96, 1000.0, 12345, 1234567.0)]
    assert shown == ["0", "0.0123", "100", "1,000", "12,300", "1,230,000"]
