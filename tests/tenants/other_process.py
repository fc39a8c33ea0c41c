"""A service in a process of its own, called like one of this process."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import reduce
from multiprocessing.connection import Connection
from typing import Any, cast

from engram.clock import RandomIds
from engram.errors import EngramError
from engram.service import Service
from engram.settings import Settings
from engram.wiring import open_service
from tests.fakes import FakeClock


class OtherProcess:
    """The process; it opens one store after the other."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def open(self, settings: Settings) -> Service:
        """Open the store of the settings and return what stands for the service on it."""
        self._ask("open", settings)
        return cast("Service", _Remote(self))

    def advance(self, step: timedelta) -> None:
        """Move the process's clock."""
        self._ask("advance", step)

    def close_store(self) -> None:
        """Close the store that is open."""
        self._ask("close")

    def end(self) -> None:
        """Let the process end."""
        self._connection.close()
        self._process.join(10)

    def call(self, path: str, *args: object, **named: object) -> Any:
        """Return what a method of the service returns over there, or raise its kind of error."""
        return self._ask("call", path, args, named)

    def _ask(self, *request: object) -> Any:
        self._connection.send(request)
        error, value = self._connection.recv()
        if error is not None:
            raise error.__new__(error)
        return value


class _Remote:
    """A name of the service, such as `conversations.append_messages`."""

    def __init__(self, process: OtherProcess, path: str = "") -> None:
        self._process = process
        self._path = path

    def __getattr__(self, name: str) -> _Remote:
        return _Remote(self._process, f"{self._path}.{name}".lstrip("."))

    def __call__(self, *args: object, **named: object) -> Coroutine[None, None, Any]:
        async def later() -> Any:
            return self._process.call(self._path, *args, **named)

        return later()


def _serve(connection: Connection) -> None:
    """Answer requests until the other end is closed."""
    with asyncio.Runner() as runner:
        house = _House()
        while True:
            try:
                name, *given = connection.recv()
            except EOFError:
                return
            try:
                answer = None, runner.run(getattr(house, name)(*given))
            except EngramError as exc:
                answer = type(exc), None
            connection.send(answer)


class _House:
    """The store that is open, and its clock."""

    async def open(self, settings: Settings) -> None:
        self.clock = FakeClock()
        self.stack = AsyncExitStack()
        service = open_service(settings, clock=self.clock, ids=RandomIds())
        self.service = await self.stack.enter_async_context(service)

    async def advance(self, step: timedelta) -> None:
        self.clock.advance(step)

    async def close(self) -> None:
        await self.stack.aclose()

    async def call(self, path: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        method: Any = reduce(getattr, path.split("."), self.service)
        return await method(*args, **named)
