"""A mistake gets one line with its code and no traceback; so does a store that cannot be used."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engram.cli.invocation import describe, exit_status
from engram.errors import (
    ConfigurationError,
    EngramError,
    InvalidRequestError,
    NotFoundError,
    StoreBusyError,
    StoreFullError,
)
from tests.cli.commands import Engram, Outcome
from tests.permissions import unprivileged
from tests.promises import promise

pytestmark = promise("clear")


def assert_one_line(outcome: Outcome, *, status: int, code: str) -> None:
    """Check that a command ended with one line on stderr and nothing on stdout."""
    assert outcome.stdout == ""
    assert outcome.stderr.startswith(f"error: {code}: ")
    assert outcome.stderr.count("\n") == 1
    assert outcome.status == status


def test_unknown_setting_names_the_nearest(engram: Engram) -> None:
    refused = engram("status", prot="9000")

    assert_one_line(refused, status=2, code="configuration")
    assert "ENGRAM_PORT" in refused.stderr


def test_setting_out_of_range_is_refused(engram: Engram) -> None:
    assert_one_line(engram("serve", port="70000"), status=2, code="configuration")


def test_flag_out_of_range_is_refused(engram: Engram) -> None:
    refused = engram("serve", "--port", "70000")

    assert refused.status == 2
    assert "'--port'" in refused.stderr


@pytest.mark.parametrize("flag", ["--limit", "--offset"])
def test_a_number_longer_than_python_converts_is_a_usage_error(engram: Engram, flag: str) -> None:
    refused = engram("conversations", "list", flag, "9" * 4_301)

    assert refused.status == 2
    assert flag in refused.stderr
    assert "Traceback" not in refused.stderr


def test_broken_settings_file_is_named(engram: Engram) -> None:
    engram.home.mkdir()
    (engram.home / "engram.toml").write_text("port = ")

    refused = engram("status")

    assert_one_line(refused, status=2, code="configuration")
    assert "engram.toml" in refused.stderr


def test_unknown_conversation_says_where_to_look(engram: Engram) -> None:
    refused = engram("conversations", "show", "conv_unknown")

    assert_one_line(refused, status=2, code="not_found")
    assert "`engram conversations list`" in refused.stderr


@promise("failures")
def test_corrupt_store_says_which_and_what_to_do(engram: Engram) -> None:
    engram("status")
    (engram.home / "engram.db").write_bytes(b"no database at all" * 1000)

    refused = engram("status")

    assert_one_line(refused, status=1, code="store_corrupt")
    assert str(engram.home) in refused.stderr


@promise("migrations")
def test_newer_store_is_refused_with_the_remedy(engram: Engram) -> None:
    engram("status")
    with closing(sqlite3.connect(engram.home / "engram.db")) as database:
        database.execute("PRAGMA user_version = 9999")

    refused = engram("status")

    assert_one_line(refused, status=1, code="store_newer")
    assert "upgrade" in refused.stderr


@promise("failures")
def test_store_of_somebody_else_is_read_only() -> None:
    with tempfile.TemporaryDirectory() as directory:
        engram = Engram(Path(directory) / "store")
        engram("status")
        for path in (*engram.home.rglob("*"), engram.home):
            path.chmod(0o555 if path.is_dir() else 0o444)
        Path(directory).chmod(0o755)

        with unprivileged():
            refused = engram("conversations", "append", "hi")

        engram.home.chmod(0o755)

    assert_one_line(refused, status=1, code="store_read_only")


def test_home_that_cannot_be_made_says_why_and_what_to_do(engram: Engram) -> None:
    refused = Engram(Path("/proc/engram"))("status")

    assert refused.status == 1
    assert "cause: " in refused.stderr
    assert "--home" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ("conversations", "create", "--title", "x" * 1025),
            {"code": "limit_exceeded", "field": "title", "limit": 1024, "actual": 1025},
        ),
        (("conversations", "show", "conv_unknown"), {"code": "not_found"}),
        (("search", "x", "--since", "soon"), {"code": "invalid_request", "field": "since"}),
        (("search", "x", "--limit", "many"), {"code": "usage"}),
        (("serch",), {"code": "usage"}),
    ],
)
def test_errors_are_json_where_the_answer_would_be(
    engram: Engram, arguments: tuple[str, ...], expected: dict[str, Any]
) -> None:
    refused = engram.process(*arguments, "--json")

    error = json.loads(refused.stderr)["error"]
    assert (refused.status, refused.stdout) == (2, "")
    assert expected.items() <= error.items()
    assert error["message"]


def test_home_that_is_a_file_is_refused(engram: Engram) -> None:
    engram.home.write_text("in the way")

    refused = engram("status")

    assert refused.status != 0
    assert "Traceback" not in refused.stderr
    assert refused.stderr.startswith("error: ")


def test_text_that_is_not_utf8_is_refused(engram: Engram) -> None:
    refused = engram("conversations", "append", stdin=b"good \xff bad")

    assert_one_line(refused, status=2, code="invalid_request")
    assert "byte 5" in refused.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("conversations", "create", "--metadata", "{"),
        ("conversations", "create", "--metadata", "[]"),
        ("conversations", "create", "--tag", "a\x1bb"),
        ("conversations", "create", "--tag", "a", "--tag", "a"),
        ("conversations", "create", "--title", "x" * 1025),
        ("conversations", "append", "hi", "--occurred-at", "soon"),
        ("conversations", "append", "hi", "--jsonl", "-"),
        ("conversations", "append", "--role", "tool", "--jsonl", "-"),
        ("conversations", "append"),
        ("conversations", "append", "\ud800"),
        ("keys", "create", "x", "--scope", "fly"),
        ("keys", "create", ""),
        ("keys", "create", "x", "--toolsets", "songs"),
        ("keys", "create", "x", "--toolsets", ""),
        ("orgs", "create", "\x07"),
    ],
)
def test_bad_values_are_refused_by_field(engram: Engram, arguments: tuple[str, ...]) -> None:
    refused = engram(*arguments)

    assert refused.status == 2
    assert refused.stderr.startswith(("error: invalid_request: ", "error: limit_exceeded: "))
    assert "\x1b" not in refused.stderr
    assert "\x07" not in refused.stderr


def test_debug_shows_the_traceback(engram: Engram) -> None:
    by_flag = engram("conversations", "show", "conv_unknown", "--debug")
    by_setting = engram("conversations", "show", "conv_unknown", log="debug")

    assert "Traceback" in by_flag.stderr
    assert "Traceback" in by_setting.stderr


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidRequestError("no"), 2),
        (NotFoundError("key", "key_x"), 2),
        (ConfigurationError("ENGRAM_PORT", "no"), 2),
        (StoreBusyError(), 1),
        (StoreFullError(), 1),
        (EngramError(), 1),
    ],
)
def test_mistakes_and_failures_exit_differently(error: EngramError, status: int) -> None:
    assert exit_status(error) == status


def test_error_line_is_one_line_without_control_characters() -> None:
    line = describe(StoreFullError("a\n\x1b[31mb"), store="store")

    assert line == "error: store_full: a\\n\\x1b[31mb (store: store)"
