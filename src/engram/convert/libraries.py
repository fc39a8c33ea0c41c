"""Locate the interpreter, the shared libraries and the modules that a converter needs.

Run in a sandbox, this module prints which of the converters' modules it can import there.
"""

from __future__ import annotations

import compileall
import json
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

CONVERTERS = ("engram.convert.worker", "mammoth", "pypdfium2")
"""Modules that must be importable in a sandbox if they are installed."""

_PACKAGES = ("engram", "mammoth", "cobble", "pypdfium2", "pypdfium2_raw", "pypdfium2_cfg")
_SITE_DIRECTORIES = ("site-packages", "dist-packages")
_SYSTEM = (
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/local/lib",
    "/nix/store",
    "/gnu/store",
    "/etc/ld.so.cache",
)
"""Where systems keep shared libraries."""


def main(arguments: Sequence[str]) -> int:
    """Print as JSON which of the named modules can be imported."""
    print(json.dumps(importable(arguments)))  # noqa: T201 the parent process reads it
    return 0


def importable(names: Sequence[str]) -> list[str]:
    """Return the named modules that can be imported."""
    return [name for name in names if find_spec(name) is not None]


@cache
def library_paths() -> tuple[str, ...]:
    """Return the files and directories that a converter reads, none of them inside another."""
    standard = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    prefixes = {sys.base_prefix, sys.base_exec_prefix}
    shared = (str(Path(prefix, name)) for prefix in prefixes for name in ("lib", "lib64"))
    installed = (path for path in sys.path if Path(path).name in _SITE_DIRECTORIES)
    wanted = [*_SYSTEM, *standard, *shared, *installed, *_package_directories()]
    return tuple(_outermost(path for path in wanted if Path(path).exists()))


@cache
def program_paths() -> tuple[str, ...]:
    """Return the files needed to start the interpreter."""
    settings = Path(sys.prefix, "pyvenv.cfg")
    paths = [Path(sys.executable), Path(sys.executable).resolve(), settings]
    return tuple(dict.fromkeys(str(path) for path in paths if path.exists()))


def compile_libraries() -> None:
    """Compile the converters' modules to bytecode, because a sandboxed process cannot write any."""
    for directory in _package_directories():
        place = Path(directory, "convert") if Path(directory).name == "engram" else directory
        compileall.compile_dir(place, quiet=2)


def _package_directories() -> Iterator[str]:
    for name in _PACKAGES:
        spec = find_spec(name)
        yield from (spec and spec.submodule_search_locations) or ()


def _outermost(paths: Iterable[str]) -> Iterator[str]:
    """Yield the paths that are not inside another; a symlink contains nothing itself."""
    ordered = sorted(dict.fromkeys(paths), key=len)
    directories = [path for path in ordered if not Path(path).is_symlink()]
    for path in ordered:
        if not any(
            Path(path) != Path(each) and Path(path).is_relative_to(each) for each in directories
        ):
            yield path
