"""Complete the address of a database with what fail-over needs, where it does not say otherwise."""

from __future__ import annotations

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from engram.errors import ConfigurationError

_DEFAULTS = {
    "application_name": "engram",
    "connect_timeout": "10",
    # A machine that vanishes closes no connection: who waits for its answer has to ask.
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}

_OF_SEVERAL = {
    # Each of them takes so long when it does not answer, before the next is tried.
    "connect_timeout": "3",
}

_OF_PRIMARY = {"target_session_attrs": "read-write"}


def complete(url: str, *, setting: str = "ENGRAM_DATABASE_URL") -> str:
    """Return how to connect to the database, on whichever of several hosts takes writes.

    Raises:
        ConfigurationError: `setting` has no address.
    """
    return _complete(url, setting, _OF_PRIMARY)


def complete_reading(url: str, *, setting: str = "ENGRAM_DATABASE_READ_URL") -> str:
    """Return how to connect to a replica, on whichever of several hosts answers.

    Raises:
        ConfigurationError: `setting` has no address.
    """
    return _complete(url, setting, {})


def _complete(url: str, setting: str, of_several: dict[str, str]) -> str:
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError as exc:
        # Its words may repeat a password.
        raise ConfigurationError(setting, "this is no address of a database") from exc
    hosts = str(given.get("host") or given.get("hostaddr") or "")
    added = {**_OF_SEVERAL, **of_several} if "," in hosts else {}
    return make_conninfo("", **{**_DEFAULTS, **added, **given})
