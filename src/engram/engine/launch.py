"""Find the engine of a store, or start it: once, however many processes ask at the same time.

Only the standard library is imported here: every command and every client waits for this.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from engram import limits
from engram.bodies.lines import parsed_object, split_lines
from engram.engine.address import Address
from engram.errors import unpack_error
from engram.settings import Settings, child_environment

PROTOCOL = 1
_POLL_S = 0.02


class NoEngineError(Exception):
    """There is no engine to be had: the caller opens the store itself."""


def find_engine(address: Address, hello: Mapping[str, Any]) -> socket.socket | None:
    """Return a connection to a running engine that took `hello`, or None if there is none.

    An engine that is just ending closes the connection before it answers.
    """
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        link.settimeout(limits.ENGINE_ANSWER_S)
        link.connect(str(address.socket))
        introduce(link, hello)
    except OSError:
        link.close()
        return None
    link.settimeout(None)
    return link


def reach_engine(settings: Settings, address: Address, hello: Mapping[str, Any]) -> socket.socket:
    """Return a connection to the engine, which is started if there is none.

    Raises:
        NoEngineError: it did not start.
    """
    deadline = time.monotonic() + limits.ENGINE_START_S
    if link := find_engine(address, hello):
        return link
    with _only_starter(address.starting, deadline):
        engine: subprocess.Popen[bytes] | None = None
        while time.monotonic() < deadline:
            if link := find_engine(address, hello):
                return link
            if engine is not None and engine.poll() is not None:
                raise NoEngineError(f"it ended with status {engine.returncode}")
            # Whoever holds the lock is starting or ending: it serves soon, or makes room.
            if engine is None and not is_locked(address.lock):
                engine = start_engine(settings, address)
            time.sleep(_POLL_S)
    raise NoEngineError(f"it did not answer within {limits.ENGINE_START_S} s")


def call_engine(link: socket.socket, given: bytes) -> object:
    """Send the fields of an operation and return the answer, in JSON types.

    Raises:
        EngramError: the operation failed.
        OSError: the engine ended.
    """
    with link:
        link.sendall(given + b"\n")
        line = next(split_lines(link.fileno(), bytes_max=sys.maxsize), b"")
    outcome = parsed_object(cast("bytes", line))
    if "error" in outcome:
        raise unpack_error(outcome["error"])
    if "answer" not in outcome:
        raise ConnectionAbortedError("the engine ended")
    return outcome["answer"]


def ask_engine(address: Address) -> dict[str, Any] | None:
    """Return what a running engine says of itself, or None if there is none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(limits.ENGINE_ANSWER_S)
        try:
            link.connect(str(address.socket))
            return introduce(link, {})
        except OSError:
            return None


def stop_engine(address: Address, process: int) -> bool:
    """Terminate an engine and wait until it has ended; return False if it has not."""
    deadline = time.monotonic() + 2 * limits.ENGINE_STOP_S
    try:
        os.kill(process, signal.SIGTERM)
        # A client may start the next engine at once, which takes the lock.
        while is_locked(address.lock) and time.monotonic() < deadline:
            os.kill(process, 0)
            time.sleep(_POLL_S)
    except ProcessLookupError:
        return True
    return not is_locked(address.lock)


def start_engine(settings: Settings, address: Address) -> subprocess.Popen[bytes]:
    """Start the engine as a process of its own, which outlives this one and its terminal."""
    too_long = _size_of(address.log) > limits.ENGINE_LOG_BYTES_MAX
    with address.log.open("wb" if too_long else "ab") as log:
        engine = subprocess.Popen(
            [sys.executable, "-m", "engram", "engine", "run"],
            env=child_environment(settings),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
        )
    # Reaped when it ends, since this process may live much longer.
    threading.Thread(target=engine.wait, daemon=True).start()
    return engine


def introduce(link: socket.socket, hello: Mapping[str, Any]) -> dict[str, Any]:
    """Send the hello message and return the engine's introduction: version, process, clients.

    Raises:
        OSError: it ended before it answered.
    """
    link.sendall(json.dumps({"engine": PROTOCOL, **hello}).encode() + b"\n")
    answer = _read_line(link)
    if not answer:
        raise ConnectionAbortedError("the engine ended")
    return json.loads(answer)


def _read_line(link: socket.socket) -> bytes:
    """Return the next line of a connection without its end; empty if it was closed before."""
    line = bytearray()
    while (byte := link.recv(1)) not in (b"\n", b""):
        line += byte
    return bytes(line) if byte else b""


@contextmanager
def locked(path: Path, deadline: float) -> Generator[None]:
    """Hold the lock of a file; it ends with this process, however that ends.

    Raises:
        TimeoutError: another process held it until `deadline`.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _try_lock(descriptor):
            if time.monotonic() >= deadline:
                raise TimeoutError(f"{path.name} is locked by another process")
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Return True if another process holds the lock of a file."""
    try:
        with locked(path, time.monotonic()):
            return False
    except TimeoutError:
        return True


@contextmanager
def _only_starter(path: Path, deadline: float) -> Generator[None]:
    try:
        with locked(path, deadline):
            yield
    except (OSError, TimeoutError) as exc:
        raise NoEngineError(str(exc)) from exc


def _try_lock(descriptor: int) -> bool:
    import fcntl  # noqa: PLC0415 not on Windows, where there is no engine

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
