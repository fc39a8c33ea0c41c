"""Where the engine of a store listens.

The name of the socket is a digest of the version and of every setting that changes an answer: callers
with other settings, or of another version, find another engine or start one, and any number of
engines may use one store.
"""

from __future__ import annotations

import hashlib
import os
import socket
import stat
from pathlib import Path
from typing import NamedTuple

from engram import __version__, limits
from engram.errors import ConfigurationError
from engram.hooks.places import pointer_to_engine
from engram.settings import Settings, runtime_directory, to_environment

_OF_A_CALLER = frozenset(
    f"ENGRAM_{name}"
    for name in (
        *("TOOLSETS", "URL", "API_KEY", "LOG", "LOG_FORMAT", "ENGINE_IDLE", "MODEL_HUB", "HOOKS"),
        *("HOST", "PORT", "WORKERS", "ALLOWED_HOSTS", "ADMIN_TOKEN", "ADMIN_TOKENS_FILE"),
        *("RATE_LIMIT", "CONNECTIONS_MAX", "CONNECTIONS_PER_ADDRESS_MAX"),
    )
)
"""Settings of one client, or of the server's port: processes that differ in them share an engine."""

_OTHERS = 0o077


class Address(NamedTuple):
    """The files of one engine."""

    socket: Path
    lock: Path
    """Locked by the engine as long as it runs."""
    starting: Path
    """Locked by the process that starts it."""
    log: Path
    pointer: Path
    """Leads to the socket of the engine that began to serve last, whatever its settings."""


def has_engine(settings: Settings) -> bool:
    """Return True if processes with these settings share an engine on this machine."""
    return settings.engine_idle > 0 and hasattr(socket, "AF_UNIX") and hasattr(os, "geteuid")


def address_of(settings: Settings) -> Address:
    """Return the files of the engine for `settings`; their directory exists and is private.

    Raises:
        ConfigurationError: the directory cannot be made, or is another user's.
    """
    name = digest_of(settings)
    directory = settings.home.resolve() / "engine"
    if len(os.fsencode(directory / f"{name}.sock")) > limits.SOCKET_PATH_BYTES_MAX:
        directory = runtime_directory() / f"engram-{os.geteuid()}"
        # Other stores have theirs there too.
        name = f"{_digest(str(settings.home.resolve()))}-{name}"
    _make_private(directory)
    return _address(directory, name, pointer=Path(pointer_to_engine(str(settings.home.absolute()))))


def addresses_beside(address: Address) -> list[Address]:
    """Return the engines of a store that left a socket: those for other settings too."""
    directory = address.socket.parent
    store, separator, _ = address.socket.stem.rpartition("-")
    return [
        _address(directory, path.stem, pointer=address.pointer)
        for path in sorted(directory.glob(f"{store}{separator}*.sock"))
    ]


def _address(directory: Path, name: str, *, pointer: Path) -> Address:
    suffixes = ("sock", "lock", "starting", "log")
    return Address(*(directory / f"{name}.{suffix}" for suffix in suffixes), pointer=pointer)


def digest_of(settings: Settings) -> str:
    """Return the digest of the version and of the settings that an engine must share."""
    shared = {
        name: value
        for name, value in to_environment(settings).items()
        if name not in _OF_A_CALLER and name != "ENGRAM_HOME"
    }
    place = str(settings.home.resolve())
    return _digest(repr((__version__, place, sorted(shared.items()))))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _make_private(directory: Path) -> None:
    """Make the directory, and refuse one that others own or may enter."""
    try:
        directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
        found = directory.lstat()
    except OSError as exc:
        raise ConfigurationError("ENGRAM_HOME", f"{directory} cannot be made: {exc}") from exc
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    if not is_ours or found.st_mode & _OTHERS:
        raise ConfigurationError("ENGRAM_HOME", f"{directory} is open to other users")
