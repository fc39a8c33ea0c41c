"""Uploads and downloads of documents: streamed in, and sent piece by piece."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from engram import limits
from engram.api.documents import (
    MEDIA_TYPE,
    UNKNOWN_TYPE,
    DocumentFields,
    DocumentReference,
    DocumentStored,
    UploadPart,
    UploadView,
    document_stored,
    download_headers,
    upload_view,
)
from engram.bodies.receiving import announced_length
from engram.errors import InvalidRequestError
from engram.http.headers import has_header, header
from engram.http.problems import HttpError
from engram.http.routes import Call, Handler
from engram.model.document import ByteRange, Document

_ONE_RANGE = re.compile(r"bytes=[ \t]*(\d*)-(\d*)[ \t]*", re.ASCII)


async def store_document(call: Call, request: DocumentFields) -> DocumentStored:
    """Store a document whose bytes are the body."""
    draft = request.draft(media_type=announced_type(call), size_bytes=announced_size(call))
    return document_stored(
        await call.service.documents.store_stream(call.principal, draft, call.stream())
    )


async def get_document(call: Call, request: DocumentReference) -> Response:
    """Send a document's bytes, or only its headers for HEAD."""
    document = await call.service.documents.get(call.principal, request.document_id)
    return await document_response(call, document)


async def add_part(call: Call, request: UploadPart) -> UploadView:
    """Store a part of an upload whose bytes are the body."""
    async with call.receive_body(bytes_max=limits.UPLOAD_PART_BYTES_MAX, field="part") as data:
        upload = await call.service.documents.add_part(
            call.principal, request.upload_id, request.part, bytes(data)
        )
    return upload_view(upload)


def announced_type(call: Call) -> str:
    """Return the media type of a body.

    Raises:
        InvalidRequestError: it is not a media type.
    """
    if not has_header(call.scope, b"content-type"):
        return UNKNOWN_TYPE
    given = (header(call.scope, b"content-type") or "").strip()
    if MEDIA_TYPE.fullmatch(given) is None:
        raise InvalidRequestError("must be one media type", field="Content-Type")
    return given


def announced_size(call: Call) -> int | None:
    """Return the length of a document, None when it comes in pieces until its end.

    Raises:
        InvalidRequestError: the body is empty, or its length is not a number.
    """
    length = announced_length(call.scope)
    if length == 0:
        raise InvalidRequestError("must not be empty", field="body")
    return length


async def document_response(call: Call, document: Document) -> Response:
    """Return a document's bytes, or the requested range of them, as a download."""
    etag = f'"{document.sha256}"'
    headers = {**download_headers(document), "accept-ranges": "bytes", "etag": etag}
    if is_known(call.scope, etag=etag):
        return Response(status_code=304, headers={"etag": etag})
    try:
        wanted = asked_range(call.scope, etag=etag, size_bytes=document.size_bytes)
    except UnsatisfiableRangeError as exc:
        raise HttpError(
            416,
            "range_not_satisfiable",
            f"the document has {document.size_bytes:,} bytes",
            {"Content-Range": f"bytes */{document.size_bytes}"},
        ) from exc
    if wanted is None:
        headers["content-length"] = str(document.size_bytes)
        return await _answer(call, document, None, status=200, headers=headers)
    headers["content-length"] = str(wanted.end - wanted.start)
    headers["content-range"] = f"bytes {wanted.start}-{wanted.end - 1}/{document.size_bytes}"
    return await _answer(call, document, wanted, status=206, headers=headers)


async def _answer(
    call: Call,
    document: Document,
    wanted: ByteRange | None,
    *,
    status: int,
    headers: Mapping[str, str],
) -> Response:
    if call.method == "HEAD":
        return Response(status_code=status, headers=headers)
    body = await call.service.documents.read_body(call.principal, document, wanted)
    return Download(body, status=status, headers=headers)


class Download(Response):
    """Sends a body as it is read; the answer begins when the first piece has been read."""

    def __init__(
        self, pieces: AsyncIterator[bytes], *, status: int, headers: Mapping[str, str]
    ) -> None:
        super().__init__(status_code=status, headers=headers)
        if "content-length" not in headers:
            del self.headers["content-length"]  # Of no body, which this response has not.
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = Request(scope, receive)
        first = await anext(self._pieces, b"")
        begun = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **begun})
        await send({"type": "http.response.body", "body": first, "more_body": True})
        async for piece in self._pieces:
            if await client.is_disconnected():
                return
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


class UnsatisfiableRangeError(Exception):
    """The range begins past the end."""


def asked_range(scope: Scope, *, etag: str, size_bytes: int) -> ByteRange | None:
    """Return the requested range, None for the whole document.

    Several ranges at once, other units and malformed ranges are answered with the whole document,
    as RFC 9110 allows.

    Raises:
        UnsatisfiableRangeError: no byte of it exists.
    """
    found = _ONE_RANGE.fullmatch(header(scope, b"range") or "")
    if found is None or not _is_for(scope, etag):
        return None
    first, last = found.groups()
    if not (first or last) or max(len(first), len(last)) > limits.RANGE_DIGITS_MAX:
        return None
    if not first:
        start, end = max(0, size_bytes - int(last)), size_bytes
    else:
        start, end = int(first), size_bytes if not last else min(int(last) + 1, size_bytes)
        if last and int(last) < start:
            return None
    if start >= size_bytes or start >= end:
        raise UnsatisfiableRangeError
    return ByteRange(start=start, end=end)


def is_known(scope: Scope, *, etag: str) -> bool:
    """Return True if `If-None-Match` names this document, so that 304 is the answer."""
    known = header(scope, b"if-none-match")
    if known is None:
        return False
    tags = {tag.strip().removeprefix("W/") for tag in known.split(",")}
    return "*" in tags or etag in tags


def _is_for(scope: Scope, etag: str) -> bool:
    """Return True if `If-Range` allows a range: not if the client has part of another version."""
    condition = header(scope, b"if-range")
    return condition is None or condition.strip() == etag


HANDLERS: Mapping[str, Handler] = {
    "memory_store_document": store_document,
    "get_document": get_document,
    "head_document": get_document,
    "add_part": add_part,
}
"""Handlers of the routes whose request or response body is not JSON."""
