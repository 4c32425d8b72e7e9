"""Mutants of a module: its source with one small change each, made by mutmut's operators.

mutmut's own command runs mutants inside rewritten functions, which leaves out tables and patterns at module level and changes
the hash of a scorer's code. Only its operators are used here; each mutant is a whole module.
"""

import ast
import difflib
import random
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m
from mutmut.mutation.file_mutation import Mutation, MutationVisitor
from mutmut.mutation.mutators import mutation_operators
from mutmut.mutation.pragma_handling import IgnoredCode

LOG_LINE = m.Call(func=m.Attribute(value=m.Name("log") | m.Name("logger")))
TYPE = m.Subscript(value=m.Name("Literal")) | m.Call(func=m.Name("TypeVar"))
LOGGER = m.Call(func=m.Attribute(attr=m.Name("getLogger")))


@dataclass(frozen=True, slots=True)
class Mutants:
    """Seeded sample of the mutants of a module."""

    possible: int
    """Mutants that mutmut can make, without those of types and of the wording of errors and log lines."""
    sources: tuple[str, ...]
    """Sources of the sampled mutants."""


def sample(source: str, count: int, seed: str) -> Mutants:
    """Sample at most `count` mutants of a source; the same seed gives the same mutants of the same source.

    Mutants with the same syntax tree as the source or as an earlier mutant are not sampled.
    """
    operators = MutationVisitor(mutation_operators, IgnoredCode(set(), set(), set()))
    module = cst.MetadataWrapper(cst.parse_module(source)).visit(operators)
    wording = _wording(module)
    mutations = [each for each in operators.mutations if id(each.original_node) not in wording]
    order = random.Random(seed).sample(mutations, len(mutations))
    seen = {ast.dump(ast.parse(source))}
    sources: list[str] = []
    for mutation in order:
        if len(sources) == count:
            break
        mutant = _applied(module, mutation)
        tree = ast.dump(ast.parse(mutant))
        if tree not in seen:
            seen.add(tree)
            sources.append(mutant)
    return Mutants(len(mutations), tuple(sources))


def changed_lines(source: str, mutant: str, path: str) -> str:
    """Unified diff of a source and its mutant."""
    lines = difflib.unified_diff(
        source.splitlines(), mutant.splitlines(), path, path, n=1, lineterm=""
    )
    return "\n".join(lines)


def _applied(module: cst.Module, mutation: Mutation) -> str:
    changed = module.deep_replace(mutation.original_node, mutation.mutated_node)
    assert isinstance(changed, cst.Module)  # noqa: S101 - a node inside the module is replaced
    code: str = changed.code
    return code


def _wording(module: cst.Module) -> set[int]:
    """Ids of loggers, and of the strings of types, errors and log lines; tests need not repeat how a message is worded."""
    texts = m.findall(module, m.Raise() | LOG_LINE | TYPE)
    strings = {id(string) for node in texts for string in m.findall(node, m.SimpleString())}
    return strings | {id(node) for node in m.findall(module, LOGGER | m.Assign(value=LOGGER))}
