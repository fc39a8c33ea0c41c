"""A compromised converter can access nothing but its document."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from engram import limits
from engram.convert import sandbox as sandboxing
from engram.convert.confine import Sandbox
from engram.convert.sandbox import SANDBOXES, BestSandbox, ProcessResult, convert_file, run_confined
from tests.promises import promise

HERE = Path(__file__).parent
MEGABYTE = 1_000_000
REFUSED = ("FileNotFoundError", "PermissionError", "OSError")
"""Depending on the sandbox, a file is missing, forbidden, or on a read-only mount."""

EVERYWHERE: tuple[Sandbox, ...] = (*SANDBOXES, "none")


class Converter:
    """A compromised converter."""

    def __init__(self, sandbox: Sandbox, directory: Path) -> None:
        self.sandbox: Sandbox = sandbox
        self.source = directory / "work" / "source"
        self.target = directory / "work" / "text"
        self.source.parent.mkdir()
        self.source.write_text("the document")
        self.secret = directory / "home" / "engram.db"
        self.secret.parent.mkdir()
        self.secret.write_text("a secret")

    def run(self, attack: str, *arguments: object, seconds: float = 60) -> ProcessResult:
        return run_confined(
            "hostile",
            [attack, *map(str, arguments)],
            source=self.source,
            target=self.target,
            seconds=seconds,
            memory_bytes=500 * MEGABYTE,
            sandbox=self.sandbox,
            module_paths=[HERE],
        )

    def attempt(self, attack: str, *arguments: object) -> Any:
        """Return the outcome of an attack, or the name of the error that stopped it."""
        finished = self.run(attack, *arguments)
        outcome = json.loads(finished.output)
        assert finished.status == 0
        return outcome.get("refused") or outcome


@cache
def is_here(sandbox: Sandbox) -> bool:
    """Return True if this machine supports a sandbox."""
    return sandboxing.is_available(sandbox)


@pytest.fixture(params=EVERYWHERE)
def converter(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Converter:
    """A converter in each sandbox that this machine supports, and without one."""
    sandbox: Sandbox = request.param
    monkeypatch.setenv("PATH", f"{sys.prefix}/bin", prepend=os.pathsep)
    if not is_here(sandbox):
        # An untested sandbox cannot be relied on, so CI must support every one.
        missing = pytest.fail if "CI" in os.environ else pytest.skip  # noqa: TID251 - of the test run
        missing(f"this machine cannot confine with {sandbox}")
    return Converter(sandbox, tmp_path)


in_a_sandbox = pytest.mark.parametrize("converter", SANDBOXES, indirect=True)
"""For attacks that resource limits and seccomp alone do not prevent."""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A local server."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def test_no_secret_is_in_its_environment(
    converter: Converter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ENGRAM_ADMIN_TOKEN", "ENGRAM_DATABASE_URL", "ENGRAM_API_KEY", "SECRET"):
        monkeypatch.setenv(name, "hidden")

    variables = converter.attempt("environment")["done"]

    allowed = {*sandboxing.KEPT_VARIABLES, "PWD"}
    assert set(variables) <= allowed
    assert "hidden" not in json.dumps(variables)


def test_no_descriptor_is_handed_down(converter: Converter) -> None:
    kept = os.open(converter.secret, os.O_RDONLY)
    os.set_inheritable(kept, True)  # noqa: FBT003 it takes no names
    try:
        assert converter.attempt("descriptors") == {"done": []}
    finally:
        os.close(kept)


@promise("alone")
def test_no_network_is_reached_not_even_this_machine(
    converter: Converter, listener: socket.socket, tmp_path: Path
) -> None:
    host, port = listener.getsockname()
    with socket.socket(socket.AF_UNIX) as local:
        local.bind(str(tmp_path / "socket"))
        local.listen()

        assert converter.attempt("connect", "AF_INET", host, port) == "PermissionError"
        assert converter.attempt("connect", "AF_INET6", "::1", port) == "PermissionError"
        assert converter.attempt("connect", "AF_UNIX", tmp_path / "socket", 0) == "PermissionError"
        assert converter.attempt("send", host, port) == "PermissionError"


@in_a_sandbox
@pytest.mark.parametrize("attack", ["read", "write", "append", "remove", "open_up"])
def test_the_store_is_neither_read_nor_changed(converter: Converter, attack: str) -> None:
    outcome = converter.attempt(attack, converter.secret)

    assert outcome in REFUSED
    assert converter.secret.read_text() == "a secret"
    assert converter.secret.stat().st_mode & 0o777 != 0o777


@in_a_sandbox
def test_neither_homes_nor_other_processes_are_seen(converter: Converter) -> None:
    own = [path for path in Path.home().iterdir() if path.is_file()][:2]

    for path in (*own, f"/proc/{os.getpid()}/environ", "/proc/self/environ", "/etc/passwd"):
        assert converter.attempt("read", path) in REFUSED
    for path in (converter.secret.parent, f"/proc/{os.getpid()}", HERE.parents[1]):
        outcome = converter.attempt("list_directory", path)
        assert outcome in REFUSED or set(outcome["done"]) <= {"src", "tests", ".venv"}


@in_a_sandbox
def test_the_document_is_read_and_never_changed(converter: Converter) -> None:
    assert converter.attempt("read", converter.source) == {"done": "the document"}
    for attack in ("write", "append", "remove", "open_up"):
        assert converter.attempt(attack, converter.source) in REFUSED
    assert converter.attempt("write", converter.source.parent / "more") in REFUSED
    assert converter.source.read_text() == "the document"
    assert {path.name for path in converter.source.parent.iterdir()} == {"source", "text"}


def test_no_file_grows_beyond_its_bound(converter: Converter) -> None:
    size = limits.CONVERTED_BYTES_MAX + 5 * MEGABYTE

    assert converter.attempt("fill", converter.target, size) == "OSError"
    assert converter.target.stat().st_size <= limits.CONVERTED_BYTES_MAX
    assert converter.attempt("raise_bounds") in ("ValueError", "PermissionError")


def test_memory_is_bounded(converter: Converter) -> None:
    assert converter.attempt("allocate", 600 * MEGABYTE) == "MemoryError"
    assert converter.attempt("allocate", 100 * MEGABYTE) == {"done": 100 * MEGABYTE}


def test_it_starts_no_process_and_harms_none(converter: Converter) -> None:
    for attack in ("fork", "execute"):
        assert converter.attempt(attack) in ("PermissionError", "BlockingIOError")
    for attack in ("end", "trace"):
        assert converter.attempt(attack, os.getpid()) == "PermissionError"
    assert converter.attempt("change_root", "/") == "PermissionError"


def test_what_it_prints_is_bounded(converter: Converter) -> None:
    finished = converter.run("print_much")

    assert len(finished.output) == limits.CONVERSION_OUTPUT_BYTES_MAX + 1
    assert finished.status != 0


def test_one_that_takes_too_long_is_killed_with_all_that_belongs_to_it(
    converter: Converter,
) -> None:
    converter.target.touch()

    with pytest.raises(TimeoutError):
        converter.run("linger", converter.target, seconds=3)

    with converter.target.open("r+b") as file:
        # Blocks until the kernel releases the lock with the last process that holds it.
        waiting = threading.Thread(target=fcntl.flock, args=(file, fcntl.LOCK_EX), daemon=True)
        waiting.start()
        waiting.join(60)
        assert not waiting.is_alive()


def test_a_document_becomes_the_same_text_however_it_is_confined(
    converter: Converter, monkeypatch: pytest.MonkeyPatch
) -> None:
    converter.source.write_bytes(b"<h1>Title</h1><p>words")
    monkeypatch.setattr(sandboxing, "best_sandbox", lambda: converter.sandbox)

    convert_file(converter.source, converter.target, kind="html")

    assert converter.target.read_text() == "# Title\n\nwords"


def test_a_machine_without_a_sandbox_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sandboxing, "best_sandbox", BestSandbox(sandboxes=()))
    source, target = tmp_path / "source", tmp_path / "text"
    source.write_bytes(b"<p>words")

    for _ in range(3):
        convert_file(source, target, kind="html")

    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert [record.name for record in warnings] == ["engram.convert.sandbox"]
    assert "bubblewrap" in warnings[0].getMessage()


def test_this_machine_has_a_sandbox_for_documents(tmp_path: Path) -> None:
    converter = Converter(sandboxing.best_sandbox(), tmp_path)

    assert converter.attempt("read", converter.source) == {"done": "the document"}
