"""The table of all operations, in the order in which clients see them.

engram-go's short forms are here as well: the same operations under other names, with fewer arguments.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from engram.api import (
    account,
    admin,
    browsing,
    conversations,
    deliveries,
    documents,
    erasure,
    exports,
    health,
    maintenance,
    memories,
    notes,
    projects,
    recall,
    retention,
    search,
    trash,
)
from engram.api.operation import AnyOperation, KeyOperation, Operation, Tool, alias
from engram.model.access import Principal
from engram.model.value import Value

if TYPE_CHECKING:
    from engram.service import Service


QUERY_RESULTS = 5
"""What `memory_query` finds if it is not told how many."""

_NAMED = {each.name: each for each in (*memories.STORING, *recall.OPERATIONS)}


class Pong(Value):
    """The store was read."""

    status: Literal["ok"]
    ping: Literal[True]
    ts: datetime


async def ping(service: Service, principal: Principal, _: account.EmptyRequest) -> Pong:
    return Pong(status="ok", ping=True, ts=await service.account.ping(principal))


def _with_limit(given: dict[str, Any]) -> dict[str, Any]:
    if given["top_k"] is None and given["limit"] is None:
        return {**given, "limit": QUERY_RESULTS}
    return given


ALIASES: tuple[KeyOperation, ...] = (
    alias(
        _NAMED["memory_store"],
        "memory_quick_store",
        title="Keep a memory quickly",
        description="memory_store with fewer arguments.",
        fields=("content", "memory_type", "importance", "tags", "project", "immutable"),
    ),
    alias(
        _NAMED["memory_recall"],
        "memory_query",
        title="Query memories",
        description="memory_recall with fewer arguments; finds 5 unless limit says otherwise.",
        fields=(
            "query",
            "project",
            "limit",
            "top_k",
            "mode",
            "detail",
            "include_conflicts",
            "token_budget",
        ),
        complete=_with_limit,
    ),
    Operation(
        name="memory_status_ping",
        description="Ask whether the memory answers.",
        request=account.EmptyRequest,
        answer=Pong,
        run=ping,
        scopes=("read",),
        toolset=memories.TOOLSET,
        tool=Tool(title="Ping", hints=("reads",), is_listed=False),
    ),
)


OPERATIONS: tuple[AnyOperation, ...] = (
    *search.OPERATIONS,
    *conversations.OPERATIONS,
    *notes.OPERATIONS,
    *memories.STORING,
    *recall.OPERATIONS,
    *memories.OPERATIONS,
    *browsing.OPERATIONS,
    *ALIASES,
    *documents.OPERATIONS,
    *maintenance.OPERATIONS,
    *projects.OPERATIONS,
    *trash.OPERATIONS,
    *exports.OPERATIONS,
    *retention.OPERATIONS,
    *account.OPERATIONS,
    *deliveries.OPERATIONS,
    *health.OPERATIONS,
    *erasure.OPERATIONS,
    *admin.OPERATIONS,
)
