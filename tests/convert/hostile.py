"""Attacks of a compromised converter, run in the same sandbox as converters."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def main(arguments: Sequence[str]) -> int:
    """Run the named attack and print its outcome as JSON."""
    name, *rest = arguments
    try:
        result = {"done": ATTACKS[name](*rest)}
    except (OSError, MemoryError, ValueError) as exc:
        result = {"refused": type(exc).__name__}
    print(json.dumps(result))  # noqa: T201 the parent process reads it
    return 0


def environment() -> dict[str, str]:
    """Return the environment of this process."""
    return dict(os.environ)  # noqa: TID251 whatever is there


def descriptors() -> list[int]:
    """Return the open descriptors except for the standard streams."""
    found = list[int]()
    for number in range(3, 4_096):
        try:
            fcntl.fcntl(number, fcntl.F_GETFD)
        except OSError:
            continue
        found.append(number)
    return found


def connect(family: str, address: str, port: str) -> str:
    """Connect to a local server."""
    with socket.socket(getattr(socket, family)) as connection:
        connection.settimeout(5)
        connection.connect(address if family == "AF_UNIX" else (address, int(port)))
        return "connected"


def send(address: str, port: str) -> int:
    """Send a datagram."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        return sender.sendto(b"secret", (address, int(port)))


def read(path: str) -> str:
    """Read a file."""
    return Path(path).read_bytes().decode(errors="replace")


def list_directory(path: str) -> list[str]:
    """List a directory."""
    return [each.name for each in Path(path).iterdir()]


def write(path: str) -> int:
    """Overwrite or create a file."""
    return Path(path).write_bytes(b"changed")


def append(path: str) -> int:
    """Change a file through a read-write descriptor."""
    with Path(path).open("r+b") as file:
        return file.write(b"changed")


def remove(path: str) -> None:
    """Remove a file."""
    Path(path).unlink()


def open_up(path: str) -> None:
    """Make a file world-readable."""
    Path(path).chmod(0o777)


def fill(path: str, size: str) -> int:
    """Write a file of some size."""
    with Path(path).open("wb") as file:
        file.writelines(bytes(1_000_000) for _ in range(int(size) // 1_000_000))
    return int(size)


def allocate(size: str) -> int:
    """Allocate memory."""
    return len(bytearray(int(size)))


def fork() -> int:
    """Fork until that fails."""
    started = 0
    try:
        while started < 50:
            if os.fork() == 0:
                signal.pause()
            started += 1
    except OSError:
        if not started:
            raise
    return started


def execute() -> None:
    """Execute another program."""
    os.execv(sys.executable, [sys.executable, "-c", "print('{\"done\": 1}')"])  # noqa: S606 it must fail


def end(pid: str) -> None:
    """Kill another process."""
    os.kill(int(pid), 0)


def raise_bounds() -> None:
    """Raise the resource limits."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (2**40, 2**40))


def change_root(path: str) -> None:
    """Call chroot, which needs a capability."""
    os.chroot(path)


def trace(pid: str) -> None:
    """Attach to another process with ptrace."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(16, int(pid), None, None) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def print_much() -> str:
    """Print more than the parent accepts."""
    return "x" * 50_000_000


def linger(path: str) -> None:
    """Hold a lock on a file forever, ignoring all signals that can be ignored."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGXCPU):
        signal.signal(number, signal.SIG_IGN)
    with Path(path).open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(b"locked")
        file.flush()
        os.close(1)
        while True:
            signal.pause()


ATTACKS: dict[str, Callable[..., Any]] = {
    attack.__name__: attack
    for attack in (
        environment,
        descriptors,
        connect,
        send,
        read,
        list_directory,
        write,
        append,
        remove,
        open_up,
        fill,
        allocate,
        fork,
        execute,
        end,
        raise_bounds,
        change_root,
        trace,
        print_much,
        linger,
    )
}
