"""`engram mcp` as a process: every line is answered, and it ends when it should."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.connecting import INITIALIZE, engram_environment
from tests.promises import promise

TIMEOUT_S = 120


def start(home: Path, *arguments: str, **settings: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "engram", "mcp", *arguments],
        env=engram_environment({"HOME": str(home), **settings}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def converse(home: Path, *lines: bytes) -> tuple[list[dict[str, Any]], bytes, int]:
    """Send all lines at once and close; return the answers, the log and the exit code."""
    with start(home) as process:
        sent = b"".join(line + b"\n" for line in (json.dumps(INITIALIZE).encode(), *lines))
        answers, log = process.communicate(sent, timeout=TIMEOUT_S)
    return [json.loads(line) for line in answers.splitlines()], log, process.returncode


def append(request_id: int, content: str) -> bytes:
    arguments = {"messages": [{"role": "user", "content": content}]}
    params = {"name": "append_messages", "arguments": arguments}
    return json.dumps(
        {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}
    ).encode()


def test_requests_sent_before_the_input_ended_are_answered(tmp_path: Path) -> None:
    answers, log, status = converse(tmp_path, *(append(n, f"message {n}") for n in range(1, 21)))

    assert {answer["id"] for answer in answers} == set(range(21))
    assert not any(answer["result"].get("isError") for answer in answers)
    assert (status, log) == (0, b"")


def test_lines_that_are_no_messages_are_answered(tmp_path: Path) -> None:
    answers, _, status = converse(
        tmp_path,
        b"garbage",
        b"\xff\xfe",
        b"[]",
        b'{"jsonrpc":"1.0","id":"seven","method":"ping"}',
        *(
            b'{"jsonrpc":"2.0","id":%s,"method":"ping"}' % odd
            for odd in (b"{}", b"true", b"null", b"1.5")
        ),
        b"",
        b'{"jsonrpc":"2.0","id":8,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":"\\ud83e","method":"ping"}',
    )

    outcomes = [(answer["id"], answer.get("error", {}).get("code")) for answer in answers]
    assert sorted(outcomes, key=str) == sorted(
        [
            (0, None),
            (None, -32700),
            (None, -32700),
            (None, -32600),
            ("seven", -32600),
            *[(None, -32600)] * 4,
            (8, None),
            ("\ud83e", None),
        ],
        key=str,
    )
    assert status == 0


def test_a_lone_surrogate_is_refused_by_the_field_that_holds_it(tmp_path: Path) -> None:
    line = append(1, "?").replace(b'"?"', b'"half a \\ud83e badger"')

    answers, _, _ = converse(tmp_path, line)

    result = next(answer for answer in answers if answer["id"] == 1)["result"]
    assert result["_meta"]["engram/error"]["field"] == "messages[0].content"


def test_a_field_whose_name_no_text_can_hold_is_refused(tmp_path: Path) -> None:
    line = append(1, "x").replace(b'"role"', b'"half a \\ud83e": 1, "role"')

    answers, _, _ = converse(tmp_path, line, append(2, "y"))

    outcomes = {answer["id"]: answer for answer in answers}
    assert "error" in outcomes[1] or outcomes[1]["result"]["isError"]
    assert "isError" not in outcomes[2]["result"]


@promise("findable", "processes")
def test_what_one_process_kept_another_one_finds(tmp_path: Path) -> None:
    converse(tmp_path, append(1, "the kingfisher is blue"))
    search = {"name": "search", "arguments": {"query": "kingfisher"}}
    line = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": search})

    answers, _, _ = converse(tmp_path, line.encode())

    result = next(answer for answer in answers if answer["id"] == 2)["result"]
    assert "the kingfisher is blue" in result["content"][0]["text"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_process_that_waits_for_input(
    tmp_path: Path, number: signal.Signals
) -> None:
    with start(tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        process.stdin.flush()
        process.stdout.readline()

        process.send_signal(number)
        _, log = process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == (0 if number == signal.SIGTERM else 130)
    assert b"Traceback" not in log


def test_an_input_that_is_a_file_is_read_to_its_end(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_bytes(json.dumps(INITIALIZE).encode())
    environment = engram_environment({"HOME": str(tmp_path / "home")})

    with script.open("rb") as file:
        ended = subprocess.run(
            [sys.executable, "-m", "engram", "mcp"],
            env=environment,
            stdin=file,
            capture_output=True,
            check=True,
            timeout=TIMEOUT_S,
        )

    assert json.loads(ended.stdout)["result"]["serverInfo"]["name"] == "engram"


def test_a_client_that_stops_reading_does_not_keep_the_process(tmp_path: Path) -> None:
    with start(tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        process.stdin.close()

        assert process.wait(TIMEOUT_S) == 0
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()


def test_an_unknown_toolset_ends_the_process_with_its_name(tmp_path: Path) -> None:
    with start(tmp_path, "--toolsets", "nonsense") as process:
        _, log = process.communicate(b"", timeout=TIMEOUT_S)

    assert process.returncode != 0
    assert b"TOOLSETS" in log.upper()


def test_a_store_that_cannot_be_opened_ends_the_process_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "engram.db").write_bytes(os.urandom(8192))

    with start(tmp_path) as process:
        answers, log = process.communicate(
            json.dumps(INITIALIZE).encode() + b"\n", timeout=TIMEOUT_S
        )

    assert process.returncode != 0
    assert answers == b""
    assert b"doctor" in log
    assert b"Traceback" not in log
