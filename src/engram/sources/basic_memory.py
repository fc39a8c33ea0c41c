"""basic-memory: Markdown files with a head."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engram.sources.places import Places
from engram.sources.texts import (
    labels_of,
    moment_of,
)
from engram.sources.values import (
    Source,
    SourceFile,
    SourceMemory,
    Tally,
)


def roots(places: Places) -> tuple[Path, ...]:
    """Return where basic-memory keeps its notes."""
    return (places.named("BASIC_MEMORY_HOME", "basic-memory"),)


def read(file: SourceFile, tally: Tally) -> Iterator[SourceMemory]:
    """Yield a note as one memory, under its permalink."""
    tally.read += 1
    text = file.path.read_text(encoding="utf-8", errors="replace")
    head, body = _split_head(text)
    title = head.get("title") or file.path.stem
    content = body if body.lstrip().startswith("#") else f"# {title}\n\n{body}"
    yield SourceMemory(
        head.get("permalink") or file.path.stem,
        content,
        moment_of(head.get("created")) or moment_of(file.path.stat().st_mtime),
        labels_of(head.get("tags")),
    )


def _split_head(text: str) -> tuple[dict[str, str], str]:
    """Return the fields of a note's head and the text below it; lists are joined by commas."""
    lines = text.splitlines(keepends=True)
    if not lines or lines[0].strip() != "---":
        return {}, text
    head, key = dict[str, str](), ""
    for place, line in enumerate(lines[1:], start=1):
        if line.strip() == "---":
            return head, "".join(lines[place + 1 :]).lstrip("\n")
        name, separator, value = line.partition(":")
        if line.lstrip().startswith("- ") and key:
            head[key] = ",".join(filter(None, (head[key], line.strip()[2:].strip("\"' "))))
        elif separator and not line[0].isspace():
            key = name.strip()
            head[key] = value.strip().strip("\"'[]")
    return {}, text


SOURCE = Source(
    name="basic-memory",
    title="basic-memory",
    roots=roots,
    patterns=("**/*.md",),
    read=read,
    noun="memory",
)
