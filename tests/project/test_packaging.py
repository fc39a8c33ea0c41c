"""What is installed is what the code uses."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]


def imported_modules() -> Iterator[str]:
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                yield from (alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module.partition(".")[0]


def normal_name(requirement: str) -> str:
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def declared() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    return {normal_name(requirement) for group in groups for requirement in group}


def test_every_imported_package_is_declared_and_every_declared_one_imported() -> None:
    owners = packages_distributions()
    third_parties = set(imported_modules()) - sys.stdlib_module_names - {"engram", "engram_eval"}

    used = {normal_name(owners[module][0]) for module in third_parties}

    assert used == declared()


def test_the_wheel_has_every_package_of_the_source() -> None:
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]

    packages = {path.parent.name for path in (ROOT / "src").glob("*/__init__.py")}

    assert {f"src/{name}" for name in packages} == set(built["targets"]["wheel"]["packages"])


def test_the_locks_name_no_address() -> None:
    for lock in ROOT.glob("requirements*.lock"):
        assert not re.search(r"://|--(extra-)?index|--find-links| @ ", lock.read_text())
