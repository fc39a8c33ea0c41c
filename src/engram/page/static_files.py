"""The files of the page that are the same for everybody: scripts, styles and their licences."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from starlette.types import Scope, Send

from engram.errors import NotFoundError

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_DIGEST_CHARACTERS = 12
_FOLDERS = ("", "vendor/")


class StaticFile(NamedTuple):
    """One file, as it is sent."""

    content: bytes
    compressed: bytes
    media_type: str
    digest: str


@cache
def static_files() -> dict[str, StaticFile]:
    """Return the files by their path below `/static`."""
    root = files("engram.page") / "static"
    return {
        f"{folder}{entry.name}": _load(entry.name, entry.read_bytes())
        for folder in _FOLDERS
        for entry in (root / folder if folder else root).iterdir()
        if entry.is_file()
    }


@cache
def static_link(name: str) -> str:
    """Return the address of a file, which changes with its content."""
    return f"/static/{name}?v={static_files()[name].digest}"


async def send_static(scope: Scope, send: Send) -> None:
    """Send the file that a request's path names.

    Raises:
        NotFoundError: there is none.
    """
    name = scope["path"].removeprefix("/static/")
    found = static_files().get(name)
    if found is None:
        raise NotFoundError("file", name)
    accepted = b",".join(value for key, value in scope["headers"] if key == b"accept-encoding")
    is_zipped = b"gzip" in accepted
    body = found.compressed if is_zipped else found.content
    headers = [
        (b"content-type", found.media_type.encode()),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"public, max-age=31536000, immutable"),
        (b"vary", b"accept-encoding"),
        (b"x-content-type-options", b"nosniff"),
        (b"cross-origin-resource-policy", b"same-origin"),
        *([(b"content-encoding", b"gzip")] if is_zipped else []),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body if scope["method"] != "HEAD" else b""})


def _load(name: str, content: bytes) -> StaticFile:
    return StaticFile(
        content=content,
        compressed=gzip.compress(content, mtime=0),
        media_type=_TYPES["." + name.rpartition(".")[2]],
        digest=hashlib.sha256(content).hexdigest()[:_DIGEST_CHARACTERS],
    )
