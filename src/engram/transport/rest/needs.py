"""What a route declares of its requests: the scopes that they need, and how large their bodies may be.

Both are checked before anything of a body is read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from engram import limits
from engram.model.access import KeyScope, Principal

Endpoint = Callable[..., Awaitable[object]]
EndpointT = TypeVar("EndpointT", bound=Endpoint)

STREAMED = -1
"""In place of a bound: the body is never held in memory, and the store bounds it as it comes."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a request needs to be read at all."""

    scopes: tuple[KeyScope, ...]
    """What the key must carry; nothing where the operator's token was asked for instead."""
    body_bytes_max: int

    def check(self, principal: Principal | None) -> None:
        """Refuse a credential that lacks a scope.

        Raises:
            AccessDeniedError: it does.
        """
        if principal is not None:
            for scope in self.scopes:
                principal.require(scope)


_DECLARED = dict[Endpoint, Needs]()


def needs(
    *scopes: KeyScope, body_bytes_max: int = limits.CONTROL_BODY_BYTES_MAX
) -> Callable[[EndpointT], EndpointT]:
    """Declare what the requests of an endpoint need; stands below the decorator of its route."""

    def declare(endpoint: EndpointT) -> EndpointT:
        _DECLARED[endpoint] = Needs(scopes, body_bytes_max)
        return endpoint

    return declare


def needs_of(endpoint: Endpoint) -> Needs:
    """Return what an endpoint declared.

    Raises:
        TypeError: it declared nothing, which would leave it open.
    """
    declared = _DECLARED.get(endpoint)
    if declared is None:
        raise TypeError(f"{endpoint.__qualname__} does not declare what it needs: use @needs(…)")
    return declared
