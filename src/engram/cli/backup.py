"""`engram backup` and `engram restore`: copies of a live store, and the way back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from engram.cli.invocation import FAILED, Invocation, describe
from engram.cli.maintenance import examine_store
from engram.cli.options import past_moment, shared_options, span
from engram.cli.output import (
    counted,
    print_line,
    print_notice,
    progress,
    short_time,
    show_table,
    visible_line,
)
from engram.clock import SystemClock, format_time
from engram.errors import (
    ConfigurationError,
    ConflictError,
    EngramError,
    InvalidRequestError,
    StorageError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engram.backup.catalog import Catalog
    from engram.backup.creating import Made
    from engram.backup.destination import Destination
    from engram.backup.keeping import Rule
    from engram.model.backup import Manifest
    from engram.settings import Settings

Place = Annotated[
    str, typer.Argument(metavar="DIR|URL", help="Directory, or URL such as s3://bucket/prefix.")
]
Source = Annotated[
    str | None,
    typer.Argument(
        metavar="DIR|URL", help="Where the backups lie. [default: where the last one was made]"
    ),
]
Every = Annotated[
    str | None,
    typer.Option(metavar="SPAN", help="Go on and make one at every 30m, 1h, 1d; ends on SIGTERM."),
]
Keep = Annotated[
    str | None,
    typer.Option(
        metavar="RULES",
        help="Then remove older backups but the newest of each of so many hours, days, weeks and"
        " months: 24h,7d,4w,12m. [default: keep all]",
    ),
]
Recipients = Annotated[
    list[str] | None,
    typer.Option(
        "--recipient", metavar="KEY", help="Encrypt to a public key of age or SSH. Repeatable."
    ),
]
Full = Annotated[bool, typer.Option("--full", help="Copy also what the last backup has.")]
AsOf = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="The newest backup that is not later. [default: the newest]"),
]
Identity = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Private keys that decrypt it, as `age-keygen` writes them."),
]


@shared_options
def create(
    invocation: Invocation,
    place: Place,
    *,
    every: Every = None,
    keep: Keep = None,
    recipient: Recipients = None,
    full: Full = False,
) -> None:
    """Back up the store while it is in use.

    Everything acknowledged before one instant is in the backup, and nothing after it. Files that have
    not changed since the last backup there are not copied again.

    Examples:
      engram backup /mnt/backups/engram
      engram backup s3://bucket/engram --every 1h --keep 24h,7d,4w,12m
      engram backup /mnt/backups/engram --recipient age1…

    The store's own files are copied: not its settings (engram.toml), models, or
    the files of ENGRAM_DATA_DIR. A destination belongs to one store. S3 needs
    the extra `backup` and the usual AWS_ variables. docs/backup.md has a guide,
    also for PostgreSQL.
    """
    from engram.backup.keeping import parse_rules
    from engram.backup.sealing import parse_recipients

    settings = _local_settings(invocation)
    rules = () if keep is None else parse_rules(keep)
    recipients = tuple(recipient or ())
    parse_recipients(recipients)
    if every is None:
        made, removed = _back_up(settings, place, rules=rules, recipients=recipients, full=full)
        invocation.show(_made_view(made, removed), lambda: _print_made(made, removed))
        return
    pause_s = span("every", every).total_seconds()
    if not pause_s:
        raise InvalidRequestError("must be longer than nothing", field="every")
    _repeat(
        invocation, settings, place, rules=rules, recipients=recipients, full=full, pause_s=pause_s
    )


@shared_options
def list_backups(invocation: Invocation, place: Source = None) -> None:
    """List the backups of a destination.

    Examples:
      engram backup list /mnt/backups/engram
      engram backup list --json | jq '.backups[-1].instant'
    """
    from engram.backup.catalog import read_catalog

    destination = _find(invocation, place)
    catalog = read_catalog(destination)
    answer = {
        "place": destination.place,
        "backups": [_view(each) for each in catalog.manifests],
        "damaged": catalog.damaged,
    }
    invocation.show(answer, lambda: _print_catalog(destination, catalog))
    if catalog.damaged:
        raise SystemExit(FAILED)


@shared_options
def verify(
    invocation: Invocation, place: Source = None, *, as_of: AsOf = None, identity: Identity = None
) -> None:
    """Restore to a temporary directory, and check everything there.

    Examples:
      engram backup verify /mnt/backups/engram
      engram backup verify --as-of 24h
      engram backup verify s3://bucket/engram --identity key.txt

    Every object is compared with its hash, `engram doctor` checks the restored
    store, and its rows are counted. Exits with 1 if anything is wrong.
    """
    import tempfile

    destination, manifest = _choose(invocation, place, as_of)
    with tempfile.TemporaryDirectory(prefix="engram-verify-") as directory:
        target = Path(directory) / "store"
        _restore(manifest, destination, target, identity=identity)
        findings = _rehearse(invocation, target, manifest)
    answer = {**_view(manifest), "findings": findings}
    invocation.show(answer, lambda: _print_verified(manifest, findings))
    if findings:
        raise SystemExit(FAILED)


@shared_options
def restore(
    invocation: Invocation, place: Source = None, *, as_of: AsOf = None, identity: Identity = None
) -> None:
    """Restore a backup to an empty directory.

    Examples:
      engram restore /mnt/backups/engram --home /srv/engram
      engram restore s3://bucket/engram --as-of 2026-11-01T12:00Z
      engram restore /mnt/backups/engram --identity key.txt

    The store is restored to --home or ENGRAM_HOME, where no store may be: move
    a damaged one away first. Each file is compared with its hash before it gets
    its place. After an interruption run the same command to resume; until it is
    done the directory does not open as a store. Stop every process that used
    the old store before, and start it again afterwards.
    """
    destination, manifest = _choose(invocation, place, as_of)
    settings = _local_settings(invocation)
    _restore(manifest, destination, settings.home, identity=identity)
    answer = {**_view(manifest), "home": str(settings.home)}
    invocation.show(answer, lambda: _print_restored(settings.home, manifest))


def _local_settings(invocation: Invocation) -> Settings:
    from engram.cli.invocation import LOCAL_ONLY
    from engram.logs import log_to_stderr

    settings = invocation.settings()
    if settings.url is not None:
        raise ConfigurationError("ENGRAM_URL", LOCAL_ONLY)
    log_to_stderr("debug" if invocation.debug else "warning")
    return settings


def _back_up(
    settings: Settings,
    place: str,
    *,
    rules: Sequence[Rule],
    recipients: Sequence[str],
    full: bool,
) -> tuple[Made, list[str]]:
    """Make a backup, remove what the rules do not keep, and record both."""
    from engram.backup.catalog import CONTROL_NAME, read_catalog
    from engram.backup.creating import create_backup, staging_in
    from engram.backup.keeping import prune
    from engram.backup.object_storage import open_destination
    from engram.backup.record import record_failure, record_success
    from engram.wiring import hold_files

    clock = SystemClock()
    destination = open_destination(place)
    try:
        with hold_files(settings) as held, staging_in(settings.home) as staging:
            with progress("Backing up", total=len(held.files)) as advance:
                made = create_backup(
                    held,
                    destination,
                    staging=staging,
                    recipients=recipients,
                    full=full,
                    advance=advance,
                )
            removed = prune(destination, rules, now=clock.now()) if rules else []
        catalog = read_catalog(destination)
    except (ConflictError, StorageError) as exc:
        if (settings.home / CONTROL_NAME).exists():
            record_failure(settings.home, destination.place, exc.message, at=clock.now())
        raise
    record_success(settings.home, destination.place, catalog, rules=rules, at=clock.now())
    return made, removed


def _repeat(
    invocation: Invocation,
    settings: Settings,
    place: str,
    *,
    rules: Sequence[Rule],
    recipients: Sequence[str],
    full: bool,
    pause_s: float,
) -> None:
    """Make backups until the process is told to end; one that fails is reported, and the next tried."""
    import signal
    import sys
    import time

    signal.signal(signal.SIGTERM, _end)
    while True:
        began = time.monotonic()
        try:
            made, removed = _back_up(settings, place, rules=rules, recipients=recipients, full=full)
        except EngramError as exc:
            print_notice(describe(exc, store=invocation.store_place))
        else:
            print_line(_summary(made, removed))
            sys.stdout.flush()
        time.sleep(max(began + pause_s - time.monotonic(), 0))


def _end(_number: int, _frame: object) -> NoReturn:
    """End the process; a backup that has begun was not listed yet, and is forgotten."""
    raise SystemExit(0)


def _find(invocation: Invocation, place: str | None) -> Destination:
    """Return a destination, or the one where the last backup of the store was made."""
    from engram.backup.object_storage import open_destination
    from engram.backup.record import read_record_leniently

    settings = _local_settings(invocation)
    if place is not None:
        return open_destination(place)
    known = [each for each in read_record_leniently(settings.home) if each.succeeded_at is not None]
    if not known:
        raise InvalidRequestError("no backup of this store was made: name the destination")
    return open_destination(max(known, key=lambda each: str(each.succeeded_at)).place)


def _choose(
    invocation: Invocation, place: str | None, as_of: str | None
) -> tuple[Destination, Manifest]:
    from engram.backup.catalog import read_catalog

    destination = _find(invocation, place)
    moment = None if as_of is None else past_moment("as-of", as_of, now=SystemClock().now())
    catalog = read_catalog(destination)
    for fault in catalog.damaged.values():
        print_notice(fault)
    return destination, catalog.find(moment)


def _restore(
    manifest: Manifest, destination: Destination, target: Path, *, identity: Path | None
) -> None:
    from engram.backup.restoring import restore_backup
    from engram.backup.sealing import read_identities
    from engram.wiring import put_mark

    with progress("Restoring", total=len(manifest.files)) as advance:
        restore_backup(
            manifest,
            destination,
            target,
            identities=() if identity is None else read_identities(identity),
            put_mark=put_mark,
            advance=advance,
        )


def _rehearse(invocation: Invocation, target: Path, manifest: Manifest) -> list[str]:
    """Open a restored store and return what is wrong with it."""
    from engram.model.value import replace
    from engram.service import Service

    settings = replace(invocation.settings(), home=target, database_url=None, audit_log=None)

    async def examine(service: Service) -> list[str]:
        found = dict.fromkeys(manifest.counts, 0)
        for each in await service.operator.stats():
            for name in found:
                found[name] += getattr(each.counters, name)
        report = await examine_store(service, repair=False)
        faults = [finding.message for finding in report.findings]
        return faults + [
            f"the backup has {manifest.counts[name]:,} {name}, and the restored store {count:,}"
            for name, count in found.items()
            if count != manifest.counts[name]
        ]

    return invocation.run(examine, settings=settings)


def _view(manifest: Manifest) -> dict[str, Any]:
    return {
        "backup_id": manifest.backup_id,
        "instant": format_time(manifest.instant),
        "engram": manifest.engram,
        "organizations": len(manifest.files) - 1,
        "bytes": manifest.bytes,
        "stored_bytes": manifest.stored_bytes,
        "counts": manifest.counts,
        "recipients": manifest.recipients,
    }


def _made_view(made: Made, removed: Sequence[str]) -> dict[str, Any]:
    return {
        **_view(made.manifest),
        "files_copied": made.copied,
        "bytes_added": made.copied_bytes,
        "removed": removed,
    }


def _summary(made: Made, removed: Sequence[str]) -> str:
    files = counted(len(made.manifest.files), "file")
    line = (
        f"{made.manifest.backup_id}  {made.copied:,} of {files} copied,"
        f" {_size(made.copied_bytes)} added"
    )
    return line + (f", {counted(len(removed), 'old backup')} removed" if removed else "")


def _print_made(made: Made, removed: Sequence[str]) -> None:
    print_line(_summary(made, removed))
    print_notice(
        f"everything acknowledged before {format_time(made.manifest.instant)}: {_counts(made.manifest)}"
    )


def _counts(manifest: Manifest) -> str:
    nouns = ("conversation", "message", "memory", "document")
    plurals = ("conversations", "messages", "memories", "documents")
    found = [manifest.counts.get(name, 0) for name in plurals]
    return ", ".join(counted(count, noun) for count, noun in zip(found, nouns, strict=True))


def _print_catalog(destination: Destination, catalog: Catalog) -> None:
    show_table(
        ("BACKUP", "AS OF", "ORGANISATIONS", "MESSAGES", "SIZE", "STORED", "ENCRYPTED"),
        (
            (
                each.backup_id,
                short_time(each.instant),
                f"{len(each.files) - 1:,}",
                f"{each.counts.get('messages', 0):,}",
                _size(each.bytes),
                _size(each.stored_bytes),
                "yes" if each.recipients else "no",
            )
            for each in catalog.manifests
        ),
    )
    for fault in catalog.damaged.values():
        print_line(fault)
    print_notice(
        f"{counted(len(catalog.manifests), 'backup')} in {visible_line(destination.place)}"
    )


def _size(count: int) -> str:
    return f"{count / 1_000:,.1f} kB" if count < 1_000_000 else f"{count / 1_000_000:,.1f} MB"


def _print_verified(manifest: Manifest, findings: Sequence[str]) -> None:
    for finding in findings:
        print_line(visible_line(finding))
    if not findings:
        print_line(f"{manifest.backup_id} was restored and checked: no problems found")
        print_notice(f"{counted(len(manifest.files) - 1, 'organisation')}, {_counts(manifest)}")


def _print_restored(home: Path, manifest: Manifest) -> None:
    print_line(f"restored {manifest.backup_id} to {visible_line(str(home))}")
    print_notice(
        f"what was stored after {format_time(manifest.instant)} is not there; `engram doctor` checks the rest"
    )
