"""Statements that define things: names and values are put into them, and secrets are not shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import LiteralString, NamedTuple, cast

from psycopg import sql

from engram.storage.postgres.pool import Driver

_HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that is sent and not shown."""

    value: str


@dataclass(frozen=True, slots=True)
class Definition:
    """One statement."""

    sent: str
    shown: str
    """The same without its secrets."""

    def run(self, driver: Driver) -> None:
        """Send it."""
        driver.execute(self.sent.encode())


class Step(NamedTuple):
    """A statement as it may be shown, and in which database it is run."""

    where: str
    statement: str


Options = Mapping[str, str | Secret]


def define(statement: str, /, **parts: sql.Composable | Options) -> Definition:
    """Return a statement of a `.sql` file with names, values or options for what is in braces."""
    template = sql.SQL(cast("LiteralString", statement.strip().removesuffix(";")))
    sent, shown = (
        template.format(**{name: _composed(part, hide=hide) for name, part in parts.items()})
        for hide in (False, True)
    )
    return Definition(sent.as_string(None), shown.as_string(None))


def _composed(part: sql.Composable | Options, *, hide: bool) -> sql.Composable:
    if isinstance(part, sql.Composable):
        return part
    return sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(name), sql.Literal(_text(value, hide=hide)))
        for name, value in part.items()
    )


def _text(value: str | Secret, *, hide: bool) -> str:
    if isinstance(value, Secret):
        return _HIDDEN if hide else value.value
    return value
