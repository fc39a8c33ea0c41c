"""What a view and an act of the page declare."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from engram.model.access import KeyScope
from engram.model.value import Value, plain
from engram.page.visit import Visit

Place = Literal["main", "more"]
"""Where the navigation shows a view."""


class Menu(Value):
    """The entry of a view in the navigation."""

    label: str
    place: Place = "main"


class View(Value):
    """One address that shows something: `load` returns a value, which is the JSON and fills the template.

    One that returns a `Download` has no template.
    """

    path: str
    template: str = ""
    load: Callable[[Visit], Awaitable[Any]]
    scopes: tuple[KeyScope, ...] = ()
    """What a key needs to see it; without them the navigation has no entry."""
    menu: Menu | None = None
    text: Callable[[Any], str] | None = None
    """Renders the value as Markdown, at the address with `.md`."""
    is_operators: bool = False
    """True if an operator sees it, and nobody else."""
    live: str | None = None
    """The template of the part that changes while it is shown; its address ends with `/live`."""
    pulse: Callable[[Visit], Awaitable[object]] | None = None
    """Returns another value whenever that part may have changed; asked every second, so a cheap one."""


class Undo(Value):
    """How to take an act back: a form with one button."""

    action: str
    label: str = "Undo"
    fields: dict[str, str] = {}


class Done(Value):
    """The outcome of an act: where the browser goes, and what the view there says."""

    to: str
    notice: str | None = None
    undo: Undo | None = None

    def as_notice(self) -> dict[str, Any]:
        """Return the notice as the next view reads it."""
        return {"text": self.notice, "undo": self.undo and plain(self.undo)}


class Shown(Value):
    """The outcome of an act that is shown once, in its own answer: a secret, or what was found."""

    template: str
    page: Any


class Act(Value):
    """One address that changes something: a form is posted there, and the browser is sent on."""

    path: str
    run: Callable[[Visit], Awaitable[Done | Shown]]
    scopes: tuple[KeyScope, ...] = ()
    is_operators: bool = False
    reads_file: bool = False
    """True if its form has a file, which is read as it arrives."""
