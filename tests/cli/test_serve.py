"""`engram serve`: what it says at its first start and later, and that it serves."""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from engram.cli.serve import CONNECT_HEADING, server_url, warn_about_plain_http
from tests.cli.commands import Engram
from tests.promises import promise


@contextmanager
def serving(engram: Engram, *arguments: str) -> Generator[IO[bytes]]:
    """Run a server on a free port and yield what it prints."""
    with engram.start("serve", "--port", "0", *arguments) as process:
        try:
            assert process.stdout is not None
            yield process.stdout
        finally:
            process.terminate()
            assert process.wait(30) in {0, -15}


def read_start(output: IO[bytes]) -> list[str]:
    """Return the lines up to the one that offers stdio, which is the last of a start."""
    lines = list[str]()
    for line in output:
        lines.append(line.decode().rstrip())
        if CONNECT_HEADING in lines[-2:-1]:
            return lines
    raise AssertionError(lines)


def get(url: str, key: str) -> Any:
    """Return the answer to a GET request."""
    return ask(urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"}))  # noqa: S310 loopback


def post(url: str, key: str, body: dict[str, Any]) -> Any:
    """Return the answer to a POST request."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    return ask(urllib.request.Request(url, json.dumps(body).encode(), headers))  # noqa: S310 loopback


def ask(request: urllib.request.Request) -> Any:
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 loopback
        return json.load(answer)


def read_json(output: IO[bytes]) -> Any:
    """Return the JSON object that a server prints before it serves."""
    text = b""
    for line in output:
        text += line
        if line == b"}\n":
            return json.loads(text)
    raise AssertionError(text)


def key_in(engram: Engram) -> str:
    """Return the key that the first start left."""
    return (engram.home / "first-key").read_text().strip()


def test_first_start_leaves_a_key_that_works_and_says_how_to_use_it(engram: Engram) -> None:
    with serving(engram) as output:
        lines = read_start(output)
        [url] = {line.split()[-1] for line in lines if "is listening on" in line}
        found = post(f"{url}/api/v1/search", key_in(engram), {"query": "anything"})

    assert found["results"] == []
    text = "\n".join(lines)
    assert "engram_sk_live_" not in text
    assert f"Your API key is in {engram.home}/first-key" in text
    assert f'--url {url} --key "$(cat {engram.home}/first-key)"' in text
    assert f"curl {url}/api/v1/search" in text
    assert "words only" in text


@promise("private")
def test_the_file_of_the_first_key_is_its_owners_alone(engram: Engram, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    engram.home.mkdir()
    (engram.home / "first-key").symlink_to(victim)

    with serving(engram) as output:
        read_start(output)

    file = engram.home / "first-key"
    assert not file.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o600
    assert victim.read_text() == "untouched"
    assert [path.name for path in engram.home.glob("first-key*")] == ["first-key"]


def test_a_first_key_that_cannot_be_written_ends_the_start(engram: Engram) -> None:
    (engram.home / "first-key").mkdir(parents=True)

    refused = engram.process("serve", "--port", "0")

    assert (refused.status, refused.stdout) == (2, "")
    assert "first-key" in refused.stderr
    assert "engram keys create" in refused.stderr
    assert "engram_sk_live_" not in refused.stderr
    assert [path.name for path in engram.home.glob("first-key*")] == ["first-key"]


def test_later_start_says_where_the_key_is_while_it_is_kept(engram: Engram) -> None:
    with serving(engram) as output:
        read_start(output)

    with serving(engram) as output:
        lines = read_start(output)

    assert any(str(engram.home / "first-key") in line for line in lines)


def test_later_start_says_how_to_make_another_key(engram: Engram) -> None:
    with serving(engram) as output:
        read_start(output)
    (engram.home / "first-key").unlink()

    with serving(engram) as output:
        lines = read_start(output)

    assert "engram_sk_live_" not in "\n".join(lines)
    assert any("`engram keys create NAME`" in line for line in lines)


def test_start_as_json_names_url_and_the_file_of_the_key(engram: Engram) -> None:
    with serving(engram, "--json") as output:
        started = read_json(output)
        stored = post(
            f"{started['url']}/api/v1/messages",
            key_in(engram),
            {"messages": [{"role": "user", "content": "over HTTP"}]},
        )

    assert started["api_key"] is None
    assert started["api_key_file"] == str(engram.home / "first-key")
    assert started["mcp_url"] == f"{started['url']}/mcp"
    shown = engram("conversations", "show", stored["conversation_id"], "--json").json
    assert shown["messages"][0]["content"] == "over HTTP"


def test_json_of_commands_is_the_answer_of_rest(engram: Engram, conversation: str) -> None:
    with serving(engram, "--json") as output:
        started = read_json(output)
        api, key = f"{started['url']}/api/v1", key_in(engram)
        over_http = [
            post(f"{api}/search", key, {"query": "flight", "limit": 3, "explain": True}),
            get(f"{api}/conversations?tags=travel", key),
            get(f"{api}/conversations/{conversation}?message_limit=2", key),
            get(f"{api}/status", key),
        ]

    by_command = [
        engram("search", "flight", "--limit", "3", "--explain", "--json").json,
        engram("conversations", "list", "--tag", "travel", "--json").json,
        engram("conversations", "show", conversation, "--limit", "2", "--json").json,
        engram("status", "--json").json,
    ]
    assert by_command == over_http


def test_flag_wins_over_the_environment(engram: Engram) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with engram.start("serve", "--port", "0", "--json", port=str(port)) as process:
            assert process.stdout is not None
            started = read_json(process.stdout)
            process.terminate()

    assert started["url"] != f"http://127.0.0.1:{port}"


@promise("hosts")
@pytest.mark.parametrize(("host", "warnings"), [("0.0.0.0", 1), ("127.0.0.1", 0)])  # noqa: S104 this is the case
def test_a_public_address_without_tls_is_warned_of_once(
    engram: Engram, host: str, warnings: int
) -> None:
    with engram.start("serve", "--host", host, "--port", "0", "--json") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        started = read_json(process.stdout)
        process.terminate()
        told = process.stderr.read().decode()

    assert "Warning" not in json.dumps(started)
    assert told.count("without TLS") == warnings


@pytest.mark.parametrize(
    ("address", "is_public"),
    [("::1", False), ("127.0.0.2", False), ("::", True), ("192.0.2.1", True), ("fe80::1%lo", True)],
)
def test_every_address_but_loopback_is_public(
    address: str, *, is_public: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    warn_about_plain_http(address)

    assert (address in capsys.readouterr().err) == is_public


def test_port_in_use_is_told_before_a_key_is_made(engram: Engram) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = engram.process("serve", "--port", str(taken.getsockname()[1]))

    assert (refused.status, refused.stdout) == (2, "")
    assert "is in use" in refused.stderr
    assert engram("keys", "list", "--json").json == {"keys": []}


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8788"),
        ("0.0.0.0", "http://127.0.0.1:8788"),  # noqa: S104 not bound
        ("::", "http://[::1]:8788"),
        ("::1", "http://[::1]:8788"),
        ("memory.example.org", "http://memory.example.org:8788"),
    ],
)
def test_clients_are_told_an_address_they_can_reach(host: str, url: str) -> None:
    assert server_url(host, 8788) == url


def test_a_server_names_each_client_once_and_says_when_it_has_stopped(engram: Engram) -> None:
    greeting = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "kingfisher", "version": "1.2"},
        },
    }

    with engram.start("serve", "--port", "0", "--json") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        started = read_json(process.stdout)
        key = Path(started["api_key_file"]).read_text().strip()
        for _ in range(2):
            assert "result" in post(started["mcp_url"], key, greeting)
        process.terminate()
        told = process.stderr.read().decode()

    assert told.count("client kingfisher 1.2 connected") == 1
    assert told.endswith("\nstopped\n")
