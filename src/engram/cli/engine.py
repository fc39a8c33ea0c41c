"""`engram engine`: the local process that all clients of a store share."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engram.cli.invocation import FAILED, Invocation
from engram.cli.options import shared_options
from engram.cli.output import print_line, visible
from engram.cli.stdio import run_for_client

if TYPE_CHECKING:
    from engram.engine.address import Address


@shared_options
def run(invocation: Invocation) -> None:
    """Run the engine in the foreground until its last client has been gone a while.

    Examples:
      engram engine run
      ENGRAM_ENGINE_IDLE=3600 engram engine run --debug

    Clients start it by themselves; it stays for ENGRAM_ENGINE_IDLE seconds.
    """
    from engram.engine.server import run_engine
    from engram.logs import configure_logging

    settings = invocation.settings(log="debug" if invocation.debug else None)
    configure_logging(settings)
    try:
        run_engine(settings, run_for_client)
    except TimeoutError:
        print("another engine serves this store", file=sys.stderr)


@shared_options
def status(invocation: Invocation) -> None:
    """Show the engines of the store that run, for whom and since when.

    Examples:
      engram engine status
      engram engine status --json

    There is one for each set of settings that clients use.
    """
    found = [introduction for _, introduction in _running(invocation)]
    invocation.show({"engines": found}, lambda: _print_status(found))


@shared_options
def stop(invocation: Invocation) -> None:
    """Stop the engines after the calls they have in work; clients start new ones.

    Examples:
      engram engine stop

    A server that is the engine of its store is not stopped.
    """
    from engram.engine.launch import stop_engine

    running = _running(invocation)
    servers = [found["pid"] for _, found in running if found.get("server")]
    engines = [(address, found) for address, found in running if not found.get("server")]
    for address, found in engines:
        if not stop_engine(address, found["pid"]):
            print(f"error: the engine (process {found['pid']}) did not stop", file=sys.stderr)
            raise typer.Exit(FAILED)
    lines = [f"Stopped {len(engines)}." if engines else "No engine is running."]
    lines += [f"Process {pid} is `engram serve`: stop it where it was started." for pid in servers]
    answer = {"stopped": len(engines), "servers": servers}
    invocation.show(answer, lambda: print_line("\n".join(lines)))


Lines = Annotated[int, typer.Option("--lines", "-n", min=1, max=10_000, help="Last lines to show.")]


@shared_options
def logs(invocation: Invocation, *, lines: Lines = 50) -> None:
    """Show the last lines of the engine's log.

    Examples:
      engram engine logs
      engram engine logs -n 500
    """
    path = _address(invocation).log
    text = path.read_text(errors="replace") if path.exists() else ""
    last = text.splitlines()[-lines:]
    invocation.show({"log": str(path), "lines": last}, lambda: print_line(visible("\n".join(last))))


def _address(invocation: Invocation) -> Address:
    from engram.engine.address import address_of

    return address_of(invocation.settings())


def _running(invocation: Invocation) -> list[tuple[Address, dict[str, Any]]]:
    """Return the engines that answer, each with its introduction."""
    from engram.engine.address import addresses_beside
    from engram.engine.launch import ask_engine

    found = ((each, ask_engine(each)) for each in addresses_beside(_address(invocation)))
    return [(address, said) for address, said in found if said is not None]


def _print_status(engines: list[dict[str, Any]]) -> None:
    if not engines:
        print_line("No engine is running; the next client starts one.")
    for engine in engines:
        print_line(
            f"The {'server' if engine.get('server') else 'engine'} {engine['version']} runs as process {engine['pid']} "
            f"for {engine['seconds']:,} seconds, with {engine['clients']} clients connected."
        )
