"""The page: what is remembered, to see, search and correct in a browser.

A view is a module of `views` with a template of its own; `docs/page.md` says how to add one.
Nothing of it is imported before the first request for it.
"""

from __future__ import annotations

SEGMENTS = frozenset({
    "", "conversations", "documents", "duplicates", "episodes", "feed", "health", "keys", "memories",
    "organizations", "projects", "search", "seen", "sign-in", "sign-out", "static", "theme", "tools",
    "trash", "usage",
})  # fmt: skip
"""First segments of the page's paths; a test compares them with the views."""

JSON_SUFFIX = ".json"
LIVE_SUFFIX = "/live"
"""Ends the address of a stream: a request there lasts as long as somebody looks."""

ON_SHUTDOWN = "on_shutdown"
"""Where a request's state has what ends its stream; the server calls it when it begins to stop."""


def is_live(path: str) -> bool:
    """Return True if a path is that of a stream of the page."""
    return path.endswith(LIVE_SUFFIX) and is_of_page(path)


def is_of_page(path: str) -> bool:
    """Return True if a path is one of the page's, with or without the ending of its JSON."""
    if not path.startswith("/"):
        return False
    segment, _, rest = path[1:].partition("/")
    return (segment if rest else segment.removesuffix(JSON_SUFFIX)) in SEGMENTS
