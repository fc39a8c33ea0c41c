"""What a process loads before it can answer: each module is start-up time for every session."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from engram.clock import RandomIds, SystemClock
from engram.storage.sqlite.store import SqliteStore
from tests.mcp.connecting import INITIALIZE, engram_environment
from tests.storage.due_work import settle_all

REPORT = "import json, sys; print(json.dumps(sorted({m.partition('.')[0] for m in sys.modules})))"
LISTED_AT_EXIT = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
from engram.cli import main
main()
"""

MESSAGE = {"role": "user", "content": "The harbour opens at six."}
APPEND = {"name": "append_messages", "arguments": {"messages": [MESSAGE]}}
SEARCH = {"name": "search", "arguments": {"query": "harbour"}}

AT_WORK = {
    f"engram.service.{name}"
    for name in (
        "access",
        "access.alternation",
        "access.audit",
        "access.credentials",
        "access.rate",
        "access.usage",
        "deliveries",
        "work",
        "work.background",
        "work.batch",
        "work.document_indexing",
        "work.erasing",
        "work.indexing",
        "work.retention",
        "work.schedule",
        "work.scrubbing",
    )
}
"""What of the use cases every process has at work."""

UNASKED = {
    "engram.storage.documents.store",
    "engram.storage.memories.store",
    "engram.storage.checks.repair",
    "engram.storage.checks.verification",
    "engram.text.documents",
}
"""What a search for messages has nothing to do with."""


def own_modules(loaded: set[str], *prefixes: str) -> set[str]:
    """Return the modules whose names begin with one of the prefixes."""
    return {name for name in loaded if name.startswith(prefixes)}


async def settle_due_work(home: Path) -> None:
    """Look at the only organisation, as a process does once in the background."""
    store = SqliteStore(home, clock=SystemClock(), ids=RandomIds())
    await store.open()
    try:
        (found,) = await store.control.list_organizations()
        await settle_all(await store.organization(found.id))
    finally:
        await store.close()


def loaded_by(module: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter holds after importing `module`."""
    ended = subprocess.run(
        [sys.executable, "-c", f"import {module}; {REPORT}"],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return set(json.loads(ended.stdout))


def loaded_by_engram_mcp(tmp_path: Path, **settings: str) -> set[str]:
    """Return the top-level modules that `engram mcp` imports to answer `initialize` and end."""
    return {name.partition(".")[0] for name in modules_of_engram_mcp(tmp_path, **settings)}


def modules_of_engram_mcp(
    tmp_path: Path, *calls: Mapping[str, object], **settings: str
) -> set[str]:
    """Return the modules that `engram mcp` imports to answer `initialize` and some calls of tools."""
    requests = [
        {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call}
        for number, call in enumerate(calls, start=100)
    ]
    ended = subprocess.run(
        [sys.executable, "-c", LISTED_AT_EXIT, "mcp"],
        input=b"".join(json.dumps(each).encode() + b"\n" for each in (INITIALIZE, *requests)),
        env=engram_environment({"HOME": str(tmp_path), **settings}),
        check=True,
        capture_output=True,
        timeout=60,
    )
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    assert {answer["id"] for answer in answers} == {INITIALIZE["id"], *range(100, 100 + len(calls))}
    assert not [answer for answer in answers if answer.get("result", {}).get("isError")]
    return set(json.loads(ended.stderr.splitlines()[-1]))


def test_engram_mcp_loads_no_more_than_it_serves(tmp_path: Path) -> None:
    loaded = loaded_by_engram_mcp(tmp_path)

    # uvicorn and httpx2 are loaded by the SDK itself.
    assert {"mcp", "sqlite3"} <= loaded
    assert not loaded & {"fastapi", "httpx", "onnxruntime", "prometheus_client", "rich", "typer"}


def test_initialize_loads_no_tool_and_no_use_case(tmp_path: Path) -> None:
    loaded = modules_of_engram_mcp(tmp_path)

    assert "engram.mcp.tools" in loaded
    assert not own_modules(loaded, "engram.transfer", "engram.search")
    assert own_modules(loaded, "engram.service.") <= AT_WORK
    assert len(own_modules(loaded, "engram")) <= 189


async def test_a_first_search_loads_nothing_of_memories_and_documents(tmp_path: Path) -> None:
    modules_of_engram_mcp(tmp_path, APPEND, EMBEDDER="hash")
    await settle_due_work(tmp_path)
    loaded = modules_of_engram_mcp(tmp_path, SEARCH, EMBEDDER="hash")

    assert own_modules(loaded, "engram.service.") - AT_WORK <= {"engram.service.search"}
    assert not loaded & UNASKED
    assert len(own_modules(loaded, "engram")) <= 226


def test_a_search_by_meaning_loads_no_more_than_it_needs(tmp_path: Path) -> None:
    modules_of_engram_mcp(tmp_path, APPEND, EMBEDDER="hash")
    loaded = modules_of_engram_mcp(tmp_path, SEARCH, EMBEDDER="hash")

    assert "engram.vectors.snapshot" in loaded
    assert not loaded & {"numpy.ma", "engram.embedding.static_model", "onnxruntime", "tokenizers"}


def test_engram_mcp_as_a_relay_loads_no_sdk_and_no_store(tmp_path: Path) -> None:
    loaded = loaded_by_engram_mcp(tmp_path, URL="http://127.0.0.1:9")

    assert "httpx" in loaded
    assert not loaded & {"mcp", "mcp_types", "sqlite3", "starlette", "fastapi", "typer"}


def test_the_relay_needs_neither_the_sdk_nor_the_store() -> None:
    loaded = loaded_by("engram.mcp.relay")

    assert "httpx" in loaded
    assert not loaded & {"mcp", "mcp_types", "pydantic", "starlette", "sqlite3", "fastapi", "numpy"}


@pytest.mark.parametrize("module", ["engram.mcp", "engram.mcp.lines"])
def test_what_both_share_needs_nothing(module: str) -> None:
    assert not loaded_by(module) & {"mcp", "mcp_types", "pydantic", "httpx", "starlette"}
