"""Forms that browsers post: read within a bound, and only from the page itself."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.types import Receive, Scope

from engram.bodies.receiving import bodies_of
from engram.errors import CrossSiteError
from engram.page.visit import read_fields


def check_same_site(scope: Scope) -> None:
    """Refuse a form that another site sent: cookies go with it wherever it comes from.

    Raises:
        CrossSiteError: its origin is missing, or not this server.
    """
    headers: dict[bytes, bytes] = dict(scope["headers"])
    if b"authorization" in headers:
        return  # no browser adds it by itself
    site = headers.get(b"sec-fetch-site", b"same-origin")
    origin = urlsplit(headers.get(b"origin", b"").decode("latin-1")).netloc
    host = headers.get(b"host", b"").decode("latin-1")
    # A proxy may leave the port out of the host.
    is_same = origin == host or (":" not in host and origin.rpartition(":")[0] == host)
    if not origin or not is_same or site not in (b"same-origin", b"none"):
        raise CrossSiteError


async def read_form(scope: Scope, receive: Receive, *, bytes_max: int) -> list[tuple[str, str]]:
    """Return the fields of a form.

    Raises:
        RequestTooLargeError: it is larger than `bytes_max`.
    """
    bodies = bodies_of(scope)
    async with bodies.receive(scope, receive, bytes_max=bytes_max, field="form") as body:
        return read_fields(bytes(body), field="form")
