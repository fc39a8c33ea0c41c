"""Chromium of an npm package, which brings the program itself: no root and no other download is needed."""

from __future__ import annotations

import platform
import shutil
import subprocess
import tarfile
from pathlib import Path

from tools.node import NODE, install_packages

INSTALLED = Path(__file__).parents[2] / ".browser"
_PACKED = INSTALLED / "node_modules/@sparticuz/chromium/bin"
_PROGRAM = INSTALLED / "chromium"
LIBRARIES = INSTALLED / "libraries/lib"
"""Libraries of the program that not every machine has."""

AXE = INSTALLED / "node_modules/axe-core/axe.min.js"
_UNPACK = """
const {createBrotliDecompress} = require("node:zlib");
const {createReadStream, createWriteStream} = require("node:fs");
const {pipeline} = require("node:stream/promises");
const [, from, to] = process.argv;
pipeline(createReadStream(from), createBrotliDecompress(), createWriteStream(to));
"""
_EXECUTABLE = 0o755


def install_browser() -> None:
    """Install the pinned browser and checks unless they are there already."""
    install_packages(Path(__file__).parent, into=INSTALLED)
    if not _PROGRAM.exists() and platform.machine() == "x86_64":
        _unpack("al2023.tar.br", INSTALLED / "libraries.tar")
        with tarfile.open(INSTALLED / "libraries.tar") as archive:
            archive.extractall(INSTALLED / "libraries", filter="data")
        draft = INSTALLED / "chromium.draft"
        _unpack("chromium.br", draft)
        draft.chmod(_EXECUTABLE)
        draft.rename(_PROGRAM)


def find_browser() -> Path | None:
    """Return the browser there is: the installed one, or else the machine's own."""
    if _PROGRAM.exists():
        return _PROGRAM
    found = shutil.which("chromium") or shutil.which("google-chrome")
    return None if found is None else Path(found)


def _unpack(name: str, target: Path) -> None:
    subprocess.run([NODE, "-e", _UNPACK, _PACKED / name, target], check=True)
