"""Two organisations behind one application: an owner with something of everything, and a stranger."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from hypothesis import settings as how_much

from engram.embedding.choice import Hashed
from engram.http.asgi import create_app
from engram.model.access import OrganizationDraft
from engram.settings import Settings
from engram.wiring import open_service
from tests.tenants.house import House, Party, furnish

HISTORIES = how_much(max_examples=25, stateful_step_count=30, deadline=None)
"""How many random histories of tenants there are on each backend, and how long they are."""


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str | None:
    """Return the address of an empty database; nothing, for a store in files."""
    return None if request.param == "sqlite" else request.getfixturevalue("database_url")


@pytest.fixture
async def house(tmp_path: Path, database: str | None) -> AsyncGenerator[House]:
    data = tmp_path / "data"
    data.mkdir()
    settings = Settings(
        home=tmp_path / "store",
        database_url=database,
        embedder=Hashed(),
        rate_limit=0,
        data_dir=data,
    )
    app = create_app(settings)
    async with app.lifespan(), open_service(settings) as service:
        parties = list[Party]()
        for name in ("owner", "stranger"):
            _, key = await service.operator.create_organization(OrganizationDraft(name=name))
            principal = await service.access.authenticate(key.secret)
            parties.append(Party(principal, key.secret))
        owner, stranger = parties
        yield House(app, service, owner, stranger, await furnish(service, owner, stranger))
