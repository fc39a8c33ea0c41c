"""`engram postgres`: set a database up, and spread one that has outgrown its server over several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote, urlsplit, urlunsplit

import typer

from engram.transport.cli.invocation import Invocation
from engram.transport.cli.options import DatabaseUrl, shared_options
from engram.transport.cli.visible import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engram.settings import Settings

    Steps = Sequence[tuple[str, str]]

SETUP_EXAMPLES = """\b
Examples:
  engram postgres setup --database-url postgresql://owner@db/engram
  engram postgres setup --login memory --no-password
\b
Run it as the owner of the database, or a superuser: it makes the tables or
brings them forward, and a user that owns nothing and may only do what
requests need. Its URL, with a new password, is printed once: that is the
ENGRAM_DATABASE_URL of `engram serve`. Run it again after an upgrade; a user
that exists keeps its password.
"""

DISTRIBUTE_EXAMPLES = """\b
Examples:
  engram postgres distribute --dry-run
  engram postgres distribute --database-url postgresql://owner@db/engram
\b
Every organisation is kept on one server of a Citus cluster, the tables of all
on each. Run it again after an upgrade: what is distributed is left alone.
"""

SHARD_EXAMPLES = """\b
Examples:
  engram postgres shard --dry-run \\
    --server postgresql://one/engram --server postgresql://two/engram
  engram postgres shard \\
    --server postgresql://one/engram --server postgresql://two/engram
\b
For servers without Citus. The database that ENGRAM_DATABASE_URL names must be
without organisations; it reaches the others through postgres_fdw. Stop every
process that uses it. Run it again with the same servers, in the same order,
after an upgrade or when one of them has another address. docs/scaling.md says
what is slower than with Citus.
"""

Servers = Annotated[
    list[str],
    typer.Option(
        "--server", metavar="URL", help="A database for some of the organisations; repeat it."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the statements, and run none.")]


Login = Annotated[str, typer.Option(metavar="NAME", help="The user that servers log in as.")]
NoPassword = Annotated[
    bool, typer.Option("--no-password", help="Give it none: for peer or certificate logins.")
]


@shared_options
def setup(
    invocation: Invocation,
    *,
    database_url: DatabaseUrl = None,
    login: Login = "engram_server",
    no_password: NoPassword = False,
) -> None:
    """Make the tables, and a user for servers that owns nothing."""
    from engram.wiring import set_up_database

    settings = _settings(invocation, database_url)
    name, password = set_up_database(settings, login=login, with_password=not no_password)
    url = login_url(settings.database_url or "", name, password)
    is_new = password is not None
    answer = {"login": name, "database_url": url, "password_is_new": is_new}
    invocation.show(answer, lambda: _print_login(url, is_new=is_new))


def login_url(url: str, login: str, password: str | None) -> str:
    """Return the address of the same database for another user."""
    parts = urlsplit(url)
    options = [
        option
        for option in parts.query.split("&")
        if option.split("=")[0] not in {"user", "password"}
    ]
    user = quote(login, safe="") + ("" if password is None else f":{password}")
    hosts = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{user}@{hosts}", query="&".join(options)))


@shared_options
def distribute(
    invocation: Invocation, *, database_url: DatabaseUrl = None, dry_run: DryRun = False
) -> None:
    """Spread organisations over the servers of a Citus cluster."""
    from engram.wiring import distribute_tables

    settings = _settings(invocation, database_url)
    _show(invocation, distribute_tables(settings, dry_run=dry_run), dry_run=dry_run)


@shared_options
def shard(
    invocation: Invocation,
    *,
    server: Servers,
    database_url: DatabaseUrl = None,
    dry_run: DryRun = False,
) -> None:
    """Spread organisations over servers that know nothing of each other."""
    from engram.wiring import shard_tables

    settings = _settings(invocation, database_url)
    _show(invocation, shard_tables(settings, server, dry_run=dry_run), dry_run=dry_run)


def _settings(invocation: Invocation, database_url: str | None) -> Settings:
    from engram.transport.cli.logs import log_to_stderr

    settings = invocation.settings(database_url=database_url)
    log_to_stderr("debug" if invocation.debug else "warning")
    return settings


def _print_login(url: str, *, is_new: bool) -> None:
    from engram.transport.cli.output import notice, say

    say(url)
    notice(
        "the password is shown this once; it is the ENGRAM_DATABASE_URL of servers"
        if is_new
        else "the user exists and keeps its password; put it into this ENGRAM_DATABASE_URL"
    )


def _show(invocation: Invocation, steps: Steps, *, dry_run: bool) -> None:
    statements = [{"where": where, "statement": statement} for where, statement in steps]
    answer = {"dry_run": dry_run, "statements": statements}
    invocation.show(answer, lambda: _print(steps, dry_run=dry_run))


def _print(steps: Steps, *, dry_run: bool) -> None:
    from engram.transport.cli.output import notice, say

    last = None
    for where, statement in steps:
        if where != last:
            say(f"-- {where}")
            last = where
        say(f"{statement};")
    done = "shown; nothing was changed" if dry_run else "run"
    notice(f"{counted(len(steps), 'statement')} {done}")
