"""One run of a command: the options every command shares, and what follows from them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from engram.errors import EngramError

if TYPE_CHECKING:
    from engram.model.access import Principal
    from engram.service import Service
    from engram.settings import Settings

T = TypeVar("T")


class Invocation:
    """The shared options of one command, and the settings and service they lead to."""

    def __init__(
        self, *, home: Path | None = None, as_json: bool = False, debug: bool = False
    ) -> None:
        self.home = home
        self.store_place = home and str(home)
        """Where the store is, as it may be shown; None before the settings are known."""
        self.as_json = as_json
        self.debug = debug
        self._settings: Settings | None = None

    def settings(self, **flags: Any) -> Settings:
        """Return the settings in force; flags that are None were not given."""
        from engram.settings import load_settings

        self._settings = settings = load_settings({"home": self.home, **flags})
        self.home = settings.home
        self.store_place = settings.store_place
        self.debug = self.debug or settings.log == "debug"
        return settings

    def run(
        self, work: Callable[[Service], Awaitable[T]], *, settings: Settings | None = None
    ) -> T:
        """Return what `work` does with the service on the local store, or on that of `settings`."""
        import asyncio

        from engram.transport.cli.logs import log_to_stderr
        from engram.wiring import open_service

        chosen = settings or self._settings or self.settings()
        log_to_stderr("debug" if self.debug else "warning")

        async def opened() -> T:
            async with open_service(chosen) as service:
                return await work(service)

        return asyncio.run(opened())

    def run_local(self, work: Callable[[Service, Principal], Awaitable[T]]) -> T:
        """Return what `work` does as the owner of the local store."""

        async def owned(service: Service) -> T:
            return await work(service, await service.access.local_principal())

        return self.run(owned)

    def show(self, answer: object, as_text: Callable[[], None]) -> None:
        """Print `answer` as JSON when that was asked for, else through `as_text`."""
        if self.as_json:
            from engram.transport.cli.output import show_json

            show_json(answer)
        else:
            as_text()

    @contextmanager
    def reporting(self) -> Generator[None]:
        """Tell an error of the block in one line on stderr and exit with its status."""
        try:
            yield
        except EngramError as exc:
            from engram.transport.cli.failures import fail

            raise fail(exc, store=self.store_place, debug=self.debug) from exc
