"""The tests of each promise as Markdown, for `docs/promises.md`.

Tests are read and not imported: `make lint` needs no package that only tests need to run.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.promises import EXAMPLES, NAMES, PROMISES

ROOT = Path(__file__).parents[1]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class PromiseError(Exception):
    """Promises and tests do not fit each other."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A test with the promises that it proves."""

    path: str
    name: str
    promises: frozenset[str]
    sizes: Mapping[str, int]
    """How much one run tries, by what it is called."""


def promises_text(root: Path = ROOT) -> str:
    """Return every promise with its tests.

    Raises:
        PromiseError: a promise has no test, or a test names no promise that exists.
    """
    proofs: defaultdict[str, list[Proof]] = defaultdict(list)
    for proof in all_proofs(root):
        for name in proof.promises:
            proofs[name].append(proof)
    _refuse(set(proofs) - NAMES, "these promises are proved and do not exist")
    _refuse(NAMES - set(proofs), "these promises have no test")
    return "\n\n".join(_section(title, names, proofs) for title, names in PROMISES.items())


def _refuse(names: set[str] | frozenset[str], what: str) -> None:
    if names:
        raise PromiseError(f"{what}: {', '.join(sorted(names))}")


def _section(title: str, names: Mapping[str, str], proofs: Mapping[str, Sequence[Proof]]) -> str:
    parts = (f"### {name}\n\n{says}\n\n{_shown(proofs[name])}" for name, says in names.items())
    return "\n\n".join((f"## {title}", *parts))


def _shown(proofs: Sequence[Proof]) -> str:
    """Return the size of a proof and its tests, a line for each file."""
    sizes = sum((Counter(proof.sizes) for proof in proofs), Counter[str]())
    size = [
        f"{len(proofs):,} {'test' if len(proofs) == 1 else 'tests'}",
        *(f"{count:,} {name}" for name, count in sorted(sizes.items())),
    ]
    files: defaultdict[str, list[str]] = defaultdict(list)
    for proof in proofs:
        files[proof.path].append(proof.name)
    lines = (
        f"- [{path}](../{path}): {', '.join(f'`{name}`' for name in names)}"
        for path, names in files.items()
    )
    return "\n".join((f"Proof: {', '.join(size)}.", "", *lines))


def all_proofs(root: Path = ROOT) -> Iterator[Proof]:
    """Yield every marked test, in the order of the files."""
    for path in sorted((root / "tests").rglob("test_*.py")):
        yield from proofs_of(ast.parse(path.read_bytes()), str(path.relative_to(root)))


def proofs_of(module: ast.Module, path: str) -> Iterator[Proof]:
    """Yield the marked tests of a module."""
    assigned = list(_assigned(module))
    of_all = [mark for name, value in assigned if name == "pytestmark" for mark in _marks(value)]
    constants = dict(_constants(assigned))
    for name, node, decorators in _tests(module, assigned):
        marks = [*of_all, *(mark for each in decorators for mark in _marks(each))]
        promises = frozenset(_text(argument) for mark in marks for argument in mark.args)
        sizes = {
            keyword.arg: _number(keyword.value, constants)
            for mark in marks
            for keyword in mark.keywords
            if keyword.arg
        }
        if promises:
            yield Proof(path, name, promises, {**_examples(node, constants), **sizes})


def _assigned(module: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in module.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value
            case _:
                pass


def _tests(
    module: ast.Module, assigned: Sequence[tuple[str, ast.expr]]
) -> Iterator[tuple[str, ast.AST, Sequence[ast.expr]]]:
    for node in module.body:
        if isinstance(node, _FUNCTIONS) and node.name.startswith("test_"):
            yield node.name, node, node.decorator_list
    for name, value in assigned:
        if name.startswith("Test") and isinstance(value, ast.Attribute):
            yield name, module, ()


def _marks(node: ast.expr) -> Iterator[ast.Call]:
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and _called(each) == "promise":
            yield each


def _examples(node: ast.AST, constants: Mapping[str, int]) -> Mapping[str, int]:
    """Return how many examples hypothesis makes up for a test, if it does."""
    calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
    for call in calls:
        for keyword in call.keywords:
            if keyword.arg == "max_examples":
                return {"examples": _number(keyword.value, constants)}
    is_property = isinstance(node, ast.Module) or "given" in map(_called, calls)
    return {"examples": EXAMPLES} if is_property else {}


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _constants(assigned: Sequence[tuple[str, ast.expr]]) -> Iterator[tuple[str, int]]:
    for name, value in assigned:
        if isinstance(value, ast.Constant) and isinstance(value.value, int):
            yield name, value.value


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise PromiseError(f"the name of a promise is written out, unlike {ast.unparse(node)}")


def _number(node: ast.expr, constants: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int() as number):
            return number
        case ast.Name(id=name) if name in constants:
            return constants[name]
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _number(left, constants) * _number(right, constants)
        case _:
            raise PromiseError(f"no number is known for {ast.unparse(node)}")
