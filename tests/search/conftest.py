"""A real store to search in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engram.model.access import OrganizationDraft
from engram.storage.organization import OrganizationStore
from engram.storage.sqlite.store import SqliteStore
from tests.fakes import FakeClock, SequentialIds


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[OrganizationStore]:
    """Yield the empty store of one organisation."""
    opened = SqliteStore(tmp_path / "store", clock=FakeClock(), ids=SequentialIds())
    await opened.open()
    created = await opened.control.create_organization(OrganizationDraft(name="Acme"), actor="test")
    yield await opened.organization(created.id)
    await opened.close()
