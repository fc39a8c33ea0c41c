"""Connect and disconnect clients: first all changes are computed, then they are written.

A client is changed as a whole or not at all: if one of its files cannot be edited, none is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from engram.clients import edits, files
from engram.clients.edits import AddItem, Edit, SetKey, WholeFile
from engram.clients.machine import Machine
from engram.clients.manifest import Manifest, Record
from engram.clients.registry import Client, FilePlan, Scope
from engram.clients.server import Server, home_in
from engram.clients.syntax import UnreadableError
from engram.errors import ConfigurationError, ConflictError
from engram.model.value import Value

Outcome = Literal["created", "updated", "unchanged", "restored", "removed", "edited", "gone"]
"""What happens to a file.

The first three when a client is connected. When it is disconnected, `restored` is byte for byte what it
was before, `removed` had not been there, `edited` was changed since and loses only our entry, and `gone`
has no entry of ours any more.
"""


class Change(Value):
    """What happens to one file of a client."""

    client: str
    path: Path
    outcome: Outcome
    before: bytes | None
    after: bytes | None
    record: Record | None
    """What the manifest says afterwards; None if nothing of ours is there then."""
    original: bytes | None = None
    """The file before the client was first connected."""
    directories: tuple[Path, ...] = ()
    """Those that go with a file that is removed, if nothing else is in them."""
    warnings: tuple[str, ...] = ()
    adopted_from: Path | None = None
    """The store that had connected the client before, and whose record moves to this one."""


class Refusal(Value):
    """A file that is not edited, with the reason and what can be pasted by hand."""

    client: str
    path: Path
    reason: str
    snippet: str = ""


Outlook = tuple[Change, ...] | Refusal
"""What happens to a client: changes of its files, or a refusal because of one of them."""


def plan_connection(
    client: Client, machine: Machine, *, server: Server, scope: Scope, manifest: Manifest
) -> Outlook:
    """Return what connecting a client changes; nothing is written.

    Raises:
        InvalidRequestError: the client lacks the scope, or needs a key.
        ConfigurationError: the manifest cannot be read.
    """
    plans = client.plan(machine, server=server, scope=scope)
    main = plans[0].path
    changes = list[Change]()
    for plan in plans:
        try:
            changes.append(_connected(client, plan, main, scope, manifest))
        except UnreadableError as exc:
            return Refusal(
                client=client.name, path=plan.path, reason=str(exc), snippet=snippet_of(plan)
            )
    kept = {str(plan.path) for plan in plans}
    dropped = [
        each for each in manifest.records() if each.main == str(main) and each.path not in kept
    ]
    further = plan_disconnection(dropped, manifest=manifest)
    return further if isinstance(further, Refusal) else (*changes, *further)


def plan_disconnection(records: Sequence[Record], *, manifest: Manifest) -> Outlook:
    """Return what taking back what `records` tell of changes; nothing is written.

    Raises:
        ConfigurationError: the manifest cannot be read, or a content is missing.
    """
    changes = list[Change]()
    for record in records:
        try:
            changes.append(_disconnected(record, manifest))
        except UnreadableError as exc:
            return Refusal(client=record.client, path=Path(record.path), reason=str(exc))
    return tuple(changes)


def carry_out(change: Change, *, manifest: Manifest) -> None:
    """Write a change and what the manifest says of it.

    Raises:
        ConflictError: the file has changed since the change was computed.
        ConfigurationError: it cannot be written.
    """
    try:
        if change.record is None:
            _write(change)
            manifest.drop(change.path)
        elif change.record != manifest.find(change.path) or change.before != change.after:
            _write_recorded(change, change.record, manifest)
    except (OSError, UnreadableError) as exc:
        raise ConfigurationError(str(change.path), f"it cannot be written: {exc}") from exc


def snippet_of(plan: FilePlan) -> str:
    """Return a plan as a file that has nothing else, to be pasted by hand."""
    text = ""
    for edit in plan.edits:
        text = edits.apply(text, edit, syntax=plan.syntax)
    return text


def _write_recorded(change: Change, record: Record, manifest: Manifest) -> None:
    """Write the record before the file, so that what is written can always be taken back."""
    previous = manifest.find(change.path)
    manifest.add(record, original=change.original)
    try:
        _write(change)
    except (OSError, UnreadableError, ConflictError):
        if previous is None:
            manifest.drop(change.path)
        else:
            manifest.add(previous, original=change.original)
        raise
    if change.adopted_from is not None:
        Manifest(change.adopted_from).drop(change.path)


def _write(change: Change) -> None:
    if change.after == change.before:
        return
    if files.read_bytes(change.path) != change.before:
        raise ConflictError(f"{change.path} was changed in the meantime; run the command again")
    if change.after is None:
        files.remove_file(change.path, change.directories)
    else:
        files.replace_bytes(change.path, change.after)


def _connected(
    client: Client, plan: FilePlan, main: Path, scope: Scope, manifest: Manifest
) -> Change:
    before = files.read_bytes(plan.path)
    text = files.as_text(before)
    keeper = manifest if manifest.find(plan.path) else _keeper_elsewhere(text, plan, manifest)
    previous = keeper.find(plan.path)
    original = before if previous is None else keeper.original(previous)
    after = files.as_bytes(_edited(text, plan, previous, files.as_text(original)), before)
    missing = tuple(map(str, files.missing_directories(plan.path)))
    record = Record(
        client=client.name,
        scope=scope,
        path=str(plan.path),
        main=str(main),
        syntax=plan.syntax,
        edits=plan.edits,
        original=None if original is None else files.digest(original),
        written=files.digest(after),
        directories=missing if previous is None else previous.directories,
        has_key=plan.has_key,
    )
    return Change(
        client=client.name,
        path=plan.path,
        outcome="created" if before is None else "unchanged" if after == before else "updated",
        before=before,
        after=after,
        record=record,
        original=original,
        warnings=tuple(_warnings(plan, text, previous, scope)),
        adopted_from=None if keeper is manifest else keeper.home,
    )


def _keeper_elsewhere(text: str, plan: FilePlan, manifest: Manifest) -> Manifest:
    """Return the manifest of the store that the file's entry names, if it tells of this file."""
    for edit in plan.edits:
        if isinstance(edit, SetKey):
            home = home_in(edits.current_value(text, edit, syntax=plan.syntax))
            if home is not None and Path(home).is_absolute() and Path(home) != manifest.home:
                other = Manifest(Path(home))
                if other.find(plan.path) is not None:
                    return other
    return manifest


def _edited(text: str, plan: FilePlan, previous: Record | None, original: str) -> str:
    """Return the text with the edits of a plan in place of those of a record."""
    old = {_place(edit): edit for edit in (previous.edits if previous else ())}
    wanted = {_place(edit) for edit in plan.edits}
    for place, edit in old.items():
        if place not in wanted:
            text = edits.undo(text, edit, syntax=plan.syntax, original=original)
    for edit in plan.edits:
        text = edits.apply(text, edit, syntax=plan.syntax, previous=old.get(_place(edit)))
    return text


def _place(edit: Edit) -> tuple[str, ...]:
    match edit:
        case SetKey():
            return edit.at
        case AddItem():
            return (*edit.at, "", edit.mark or repr(edit.value))
        case WholeFile():
            return ()


def _warnings(plan: FilePlan, text: str, previous: Record | None, scope: Scope) -> Sequence[str]:
    found = list[str]()
    for edit in plan.edits:
        if not isinstance(edit, SetKey) or previous is not None:
            continue
        if edits.is_made(text, edit, syntax=plan.syntax) is False:
            name = ".".join(edit.at)
            found.append(f"it has another entry {name}, which is replaced until you disconnect")
    if plan.note and previous is None:
        found.append(plan.note)
    if plan.has_key and files.is_readable_by_others(plan.path):
        found.append("other users of this machine can read it, and it gets a key: chmod 600")
    if plan.has_key and scope == "project":
        found.append("it is in the project and gets a key: do not commit it")
    return found


def _disconnected(record: Record, manifest: Manifest) -> Change:
    path = Path(record.path)
    before, original = files.read_bytes(path), manifest.original(record)
    after, warnings = before, tuple[str, ...]()
    if before is not None and files.digest(before) == record.written:
        after = original
        outcome: Outcome = "removed" if original is None else "restored"
    elif before is None or before == original:
        outcome = "gone"
    else:
        text, warnings = _undone(files.as_text(before), record, files.as_text(original))
        is_ours_alone = original is None and not text.strip()
        after = None if is_ours_alone else files.as_bytes(text, before)
        outcome = "gone" if after == before else "removed" if is_ours_alone else "edited"
    return Change(
        client=record.client,
        path=path,
        outcome=outcome,
        before=before,
        after=after,
        record=None,
        directories=tuple(map(Path, record.directories)),
        warnings=warnings,
    )


def _undone(text: str, record: Record, original: str) -> tuple[str, tuple[str, ...]]:
    """Return the text without the edits of a record, and why some were left."""
    warnings = list[str]()
    for edit in reversed(record.edits):
        if isinstance(edit, SetKey):
            found = home_in(edits.current_value(text, edit, syntax=record.syntax))
            if found is not None and found != home_in(edit.value):
                warnings.append(f"its entry belongs to the store in {found}, and stays")
                continue
        text = edits.undo(text, edit, syntax=record.syntax, original=original)
    return text, tuple(warnings)
