"""`engram migrate` and `engram postgres`: move a store between databases, set one up, spread it over servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote, urlsplit, urlunsplit

import typer

from engram.cli.invocation import Invocation
from engram.cli.options import DatabaseUrl, DryRun, OneOrganization, shared_options
from engram.cli.output import counted, print_line, print_notice, progress, show_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engram.settings import Settings

    Steps = Sequence[tuple[str, str]]
    from engram.model.ids import OrganizationId
    from engram.transfer.move import Mover, Plan
    from engram.wiring import Direction


OnlyShow = Annotated[
    bool, typer.Option("--dry-run", help="Show the statements without running them.")
]


Login = Annotated[str, typer.Option(metavar="NAME", help="Database user that servers log in as.")]
NoPassword = Annotated[
    bool,
    typer.Option("--no-password", help="Set no password, for peer or certificate authentication."),
]


@shared_options
def setup(
    invocation: Invocation,
    *,
    database_url: DatabaseUrl = None,
    login: Login = "engram_server",
    no_password: NoPassword = False,
) -> None:
    """Create or upgrade the tables, and create an unprivileged user for servers.

    Examples:
      engram postgres setup --database-url postgresql://owner@db/engram
      engram postgres setup --login memory --no-password

    Run it as the owner of the database or as a superuser. The user owns nothing
    and has only the rights that requests need. Its URL, with a new password, is
    printed once: set it as ENGRAM_DATABASE_URL for `engram serve`. Run the
    command again after an upgrade; an existing user keeps its password.
    """
    from engram.wiring import set_up_database

    settings = database_settings(invocation, database_url)
    name, password = set_up_database(settings, login=login, with_password=not no_password)
    url = login_url(settings.database_url or "", name, password)
    is_new = password is not None
    answer = {"login": name, "database_url": url, "password_is_new": is_new}
    invocation.show(answer, lambda: _print_login(url, is_new=is_new))


def login_url(url: str, login: str, password: str | None) -> str:
    """Return the URL of the same database for another user."""
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
    invocation: Invocation, *, database_url: DatabaseUrl = None, dry_run: OnlyShow = False
) -> None:
    """Spread organisations over the servers of a Citus cluster.

    Examples:
      engram postgres distribute --dry-run
      engram postgres distribute --database-url postgresql://owner@db/engram

    Each organisation is stored on one server of the cluster; shared tables stay
    on the coordinator. All is checked before the first table is distributed. Run
    it again after an interruption or an upgrade: it does what is left to do.
    """
    from engram.wiring import distribute_tables

    settings = database_settings(invocation, database_url)
    _show(invocation, distribute_tables(settings, dry_run=dry_run), dry_run=dry_run)


def database_settings(invocation: Invocation, database_url: str | None) -> Settings:
    """Return the settings of a command that uses a database itself, and log to stderr."""
    from engram.logs import log_to_stderr

    settings = invocation.settings(database_url=database_url)
    log_to_stderr("debug" if invocation.debug else "warning")
    return settings


def _print_login(url: str, *, is_new: bool) -> None:
    print_line(url)
    print_notice(
        "the password is shown only once; set this URL as ENGRAM_DATABASE_URL for servers"
        if is_new
        else "the user exists and keeps its password; add it to this URL for ENGRAM_DATABASE_URL"
    )


def _show(invocation: Invocation, steps: Steps, *, dry_run: bool) -> None:
    statements = [{"where": where, "statement": statement} for where, statement in steps]
    answer = {"dry_run": dry_run, "statements": statements}
    invocation.show(answer, lambda: _print_steps(steps, dry_run=dry_run))


def _print_steps(steps: Steps, *, dry_run: bool) -> None:
    last = None
    for where, statement in steps:
        if where != last:
            print_line(f"-- {where}")
            last = where
        print_line(f"{statement};")
    done = "shown; nothing was changed" if dry_run else "run"
    print_notice(f"{counted(len(steps), 'statement')} {done}")


_STATES = {"new": "to copy", "begun": "partly copied", "moved": "already moved"}


_HELP = """{summary}

Examples:
  {examples}

Stop every process that uses the store first. Writes during the move are
detected, and the next run copies the organisation again. Ids, keys and
vectors do not change. After an interruption, run the same command to resume.
An organisation can be used at the target as soon as all of its rows are
verified there; in a directory it is sealed then: it can be read, and writes
are refused with the new address.
"""


def _command(direction: Direction, *, summary: str, examples: Sequence[str]) -> Callable[..., None]:
    """Return the command that moves a store in one direction."""

    def migrate(
        invocation: Invocation,
        *,
        database_url: DatabaseUrl = None,
        org: OneOrganization = None,
        dry_run: DryRun = False,
    ) -> None:
        from engram.model.ids import OrganizationId

        settings = invocation.settings(database_url=database_url)
        chosen = None if org is None else OrganizationId(org)
        plans = _run(invocation, settings, direction, chosen, dry_run=dry_run)
        answer = {"dry_run": dry_run, "organizations": [_view(plan) for plan in plans]}
        invocation.show(answer, lambda: _print_plans(plans, dry_run=dry_run))

    migrate.__doc__ = _HELP.format(summary=summary, examples="\n  ".join(examples))
    return shared_options(migrate)


sqlite_to_postgres = _command(
    "sqlite-to-postgres",
    summary="Move a store from a directory to PostgreSQL.",
    examples=(
        "engram migrate sqlite-to-postgres --dry-run",
        "engram migrate sqlite-to-postgres --database-url postgresql://db/engram",
    ),
)
postgres_to_sqlite = _command(
    "postgres-to-sqlite",
    summary="Move a store from PostgreSQL to a directory.",
    examples=(
        "engram migrate postgres-to-sqlite --home /srv/engram --dry-run",
        "engram migrate postgres-to-sqlite --home /srv/engram",
    ),
)


def _run(
    invocation: Invocation,
    settings: Settings,
    direction: Direction,
    organization_id: OrganizationId | None,
    *,
    dry_run: bool,
) -> list[Plan]:
    import asyncio

    from engram.logs import log_to_stderr
    from engram.wiring import open_move

    log_to_stderr("debug" if invocation.debug else "warning")

    async def opened() -> list[Plan]:
        async with open_move(settings, direction=direction, only_plan=dry_run) as mover:
            plans = await mover.plan(organization_id)
            return plans if dry_run else await _move(mover, plans, organization_id)

    return asyncio.run(opened())


async def _move(
    mover: Mover, plans: list[Plan], organization_id: OrganizationId | None
) -> list[Plan]:
    with progress("Copying and comparing", total=sum(plan.steps for plan in plans)) as advance:
        for plan in plans:
            await mover.move(plan, advance=advance)
    if organization_id is None:
        await mover.move_lost_audit()
    return plans


def _view(plan: Plan) -> dict[str, Any]:
    return {
        "organization_id": plan.organization.id,
        "name": plan.organization.name,
        "was": plan.standing,
        "rows": plan.rows,
    }


def _print_plans(plans: Sequence[Plan], *, dry_run: bool) -> None:
    show_table(
        ("ORGANISATION", "NAME", "ROWS", "STATE"),
        (
            (
                plan.organization.id,
                plan.organization.name,
                f"{plan.rows:,}",
                _STATES[plan.standing] if dry_run or plan.standing == "moved" else "moved",
            )
            for plan in plans
        ),
    )
    left = [plan for plan in plans if plan.standing != "moved"]
    if dry_run:
        print_notice("nothing was changed; run without --dry-run to copy these rows")
    else:
        compared = "; all rows match" if left else ""
        print_notice(f"{counted(len(left), 'organisation')} moved{compared}")
