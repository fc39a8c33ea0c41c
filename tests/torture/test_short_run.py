"""A short run on each store: whatever is done to the processes, no answer contradicts another."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.promises import promise

pytestmark = promise(
    "verbatim", "durable", "findable", "processes", "clear", "apart", "idempotent", "removal"
)

SEED = "20"
FEW = ("--minutes", "0.15", "--servers", "2", "--sessions", "1", "--clients", "2")


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_no_answer_contradicts_another_while_processes_are_killed_and_misled(
    tmp_path: Path, store: str, record_property: Callable[[str, object], None]
) -> None:
    options = ("--store", store, "--seed", SEED, "--histories", str(tmp_path), *FEW)

    ran = subprocess.run(
        [sys.executable, "-m", "tests.torture", *options],
        check=False,
        capture_output=True,
        text=True,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    record_property("told", ran.stdout.splitlines()[0])
