"""The cookies of the page: the session, the theme, and the notice that the next view shows.

All are HttpOnly and SameSite=Strict. On https the session's name begins with `__Host-`, which browsers
accept from this host alone.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Literal, cast, get_args

import orjson
from starlette.types import Scope

from engram import limits

SESSION = "engram_session"
SECURE_SESSION = "__Host-engram_session"
THEME = "engram_theme"
NOTICE = "engram_notice"

Theme = Literal["system", "light", "dark"]
THEMES: tuple[Theme, ...] = get_args(Theme)
_YEAR_S = 365 * 86_400
_NOTICE_S = 60
_COOKIE_BYTES_MAX = 4_096
"""Of name and value together; browsers drop a larger cookie without a word."""

NewCookie = tuple[bytes, bytes]
"""A header that sets or removes a cookie."""


def read_cookies(scope: Scope) -> dict[str, str]:
    """Return the cookies of a request; of two with one name the first."""
    found = dict[str, str]()
    for name, value in scope["headers"]:
        if name == b"cookie":
            for part in value.decode("latin-1").split(";"):
                key, _, content = part.strip().partition("=")
                found.setdefault(key, content)
    return found


def session_secret(scope: Scope) -> str | None:
    """Return the secret of the browser's session, None if it has none."""
    cookies = read_cookies(scope)
    return cookies.get(SECURE_SESSION) or cookies.get(SESSION) or None


def theme_of(scope: Scope) -> Theme:
    """Return the theme that the browser's user has chosen."""
    return as_theme(read_cookies(scope).get(THEME))


def as_theme(chosen: str | None) -> Theme:
    """Return a theme there is, whatever a browser says."""
    return chosen if chosen in THEMES else "system"


def read_notice(scope: Scope) -> dict[str, Any] | None:
    """Return the notice that an act left for the next view."""
    encoded = read_cookies(scope).get(NOTICE)
    if not encoded:
        return None
    try:
        notice = orjson.loads(base64.urlsafe_b64decode(encoded))
    except (binascii.Error, ValueError):
        return None
    return cast("dict[str, Any]", notice) if isinstance(notice, dict) else None


def begin_session(secret: str, *, is_secure: bool) -> NewCookie:
    """Return the header that signs a browser in."""
    name = SECURE_SESSION if is_secure else SESSION
    return _cookie(name, secret, lasts_s=limits.PAGE_SESSION_S, is_secure=is_secure)


def end_session() -> tuple[NewCookie, ...]:
    """Return the headers that sign a browser out."""
    return (
        _cookie(SESSION, "", lasts_s=0),
        _cookie(SECURE_SESSION, "", lasts_s=0, is_secure=True),
    )


def keep_theme(theme: Theme) -> NewCookie:
    """Return the header that keeps a theme."""
    return _cookie(THEME, theme, lasts_s=_YEAR_S)


def leave_notice(notice: dict[str, Any]) -> NewCookie:
    """Return the header that leaves a notice for the next view."""
    return _cookie(NOTICE, _encode(notice), lasts_s=_NOTICE_S)


def can_leave(notice: dict[str, Any]) -> bool:
    """Return True if a notice is short enough for a browser to keep."""
    return len(f"{NOTICE}={_encode(notice)}") <= _COOKIE_BYTES_MAX


def _encode(notice: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(notice)).decode()


def drop_notice() -> NewCookie:
    """Return the header that removes a notice that was shown."""
    return _cookie(NOTICE, "", lasts_s=0)


def _cookie(name: str, value: str, *, lasts_s: int, is_secure: bool = False) -> NewCookie:
    secure = "; Secure" if is_secure else ""
    text = f"{name}={value}; Path=/; Max-Age={lasts_s}; HttpOnly; SameSite=Strict{secure}"
    return b"set-cookie", text.encode("latin-1")
