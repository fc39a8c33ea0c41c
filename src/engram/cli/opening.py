"""`engram open`: a link that signs a browser of this machine in to the page, once."""

from __future__ import annotations

import os
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict
from urllib.parse import urlsplit

import typer

from engram.cli.invocation import Invocation
from engram.cli.options import shared_options
from engram.cli.output import print_line, print_notice
from engram.errors import UnavailableError
from engram.storage.private import SERVER_URL

if TYPE_CHECKING:
    from engram.service import Service

_ANSWER_S = 2.0
_MODE = 0o600
_ADDRESS_BYTES_MAX = 1_000

Browser = Annotated[
    bool, typer.Option("--browser/--no-browser", help="Start a browser, or only print the link.")
]


class Opened(TypedDict):
    """The link that opens the page once."""

    url: str


@shared_options
def open_page(invocation: Invocation, *, browser: Browser = True) -> None:
    """Open the page of the running server, signed in without a key.

    Examples:
      engram open
      engram open --no-browser

    The link works once and for an hour. `engram serve` has to run on the same
    store.
    """
    settings = invocation.settings()
    url = running_url(settings.home)
    link = link_url(url, invocation.run(_create_link))
    invocation.show(Opened(url=link), lambda: print_line(link))
    if browser and not invocation.as_json and os.isatty(1) and not _start_browser(link):
        print_notice("no browser could be started: open the link in one")


async def _create_link(service: Service) -> str:
    return await service.sessions.create_link()


def _start_browser(link: str) -> bool:
    import webbrowser

    return webbrowser.open(link)


def link_url(url: str, secret: str) -> str:
    """Return the address at which a link's secret signs a browser in."""
    return f"{url}/sign-in/link?token={secret}"


@contextmanager
def announced_url(home: Path, url: str) -> Generator[None]:
    """Let `engram open` find the server while the block runs."""
    path, own = home / SERVER_URL, f"{url} {os.getpid()}\n"
    with suppress(OSError):  # a directory that cannot be written: the banner has the link
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(own)
    try:
        yield
    finally:
        # Another server may have begun to serve the store since, at the same address.
        if _read(path) == own:
            with suppress(OSError):
                path.unlink(missing_ok=True)


def running_url(home: Path) -> str:
    """Return the address of the server that runs on a store.

    Raises:
        UnavailableError: none does.
    """
    url = _read(home / SERVER_URL).partition(" ")[0]
    if url:
        address = urlsplit(url)
        with suppress(OSError):
            place = (address.hostname or "", address.port or 80)
            socket.create_connection(place, timeout=_ANSWER_S).close()
            return url
    raise UnavailableError("no server runs on this store: start one with `engram serve`")


def _read(path: Path) -> str:
    """Return the content of the file, which is empty if there is none."""
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(_ADDRESS_BYTES_MAX)
    except (OSError, UnicodeDecodeError):
        return ""
