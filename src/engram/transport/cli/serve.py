"""`engram serve`: HTTP for MCP and REST clients, on one port."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from engram.errors import ConfigurationError
from engram.storage.private import FIRST_KEY
from engram.transport.cli.clients import STDIO, client_configuration, server_url
from engram.transport.cli.degraded import explain_degraded
from engram.transport.cli.invocation import Invocation
from engram.transport.cli.options import shared_options
from engram.transport.cli.visible import visible, visible_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engram.model.access import NewKey
    from engram.service import Service

_MODE = 0o600


EXAMPLES = """\b
Examples:
  engram serve
  engram serve --port 9000 --home /srv/engram
  ENGRAM_ADMIN_TOKEN=… engram serve --workers 4
  engram serve --host 0.0.0.0 --allowed-hosts memory.example.org
\b
The first start makes an API key and shows it once, with the configuration of
Claude Code, Codex, Gemini CLI and curl. Without a terminal the key is written
to the file first-key in ENGRAM_HOME, which only its owner may read. Flags win
over ENGRAM_… variables, and those over engram.toml in the store's directory.
"""

Host = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Address to bind. [default: 127.0.0.1]")
]
Port = Annotated[int | None, typer.Option(min=0, max=65_535, help="Port to bind. [default: 8788]")]
Workers = Annotated[int | None, typer.Option(min=1, max=64, help="Processes. [default: 1]")]
AllowedHosts = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="Host names, comma-separated, accepted beside loopback."),
]
RateLimit = Annotated[
    float | None, typer.Option(min=0, help="Requests a second for each key; 0 is without limit.")
]
Toolsets = Annotated[
    str | None, typer.Option(metavar="NAMES", help="MCP toolsets shown to clients.")
]
Log = Annotated[
    str | None, typer.Option(metavar="LEVEL", help="debug, info, warning or error. [default: info]")
]


class Started(TypedDict):
    """Where the server listens, and its first key when it was just made.

    Without a terminal there is the file of the key instead, for as long as it is kept.
    """

    url: str
    mcp_url: str
    home: str
    api_key: str | None
    api_key_file: str | None
    degraded: list[str]


@shared_options
def serve(
    invocation: Invocation,
    *,
    host: Host = None,
    port: Port = None,
    workers: Workers = None,
    allowed_hosts: AllowedHosts = None,
    rate_limit: RateLimit = None,
    toolsets: Toolsets = None,
    log: Log = None,
) -> None:
    """Serve MCP at /mcp and REST at /api/v1 until interrupted."""
    from engram.transport.logs import configure_logging
    from engram.transport.server import listen, run

    settings = invocation.settings(
        host=host,
        port=port,
        workers=workers,
        allowed_hosts=allowed_hosts,
        rate_limit=rate_limit,
        toolsets=toolsets,
        log="debug" if invocation.debug else log,
    )
    configure_logging(settings)
    # Bound before the key is made: a key shown by a server that cannot start helps nobody.
    with listen(settings) as listener:
        url = server_url(settings.host, listener.getsockname()[1])
        key, degraded = invocation.run(_prepare)
        shown, file = _hand_over(key, settings.home)
        started = Started(
            url=url,
            mcp_url=f"{url}/mcp",
            home=settings.store_place,
            api_key=shown,
            api_key_file=file,
            degraded=list(degraded),
        )
        warn_of_plain_http(listener.getsockname()[0])
        invocation.show(started, lambda: _print_start(started))
        sys.stdout.flush()
        run(settings, listener)


def warn_of_plain_http(address: str) -> None:
    """Tell who binds a public address that keys and memories cross the network unencrypted."""
    from engram.transport.cli.output import notice

    if not ip_address(address.partition("%")[0]).is_loopback:
        notice(
            f"Warning: {address} can be reached from other machines, and Engram speaks HTTP without "
            "TLS: keys and memories can be read on the way. Bind 127.0.0.1 and put a proxy with TLS "
            "in front; docs/proxy has files for nginx and Caddy."
        )


async def _prepare(service: Service) -> tuple[NewKey | None, Sequence[str]]:
    """Return the first key if it is new, and what search has to do without."""
    service.access.load_operators()
    await service.operator.probe_embedders()
    return await service.access.first_key(), service.operator.degraded


def _hand_over(key: NewKey | None, home: Path) -> tuple[str | None, str | None]:
    """Return the first key where it may be shown, else the file it is in."""
    if key is None:
        kept = kept_key(home)
        return None, kept and str(kept)
    if is_watched():
        return key.secret, None
    return None, str(keep_key(home, key.secret))


def _print_start(started: Started) -> None:
    from engram import __version__
    from engram.transport.cli.output import paint, say

    say(paint(f"Engram {__version__} listens on {started['url']}", bold=True))
    say(f"The store is in {visible_line(started['home'])}")
    for name in started["degraded"]:
        say(explain_degraded(name))
    say()
    key, file = started["api_key"], started["api_key_file"]
    if key is not None:
        say(f"Your API key, shown this once: {paint(key, fg='green', bold=True)}")
        say()
        say(client_configuration(started["url"], key))
    elif file is not None:
        say(f"Your API key is in {visible_line(file)}; remove the file when you have it.")
        say()
        say(visible(client_configuration(started["url"], as_shell_text(Path(file)))))
    else:
        say("The key was shown at the first start; `engram keys create NAME` makes another.")
        say(f"Without the server and without a key: {STDIO}")
    say()


def is_watched() -> bool:
    """Return True if somebody reads stdout on a terminal."""
    return sys.stdout.isatty()


def kept_key(home: Path) -> Path | None:
    """Return the file of a first key that is still there."""
    path = home / FIRST_KEY
    return path if path.exists() else None


def keep_key(home: Path, secret: str) -> Path:
    """Write a key to a file that only its owner may read, and return where that is.

    Raises:
        ConfigurationError: it cannot be written; the remedy is named.
    """
    path = home / FIRST_KEY
    # Under another name first: a link that waits at the place of the file is replaced, not followed.
    draft = path.with_name(f"{FIRST_KEY}.{secrets.token_hex(8)}")
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(secret + "\n")
        draft.replace(path)
    except OSError as exc:
        draft.unlink(missing_ok=True)
        remedy = "mend that, and make a key with `engram keys create NAME`"
        raise ConfigurationError(
            "ENGRAM_HOME",
            f"the first API key cannot be written to {path}: {exc.strerror}; {remedy}",
        ) from exc
    return path


def as_shell_text(path: Path) -> str:
    """Return what a shell replaces by the key in `path`, inside double quotes and outside."""
    return f"$(cat {shlex.quote(str(path))})"
