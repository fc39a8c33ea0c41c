"""`engram migrate`: a store moved from SQLite to PostgreSQL, or back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from engram.transport.cli.invocation import Invocation
from engram.transport.cli.options import DatabaseUrl, shared_options
from engram.transport.cli.visible import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engram.model.ids import OrganizationId
    from engram.settings import Settings
    from engram.storage.moving.mover import Mover
    from engram.storage.moving.planning import Plan
    from engram.wiring import Direction

_SHARED_EXAMPLES = """\b
Stop every process that uses the store first: what is written to it meanwhile
is found out, and the organisation is copied again with the next run. All ids,
keys and vectors stay as they are, and the store that is read is not changed.
Interrupted, the same command goes on where it was. Every organisation can be
used at the target as soon as all of its rows are proved to be there.
"""

TO_POSTGRES_EXAMPLES = (
    """\b
Examples:
  engram migrate sqlite-to-postgres --dry-run
  engram migrate sqlite-to-postgres --database-url postgresql://db/engram
"""
    + _SHARED_EXAMPLES
)

TO_SQLITE_EXAMPLES = (
    """\b
Examples:
  engram migrate postgres-to-sqlite --home /srv/engram --dry-run
  engram migrate postgres-to-sqlite --home /srv/engram
"""
    + _SHARED_EXAMPLES
)

OrganizationOption = Annotated[
    str | None,
    typer.Option("--org", "--organization", metavar="ID", help="One organisation instead of all."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what there is to do, and stop.")]

_STANDINGS = {"new": "to copy", "begun": "half copied", "moved": "moved before"}


@shared_options
def sqlite_to_postgres(
    invocation: Invocation,
    *,
    database_url: DatabaseUrl = None,
    org: OrganizationOption = None,
    dry_run: DryRun = False,
) -> None:
    """Move the store of a directory to PostgreSQL."""
    _migrate(invocation, "sqlite-to-postgres", database_url, org, dry_run=dry_run)


@shared_options
def postgres_to_sqlite(
    invocation: Invocation,
    *,
    database_url: DatabaseUrl = None,
    org: OrganizationOption = None,
    dry_run: DryRun = False,
) -> None:
    """Move the store of a PostgreSQL database to a directory."""
    _migrate(invocation, "postgres-to-sqlite", database_url, org, dry_run=dry_run)


def _migrate(
    invocation: Invocation,
    direction: Direction,
    database_url: str | None,
    org: str | None,
    *,
    dry_run: bool,
) -> None:
    from engram.model.ids import OrganizationId

    settings = invocation.settings(database_url=database_url)
    chosen = None if org is None else OrganizationId(org)
    plans = _run(invocation, settings, direction, chosen, dry_run=dry_run)
    answer = {"dry_run": dry_run, "organizations": [_view(plan) for plan in plans]}
    invocation.show(answer, lambda: _print(plans, dry_run=dry_run))


def _run(
    invocation: Invocation,
    settings: Settings,
    direction: Direction,
    organization_id: OrganizationId | None,
    *,
    dry_run: bool,
) -> list[Plan]:
    import asyncio

    from engram.transport.cli.logs import log_to_stderr
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
    from engram.transport.cli.progress import progress

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


def _print(plans: Sequence[Plan], *, dry_run: bool) -> None:
    from engram.transport.cli.output import notice, show_table

    show_table(
        ("ORGANISATION", "NAME", "ROWS", "STATE"),
        (
            (
                plan.organization.id,
                plan.organization.name,
                f"{plan.rows:,}",
                _STANDINGS[plan.standing] if dry_run or plan.standing == "moved" else "moved",
            )
            for plan in plans
        ),
    )
    left = [plan for plan in plans if plan.standing != "moved"]
    if dry_run:
        notice("nothing was changed; without --dry-run, these rows are copied")
    else:
        notice(f"{counted(len(left), 'organisation')} moved; all rows are the same on both sides")
