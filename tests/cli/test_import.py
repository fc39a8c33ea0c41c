"""Appending many messages from a file of one JSON object a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dirty_equals import IsPartialDict

from engram import limits
from tests.cli.commands import Engram
from tests.promises import promise


def write_lines(path: Path, *lines: object) -> str:
    """Return the path of a file that holds each of `lines` as JSON."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def a_message(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


def test_import_of_more_than_one_call_holds_answers_like_one_append(
    engram: Engram, tmp_path: Path
) -> None:
    count = 2 * limits.MESSAGES_PER_CALL_MAX + 7
    path = write_lines(tmp_path / "chat.jsonl", *(a_message(f"number {n}") for n in range(count)))

    appended = engram("conversations", "append", "--jsonl", path, "--json").json

    assert appended == IsPartialDict(
        appended=count, first_sequence=1, last_sequence=count, indexed=count
    )
    assert len(set(appended["message_ids"])) == count
    assert engram("status", "--json").json["messages"] == count


def test_import_reads_stdin_and_every_field_of_a_message(engram: Engram) -> None:
    message = {
        "role": "tool",
        "content": "line\u2028two\0\r",
        "name": "Ann",
        "tool_call_id": "call_1",
        "tool_name": "grep",
        "occurred_at": "2024-05-01T12:00:00.000000Z",
        "metadata": {"channel": "mail"},
    }
    lines = f"\ufeff{json.dumps(message)}\n\n{json.dumps(a_message('last'))}"

    appended = engram("conversations", "append", "--jsonl", "-", "--json", stdin=lines).json

    shown = engram("conversations", "show", appended["conversation_id"], "--json").json
    assert shown["messages"][0] == IsPartialDict(message)
    assert shown["messages"][1]["content"] == "last"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('{"role": "user"', "line 3"),
        ('{"role": "user"}', "line 3, content"),
        ('{"role": "king", "content": "x"}', "line 3, role"),
        ('{"role": "user", "content": "x", "mood": 1}', "line 3, mood"),
        ('{"role": "user", "content": "\\ud800"}', "line 3"),
        ('{"role": "user", "content": "x", "occurred_at": "2024-05-01"}', "line 3, occurred_at"),
        ("[]", "line 3"),
        ("\x00", "line 3"),
    ],
)
def test_bad_line_is_named_and_nothing_is_stored(
    engram: Engram, tmp_path: Path, line: str, named: str
) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_text(json.dumps(a_message("good")) + f"\n\n{line}\n")

    refused = engram("conversations", "append", "--jsonl", str(path))

    assert refused.status == 2
    assert f"error: invalid_request: {named}: " in refused.stderr
    assert engram("status", "--json").json["messages"] == 0


def test_message_over_its_bound_is_named_by_line(engram: Engram, tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "chat.jsonl", a_message("x"), a_message("x" * (limits.MESSAGE_BYTES_MAX + 1))
    )

    refused = engram("conversations", "append", "--jsonl", path)

    assert refused.stderr.startswith("error: limit_exceeded: line 2, content: ")


def test_large_messages_are_split_into_calls_that_fit(engram: Engram, tmp_path: Path) -> None:
    large = "x" * (limits.MESSAGE_BYTES_MAX - 1)
    path = write_lines(tmp_path / "chat.jsonl", *(a_message(large) for _ in range(4)))

    appended = engram("conversations", "append", "--jsonl", path, "--json").json

    assert appended["appended"] == 4


@promise("idempotent")
def test_repeated_import_with_a_key_stores_nothing_again(engram: Engram, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "chat.jsonl", *(a_message(f"number {n}") for n in range(205)))
    command = ("conversations", "append", "--jsonl", path, "--idempotency-key", "chat", "--json")

    first = engram(*command).json
    again = engram(*command).json

    assert again == first
    assert engram("status", "--json").json["messages"] == 205


@promise("idempotent")
def test_import_is_the_same_call_as_an_append_with_its_key(engram: Engram, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "chat.jsonl", a_message("only one"))
    key = ("--idempotency-key", "chat", "--json")

    imported = engram("conversations", "append", "--jsonl", path, *key).json
    appended = engram("conversations", "append", "only one", *key).json

    assert appended["message_ids"] == imported["message_ids"]
    assert engram("status", "--json").json["messages"] == 1


def test_empty_file_is_refused(engram: Engram, tmp_path: Path) -> None:
    refused = engram("conversations", "append", "--jsonl", write_lines(tmp_path / "empty"))

    assert refused.status == 2
    assert "contains no messages" in refused.stderr


def test_missing_file_is_refused_by_name(engram: Engram) -> None:
    refused = engram("conversations", "append", "--jsonl", "nowhere.jsonl")

    assert refused.status == 2
    assert "nowhere.jsonl" in refused.stderr


def test_failed_import_says_how_much_was_stored(engram: Engram, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "chat.jsonl", *(a_message(f"number {n}") for n in range(3)))

    refused = engram("conversations", "append", "--jsonl", path, "-c", "conv_unknown")

    assert refused.status == 2
    assert "stored before the error: 0 messages" in refused.stderr
    assert "error: not_found: " in refused.stderr
