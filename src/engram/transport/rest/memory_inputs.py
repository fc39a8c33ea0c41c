"""What REST says of a memory beside the id in its path."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from engram import limits
from engram.model.ids import MemoryId
from engram.model.memory import RelationDraft, RelationType
from engram.model.memory_reading import READING_TOKENS
from engram.transport.requests import MemoryCorrection, Request
from engram.transport.requests.fields import WHOLE, Share, TokenBudget


class Correction(MemoryCorrection):
    """What to change; at least one field, and what is left out stays."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})


class Forgetting(Request):
    reason: str | None = None


class HistoryQuery(Request):
    token_budget: TokenBudget = READING_TOKENS


class PurgeQuery(Request):
    force: Annotated[bool, Field(description="Remove it even if it is immutable.")] = False


class RelationsQuery(Request):
    hops: Annotated[int, Field(ge=1, le=limits.RELATION_HOPS_MAX), WHOLE] = 1


class Connection(Request):
    target_id: str
    relation_type: RelationType = "relates_to"
    strength: Share = 1.0

    def to_draft(self, source_id: str) -> RelationDraft:
        return RelationDraft(
            source_id=MemoryId(source_id),
            target_id=MemoryId(self.target_id),
            relation_type=self.relation_type,
            strength=self.strength,
        )
