"""Find every regular expression of the package: those its source writes, and those its modules hold."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import engram

METHODS = frozenset({"match", "fullmatch", "search", "findall", "finditer", "split", "sub", "subn"})

ARGUMENTS: Mapping[str, Mapping[str, object]] = {
    "engram.transfer.markdown._id": {"prefixes": ("mem_",)},
    "engram.text.quoting._any_of": {"characters": "&<>"},
    "engram.text.markdown._fence_end": {"character": "`", "length": 3},
}
"""What functions are given that make patterns of their arguments, as they are called."""

_FLAGS = 1
_LEVELS = 3
"""Containers within containers that are looked into."""


@dataclass(frozen=True, slots=True)
class PackagePattern:
    """A pattern, where it is written, and what it is used for."""

    place: str
    compiled: re.Pattern[Any]
    methods: frozenset[str]


def package_modules() -> list[ModuleType]:
    """Return every module of the package, imported; running it as a program does more than that."""
    names = [each.name for each in pkgutil.walk_packages(engram.__path__, "engram.")]
    return [engram, *(import_module(name) for name in names if not name.endswith(".__main__"))]


def held_patterns(modules: Iterable[ModuleType]) -> dict[re.Pattern[Any], str]:
    """Return the patterns that modules, their classes and their containers hold, and where."""
    return {
        pattern: f"{module.__name__}.{name}"
        for module in modules
        for name, value in vars(module).items()
        for pattern in _patterns_in(value, levels=_LEVELS)
    }


def written_patterns(modules: Iterable[ModuleType]) -> Iterator[PackagePattern]:
    """Yield the patterns that the source of modules writes."""
    trees = {module: _tree(module) for module in modules}
    uses = [use for module, tree in trees.items() for use in _uses(module.__name__, tree)]
    for module, tree in trees.items():
        for function, node in _nodes(tree):
            for name, source, flags in _written(node):
                place = f"{module.__name__}.{function or name}"
                known = {**vars(module), **ARGUMENTS.get(place, {})}
                yield PackagePattern(
                    f"{place}:{node.lineno}",
                    re.compile(_value(source, known), _value(flags, known) if flags else 0),
                    _methods(node, name, module.__name__, uses),
                )


def hidden_patterns(modules: Iterable[ModuleType]) -> list[str]:
    """Return where a module takes functions from `re` under names that nobody would look for."""
    return [
        f"{module.__name__}:{node.lineno}"
        for module in modules
        for node in ast.walk(_tree(module))
        if (isinstance(node, ast.ImportFrom) and node.module == "re")
        or (isinstance(node, ast.Import) and any(e.name == "re" and e.asname for e in node.names))
    ]


def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))


def _nodes(tree: ast.Module) -> Iterator[tuple[str | None, ast.expr | ast.stmt]]:
    """Yield every node with the function of the module it stands in; what is assigned, once."""
    for statement in tree.body:
        function = statement.name if isinstance(statement, ast.FunctionDef) else None
        assigned: set[ast.AST] = set()
        for node in ast.walk(statement):  # outer nodes come first
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                assigned.add(node.value)
            if isinstance(node, ast.expr | ast.stmt) and node not in assigned:
                yield function, node


def _written(node: ast.AST) -> Iterator[tuple[str | None, ast.expr, ast.expr | None]]:
    """Yield the name, the source and the flags of each pattern that a node writes."""
    match node:
        case ast.Assign(targets=[ast.Name(id="regex")], value=source):  # a path convertor
            yield "regex", source, None
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
            yield from ((name, source, flags) for _, source, flags in _written(call))
        case ast.Call() if _of_re(node):
            yield None, node.args[0], _flags(node)
        case ast.Call(keywords=keywords):
            yield from ((None, each.value, None) for each in keywords if each.arg == "pattern")
        case _:
            pass


def _of_re(call: ast.Call) -> str | None:
    """Return the function of `re` that is called."""
    match call.func:
        case ast.Attribute(value=ast.Name(id="re"), attr=name) if name in METHODS | {"compile"}:
            return name
        case _:
            return None


def _flags(call: ast.Call) -> ast.expr | None:
    named = [each.value for each in call.keywords if each.arg == "flags"]
    is_compile = _of_re(call) == "compile" and len(call.args) > _FLAGS
    return call.args[_FLAGS] if is_compile else next(iter(named), None)


def _value(source: ast.expr, known: Mapping[str, object]) -> Any:
    code = compile(ast.Expression(source), "pattern", "eval")
    return eval(code, dict(known))  # noqa: S307 our own source, which was imported already


def _uses(module: str, tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """Yield where a name is used as a pattern: the module, the name, the method."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=method) if method in METHODS:
                yield module, name, method
            case _:
                pass


def _methods(
    node: ast.AST, name: str | None, module: str, uses: Iterable[tuple[str, str, str]]
) -> frozenset[str]:
    """Return what a pattern is used for; everything where that cannot be seen."""
    called = _of_re(node) if isinstance(node, ast.Call) else None
    if called in METHODS:
        return frozenset({str(called)})
    if isinstance(node, ast.Call) or name == "regex":
        return METHODS if called else frozenset({"match", "search"})
    is_private = str(name).startswith("_")
    found = {
        method
        for place, used, method in uses
        if used == name and (place == module or not is_private)
    }
    return frozenset(found) or METHODS


def _patterns_in(value: object, *, levels: int) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield cast("re.Pattern[Any]", value)
    elif levels:
        for each in _parts(value):
            yield from _patterns_in(each, levels=levels - 1)


def _parts(value: Any) -> list[object]:
    if isinstance(value, Mapping):
        return list(cast("Mapping[object, object]", value).values())
    if isinstance(value, list | tuple | set | frozenset):
        return list(cast("Iterable[object]", value))
    if inspect.isclass(value) and value.__module__.startswith("engram"):
        return list(vars(value).values())
    return []
