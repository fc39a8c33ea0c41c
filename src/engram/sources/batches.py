"""Turn what a reader yields into requests: cleaned, bounded, of one session each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from engram import limits
from engram.errors import InvalidRequestError
from engram.model.capture import CapturedDraft, CaptureRequest
from engram.model.conversation import ConversationDraft
from engram.model.fields import DEFAULT_PROJECT
from engram.model.value import replace
from engram.sources.policy import Policy
from engram.sources.settling import settled
from engram.sources.texts import encodable, first_line, label_of
from engram.sources.values import (
    Session,
    Source,
    SourceFile,
    SourceMemory,
    SourceMessage,
    Tally,
)

Batch = CaptureRequest | tuple[SourceMemory, ...]

MEMORY_OFF = "memory is off there"
"""Why a session is left out whose directory was not chosen, or was excluded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What is imported of the files, and how."""

    policy: Policy
    project: str | None = None
    """The project of everything; without it, that of a session's directory."""
    since: datetime | None = None
    tool_characters_max: int = limits.TOOL_RESULT_CHARACTERS
    """Of a tool's call or result that are kept."""
    is_dry_run: bool = False

    def project_of(self, named: str | None) -> str | None:
        """Return the project of what has a name for one and no directory; None if nothing of it is kept."""
        if self.project is not None:
            return self.project
        usable = label_of(named, characters_max=limits.PROJECT_CHARACTERS_MAX)
        return self.policy.names.resolve(usable or DEFAULT_PROJECT)


class Batches:
    """What a file holds, as requests of one session each, within the bounds of a call."""

    def __init__(
        self, source: Source, file: SourceFile, tally: Tally, choices: Choices, *, now: datetime
    ) -> None:
        self._source = source
        self._file = file
        self._tally = tally
        self._choices = choices
        self._now = now
        self._pending: dict[str, _Pending] = {}
        self._memories: list[SourceMemory] = []
        self._begun = set[str]()
        self.unattributed = 0

    def __iter__(self) -> Iterator[Batch]:
        items = self._source.read(self._file, self._tally)
        if self._source.is_rewritten:
            items = settled(items, now=self._now, tally=self._tally)
        for item in items:
            match item:
                case SourceMemory():
                    yield from self._take_memory(item)
                case SourceMessage():
                    yield from self._take_message(item)
        yield from self._rest()

    def _take_message(self, message: SourceMessage) -> Iterator[Batch]:
        if label_of(message.session.id, characters_max=limits.SESSION_ID_CHARACTERS_MAX) is None:
            self._tally.skip("session without a usable id")
            return
        if not self._is_kept(message.session):
            self._tally.skip(MEMORY_OFF)
            return
        draft = self._draft(message)
        if draft is None:
            return
        pending = self._pending.setdefault(message.session.id, _Pending(message.session))
        size = len(draft.content.encode())
        if pending.drafts and pending.bytes + size > limits.CAPTURE_BATCH_BYTES:
            yield self._request(pending)
        if draft.original_id in pending.drafts:
            self._tally.skip("repeated")
            return
        pending.drafts[draft.original_id] = draft
        pending.bytes += size
        if len(pending.drafts) == limits.MESSAGES_PER_CALL_MAX:
            yield self._request(pending)
        elif len(self._pending) > limits.SESSIONS_PENDING_MAX:
            yield from self._rest()

    def _is_kept(self, session: Session) -> bool:
        policy, directory = self._choices.policy, session.directory
        if directory is None:
            if self._choices.project_of(session.project) is None:
                return False
            # Where only chosen places count, a session without one has to be given a project.
            return not policy.only or self._choices.project is not None
        return policy.project_of(directory) is not None

    def _take_memory(self, memory: SourceMemory) -> Iterator[tuple[SourceMemory, ...]]:
        if self._choices.project_of(memory.project) is None:
            self._tally.skip(MEMORY_OFF)
            return
        content = self._choices.policy.clean(encodable(memory.content))
        if not content.strip():
            self._tally.skip("private or empty")
            return
        if len(content.encode()) > limits.MEMORY_BYTES_MAX:
            self._tally.skip("too long for a memory")
            return
        self._memories.append(memory._replace(content=content))
        if len(self._memories) == limits.MEMORIES_PER_CALL_MAX:
            yield tuple(self._memories)
            self._memories = []

    def _rest(self) -> Iterator[Batch]:
        for pending in self._pending.values():
            if pending.drafts:
                yield self._request(pending)
        self._pending = {}
        if self._memories:
            yield tuple(self._memories)
            self._memories = []

    def _draft(self, message: SourceMessage) -> CapturedDraft | None:
        since = self._choices.since
        if since is not None and message.occurred_at is not None and message.occurred_at < since:
            self._tally.skip("before --since")
            return None
        content = self._choices.policy.clean(encodable(message.content))
        if not content.strip():
            self._tally.skip("private or empty")
            return None
        metadata = dict(message.metadata or {})
        if message.role == "tool" or message.tool_name is not None:
            content, left_out = _shorten(content, self._choices.tool_characters_max)
            metadata |= {"characters_left_out": left_out} if left_out else {}
        try:
            return CapturedDraft(
                original_id=message.id,
                role=message.role,
                content=content,
                occurred_at=message.occurred_at,
                name=label_of(message.name),
                tool_name=label_of(message.tool_name),
                tool_call_id=label_of(message.tool_call_id),
                metadata=metadata or None,
            )
        except InvalidRequestError as exc:
            self._tally.skip(f"refused: {exc.field}")
            return None

    def _request(self, pending: _Pending) -> CaptureRequest:
        drafts, session = tuple(pending.drafts.values()), pending.session
        pending.drafts, pending.bytes = {}, 0
        if session.id not in self._begun:
            self._begun.add(session.id)
            self.unattributed += session.directory is None and session.project is None
        return CaptureRequest(
            source=self._source.name,
            session=session.id,
            conversation=describe(session, drafts, source=self._source, choices=self._choices),
            messages=drafts,
        )


@dataclass(slots=True)
class _Pending:
    """Messages of a session that wait to be sent, by their ids."""

    session: Session
    drafts: dict[str, CapturedDraft] = field(default_factory=dict[str, CapturedDraft])
    bytes: int = 0


def describe(
    session: Session, drafts: Sequence[CapturedDraft], *, source: Source, choices: Choices
) -> ConversationDraft:
    """Return the conversation that takes a session."""
    said = (draft.content for draft in drafts if draft.role == "user")
    title = session.title or next(said, None)
    found = {
        "source": source.name,
        "session": session.id,
        "directory": session.directory,
        "branch": session.branch,
        "parent_session": session.parent,
        "agent": session.agent,
        **session.metadata,
    }
    described = ConversationDraft(
        title=None if title is None else first_line(choices.policy.clean(encodable(title))),
        agent_id=source.name,
        project=_project(session, choices),
        tags=_tags(session, source),
    )
    metadata = {name: value for name, value in found.items() if value not in (None, "")}
    try:
        return replace(described, metadata=metadata)
    except InvalidRequestError:
        # What the source knows of the session is too much, or nothing that JSON can say.
        return replace(described, metadata={"source": source.name, "session": session.id})


def _tags(session: Session, source: Source) -> tuple[str, ...]:
    named = (tag for tag in session.tags if label_of(tag) is not None)
    return tuple(dict.fromkeys((source.name, *named)))[: limits.TAGS_MAX]


def _project(session: Session, choices: Choices) -> str:
    if choices.project is not None:
        return choices.project
    if session.directory is not None:
        return choices.policy.project_of(session.directory) or DEFAULT_PROJECT
    return choices.project_of(session.project) or DEFAULT_PROJECT


def _shorten(content: str, characters_max: int) -> tuple[str, int]:
    """Return the beginning of a long text, with a last line that tells how much is missing."""
    left_out = len(content) - characters_max
    if left_out <= 0:
        return content, 0
    return f"{content[:characters_max]}\n[{left_out:,} more characters were not imported]", left_out
