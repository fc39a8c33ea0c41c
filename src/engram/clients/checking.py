"""Check what clients were given: that the entry is there, that it starts Engram, and on which store."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from engram.clients import edits, files
from engram.clients.edits import SetKey
from engram.clients.machine import Machine
from engram.clients.manifest import Record
from engram.clients.registry import FilePlan, client_named
from engram.clients.server import (
    HOME_VARIABLE,
    KEY_VARIABLE,
    URL_VARIABLE,
    Local,
    ServerEntry,
    read_entry,
)
from engram.clients.syntax import UnreadableError
from engram.errors import InvalidRequestError
from engram.limits import CLIENT_ANSWER_BYTES_MAX, CLIENT_ANSWER_S
from engram.model.value import Value

_INITIALIZE: Mapping[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "engram-doctor", "version": "1"},
    },
}
_PASSED_ON = ("PATH", "HOME", "USER", "LANG", "TMPDIR", "SYSTEMROOT", "APPDATA")
"""Variables that every client passes on; a command that needs others would fail in some of them."""


class Problem(Value):
    """What is wrong with a connected client, and what mends it."""

    client: str
    path: str
    problem: str
    remedy: str


class _WrongError(Exception):
    """What is wrong, in words, with a remedy unless connecting again is one."""

    def __init__(self, problem: str, remedy: str | None = None) -> None:
        super().__init__(problem)
        self.remedy = remedy


def check_client(
    record: Record, machine: Machine, *, local: Local | None, again: str
) -> Sequence[Problem]:
    """Return what is wrong with one file of a connected client.

    `local` is what would be written now, if a client can use the store itself, and `again` the command that connects the client again.
    """
    try:
        text = _read(record)
        _check_edits(text, record)
        entry = _entry_of(text, record)
        if entry is not None:
            _check_plan(record, entry, machine, local)
            _check_answer(entry, machine)
    except _WrongError as exc:
        remedy = exc.remedy or f"run `{again}`"
        return [Problem(client=record.client, path=record.path, problem=str(exc), remedy=remedy)]
    return []


def _read(record: Record) -> str:
    try:
        content = files.read_bytes(Path(record.path))
        if content is None:
            raise _WrongError("the file is gone")
        return files.as_text(content)
    except UnreadableError as exc:
        raise _WrongError(f"the file cannot be read: {exc}", "make it readable") from exc


def _check_edits(text: str, record: Record) -> None:
    for edit in record.edits:
        try:
            made = edits.is_made(text, edit, syntax=record.syntax)
        except UnreadableError as exc:
            raise _WrongError(f"the file cannot be parsed: {exc}", "mend the file") from exc
        if made is None:
            raise _WrongError("the entry is gone")
        if not made:
            raise _WrongError("the entry is not what was written")


def _entry_of(text: str, record: Record) -> ServerEntry | None:
    """Return the entry of the server as it stands, or None if the file has none, as that of hooks."""
    for edit in record.edits:
        if isinstance(edit, SetKey):
            entry = read_entry(edits.current_value(text, edit, syntax=record.syntax))
            if entry.command or entry.url:
                return entry
    return None


def _check_plan(record: Record, entry: ServerEntry, machine: Machine, local: Local | None) -> None:
    """Compare a local server with what would be written now."""
    if entry.url is not None or URL_VARIABLE in entry.environment:
        return
    if local is None:
        raise _WrongError("it lacks settings of the store that are secrets")
    meant, found = local.environment[HOME_VARIABLE], entry.environment.get(HOME_VARIABLE)
    if found != meant:
        raise _WrongError(f"it uses the store in {found}, not in {meant}")
    try:
        plans = client_named(record.client).plan(machine, server=local, scope=record.scope)
    except InvalidRequestError as exc:
        raise _WrongError(str(exc)) from exc
    wanted = _entries(_edits_for(Path(record.path), plans))
    if wanted and _entries(record.edits) != wanted:
        raise _WrongError("the entry is not what would be written now")


def _entries(made: Sequence[edits.Edit]) -> list[SetKey]:
    """Return the entries alone: which hooks there are is the user's choice."""
    return [edit for edit in made if isinstance(edit, SetKey)]


def _edits_for(path: Path, plans: Sequence[FilePlan]) -> tuple[edits.Edit, ...]:
    return next((plan.edits for plan in plans if plan.path == path), ())


def _check_answer(entry: ServerEntry, machine: Machine) -> None:
    """Ask the server to introduce itself, in the way the client does."""
    answer = _ask_url(entry, machine) if entry.url else _ask_process(entry, machine)
    if answer is None:
        return
    result = cast("dict[str, Any]", answer.get("result") or {})
    if result.get("serverInfo", {}).get("name") != "engram":
        raise _WrongError("what answers is not Engram")


def _ask_process(entry: ServerEntry, machine: Machine) -> dict[str, Any]:
    path = machine.environment.get("PATH", "")
    if not entry.command or shutil.which(entry.command[0], path=path) is None:
        raise _WrongError(f"there is no program {' '.join(entry.command[:1])}")
    inherited = {
        name: machine.environment[name] for name in _PASSED_ON if name in machine.environment
    }
    try:
        process = subprocess.run(  # noqa: S603 the command that the client runs
            entry.command,
            input=json.dumps(_INITIALIZE).encode() + b"\n",
            env={**inherited, **entry.environment},
            cwd=machine.home,
            capture_output=True,
            timeout=CLIENT_ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise _WrongError(f"its command does not answer: {exc}") from exc
    said = process.stderr.decode(errors="replace").strip().splitlines()
    return _parsed(process.stdout.partition(b"\n")[0], "; ".join(said[-1:]))


def _ask_url(entry: ServerEntry, machine: Machine) -> dict[str, Any] | None:
    headers = _resolved(entry.headers, machine)
    if headers is None or not str(entry.url).startswith(("http://", "https://")):
        return None  # Only the client knows its key.
    request = urllib.request.Request(  # noqa: S310 of two schemes, checked above
        str(entry.url),
        json.dumps(_INITIALIZE).encode(),
        {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **headers,
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=CLIENT_ANSWER_S) as answer:  # noqa: S310 as above
            content = answer.read(CLIENT_ANSWER_BYTES_MAX)
    except urllib.error.HTTPError as exc:
        if exc.code == 401:
            raise _WrongError(
                f"{entry.url} refuses the key",
                "create one with `engram keys create NAME` and connect the client with it",
            ) from exc
        raise _WrongError(f"{entry.url} answers with status {exc.code}") from exc
    except OSError as exc:
        raise _WrongError(
            f"{entry.url} does not answer: {exc}", "start the server with `engram serve`"
        ) from exc
    lines = content.splitlines()
    data = [line.removeprefix(b"data:") for line in lines if line.startswith((b"data:", b"{"))]
    return _parsed(next((line for line in data if line.strip()), b""), "")


def _resolved(headers: Mapping[str, str], machine: Machine) -> dict[str, str] | None:
    """Return headers with the key that a variable has, or None if this process lacks it."""
    value = headers.get("Authorization", "")
    if not any(mark in value for mark in ("${", "{env:")):
        return dict(headers)
    key = machine.environment.get(KEY_VARIABLE)
    return {**headers, "Authorization": f"Bearer {key}"} if key else None


def _parsed(line: bytes, said: str) -> dict[str, Any]:
    try:
        answer = json.loads(line)
    except ValueError as exc:
        raise _WrongError(f"it does not answer `initialize`{': ' if said else ''}{said}") from exc
    return cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
