"""Rows of HumanEval+, MBPP+ and LiveCodeBench in their real columns, made here, with right and wrong answers."""

import base64
import json
import pickle
import zlib
from typing import Any

ASSERTION = """\
import numpy as np

def is_floats(x) -> bool:
    if isinstance(x, float):
        return True
    return isinstance(x, (list, tuple)) and all(isinstance(i, float) for i in x)

def assertion(out, exp, atol):
    same = out == exp
    if atol == 0 and is_floats(exp):
        atol = 1e-6
    if not same and atol != 0:
        assert np.allclose(out, exp, rtol=1e-07, atol=atol)
    else:
        assert same, f"out: {out}, exp: {exp}"
"""


def compared(inputs: list[Any], results: list[Any], name: str, indent: str, atol: float = 0) -> str:
    """Calls with inputs and results, as EvalPlus writes them."""
    return (
        f"{indent}inputs = {inputs}\n{indent}results = {results}\n"
        f"{indent}for i, (inp, exp) in enumerate(zip(inputs, results)):\n"
        f"{indent}    assertion({name}(*inp), exp, {atol})\n"
    )


def check(inputs: list[Any], results: list[Any]) -> str:
    return f"{ASSERTION}\ndef check(candidate):\n" + compared(inputs, results, "candidate", "    ")


INCREASED = {
    "task_id": "HumanEval/900",
    "prompt": (
        "from typing import List\n\ndef offset() -> int:\n    return 1\n\n\n"
        'def increased(numbers: List[int]) -> List[int]:\n    """Return the numbers, each increased by one.\n'
        '    >>> increased([1])\n    [2]\n    """\n'
    ),
    "canonical_solution": "    return [n + offset() for n in numbers]\n",
    "entry_point": "increased",
    "test": check([[[1, 2]], [[]], [[-(2**70)]]], [[2, 3], [], [1 - 2**70]]),
}
HALVED = {
    "task_id": "HumanEval/901",
    "prompt": 'def halved(x: float) -> float:\n    """Return half of x."""\n',
    "canonical_solution": "    return x / 2\n",
    "entry_point": "halved",
    "test": check([[1.0], [3.0], [0.1]], [0.5, 1.5, 0.05]),
}
REPEATED = {
    "task_id": "HumanEval/902",
    "prompt": 'def repeated(n: int) -> str:\n    """Return n letters."""\n',
    "canonical_solution": "    return 'a' * n\n",
    "entry_point": "repeated",
    "test": (
        f"{ASSERTION}\n\ndef ref_func(n: int) -> str:\n    return 'a' * n\n\n\ndef check(candidate):\n    inputs = [[3], [500], [0]]\n"
        "    for i, inp in enumerate(inputs):\n        assertion(candidate(*inp), ref_func(*inp), 0)\n"
    ),
}
ZERO = {
    "task_id": "HumanEval/903",
    "prompt": (
        "import math\n\n\ndef poly(xs: list, x: float):\n    return sum([c * math.pow(x, i) for i, c in enumerate(xs)])\n\n\n"
        'def find_zero(xs: list):\n    """Return a zero of a polynomial."""\n'
    ),
    "canonical_solution": "    return -xs[0] / xs[1]\n",
    "entry_point": "find_zero",
    "test": (
        "import math\n\ndef _poly(xs: list, x: float):\n    return sum([c * math.pow(x, i) for i, c in enumerate(xs)])\n\n"
        "def check(candidate):\n    inputs = [[[1, 2]], [[-6, 3]]]\n    results = [-0.5, 2.0]\n"
        "    for i, (inp, exp) in enumerate(zip(inputs, results)):\n"
        "        assert _poly(*candidate(*inp), inp) <= 0.0001\n"
    ),
}
HUMANEVAL_ROWS = [INCREASED, HALVED, REPEATED, ZERO]
BASE_ROWS = [
    {"task_id": f"HumanEval/{number}", "test": f"{before}def check(candidate):\n    {body}\n"}
    for number, before, body in (
        (900, "", "assert candidate([1, 2]) == [2, 3]"),
        (901, "", "assert abs(candidate(3.0) - 1.5) < 1e-6"),
        (902, "METADATA = {}\n\n\n", "assert candidate(3) == 'aaa'"),
        (903, "", "for a in range(1, 5):\n        assert candidate([a, 1]) == -a"),
    )
]

SIMILAR = {
    "task_id": 9002,
    "code": "def similar(a, b):\n  return tuple(set(a) & set(b))",
    "prompt": "Write a function to find the elements that two tuples share.",
    "test_imports": [],
    "test_list": [
        "assert set(similar((3, 4, 5), (5, 7, 4))) == set((4, 5))",
        "assert set(similar((1, 2), (2, 3))) == set((2,))",
    ],
    "test": (
        "import numpy as np\nfrom math import inf\n\ndef assertion(out, exp, atol):\n    assert set(out) == set(exp)\n\n"
        + compared(
            [[(3, 4, 5), (5, 7, 4)], [(), ()], [(float("inf"), 1), (float("inf"),)]],
            [(4, 5), (), (float("inf"),)],
            "similar",
            "",
        )
    ),
}
ROUNDED = {
    "task_id": 9003,
    "code": "import math\ndef helper(x):\n  return x\ndef root(x):\n  return math.sqrt(helper(x))",
    "prompt": "Write a function to find the square root.",
    "test_imports": ["import math"],
    "test_list": [
        "assert math.isclose(root(4), 2.0)",
        "assert math.isclose(root(2), 1.41421356, rel_tol=1e-6)",
    ],
    "test": f"import numpy as np\nfrom math import inf\n{ASSERTION}\n"
    + compared([[4], [0], [2]], [2.0, 0.0, 1.4142135623730951], "root", ""),
}
MBPP_ROWS = [SIMILAR, ROUNDED]


def private(tests: object) -> str:
    """Private tests as LiveCodeBench stores them."""
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


def contest(name: str, day: str, **changes: Any) -> dict[str, Any]:
    tests = [{"input": f"{n}\n", "output": f"{2 * n}\n", "testtype": "stdin"} for n in (1, 20)]
    row = {
        "question_content": f"Print twice the number ({name}).",
        "question_id": name,
        "contest_date": day,
        "starter_code": "",
        "difficulty": "easy",
        "public_test_cases": json.dumps(tests[:1]),
        "private_test_cases": private(tests[1:]),
        "metadata": "{}",
    }
    return row | changes


FUNCTION_TESTS = [
    {"input": "[1, 2]\n3", "output": "[4, 5]", "testtype": "functional"},
    {"input": "[]\n3", "output": "[]", "testtype": "functional"},
]
CONTEST_ROWS = [
    contest("doubled", "2023-06-03T00:00:00"),
    contest("doubled_2", "2024-09-01T00:00:00", difficulty="hard"),
    contest(
        "shifted",
        "2025-03-08T00:00:00",
        difficulty="medium",
        starter_code="class Solution:\n    def shifted(self, numbers: List[int], by: int) -> List[int]:\n        ",
        public_test_cases=json.dumps(FUNCTION_TESTS[:1]),
        private_test_cases=private(FUNCTION_TESTS[1:]),
        metadata='{"func_name": "shifted"}',
    ),
]
