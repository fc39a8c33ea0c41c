"""Commands on the server that ENGRAM_URL names: the same output, and the same errors."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Engram
from tests.cli.test_serve import read_json


class Remote(Engram):
    """The command line of a machine whose store is on a server."""

    def __init__(self, home: Path, url: str, key: str) -> None:
        super().__init__(home)
        self._server = {"url": url, "api_key": key}

    def _environment(self, variables: dict[str, str]) -> dict[str, str]:
        return super()._environment({**self._server, **variables})


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Engram:
    """Return the command line on the machine of the server."""
    return Engram(tmp_path_factory.mktemp("server") / "store")


@pytest.fixture(scope="module")
def remote(local: Engram, tmp_path_factory: pytest.TempPathFactory) -> Generator[Remote]:
    """Yield the command line of another machine."""
    with local.start("serve", "--port", "0", "--json") as server:
        assert server.stdout is not None
        started = read_json(server.stdout)
        key = Path(started["api_key_file"]).read_text().strip()
        yield Remote(tmp_path_factory.mktemp("client") / "none", started["url"], key)
        server.terminate()
        server.communicate()


@pytest.fixture(scope="module")
def stored(remote: Remote) -> dict[str, str]:
    """Return the ids of what the remote command line stored, which its tests only read."""
    created = remote("conversations", "create", "--title", "Lisbon", "--tag", "travel", "--json")
    conversation = created.json["conversation_id"]
    remote("conversations", "append", "The flight leaves on Friday", "-c", conversation)
    remote("conversations", "append", "The demo is on Monday", "--occurred-at", "yesterday")
    note = remote("notes", "add", "The staging database is reset every Monday", "--json").json
    memory = remote("memories", "store", "We chose SQLite", "--type", "decision", "--json").json
    return {"CONV": conversation, "NOTE": note["notes"][0]["id"], "MEM": memory["id"]}


@pytest.mark.parametrize(
    "arguments",
    [
        ("search", "flight"),
        ("search", "flight", "--json"),
        ("search", "flight", "--explain", "--since", "3 days ago", "--tag", "travel"),
        ("conversations", "list", "--tag", "travel", "--limit", "3"),
        ("conversations", "list", "--json"),
        ("conversations", "show", "CONV"),
        ("conversations", "show", "CONV", "--json"),
        ("notes", "list"),
        ("notes", "context", "staging"),
        ("notes", "context", "--json"),
        ("memories", "list", "--type", "decision", "--json"),
        ("memories", "recall", "database?"),
        ("memories", "recall", "database?", "--json"),
        ("memories", "show", "MEM"),
        ("memories", "show", "MEM", "--json"),
        ("memories", "history", "MEM"),
        ("documents", "list"),
        ("status", "--json"),
        ("conversations", "show", "conv_unknown"),
        ("conversations", "show", "conv_unknown", "--json"),
        ("memories", "show", "mem_unknown"),
        ("memories", "correct", "MEM", "--content", ""),
        ("notes", "add", "short"),
        ("notes", "add", "short", "--json"),
        ("search", "x", "--since", "1d", "--before", "2d"),
        ("conversations", "create", "--title", "x" * 1025, "--json"),
    ],
)
def test_a_server_says_what_the_store_says(
    local: Engram, remote: Remote, stored: dict[str, str], arguments: tuple[str, ...]
) -> None:
    named = [stored.get(each, each) for each in arguments]

    there, here = remote(*named), local(*named)

    assert (there.status, there.stdout, there.stderr) == (here.status, here.stdout, here.stderr)


def test_a_memory_is_stored_corrected_connected_and_forgotten_on_the_server(
    local: Engram, remote: Remote
) -> None:
    one = remote("memories", "store", "We chose MySQL", "--tag", "db", "--json").json["id"]
    other = remote("memories", "store", "We chose PostgreSQL", "--json").json["id"]

    remote("memories", "correct", one, "--content", "We chose MariaDB", "--no-tags")
    connected = remote("memories", "connect", other, one, "--type", "supersedes")
    shown = local("memories", "show", one, "--json").json
    forgotten = remote("memories", "forget", one, "--reason", "replaced")
    removed = remote("notes", "remove", other, "--yes")

    assert (connected.status, forgotten.status, removed.status) == (0, 0, 0), forgotten.stderr
    assert (shown["content"], shown.get("tags", [])) == ("We chose MariaDB", [])
    assert local("memories", "show", other).status == 2


def test_the_status_names_the_server(remote: Remote) -> None:
    assert "store http://127.0.0.1:" in remote("status").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("doctor",),
        ("index",),
        ("orgs", "list"),
        ("keys", "list"),
        ("documents", "add", __file__),
        ("memories", "export", "somewhere"),
    ],
)
def test_what_needs_a_local_store_says_so(remote: Remote, arguments: tuple[str, ...]) -> None:
    refused = remote(*arguments)

    assert (refused.status, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: configuration: ENGRAM_URL: ")
    assert not remote.home.exists()


def test_a_wrong_key_names_the_setting(remote: Remote) -> None:
    refused = remote("status", api_key="engram_sk_live_wrong")

    assert refused.status == 2
    assert refused.stderr.startswith("error: unauthenticated: ")
    assert "ENGRAM_API_KEY" in refused.stderr


def test_a_server_that_cannot_be_reached_is_named(engram: Engram) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    refused = engram("status", "--json", url=f"http://127.0.0.1:{port}")

    error = json.loads(refused.stderr)["error"]
    assert (refused.status, error["code"]) == (1, "unavailable")
    assert str(port) in error["message"]


@pytest.mark.parametrize("url", ["memory.example.org", "ftp://127.0.0.1", "http://"])
def test_what_is_no_url_is_a_mistake_in_the_setting(engram: Engram, url: str) -> None:
    refused = engram("status", url=url)

    assert refused.status in {1, 2}
    assert "ENGRAM_URL" in refused.stderr
    assert "Traceback" not in refused.stderr


class Elsewhere(BaseHTTPRequestHandler):
    """A server that is none of ours."""

    def do_GET(self) -> None:
        self.send_error(502)

    def do_POST(self) -> None:
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 the library's name
        """Say nothing."""


@pytest.fixture
def elsewhere() -> Generator[str]:
    server = HTTPServer(("127.0.0.1", 0), Elsewhere)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_another_server_is_reported_with_its_status(engram: Engram, elsewhere: str) -> None:
    refused = engram("status", url=elsewhere)

    assert refused.status == 1
    assert "502" in refused.stderr


def test_a_write_without_an_answer_says_that_its_outcome_is_unknown(
    engram: Engram, elsewhere: str
) -> None:
    refused = engram("notes", "add", "The demo is on Friday", url=elsewhere)

    assert refused.status == 1
    assert "may or may not" in refused.stderr


def test_mcp_is_relayed_to_the_server(remote: Remote, stored: dict[str, str]) -> None:
    call = {"name": "search", "arguments": {"query": "flight"}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}

    served = remote.process("mcp", stdin=json.dumps(request).encode() + b"\n")

    assert "The flight leaves on Friday" in served.stdout
    assert stored


def test_a_server_serves_its_own_store_whatever_the_setting_says(engram: Engram) -> None:
    with engram.start("serve", "--port", "0", "--json", url="http://127.0.0.1:9") as server:
        assert server.stdout is not None
        started = read_json(server.stdout)
        server.terminate()
        server.communicate()

    assert started["home"] == str(engram.home)
