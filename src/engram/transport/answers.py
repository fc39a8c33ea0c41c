"""What callers get back, for every transport: the same fields over MCP, REST and the CLI."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, NotRequired

import orjson
from typing_extensions import TypedDict

from engram.clock import format_time
from engram.model.access import ApiKey, AuditEntry, NewKey, Organization
from engram.model.conversation import (
    AppendReceipt,
    Conversation,
    ConversationPage,
    DeletionReceipt,
    Message,
    MessagePage,
    Role,
)
from engram.model.search import FoundMessage, Kind, ScoreBreakdown, SearchAnswer, SearchResult
from engram.model.status import BackfillReport, Counters, Coverage, Status, Usage
from engram.service.operator import OrganizationStats


class ConversationCreated(TypedDict):
    conversation_id: str


class MessagesAppended(TypedDict):
    conversation_id: str
    appended: int
    message_ids: list[str]
    first_sequence: int
    last_sequence: int
    indexed: int


class ConversationView(TypedDict):
    id: str
    title: str | None
    agent_id: str | None
    project: str
    tags: list[str]
    metadata: Mapping[str, Any]
    message_count: int
    created_at: str
    updated_at: str


class MessageView(TypedDict):
    id: str
    sequence: int
    role: Role
    content: str
    created_at: str
    name: NotRequired[str]
    tool_call_id: NotRequired[str]
    tool_name: NotRequired[str]
    occurred_at: NotRequired[str]
    metadata: NotRequired[Mapping[str, Any]]


class ConversationRead(TypedDict):
    conversation: ConversationView
    messages: list[MessageView]
    total: int
    next_offset: int | None


class ConversationsListed(TypedDict):
    conversations: list[ConversationView]
    total: int
    next_offset: int | None


class ConversationDeleted(TypedDict):
    deleted: Literal[True]
    messages: int
    chunks: int
    vectors: int
    receipt: str


class FoundMessageView(MessageView):
    score: float
    score_breakdown: NotRequired[Mapping[str, Any]]


class SearchResultView(TypedDict):
    kind: Kind
    score: float
    chunk_id: str
    conversation_id: str
    conversation_title: str | None
    tags: list[str]
    start_sequence: int
    end_sequence: int
    chunk_text: str | None
    messages: list[FoundMessageView]
    score_breakdown: NotRequired[Mapping[str, Any]]


class SearchAnswered(TypedDict):
    results: list[SearchResultView]
    total_candidates: int
    tokens: int
    truncated: bool
    pending: int
    degraded: list[str]
    note: NotRequired[str]


class KeyView(TypedDict):
    id: str
    name: str
    prefix: str
    scopes: list[str]
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None


class KeyCreated(KeyView):
    key: str


class KeysListed(TypedDict):
    keys: list[KeyView]


class OrganizationView(TypedDict):
    id: str
    name: str
    is_local: bool
    messages_max: int | None
    bytes_max: int | None
    created_at: str


class OrganizationCreated(TypedDict):
    organization_id: str
    api_key: str


class OrganizationsListed(TypedDict):
    organizations: list[OrganizationView]


class StatusView(TypedDict):
    conversations: int
    messages: int
    memories: int
    documents: int
    content_bytes: int
    chunks: int
    vectors: int
    pending: int
    embedder: str | None
    degraded: list[str]


class UsageView(TypedDict):
    messages: int
    messages_max: int | None
    content_bytes: int
    bytes_max: int | None


class AuditView(TypedDict):
    id: str
    at: str
    actor: str
    action: str
    subject: str | None
    details: Mapping[str, Any]


class AuditListed(TypedDict):
    entries: list[AuditView]


class CoverageView(TypedDict):
    organization_id: str
    messages: int
    messages_indexed: int
    windows: int
    windows_indexed: int


class CoverageListed(TypedDict):
    organizations: list[CoverageView]


class StatsView(TypedDict):
    organization_id: str
    name: str
    conversations: int
    messages: int
    content_bytes: int
    chunks: int
    vectors: int
    pending: int


class StatsListed(TypedDict):
    organizations: list[StatsView]


class Reindexed(TypedDict):
    messages: int


class BackfillDone(TypedDict):
    status: Literal["done", "progress"]
    processed: int
    compressed: int
    skipped_too_small: int
    remaining: int


def to_json(answer: object) -> bytes:
    """Return an answer's JSON."""
    try:
        return orjson.dumps(answer)
    except orjson.JSONEncodeError:
        # Metadata may hold whole numbers of any size, which orjson does not write.
        return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()


def messages_appended(receipt: AppendReceipt) -> MessagesAppended:
    """A repeated call gets the first answer again."""
    count = len(receipt.message_ids)
    return {
        "conversation_id": receipt.conversation_id,
        "appended": count,
        "message_ids": list(receipt.message_ids),
        "first_sequence": receipt.first_sequence,
        "last_sequence": receipt.last_sequence,
        "indexed": count,
    }


def conversation_view(conversation: Conversation) -> ConversationView:
    return {
        "id": conversation.id,
        "title": conversation.title,
        "agent_id": conversation.agent_id,
        "project": conversation.project,
        "tags": list(conversation.tags),
        "metadata": conversation.metadata,
        "message_count": conversation.message_count,
        "created_at": format_time(conversation.created_at),
        "updated_at": format_time(conversation.updated_at),
    }


def message_view(message: Message) -> MessageView:
    """Absent fields are left out: an answer is paid for by the token."""
    view: MessageView = {
        "id": message.id,
        "sequence": message.sequence,
        "role": message.role,
        "content": message.content,
        "created_at": format_time(message.created_at),
    }
    if message.name is not None:
        view["name"] = message.name
    if message.tool_call_id is not None:
        view["tool_call_id"] = message.tool_call_id
    if message.tool_name is not None:
        view["tool_name"] = message.tool_name
    if message.occurred_at is not None:
        view["occurred_at"] = format_time(message.occurred_at)
    if message.metadata is not None:
        view["metadata"] = message.metadata
    return view


def conversation_read(page: MessagePage) -> ConversationRead:
    return {
        "conversation": conversation_view(page.conversation),
        "messages": [message_view(message) for message in page.messages],
        "total": page.total,
        "next_offset": page.next_offset,
    }


def conversations_listed(page: ConversationPage) -> ConversationsListed:
    return {
        "conversations": [conversation_view(item) for item in page.conversations],
        "total": page.total,
        "next_offset": page.next_offset,
    }


def conversation_deleted(receipt: DeletionReceipt) -> ConversationDeleted:
    return {
        "deleted": True,
        "messages": receipt.messages,
        "chunks": receipt.chunks,
        "vectors": receipt.vectors,
        "receipt": receipt.receipt,
    }


def search_answered(answer: SearchAnswer) -> SearchAnswered:
    view: SearchAnswered = {
        "results": [_result_view(result) for result in answer.results],
        "total_candidates": answer.total_candidates,
        "tokens": answer.tokens,
        "truncated": answer.truncated,
        "pending": answer.pending,
        "degraded": list(answer.degraded),
    }
    if answer.note is not None:
        view["note"] = answer.note
    return view


def key_view(key: ApiKey) -> KeyView:
    return {
        "id": key.id,
        "name": key.name,
        "prefix": key.prefix,
        "scopes": list(key.scopes),
        "created_at": format_time(key.created_at),
        "expires_at": _optional_time(key.expires_at),
        "revoked_at": _optional_time(key.revoked_at),
        "last_used_at": _optional_time(key.last_used_at),
    }


def key_created(new: NewKey) -> KeyCreated:
    return {**key_view(new.key), "key": new.secret}


def organization_view(organization: Organization) -> OrganizationView:
    return {
        "id": organization.id,
        "name": organization.name,
        "is_local": organization.is_local,
        "messages_max": organization.quota.messages_max,
        "bytes_max": organization.quota.bytes_max,
        "created_at": format_time(organization.created_at),
    }


def status_view(status: Status) -> StatusView:
    counters: Counters = status.counters
    return {
        "conversations": counters.conversations,
        "messages": counters.messages,
        "memories": 0,
        "documents": 0,
        "content_bytes": counters.content_bytes,
        "chunks": counters.chunks,
        "vectors": counters.vectors,
        "pending": counters.pending,
        "embedder": status.embedder,
        "degraded": list(status.degraded),
    }


def usage_view(usage: Usage) -> UsageView:
    return {
        "messages": usage.messages,
        "messages_max": usage.quota.messages_max,
        "content_bytes": usage.content_bytes,
        "bytes_max": usage.quota.bytes_max,
    }


def audit_view(entry: AuditEntry) -> AuditView:
    return {
        "id": entry.id,
        "at": format_time(entry.at),
        "actor": entry.actor,
        "action": entry.action,
        "subject": entry.subject,
        "details": entry.details,
    }


def coverage_view(coverage: Coverage) -> CoverageView:
    return {
        "organization_id": coverage.organization_id,
        "messages": coverage.messages,
        "messages_indexed": coverage.messages_indexed,
        "windows": coverage.windows,
        "windows_indexed": coverage.windows_indexed,
    }


def stats_view(stats: OrganizationStats) -> StatsView:
    counters = stats.counters
    return {
        "organization_id": stats.organization.id,
        "name": stats.organization.name,
        "conversations": counters.conversations,
        "messages": counters.messages,
        "content_bytes": counters.content_bytes,
        "chunks": counters.chunks,
        "vectors": counters.vectors,
        "pending": counters.pending,
    }


def backfill_done(report: BackfillReport) -> BackfillDone:
    return {
        "status": "progress" if report.remaining else "done",
        "processed": report.processed,
        "compressed": report.compressed,
        "skipped_too_small": report.skipped_too_small,
        "remaining": report.remaining,
    }


def _result_view(result: SearchResult) -> SearchResultView:
    view: SearchResultView = {
        "kind": result.kind,
        "score": round(result.score, 4),
        "chunk_id": result.chunk_id,
        "conversation_id": result.conversation.id,
        "conversation_title": result.conversation.title,
        "tags": list(result.conversation.tags),
        "start_sequence": result.start_sequence,
        "end_sequence": result.end_sequence,
        "chunk_text": result.chunk_text,
        "messages": [_found_view(found) for found in result.messages],
    }
    if result.messages and (best := result.messages[0].breakdown):
        view["score_breakdown"] = _breakdown_view(best)
    return view


def _found_view(found: FoundMessage) -> FoundMessageView:
    view: FoundMessageView = {**message_view(found.message), "score": round(found.score, 4)}
    if found.breakdown is not None:
        view["score_breakdown"] = _breakdown_view(found.breakdown)
    return view


def _breakdown_view(breakdown: ScoreBreakdown) -> Mapping[str, Any]:
    return {
        "legs": dict(breakdown.legs),
        "weights": dict(breakdown.weights),
        "fused": breakdown.fused,
        "length_charge": breakdown.length_charge,
        "order": breakdown.order,
    }


def _optional_time(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)
