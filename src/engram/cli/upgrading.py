"""`engram upgrade`: bring a store of an earlier version to the schema of this one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from engram.cli.invocation import FAILED, LOCAL_ONLY, Invocation
from engram.cli.options import DatabaseUrl, shared_options
from engram.cli.output import counted, print_line, print_notice, progress, show_table
from engram.errors import ConfigurationError, ConflictError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engram.settings import Settings
    from engram.storage.upgrade import UpgradePart, UpgradePlan

Check = Annotated[
    bool, typer.Option("--check", help="Show what would be done, without changing anything.")
]
RemoveCopies = Annotated[
    bool,
    typer.Option(
        "--remove-copies", help="Remove what earlier upgrades kept of files as they were."
    ),
]


@shared_options
def upgrade(
    invocation: Invocation,
    *,
    check: Check = False,
    remove_copies: RemoveCopies = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Bring a store of an earlier version to the schema of this one.

    Examples:
      engram upgrade --check
      engram upgrade
      engram upgrade --remove-copies
      engram upgrade --database-url postgresql://owner@db/engram

    Every file is also upgraded when it is first used; this does it at once, and
    --check says before what it would do: the schema of each file or database,
    the migrations, the tables they rewrite, the space they need. Stop servers
    of the earlier version first. After an interruption, run it again.
    A file is copied before tables are rewritten; the copy has the schema in its
    name, and stays until --remove-copies or until its organisation is deleted.
    Exits with 1 if something cannot be upgraded.
    """
    settings = _settings(invocation, database_url)
    from engram.wiring import plan_upgrade

    plan = plan_upgrade(settings)
    problems = list(plan.problems)
    if remove_copies and not check:
        _remove(settings, plan)
    elif not check and not problems:
        problems = _run(settings, plan)
    now = plan if check else plan_upgrade(settings)
    answer = {"check": check, **_view(now), "upgraded": _upgraded(plan, now), "problems": problems}
    invocation.show(answer, lambda: _print(plan, now, check=check))
    for problem in () if invocation.as_json else problems:
        print_notice(problem)
    if problems:
        raise SystemExit(FAILED)


def _settings(invocation: Invocation, database_url: str | None) -> Settings:
    from engram.logs import log_to_stderr

    settings = invocation.settings(database_url=database_url)
    if settings.url is not None:
        raise ConfigurationError("ENGRAM_URL", LOCAL_ONLY)
    log_to_stderr("debug" if invocation.debug else "warning")
    return settings


def _remove(settings: Settings, plan: UpgradePlan) -> None:
    """Remove copies of files that are not needed any more.

    Raises:
        ConflictError: the upgrade that they were made for is not complete.
    """
    from engram.wiring import remove_copies

    if plan.is_due:
        raise ConflictError(
            "some files are still of an earlier version: run `engram upgrade` first"
        )
    remove_copies(settings)


def _run(settings: Settings, plan: UpgradePlan) -> list[str]:
    import asyncio

    from engram.wiring import upgrade_store

    if not plan.is_due:
        return []
    with progress("Upgrading", total=len(plan.parts)) as advance:
        return asyncio.run(upgrade_store(settings, plan, advance=advance))


def _upgraded(before: UpgradePlan, now: UpgradePlan) -> int:
    was = {part.name: part.version for part in before.parts}
    return sum(part.version != was.get(part.name, part.version) for part in now.parts)


def _view(plan: UpgradePlan) -> dict[str, Any]:
    return {
        "room_bytes": plan.room_bytes,
        "free_bytes": plan.free_bytes,
        "parts": [
            {
                "name": part.name,
                "schema": part.version,
                "newest_schema": part.known,
                "migrations": [
                    {"name": step.name, "rewrites": step.rewrites} for step in part.pending
                ],
                "copies": [copy.name for copy in part.copies],
            }
            for part in plan.parts
        ],
    }


def _print(before: UpgradePlan, now: UpgradePlan, *, check: bool) -> None:
    show_table(
        ("NAME", "SCHEMA", "NEWEST", "REWRITES"),
        (
            (part.name, str(part.version), str(part.known), ", ".join(part.rewrites) or "nothing")
            for part in now.parts
        ),
    )
    _print_migrations(now.parts)
    for copy in (copy for part in now.parts for copy in part.copies):
        print_line(f"kept: {copy.name} ({copy.size_bytes:,} bytes)")
    if check and now.is_due:
        free = "" if now.free_bytes is None else f" of {now.free_bytes:,} that are free"
        print_notice(f"needs {now.room_bytes:,} bytes{free}; nothing was changed")
    elif now.is_due:
        print_notice("the upgrade is not complete")
    elif upgraded := _upgraded(before, now):
        print_notice(f"{counted(upgraded, 'file')} upgraded")
    else:
        print_notice("nothing to upgrade")


def _print_migrations(parts: Sequence[UpgradePart]) -> None:
    """Print each pending migration once, however many files it is for."""
    pending = {step.name: step for part in parts for step in part.pending}
    for step in pending.values():
        rewritten = f", which rewrites {', '.join(step.rewrites)}" if step.rewrites else ""
        print_line(f"to apply: {step.name}{rewritten}")
