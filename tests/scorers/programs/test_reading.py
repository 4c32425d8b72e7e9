"""Programs are read out of answers as a careful reader would."""

import pytest

from regrade.scorers.programs.reading import read_program
from tests.timing import taking_less_than

F = "def f(x):\n    return x\n"


def read(answer: str, name: str | None = "f", *, completion: bool = False) -> str | None:
    program = read_program(answer, name, is_completion=completion)
    if program is not None:
        assert answer[program.start : program.end] == program.source
    return program and program.source


@pytest.mark.parametrize(
    "answer",
    [
        f"```python\n{F}```",
        f"Sure:\n\n```py\n{F}```\n\nThis works.",
        f"```\n{F}```",
        f"~~~python\n{F}~~~",
        f"````python\n{F}````",
        f"First:\n```python\ndef f(x):\n    pass\n```\nBetter:\n```python\n{F}```",
        f"```python\n{F}```\nA test:\n```python\nassert f(1) == 1\n```\nRun it:\n```bash\npython f.py\n```",
        f"```text\nno code\n```\n```Python\n{F}```",
        f"```python title=f.py\n{F}```",
        f"It begins\n```python\n{F}",
    ],
)
def test_the_last_block_that_defines_the_function_is_the_program(answer: str):
    assert read(answer) == F


def test_without_the_function_the_last_block_of_python_is_the_program():
    assert read("```python\n    return x\n```\n```json\n{}\n```") == "    return x\n"
    assert (
        read("```python\nn = int(input())\n```\nor\n```python\nprint(1)\n```", None) == "print(1)\n"
    )


def test_a_program_without_fences_is_read_if_it_defines_the_function():
    answer = f"Here is the function.\n\nimport math\n\n{F}\nIt returns its argument."
    assert read(answer) == "import math\n\ndef f(x):\n    return x"
    assert read("def g(x):\n    return x\n") is None
    assert read("I do not know.") is None
    assert read("") is None


def test_a_program_whose_block_the_prompt_had_opened_ends_at_the_fence():
    assert str(read(f"{F}```\nThis works.")).rstrip() == F.rstrip()
    assert read(f"```\nhello\n```\n{F}```\nThis works.") != F  # this fence opens one


@pytest.mark.parametrize(
    "after", ["", "```", "```\nThis works.", "```\nA test:\n```python\nassert f(1) == 1\n```"]
)
def test_the_body_of_a_function_that_the_prompt_had_begun_ends_at_the_fence(after: str):
    body = '\n    """Returns it."""\n    return x\n'
    assert read(f"{body}{after}") == body
    assert read(f"    I do not know.\n{after}") != "    I do not know.\n"


def test_a_module_string_before_the_function_is_part_of_the_program():
    answer = f'"""Returns its\nargument, unchanged."""\n\n{F}\nIt works.'
    assert read(answer) == f'"""Returns its\nargument, unchanged."""\n\n{F}'.rstrip()


def test_a_completion_is_the_program_unless_a_block_defines_the_function():
    assert read("    return x\n", completion=True) == "    return x\n"
    assert read(f"    return x\n```python\n{F}```", completion=True) == F
    assert read("  ", completion=True) is None


def test_classes_variables_and_annotations_define_a_name():
    sources = ("class f: pass\n", "f = lambda x: x\n", "async def f(x): pass\n", "f: int = 1\n")
    for source in sources:
        assert read(f"```python\n{source}```\n```python\nother()\n```") == source
    assert read("```python\n    def f(x): pass\n```\n```python\nf(1)\n```") == "f(1)\n"


@pytest.mark.parametrize(
    "piece", ["```python\n", "`", "def f(x):\n", "\n", "~~~\n", "x = ", "f = f = ", " "]
)
def test_a_long_text_of_anything_takes_bounded_time(piece: str):
    text = piece * (300_000 // len(piece))
    taking_less_than(5, lambda: (read(text), read(text, None, completion=True)))


def test_a_fence_in_a_list_gives_the_program_without_its_indentation():
    answer = "1. The code:\n\n   ```python\n   def f(x):\n       return x + 1\n   ```\n\n2. Done."
    program = read_program(answer, "f", is_completion=False)

    assert program.source == "def f(x):\n    return x + 1\n"
    assert answer[program.start : program.end] == "   def f(x):\n       return x + 1\n"


def test_an_unlabelled_block_after_the_program_is_its_output_and_otherwise_the_program():
    assert read("```python\nprint(1)\n```\nOutput:\n```\n1\n```", None) == "print(1)\n"
    assert read("```\nx = 1\n```\nBetter:\n```\nx = 2\n```", None) == "x = 2\n"


@pytest.mark.parametrize(
    "answer", ["~" * 200_000 + "`", "`" * 200_000 + "~`", "~~~" + "a" * 200_000 + "`"]
)
def test_a_line_of_fences_that_never_ends_takes_linear_time(answer: str):
    taking_less_than(1, lambda: read(answer))
