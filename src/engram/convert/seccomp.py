"""A seccomp filter that refuses the system calls that no converter needs."""

from __future__ import annotations

import errno

from engram.convert import kernel

_X86_64, _AARCH64 = "x86_64", "aarch64"

_REFUSED: dict[str, tuple[int | None, int | None]] = {
    # Communication: networks, and the kernel's queues and keys.
    "socket": (41, 198),
    "socketpair": (53, 199),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # Starting processes and threads, and leaving the process group that is killed in the end.
    "fork": (57, None),
    "vfork": (58, None),
    "clone": (56, 220),
    "clone3": (435, 435),
    "execve": (59, 221),
    "execveat": (322, 281),
    "setsid": (112, 157),
    "setpgid": (109, 154),
    # Access to other processes, or to this one's own limits.
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "prctl": (157, 167),
    "prlimit64": (302, 261),
    "setpriority": (141, 140),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "ioprio_set": (251, 30),
    # Changing namespaces and mounts.
    "unshare": (272, 97),
    "setns": (308, 268),
    "chroot": (161, 51),
    "pivot_root": (155, 41),
    "mount": (165, 40),
    "umount2": (166, 39),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    # Changing files other than by writing to an open one.
    "truncate": (76, 45),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "unlink": (87, None),
    "unlinkat": (263, 35),
    "rmdir": (84, None),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "link": (86, None),
    "linkat": (265, 37),
    "symlink": (88, None),
    "symlinkat": (266, 36),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    # Parts of the kernel with a long history of vulnerabilities.
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
"""System call numbers on x86_64 and on aarch64."""

_ARCHITECTURES = {_X86_64: 0xC000003E, _AARCH64: 0xC00000B7}
_X32 = 0x40000000
"""System calls of the x32 ABI on x86_64 are numbered from here."""

_LOAD_WORD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _RETURN = 0x20, 0x15, 0x35, 0x06
_CALL_AT, _ARCHITECTURE_AT = 0, 4
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EPERM


def install_filter() -> None:
    """Refuse these calls from now on, with `EPERM`.

    Raises:
        OSError: the kernel has no seccomp, or the architecture is not supported.
    """
    kernel.filter_calls(_program(kernel.MACHINE))


def _program(machine: str) -> list[tuple[int, int, int, int]]:
    if machine not in _ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"system calls of {machine} are not known")
    column = 0 if machine == _X86_64 else 1
    numbers = [each for row in _REFUSED.values() if (each := row[column]) is not None]
    count = len(numbers)
    # Jumps are relative to the next instruction; the last three instructions are the verdicts.
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
