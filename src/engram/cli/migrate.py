"""`engram migrate`: move a store from SQLite to PostgreSQL, or back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from engram.cli.invocation import Invocation
from engram.cli.options import DatabaseUrl, DryRun, OneOrganization, shared_options
from engram.cli.output import counted, print_notice, progress, show_table

if TYPE_CHECKING:
    from engram.model.ids import OrganizationId
    from engram.settings import Settings
    from engram.transfer.move import Mover, Plan
    from engram.wiring import Direction

_STATES = {"new": "to copy", "begun": "partly copied", "moved": "already moved"}


_HELP = """{summary}

Examples:
  {examples}

Stop every process that uses the store first. Writes during the move are
detected, and the next run copies the organisation again. Ids, keys and
vectors do not change, and neither does the source. After an interruption, run
the same command to resume. An organisation can be used at the target as soon
as all of its rows are verified there.
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
        invocation.show(answer, lambda: _print(plans, dry_run=dry_run))

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


def _print(plans: Sequence[Plan], *, dry_run: bool) -> None:
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
        print_notice(f"{counted(len(left), 'organisation')} moved; all rows match")
