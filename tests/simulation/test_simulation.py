"""Seeded simulations of whole stores, and what makes them trustworthy: the same history for the same seed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CHUNKS = 8
SEEDS_PER_CHUNK = 30
"""Each chunk is a process, which takes as long to start as two seeds take."""
STEPS = 700
FIRST_SEED = 1_000_000
"""Far from the seeds that people choose by hand."""


def simulate(*, seed: int, seeds: int, steps: int) -> subprocess.CompletedProcess[str]:
    """Run seeds in a process of their own, where hashes are the same every time."""
    command = [sys.executable, "-m", "tests.simulation", "--seed", str(seed)]
    command += ["--seeds", str(seeds), "--steps", str(steps)]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_seed_loses_alters_halves_or_mixes_anything(chunk: int) -> None:
    first = FIRST_SEED + chunk * SEEDS_PER_CHUNK

    ended = simulate(seed=first, seeds=SEEDS_PER_CHUNK, steps=STEPS)

    assert ended.returncode == 0, ended.stderr


def test_a_seed_has_the_same_history_every_time() -> None:
    one = simulate(seed=7, seeds=2, steps=2_000)
    two = simulate(seed=7, seeds=2, steps=2_000)

    assert one.returncode == 0, one.stderr
    assert _digest(one) == _digest(two)


def test_another_seed_has_another_history() -> None:
    assert _digest(simulate(seed=7, seeds=1, steps=500)) != _digest(
        simulate(seed=8, seeds=1, steps=500)
    )


def _digest(ended: subprocess.CompletedProcess[str]) -> str:
    return ended.stdout.strip().rpartition("digest ")[2]
