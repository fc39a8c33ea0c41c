"""Reading and adding headers of ASGI messages without building objects for them."""

from __future__ import annotations

from starlette.types import Scope

REQUEST_ID = b"x-request-id"
ANSWER_HEADERS = "engram.headers"
"""Where in a request's scope the headers collect that its answer will carry, whoever writes it."""


def header(scope: Scope, name: bytes) -> str | None:
    """Return a request's header; None when it is missing or given more than once."""
    values = [value for key, value in scope["headers"] if key == name]
    return values[0].decode("latin-1") if len(values) == 1 else None


def has_header(scope: Scope, name: bytes) -> bool:
    """Return True if a request has the header at all."""
    return any(key == name for key, _ in scope["headers"])


def bearer_token(scope: Scope) -> str | None:
    """Return the token of `Authorization: Bearer …`, None when there is none."""
    scheme, _, token = (header(scope, b"authorization") or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def request_id(scope: Scope) -> str:
    """Return the id that the answer to this request will carry."""
    return next(value.decode() for name, value in scope[ANSWER_HEADERS] if name == REQUEST_ID)


def add_header(scope: Scope, name: str, value: str) -> None:
    """Let the answer to this request carry a header."""
    scope[ANSWER_HEADERS].append((name.lower().encode("latin-1"), value.encode("latin-1")))
