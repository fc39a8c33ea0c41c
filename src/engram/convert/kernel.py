"""Linux system calls that Python has no function for.

Each raises `OSError` if the kernel refuses, on other systems, and on unsupported architectures.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Sequence
from enum import IntFlag
from functools import cache
from pathlib import Path

MACHINE = os.uname().machine if sys.platform == "linux" else ""
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
# These numbers are the same on every architecture.
_MOUNT_SETATTR = 442
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446

_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_MNT_DETACH = 2
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 22, 24, 38
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522
_CAPABILITIES = 64


class Namespace(IntFlag):
    """Kinds of namespaces that a process can unshare."""

    MOUNT = 0x00020000
    UTS = 0x04000000
    IPC = 0x08000000
    USER = 0x10000000
    PID = 0x20000000
    NET = 0x40000000


def unshare(namespaces: Namespace) -> None:
    """Move this process to new namespaces; a new PID namespace only applies to its children."""
    _call("unshare", int(namespaces))


def make_mounts_private() -> None:
    """Stop mounts from propagating to other namespaces."""
    _call("mount", None, b"/", None, _MS_REC | _MS_PRIVATE, None)


def mount_empty(path: Path) -> None:
    """Mount an empty tmpfs."""
    _call("mount", b"tmpfs", os.fsencode(path), b"tmpfs", 0, b"mode=755,size=1m")


def bind(source: int, path: Path) -> None:
    """Bind-mount the file or directory behind the descriptor `source` at `path`."""
    origin = f"/proc/self/fd/{source}".encode()
    _call("mount", origin, os.fsencode(path), None, _MS_BIND | _MS_REC, None)


def make_read_only(path: Path) -> None:
    """Remount a tree read-only, without set-user-ID files and devices."""
    attributes = struct.pack("=4Q", _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV, 0, 0, 0)
    _syscall(
        _MOUNT_SETATTR,
        _AT_FDCWD,
        os.fsencode(path),
        _AT_RECURSIVE,
        attributes,
        ctypes.c_size_t(len(attributes)),
    )


def change_root(path: Path) -> None:
    """Make a mount the root, and detach the old root."""
    os.chdir(path)
    _syscall(_number(_PIVOT_ROOT), b".", b".")
    _call("umount2", b".", _MNT_DETACH)
    os.chdir("/")


def die_with_parent() -> None:
    """Have this process killed when the parent thread that started it ends."""
    _call("prctl", _PR_SET_PDEATHSIG, 9, 0, 0, 0)


def drop_capabilities() -> None:
    """Drop all capabilities for good: executing a set-user-ID file gives none back."""
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for capability in range(_CAPABILITIES):
        try:
            _call("prctl", _PR_CAPBSET_DROP, capability, 0, 0, 0)
        except OSError:
            break  # not root, or past the last capability of this kernel
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _call("capset", header, bytes(24))


def filter_calls(program: Sequence[tuple[int, int, int, int]]) -> None:
    """Install a classic BPF program as the seccomp filter of this process."""
    instructions = b"".join(struct.pack("=HBBI", *each) for each in program)
    buffer = ctypes.create_string_buffer(instructions, len(instructions))
    header = struct.pack("@HP", len(program), ctypes.addressof(buffer))
    _call("prctl", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0)


def landlock_version() -> int:
    """Return the Landlock ABI version; 0 if it is not available."""
    try:
        return _syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1)
    except OSError:
        return 0


def landlock(handled: bytes, rules: Sequence[tuple[int, int]]) -> None:
    """Forbid the rights in `handled`, except for rules of allowed rights below a descriptor."""
    ruleset = _syscall(_LANDLOCK_CREATE, handled, ctypes.c_size_t(len(handled)), 0)
    try:
        for allowed, descriptor in rules:
            _syscall(_LANDLOCK_ADD, ruleset, 1, struct.pack("=Qi", allowed, descriptor), 0)
        _syscall(_LANDLOCK_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def _number(numbers: dict[str, int]) -> int:
    if MACHINE not in numbers:
        raise OSError(errno.ENOSYS, f"system calls of {MACHINE} are not known")
    return numbers[MACHINE]


def _syscall(number: int, *arguments: object) -> int:
    return _call("syscall", ctypes.c_long(number), *arguments)


def _call(name: str, *arguments: object) -> int:
    function = getattr(_libc(), name)
    # An int would be passed as a 32-bit C int.
    converted = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = function(*converted)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


@cache
def _libc() -> ctypes.CDLL:
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, "not a Linux system")
    return ctypes.CDLL(None, use_errno=True)
