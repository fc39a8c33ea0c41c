"""Replace compression dictionaries, which consist of pieces of the texts that they were trained on.

Every text is compressed anew without them, in steps, and then they are dropped. Another process may still
have one in memory and compress with it: what it stores is compressed anew in the transaction that stores it
(`without_dropped`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from engram import limits
from engram.storage.codec import ContentError, dictionary_number
from engram.storage.content.messages import learn_dictionary
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction

_SQL = load_queries("content/dictionaries.sql")

BATCH_BYTES = 16_000_000
"""Compressed content that is held in memory at once."""


class _Place(NamedTuple):
    """A table whose texts are compressed, and its key."""

    table: str
    key: tuple[str, ...]

    def statement(self, name: str, *, is_first: bool = False) -> str:
        values = ", ".join(f":{column}" for column in self.key)
        key = ", ".join(self.key)
        return _SQL[name].format(
            table=self.table,
            key=key,
            after="" if is_first else f"AND ({key}) > ({values})",
            which=" ".join(f"AND {column} = :{column}" for column in self.key),
        )


_PLACES = (
    _Place("message", ("key",)),
    _Place("memory_version", ("memory", "version")),
    _Place("document", ("number",)),
)


async def replace_dictionaries(tenant: Tenant) -> None:
    """Compress every text without the dictionaries there are, and drop these."""
    if not await tenant.read(lambda tx: tx.execute(_SQL["has_dictionary"]).fetchone()):
        return
    # Whatever is stored from now on does without them.
    (upto,) = await tenant.write(lambda tx: tx.execute(_SQL["retire_dictionaries"]).fetchone())
    for place in _PLACES:
        await _encode_all(tenant, place, upto=upto)
    await tenant.write(lambda tx: tx.execute(_SQL["drop_dictionaries"], upto=upto))


def expect_dictionaries(tx: Transaction, encodings: Iterable[str | None]) -> None:
    """Prepare for `without_dropped` of texts with some encodings."""
    if any(dictionary_number(each) is not None for each in encodings):
        tx.ask_ahead(_SQL["dictionaries"])


def without_dropped(
    tx: Transaction, rows: Sequence[Mapping[str, Any]]
) -> Sequence[Mapping[str, Any]]:
    """Return rows to be stored, compressed anew where their dictionary was dropped meanwhile."""
    used = {dictionary_number(row["content_encoding"]) for row in rows} - {None}
    if not used or used <= _dictionaries(tx):
        return rows
    return [
        {**row, **_recoded(tx, row["content"], row["content_encoding"])}
        if dictionary_number(row["content_encoding"]) is not None
        else row
        for row in rows
    ]


def encoded_alone(
    tx: Transaction, content: bytes, encoding: str | None
) -> tuple[bytes, str | None]:
    """Return a stored text and its encoding, compressed without a dictionary, which may be dropped.

    One that is damaged stays as it is.
    """
    if encoding is None or dictionary_number(encoding) is None:
        return content, encoding
    try:
        recoded = _recoded(tx, content, encoding)
    except ContentError:
        return content, encoding
    alone = recoded["content"]
    return alone.encode() if isinstance(alone, str) else alone, recoded["content_encoding"]


def _dictionaries(tx: Transaction) -> set[int]:
    """Return the dictionaries that texts may be compressed with."""
    return {number for (number,) in tx.execute(_SQL["dictionaries"]).fetchall()}


class Erasures(NamedTuple):
    """How many erasures were ever begun, and how many have not removed everything yet."""

    begun: int
    unfinished: int


def count_erasures(tx: Transaction) -> Erasures:
    """Return how many erasures there are, which a dictionary must not quote from."""
    return Erasures(*tx.execute(_SQL["count_erasures"]).fetchone())


async def _encode_all(tenant: Tenant, place: _Place, *, upto: int) -> None:
    """Compress the texts of a table anew, in steps."""
    after: Mapping[str, Any] | None = None
    statement = place.statement("encode")
    while batch := await tenant.read(partial(_read_batch, place=place, after=after)):
        old = [row for row in batch if (dictionary_number(row["was"]) or 0) <= upto]
        await tenant.write(lambda tx, rows=old: tx.execute_many(statement, rows))
        after = {column: batch[-1][column] for column in place.key}


def _read_batch(
    tx: Transaction, *, place: _Place, after: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    statement = place.statement("encoded", is_first=after is None)
    batch, size = list[dict[str, Any]](), 0
    for *key, encoding, content in tx.execute(
        statement, **(after or {}), limit=limits.REENCODED_AT_ONCE
    ):
        values = dict(zip(place.key, key, strict=True))
        # One that is damaged stays as it is.
        with suppress(ContentError):
            values |= _recoded(tx, content, encoding)
        batch.append({"content_encoding": encoding, "content": content, **values, "was": encoding})
        size += len(content)
        if size > BATCH_BYTES:
            break
    return batch


def _recoded(tx: Transaction, content: bytes, encoding: str) -> dict[str, Any]:
    """Return a text compressed without a dictionary.

    Raises:
        ContentError: it cannot be decoded.
    """
    missing = tx.tenant.codec.missing_dictionary(encoding)
    if missing is not None:
        learn_dictionary(tx, missing)
    stored = tx.tenant.codec.recode(content, encoding=encoding)
    return {"content_encoding": stored.encoding, "content": stored.content}
