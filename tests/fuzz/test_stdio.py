"""Mutated messages to `engram mcp`: every request is answered once, and the process goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from engram.http.asgi import create_app
from tests.fuzz.mutants import ids_of, mutants
from tests.fuzz.store import furnish_for_key, furnish_locally, settings_in
from tests.mcp.connecting import INITIALIZE, engram_environment
from tests.promises import promise
from tests.serving import serving

MESSAGES = 2_000
RELAYED = 500
TIMEOUT_S = 300
LAST: dict[str, Any] = {"name": "list_conversations", "arguments": {}}


def converse(
    environment: dict[str, str], lines: list[bytes]
) -> tuple[list[dict[str, Any]], str, int]:
    """Send all lines; return the answers, the log and the exit code."""
    last = {"jsonrpc": "2.0", "id": "last", "method": "tools/call", "params": LAST}
    sent = [json.dumps({**INITIALIZE, "id": "first"}).encode(), *lines, json.dumps(last).encode()]
    process = subprocess.run(
        [sys.executable, "-m", "engram", "mcp"],
        env=engram_environment(environment),
        input=b"".join(line + b"\n" for line in sent),
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    answers = [json.loads(line) for line in process.stdout.splitlines()]
    return answers, process.stderr.decode(), process.returncode


def check(seed: str, lines: list[bytes], answers: list[dict[str, Any]]) -> None:
    """Check that each request was answered once, and the last one well."""
    given = [ids_of(line) for line in lines]
    known = Counter(own for own, _ in given if own is not None)
    owed = Counter(own for own, is_owed in given if own is not None and is_owed)
    got = Counter(answer["id"] for answer in answers if answer["id"] not in {None, "first", "last"})
    assert not owed - got, f"{seed}: not answered: {owed - got}"
    assert not got - known, f"{seed}: answered more than once: {got - known}"
    internal = [answer for answer in answers if answer.get("error", {}).get("code") == -32603]
    assert not internal
    last = next(answer for answer in answers if answer["id"] == "last")
    assert not last["result"].get("isError")


@promise("clear", mutants=4 * MESSAGES)
@pytest.mark.parametrize("seed", ["stdio-1", "stdio-2", "stdio-3", "stdio-4"])
async def test_no_message_ends_the_process_or_stays_unanswered(tmp_path: Path, seed: str) -> None:
    settings = settings_in(tmp_path)
    ids = await furnish_locally(settings)
    lines = [message.replace(b"\n", b" ") for message in mutants(seed, MESSAGES, ids=ids)]
    places = {"HOME": str(settings.home), "DATA_DIR": str(settings.data_dir), "EMBEDDER": "none"}

    answers, log, status = await anyio.to_thread.run_sync(converse, places, lines)

    assert (status, "Traceback" in log) == (0, False), f"{seed}: {log}"
    check(seed, lines, answers)


@promise("clear", mutants=RELAYED)
async def test_no_message_ends_the_relay_or_stays_unanswered(tmp_path: Path) -> None:
    seed = "relay"
    settings = settings_in(tmp_path)
    key, ids = await furnish_for_key(settings)
    lines = [message.replace(b"\n", b" ") for message in mutants(seed, RELAYED, ids=ids)]

    async with serving(create_app(settings)) as url:
        places = {"URL": url, "API_KEY": key}
        answers, log, status = await anyio.to_thread.run_sync(converse, places, lines)

    assert (status, "Traceback" in log) == (0, False), f"{seed}: {log}"
    check(seed, lines, answers)
