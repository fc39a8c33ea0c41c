"""Real clients, bridges and engines: one engine for all, whatever is killed, and none left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from engram.engine import FAREWELL
from engram.engine.address import addresses_beside, digest_of
from engram.engine.launch import ask_engine, is_locked, reach_engine
from engram.settings import load_settings
from tests.engine.processes import (
    IDLE,
    PATIENCE_S,
    Bridge,
    address,
    connected,
    engine_process,
    engines_of,
    engram,
    settings_of,
    wait_until,
)
from tests.mcp.connecting import INITIALIZE, engram_environment


def test_two_clients_share_an_engine_that_ends_after_them(home: Path) -> None:
    with connected(home) as one, connected(home) as other:
        one.keep("the kingfisher is blue")

        assert "the kingfisher is blue" in other.call("search", query="kingfisher")
        assert len(engines_of(home)) == 1
        assert (one.end(), other.end()) == ("", "")

    wait_until(lambda: not engines_of(home))
    assert not address(home).socket.exists()


def test_many_clients_that_start_at_once_start_one_engine(home: Path) -> None:
    bridges = [Bridge(home) for _ in range(4)]
    for bridge in bridges:
        bridge.ask(INITIALIZE)

    texts = [bridge.keep(f"message {number}") for number, bridge in enumerate(bridges)]

    assert all("conv_" in text for text in texts)
    assert len(engines_of(home)) == 1
    for bridge in bridges:
        assert bridge.end() == ""


def test_a_client_waits_for_an_engine_that_another_one_has_started(home: Path) -> None:
    where = address(home)
    given = {"HOME": str(home), "EMBEDDER": "none", "ENGINE_IDLE": IDLE}
    starting = subprocess.Popen(
        [sys.executable, "-m", "engram", "engine", "run"], env=engram_environment(given)
    )
    wait_until(lambda: is_locked(where.lock))
    starting.send_signal(signal.SIGSTOP)

    with connected(home) as client:
        wait_until(lambda: is_locked(where.starting))
        starting.send_signal(signal.SIGCONT)

        assert "conv_" in client.keep("the kingfisher is blue")
        assert [each.pid for each in engines_of(home)] == [starting.pid]
        assert client.end() == ""
    assert starting.wait(PATIENCE_S) == 0


def test_a_killed_engine_is_replaced_and_nothing_acknowledged_is_lost(home: Path) -> None:
    with connected(home) as client:
        client.keep("the kingfisher is blue")
        os.kill(engine_process(home), signal.SIGKILL)

        assert "the kingfisher is blue" in client.call("search", query="kingfisher")
        assert client.end() == ""


def test_a_call_in_work_when_its_engine_dies_is_asked_again(home: Path) -> None:
    with connected(home) as client:
        client.keep("the kingfisher is blue")
        engine = engine_process(home)
        os.kill(engine, signal.SIGSTOP)
        params = {"name": "search", "arguments": {"query": "kingfisher"}}
        client.send({"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": params})
        os.kill(engine, signal.SIGKILL)
        answer = client.receive()

        assert answer["id"] == 99
        assert "the kingfisher is blue" in answer["result"]["content"][0]["text"]
        assert client.end() == ""


def test_an_engine_that_ends_leaves_half_a_line_to_the_next_one(home: Path) -> None:
    with connected(home) as client:
        client.keep("the kingfisher is blue")
        link = reach_engine(settings_of(home), address(home), {"toolsets": "notes"})
        link.sendall(b'{"jsonrpc": "2.0", "id": 1')
        client.call("search", query="kingfisher")

        os.kill(engine_process(home), signal.SIGTERM)

        with link, link.makefile("rb") as answers:
            assert answers.read() == FAREWELL + b"\n"


def test_a_socket_that_a_killed_engine_left_is_replaced(home: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(address(home).socket))

    with connected(home) as client:
        assert "conv_" in client.keep("the kingfisher is blue")
        assert client.end() == ""


def test_without_a_directory_for_the_socket_a_client_works_alone(home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "engine").write_text("in the way")

    with connected(home) as client:
        client.keep("the kingfisher is blue")

        assert "the kingfisher is blue" in client.call("search", query="kingfisher")
        assert "working without the engine" in client.end()
    assert engines_of(home) == []


def test_a_store_that_cannot_be_opened_ends_the_client_with_the_reason(home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "engram.db").write_bytes(os.urandom(8192))

    with connected(home) as client:
        assert client.process.wait(PATIENCE_S) != 0
        assert client.process.stderr is not None
        log = client.process.stderr.read()

    assert b"doctor" in log
    assert b"Traceback" not in log


def test_a_server_on_the_store_is_its_engine(home: Path) -> None:
    given = {"HOME": str(home), "EMBEDDER": "none", "ENGINE_IDLE": IDLE, "PORT": "0"}
    server = subprocess.Popen(
        [sys.executable, "-m", "engram", "serve"],
        env=engram_environment(given),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: ask_engine(address(home)))

        with connected(home) as client:
            client.keep("the kingfisher is blue")
            assert engine_process(home) == server.pid
            assert engines_of(home) == []
            stopped = engram(home, "engine", "stop", "--json")
            assert stopped == {"stopped": 0, "servers": [server.pid]}
            assert client.end() == ""
    finally:
        server.terminate()
        assert server.wait(PATIENCE_S) == 0


def test_clients_with_other_settings_have_an_engine_of_their_own(home: Path) -> None:
    with connected(home) as one, connected(home, EMBEDDER="hash") as other:
        one.keep("the kingfisher is blue")

        assert "the kingfisher is blue" in other.call("search", query="kingfisher")
        assert len(engines_of(home)) == 2


def test_what_a_client_shows_or_logs_does_not_change_its_engine(home: Path) -> None:
    plain = load_settings({"home": home}, environment={})
    other = load_settings(
        {"home": home, "toolsets": "memories", "log": "debug", "port": 9}, environment={}
    )

    assert digest_of(plain) == digest_of(other)
    assert digest_of(plain) != digest_of(
        load_settings({"home": home, "embedder": "none"}, environment={})
    )


def test_a_path_too_long_for_a_socket_is_replaced_by_the_runtime_directory(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))

    found = address(home / ("x" * 100))

    assert found.socket.parent == tmp_path / "run" / f"engram-{os.geteuid()}"
    assert found.socket.parent.stat().st_mode & 0o777 == 0o700


def test_stores_that_share_the_runtime_directory_do_not_see_engines_of_each_other(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    one, other = (address(home / (letter * 100)) for letter in "xy")
    for each in (one, other):
        each.socket.touch()

    assert one.socket.parent == other.socket.parent
    assert addresses_beside(one) == [one]
    assert addresses_beside(other) == [other]


def test_the_commands_of_the_engine_show_and_stop_it(home: Path) -> None:
    with connected(home, ENGINE_IDLE="300") as client:
        client.keep("the kingfisher is blue")

        shown = engram(home, "engine", "status", "--json")
        stopped = engram(home, "engine", "stop", "--json")
        again = engram(home, "engine", "stop", "--json")
        log = engram(home, "engine", "logs", "--json")

    assert [engine["clients"] for engine in shown["engines"]] == [1]
    assert [stopped["stopped"], again["stopped"]] == [1, 0]
    assert engines_of(home) == []
    assert any("serving the store" in line for line in log["lines"])


def test_an_engine_that_finds_another_one_ends_at_once(home: Path) -> None:
    with connected(home, ENGINE_IDLE="60") as client:
        client.keep("the kingfisher is blue")
        first = engine_process(home)
        given = {"HOME": str(home), "EMBEDDER": "none", "ENGINE_IDLE": "60"}
        second = subprocess.run(
            [sys.executable, "-m", "engram", "engine", "run"],
            env=engram_environment(given),
            capture_output=True,
            timeout=PATIENCE_S,
            check=True,
        )

        assert b"another engine" in second.stderr
        assert engine_process(home) == first
