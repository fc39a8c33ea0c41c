"""One run of a command: shared options, access to the service, and error reporting."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from engram.errors import (
    AccessDeniedError,
    ConfigurationError,
    ConflictError,
    EngramError,
    InvalidRequestError,
    NotFoundError,
    StorageError,
    UnauthenticatedError,
)

if TYPE_CHECKING:
    from engram.model.access import Principal
    from engram.service import Service
    from engram.settings import Settings


T = TypeVar("T")


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
        from engram.settings import load_settings

        self._settings = settings = load_settings({"home": self.home, **flags})
        self.home = settings.home
        self.store_place = settings.store_place
        self.debug = self.debug or settings.log == "debug"
        return settings

    def run(
        self, work: Callable[[Service], Awaitable[T]], *, settings: Settings | None = None
    ) -> T:
        """Run `work` with a service on the configured store, or on that of `settings`."""
        import asyncio

        from engram.logs import log_to_stderr
        from engram.wiring import open_service

        chosen = settings or self._settings or self.settings()
        log_to_stderr("debug" if self.debug else "warning")

        async def opened() -> T:
            async with open_service(chosen) as service:
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
        except EngramError as exc:
            raise fail(exc, store=self.store_place, debug=self.debug) from exc


FAILED = 1
"""Exit status: the command failed, or found problems."""

USAGE_ERROR = 2
"""Exit status: the caller can fix it, such as an option, a value, a name or a setting."""

USAGE_ERRORS: tuple[type[EngramError], ...] = (
    AccessDeniedError,
    ConfigurationError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    UnauthenticatedError,
)

_LISTINGS = {
    "conversation": "engram conversations list",
    "memory": "engram memories list",
    "document": "engram documents list",
    "organization": "engram orgs list",
    "key": "engram keys list",
    "model": "engram models list",
}


def exit_status(error: EngramError) -> int:
    """Return the exit status for `error`."""
    return USAGE_ERROR if isinstance(error, USAGE_ERRORS) else FAILED


def describe(error: EngramError, *, store: str | None = None) -> str:
    """Return an error as one line: its code, its message, and a remedy if there is one."""
    from engram.text.escaping import PLAIN

    line = f"error: {error.code}: {error}"
    if isinstance(error, NotFoundError) and error.kind in _LISTINGS:
        line += f"; `{_LISTINGS[error.kind]}` lists the existing ones"
    if isinstance(error, StorageError):
        # Other transports hide the cause; the reader here owns the store.
        facts = [f"store: {store}"] if store else []
        facts += [f"cause: {error.__cause__}"] if error.__cause__ else []
        line += f" ({', '.join(facts)})" if facts else ""
    return PLAIN.label(line)


def fail(error: EngramError, *, store: str | None, debug: bool) -> SystemExit:
    """Print `error` to stderr and return the SystemExit that ends the command."""
    if debug:
        traceback.print_exception(error)
    print(describe(error, store=store), file=sys.stderr)
    return SystemExit(exit_status(error))
