"""claude-mem: a database of observations, summaries of sessions, and prompts of users."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from engram.sources.lines import parse_value
from engram.sources.places import Places
from engram.sources.tables import Row, open_database, rows_of
from engram.sources.texts import (
    as_list,
    as_text,
    label_of,
    labels_of,
    moment_of,
)
from engram.sources.values import (
    Item,
    Session,
    Source,
    SourceFile,
    SourceMemory,
    SourceMessage,
    Tally,
)


def roots(places: Places) -> tuple[Path, ...]:
    """Return where claude-mem keeps its database."""
    return (places.named("CLAUDE_MEM_DATA_DIR", ".claude-mem"),)


_OBSERVATION = ("title", "subtitle", "text", "narrative")
_SUMMARY = ("request", "investigated", "learned", "completed", "next_steps", "notes")


def read(file: SourceFile, tally: Tally) -> Iterator[Item]:
    """Yield observations and summaries as memories, and prompts as messages of their sessions."""
    with open_database(file.path) as database:
        for row in rows_of(database, "observations"):
            tally.read += 1
            facts = [each for each in as_list(parse_value(row.get("facts") or "")) if each]
            text = _paragraphs(row, _OBSERVATION, [f"- {fact}" for fact in facts])
            kind = label_of(row.get("type"))
            tags = ("observation", *filter(None, (kind,)), *labels_of(row.get("concepts")))
            yield _claude_mem_memory(row, "observation", text, tags)
        for row in rows_of(database, "session_summaries"):
            tally.read += 1
            text = _paragraphs(row, _SUMMARY, [], with_names=True)
            yield _claude_mem_memory(row, "summary", text, ("summary",))
        yield from _prompts(database, tally)


def _paragraphs(
    row: Row, names: tuple[str, ...], more: list[str], *, with_names: bool = False
) -> str:
    texts = [(name, as_text(row.get(name))) for name in names]
    given = [
        f"{name.replace('_', ' ')}: {text}" if with_names else text for name, text in texts if text
    ]
    return "\n".join([*dict.fromkeys(given), *more])


def _claude_mem_memory(row: Row, kind: str, text: str, tags: tuple[str, ...]) -> SourceMemory:
    return SourceMemory(
        f"{kind} {row['id']}",
        text,
        moment_of(row.get("created_at_epoch")),
        tuple(dict.fromkeys(tags)),
        project=label_of(row.get("project")),
        kind=as_text(row.get("type")),
    )


def _prompts(database: sqlite3.Connection, tally: Tally) -> Iterator[SourceMessage]:
    projects = {
        row.get("content_session_id") or row.get("claude_session_id"): row.get("project")
        for row in rows_of(database, "sdk_sessions")
    }
    for row in rows_of(database, "user_prompts"):
        tally.read += 1
        name = str(row.get("content_session_id") or row.get("claude_session_id"))
        session = Session(id=name, project=as_text(projects.get(name)))
        text = as_text(row.get("prompt_text")) or ""
        moment = moment_of(row.get("created_at_epoch"))
        yield SourceMessage(session, f"prompt {row['id']}", "user", text, moment)


SOURCE = Source(
    name="claude-mem",
    title="claude-mem",
    roots=roots,
    patterns=("claude-mem.db",),
    read=read,
    noun="entry",
)
