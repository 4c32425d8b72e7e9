"""Values of Python and JSON in a slot are compared as what they are."""

import pytest

from tests.scorers.batches import read


@pytest.mark.parametrize(
    ("text", "target", "right"),
    [
        ('{"answer": [0]}', "[0]", True),
        ('{"answer": [0]}', "0", False),
        ('{"answer": "[0, 1]"}', "[0, 1]", True),
        ('{"answer": [1, [2, "a, b}"]], "x": 3}', "[1, [2, 'a, b}']]", True),
        ('{"answer": {"b": 1, "a": null}, "x": 3}', "{'a': None, 'b': 1}", True),
        ('{"answer": true}', "True", True),
        ('{"answer": true}', "1", False),
        ("\\boxed{['ab cd']}", "['ab', 'cd']", False),
        ("\\boxed{\\{1, 2\\}}", "{2, 1}", True),
        ("\\boxed{\\text{True}}", "True", True),
        ("<answer>'Abb'</answer>", "'AbB'", False),
        ("<answer>'-2139-1'</answer>", "-2139-1", True),
        ("So the answer is [1.0, 2].", "[1, 2]", True),
        ("So the answer is `(1, 2)`, a tuple.", "(1, 2)", True),
        ("So the answer is (1, 2).", "[1, 2]", False),
        ("The answer is 42, because it is.", "42", True),
        ("Answer: -0.5", "-.5", True),
        ("Answer: None", "None", True),
        ("Answer: hello world", "'hello world'", True),
        ("['a']", '["a"]', True),
        ('{"answer": "yes "}', "'yes '", True),
        ('{"answer": "   7 "}', "'   7 '", True),
        ('{"answer": "   7 "}', "7", True),
        ('{"answer": "7"}', "'7'", False),
        ('{"answer": "a\\\\nb"}', "'a\\nb'", True),
        ('{"answer": "a\\nb "}', "'a\\nb '", True),
        ('{"answer": "\\\\foo"}', "'\\\\foo'", True),
        ("Sum:\n1 + 1", "2", False),
        ("Answer: [", "[", True),
        ("Answer: " + "[" * 4000, "[]", False),
    ],
)
def test_a_value_in_a_slot_is_compared_by_type_and_content(
    text: str, target: str, right: bool
) -> None:
    assert (read("literal", text, target)["value"] == 1.0) is right


def test_the_place_of_a_value_is_the_value() -> None:
    text = 'é {"answer": [1, 2], "x": 3}'
    score = read("literal", text, "[1, 2]")

    assert text[score["start"] : score["end"]] == score["extracted"] == "[1, 2]"
    assert read("literal", "a\nb", "1")["outcome"] == "unparsed"
