"""What a process loads before it can answer: each module is start-up time for every session."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

REPORT = "import json, sys; print(json.dumps(sorted({m.partition('.')[0] for m in sys.modules})))"


def loaded_by(module: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter holds after importing `module`."""
    ended = subprocess.run(
        [sys.executable, "-c", f"import {module}; {REPORT}"],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return set(json.loads(ended.stdout))


def test_the_relay_needs_neither_the_sdk_nor_the_store() -> None:
    loaded = loaded_by("engram.transport.mcp.relay")

    assert "httpx" in loaded
    assert not loaded & {"mcp", "mcp_types", "pydantic", "starlette", "sqlite3", "fastapi"}


def test_stdio_needs_no_web_framework_and_no_http_client() -> None:
    loaded = loaded_by("engram.transport.mcp.stdio")

    assert "mcp" in loaded
    assert not loaded & {"fastapi", "httpx", "rich", "typer", "prometheus_client", "onnxruntime"}


@pytest.mark.parametrize("module", ["engram.transport.mcp", "engram.transport.mcp.lines"])
def test_what_both_share_needs_nothing(module: str) -> None:
    assert not loaded_by(module) & {"mcp", "mcp_types", "pydantic", "httpx", "starlette"}
