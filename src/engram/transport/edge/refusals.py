"""Answers that the server gives before a request reaches the application, as bytes."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from engram.transport.edge.bounds import EdgeBounds
from engram.transport.rest.problems import (
    MEDIA_TYPE,
    RETRY_AFTER_S,
    Problem,
    phrase_of,
)


class Refusals:
    """The refusals of one server; each names its bound."""

    def __init__(self, bounds: EdgeBounds) -> None:
        self.bad_http = _answer(400, "invalid_http", "this is not a valid HTTP/1.1 request")
        self.too_much_framing = _answer(
            400, "invalid_http", "the chunks of the body carry more framing than content"
        )
        self.head_too_large = _answer(
            431,
            "headers_too_large",
            f"request line and headers may have at most {bounds.header_bytes_max:,} bytes "
            f"and {bounds.headers_max} fields",
        )
        self.slow_head = _answer(
            408, "request_timeout", f"the headers did not arrive within {bounds.header_s:g} seconds"
        )
        self.slow_body = _answer(
            408,
            "request_timeout",
            f"the body arrived with less than {bounds.transfer_bytes_per_s_min:,} bytes a second "
            f"for {bounds.transfer_window_s:g} seconds",
        )
        self.too_many_connections = _answer(
            503,
            "too_many_connections",
            f"the server has {bounds.connections_max:,} connections at work, "
            f"or {bounds.connections_per_address_max:,} from this address",
            {"Retry-After": str(RETRY_AFTER_S)},
        )


def _answer(status: int, code: str, detail: str, headers: Mapping[str, str] | None = None) -> bytes:
    problem = Problem(status=status, code=code, title=phrase_of(status), detail=detail)
    body = orjson.dumps(problem.view())
    fields = {
        "content-type": MEDIA_TYPE,
        "content-length": str(len(body)),
        "connection": "close",
        **(headers or {}),
    }
    lines = [f"HTTP/1.1 {status} {problem.title}", *(f"{k}: {v}" for k, v in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body
