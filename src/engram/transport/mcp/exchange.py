"""What the HTTP request that carried a message keeps of it for the handler of the message."""

from __future__ import annotations

import anyio
from starlette.requests import Request
from starlette.types import Scope

from engram.transport.bodies.texts import Texts

_TEXTS = "engram.texts"
_FINISHED = "engram.finished"


def with_texts(scope: Scope, texts: Texts) -> Scope:
    """Return a request's scope with the long texts that were taken out of its message."""
    return {**scope, _TEXTS: texts}


def texts_of(request: Request | None) -> Texts:
    """Return the long texts that were taken out of a message."""
    return {} if request is None else request.scope.get(_TEXTS, {})


def with_finish(scope: Scope) -> tuple[Scope, anyio.Event]:
    """Return a request's scope, and an event that happens when the call in its message is over."""
    finished = anyio.Event()
    return {**scope, _FINISHED: finished}, finished


def finish(request: Request | None) -> None:
    """Tell whoever waits that a call is over."""
    finished = None if request is None else request.scope.get(_FINISHED)
    if finished is not None:
        finished.set()
