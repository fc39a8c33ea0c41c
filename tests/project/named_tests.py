"""Tests that a page of the documentation names as its proof."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
"""How a page names a test."""


def missing_tests(text: str) -> list[tuple[str, str]]:
    """Return the tests that a text names and that do not exist."""
    return [(path, name) for path, name in TEST.findall(text) if name not in _functions_in(path)]


@cache
def _functions_in(path: str) -> frozenset[str]:
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    tree = ast.parse(file.read_bytes())
    return frozenset(node.name for node in tree.body if isinstance(node, functions))
