"""Filters that are in force, each with the address without it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from engram.model.value import Value
from engram.page.visit import Visit


class Chip(Value):
    """A filter that is in force, and the address without it."""

    name: str
    value: str
    without: str


def chips_of(
    visit: Visit, names: Iterable[str], *, lists: Collection[str], labels: Mapping[str, str]
) -> tuple[Chip, ...]:
    """Return a chip for each value of the filters that an address has; of a page the first is shown again."""
    return tuple(
        Chip(
            name=labels.get(name, name),
            value=value,
            without=visit.link(
                **{name: [other for other in values if other != value], "offset": None}
            ),
        )
        for name in names
        for values in [visit.all_given(name)[: None if name in lists else 1]]
        for value in values
    )
