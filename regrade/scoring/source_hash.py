"""Hash of a scorer's code, to tell scores of the current scorer from those of an older version.

The hash ignores layout: comments, docstrings, blank lines, spaces, line breaks, the order of imports and the paths of
our modules. It is computed from tokens, which are the same on every supported Python. (`ast.dump` differs between versions, and `ast.parse` crashes in threads of Python 3.11 up to 3.11.7:
https://github.com/python/cpython/issues/106905.)
"""

import hashlib
import io
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, resolve_name
from pathlib import Path

from regrade.scorers.user_functions.files import loaded
from regrade.settings import registry

_LAYOUT = frozenset({tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER})
_BLOCKS = {tokenize.INDENT: "\0indent", tokenize.DEDENT: "\0dedent"}
_OPENING, _CLOSING = "([{", ")]}"
_SEPARATOR = "\x1f"
_MOVED = {
    "regrade.lm_eval": "regrade.harness",
    "regrade.processes.sandbox": "regrade.sandbox",
    "regrade.records.rubrics": "regrade.rubrics",
}
"""Packages that moved, and the names under which the hash knows them where a text of the code names one."""
_SAME = {
    "9cc043b63c62d08e28ac85282787c362122f3b5c72ef397e2b404ce9c7ecb030": "666fda168197389a117e6b38502a6c4a50a020818e2c46de62cffcbb64841f92",
    "b57188d537c4f8505c7ded025b3aea49bd731c426763044904e8948ab7a54297": "abb42e7e89e6f8714fa46be76fa749d6a4b166dc6ba36deb38fa4b379af1b1d5",
    "c141355550714f6825e3d1a0e1ac19645ce905ca3684af218c6eba4a2a0c56a5": "60c9859da144c9f1850a35ca1b30c05bcccf2129ba243c13b752bb99a20123fe",
    "09757ab4d21401aa57c120706b5907003b89d0edd6374ed314b468b5cae93203": "ab29058329e95500adfd97c8cfd68ba174c25cdcfa70b1b181aa06b8aac0641e",
    "bf8e41681e822be2e9dc749f4fc11b69f5e0ff3fac929c0de6fb6ea2affe36c4": "d6e21a300e41056ddee651c6da6ca8306d814a49be195f508476192a2bf8d324",
    "5284697acd38f89662bae1384b5965f68d814d136879a06669be439f026a9b92": "14ac79aaace6b27e6f261711b12b0f070b4f97cea783c325917b3b55dcd8491e",
    "429e8c1e04aaa53e54e2f8ad94ddbee6ef77072e0142af333726817d88caf11d": "214d38f0c0862ccc8ed850feff25cb3b34998484e973cbd35a746aa43528b5ca",
    "f020e5e56115f70ab56f8e1d7dbc153132f5ea84cfb5dde11288ca7be57f196d": "2b3607ddb36cf70800223e8743361aca05db356c110419172cd8b9e1a40c9e31",
}
"""Digests of modules written anew that read every text as before, and the digests under which the hash knows them: RE2 took the place
of `re` (`tests/scorers/test_reading_as_re.py`). Any other code of these modules has a hash of its own."""


@dataclass
class ModuleCode:
    """Code of a module without its layout."""

    statements: list[tuple[str, ...]] = field(default_factory=list)
    """Tokens of each statement in order, without imports and docstrings."""
    imports: set[tuple[str, ...]] = field(default_factory=set)
    """Module, name and bound name of each import; without the module for our modules."""
    imported_modules: set[str] = field(default_factory=set)
    """Full names of our modules that are imported."""

    @property
    def digest(self) -> str:
        """sha256 of imports and statements, in hexadecimal."""
        lines = [_SEPARATOR.join(tokens) for tokens in (*sorted(self.imports), *self.statements)]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@cache
def source_hash(scorer: str) -> str:
    """Return the hash of a scorer's code: the first 8 hex digits of a sha256.

    Covers the scorer's module and all modules that it imports, directly or not, from `regrade.scorers` and, for a scorer
    of another package, from that package; and from the packages that the scorer names in its attribute `code`. Changes in
    other scorers do not affect it. For a scorer in a file it covers the whole file.

    Raises:
        UnknownNameError: If the scorer is not installed.
        PluginError: If the scorer is installed but cannot be used.
    """
    scorer, _ = registry.called(scorer)  # its arguments are part of its name
    scorers = registry.package("scorer")
    file = loaded(scorer)
    if file is not None:
        return _hash_of_file(file.source, scorers)
    module = registry.module("scorer", scorer)
    packages = (scorers,) if _is_in(module, (scorers,)) else (scorers, module.partition(".")[0])
    more: tuple[str, ...] = getattr(registry.load("scorer", scorer), "code", ())
    return hash_of(module, (*packages, *more))


def _hash_of_file(source: str, scorers: str) -> str:
    """Return the hash over a file's text and the modules it imports from `regrade.scorers`."""
    code = module_code(source, "", (__name__.partition(".")[0],))
    codes = {"": code}
    for name in code.imported_modules:
        if _is_in(name, (scorers,)):
            codes |= module_codes(name, (scorers,))
    return _hash_of_codes(codes.values())


def hash_of(module: str, packages: Sequence[str]) -> str:
    """Return the first 8 hex digits of the sha256 over a module and the modules it imports from `packages`.

    Args:
        module: Full name of the module.
        packages: Packages whose modules are part of the code, such as `regrade.scorers`.
    """
    return _hash_of_codes(module_codes(module, packages).values())


def _hash_of_codes(codes: Iterable[ModuleCode]) -> str:
    digests = sorted(_SAME.get(code.digest, code.digest) for code in codes)
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:8]


def module_codes(module: str, packages: Sequence[str]) -> dict[str, ModuleCode]:
    """Return the code of a module and of all modules in `packages` that it imports, directly or not, by name."""
    local = (*packages, __name__.partition(".")[0], module.partition(".")[0])
    codes: dict[str, ModuleCode] = {}
    waiting = {module}
    while waiting:
        name = waiting.pop()
        if name not in codes:
            codes[name] = _code_of(name, local)
            waiting |= {path for path in codes[name].imported_modules if _is_in(path, packages)}
    return codes


@cache
def _code_of(name: str, local: tuple[str, ...]) -> ModuleCode:
    spec = _find(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"The source file of module '{name}' was not found.", name=name)
    return module_code(Path(spec.origin).read_text(encoding="utf-8"), spec.parent or "", local)


def module_code(source: str, package: str, local: Sequence[str]) -> ModuleCode:
    """Return the code of a module without its layout.

    Args:
        source: Text of the module.
        package: Package for resolving relative imports.
        local: Packages whose modules are recorded without their paths.
    """
    code = ModuleCode()
    for statement in _statements(source):
        blocks = tuple(token for token in statement if token in _BLOCKS.values())
        tokens = statement[len(blocks) :]
        if tokens[:1] in (("import",), ("from",)):
            _add_imports(code, tokens, package, local)
            tokens = ()
        elif all(_is_plain_text(token) for token in tokens):  # a docstring, or no tokens
            tokens = ()
        if blocks or tokens:
            code.statements.append(blocks + tokens)
    return code


def _statements(source: str) -> Iterator[tuple[str, ...]]:
    statement: list[str] = []
    for kind, text in _whole_strings(source):
        if kind == tokenize.NEWLINE:
            yield tuple(_without_trailing_commas(statement))
            statement = []
        elif kind in _BLOCKS:
            statement.append(_BLOCKS[kind])
        elif kind not in _LAYOUT:
            statement.append(_as_before(text) if kind == tokenize.STRING else text)
    yield tuple(statement)


def _as_before(text: str) -> str:
    for now, before in _MOVED.items():
        text = text.replace(now, before)
    return text


def _whole_strings(source: str) -> Iterator[tuple[int, str]]:
    """Yield kind and text of each token; an f-string is one token, as before Python 3.12."""
    lines = list(io.StringIO(source))
    begins: list[tuple[int, int]] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        name = tokenize.tok_name[token.type]
        if name == "FSTRING_START":
            begins.append(token.start)
        elif name == "FSTRING_END":
            begin = begins.pop()
            if not begins:
                yield tokenize.STRING, _between(lines, begin, token.end)
        elif not begins:
            yield token.type, token.string


def _between(lines: Sequence[str], begin: tuple[int, int], end: tuple[int, int]) -> str:
    part = list(lines[begin[0] - 1 : end[0]])
    part[-1] = part[-1][: end[1]]
    part[0] = part[0][begin[1] :]
    return "".join(part)


def _without_trailing_commas(tokens: Sequence[str]) -> Iterator[str]:
    """Drop the trailing commas that a formatter adds: after another comma in the same brackets, or in a call."""
    redundant: list[bool] = []
    for position, token in enumerate(tokens):
        following = tokens[position + 1] if position + 1 < len(tokens) else ""
        before = tokens[position - 1] if position else ""
        if token == "," and redundant:
            if following and following in _CLOSING and redundant[-1]:
                continue
            redundant[-1] = True
        elif token and token in _OPENING:
            redundant.append(token == "(" and (before.isidentifier() or before in (")", "]")))
        elif token and token in _CLOSING and redundant:
            redundant.pop()
        yield token


def _is_plain_text(token: str) -> bool:
    return token.lstrip("bBrRuU")[:1] in ('"', "'")


def _add_imports(
    code: ModuleCode, tokens: Sequence[str], package: str, local: Sequence[str]
) -> None:
    """Record the imports of a statement: `import a.b as c, d`, or `from a.b import (c as d, e)`."""
    place = tokens.index("import")
    module = "".join(tokens[1:place])
    if module.startswith("."):
        module = resolve_name(module, package)
    for alias in _split([token for token in tokens[place + 1 :] if token not in ("(", ")")]):
        name = "".join(alias[: alias.index("as")] if "as" in alias else alias)
        path = f"{module}.{name}" if module else name
        if not _is_in(path, local):
            code.imports.add((module, name, alias[-1]))
        elif _find(path) is not None:
            code.imports.add(("", "", alias[-1]))
            code.imported_modules.add(path)
        else:
            code.imports.add(("", name, alias[-1]))
            code.imported_modules.add(module)


def _find(name: str) -> ModuleSpec | None:
    try:
        return find_spec(name)
    except ModuleNotFoundError:  # the parent is a module, not a package
        return None


def _split(names: Sequence[str]) -> Iterator[list[str]]:
    alias: list[str] = []
    for token in (*names, ","):
        if token != ",":
            alias.append(token)
        elif alias:
            yield alias
            alias = []


def _is_in(name: str, packages: Sequence[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)
