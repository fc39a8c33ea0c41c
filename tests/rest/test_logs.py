"""What a caller sends stays inside the log line that speaks of it."""

from __future__ import annotations

import io
import json
import logging

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.logs import COMMAND_FORMAT, JsonLines, PlainLines
from tools.server import running_server

FORGED = "2026-01-01 00:00:00,000 ERROR engram.access: forged"
BREAKS = "%0a %0d %1b[2K %c2%85 %e2%80%a8 %e2%80%a9 %e2%80%ae %e2%81%a6 %7f".replace(" ", FORGED)

anything = st.text(st.characters(), min_size=1, max_size=60)
"""Lone surrogates and controls included."""


def logged(formatter: logging.Formatter, said: str, error: Exception | None = None) -> str:
    """Return what is written for a message and an exception with text of a caller in them."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(formatter)
    exc_info = None if error is None else (type(error), error, None)
    handler.handle(logging.LogRecord("engram", 40, "", 1, "asked for %s", (said,), exc_info))
    return written.getvalue().removesuffix("\n")


@given(said=anything)
def test_a_message_is_one_visible_line(said: str) -> None:
    assert logged(PlainLines(COMMAND_FORMAT), said).isprintable()


@given(said=anything, problem=anything)
def test_an_exception_cannot_begin_a_record(said: str, problem: str) -> None:
    first, *others = logged(PlainLines(COMMAND_FORMAT), said, ValueError(problem)).split("\n")

    assert first.startswith("ERROR engram: asked for ")
    assert all(line.isprintable() and line.startswith("  | ") for line in others)


@given(said=anything, problem=anything)
def test_a_json_record_is_one_line_of_ascii_with_the_very_text(said: str, problem: str) -> None:
    line = logged(JsonLines(), said, ValueError(problem))

    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["message"] == f"asked for {said}"


def test_text_that_everybody_can_read_is_left_alone() -> None:
    said = 'Überblick "C:\\notes" 東京 🙂'

    assert logged(PlainLines(COMMAND_FORMAT), said) == f"ERROR engram: asked for {said}"


@pytest.mark.parametrize("log_format", ["plain", "json"])
def test_no_path_forges_a_line_of_a_servers_log(log_format: str) -> None:
    with running_server(LOG="debug", LOG_FORMAT=log_format, EMBEDDER="none") as server:
        httpx.get(f"{server.url}/{BREAKS.replace(' ', '%20')}", timeout=30)
        log = server.log.read_text()

    lines = log.splitlines()
    assert any("forged" in line for line in lines)
    assert all(line.isprintable() for line in lines)
    assert not any(line.startswith(FORGED) for line in lines)
