"""`engram serve` and `engram mcp`: the servers."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from engram.cli.clients import command_line
from engram.cli.invocation import Invocation
from engram.cli.opening import announced_url, link_url
from engram.cli.options import shared_options
from engram.cli.output import (
    explain_degraded,
    print_line,
    print_notice,
    styled,
    visible,
    visible_line,
)
from engram.cli.sources import offer_imports
from engram.cli.stdio import run_for_client, run_mcp
from engram.errors import ConfigurationError
from engram.storage.private import FIRST_KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engram.http.asgi import Application
    from engram.model.access import NewKey
    from engram.service import Service
    from engram.settings import Settings


_MODE = 0o600


Host = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Address to bind. [default: 127.0.0.1]")
]
Port = Annotated[int | None, typer.Option(min=0, max=65_535, help="Port to bind. [default: 8788]")]
Workers = Annotated[
    int | None, typer.Option(min=1, max=64, help="Number of processes. [default: 1]")
]
AllowedHosts = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="Comma-separated host names to accept besides loopback."),
]
RateLimit = Annotated[
    float | None, typer.Option(min=0, help="Requests per second for each key; 0 means no limit.")
]
Toolsets = Annotated[
    str | None, typer.Option(metavar="NAMES", help="Comma-separated MCP toolsets to offer.")
]
Log = Annotated[
    str | None,
    typer.Option(metavar="LEVEL", help="Log level: debug, info, warning or error. [default: info]"),
]


class Started(TypedDict):
    """The server's URLs, and its first API key if it was just created.

    If stdout is not a terminal, `api_key_file` names the file with the key instead, until it is removed.
    `connect` is the command that connects the clients of this machine.
    """

    url: str
    mcp_url: str
    home: str
    api_key: str | None
    api_key_file: str | None
    connect: str
    page_url: str | None
    """A link that opens the page once; on a terminal only, because a log is read by others."""
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
    """Serve the page at /, MCP at /mcp and REST at /api/v1 until interrupted.

    Examples:
      engram serve
      engram serve --port 9000 --home /srv/engram
      ENGRAM_ADMIN_TOKEN=… engram serve --workers 4
      engram serve --host 0.0.0.0 --allowed-hosts memory.example.org

    Every start prints the command that connects the clients of this machine. The
    first one creates an API key and shows it once. If stdout is not a terminal,
    the key is written to the file first-key in ENGRAM_HOME, which only its owner
    may read. Flags override ENGRAM_… variables, which override engram.toml in the
    store's directory.
    """
    from engram.http.server import listen, run
    from engram.logs import configure_logging

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
    # Bind before the key is created: the key of a server that cannot start would be lost.
    with listen(settings) as listener:
        url = server_url(settings.host, listener.getsockname()[1])
        key, link, degraded = invocation.run(_prepare, settings=settings)
        shown, file = _deliver_key(key, settings.home)
        started = Started(
            url=url,
            mcp_url=f"{url}/mcp",
            home=settings.store_place,
            api_key=shown,
            api_key_file=file,
            connect=_connect_line(settings, url),
            page_url=link_url(url, link) if link else None,
            degraded=list(degraded),
        )
        warn_about_plain_http(listener.getsockname()[0])
        # Programs that read a log of JSON records expect nothing else on stderr.
        is_for_people = settings.log_format == "plain"
        # `engram open` finds the server as soon as its start has been shown.
        with announced_url(settings.home, url):
            invocation.show(started, lambda: _print_start(started, settings))
            sys.stdout.flush()
            if key is not None and is_for_people:
                offer_imports()
            run(
                settings,
                listener,
                run_command=run_for_client,
                worker="engram.cli.serve:create_worker",
            )
    if is_for_people:
        print_notice("stopped")


def create_worker() -> Application:
    """Return the application of one of several server processes."""
    from engram.http.asgi import create_app_from_environment

    return create_app_from_environment(run_for_client)


def warn_about_plain_http(address: str) -> None:
    """Warn on a public address that keys and memories cross the network unencrypted."""

    if not ip_address(address.partition("%")[0]).is_loopback:
        print_notice(
            f"Warning: {address} can be reached from other machines, and Engram speaks HTTP without "
            "TLS, so keys and memories can be read in transit. Bind to 127.0.0.1 behind a proxy with "
            "TLS; docs/proxy has configurations for nginx and Caddy."
        )


async def _prepare(service: Service) -> tuple[NewKey | None, str | None, Sequence[str]]:
    """Return the first key if it was just created, a link to the page, and how search is degraded."""
    service.access.load_operators()
    await service.operator.probe_embedders()
    key = await service.access.first_key()
    link = await service.sessions.create_link() if is_terminal() else None
    return key, link, service.operator.degraded


def _deliver_key(key: NewKey | None, home: Path) -> tuple[str | None, str | None]:
    """Return the key to show on a terminal, or the path of the file it was written to."""
    if key is None:
        kept = existing_key_file(home)
        return None, kept and str(kept)
    if is_terminal():
        return key.secret, None
    return None, str(write_key_file(home, key.secret))


def _print_start(started: Started, settings: Settings) -> None:
    from engram import __version__

    print_line(styled(f"Engram {__version__} is listening on {started['url']}", bold=True))
    print_line(f"The store is in {visible_line(started['home'])}")
    for name in started["degraded"]:
        print_line(explain_degraded(name))
    print_line()
    if started["page_url"] is not None:
        print_line("Open the page; the link works once, and `engram open` prints another")
        print_line(f"  {styled(started['page_url'], fg='green')}")
        print_line()
    key, file = started["api_key"], started["api_key_file"]
    if key is not None:
        print_line(f"Your API key, shown only once: {styled(key, fg='green', bold=True)}")
    elif file is not None:
        print_line(
            f"Your API key is in {visible_line(file)}; delete the file once you have copied it."
        )
    else:
        print_line(
            "The API key was shown at the first start; `engram keys create NAME` creates another and "
            "prints how clients use it."
        )
    print_line()
    if shown := key or (file and as_shell_text(Path(file))):
        print_line(visible(_with_key(settings, started["url"], shown)))
        print_line()
    print_line(CONNECT_HEADING)
    print_line(f"  {visible_line(started['connect'])}")
    print_line()


CONNECT_HEADING = "Connect the clients of this machine"


def _connect_line(settings: Settings, url: str) -> str:
    """Return the command that connects clients without a key: over stdio if the store allows it."""
    from engram.settings import lasting_variables

    try:
        lasting_variables(settings)
    except ConfigurationError:
        return f"{command_line(settings, 'connect', '--all')} --url {shlex.quote(url)}"
    return command_line(settings, "connect", "--all")


def _with_key(settings: Settings, url: str, key: str) -> str:
    """Return what uses the key, ready to paste; `key` is text for a shell, inside double quotes."""
    connect = command_line(settings, "connect", "--all")
    return f"""\
Connect the clients of this machine over HTTP, with the key
  {connect} --url {shlex.quote(url)} --key "{key}"

Search with curl
  curl {shlex.quote(f"{url}/api/v1/search")} -H "Authorization: Bearer {key}" \\
    -H "Content-Type: application/json" -d '{{"query": "what did we decide?"}}'"""


def is_terminal() -> bool:
    """Return True if stdout is a terminal."""
    return sys.stdout.isatty()


def existing_key_file(home: Path) -> Path | None:
    """Return the file of the first key, or None if it was removed."""
    path = home / FIRST_KEY
    return path if path.exists() else None


def write_key_file(home: Path, secret: str) -> Path:
    """Write the first key to a file that only its owner may read, and return its path.

    Raises:
        ConfigurationError: the file cannot be written; the message names the remedy.
    """
    path = home / FIRST_KEY
    # Renaming a new file replaces a symbolic link planted at `path` instead of following it.
    draft = path.with_name(f"{FIRST_KEY}.{secrets.token_hex(8)}")
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(secret + "\n")
        draft.replace(path)
    except OSError as exc:
        draft.unlink(missing_ok=True)
        remedy = "make it writable, then create a key with `engram keys create NAME`"
        raise ConfigurationError(
            "ENGRAM_HOME",
            f"the first API key cannot be written to {path}: {exc.strerror}; {remedy}",
        ) from exc
    return path


def as_shell_text(path: Path) -> str:
    """Return a shell substitution for the content of `path`, for inside double quotes."""
    return f"$(cat {shlex.quote(str(path))})"


def server_url(host: str, port: int) -> str:
    """Return the URL at which a client on this machine reaches a server bound to `host`."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 compared, not bound
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


ShownToolsets = Annotated[
    str | None, typer.Option(metavar="NAMES", help="Comma-separated toolsets to offer.")
]
Url = Annotated[
    str | None, typer.Option(metavar="URL", help="Server to relay to. [env: ENGRAM_URL]")
]


@shared_options
def mcp(invocation: Invocation, *, toolsets: ShownToolsets = None, url: Url = None) -> None:
    """Serve MCP over stdin and stdout; started by MCP clients.

    Examples:
      engram connect claude-code           lets Claude Code start this
      engram mcp --toolsets conversations
      ENGRAM_API_KEY=… engram mcp --url https://memory.example.org

    Without a URL it opens the local store and needs no key. Any number of these
    processes can run at once, alongside `engram serve`.
    """
    run_mcp(invocation, toolsets=toolsets, url=url)
