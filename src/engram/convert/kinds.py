"""Detect the kind of a document from its declared type, its name or its first bytes."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["text", "html", "pdf", "docx"]
"""`text` is read as it is and must be UTF-8; the others are converted."""

HEAD_BYTES = 4_096
"""The first bytes of a body, which are inspected."""

DOCX_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"

_BY_TYPE: dict[str, Kind] = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/pdf": "pdf",
    "application/x-pdf": "pdf",
    DOCX_TYPE: "docx",
    "application/msword": "docx",
}
_BY_SUFFIX: dict[str, Kind] = {
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".pdf": "pdf",
    ".docx": "docx",
    ".doc": "docx",
}
_OLD_WORD = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SPACE = re.compile(rb"\s*+")
_COMMENT_BEGIN, _COMMENT_END = b"<!--", b"-->"
_HTML = re.compile(rb"<(?:!doctype\s+html|html)\b", re.IGNORECASE)
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)


def document_kind(head: bytes, *, media_type: str | None = None, name: str | None = None) -> Kind:
    """Return the kind of a body that begins with `head`.

    A declared text type is trusted; decoding checks it later. With an unspecific type such as
    `application/octet-stream`, the name and then the bytes decide.
    """
    declared = media_type.partition(";")[0].strip().lower() if media_type else ""
    if declared in _BY_TYPE:
        return _BY_TYPE[declared]
    if declared.startswith("text/"):
        return "text"
    suffix = PurePath(name).suffix.lower() if name else ""
    return _BY_SUFFIX.get(suffix) or _kind_of_bytes(head[:HEAD_BYTES], is_named=bool(suffix))


def declared_charset(media_type: str | None) -> str | None:
    """Return the charset parameter of a media type."""
    found = _CHARSET.search(media_type or "")
    return found[1] if found else None


def _kind_of_bytes(head: bytes, *, is_named: bool) -> Kind:
    if b"%PDF-" in head[:1_024]:
        return "pdf"
    if head.startswith(_OLD_WORD) or (head.startswith(b"PK\x03\x04") and b"word/" in head):
        return "docx"
    # A file with another extension may well begin with an HTML tag.
    return "html" if not is_named and _HTML.match(head, _first_tag(head)) else "text"


def _first_tag(head: bytes) -> int:
    """Return the offset after leading white space and comments."""
    # A loop, because a regular expression for repeated comments would backtrack badly.
    place = _after_space(head, len(_BYTE_ORDER_MARK) if head.startswith(_BYTE_ORDER_MARK) else 0)
    while head.startswith(_COMMENT_BEGIN, place):
        end = head.find(_COMMENT_END, place + len(_COMMENT_BEGIN))
        if end < 0:
            return len(head)
        place = _after_space(head, end + len(_COMMENT_END))
    return place


def _after_space(head: bytes, place: int) -> int:
    space = _SPACE.match(head, place)
    return space.end() if space else place
