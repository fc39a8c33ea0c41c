"""Forms with a file: fields are read first, and the file as it arrives, never held as a whole."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from email.message import Message as HeaderText
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from engram import limits
from engram.errors import InvalidRequestError, RequestTooLargeError
from engram.page.visit import Fields, FormFile

if TYPE_CHECKING:
    from python_multipart import MultipartParser

UNKNOWN_TYPE = "application/octet-stream"
"""The type of a file whose browser knows none; its name and its bytes decide."""


async def read_upload(scope: Scope, receive: Receive) -> tuple[Fields, FormFile]:
    """Return the fields before the file of a form, and the file, whose bytes are read on demand.

    Raises:
        InvalidRequestError: it is no form with a file.
        RequestTooLargeError: its fields are too large.
    """
    parts = _Parts(_boundary(scope))
    stream = _received(receive)
    async for data in stream:
        parts.feed(data)
        if parts.file is not None:
            break
    if parts.file is None or not parts.file[0]:
        raise InvalidRequestError("must be chosen", field="file")
    name, media_type = parts.file
    return parts.fields, FormFile(name=name, media_type=media_type, pieces=_file(parts, stream))


async def _file(parts: _Parts, stream: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    yield parts.take()
    async for data in stream:
        parts.feed(data)
        yield parts.take()
    if not parts.is_complete:
        raise InvalidRequestError("ended before the form did", field="file")


async def _received(receive: Receive) -> AsyncGenerator[bytes]:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        yield message.get("body", b"")
        if not message.get("more_body", False):
            return


def _boundary(scope: Scope) -> str:
    headers: dict[bytes, bytes] = dict(scope["headers"])
    given = _parsed(headers.get(b"content-type", b"").decode("latin-1"))
    boundary = given.get_boundary()
    if given.get_content_type() != "multipart/form-data" or not boundary:
        raise InvalidRequestError("must be multipart/form-data", field="Content-Type")
    return boundary


def _parsed(value: str, name: str = "content-type") -> HeaderText:
    text = HeaderText()
    text[name] = value
    return text


class _Parts:
    """What has arrived of a form: whole fields, and the bytes of its file that nobody has taken yet."""

    def __init__(self, boundary: str) -> None:
        self.fields: list[tuple[str, str]] = []
        self.file: tuple[str, str] | None = None
        """Name and media type, once its part has begun."""
        self.is_complete = False
        self._header = (bytearray(), bytearray())
        self._headers: dict[str, str] = {}
        self._name = ""
        self._data = bytearray()
        self._parser = self._new_parser(boundary)

    def _new_parser(self, boundary: str) -> MultipartParser:
        from python_multipart import MultipartParser  # noqa: PLC0415 uploads alone need it

        return MultipartParser(
            boundary.encode("latin-1"),
            {
                "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
                "on_header_end": self._end_header,
                "on_headers_finished": self._begin_part,
                "on_part_data": self._add_data,
                "on_part_end": self._end_part,
                "on_end": self._end,
            },
        )

    def feed(self, data: bytes) -> None:
        """Parse what has arrived.

        Raises:
            InvalidRequestError: it is no form, or has something after the file.
            RequestTooLargeError: its fields are too large.
        """
        from python_multipart.exceptions import MultipartParseError  # noqa: PLC0415 as above

        try:
            self._parser.write(data)
        except MultipartParseError as exc:
            raise InvalidRequestError("must be multipart/form-data", field="form") from exc

    def take(self) -> bytes:
        """Return the bytes of the file that have arrived since the last call."""
        taken = bytes(self._data)
        self._data.clear()
        return taken

    def _end_header(self) -> None:
        name, value = (bytes(each).decode("utf-8", "replace") for each in self._header)
        self._headers[name.lower()] = value
        self._header = (bytearray(), bytearray())

    def _begin_part(self) -> None:
        described = _parsed(self._headers.get("content-disposition", ""), "content-disposition")
        self._name = str(described.get_param("name", "", "content-disposition"))
        if self.file is not None:
            raise InvalidRequestError("must come before the file", field=self._name)
        if (name := described.get_filename()) is not None:
            self.file = (name, self._headers.get("content-type", UNKNOWN_TYPE))
        self._headers = {}

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        self._data += data[start:end]
        if self.file is None and len(self._data) > limits.PAGE_FORM_BYTES_MAX:
            limit = limits.PAGE_FORM_BYTES_MAX
            raise RequestTooLargeError("form", limit=limit, actual=len(self._data), unit="bytes")

    def _end_part(self) -> None:
        if self.file is None:
            self.fields.append((self._name, self.take().decode("utf-8", "replace")))

    def _end(self) -> None:
        self.is_complete = True
