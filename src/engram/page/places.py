"""Where what was delivered to agents can be read."""

from __future__ import annotations

from collections.abc import Iterable

from engram.model.value import Value

LINKS = {"mem": "/memories/", "conv": "/conversations/"}
"""Where a thing is read, by the prefix of its id."""


class Place(Value):
    """A memory or conversation of which something was delivered; a row of an older version has no link."""

    id: str
    link: str | None
    sequences: tuple[int, ...] = ()
    """The messages of a conversation."""


def places_of(shown: Iterable[str]) -> tuple[Place, ...]:
    """Return what a row of the log names, messages by their conversations."""
    sequences = dict[str, list[int]]()
    for each in shown:
        owner, _, sequence = each.partition("#")
        found = sequences.setdefault(owner, [])
        if sequence.isdecimal():
            found.append(int(sequence))
    return tuple(
        [
            Place(id=owner, link=_link(owner), sequences=tuple(found))
            for owner, found in sequences.items()
        ]
    )


def _link(owner: str) -> str | None:
    path = LINKS.get(owner.partition("_")[0])
    return None if path is None else path + owner
