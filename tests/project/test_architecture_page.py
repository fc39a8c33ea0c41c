"""The architecture page names what is there, and everything that is there."""

from __future__ import annotations

import re
from pathlib import Path

import engram

PACKAGE = Path(engram.__file__).parent
PAGE = Path("docs/architecture.md").read_text(encoding="utf-8")
ROOMS = re.compile(r"^  (?:  )?([a-z_.]+(?:,? [a-z_.]+)*)(?:  |$)", re.MULTILINE)
MODULE = re.compile(r"`((?:[a-z_]+[./])+[a-z_]+)`|`(\w+(?:/\w+)*\.(?:py|sql))`")


def listed(page: str) -> set[str]:
    """Return the names that the trees of the page begin their lines with."""
    trees = page.split("```")[1::2]
    lines = (name for tree in trees for name in ROOMS.findall(tree))
    return {name.removesuffix(".py") for line in lines for name in re.split(r"[, ]+", line)}


def named(folder: Path) -> set[str]:
    """Return the rooms in a folder: its packages."""
    return {each.name for each in folder.iterdir() if (each / "__init__.py").exists()}


def test_the_tree_has_every_room() -> None:
    rooms = named(PACKAGE) | named(PACKAGE / "storage") | named(PACKAGE / "service")

    assert rooms - listed(PAGE) == set()


def test_the_tree_has_nothing_else() -> None:
    modules = {path.stem for path in PACKAGE.glob("*.py")}
    modules |= {path.stem for path in (PACKAGE / "storage").glob("*.py")}
    rooms = named(PACKAGE) | named(PACKAGE / "storage") | named(PACKAGE / "service")

    assert listed(PAGE) - rooms - modules == set()


def test_every_module_that_is_named_exists() -> None:
    paths = {(dotted or file).replace(".", "/") for dotted, file in MODULE.findall(PAGE)}

    missing = {path for path in paths if not exists(path)}

    assert len(paths) > 20
    assert missing == set()


def exists(path: str) -> bool:
    """Return True if a dotted name or a file with its ending is in the package or beside it."""
    stem, _, ending = path.rpartition("/")
    candidates = (path, f"{path}.py", f"{stem}.{ending}")
    return any((root / each).exists() for root in (PACKAGE, Path()) for each in candidates)
