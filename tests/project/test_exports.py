"""Packages whose names are imported when they are first used: what they promise is there."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from types import ModuleType

import pytest

from engram.transport.exports import exports_from

PACKAGES = ["engram.transport.answers", "engram.transport.requests", "engram.transport.mcp.tools"]


def seen_by_checkers(package: ModuleType) -> dict[str, str]:
    """Return the names that a package imports for type checkers alone, and from where."""
    assert package.__file__ is not None
    body = ast.parse(Path(package.__file__).read_text()).body
    return {
        name.name: statement.module
        for block in body
        if isinstance(block, ast.If)
        for statement in block.body
        if isinstance(statement, ast.ImportFrom) and statement.module is not None
        for name in statement.names
    }


@pytest.mark.parametrize("name", PACKAGES)
def test_every_name_is_what_a_checker_takes_it_for(name: str) -> None:
    package = importlib.import_module(name)
    homes = seen_by_checkers(package)

    assert set(homes) <= set(package.__all__)
    assert [] == [each for each in package.__all__ if not hasattr(package, each)]
    for each, home in homes.items():
        assert getattr(package, each) is getattr(importlib.import_module(home), each)


def test_a_name_is_looked_up_once() -> None:
    package = importlib.import_module("engram.transport.requests")
    package.__dict__.pop("Search", None)

    found = exports_from(package.__name__, {"search": ["Search"]})("Search")

    assert package.__dict__["Search"] is found


def test_an_unknown_name_is_no_attribute() -> None:
    package = importlib.import_module("engram.transport.requests")

    with pytest.raises(AttributeError, match="Nonsense"):
        _ = package.Nonsense
