"""Which toolset each REST operation belongs to, so that the toolsets of a key rule both protocols.

An operation that is a tool too belongs to the tool's toolset. A test compares this table with the
tools and with the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Mapping

from engram.model.toolsets import Toolset

_OPERATIONS: Mapping[Toolset | None, tuple[str, ...]] = {
    "conversations": (
        "append_messages",
        "append_messages_to_default",
        "create_conversation",
        "delete_conversation",
        "get_conversation",
        "list_conversations",
        "search",
        "search_by_address",
    ),
    "notes": ("fetch_context", "list_entries", "remove_entry", "store_note", "store_notes"),
    "memories": (
        "document_status",
        "get_document",
        "head_document",
        "list_documents",
        "memory_connect",
        "memory_correct",
        "memory_feedback",
        "memory_fetch",
        "memory_forget",
        "memory_history",
        "memory_list",
        "memory_projects",
        "memory_purge",
        "memory_query_document",
        "memory_recall",
        "memory_relations",
        "memory_status",
        "memory_store",
        "memory_store_batch",
        "memory_store_document",
        "memory_timeline",
        "remove_document",
    ),
    "maintenance": (
        "abort_upload",
        "add_part",
        "begin_upload",
        "finish_upload",
        "get_upload",
        "memory_episode_end",
        "memory_episode_list",
        "memory_episode_recall",
        "memory_episode_start",
    ),
    # The account and the operator's operations are ruled by scopes and by the operator's token.
    None: (
        "audit",
        "backfill_compress",
        "change_organization",
        "coverage",
        "create_key",
        "create_organization",
        "delete_account",
        "delete_organization",
        "list_keys",
        "list_organizations",
        "reindex",
        "revoke_key",
        "rotate_key",
        "stats",
        "status",
        "usage",
    ),
}

TOOLSET_OF: Mapping[str, Toolset | None] = {
    name: toolset for toolset, names in _OPERATIONS.items() for name in names
}
"""The toolset of each operation by its name; None where a key's toolsets do not matter."""
