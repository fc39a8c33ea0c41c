"""Confine the current process irrevocably, before it reads an untrusted document."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from engram.convert import kernel
from engram.convert.kernel import Namespace

Sandbox: TypeAlias = Literal["bubblewrap", "namespaces", "landlock", "none"]
"""What keeps a process from other files; with `none` there are only resource limits."""

_NICENESS = 10
"""Indexing a document is less urgent than answering requests."""

_SIGNALLED = 128
"""Added to a signal number to form an exit status, as shells do."""

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIRECTORY = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE = 1 << 14
_RIGHTS_OF_FILES = {1: 1 << 13, 2: 1 << 14, 3: 1 << 15, 5: 1 << 16}
"""File access rights of each Landlock ABI version, as the bit after the last."""

_RIGHTS_OF_NETWORKS = 0b11
_SCOPES = 0b11
_FIRST_WITH_NETWORKS, _FIRST_WITH_SCOPES = 4, 6


class Policy(NamedTuple):
    """What a confined process may access and use, passed to it on the command line."""

    sandbox: Sandbox
    readable: tuple[str, ...]
    """Files and directories of libraries."""

    source: str
    """The one file to read."""

    target: str
    """The one file to write."""

    memory_bytes: int
    cpu_s: int
    file_bytes: int
    open_files: int

    def dump(self) -> str:
        """Serialize the policy to JSON."""
        return json.dumps(self._asdict())

    @classmethod
    def load(cls, text: str) -> Policy:
        """Parse the output of `dump`."""
        fields: dict[str, Any] = json.loads(text)
        fields["readable"] = tuple(fields["readable"])
        return cls(**fields)


def main(arguments: Sequence[str]) -> int:
    """Run `main` of a module under a policy: POLICY MODULE ARGUMENT…"""
    policy, module, *rest = arguments
    confine(Policy.load(policy))
    return import_module(module).main(rest)


def confine(policy: Policy) -> None:
    """Give up all access that the policy does not grant.

    Raises:
        OSError: the system does not support the policy's sandbox.
    """
    if sys.platform == "win32":
        return
    if sys.platform == "linux":
        kernel.die_with_parent()
    if policy.sandbox == "namespaces":
        _enter_namespaces(policy)
    _set_resource_limits(policy)
    if sys.platform == "linux":
        _drop_privileges(policy)


def _drop_privileges(policy: Policy) -> None:
    kernel.drop_capabilities()
    if policy.sandbox == "landlock":
        _apply_landlock(policy)
    try:
        kernel.install_filter()
    except OSError:
        # Namespaces forbid most of this as well; with Landlock, the filter is indispensable.
        if policy.sandbox == "landlock":
            raise


def _enter_namespaces(policy: Policy) -> None:
    """Continue in a child with its own file system, process, network and user namespaces."""
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
    _change_root(policy)
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        os._exit(_SIGNALLED + signal if signal else os.WEXITSTATUS(status))
    kernel.die_with_parent()


def _change_root(policy: Policy) -> None:
    """Change to a root that contains only the paths of the policy, read-only but for the target."""
    kernel.make_mounts_private()
    with ExitStack() as opened:
        shown = (*policy.readable, policy.source)
        links = {path: Path(path).readlink() for path in shown if Path(path).is_symlink()}
        origins = {path: _open_path(path, opened) for path in shown if path not in links}
        target = _open_path(policy.target, opened)
        # The mount hides the files of this directory, but they are open already.
        root = Path(policy.target).parent
        kernel.mount_empty(root)
        for path, origin in origins.items():
            kernel.bind(origin, _make_mount_point(root, path, origin))
        for path, end in links.items():
            _make_parents(root, path).symlink_to(end)
        place = _make_mount_point(root, policy.target, target)
        kernel.make_read_only(root)
        kernel.bind(target, place)
    kernel.change_root(root)


def _open_path(path: str, opened: ExitStack) -> int:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    opened.callback(os.close, descriptor)
    return descriptor


def _make_mount_point(root: Path, path: str, origin: int) -> Path:
    """Create an empty file or directory to mount another on."""
    place = _make_parents(root, path)
    if stat.S_ISDIR(os.fstat(origin).st_mode):
        place.mkdir(exist_ok=True)
    else:
        place.touch()
    return place


def _make_parents(root: Path, path: str) -> Path:
    """Return a path below another root, and create its parent directories."""
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _apply_landlock(policy: Policy) -> None:
    """Forbid opening any file that the policy does not name."""
    version = kernel.landlock_version()
    if not version:
        raise OSError("Landlock is not available on this system")
    file_rights = _RIGHTS_OF_FILES[max(each for each in _RIGHTS_OF_FILES if each <= version)] - 1
    handled = [file_rights]
    if version >= _FIRST_WITH_NETWORKS:
        handled.append(_RIGHTS_OF_NETWORKS)
    if version >= _FIRST_WITH_SCOPES:
        handled.append(_SCOPES)
    with ExitStack() as opened:
        rules = [
            (_rights(path, _READ_FILE | _READ_DIRECTORY | _EXECUTE), _open_path(path, opened))
            for path in policy.readable
        ]
        rules.append((_READ_FILE, _open_path(policy.source, opened)))
        rules.append(((_WRITE_FILE | _TRUNCATE) & file_rights, _open_path(policy.target, opened)))
        kernel.landlock(b"".join(each.to_bytes(8, sys.byteorder) for each in handled), rules)


def _rights(path: str, wanted: int) -> int:
    """Return the wanted rights that apply to a file or to a directory."""
    return wanted if Path(path).is_dir() else wanted & ~_READ_DIRECTORY


def _set_resource_limits(policy: Policy) -> None:
    """Limit the resources of this process, as far as the system supports it."""
    if sys.platform == "win32":
        return
    import resource

    os.nice(_NICENESS)
    resource_limits = {
        resource.RLIMIT_AS: policy.memory_bytes,
        resource.RLIMIT_CPU: policy.cpu_s,
        resource.RLIMIT_FSIZE: policy.file_bytes,
        resource.RLIMIT_NOFILE: policy.open_files,
        resource.RLIMIT_NPROC: 0,
        resource.RLIMIT_CORE: 0,
    }
    for name, limit in resource_limits.items():
        # Not every system has every limit, and an existing one may be lower already.
        with suppress(ValueError, OSError):
            resource.setrlimit(name, (limit, limit))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
