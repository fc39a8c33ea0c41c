"""Buckets of S3, Google Cloud Storage and Azure as destinations of backups.

Credentials and endpoints come from the environment, by the names that the tools of each service use.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast
from urllib.parse import urlsplit

from engram.backup.destination import Destination, DirectoryDestination, Item
from engram.errors import BackupUnavailableError, ConfigurationError, NotFoundError

if TYPE_CHECKING:
    from obstore import GetResult, ListStream, ObjectMeta
    from obstore.store import ObjectStore

SCHEMES = frozenset({"s3", "gs", "az", "azure", "abfs", "abfss"})


class ObjectStorage:
    """The `Destination` of a bucket, or of a prefix in it."""

    def __init__(self, url: str) -> None:
        """Use the bucket of a URL; nothing is asked of it yet.

        Raises:
            ConfigurationError: the library is not installed, or the URL names no bucket.
        """
        try:
            import obstore  # noqa: PLC0415 part of an extra
            from obstore.exceptions import BaseError  # noqa: PLC0415
            from obstore.store import from_url  # noqa: PLC0415
        except ImportError as exc:
            raise ConfigurationError(
                url, "object storage needs the extra `backup`: pip install 'engram[backup]'"
            ) from exc
        parts = urlsplit(url)
        self.place = f"{parts.scheme}://{parts.hostname or ''}{parts.path.rstrip('/')}"
        self._library = obstore
        self._failure = BaseError
        with self._translated():
            self._store: ObjectStore = from_url(url)

    def prepare(self) -> None:
        """Do nothing: a bucket is made by its owner, and half an object is never there."""

    def partial(self, staging: Path) -> Path:
        return staging

    def place_object(self, path: Path, name: str) -> None:
        with self._translated():
            self._library.put(self._store, name, path)
        path.unlink()

    def write(self, name: str, data: bytes) -> None:
        with self._translated():
            self._library.put(self._store, name, data)

    @contextmanager
    def open(self, name: str) -> Generator[BinaryIO]:
        with self._translated():
            try:
                found = self._library.get(self._store, name)
            except FileNotFoundError as exc:
                raise NotFoundError("backup", name) from exc
        yield cast("BinaryIO", _Chunks(self._read(found)))

    def list_items(self, folder: str) -> Iterator[Item]:
        with self._translated():
            # Its stub names a type of a library that is not installed.
            found: ListStream[Sequence[ObjectMeta]] = self._library.list(  # pyright: ignore[reportUnknownMemberType]
                self._store, prefix=f"{folder}/", return_arrow=False
            )
            for batch in found:
                for each in batch:
                    yield Item(each["path"], each["size"])

    def remove(self, name: str) -> None:
        with self._translated():
            try:
                self._library.delete(self._store, name)
            except FileNotFoundError:
                return

    def _read(self, found: GetResult) -> Iterator[bytes]:
        with self._translated():
            for chunk in found.stream():
                yield bytes(chunk)

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except self._failure as exc:
            raise BackupUnavailableError(f"{self.place} cannot be used for backups") from exc


def open_destination(place: str) -> Destination:
    """Return the destination of a directory or URL; nothing is created yet.

    Raises:
        ConfigurationError: a URL is of an unknown kind, or its library is not installed.
    """
    scheme, separator, _ = place.partition("://")
    if not separator:
        return DirectoryDestination(Path(place))
    if scheme not in SCHEMES:
        known = ", ".join(sorted(SCHEMES))
        raise ConfigurationError(place, f"backups go to a directory or to a URL of {known}")
    return ObjectStorage(place)


class _Chunks:
    """A file of chunks that arrive one after the other."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def read(self, size: int = -1, /) -> bytes:
        if size < 0:
            return self._rest + b"".join(self._chunks)
        while not self._rest:
            self._rest = next(self._chunks, b"")
            if not self._rest:
                return b""
        data, self._rest = self._rest[:size], self._rest[size:]
        return data
