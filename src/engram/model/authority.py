"""Strict parser of HTTP authorities: `name`, `name:port`, `[address]` or `[address]:port`."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv6Address

_AUTHORITY = re.compile(
    r"(?:(?P<name>[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)|\[(?P<address>[0-9a-f:.]+)\])(?::(?P<port>[0-9]{1,5}))?",
    re.ASCII | re.IGNORECASE,
)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*", re.ASCII | re.IGNORECASE)
_PORT_MAX = 65_535


def host_of(authority: str) -> str | None:
    """Return the normalised host of a `Host` header; None if it is malformed.

    User names, ports above 65535, trailing dots, IPv6 zone ids and anything after the closing
    bracket are malformed. Nothing is stripped to make a name valid.
    """
    found = _AUTHORITY.fullmatch(authority)
    if found is None or int(found["port"] or 0) > _PORT_MAX:
        return None
    return found["name"].lower() if found["name"] else _spelling_of(found["address"])


def host_of_origin(origin: str) -> str | None:
    """Return the normalised host of an `Origin` header; None if it is malformed."""
    scheme, separator, authority = origin.partition("://")
    if not separator or _SCHEME.fullmatch(scheme) is None:
        return None
    return host_of(authority)


def host_named(setting: str) -> str | None:
    """Return the normalised host of a setting, where IPv6 addresses need no brackets."""
    return _spelling_of(setting) or host_of(setting)


def _spelling_of(address: str) -> str | None:
    """Return the compressed form of an IPv6 address; None if it is not one."""
    try:
        return None if "%" in address else IPv6Address(address).compressed
    except AddressValueError:
        return None
