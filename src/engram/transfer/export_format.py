"""The format of exports: lines of JSON between a header and a manifest, hashed as they are written.

After every `EXPORT_BLOCK_BYTES` comes a check, the SHA-256 of everything since the header, so that a reader
can verify a block before it uses any of it. The manifest has the counts, the hash of each section and that of
all. Nothing after the header depends on the time or the place of the export: equal data gives equal bytes.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, get_args

import msgspec

from engram.errors import InvalidRequestError
from engram.limits import EXPORT_BLOCK_BYTES, EXPORT_LINE_BYTES_MAX, EXPORT_TEXT_CHARACTERS
from engram.model.conversation import Role
from engram.model.memory import Category, Change, MemoryType, RelationType, StorageMode
from engram.model.value import Value

FORMAT = "engram-export"
VERSION = 1
MEDIA_TYPE = "application/x-ndjson"

Section = Literal[
    "episodes",
    "conversations",
    "memories",
    "relations",
    "feedback",
    "tombstones",
    "forgotten",
    "projects",
]
SECTIONS: tuple[Section, ...] = get_args(Section)
"""In the order of a file: what others refer to comes first."""

NO_METADATA = msgspec.Raw()
"""The absence of metadata, which is JSON as it was stored: parsing it could change numbers."""


class Line(Value, omit_defaults=True, forbid_unknown_fields=True, tag_field="type"):
    """One line. Times are RFC 3339 in UTC with microseconds."""


class EpisodeLine(Line, tag="episode"):
    """A stretch of work."""

    id: str
    project: str
    description: str
    started_at: str
    ended_at: str | None = None
    summary: str | None = None


class ConversationLine(Line, tag="conversation"):
    """A conversation; its messages follow."""

    id: str
    project: str
    title: str | None = None
    agent_id: str | None = None
    tags: tuple[str, ...] = ()
    metadata: msgspec.Raw = NO_METADATA
    is_default: bool = False
    messages: int
    created_at: str
    updated_at: str


class MessageLine(Line, tag="message"):
    """A message of the conversation before it."""

    sequence: int
    role: Role
    name: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    occurred_at: str | None = None
    created_at: str
    captured_as: str | None = None
    """The identity by which a source's message is known."""
    metadata: msgspec.Raw = NO_METADATA
    content: str


class MemoryFields(Line):
    """What a memory and its versions have in common."""

    id: str
    version: int
    project: str
    memory_type: MemoryType
    category: Category
    source: str
    importance: int
    tags: tuple[str, ...] = ()
    immutable: bool = False
    episode_id: str | None = None
    pattern_confidence: float | None = None
    valid_from: str | None = None
    valid_to: str | None = None
    expires_at: str | None = None
    storage_mode: StorageMode
    document_id: str | None = None
    summary: str | None = None
    reason: str | None = None
    is_forgotten: bool = False
    updated_at: str


class MemoryLine(MemoryFields, tag="memory"):
    """A memory; its versions and document follow. Without content it has the body of its document."""

    created_at: str
    versions: int = 0
    content: str | None = None


class VersionLine(MemoryFields, tag="version"):
    """A former version of the memory before it. Without content it has that of the next version."""

    change: Change
    actor: str
    ended_at: str
    content: str | None = None


class DocumentLine(Line, tag="document"):
    """The document of the memory before it; its body follows."""

    id: str
    name: str | None = None
    media_type: str
    tier: Literal[0, 1, 2]
    size_bytes: int
    sha256: str
    created_at: str


class BodyLine(Line, tag="body"):
    """The next bytes of a document: UTF-8 as text, others in base64."""

    text: str | None = None
    base64: bytes | None = None


class RelationLine(Line, tag="relation"):
    """A relation between two memories."""

    source_id: str
    target_id: str
    relation_type: RelationType
    strength: float
    created_at: str


class FeedbackLine(Line, tag="feedback"):
    """A rating of a memory."""

    memory_id: str
    number: int
    helpful: bool
    event_id: str | None = None
    failure_class: str | None = None
    actor: str
    created_at: str


class TombstoneLine(Line, tag="tombstone"):
    """A memory that was removed for good."""

    id: str
    sha256: str
    removed_at: str
    actor: str


class ForgottenLine(Line, tag="forgotten"):
    """A conversation that was deleted and is not captured or imported again."""

    id: str
    forgotten_at: str
    actor: str


class ProjectLine(Line, tag="project"):
    """A project and what the export has of it; for readers, an import makes nothing of it."""

    name: str
    conversations: int = 0
    memories: int = 0
    episodes: int = 0


class MoreLine(Line, tag="more"):
    """The next part of the text before it."""

    content: str


class CheckLine(Line, tag="check"):
    """The SHA-256 of all lines since the header."""

    sha256: str


class SectionDigest(Value):
    """What the manifest has of a section."""

    lines: int
    sha256: str


class Manifest(Line, tag="manifest"):
    """The last line."""

    counts: Mapping[str, int]
    """Lines of each type, checks apart."""
    sections: Mapping[str, SectionDigest]
    lines: int
    """All between the header and this one."""
    sha256: str


AnyLine = (
    EpisodeLine
    | ConversationLine
    | MessageLine
    | MemoryLine
    | VersionLine
    | DocumentLine
    | BodyLine
    | RelationLine
    | FeedbackLine
    | TombstoneLine
    | ForgottenLine
    | ProjectLine
    | MoreLine
    | CheckLine
    | Manifest
)


TextLine = MessageLine | MemoryLine | VersionLine
"""Lines with a text, which `more` lines continue if it is long."""


class Origin(Value, omit_defaults=True):
    """The organisation of an export and its settings."""

    id: str
    name: str
    messages_max: int | None = None
    bytes_max: int | None = None


class KeyEntry(Value, omit_defaults=True):
    """A key without its secret."""

    id: str
    name: str
    prefix: str
    scopes: tuple[str, ...]
    toolsets: tuple[str, ...] | None = None
    created_at: str
    expires_at: str | None = None
    revoked_at: str | None = None


class Header(Value, omit_defaults=True, tag_field="type", tag="header"):
    """The first line: whose export it is, and of what. An import applies none of it."""

    format: str
    version: int
    exported_at: str
    engram: str
    """The version of the program."""
    organization: Origin
    filters: Mapping[str, Any] = {}
    keys: tuple[KeyEntry, ...] = ()


_SECTION_OF: Mapping[str, Section] = {
    "episode": "episodes",
    "conversation": "conversations",
    "message": "conversations",
    "memory": "memories",
    "version": "memories",
    "document": "memories",
    "body": "memories",
    "relation": "relations",
    "feedback": "feedback",
    "tombstone": "tombstones",
    "forgotten": "forgotten",
    "project": "projects",
}
"""A `more` line belongs to the section of the line before it."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(AnyLine).decode
_HEADER_START = b'{"type":"header","format":"engram-export",'
_CHECK_START = b'{"type":"check",'
_MANIFEST_START = b'{"type":"manifest",'


def kind_of(line: Line) -> str:
    """Return the type of a line."""
    return str(line.__struct_config__.tag)


class Tally:
    """Counts and hashes the lines of an export."""

    def __init__(self) -> None:
        self._all = hashlib.sha256()
        self._lines = 0
        self._section: Section = SECTIONS[0]
        self._hashes = {name: hashlib.sha256() for name in SECTIONS}
        self._section_lines = Counter[str]()
        self._counts = Counter[str]()

    @property
    def sha256(self) -> str:
        """Return the hash of everything so far."""
        return self._all.hexdigest()

    def add(self, kind: str, data: bytes) -> None:
        """Take the next line, with its line end."""
        self._all.update(data)
        self._lines += 1
        if kind == "check":
            return
        self._section = _SECTION_OF.get(kind, self._section)
        self._hashes[self._section].update(data)
        self._section_lines[self._section] += 1
        self._counts[kind] += 1

    def manifest(self) -> Manifest:
        """Return the last line."""
        return Manifest(
            counts=dict(sorted(self._counts.items())),
            sections={
                name: SectionDigest(lines=self._section_lines[name], sha256=hash_.hexdigest())
                for name, hash_ in self._hashes.items()
                if self._section_lines[name]
            },
            lines=self._lines,
            sha256=self.sha256,
        )


class Encoder:
    """Writes lines, with a check after each block."""

    def __init__(self) -> None:
        self._tally = Tally()
        self._block_bytes = 0

    def encode(self, lines: Iterable[Line]) -> bytes:
        """Return the bytes of the next lines."""
        written = bytearray()
        for line in lines:
            for part in _split(line):
                written += self._put(part)
            if self._block_bytes >= EXPORT_BLOCK_BYTES:
                written += self._put(CheckLine(sha256=self._tally.sha256))
                self._block_bytes = 0
        return bytes(written)

    def finish(self) -> bytes:
        """Return the manifest."""
        return encode_line(self._tally.manifest())

    def _put(self, line: Line) -> bytes:
        data = encode_line(line)
        self._tally.add(kind_of(line), data)
        self._block_bytes += len(data)
        return data


def encode_line(line: Line | Header) -> bytes:
    """Return a line with its line end."""
    return _encode(line) + b"\n"


def _split(line: Line) -> Iterator[Line]:
    """Yield a line, its text cut to the length that one may have, and the rest of the text."""
    text = line.content if isinstance(line, TextLine) else None
    if text is None or len(text) <= EXPORT_TEXT_CHARACTERS:
        yield line
        return
    starts = range(0, len(text), EXPORT_TEXT_CHARACTERS)
    first, *others = (text[start : start + EXPORT_TEXT_CHARACTERS] for start in starts)
    yield msgspec.structs.replace(line, content=first)
    for part in others:
        yield MoreLine(content=part)


def _damaged(message: str) -> InvalidRequestError:
    """Return the error for bytes that are no export of Engram, or not as they were written."""
    return InvalidRequestError(message, field="export")


class Decoder:
    """Reads an export as its bytes arrive: lines of verified blocks, each once.

    Raises `InvalidRequestError` where the bytes are not what was written.
    """

    def __init__(self) -> None:
        self.header: Header | None = None
        self.is_finished = False
        self._tally = Tally()
        self._rest = b""
        self._block = list[bytes]()
        self._block_bytes = 0
        self._line = 0

    def feed(self, data: bytes) -> Iterator[list[AnyLine]]:
        """Yield the lines of each block that is complete with these bytes."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._check_size(line)
            self._line += 1
            if self.header is None:
                self.header = read_header(line)
            elif block := self._take(line):
                yield block
        self._check_size(self._rest)

    @property
    def counts(self) -> dict[str, int]:
        """Return how many lines of each type have come."""
        return dict(self._tally.manifest().counts)

    def finish(self) -> None:
        """Check that the export was complete."""
        if not self.is_finished or self._rest:
            raise _damaged(
                f"it ends after line {self._line:,} without a manifest: it is incomplete, and what came"
                " before is stored; import the whole file to complete it"
                if self.header is not None
                else "there is no header: this is no export of Engram"
            )

    def _take(self, line: bytes) -> list[AnyLine] | None:
        if self.is_finished:
            raise _damaged(f"line {self._line:,} comes after the manifest")
        if line.startswith(_MANIFEST_START):
            self.is_finished = True
        elif not line.startswith(_CHECK_START):
            self._block.append(line + b"\n")
            self._block_bytes += len(line)
            if self._block_bytes > EXPORT_BLOCK_BYTES + 2 * EXPORT_LINE_BYTES_MAX:
                raise _damaged(f"there is no check before line {self._line:,}")
            return None
        return self._verified(line)

    def _verified(self, last: bytes) -> list[AnyLine]:
        """Return the lines of a block that ends with a check or the manifest."""
        first = self._line - len(self._block)
        lines = [self._parsed(data, first + place) for place, data in enumerate(self._block)]
        for line, data in zip(lines, self._block, strict=True):
            self._tally.add(kind_of(line), data)
        self._block, self._block_bytes = [], 0
        end = self._parsed(last, self._line)
        expected = (
            self._tally.manifest() if self.is_finished else CheckLine(sha256=self._tally.sha256)
        )
        if end != expected:
            raise _damaged(
                f"lines {first:,} to {self._line:,} are not what was exported: their hash differs"
            )
        self._tally.add("check", last + b"\n")
        return lines

    def _parsed(self, data: bytes, number: int) -> AnyLine:
        try:
            return _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            raise _damaged(f"line {number:,} is not one of an export: {exc}") from exc

    def _check_size(self, line: bytes) -> None:
        if len(line) > EXPORT_LINE_BYTES_MAX:
            raise _damaged(
                f"line {self._line + 1:,} is longer than {EXPORT_LINE_BYTES_MAX:,} bytes"
            )


class _Beginning(msgspec.Struct):
    """What every version of the header has."""

    type: Literal["header"]
    format: Literal["engram-export"]
    version: int


BEGINNING_BYTES = 262_144
"""How much of a file shows whether it is an export: compressed, at least the first block of zstd."""


def is_header(data: bytes) -> bool:
    """Return True if bytes begin as an export does."""
    return data.startswith(_HEADER_START)


def read_header(line: bytes) -> Header:
    """Return the header in the first line.

    Raises:
        InvalidRequestError: it is none, or of a newer version.
    """
    try:
        beginning = msgspec.json.decode(line, type=_Beginning)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise _damaged("the first line is not the header of an export of Engram") from exc
    if beginning.version != VERSION:
        raise _damaged(
            f"it has version {beginning.version} of the format, and this program reads version {VERSION}"
        )
    try:
        return msgspec.json.decode(line, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise _damaged(f"its header cannot be read: {exc}") from exc
