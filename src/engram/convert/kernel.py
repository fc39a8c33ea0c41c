"""Linux system calls that Python has no function for, and a seccomp filter of those no converter needs.

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

_X86_64, _AARCH64 = "x86_64", "aarch64"

# fmt: off
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    # Communication: networks, and the kernel's queues and keys.
    "socket": (41, 198), "socketpair": (53, 199), "shmget": (29, 194), "semget": (64, 190),
    "msgget": (68, 186), "mq_open": (240, 180), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219),
    # Starting processes and threads, and leaving the process group that is killed in the end.
    "fork": (57, None), "vfork": (58, None), "clone": (56, 220), "clone3": (435, 435),
    "execve": (59, 221), "execveat": (322, 281), "setsid": (112, 157), "setpgid": (109, 154),
    # Access to other processes, or to this one's own limits.
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_send_signal": (424, 424), "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "process_madvise": (440, 440), "kcmp": (312, 272),
    "prctl": (157, 167), "prlimit64": (302, 261), "setpriority": (141, 140),
    "sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274), "ioprio_set": (251, 30),
    # Changing namespaces and mounts.
    "unshare": (272, 97), "setns": (308, 268), "chroot": (161, 51), "pivot_root": (155, 41),
    "mount": (165, 40), "umount2": (166, 39), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "mount_setattr": (442, 442), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    # Changing files other than by writing to an open one.
    "truncate": (76, 45), "rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276),
    "unlink": (87, None), "unlinkat": (263, 35), "rmdir": (84, None), "mkdir": (83, None),
    "mkdirat": (258, 34), "mknod": (133, None), "mknodat": (259, 33), "link": (86, None),
    "linkat": (265, 37), "symlink": (88, None), "symlinkat": (266, 36), "chmod": (90, None),
    "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "setxattr": (188, 5),
    "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14),
    "lremovexattr": (198, 15), "fremovexattr": (199, 16), "utime": (132, None),
    "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
    # Parts of the kernel with a long history of vulnerabilities.
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
}
# fmt: on
"""System call numbers on x86_64 and on aarch64."""

_ARCHITECTURES = {_X86_64: 0xC000003E, _AARCH64: 0xC00000B7}

_X32 = 0x40000000
"""System calls of the x32 ABI on x86_64 are numbered from here."""

_LOAD_WORD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _RETURN = 0x20, 0x15, 0x35, 0x06

_CALL_AT, _ARCHITECTURE_AT = 0, 4

_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EPERM


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


def _filter_calls(program: Sequence[tuple[int, int, int, int]]) -> None:
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


def install_filter() -> None:
    """Refuse these calls from now on, with `EPERM`.

    Raises:
        OSError: the kernel has no seccomp, or the architecture is not supported.
    """
    _filter_calls(_program(MACHINE))


def _program(machine: str) -> list[tuple[int, int, int, int]]:
    if machine not in _ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"system calls of {machine} are not known")
    column = 0 if machine == _X86_64 else 1
    numbers = [each for row in _REFUSED.values() if (each := row[column]) is not None]
    count = len(numbers)
    # Jumps are relative to the next instruction; the last three return the outcomes.
    refusals = [(_JUMP_EQUAL, count - place, 0, each) for place, each in enumerate(numbers)]
    return [
        (_LOAD_WORD, 0, 0, _ARCHITECTURE_AT),
        (_JUMP_EQUAL, 0, count + 4, _ARCHITECTURES[machine]),
        (_LOAD_WORD, 0, 0, _CALL_AT),
        (_JUMP_GREATER_EQUAL, count + 1, 0, _X32),
        *refusals,
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _KILL),
    ]
