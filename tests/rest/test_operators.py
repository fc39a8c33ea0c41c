"""Several operators with tokens of their own, and an audit that tells them apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram.errors import ConfigurationError
from engram.http.asgi import create_app
from engram.model.value import replace
from engram.service.access.credentials import new_operator_token
from engram.settings import Settings
from tests.fakes import FakeClock
from tests.promises import promise
from tests.rest.calls import connect, new_key, refusal

pytestmark = promise("operators")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "operators"


async def test_the_audit_says_which_operator_it_was(
    settings: Settings, clock: FakeClock, file: Path
) -> None:
    ada, line = new_operator_token("ada")
    file.write_text(line)
    file.chmod(0o600)
    named = replace(settings, admin_tokens_file=file, admin_token=None)
    app = create_app(named, clock=clock)
    async with (
        app.lifespan(),
        connect(app, ada) as operator,
        connect(app, await new_key(operator)) as client,
    ):
        entries = (await client.get("/api/v1/audit")).json()["entries"]

    assert [(entry["action"], entry["actor"]) for entry in entries] == [
        ("create_key", "operator:ada"),
        ("create_organization", "operator:ada"),
    ]


async def test_a_token_taken_out_of_the_file_stops_working_at_once(
    settings: Settings, clock: FakeClock, file: Path
) -> None:
    ada, line = new_operator_token("ada")
    file.write_text(line)
    file.chmod(0o600)
    app = create_app(replace(settings, admin_tokens_file=file), clock=clock)
    async with app.lifespan(), connect(app, ada) as operator:
        assert (await operator.get("/admin/stats")).status_code == 200

        file.write_text("# nobody")

        assert refusal(await operator.get("/admin/stats")) == (401, "unauthenticated", None)


async def test_a_server_does_not_start_with_a_file_that_others_can_read(
    settings: Settings, file: Path
) -> None:
    file.write_text(new_operator_token("ada")[1])
    file.chmod(0o644)
    app = create_app(replace(settings, admin_tokens_file=file))

    with pytest.raises(ConfigurationError, match="chmod 600"):
        async with app.lifespan():
            pass
