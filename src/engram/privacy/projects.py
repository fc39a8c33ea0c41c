"""Resolve a directory to its project: the same for hooks, importers and recall.

All worktrees and clones of a repository are one project, named by its remote (`github.com/acme/shop`); without
a remote it is named by the path of the main checkout, and without a repository by the path of the directory.
A name is never the last part of a path alone, which two projects can share. The files of Git are read
directly: a process would cost more than everything else that a hook does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from engram import limits

DEFAULT = "default"
GIT = ".git"

_SECTION = re.compile(r'^\s*\[\s*remote\s+"(?P<remote>[^"]*)"\s*\]')
_URL = re.compile(r"^\s*url\s*=\s*(?P<url>\S+)", re.IGNORECASE)
_REMOTE = re.compile(
    r"^(?:(?:ssh|git|https?|git\+ssh)://)?(?:[^@/\s]+@)?(?P<host>[^/:\s]+)(?::\d+(?=/))?[:/]+(?P<path>.+)$"
)


class Place(NamedTuple):
    """Where a directory belongs."""

    project: str
    root: Path
    """The main checkout of its repository, or the directory itself."""


def place_of(directory: Path, *, home: Path, aliases: Mapping[str, str] | None = None) -> Place:
    """Return the place of a directory, which need not exist any more.

    Args:
        home: the user's directory, which itself is no project.
        aliases: projects by directory, by path below `home` (`~/…`) or by the name found otherwise.
    """
    directory = directory.absolute()
    common = _common_directory(directory)
    root = _checkout_of(common) if common else directory
    named = (_remote_name(common) if common else None) or _path_name(root, home)
    return Place(_alias(directory, home, named, aliases or {}) or named, root)


def _alias(directory: Path, home: Path, named: str, aliases: Mapping[str, str]) -> str | None:
    """Return the alias of the directory, of the nearest one above it, or of the name found."""
    for each in (directory, *directory.parents):
        for key in (str(each), _path_name(each, home)):
            if key in aliases:
                return aliases[key]
    return aliases.get(named)


def _common_directory(directory: Path) -> Path | None:
    """Return the directory that all worktrees of a repository share."""
    for each in (directory, *directory.parents):
        found = each / GIT
        if found.is_dir():
            return found
        if (pointer := _first_line(found)) and pointer.startswith("gitdir:"):
            own = (each / pointer.removeprefix("gitdir:").strip()).resolve()
            shared = _first_line(own / "commondir")
            return (own / shared).resolve() if shared else own
    return None


def _checkout_of(common: Path) -> Path:
    return common.parent if common.name == GIT else common


def _remote_name(common: Path) -> str | None:
    """Return host and path of the remote `origin`, or of the first one."""
    urls = _remotes(common / "config")
    url = urls.get("origin") or next(iter(urls.values()), None)
    found = _REMOTE.match(url) if url else None
    if found is None or "://" in found["path"]:
        return None
    path = found["path"].strip("/").removesuffix(GIT).strip("/")
    return _valid(f"{found['host'].lower()}/{path}") if path else None


def _remotes(config: Path) -> dict[str, str]:
    urls, remote = dict[str, str](), None
    for line in _text(config).splitlines():
        if section := _SECTION.match(line):
            remote = section["remote"]
        elif line.lstrip().startswith("["):
            remote = None
        elif remote is not None and (url := _URL.match(line)):
            urls.setdefault(remote, url["url"])
    return urls


def _path_name(path: Path, home: Path) -> str:
    if path in (home, Path(path.anchor)):
        return DEFAULT
    if path.is_relative_to(home):
        return _valid(f"~/{path.relative_to(home).as_posix()}")
    return _valid(path.as_posix())


def _valid(name: str) -> str:
    """Return a name that projects may have; one that is too long or has odd characters gets a hash."""
    if len(name) <= limits.PROJECT_CHARACTERS_MAX and name.isprintable():
        return name
    import hashlib  # noqa: PLC0415 few names are so

    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    shown = "".join(each if each.isprintable() else "?" for each in name)
    return f"{digest}:{shown[len(digest) + 1 - limits.PROJECT_CHARACTERS_MAX :]}"


def _first_line(path: Path) -> str:
    return _text(path).partition("\n")[0].strip()


def _text(path: Path) -> str:
    """Return the text of a small file; empty if there is none that can be read."""
    try:
        with path.open("rb") as file:
            return file.read(limits.GIT_CONFIG_BYTES_MAX).decode("utf-8", "replace")
    except OSError:
        return ""
