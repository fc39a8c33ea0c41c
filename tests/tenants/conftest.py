"""Two organisations behind one application: an owner with something of everything, and a stranger."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from engram.embedding.choice import Hashed
from engram.model.access import OrganizationDraft
from engram.settings import Settings
from engram.transport.asgi import create_app
from engram.wiring import open_service
from tests.tenants.house import House, Party, furnish


@pytest.fixture
async def house(tmp_path: Path) -> AsyncGenerator[House]:
    data = tmp_path / "data"
    data.mkdir()
    settings = Settings(home=tmp_path / "store", embedder=Hashed(), rate_limit=0, data_dir=data)
    app = create_app(settings)
    async with app.lifespan(), open_service(settings) as service:
        parties = list[Party]()
        for name in ("owner", "stranger"):
            _, key = await service.operator.create_organization(OrganizationDraft(name=name))
            principal = await service.access.authenticate(key.secret)
            parties.append(Party(principal, key.secret))
        owner, stranger = parties
        yield House(app, service, owner, stranger, await furnish(service, owner, stranger))
