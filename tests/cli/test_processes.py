"""The command line as the shell runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.commands import Engram, inherited_environment
from tests.promises import promise


def imported_by(engram: Engram, *arguments: str, embedder: str = "none") -> set[str]:
    """Return the top-level modules that a command has imported when it ends."""
    script = (
        "import sys\n"
        "from engram.cli import main\n"
        "try:\n    main()\n"
        "finally:\n    print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={
            **inherited_environment(),
            "ENGRAM_HOME": str(engram.home),
            "ENGRAM_EMBEDDER": embedder,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return set(ended.stderr.splitlines()[-1].split())


SERVER_ONLY = {"mcp", "mcp_types", "fastapi", "starlette", "uvicorn", "httpx"}
MODELS_ONLY = {"numpy", "onnxruntime", "tokenizers", "filelock"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("search", "--help"),
        ("eval", "--help"),
        ("conversations", "list", "--json"),
        ("conversations", "append", "x"),
        ("status",),
        ("doctor",),
        ("keys", "list"),
        ("version",),
    ],
)
def test_commands_on_the_store_do_not_import_the_server(
    engram: Engram, arguments: tuple[str, ...]
) -> None:
    assert not (SERVER_ONLY | MODELS_ONLY) & imported_by(engram, *arguments)


def test_a_search_without_an_embedder_imports_no_library_of_models(engram: Engram) -> None:
    imported = imported_by(engram, "search", "x")

    assert (SERVER_ONLY | MODELS_ONLY) & imported == {"numpy"}


@pytest.mark.parametrize("arguments", [("status",), ("conversations", "append", "x")])
def test_storing_does_not_load_the_deep_model(engram: Engram, arguments: tuple[str, ...]) -> None:
    imported = imported_by(engram, *arguments, embedder="local")

    assert not (SERVER_ONLY | {"onnxruntime", "filelock"}) & imported


@pytest.mark.parametrize("arguments", [("--help",), ("search", "x", "--json"), ("search", "x")])
def test_rich_is_not_imported_where_no_table_is_shown(
    engram: Engram, arguments: tuple[str, ...]
) -> None:
    assert "rich" not in imported_by(engram, *arguments)


def test_help_needs_neither_pydantic_nor_sqlite(engram: Engram) -> None:
    assert not {"pydantic", "sqlite3", "asyncio"} & imported_by(engram, "--help")


WITHOUT_NETWORK = """
import sys
def refuse(event, arguments):
    if event in {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"}:
        raise ConnectionError(event)
sys.addaudithook(refuse)
from engram.cli import main
main()
"""


@promise("alone")
@pytest.mark.parametrize(
    "arguments",
    [("conversations", "append", "The demo is on Friday"), ("search", "demo"), ("doctor",)],
)
def test_no_command_looks_for_a_network(engram: Engram, arguments: tuple[str, ...]) -> None:
    settings = {"ENGRAM_HOME": str(engram.home), "ENGRAM_EMBEDDER": "local"}

    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_NETWORK, *arguments],
        env={**inherited_environment(), **settings},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ended.returncode, "ConnectionError" in ended.stderr) == (0, False), ended.stderr


@promise("processes", "local")
def test_session_of_processes_on_one_store(engram: Engram) -> None:
    created = engram.process("conversations", "create", "--title", "Demo", "--json")
    conversation = created.json["conversation_id"]

    engram.process("conversations", "append", "The demo is on Friday", "-c", conversation)
    piped = engram.process("conversations", "append", "-c", conversation, stdin=b"See you there")
    found = engram.process("search", "when is the demo?", "--json").json

    assert piped.status == 0
    assert found["results"][0]["conversation_id"] == conversation
    assert found["results"][0]["messages"][0]["content"] == "The demo is on Friday"
    assert engram.process("doctor").status == 0


def test_mistake_is_told_in_one_line(engram: Engram) -> None:
    refused = engram.process("conversations", "show", "conv_unknown")

    assert (refused.status, refused.stdout) == (2, "")
    assert refused.stderr.count("\n") == 1


def test_wrong_usage_exits_with_2(engram: Engram) -> None:
    refused = engram.process("serch")

    assert refused.status == 2
    assert "Did you mean 'search'" in refused.stderr


def test_broken_pipe_is_quiet(engram: Engram) -> None:
    engram("conversations", "append", "--json", stdin="long " * 200_000)
    conversation = engram("conversations", "list", "--json").json["conversations"][0]["id"]

    with engram.start("conversations", "show", conversation) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        complaint = process.stderr.read()

    assert complaint == b""


@pytest.mark.parametrize("arguments", [("--help",), ("version",), ("limits",)])
def test_full_disk_behind_the_output_is_told_in_one_line(
    engram: Engram, arguments: tuple[str, ...]
) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "engram", *arguments],
            env=inherited_environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )

    assert (ended.returncode, ended.stderr) == (1, "error: output: No space left on device\n")


def test_interrupt_is_quiet_and_exits_with_130(engram: Engram) -> None:
    with engram.start("conversations", "append", "--jsonl", "-") as process:
        assert process.stdin is not None
        assert process.stderr is not None
        # More than a pipe holds: once it is written, the command has begun to read.
        for _ in range(100):
            os.write(process.stdin.fileno(), b"\n" * 10_000)
        process.send_signal(signal.SIGINT)
        # A signal right before a read is noticed after it, so there must be more to read.
        with suppress(BrokenPipeError):
            for _ in range(1_000):
                os.write(process.stdin.fileno(), b"\n" * 10_000)
        complaint = process.stderr.read()

    assert process.returncode == 130
    assert complaint == b""


@promise("local")
def test_mcp_without_options_serves_a_client(engram: Engram) -> None:
    request = (
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
        b'"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}\n'
    )

    bare = engram.process("mcp", stdin=request)
    with_options = engram.process("mcp", "--toolsets", "conversations", stdin=request)

    for served in (bare, with_options):
        assert served.status == 0, served.stderr
        assert '"serverInfo"' in served.stdout


@pytest.mark.parametrize("options", [(), ("--toolsets", "conversations")])
def test_interrupted_mcp_is_quiet(engram: Engram, options: tuple[str, ...]) -> None:
    with engram.start("mcp", *options) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        complaint = process.stderr.read()

    assert (process.returncode, complaint) == (130, b"")


def test_bare_mcp_tells_a_mistake_in_one_line(engram: Engram) -> None:
    refused = engram.process("mcp", toolsets="songs")

    assert (refused.status, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: configuration: ENGRAM_TOOLSETS")


def test_bare_mcp_does_not_build_the_other_commands(engram: Engram) -> None:
    assert "typer" not in imported_by(engram, "mcp")
