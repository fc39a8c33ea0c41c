"""What a document would do that has taken over its converter; it runs confined, as converters do."""

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
    """Try what is named, with further arguments, and print as JSON what came of it."""
    name, *rest = arguments
    try:
        result = {"done": ATTACKS[name](*rest)}
    except (OSError, MemoryError, ValueError) as exc:
        result = {"refused": type(exc).__name__}
    print(json.dumps(result))  # noqa: T201 it is what the other process reads
    return 0


def environment() -> dict[str, str]:
    """Return the variables of this process."""
    return dict(os.environ)  # noqa: TID251 whatever is there


def descriptors() -> list[int]:
    """Return the open descriptors but for the standard ones."""
    found = list[int]()
    for number in range(3, 4_096):
        try:
            fcntl.fcntl(number, fcntl.F_GETFD)
        except OSError:
            continue
        found.append(number)
    return found


def connect(family: str, address: str, port: str) -> str:
    """Reach a server of this machine."""
    with socket.socket(getattr(socket, family)) as connection:
        connection.settimeout(5)
        connection.connect(address if family == "AF_UNIX" else (address, int(port)))
        return "connected"


def send(address: str, port: str) -> int:
    """Send without a connection."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        return sender.sendto(b"secret", (address, int(port)))


def read(path: str) -> str:
    """Read a file."""
    return Path(path).read_bytes().decode(errors="replace")


def list_directory(path: str) -> list[str]:
    """List a directory."""
    return [each.name for each in Path(path).iterdir()]


def write(path: str) -> int:
    """Change a file that is there, or make one."""
    return Path(path).write_bytes(b"changed")


def append(path: str) -> int:
    """Change a file through a descriptor for both ways."""
    with Path(path).open("r+b") as file:
        return file.write(b"changed")


def remove(path: str) -> None:
    """Remove a file."""
    Path(path).unlink()


def open_up(path: str) -> None:
    """Let everybody read a file."""
    Path(path).chmod(0o777)


def fill(path: str, size: str) -> int:
    """Write a file of some size."""
    with Path(path).open("wb") as file:
        file.writelines(bytes(1_000_000) for _ in range(int(size) // 1_000_000))
    return int(size)


def allocate(size: str) -> int:
    """Take memory."""
    return len(bytearray(int(size)))


def fork() -> int:
    """Start processes until none can be started."""
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
    """Become another program."""
    os.execv(sys.executable, [sys.executable, "-c", "print('{\"done\": 1}')"])  # noqa: S606 it must fail


def end(pid: str) -> None:
    """Kill another process."""
    os.kill(int(pid), 0)


def raise_bounds() -> None:
    """Have more than was given."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (2**40, 2**40))


def change_root(path: str) -> None:
    """Use the rights of root, if any are left."""
    os.chroot(path)


def trace(pid: str) -> None:
    """Look into the memory of another process."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(16, int(pid), None, None) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def print_much() -> str:
    """Print more than anybody wants to read."""
    return "x" * 50_000_000


def linger(path: str) -> None:
    """Hold a file locked, for ever, deaf to all that a process can be deaf to."""
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
