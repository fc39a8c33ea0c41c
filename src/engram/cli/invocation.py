"""One run of a command: shared options, access to the service, and error reporting."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from engram import errors
from engram.cli.terminal import DeclinedError, stderr, stdout

if TYPE_CHECKING:
    import socket

    from engram.engine.commands import CommandCall
    from engram.engine.server import Host
    from engram.model.access import Principal
    from engram.service import Service
    from engram.settings import Settings


T = TypeVar("T")

_HOST: ContextVar[tuple[Host, CommandCall] | None] = ContextVar("host", default=None)
"""The engine that runs this command, and what its client asked; None in the client's own process."""


@contextmanager
def hosted_by(host: Host, call: CommandCall) -> Generator[None]:
    """Let the commands of the block use the engine that runs them."""
    token = _HOST.set((host, call))
    try:
        yield
    finally:
        _HOST.reset(token)


class Invocation:
    """The shared options of one command, and the settings and service they select."""

    def __init__(
        self, *, home: Path | None = None, as_json: bool = False, debug: bool = False
    ) -> None:
        self.home = home
        self.store_place = home and str(home)
        """Location of the store, safe to display; None until the settings are loaded."""
        self.as_json = as_json
        self.debug = debug
        self._settings: Settings | None = None

    def settings(self, **flags: Any) -> Settings:
        """Load the effective settings; flags that are None are ignored."""
        self._settings = settings = self._load(flags)
        self.home = settings.home
        self.store_place = settings.store_place
        self.debug = self.debug or settings.log == "debug"
        return settings

    def _load(self, flags: dict[str, Any]) -> Settings:
        if hosted := _HOST.get():
            return _client_settings(*hosted, home=self.home)
        from engram.settings import load_settings

        return load_settings({"home": self.home, **flags})

    def loaded(self) -> Settings:
        """Return the effective settings, loaded once."""
        return self._settings or self.settings()

    def server(self) -> Settings | None:
        """Return the settings if they name a server, which then has the store; else None."""
        settings = self.loaded()
        if settings.url is None:
            return None
        from engram.settings import without_credentials

        self.store_place = without_credentials(settings.url)
        return settings

    def announce_write(self) -> None:
        """Notify the waiting client that this command is about to write: it must not retry."""
        if hosted := _HOST.get():
            hosted[0].announce_write()

    def find_engine(self, operation: str) -> socket.socket | None:
        """Return a connection to the running engine of the store that expects the operation's fields."""
        from engram.engine.address import address_of, has_engine
        from engram.engine.launch import find_engine

        settings = self.loaded()
        if _HOST.get() or not has_engine(settings):
            return None
        try:
            return find_engine(address_of(settings), {"operation": operation})
        except errors.ConfigurationError:
            return None  # Without a place for a socket no engine runs.

    def run(
        self,
        work: Callable[[Service], Awaitable[T]],
        *,
        settings: Settings | None = None,
        accept: bool = False,
    ) -> T:
        """Run `work` with a service on the configured store, or on that of `settings`.

        With `accept` files that are not those that were written are taken as they are.
        """
        import asyncio

        from engram.logs import log_to_stderr
        from engram.wiring import open_service

        chosen = settings or self.loaded()
        if settings is None and chosen.url is not None:
            raise errors.ConfigurationError("ENGRAM_URL", LOCAL_ONLY)
        if hosted := _HOST.get():
            return hosted[0].run(work)
        log_to_stderr("debug" if self.debug else "warning")

        async def opened() -> T:
            async with open_service(chosen, accept=accept) as service:
                return await work(service)

        return asyncio.run(opened())

    def run_local(self, work: Callable[[Service, Principal], Awaitable[T]]) -> T:
        """Run `work` as the owner of the local store."""

        async def owned(service: Service) -> T:
            return await work(service, await service.access.local_principal())

        return self.run(owned)

    def show(self, answer: object, as_text: Callable[[], None]) -> None:
        """Print `answer` as JSON with `--json`, else with `as_text`."""
        if self.as_json:
            from engram.cli.output import show_json

            show_json(answer)
        else:
            as_text()

    @contextmanager
    def reporting(self) -> Generator[None]:
        """Print an error raised in the block as one line on stderr and exit with its status."""
        try:
            yield
        except errors.EngramError as exc:
            raise fail(exc, store=self.store_place, debug=self.debug, as_json=self.as_json) from exc


def _client_settings(host: Host, call: CommandCall, *, home: Path | None) -> Settings:
    """Return the settings of a client: the engine's, but with the directory as the client names it.

    Raises:
        DeclinedError: the client read another directory from its arguments than the parser did.
    """
    from engram.model.value import replace

    if home != (None if call.home is None else Path(call.home)):
        raise DeclinedError("it is for another store")
    return replace(host.settings, home=Path(call.place), log="warning", url=None)


def wants_json(arguments: Sequence[str]) -> bool:
    """Return True if a command is asked for JSON, even if it cannot be parsed."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options


@contextmanager
def reporting(arguments: Sequence[str]) -> Generator[None]:
    """Report an error that is raised before a command is parsed."""
    try:
        yield
    except errors.EngramError as exc:
        raise fail(exc, store=None, debug=False, as_json=wants_json(arguments)) from exc


LOCAL_ONLY = (
    "is set, and this command works on a local store only: run it on the server's machine, or unset "
    "ENGRAM_URL"
)

FAILED = 1
"""Exit status: the command failed, or found problems."""

USAGE_ERROR = 2
"""Exit status: the caller can fix it, such as an option, a value, a name or a setting."""

USAGE_ERRORS: tuple[type[errors.EngramError], ...] = (
    errors.AccessDeniedError,
    errors.ConfigurationError,
    errors.ConflictError,
    errors.InvalidRequestError,
    errors.NotFoundError,
    errors.UnauthenticatedError,
)

_LISTINGS = {
    "conversation": "engram conversations list",
    "memory": "engram memories list",
    "document": "engram documents list",
    "organization": "engram orgs list",
    "key": "engram keys list",
    "model": "engram models list",
}


def exit_status(error: errors.EngramError) -> int:
    """Return the exit status for `error`."""
    return USAGE_ERROR if isinstance(error, USAGE_ERRORS) else FAILED


def describe(error: errors.EngramError, *, store: str | None = None) -> str:
    """Return an error as one line: its code, its message, and a remedy if there is one."""
    from engram.text.quoting import PLAIN

    line = f"error: {error.code}: {error}"
    if remedy := remedy_of(error):
        line = f"{line.removesuffix('.')}; {remedy}"
    details = [f"{name}: {text}" for name, text in _place_of(error, store).items()]
    line += f" ({', '.join(details)})" if details else ""
    return PLAIN.label(line)


def remedy_of(error: errors.EngramError) -> str | None:
    """Return what to do about an error, if its message does not say so."""
    if isinstance(error, errors.NotFoundError) and error.kind in _LISTINGS:
        return f"`{_LISTINGS[error.kind]}` lists the existing ones"
    if type(error) is errors.StorageError and isinstance(error.__cause__, OSError):
        return "choose a directory that you may write to with --home or ENGRAM_HOME"
    if isinstance(error, errors.UnauthenticatedError):
        return "set ENGRAM_API_KEY to a key of the server"
    return None


def _place_of(error: errors.EngramError, store: str | None) -> dict[str, str]:
    """Return where a store failed and why; other transports hide it, but here the owner reads."""
    if not isinstance(error, errors.StorageError):
        return {}
    known = {"store": store, "cause": error.__cause__ and str(error.__cause__)}
    return {name: text for name, text in known.items() if text}


def fail(
    error: errors.EngramError, *, store: str | None, debug: bool, as_json: bool = False
) -> SystemExit:
    """Print `error` to stderr and return the SystemExit that ends the command."""
    if debug:
        traceback.print_exception(error, file=stderr())
    if as_json:
        from engram.api.encoding import error_details

        extra = {"remedy": remedy_of(error), **_place_of(error, store)}
        known = {name: text for name, text in extra.items() if text}
        print_failure(error.code, error.message, {**error_details(error), **known})
    else:
        _print_error(describe(error, store=store))
    return SystemExit(exit_status(error))


def print_failure(code: str, message: str, details: Mapping[str, Any]) -> None:
    """Print an error as one line of JSON to stderr, as every command does with `--json`."""
    from engram.api.encoding import answer_text

    _print_error(answer_text({"error": {"code": code, "message": message, **details}}))


def _print_error(line: str) -> None:
    stdout().flush()
    print(line, file=stderr())
