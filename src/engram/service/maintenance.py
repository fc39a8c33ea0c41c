"""The use cases of the `maintenance` toolset, gathered."""

from __future__ import annotations

from dataclasses import dataclass

from engram.clock import Clock
from engram.embedding.tiers import Tiers
from engram.language.port import LanguageModel
from engram.service.audit_trail import AuditTrail
from engram.service.background import Background
from engram.service.care import Care
from engram.service.consolidation import Consolidation
from engram.service.episodes import Episodes
from engram.service.exporting import Exporting
from engram.service.files import Files
from engram.service.importing import Importing
from engram.service.indexing import Indexer
from engram.service.intake import IntakeFactory
from engram.service.keeping import Keeping
from engram.service.migrating import Migrating
from engram.service.reembedding import Reembedding
from engram.service.summaries import Summaries
from engram.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """What looks after memories: none of it is needed to store or to recall them."""

    care: Care
    consolidation: Consolidation
    episodes: Episodes
    exporting: Exporting
    importing: Importing
    migrating: Migrating
    summaries: Summaries


def build_maintenance(
    store: Store,
    tiers: Tiers,
    *,
    files: Files,
    language: LanguageModel | None,
    keeping: Keeping,
    indexer: Indexer,
    background: Background,
    reembedding: Reembedding,
    trail: AuditTrail,
    clock: Clock,
) -> Maintenance:
    """Return the use cases on an open store."""
    intakes = IntakeFactory(store, keeping=keeping, indexer=indexer, background=background)
    return Maintenance(
        care=Care(store, trail=trail, clock=clock),
        consolidation=Consolidation(
            store, tiers, indexer=indexer, background=background, clock=clock
        ),
        episodes=Episodes(store, clock=clock),
        exporting=Exporting(store, files=files, trail=trail),
        importing=Importing(files=files, intakes=intakes),
        migrating=Migrating(reembedding),
        summaries=Summaries(store, language),
    )
