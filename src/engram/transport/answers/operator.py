"""What the operator sees of all organisations."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from engram.clock import format_time
from engram.model.access import Organization
from engram.model.status import BackfillReport, Coverage
from engram.service.operator import OrganizationStats


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


class CoverageView(TypedDict):
    organization_id: str
    messages: int
    messages_indexed: int
    messages_deep: int
    messages_instant: int
    messages_without_vector: int


class CoverageListed(TypedDict):
    organizations: list[CoverageView]


class StatsView(TypedDict):
    organization_id: str
    name: str
    conversations: int
    messages: int
    memories: int
    content_bytes: int
    stored_bytes: int
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


def organization_view(organization: Organization) -> OrganizationView:
    return {
        "id": organization.id,
        "name": organization.name,
        "is_local": organization.is_local,
        "messages_max": organization.quota.messages_max,
        "bytes_max": organization.quota.bytes_max,
        "created_at": format_time(organization.created_at),
    }


def coverage_view(coverage: Coverage) -> CoverageView:
    return {
        "organization_id": coverage.organization_id,
        "messages": coverage.messages,
        "messages_indexed": coverage.messages_indexed,
        "messages_deep": coverage.messages_deep,
        "messages_instant": coverage.messages_instant,
        "messages_without_vector": coverage.messages_without_vector,
    }


def stats_view(stats: OrganizationStats) -> StatsView:
    counters = stats.counters
    return {
        "organization_id": stats.organization.id,
        "name": stats.organization.name,
        "conversations": counters.conversations,
        "messages": counters.messages_of_conversations,
        "memories": counters.memories,
        "content_bytes": counters.content_bytes,
        "stored_bytes": counters.use.stored_bytes,
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
