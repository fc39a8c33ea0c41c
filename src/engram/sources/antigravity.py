"""Antigravity: a file of JSON lines for each conversation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from engram.sources.lines import parse_record, read_records
from engram.sources.places import Places
from engram.sources.texts import as_text, moment_of
from engram.sources.values import ContentIds, Session, Source, SourceFile, SourceMessage, Tally

_REQUEST = re.compile(r"<USER_REQUEST>(.*?)(?:</USER_REQUEST>|\Z)", re.DOTALL)
# A second opening ends the search for the end of the first, which would take quadratic time.
_METADATA = re.compile(
    r"<ADDITIONAL_METADATA>((?:(?!</?ADDITIONAL_METADATA>).)*+)</ADDITIONAL_METADATA>", re.DOTALL
)
_NOT_SAID = frozenset({"SYSTEM", "USER_IMPLICIT", "TOOL"})


def roots(places: Places) -> tuple[Path, ...]:
    """Return where Antigravity keeps its conversations."""
    return tuple(sorted((places.home / ".gemini").glob("antigravity*")))


def read(file: SourceFile, tally: Tally) -> Iterator[SourceMessage]:
    """Yield what was said in a conversation."""
    session, ids = Session(id=_name(file.path)), ContentIds()
    for record in read_records(file, tally):
        source = as_text(record.get("source"))
        text = as_text(record.get("content")) or ""
        if source == "USER_EXPLICIT":
            session.directory = session.directory or _directory(text)
            role, text = "user", _unwrapped(text)
        elif source == "MODEL":
            role = "assistant"
        elif source in _NOT_SAID:
            tally.skip("not a message")
            continue
        else:
            tally.meet(source)
            continue
        own_id = ids.next(session, str(record.get("created_at")), role, text)
        yield SourceMessage(session, own_id, role, text, moment_of(record.get("created_at")))


def _name(path: Path) -> str:
    """Return the id of a conversation: the directory below `brain`."""
    return next((each.name for each in path.parents if each.parent.name == "brain"), path.stem)


def _unwrapped(text: str) -> str:
    """Return what the user wrote, without what the client put around it."""
    found = _REQUEST.search(text)
    return _METADATA.sub("", text if found is None else found[1]).strip()


def _directory(text: str) -> str | None:
    found = _METADATA.search(text)
    return None if found is None else as_text((parse_record(found[1]) or {}).get("cwd"))


SOURCE = Source(
    name="antigravity",
    title="Antigravity",
    roots=roots,
    patterns=("**/.system_generated/logs/transcript.jsonl",),
    read=read,
)
