"""Confine this process, for good, before it reads what a stranger sent."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path

from engram.convert import calls, kernel
from engram.convert.kernel import Namespace
from engram.convert.policy import Policy

_NICENESS = 10
"""Nobody waits for a document to be indexed as they wait for an answer."""

_SIGNALLED = 128
"""What shells add to the number of the signal that ended a process."""

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIRECTORY = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE = 1 << 14
_RIGHTS_OF_FILES = {1: 1 << 13, 2: 1 << 14, 3: 1 << 15, 5: 1 << 16}
"""How many rights to files each version of Landlock knows, as the bit after the last."""

_RIGHTS_OF_NETWORKS = 0b11
_SCOPES = 0b11
_FIRST_WITH_NETWORKS, _FIRST_WITH_SCOPES = 4, 6


def main(arguments: Sequence[str]) -> int:
    """Run `main` of a module under a policy: POLICY MODULE ARGUMENT…"""
    policy, module, *rest = arguments
    confine(Policy.load(policy))
    return import_module(module).main(rest)


def confine(policy: Policy) -> None:
    """Give up all that the policy does not allow.

    Raises:
        OSError: the system does not support the policy's way.
    """
    if sys.platform == "win32":
        return
    if sys.platform == "linux":
        kernel.die_with_parent()
    if policy.way == "namespaces":
        _enter_namespaces(policy)
    _bound(policy)
    if sys.platform == "linux":
        _give_up_rights(policy)


def _give_up_rights(policy: Policy) -> None:
    kernel.drop_capabilities()
    if policy.way == "landlock":
        _restrict_files(policy)
    try:
        calls.refuse_calls()
    except OSError:
        # Namespaces forbid most of this as well, but with less there is nothing left to rely on.
        if policy.way == "landlock":
            raise


def _enter_namespaces(policy: Policy) -> None:
    """Go on in a child that has its own view of files, processes, networks and users."""
    user, group = os.getuid(), os.getgid()
    kernel.unshare(
        Namespace.USER
        | Namespace.MOUNT
        | Namespace.NET
        | Namespace.PID
        | Namespace.IPC
        | Namespace.UTS
    )
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _see_only(policy)
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        os._exit(_SIGNALLED + signal if signal else os.WEXITSTATUS(status))
    kernel.die_with_parent()


def _see_only(policy: Policy) -> None:
    """Change to a root in which there is nothing but what the policy names, read-only."""
    kernel.make_mounts_private()
    with ExitStack() as opened:
        shown = (*policy.readable, policy.source)
        links = {path: Path(path).readlink() for path in shown if Path(path).is_symlink()}
        origins = {path: _origin(path, opened) for path in shown if path not in links}
        written = _origin(policy.target, opened)
        # The new root hides this directory, whose files are open already.
        root = Path(policy.target).parent
        kernel.mount_empty(root)
        for path, origin in origins.items():
            kernel.bind(origin, _make_place(root, path, origin))
        for path, end in links.items():
            _make_parents(root, path).symlink_to(end)
        place = _make_place(root, policy.target, written)
        kernel.make_read_only(root)
        kernel.bind(written, place)
    kernel.change_root(root)


def _origin(path: str, opened: ExitStack) -> int:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    opened.callback(os.close, descriptor)
    return descriptor


def _make_place(root: Path, path: str, origin: int) -> Path:
    """Make an empty file or directory for something to be mounted on."""
    place = _make_parents(root, path)
    if stat.S_ISDIR(os.fstat(origin).st_mode):
        place.mkdir(exist_ok=True)
    else:
        place.touch()
    return place


def _make_parents(root: Path, path: str) -> Path:
    """Return where a path lies below another root, and make the directories that lead there."""
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _restrict_files(policy: Policy) -> None:
    """Let no file be opened but what the policy names."""
    version = kernel.landlock_version()
    if not version:
        raise OSError("this system has no Landlock")
    known = _RIGHTS_OF_FILES[max(each for each in _RIGHTS_OF_FILES if each <= version)] - 1
    handled = [known]
    if version >= _FIRST_WITH_NETWORKS:
        handled.append(_RIGHTS_OF_NETWORKS)
    if version >= _FIRST_WITH_SCOPES:
        handled.append(_SCOPES)
    with ExitStack() as opened:
        rules = [
            (_rights(path, _READ_FILE | _READ_DIRECTORY | _EXECUTE), _origin(path, opened))
            for path in policy.readable
        ]
        rules.append((_READ_FILE, _origin(policy.source, opened)))
        rules.append(((_WRITE_FILE | _TRUNCATE) & known, _origin(policy.target, opened)))
        kernel.landlock(b"".join(each.to_bytes(8, sys.byteorder) for each in handled), rules)


def _rights(path: str, wanted: int) -> int:
    """Return rights that make sense for what is there."""
    return wanted if Path(path).is_dir() else wanted & ~_READ_DIRECTORY


def _bound(policy: Policy) -> None:
    """Bound what this process may use, where the system can."""
    if sys.platform == "win32":
        return
    import resource

    os.nice(_NICENESS)
    bounds = {
        resource.RLIMIT_AS: policy.memory_bytes,
        resource.RLIMIT_CPU: policy.cpu_s,
        resource.RLIMIT_FSIZE: policy.file_bytes,
        resource.RLIMIT_NOFILE: policy.open_files,
        resource.RLIMIT_NPROC: 0,
        resource.RLIMIT_CORE: 0,
    }
    for name, bound in bounds.items():
        # Not every system bounds everything, and none lets a bound be raised again.
        with suppress(ValueError, OSError):
            resource.setrlimit(name, (bound, bound))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
