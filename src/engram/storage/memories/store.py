"""The memories of one organisation, put together from what can be done with them."""

from __future__ import annotations

from engram.storage.memories.changing import MemoryEditor
from engram.storage.memories.reading import MemoryReader
from engram.storage.memories.relations import RelationStore
from engram.storage.memories.removal import MemoryRemover
from engram.storage.memories.storing import MemoryWriter


class MemoryStore(MemoryReader, MemoryWriter, MemoryEditor, MemoryRemover, RelationStore):
    """The memories of one organisation, their versions, relations, feedback and episodes."""
