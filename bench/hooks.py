"""What a hook costs an agent: the processor's time of capture and recall, and the wait for an answer."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure, allowed
from bench.planting import plant_store
from bench.timing import Spent, fastest_wall, median_cpu, median_wall, percentile
from engram import limits
from engram.engine.address import address_of
from engram.engine.launch import ask_engine, reach_engine, stop_engine
from engram.settings import load_settings

MESSAGES = 10_000
CAPTURE_MS = 20.0
TOLD_SHARE = 0.95
"""Of the prompts that something is to be told; the others get silence, because it came too late."""

PROMPT = "how do I read the lines of a file that is larger than memory?"
PASS = "python -c pass"  # noqa: S105 - no secret


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook that has ended."""

    spent: Spent
    is_told: bool
    """Whether it gave the agent something to read."""


@dataclass(frozen=True, slots=True)
class Round:
    """One of each, so that all see the same machine."""

    floor: Spent
    capture: Hook
    recall: Hook


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the figures of hooks beside an interpreter that does nothing, in turns."""
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        home = Path(directory) / "store"
        messages = MESSAGES // 10 if quick else MESSAGES
        asyncio.run(plant_store(home, messages=messages, is_local=True))
        settings = load_settings({"home": home}, environment={})
        address = address_of(settings)
        reach_engine(settings, address, {}).close()
        found = ask_engine(address)
        assert found is not None
        count = 10 if quick else 60
        try:
            # What the first prompts alone have to do, such as loading models, is not measured.
            for at in range(10):
                _prompt(home, session=f"first {at}")
            rounds = [_round(home, at) for at in range(count)]
            hanging = _while_hanging(found["pid"], home, count=count)
        finally:
            stop_engine(address, found["pid"])
    return _figures(rounds, hanging, messages=messages)


def _round(home: Path, at: int) -> Round:
    return Round(_pass(), _run(home, "turn", {}), _prompt(home, session=f"round {at}"))


def _prompt(home: Path, *, session: str) -> Hook:
    """Return the hook of the first prompt of a session whose start was missed.

    It is owed an overview beside what answers the prompt, so silence means that it was late.
    """
    return _run(home, "prompt", {"session_id": session, "prompt": PROMPT})


def _while_hanging(process: int, home: Path, *, count: int) -> list[Hook]:
    """Return hooks of prompts while the engine takes connections and answers none."""
    os.kill(process, signal.SIGSTOP)
    try:
        return [_run(home, "prompt", {"prompt": PROMPT}) for _ in range(count)]
    finally:
        os.kill(process, signal.SIGCONT)


def _figures(rounds: Sequence[Round], hanging: Sequence[Hook], *, messages: int) -> list[Figure]:
    floor = [each.floor for each in rounds]
    capture = [each.capture.spent for each in rounds]
    recall = [each.recall.spent for each in rounds]
    recall_ms = 1_000 * limits.HOOK_RECALL_S
    assert not any(each.is_told for each in hanging)
    return [
        _figure("engram hook turn", capture, floor),
        allowed(
            f"engram hook turn beyond {PASS}",
            1_000 * (median_cpu(capture) - median_cpu(floor)),
            unit="CPU ms",
            at_most=CAPTURE_MS,
        ),
        _figure("engram hook prompt", recall, floor),
        Figure(
            name=f"prompts over {messages:,} messages, told within {recall_ms:.0f} ms; the others: silence",
            value=sum(each.recall.is_told for each in rounds) / len(rounds),
            unit="of all",
            floor=1.0,
            floor_name="all",
            direction="at least",
            bound=TOLD_SHARE,
        ),
        allowed(
            f"engram hook prompt, 95th percentile on the clock beyond {PASS}",
            1_000 * (percentile([spent.wall_s for spent in recall], 0.95) - median_wall(floor)),
            unit="ms",
            at_most=recall_ms,
            # Other work on the machine decides it; the hook itself keeps the time.
            is_bound=False,
        ),
        allowed(
            f"engram hook prompt while the engine hangs, least on the clock beyond {PASS}",
            1_000 * (fastest_wall(each.spent for each in hanging) - fastest_wall(floor)),
            unit="ms",
            at_most=recall_ms,
        ),
    ]


def _figure(name: str, own: Sequence[Spent], floor: Sequence[Spent]) -> Figure:
    return Figure(
        name=name,
        value=1_000 * median_cpu(own),
        unit="CPU ms",
        floor=1_000 * median_cpu(floor),
        floor_name=PASS,
        direction="at most",
        bound=None,
    )


def _pass() -> Spent:
    return _spent([sys.executable, "-c", "pass"], b"", _environment({}))[0]


def _run(home: Path, event: str, more: Mapping[str, str]) -> Hook:
    """Run a hook as a client does."""
    given = {
        "session_id": "bench",
        "transcript_path": str(home / "missing.jsonl"),
        "cwd": str(home),
        **more,
    }
    command = [str(Path(sys.executable).with_name("engram")), "hook", event]
    environment = _environment({"ENGRAM_HOME": str(home)})
    spent, answer = _spent(command, json.dumps(given).encode(), environment)
    return Hook(spent, is_told=bool(json.loads(answer)))


def _environment(own: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which modules are compiled once, as in an installation."""
    left_out = ("ENGRAM_", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return {**kept, **own}


def _spent(
    command: Sequence[str], given: bytes, environment: Mapping[str, str]
) -> tuple[Spent, bytes]:
    """Return the time of a process, and what it printed."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(given)
    process.stdin.close()
    answer = process.stdout.read()
    wall_s = time.perf_counter() - started
    # Not through Popen, which would lose what the process used.
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    process.stdout.close()
    assert status == 0, answer
    return Spent(wall_s, usage.ru_utime + usage.ru_stime), answer
