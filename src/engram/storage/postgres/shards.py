"""The databases that an installation is spread over, as its coordinator reaches them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg.conninfo import conninfo_to_dict

from engram.errors import InvalidRequestError
from engram.storage.postgres.definitions import Options, Secret

APPLICATION_ROLE = "engram_app"

_OF_USER = ("user", "password")
_DEFAULTS = {
    "application_name": "engram",
    # Rows that are fetched, or stored, with one round trip.
    "fetch_size": "1000",
    "batch_size": "100",
}


@dataclass(frozen=True, slots=True)
class Shard:
    """One database of `places`, with the organisations whose hash leaves `place`."""

    place: int
    places: int
    url: str

    @property
    def name(self) -> str:
        """What the coordinator calls it."""
        return f"engram_shard_{self.place}"


@dataclass(frozen=True, slots=True)
class ShardOptions:
    """How the coordinator connects."""

    server: Options
    user: Options


def number_shards(urls: Sequence[str]) -> list[Shard]:
    """Return the shards at some addresses.

    Raises:
        InvalidRequestError: there are none, one is given twice, or one cannot be read.
    """
    if not urls:
        raise InvalidRequestError("name at least one", field="server")
    if len(set(urls)) < len(urls):
        raise InvalidRequestError("a database is given twice", field="server")
    shards = [Shard(place, len(urls), url) for place, url in enumerate(urls)]
    for shard in shards:
        options_of(shard)
    return shards


def options_of(shard: Shard) -> ShardOptions:
    """Return what the definition of a server says.

    Raises:
        InvalidRequestError: the address cannot be read.
    """
    try:
        given = {name: str(value) for name, value in conninfo_to_dict(shard.url).items()}
    except psycopg.ProgrammingError as exc:
        raise InvalidRequestError("is no address of a database", field="server") from exc
    user = {name: given.pop(name) for name in _OF_USER if name in given}
    password = user.pop("password", None)
    # Who has no password is let in for where he comes from; only a superuser may say so.
    proof: Options = (
        {"password_required": "false"} if password is None else {"password": Secret(password)}
    )
    return ShardOptions(server=_DEFAULTS | given, user={**user, **proof})
