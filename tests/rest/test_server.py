"""The server on real sockets: what breaks on the wire, start, stop and workers."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from engram import limits
from engram.errors import ConfigurationError
from engram.http.asgi import create_app
from engram.http.server import listen
from engram.model.value import replace
from engram.settings import Settings
from tests.promises import promise
from tests.rest.calls import ADMIN_TOKEN, append, new_conversation, new_key, refusal, stored
from tests.serving import serving


@pytest.fixture
async def client(settings: Settings) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of an organisation, over TCP."""
    async with serving(create_app(settings)) as url:
        operator = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        async with httpx.AsyncClient(base_url=url, headers=operator) as opened:
            opened.headers["Authorization"] = f"Bearer {await new_key(opened)}"
            yield opened


def head(client: httpx.AsyncClient, *headers: str) -> bytes:
    """Return the first lines of an append, as they go over the wire."""
    lines = [
        "POST /api/v1/messages HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: {client.headers['authorization']}",
        "Content-Type: application/json",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode()


async def connection(
    client: httpx.AsyncClient,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(client.base_url.host, client.base_url.port)


BODY = b'{"messages": [{"role": "user", "content": "hello"}]}'


async def test_a_body_that_ends_early_stores_nothing_and_is_no_error_of_ours(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    _, writer = await connection(client)

    writer.write(head(client, f"Content-Length: {len(BODY)}") + BODY[:-10])
    await writer.drain()
    writer.close()
    await writer.wait_closed()

    assert await stored(client) == (0, 0)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_body_announced_too_large_is_refused_before_it_is_sent(
    client: httpx.AsyncClient,
) -> None:
    reader, writer = await connection(client)

    writer.write(head(client, f"Content-Length: {limits.BODY_BYTES_MAX + 1}"))
    with anyio.fail_after(60):
        status = await reader.readline()
    writer.close()

    assert b" 413 " in status


async def test_a_body_in_pieces_is_one_body(client: httpx.AsyncClient) -> None:
    reader, writer = await connection(client)
    pieces = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (BODY[:20], BODY[20:])]

    writer.write(head(client, "Transfer-Encoding: chunked"))
    for piece in (*pieces, b"0\r\n\r\n"):
        writer.write(piece)
        await writer.drain()
    with anyio.fail_after(60):
        status = await reader.readline()
    writer.close()

    assert b" 200 " in status
    assert await stored(client) == (1, 1)


@promise("verbatim")
async def test_large_messages_come_back_whole_over_the_wire(client: httpx.AsyncClient) -> None:
    content = "0123456789 é🦝\x00\r\n" * 50_000
    conversation_id = await new_conversation(client)

    await append(client, conversation_id, content)

    read = await client.get(f"/api/v1/conversations/{conversation_id}")
    assert read.json()["messages"][0]["content"] == content


@promise("hosts")
async def test_other_hosts_are_refused_over_the_wire(client: httpx.AsyncClient) -> None:
    answer = await client.get("/healthz", headers={"Host": "evil.example"})

    assert refusal(answer) == (421, "host_not_allowed", None)


def test_a_port_in_use_names_the_setting(settings: Settings) -> None:
    with listen(replace(settings, port=0)) as taken:
        port: int = taken.getsockname()[1]

        with pytest.raises(ConfigurationError) as caught:
            listen(replace(settings, port=port))

    assert caught.value.setting == "ENGRAM_PORT"
    assert str(port) in caught.value.message


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
def test_an_address_of_another_machine_names_the_setting(settings: Settings, host: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        listen(replace(settings, host=host))

    assert caught.value.setting == "ENGRAM_HOST"


@asynccontextmanager
async def serve_command(home: Path, *options: str) -> AsyncGenerator[tuple[Any, dict[str, Any]]]:
    """Yield a running `engram serve` and what it said at its start."""
    command = [sys.executable, "-m", "engram", "serve", "--home", str(home), "--port", "0"]
    process = await asyncio.create_subprocess_exec(
        *command,
        "--json",
        *options,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process, await said(process.stdout)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def said(output: asyncio.StreamReader | None) -> dict[str, Any]:
    """Return the first JSON value that a process writes."""
    assert output is not None
    text = b""
    with anyio.fail_after(30):
        while line := await output.readline():
            text += line
            try:
                return json.loads(text)
            except json.JSONDecodeError:
                continue
    raise AssertionError(text)


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_started_server_serves_its_first_key_and_stops_when_told(
    tmp_path: Path, workers: str
) -> None:
    await anyio.Path(tmp_path / "engram.toml").write_text('log_format = "json"\n')
    options = ("--workers", workers, "--log", "debug")
    async with serve_command(tmp_path, *options) as (process, started):
        key = (await anyio.Path(started["api_key_file"]).read_text()).strip()
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(
            base_url=started["url"], headers=headers, timeout=30
        ) as client:
            await append(client, await new_conversation(client), "a private word")
            found = await client.get("/api/v1/search", params={"q": "private"})

        process.send_signal(signal.SIGTERM)
        with anyio.fail_after(60):
            _, log = await process.communicate()

    assert process.returncode == 0
    assert len(found.json()["results"]) == 1
    records = [json.loads(line) for line in log.decode().splitlines()]
    assert {record["level"] for record in records} <= {"debug", "info"}
    assert b"private" not in log
    assert key.encode() not in log


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_server_stops_in_time_however_long_its_background_work_is(
    tmp_path: Path, workers: str
) -> None:
    await anyio.Path(tmp_path / "engram.toml").write_text('embedder = "hash"\n')
    async with serve_command(tmp_path, "--workers", workers) as (process, started):
        key = (await anyio.Path(started["api_key_file"]).read_text()).strip()
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(
            base_url=started["url"], headers=headers, timeout=60
        ) as client:
            # Its vectors take half a minute of one core.
            conversation_id = await new_conversation(client)
            (await append(client, conversation_id, "x" * 10_000_000)).raise_for_status()

        process.send_signal(signal.SIGTERM)
        with anyio.fail_after(limits.SHUTDOWN_S + limits.STOP_S):
            await process.communicate()

    assert process.returncode == 0


async def test_a_process_that_does_not_stop_exits(tmp_path: Path) -> None:
    program = Path(__file__).parent / "programs" / "never_done.py"
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(program), str(tmp_path), stderr=asyncio.subprocess.PIPE
    )
    try:
        with anyio.fail_after(60):
            _, log = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()

    assert process.returncode == 0
    assert b"exits with work unfinished" in log


async def test_a_server_that_is_told_to_stop_before_it_has_started_ends(tmp_path: Path) -> None:
    program = Path(__file__).parent / "programs" / "told_early.py"
    process = await asyncio.create_subprocess_exec(sys.executable, str(program), str(tmp_path))
    try:
        with anyio.fail_after(30):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
