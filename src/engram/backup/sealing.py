"""Turn files into the objects of backups and back: compressed, encrypted if asked for, and hashed."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import zstandard

from engram.errors import BackupDamagedError, ConfigurationError, InvalidRequestError
from engram.limits import BACKUP_COPY_BYTES
from engram.model.backup import StoredFile
from engram.storage.private import create_private

if TYPE_CHECKING:
    from types import ModuleType

    from pyrage import AnyIdentity, AnyRecipient

_LEVEL = 1
"""Texts are compressed in the file already: level 3 saved one percent more, at 2.4 times the time."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """What became of a file."""

    bytes: int
    sha256: str
    object: str
    stored_bytes: int


def parse_recipients(texts: Sequence[str]) -> Sequence[AnyRecipient]:
    """Parse public keys that backups are to be encrypted to, of age or SSH.

    Raises:
        InvalidRequestError: one is not a public key.
        ConfigurationError: the library is not installed.
    """
    return [_parse_recipient(text) for text in texts]


def read_identities(path: Path) -> Sequence[AnyIdentity]:
    """Read the private keys that decrypt backups from a file of `age-keygen`, or of SSH.

    Raises:
        InvalidRequestError: the file cannot be read or has none.
        ConfigurationError: the library is not installed.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        message = f"{path} cannot be read as text"
        raise InvalidRequestError(message, field="identity") from exc
    if "PRIVATE KEY-----" in text:
        return [_parse_ssh_identity(text)]
    lines = [line.strip() for line in text.splitlines()]
    found = [line for line in lines if line and not line.startswith("#")]
    if not found:
        raise InvalidRequestError(f"{path} has no key", field="identity")
    return [_parse_identity(line) for line in found]


def seal(source: Path, target: Path, *, recipients: Sequence[AnyRecipient]) -> Sealed:
    """Write a file as an object, synced; return what its name is to be."""
    compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
    with source.open("rb") as opened, create_private(target) as file:
        plain, stored = _Counting(opened), _Counting(file)
        size = source.stat().st_size
        if recipients:
            with compressor.stream_reader(plain.file, size=size) as compressed:
                _encrypt(compressed, stored, recipients, plain=plain)
        else:
            compressor.copy_stream(plain.file, stored.file, size=size, read_size=BACKUP_COPY_BYTES)
    ending = ".zst.age" if recipients else ".zst"
    return Sealed(plain.bytes, plain.hexdigest, stored.hexdigest + ending, stored.bytes)


def _encrypt(
    compressed: BinaryIO, stored: _Counting, recipients: Sequence[AnyRecipient], *, plain: _Counting
) -> None:
    age = _age()
    try:
        age.encrypt_io(compressed, stored.file, recipients)
    except age.EncryptError as exc:
        # The library keeps but the text of what was raised below it, a signal's for example.
        raise (plain.failure or stored.failure or exc) from None


def unseal(
    opened: BinaryIO,
    file: StoredFile,
    target: Path,
    *,
    identities: Sequence[AnyIdentity],
) -> None:
    """Write the file that an object was made of, synced, and compare both with their hashes.

    Raises:
        BackupDamagedError: one of them is not what it was.
        InvalidRequestError: the object is encrypted, and not to these identities.
    """
    stored = _Counting(opened)
    with create_private(target) as written:
        plain = _Counting(written)
        try:
            _decode(stored, plain, file, identities)
        except zstandard.ZstdError as exc:
            raise _damaged(file) from exc
    while stored.read(BACKUP_COPY_BYTES):
        pass  # hashed as well
    if stored.hexdigest != file.object.partition(".")[0] or plain.hexdigest != file.sha256:
        raise _damaged(file)


def _decode(
    stored: _Counting, plain: _Counting, file: StoredFile, identities: Sequence[AnyIdentity]
) -> None:
    decompressor = zstandard.ZstdDecompressor()
    if not file.object.endswith(".age"):
        decompressor.copy_stream(stored.file, plain.file, read_size=BACKUP_COPY_BYTES)
        return
    age = _age()
    if not identities:
        raise InvalidRequestError("the backup is encrypted: name the private key", field="identity")
    try:
        with decompressor.stream_writer(plain.file, closefd=False) as writer:
            age.decrypt_io(stored.file, writer, identities)
    except age.DecryptError as exc:
        if "No matching keys" in str(exc):
            message = "the backup is encrypted to other keys"
            raise InvalidRequestError(message, field="identity") from exc
        raise _damaged(file) from exc
    except OSError as exc:
        if exc.errno is not None:
            raise  # of the disk, not of the library
        raise _damaged(file) from exc


class _Counting:
    """A file that counts and hashes what is read from it or written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = sha256()
        self.bytes = 0
        self.failure: BaseException | None = None
        """What was raised by reading or writing."""

    @property
    def file(self) -> BinaryIO:
        """Itself: libraries ask for more than they use."""
        return cast("BinaryIO", self)

    @property
    def hexdigest(self) -> str:
        return self._digest.hexdigest()

    def read(self, size: int = -1, /) -> bytes:
        with self._watched():
            return self._count(self._file.read(size))

    def write(self, data: bytes, /) -> int:
        with self._watched():
            self._count(data)
            return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    @contextmanager
    def _watched(self) -> Generator[None]:
        try:
            yield
        except BaseException as exc:
            self.failure = exc
            raise

    def _count(self, data: bytes) -> bytes:
        self._digest.update(data)
        self.bytes += len(data)
        return data


def _parse_recipient(text: str) -> AnyRecipient:
    age = _age()
    kind = age.x25519.Recipient if text.startswith("age") else age.ssh.Recipient
    try:
        return kind.from_str(text)
    except age.RecipientError as exc:
        raise InvalidRequestError(f"not a public key: {exc}", field="recipient") from exc


def _parse_identity(text: str) -> AnyIdentity:
    age = _age()
    try:
        return age.x25519.Identity.from_str(text)
    except age.IdentityError as exc:
        raise InvalidRequestError(f"not a private key: {exc}", field="identity") from exc


def _parse_ssh_identity(text: str) -> AnyIdentity:
    age = _age()
    try:
        return age.ssh.Identity.from_buffer(text.encode())
    except age.IdentityError as exc:
        raise InvalidRequestError(f"not a private key: {exc}", field="identity") from exc


def _age() -> ModuleType:
    try:
        import pyrage  # noqa: PLC0415 part of an extra
    except ImportError as exc:
        raise ConfigurationError(
            "--recipient", "encryption needs the extra `backup`: pip install 'engram[backup]'"
        ) from exc
    return pyrage


def _damaged(file: StoredFile) -> BackupDamagedError:
    return BackupDamagedError(f"the object of {file.name} is damaged: {file.object}")
