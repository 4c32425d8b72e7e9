"""No pattern of regrade takes more than linear time: a model that repeats itself writes whatever is slow.

All patterns are tested, not only those that see an answer: what a pattern is given may change. A search of Arrow's kernels
is linear by itself (RE2), but not the search for all matches of a pattern.
"""

import ast
import builtins
import random
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import regrade
from regrade.records.patterns import Pattern, compiled
from regrade.scorers.extraction import columns
from regrade.scorers.mathematics import latex
from tests.scorers.batches import any_target, generations, scored
from tests.scorers.test_corpus import CORPUS
from tests.scorers.test_hostile import PIECES, TEXT_SCORERS

parser = re._parser

ROOT = Path(regrade.__file__).parent
METHODS = ("match", "fullmatch", "search", "sub", "split", "findall", "finditer")
SECONDS = 4.0
"""CPU time of one search in 200,000 characters; a quadratic pattern takes minutes."""


class Use(NamedTuple):
    """A pattern, and what is done with it."""

    place: str
    pattern: "re.Pattern[Any]"
    """As Python writes it, to take it to pieces."""
    method: str
    done: Callable[[Any], object]
    """Gets a text."""
    searched: Pattern | None = None
    """The same pattern in RE2, if it searches."""

    def run(self, text: str) -> float:
        """Return the CPU time that it takes in this thread; it is given up after `SECONDS`."""
        given = text.encode() if isinstance(self.pattern.pattern, bytes) else text
        started = time.thread_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        try:
            self.done(given)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        return time.thread_time() - started


def searching(
    place: str, pattern: "re.Pattern[Any]", method: str, searched: Pattern | None = None
) -> Use:
    """Return a search by a method of a pattern, or of the same pattern in RE2."""
    search: Callable[..., Any] = getattr(searched or pattern, method)

    def done(text: Any) -> None:
        found = search(lambda _: "", text) if method == "sub" else search(text)
        if method == "finditer":
            for _ in found:
                pass

    return Use(place, pattern, method, done, searched)


def in_notation(text: str) -> None:
    """Bring a text into the notation of mathematical answers and compare it plainly: patterns together with Python code."""
    for target, answer in latex.variants("1", latex.prepared(text)):
        latex.is_plainly_equal(target, answer)


class _StandIn(str):
    """Value of a name that is known only when the code runs."""

    def __getattr__(self, name: str) -> "_StandIn":
        return _StandIn("f")


class _Names(dict[str, Any]):
    """Names of a module that a pattern may mention: what is assigned in it, or imported from a module of its own."""

    def __init__(self, tree: ast.Module) -> None:
        super().__init__(vars(builtins))
        self._tree = tree

    def __missing__(self, name: str) -> Any:
        for node in self._tree.body:
            if isinstance(node, ast.Assign):
                [target] = node.targets
                if getattr(target, "id", "") == name:
                    return self.value(node.value)
                if isinstance(target, ast.Tuple):
                    several = [getattr(element, "id", "") for element in target.elts]
                    if name in several:
                        return self.value(node.value)[several.index(name)]
            if isinstance(node, ast.ImportFrom) and name in {
                alias.asname or alias.name for alias in node.names
            }:
                module = import_module(node.module or "")
                return getattr(module, name, None) or import_module(f"{node.module}.{name}")
            if isinstance(node, ast.Import) and name in {alias.name for alias in node.names}:
                return import_module(name)
        return _StandIn("f")

    def value(self, node: ast.expr) -> Any:
        return eval(compile(ast.Expression(node), "pattern", "eval"), {}, self)


@cache
def trees() -> Mapping[str, ast.Module]:
    """Code of each module that mentions patterns, by its name."""
    sources = {path: path.read_text() for path in sorted(ROOT.rglob("*.py"))}
    return {
        ".".join(path.relative_to(ROOT.parent).with_suffix("").parts): ast.parse(source)
        for path, source in sources.items()
        if re.search(r"\b(?:re|compiled)\b", source)
    }


def calls(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    """Yield each call of a method with the name of what it is called on, such as `re` or `_FENCE`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            yield node, getattr(owner, "id", getattr(owner, "attr", ""))


@cache
def methods_by_name() -> Mapping[str, set[str]]:
    """Methods that are called on each name: of a name that begins with `_` in its module, of others anywhere."""
    found: dict[str, set[str]] = {}
    for module, tree in trees().items():
        for node, owner in calls(tree):
            method = node.func.attr
            if method in METHODS:
                found.setdefault(_known_as(module, owner), set()).add(method)
    return found


def _known_as(module: str, name: str) -> str:
    return f"{module}.{name}" if name.startswith("_") else name


@cache
def uses() -> list[Use]:
    """Each pattern that stands in the code, with each method that searches with it."""
    found = []
    for name, tree in trees().items():
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        for node, owner in calls(tree):
            method = node.func.attr
            if owner != "re" or method not in (*METHODS, "compile"):
                continue
            pattern = _compiled(tree, node)
            methods = {method}
            if method == "compile":
                above = parents[node]
                if isinstance(above, ast.Attribute):
                    methods = {above.attr}
                else:
                    target = above.targets[0] if isinstance(above, ast.Assign) else None
                    known_as = _known_as(name, getattr(target, "id", ""))
                    methods = methods_by_name().get(known_as, {"search", "sub"})
            found += [searching(f"{name}:{node.lineno}", pattern, each) for each in sorted(methods)]
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "compiled":
                source = _Names(tree).value(node.args[0])
                above = parents[node]
                target = above.targets[0] if isinstance(above, ast.Assign) else None
                known_as = _known_as(name, target.id) if isinstance(target, ast.Name) else None
                methods = methods_by_name()[known_as] if known_as else {"search", "finditer"}
                found += [
                    searching(f"{name}:{node.lineno}", re.compile(source), each, compiled(source))
                    for each in sorted(methods)
                ]
    return found


def _compiled(tree: ast.Module, call: ast.Call) -> "re.Pattern[Any]":
    names = _Names(tree)
    flags = [keyword.value for keyword in call.keywords if keyword.arg == "flags"]
    if isinstance(call.func, ast.Attribute) and call.func.attr == "compile":
        flags += call.args[1:]
    return re.compile(names.value(call.args[0]), names.value(flags[0]) if flags else 0)


@cache
def kernels() -> list[Use]:
    """Each pattern that scorers give to Arrow for the texts of the corpus and for hostile ones, with the function."""
    found: dict[tuple[str, tuple[str, ...]], Use] = {}

    def recording(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(strings: columns.Strings, *arguments: str) -> Any:
            found[name, arguments] = Use(
                f"{arguments}",
                _in_python(arguments[0]),
                name,
                lambda text: function(pa.array([text], pa.string()), *arguments),
            )
            return function(strings, *arguments)

        return run

    texts = [*(row["text"] for row in CORPUS), *(f"x {piece} 1" for piece in PIECES)]
    names = ("is_match", "replaced", "captured", "after_last", "after_first", "before_first")
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setattr(columns, name, recording(name, getattr(columns, name)))
        for scorer in TEXT_SCORERS:
            scored(scorer, generations(texts, any_target(scorer), choices=["x", "Paris", "y"]))
    return [*found.values()]


def _in_python(pattern: str) -> "re.Pattern[Any]":
    flags = "".join(re.findall(r"\(\?([a-z]+)\)", pattern))
    pattern = re.sub(r"\(\?[a-z]+\)", "", pattern).replace(r"\z", r"\Z")
    pattern = re.sub(r"\\[pP](?:\{\^?\w+\}|\w)", "a", pattern)
    pattern = re.sub(r"\\x\{(\w+)\}", lambda code: re.escape(chr(int(code[1], 16))), pattern)
    return re.compile(f"(?{flags}){pattern}" if flags else pattern)


class Pieces:
    """Texts that a pattern is made of: its literals, a character of each class, an example of each group, and their beginnings."""

    def __init__(self, pattern: "re.Pattern[Any]") -> None:
        text = pattern.pattern
        self._flags = pattern.flags & ~re.UNICODE & ~re.DEBUG
        text = text.decode() if isinstance(text, bytes) else text
        self.characters = [*dict.fromkeys([*"a1 \n_.", *(c for c in text if not c.isalnum())])]
        self.found: dict[str, None] = {}
        self.beginnings = [""]
        self._add(self._example(parser.parse(text, self._flags), 0))

    def _add(self, piece: str) -> None:
        if piece:
            self.found[piece] = None

    def _example(self, tree: Any, depth: int) -> str:
        example = ""
        for operator, argument in tree:
            example += self._of(str(operator), argument, depth)
            self._add(example)
            if depth == 0:
                self.beginnings.append(example)
        return example

    def _of(self, operator: str, argument: Any, depth: int) -> str:
        deeper = depth + 1
        if operator == "LITERAL":
            return chr(argument)
        if operator in ("IN", "NOT_LITERAL"):
            matching = [c for c in self.characters if self._matches(operator, argument, c)]
            for character in matching[:4]:
                self._add(character)
            return matching[0] if matching else ""
        if operator == "ANY":
            return "a"
        if operator in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, _, inner = argument
            example = self._example(inner, deeper)
            self._add(example * 2)
            return example * min(max(least, 1), 50)
        if operator == "SUBPATTERN":
            return self._example(argument[-1], deeper)
        if operator == "ATOMIC_GROUP":
            return self._example(argument, deeper)
        if operator == "BRANCH":
            examples = [self._example(branch, deeper) for branch in argument[1]]
            for example in examples:
                self._add(example)
            return max(examples, key=len)
        if operator in ("ASSERT", "ASSERT_NOT"):
            self._add(self._example(argument[1], deeper))
            return ""
        if operator == "GROUPREF_EXISTS":
            return self._example(argument[1], deeper)
        assert operator in ("AT", "GROUPREF", "FAILURE"), operator
        return ""

    @staticmethod
    def _matches(operator: str, argument: Any, character: str) -> bool:
        tree = parser.SubPattern(parser.State())
        tree.append((getattr(re._constants, operator), argument))
        return re._compiler.compile(tree).match(character) is not None


def texts(pattern: "re.Pattern[Any]", number: int) -> Iterator[Callable[[int], str]]:
    """Yield functions that write a text of a length: a beginning, a repeated mixture of pieces, and an end."""
    made = Pieces(pattern)
    pieces = list(made.found)[:60]
    drawn = random.Random(0)
    mixtures = [("", [piece], end) for piece in pieces for end in ("", "\0")]
    for _ in range(number):
        units = drawn.choices([*pieces, *made.characters], k=drawn.randint(1, 3))
        mixtures.append((drawn.choice(made.beginnings), units, drawn.choice(["", "\0", *pieces])))
    drawn.shuffle(mixtures)
    for beginning, units, end in mixtures[: number or None]:
        unit = "".join(units)
        yield lambda length, b=beginning, u=unit, e=end: f"{b}{u * (length // len(u))}{e}"


def notations() -> list[Use]:
    return [
        Use(use.place, use.pattern, "prepared", in_notation)
        for use in uses()
        if use.place.startswith(latex.__name__)
    ]


def slow(found: Sequence[Use], *, number: int, short: int, long: int, most: int) -> list[str]:
    """Return what takes more than linear time: the slowest mixtures are repeated in a text `long / short` times as long."""

    def give_up(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, give_up)
    problems = []
    try:
        for use in found:
            mixtures = list(texts(use.pattern, number))
            try:
                timed = sorted(
                    ((use.run(text(short)), n) for n, text in enumerate(mixtures)), reverse=True
                )
                for seconds, chosen in timed[:most]:
                    text = mixtures[chosen]
                    # Another process slows a run now and then: what seems slow is run again before it is blamed.
                    for repeats in (1, 9):
                        longer = min(use.run(text(long)) for _ in range(repeats))
                        shorter = min(use.run(text(short)) for _ in range(repeats))
                        quadratic = shorter * (long / short) ** 2
                        if longer <= max(long * 1e-6, 0.3 * quadratic):
                            break
                    else:
                        problems.append(
                            f"{use.place} {use.method} {seconds:.4f} -> {longer:.3f} s: {text(40)!r}"
                        )
                        break
            except TimeoutError:
                problems.append(f"{use.place} {use.method}: longer than {SECONDS} s")
    finally:
        signal.signal(signal.SIGVTALRM, before)
    return problems


def test_every_pattern_is_found() -> None:
    found = {use.pattern for use in uses()}
    for name, tree in trees().items():
        for value in vars(sys.modules[name]).values() if name in sys.modules else ():
            assert not isinstance(value, re.Pattern) or value in found, (name, value)
        for node in ast.walk(tree):
            assert not isinstance(node, ast.ImportFrom) or node.module not in ("re", "regex"), name
            assert not isinstance(node, ast.Import) or {"re"} >= {
                alias.asname or alias.name for alias in node.names if alias.name in ("re", "regex")
            }, name
    searching = [path.name for path in ROOT.rglob("*.py") if "string_regex" in path.read_text()]
    assert searching == ["columns.py"]


LONG = {"number": 60, "short": 10_000, "long": 200_000, "most": 3}
"""For minutes: over 200,000 characters."""


def long(found: Callable[[], list[Use]], **settings: int) -> Any:
    marks = [pytest.mark.slow, pytest.mark.timeout(3600)]
    return pytest.param(found, LONG | settings, marks=marks, id=f"{found.__name__}, long")


@pytest.mark.parametrize(
    ("found", "settings"),
    [
        pytest.param(uses, {"number": 40, "most": 2}, id="uses"),
        pytest.param(notations, {"number": 8, "most": 1}, id="notations"),
        long(uses, number=300, most=5),
        long(notations),
        long(kernels),
    ],
)
def test_no_pattern_takes_more_than_linear_time(
    found: Callable[[], list[Use]], settings: dict[str, int]
) -> None:
    assert slow(found(), **({"short": 2_000, "long": 20_000} | settings)) == []
