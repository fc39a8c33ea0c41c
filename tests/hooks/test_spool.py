"""The spool loses nothing that was written, whoever is killed, and gives it to one drainer."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from engram import limits
from engram.hooks.spool import Drain, SpoolFullError, append

PROGRAMS = "tests.hooks.programs"
PROJECT = Path(__file__).parents[2]


def start(program: str, *arguments: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", f"{PROGRAMS}.{program}", *map(str, arguments)]
    return subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE)


def end(process: subprocess.Popen[bytes]) -> list[str]:
    """Kill a process, and return the whole lines it wrote."""
    process.kill()
    written, _ = process.communicate()
    return written.decode().split("\n")[:-1]


def drain_all(home: Path) -> list[str]:
    found, drain = list[str](), Drain(str(home))
    if drain.open():
        while (records := drain.take()) is not None:
            found += [f"{record['name']} {record['number']}" for record in records]
            drain.finish()
    drain.close()
    return found


def test_a_record_is_drained_once_and_in_order(tmp_path: Path) -> None:
    for number in range(3):
        append(str(tmp_path), {"name": "a", "number": number})

    assert drain_all(tmp_path) == ["a 0", "a 1", "a 2"]
    assert drain_all(tmp_path) == []


def test_nothing_written_is_lost_when_writers_and_drainers_are_killed(tmp_path: Path) -> None:
    home, target = tmp_path / "store", tmp_path / "drained"
    chance = random.Random(7)  # noqa: S311 - when processes are killed
    written = list[str]()
    for turn in range(4):
        writers = {
            f"{turn}-{each}": start("append_records", home, f"{turn}-{each}") for each in "ab"
        }
        drainers = [start("drain_records", home, target) for _ in range(2)]
        for name, writer in writers.items():
            # It writes until it is killed, somewhere behind its first record.
            assert writer.stdout is not None
            written.append(f"{name} {int(writer.stdout.readline())}")
        time.sleep(chance.random() / 10)
        for drainer in drainers:
            end(drainer)
        for name, writer in writers.items():
            written += [f"{name} {number}" for number in end(writer)]

    drained = Counter([*target.read_text().split("\n"), *drain_all(home)])

    assert set(written) <= set(drained)
    # Only what a killed drainer had taken and not removed can come a second time.
    assert sum(drained.values()) < 2 * len(drained)


def test_without_kills_every_record_is_drained_exactly_once(tmp_path: Path) -> None:
    home, target = tmp_path / "store", tmp_path / "drained"
    drainers = [start("drain_records", home, target) for _ in range(2)]
    writer = start("append_records", home, "a")
    assert writer.stdout is not None
    written = [int(writer.stdout.readline()) for _ in range(2_000)]
    written += map(int, end(writer))
    wait_until_drained(home)

    for drainer in drainers:
        end(drainer)

    drained = Counter(target.read_text().split("\n"))
    assert {drained[f"a {number}"] for number in written} == {1}


def wait_until_drained(home: Path) -> None:
    deadline = time.monotonic() + 60
    while any((home / "hooks" / name).exists() for name in ("spool", "spool.draining")):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_line_that_was_cut_off_spoils_no_other(tmp_path: Path) -> None:
    append(str(tmp_path), {"name": "a", "number": 1})
    spool = tmp_path / "hooks" / "spool"
    spool.write_bytes(spool.read_bytes() + b'\n{"name": "b", "num')
    append(str(tmp_path), {"name": "c", "number": 3})

    assert drain_all(tmp_path) == ["a 1", "c 3"]


def test_what_a_dead_drainer_had_taken_comes_before_what_was_added(tmp_path: Path) -> None:
    append(str(tmp_path), {"name": "a", "number": 1})
    dead = Drain(str(tmp_path))
    assert dead.open()
    dead.take()
    dead.close()
    append(str(tmp_path), {"name": "b", "number": 2})

    assert drain_all(tmp_path) == ["a 1", "b 2"]


def test_one_process_at_a_time_drains(tmp_path: Path) -> None:
    append(str(tmp_path), {"name": "a", "number": 1})
    first, second = Drain(str(tmp_path)), Drain(str(tmp_path))

    assert first.open()
    assert not second.open()

    first.close()
    assert second.open()
    second.close()


def test_a_spool_that_nobody_drains_stops_growing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SPOOL_BYTES_MAX", 100)
    append(str(tmp_path), {"text": "x" * 200})

    with pytest.raises(SpoolFullError):
        append(str(tmp_path), {"text": "y"})


def test_files_are_the_users_alone(tmp_path: Path) -> None:
    append(str(tmp_path / "store"), {"name": "a"})

    for path in (tmp_path / "store", tmp_path / "store" / "hooks", tmp_path / "store/hooks/spool"):
        assert path.stat().st_mode & 0o077 == 0
    assert os.listdir(tmp_path / "store") == ["hooks"]  # noqa: PTH208 - names alone
