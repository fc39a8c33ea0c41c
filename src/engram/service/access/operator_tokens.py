"""Operator tokens: one from the settings, and named ones from a file of hashes.

The file has one `name:sha256` a line and is read again when it changes; a file that cannot be
trusted lets nobody in.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from stat import S_IMODE

from engram import limits
from engram.clock import random_text
from engram.errors import ConfigurationError, InvalidRequestError
from engram.model.access import OPERATOR

logger = logging.getLogger(__name__)

SETTING = "ENGRAM_ADMIN_TOKENS_FILE"
TOKEN_PREFIX = "engram_op_"  # noqa: S105 how every token begins, and no token
_TOKEN_RANDOM_CHARACTERS = 43
_OTHERS = 0o077
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_Version = tuple[int, int, int, int]


class OperatorTokens:
    """Operator tokens, and the operator that each belongs to."""

    def __init__(self, token: str | None, file: Path | None) -> None:
        self._own = None if token is None else _digest(token)
        self._file = file
        self._version: _Version | None = None
        self._named: dict[str, bytes] = {}

    def load(self) -> None:
        """Read the file.

        Raises:
            ConfigurationError: it cannot be read, others can read it, or a line is wrong.
        """
        if self._file is None:
            return
        self._named, self._version = {}, None
        try:
            version = _version_of(self._file)
            self._named = _read(self._file)
        except OSError as exc:
            raise ConfigurationError(SETTING, f"{self._file}: {exc.strerror}") from exc
        self._version = version

    def find(self, token: str) -> str | None:
        """Return the actor of a token, None if there is none; takes constant time."""
        self._renew()
        digest, found = _digest(token), None
        for actor, expected in self._operators():
            if hmac.compare_digest(digest, expected):
                found = actor
        return found

    def _operators(self) -> Iterator[tuple[str, bytes]]:
        if self._own is not None:
            yield OPERATOR, self._own
        for name, expected in self._named.items():
            yield f"{OPERATOR}:{name}", expected

    def _renew(self) -> None:
        if self._file is None:
            return
        try:
            if self._version != _version_of(self._file):
                self.load()
        except (ConfigurationError, OSError) as exc:
            # A token that was taken out of the file must not go on working because of a typo in it.
            self._named, self._version = {}, None
            logger.error("no named operator is let in: %s", exc)  # noqa: TRY400 the reason says it all


def new_operator_token(name: str) -> tuple[str, str]:
    """Return a new token and its line for the file.

    Raises:
        InvalidRequestError: the name is malformed.
    """
    if _NAME.fullmatch(name) is None:
        message = "must be 1 to 64 letters, digits and . _ @ -, beginning with a letter or digit"
        raise InvalidRequestError(message, field="name")
    token = TOKEN_PREFIX + random_text(_TOKEN_RANDOM_CHARACTERS)
    return token, f"{name}:{_digest(token).hex()}"


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()


def _version_of(file: Path) -> _Version:
    found = file.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode


def _read(file: Path) -> dict[str, bytes]:
    with file.open("rb") as opened:
        mode = S_IMODE(file.stat().st_mode)
        if mode & _OTHERS:
            message = f"{file} can be used by others (mode {mode:04o}): run `chmod 600 {file}`"
            raise ConfigurationError(SETTING, message)
        content = opened.read(limits.OPERATOR_FILE_BYTES_MAX + 1)
    if len(content) > limits.OPERATOR_FILE_BYTES_MAX:
        raise ConfigurationError(
            SETTING, f"{file}: at most {limits.OPERATOR_FILE_BYTES_MAX:,} bytes are allowed"
        )
    named = dict[str, bytes]()
    for number, line in enumerate(content.decode(errors="replace").splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, expected = _parse(line.strip(), place=f"{file}, line {number}")
        if name in named:
            raise ConfigurationError(SETTING, f"{file}, line {number}: {name!r} is there already")
        named[name] = expected
    return named


def _parse(line: str, *, place: str) -> tuple[str, bytes]:
    name, _, digest = line.partition(":")
    if _NAME.fullmatch(name) is None or _SHA256.fullmatch(digest) is None:
        raise ConfigurationError(SETTING, f"{place}: must be NAME:SHA256, the hash in hex")
    return name, bytes.fromhex(digest)
