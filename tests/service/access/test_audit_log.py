"""Audit rows as lines of JSON: in a file or to syslog, off the requests' path, from both stores."""

from __future__ import annotations

import json
import logging
import socket
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from engram import limits
from engram.embedding.choice import NoEmbedder
from engram.errors import ConfigurationError, IdempotencyConflictError
from engram.model.access import AuditEntry, AuditRecord, OrganizationDraft
from engram.model.conversation import AppendRequest, ConversationDraft, MessageDraft
from engram.model.ids import OrganizationId
from engram.service.access.audit import AuditLog, FileSink, build_audit_log, line_of
from engram.service.access.usage import Activity
from engram.settings import Settings
from engram.wiring import open_service
from tests.fakes import SOME_DAY
from tests.promises import promise
from tests.storage.places import is_database, place

__all__ = ["place"]
"""A fixture of another module."""


class HeldSink:
    """Writes nothing before it is told to."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.lines: list[bytes] = []

    def write(self, line: bytes) -> None:
        self.begun.set()
        self.go_on.wait(10)
        self.lines.append(line)

    def close(self) -> None:
        """Nothing is open."""


def record(number: int) -> AuditRecord:
    entry = AuditEntry(
        id=f"aud_{number}",
        at=SOME_DAY,
        actor="key_ö",
        action="append_messages",
        subject="line\nbreak",
        details={"count": number},
    )
    return AuditRecord(organization_id=OrganizationId("org_x"), entry=entry)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def settings_for(place: str, home: Path, log: Path) -> Settings:
    url = place if is_database(place) else None
    return Settings(home=home, database_url=url, embedder=NoEmbedder(), audit_log=str(log))


@promise("audit")
async def test_every_audit_row_is_a_line_once_it_is_stored(place: str, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    async with open_service(settings_for(place, tmp_path / "home", log)) as service:
        made, _ = await service.operator.create_organization(OrganizationDraft(name="acme"))
        principal = await service.operator.act_for(made.id)
        await service.conversations.create_conversation(principal, ConversationDraft(title="x"))
        stored = await service.account.audit(principal, limit=100)

    written = lines_of(log)
    assert [line["id"] for line in written] == [entry.id for entry in reversed(stored)]
    assert [line["action"] for line in written] == [
        "create_organization",
        "create_key",
        "create_conversation",
    ]
    assert {line["organization_id"] for line in written} == {made.id}
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


@promise("audit")
async def test_what_was_not_stored_is_not_written(place: str, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    one = AppendRequest(messages=(MessageDraft(role="user", content="1"),), idempotency_key="k")
    two = AppendRequest(messages=(MessageDraft(role="user", content="2"),), idempotency_key="k")
    async with open_service(settings_for(place, tmp_path / "home", log)) as service:
        principal = await service.access.local_principal()
        await service.conversations.append_messages(principal, one)
        with pytest.raises(IdempotencyConflictError):
            await service.conversations.append_messages(principal, two)

    assert [line["action"] for line in lines_of(log)].count("append_messages") == 1


def test_a_row_is_one_line(tmp_path: Path) -> None:
    log = AuditLog(FileSink(tmp_path / "log"), Activity())
    log.put([record(1), record(2)])
    log.close()

    first, second = lines_of(tmp_path / "log")
    assert first == {
        "at": "2026-05-08T12:00:00.000000Z",
        "id": "aud_1",
        "organization_id": "org_x",
        "actor": "key_ö",
        "action": "append_messages",
        "subject": "line\nbreak",
        "details": {"count": 1},
    }
    assert second["details"] == {"count": 2}


def test_a_file_that_was_moved_away_is_begun_anew(tmp_path: Path) -> None:
    path, moved = tmp_path / "log", tmp_path / "log.1"
    sink = FileSink(path)
    sink.write(b"1")
    path.rename(moved)

    sink.write(b"2")
    sink.close()

    assert (moved.read_bytes(), path.read_bytes()) == (b"1\n", b"2\n")


def test_two_processes_append_to_one_file(tmp_path: Path) -> None:
    sinks = [FileSink(tmp_path / "log") for _ in range(2)]
    for number in range(10):
        sinks[number % 2].write(b"%d" % number)
    for sink in sinks:
        sink.close()

    assert (tmp_path / "log").read_text().split() == [str(number) for number in range(10)]


@pytest.mark.parametrize("family", [socket.AF_UNIX, socket.AF_INET])
def test_syslog_gets_a_datagram_for_each_row(tmp_path: Path, family: socket.AddressFamily) -> None:
    with socket.socket(family, socket.SOCK_DGRAM) as daemon:
        daemon.settimeout(10)
        is_local = family == socket.AF_UNIX
        daemon.bind(str(tmp_path / "s") if is_local else ("127.0.0.1", 0))
        bound = daemon.getsockname()
        log = build_audit_log(
            f"syslog:{bound if is_local else f'127.0.0.1:{bound[1]}'}", Activity()
        )
        log.put([record(1)])
        log.close()

        received = daemon.recv(65_536)

    head, _, line = received.partition(b": ")
    assert head.startswith(b"<86>engram[")
    assert line == line_of(record(1))


def test_rows_that_cannot_be_written_are_counted_and_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    activity = Activity()
    log = build_audit_log(f"syslog:{tmp_path / 'nobody'}", activity)
    with caplog.at_level(logging.WARNING):
        log.put([record(number) for number in range(5)])
        log.close()

    assert activity.audit_lost == 5
    assert len([each for each in caplog.records if "cannot be written" in each.message]) == 1


def test_a_queue_that_is_full_loses_rows_and_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "AUDIT_QUEUE_MAX", 2)
    activity, sink = Activity(), HeldSink()
    log = AuditLog(sink, activity)
    log.put([record(0)])
    sink.begun.wait(10)

    log.put([record(number) for number in range(1, 6)])
    sink.go_on.set()
    log.close()

    assert activity.audit_lost == 3
    assert len(sink.lines) == 3


@pytest.mark.parametrize("target", ["syslog:host", "syslog:host:", "syslog::514", "syslog:h:99x"])
def test_a_target_that_is_none_is_refused(target: str) -> None:
    with pytest.raises(ConfigurationError, match="ENGRAM_AUDIT_LOG"):
        build_audit_log(target, Activity())


def test_a_file_that_cannot_be_opened_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        build_audit_log(str(tmp_path / "nowhere" / "log"), Activity())
