"""A small file system of its own for a program, so that a test can fill it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.storage.processes import PROJECT

TIMEOUT_S = 300


def run_on_small_disk(module: str, mount: Path, *, size_bytes: int) -> Any:
    """Run a program with the path of a store on a small file system; return the JSON it prints."""
    mounted = ["--dev-bind", "/", "/", "--size", str(size_bytes), "--tmpfs", str(mount)]
    # Nothing that it starts outlives it.
    command = [_bubblewrap(), *mounted, "--unshare-pid", "--chdir", str(PROJECT)]
    ended = subprocess.run(
        [*command, sys.executable, "-m", module, str(mount / "store")],
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr.decode()
    return orjson.loads(ended.stdout)


def fill(path: Path) -> None:
    """Write until nothing more fits, not even a byte."""
    with path.open("wb", buffering=0) as file:
        for size in (65_536, 4_096, 1):
            try:
                while file.write(os.urandom(size)):
                    pass
            except OSError:
                continue


def _bubblewrap() -> str:
    """Return the program that mounts a small file system without root."""
    found = shutil.which("bwrap") or shutil.which("bwrap", path=Path(sys.executable).parent)
    if found is None:
        missing = pytest.fail if "CI" in os.environ else pytest.skip  # noqa: TID251 - of the test run
        missing("bubblewrap, which mounts a small file system, is not installed")
    return found
