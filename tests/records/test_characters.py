from regrade.records.characters import whole_characters


def test_half_a_character_is_replaced_and_whole_ones_stay():
    assert whole_characters("a\ud83d b") == "a\N{REPLACEMENT CHARACTER} b"
    assert whole_characters("\U0001f600 naïve") == "\U0001f600 naïve"
