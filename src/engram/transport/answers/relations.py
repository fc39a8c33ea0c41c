"""The answers about relations between memories."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

from engram.clock import format_time
from engram.model.memory import Relation, RelationType


class RelationView(TypedDict):
    id: str
    source_id: str
    target_id: str
    relation_type: RelationType
    strength: float
    created_at: str


class RelationsListed(TypedDict):
    relations: list[RelationView]
    count: int


def relations_listed(relations: Sequence[Relation]) -> RelationsListed:
    views = [relation_view(relation) for relation in relations]
    return {"relations": views, "count": len(views)}


def relation_view(relation: Relation) -> RelationView:
    return {
        "id": relation.id,
        "source_id": relation.source_id,
        "target_id": relation.target_id,
        "relation_type": relation.relation_type,
        "strength": relation.strength,
        "created_at": format_time(relation.created_at),
    }
