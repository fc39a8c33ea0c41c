"""Where the interpreter and the modules of the converters lie."""

from __future__ import annotations

import compileall
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_PACKAGES = ("engram", "mammoth", "cobble", "pypdfium2", "pypdfium2_raw", "pypdfium2_cfg")
_PLACES_OF_PACKAGES = ("site-packages", "dist-packages")
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


@cache
def library_paths() -> tuple[str, ...]:
    """Return the files and directories that a converter reads, none of them below another."""
    standard = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    prefixes = {sys.base_prefix, sys.base_exec_prefix}
    shared = (str(Path(prefix, name)) for prefix in prefixes for name in ("lib", "lib64"))
    installed = (path for path in sys.path if Path(path).name in _PLACES_OF_PACKAGES)
    wanted = [*_SYSTEM, *standard, *shared, *installed, *_package_directories()]
    return tuple(_outermost(path for path in wanted if Path(path).exists()))


@cache
def program_paths() -> tuple[str, ...]:
    """Return the files that an interpreter needs in order to be started."""
    settings = Path(sys.prefix, "pyvenv.cfg")
    paths = [Path(sys.executable), Path(sys.executable).resolve(), settings]
    return tuple(dict.fromkeys(str(path) for path in paths if path.exists()))


def compile_libraries() -> None:
    """Compile the modules of converters that are not: who is confined cannot keep what it compiles."""
    for directory in _package_directories():
        place = Path(directory, "convert") if Path(directory).name == "engram" else directory
        compileall.compile_dir(place, quiet=2)


def _package_directories() -> Iterator[str]:
    for name in _PACKAGES:
        spec = find_spec(name)
        yield from (spec and spec.submodule_search_locations) or ()


def _outermost(paths: Iterable[str]) -> Iterator[str]:
    """Yield the paths that lie below no other; a link leads elsewhere, so nothing lies below it."""
    ordered = sorted(dict.fromkeys(paths), key=len)
    directories = [path for path in ordered if not Path(path).is_symlink()]
    for path in ordered:
        if not any(
            Path(path) != Path(each) and Path(path).is_relative_to(each) for each in directories
        ):
            yield path
