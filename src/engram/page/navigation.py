"""The navigation: links to the views that a visitor may see, with the one that is shown marked."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from markupsafe import Markup

from engram.page.rendering import render
from engram.page.view import Place

KEPT_MAX = 256
"""Navigations that are kept: one for each set of scopes and each entry that is marked."""


class Entry(NamedTuple):
    """A view of the navigation."""

    path: str
    label: str
    place: Place


def navigation(entries: Iterable[Entry], path: str) -> Markup:
    """Return the links to some views, with the one marked that a path belongs to."""
    shown = tuple(entries)
    current = next((each.path for each in shown if _holds(each.path, path)), None)
    # Rendered once: the same few for every request, and a large part of the time of a small view.
    return _rendered(shown, current)


def _holds(entry: str, path: str) -> bool:
    return entry == path or (entry != "/" and path.startswith(f"{entry}/"))


@lru_cache(maxsize=KEPT_MAX)
def _rendered(entries: tuple[Entry, ...], current: str | None) -> Markup:
    context = {"entries": entries, "current": current}
    return Markup(render("navigation.html", context))  # noqa: S704 escaped by the template
