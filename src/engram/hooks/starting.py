"""Find out whether an engine serves the store, and start one without waiting for it.

Without a socket: importing that module would take a third of the time that a capture may.
"""

from __future__ import annotations

import os
import sys
import time

from engram import limits
from engram.environment import inherited
from engram.hooks.places import make_spool_directory, pointer_to_engine, spool_directory

try:
    import fcntl
except ImportError:  # pragma: no cover - a system without locks has no engine either
    fcntl = None

_ATTEMPT = "attempt"
"""Its time is that of the last start."""


def is_served(home: str) -> bool:
    """Return True if an engine holds its lock, which ends with it however it ends."""
    if fcntl is None:
        return False
    try:
        socket = os.readlink(pointer_to_engine(home))
        lock = os.open(f"{socket.removesuffix('.sock')}.lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def start(home: str) -> None:
    """Start the engine as a process of its own, at most once in a while; it is not waited for."""
    if not hasattr(os, "posix_spawn") or not _may_try(home):
        return
    null, log = os.open(os.devnull, os.O_RDWR), _open_log(home)
    # An engine that stayed in the agent's directory would keep it from being unmounted.
    os.chdir("/")
    try:
        os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "engram", "engine", "run"],
            inherited(home),
            file_actions=[
                (os.POSIX_SPAWN_DUP2, descriptor, number)
                for number, descriptor in enumerate((null, log, log))
            ],
            setsid=True,
        )
    finally:
        os.close(null)
        os.close(log)


def _open_log(home: str) -> int:
    """Open the log of engines that hooks start; the name of their own needs all settings."""
    path = os.path.join(spool_directory(home), "engine.log")
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    if os.fstat(descriptor).st_size > limits.ENGINE_LOG_BYTES_MAX:
        os.ftruncate(descriptor, 0)
    return descriptor


def _may_try(home: str) -> bool:
    """Return True if no hook has started an engine just now; note that this one does."""
    path = os.path.join(make_spool_directory(home), _ATTEMPT)
    try:
        if abs(time.time_ns() / 1e9 - os.stat(path).st_mtime) < limits.HOOK_START_PAUSE_S:
            return False
    except FileNotFoundError:
        pass  # the first attempt
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    os.utime(path)
    return True
