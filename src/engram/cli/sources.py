"""`engram import`, `engram sources`: what other programs keep on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engram import limits
from engram.cli.invocation import FAILED, Invocation
from engram.cli.options import PAST_HELP, DryRun, past_moment, shared_options
from engram.cli.output import (
    Advance,
    counted,
    print_line,
    print_notice,
    progress,
    short_time,
    show_table,
    visible_line,
)
from engram.errors import InvalidRequestError, NotFoundError

if TYPE_CHECKING:
    from engram.model.access import Principal
    from engram.service import Service
    from engram.settings import Settings
    from engram.sources.batches import Choices
    from engram.sources.importing import Report
    from engram.sources.ledger import Ledger
    from engram.sources.listing import Found
    from engram.sources.values import Source

SourceName = Annotated[
    str | None,
    typer.Argument(
        metavar="SOURCE",
        help="Which program; `engram sources` lists them. Or an export of Engram.",
    ),
]
SourcePath = Annotated[
    Path | None,
    typer.Argument(metavar="PATH", help="File or directory. [default: where the program has them]"),
]
All = Annotated[bool, typer.Option("--all", help="Import every source found on this machine.")]
Since = Annotated[
    str | None,
    typer.Option(metavar="TIME", help=f"Only what was said since: {PAST_HELP}."),
]
ProjectName = Annotated[
    str | None,
    typer.Option(
        "--project", metavar="NAME", help="Project of everything. [default: by directory]"
    ),
]
Watch = Annotated[bool, typer.Option("--watch", help="Go on importing what is written.")]
Reread = Annotated[
    bool, typer.Option("--reread", help="Read files again that were not written since.")
]
ToolCharacters = Annotated[
    int,
    typer.Option(
        metavar="COUNT",
        min=0,
        max=limits.MESSAGE_BYTES_MAX,
        help="Kept of each tool call or result.",
    ),
]


@shared_options
def import_source(
    invocation: Invocation,
    *,
    source: SourceName = None,
    path: SourcePath = None,
    everything: All = False,
    since: Since = None,
    project: ProjectName = None,
    tool_characters: ToolCharacters = limits.TOOL_RESULT_CHARACTERS,
    reread: Reread = False,
    dry_run: DryRun = False,
    watch: Watch = False,
) -> None:
    """Import what other programs keep: sessions of agents, exports of chats, memories.

    Examples:
      engram import claude
      engram import --all --since 30d
      engram import codex ~/old/sessions --project attic
      engram import chatgpt ~/Downloads/export.zip --dry-run
      engram import claude --watch
      engram import backup.ndjson.zst

    An export of Engram itself is known by its first line: `engram import FILE`,
    or `engram import engram FILE`. Everything in it keeps its id; what is here
    already is not stored again, and what differs is listed and left as it is.
    With --dry-run the file is only verified.

    Messages are known by the ids that their program gave them: imported again,
    or captured by a hook before, nothing is stored twice. What was deleted here
    is not imported again. A file that did not change since is not read.

    Private parts (`<private>…</private>`) are left out, and secrets are replaced
    by `[redacted:kind]` unless ENGRAM_REDACT is off.
    """
    from engram.cli.exports import find_export, import_export
    from engram.clock import SystemClock
    from engram.settings import find_places
    from engram.sources.batches import Choices
    from engram.wiring import build_policy

    export = find_export(source, path)
    if export is not None:
        others = {"--all": everything, "--since": since, "--project": project, "--watch": watch}
        for option, value in (others | {"--reread": reread}).items():
            if value:
                raise InvalidRequestError("does not apply to an export of Engram", field=option)
        import_export(invocation, export, dry_run=dry_run)
        return
    chosen = _choose(source, everything=everything)
    if everything and path is not None:
        raise InvalidRequestError("cannot be combined with PATH", field="--all")
    choices = Choices(
        policy=build_policy(invocation.settings(), find_places()),
        project=project,
        since=past_moment("--since", since, now=SystemClock().now()) if since else None,
        tool_characters_max=tool_characters,
        is_dry_run=dry_run,
    )
    run = _Run(invocation, chosen, path=path, choices=choices, reread=reread)
    reports = invocation.run_local(run.watch if watch else run.once)
    _show(invocation, reports, dry_run=dry_run)
    if not dry_run:
        _get_ready(invocation.settings())
    if any(report.failed for report in reports):
        raise SystemExit(FAILED)


def _get_ready(settings: Settings) -> None:
    """Start the engine where hooks are in use, so that the next session is told what was imported."""
    from engram.engine.address import has_engine
    from engram.hooks.places import spool_directory
    from engram.hooks.starting import is_served, start

    home = str(settings.home.absolute())
    if has_engine(settings) and Path(spool_directory(home)).is_dir() and not is_served(home):
        start(home)


def _choose(name: str | None, *, everything: bool) -> Sequence[Source]:
    from engram.model.fields import nearest
    from engram.sources.registry import SOURCES

    if everything:
        if name is not None:
            raise InvalidRequestError("cannot be combined with SOURCE", field="--all")
        return tuple(SOURCES.values())
    if name is None:
        raise InvalidRequestError(f"name a SOURCE, or pass --all: {', '.join(SOURCES)}")
    if name not in SOURCES:
        raise InvalidRequestError(f"no source {name!r}: {nearest(name, SOURCES)}", field="SOURCE")
    return (SOURCES[name],)


class _Run:
    """One call of `engram import`."""

    def __init__(
        self,
        invocation: Invocation,
        sources: Sequence[Source],
        *,
        path: Path | None,
        choices: Choices,
        reread: bool,
    ) -> None:
        self._invocation = invocation
        self._sources = sources
        self._path = path
        self._choices = choices
        self._reread = reread

    async def once(self, service: Service, me: Principal) -> list[Report]:
        """Import what there is."""
        reports: list[Report] = []
        for source in self._sources:
            paths = self._find(source)
            if not paths and len(self._sources) > 1:
                continue
            label = f"Importing {source.title}"
            with progress(label, noun=counted(2, source.noun)[2:]) as advance:
                reports.append(await self._import(service, me, source, paths, advance))
        await service.background.work(me.organization_id)
        return reports

    async def watch(self, service: Service, me: Principal) -> list[Report]:
        """Import what there is, and then what is written until the command is interrupted."""
        import asyncio

        totals = {report.source: report for report in await self.once(service, me)}
        print_notice("watching; end with Ctrl-C")
        try:
            async with service.background_work():
                while True:
                    await asyncio.sleep(limits.WATCH_S)
                    for source in self._sources:
                        paths = self._find(source)
                        report = await self._import(service, me, source, paths, _count_nothing)
                        if source.name in totals:
                            totals[source.name].add(report)
                        else:
                            totals[source.name] = report
                        if report.stored:
                            print_notice(f"{source.name}: {counted(report.stored, 'message')}")
        except asyncio.CancelledError:
            return list(totals.values())

    def _find(self, source: Source) -> list[Path]:
        from engram.settings import find_places
        from engram.sources.importing import find_files

        if self._path is not None:
            if not self._path.exists():
                raise NotFoundError("file or directory", str(self._path))
            return find_files(source, [self._path])
        roots = source.roots(find_places())
        if not roots and len(self._sources) == 1:
            raise InvalidRequestError(f"{source.title} has no fixed place: pass PATH", field="PATH")
        return find_files(source, roots)

    async def _import(
        self,
        service: Service,
        me: Principal,
        source: Source,
        paths: Sequence[Path],
        advance: Advance,
    ) -> Report:
        return await service.importing.import_files(
            me,
            source,
            paths,
            ledger=None if self._reread else self._ledger(me),
            choices=self._choices,
            advance=advance,
        )

    def _ledger(self, me: Principal) -> Ledger:
        from engram.sources.ledger import Ledger

        return Ledger(self._invocation.settings().home, organization=me.organization_id)


def _count_nothing(_count: int) -> None:
    """Do nothing: there is no progress bar."""


def _show(invocation: Invocation, reports: Sequence[Report], *, dry_run: bool) -> None:
    invocation.show(
        {"dry_run": dry_run, "sources": [report.as_json() for report in reports]},
        lambda: _print_reports(reports, dry_run=dry_run),
    )


def _print_reports(reports: Sequence[Report], *, dry_run: bool) -> None:
    from engram.sources.registry import SOURCES

    if not reports:
        print_line("nothing to import was found")
    for report in reports:
        done = "would store" if dry_run else "stored"
        files = counted(report.files, "file")
        same = f" ({report.unchanged:,} unchanged)" if report.unchanged else ""
        known = f", {report.known:,} known" if report.known else ""
        what = counted(report.stored, SOURCES[report.source].noun)
        print_line(f"{report.source}: {done} {what}{known}; {files}{same}")
        for line in _left_out(report):
            print_line(f"  {visible_line(line)}")


def _left_out(report: Report) -> list[str]:
    """Return what an import left out, and why, a line each."""
    lines = [f"skipped {count:,}: {why}" for why, count in report.tally.skipped.most_common()]
    if report.forgotten:
        lines.append(f"skipped {report.forgotten:,}: deleted here before")
    lines += [
        f"unknown type {kind} ({counted(count, 'record')})"
        for kind, count in report.tally.drift.most_common()
    ]
    if report.unattributed:
        lines.append(f"{counted(report.unattributed, 'session')} without a directory")
    lines += [f"failed: {path}: {why}" for path, why in report.failed.items()]
    return lines


@shared_options
def list_sources(invocation: Invocation) -> None:
    """Show what other programs keep on this machine, and what of it is imported.

    Examples:
      engram sources
      engram sources --json | jq '.sources[] | select(.files > 0)'
    """
    found = invocation.run_local(lambda _service, me: _list(invocation, me))
    invocation.show({"sources": [each.as_json() for each in found]}, lambda: _print_found(found))


async def _list(invocation: Invocation, me: Principal) -> Sequence[Found]:
    from engram.clock import SystemClock
    from engram.settings import find_places
    from engram.sources.ledger import Ledger
    from engram.sources.listing import look_around

    ledger = Ledger(invocation.settings().home, organization=me.organization_id)
    return look_around(find_places(), ledger, now=SystemClock().now())


def offer_imports() -> None:
    """Print what the owner of a new store could import from this machine."""
    from engram.clock import SystemClock
    from engram.settings import find_places
    from engram.sources.listing import look_around

    found = look_around(find_places(), None, now=SystemClock().now())
    here = [
        f"{counted(each.files, 'file')} of {each.title}{_haste(each)}"
        for each in found
        if each.files
    ]
    if here:
        print_notice(f"Found to import: {', '.join(here)}. Run `engram import --all`.")


def _haste(each: Found) -> str:
    if each.days_left is None:
        return ""
    return f" (the oldest is deleted in {counted(each.days_left, 'day')})"


def _print_found(found: Sequence[Found]) -> None:
    here = [each for each in found if each.files]
    if here:
        show_table(
            ("SOURCE", "PROGRAM", "FILES", "NEW", "SIZE", "OLDEST", "IMPORTED", "DELETED IN"),
            map(_cells, here),
        )
    for each in here:
        for kind, count in each.drift.items():
            print_notice(f"{each.name}: unknown type {kind} ({counted(count, 'record')})")
    absent = [each.name for each in found if not each.files]
    print_notice(f"not found here, or imported from a PATH: {', '.join(absent)}")


def _cells(each: Found) -> tuple[str, ...]:
    return (
        each.name,
        each.title,
        f"{each.files:,}",
        f"{each.new:,}",
        _size(each.size_bytes),
        "" if each.oldest is None else short_time(each.oldest)[:10],
        "never" if each.imported_at is None else short_time(each.imported_at),
        "" if each.days_left is None else counted(each.days_left, "day"),
    )


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1_000:
            return f"{size:.0f} {unit}"
        size /= 1_000
    return f"{size:.1f} GB"
