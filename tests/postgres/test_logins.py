"""Who logs in: owners make the tables, and a user that owns nothing serves."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from engram.cli.databases import login_url
from engram.errors import ConfigurationError, ConflictError
from engram.storage.postgres.logins import set_up_login, warn_of_owner
from tests.cli.commands import Engram
from tests.postgres.databases import as_owner
from tests.postgres.servers import Server
from tests.postgres.stores import new_organization, opened
from tests.storage.drafts import append, begin, read_texts

LOGIN = "clerk"


@pytest.fixture
def owner_url(postgres_server: Server) -> Iterator[str]:
    """Yield the address of an empty database for its owner, who is no superuser."""
    for statement in (
        "CREATE ROLE owner LOGIN CREATEROLE",
        "CREATE DATABASE engram_owned OWNER owner",
        # Another database of this server has made it, for another owner.
        "GRANT engram_app TO owner WITH ADMIN OPTION",
    ):
        postgres_server.execute(statement)
    postgres_server.execute("CREATE EXTENSION vector", database="engram_owned")
    yield postgres_server.socket_url("engram_owned").replace("user=postgres", "user=owner")
    postgres_server.execute("DROP DATABASE engram_owned WITH (FORCE)")
    postgres_server.execute(f"DROP ROLE IF EXISTS {LOGIN}")
    postgres_server.execute("DROP ROLE owner")


def for_login(url: str) -> str:
    return url.replace("user=owner", f"user={LOGIN}")


async def test_no_superuser_is_needed_and_no_owner_once_the_tables_are_there(
    owner_url: str,
) -> None:
    set_up_login(owner_url, login=LOGIN)

    async with opened(for_login(owner_url)) as store:
        organization = await new_organization(store)
        conversation_id = await begin(organization, "one")
        await append(organization, "two", to=conversation_id)

        assert await read_texts(organization, conversation_id) == ["one", "two"]


async def test_the_user_of_a_server_owns_nothing_and_inherits_nothing(owner_url: str) -> None:
    set_up_login(owner_url, login=LOGIN)

    with psycopg.connect(for_login(owner_url), autocommit=True) as driver:
        role = driver.execute(
            "SELECT rolsuper, rolcreaterole, rolcreatedb, rolbypassrls, rolinherit FROM pg_roles"
            " WHERE rolname = current_user"
        ).fetchone()
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            driver.execute("SELECT count(*) FROM engram.organization")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            driver.execute("CREATE TABLE engram.mine (a int)")
    assert role == (False, False, False, False, False)


async def test_setting_up_again_keeps_the_user_and_its_password(owner_url: str) -> None:
    first = set_up_login(owner_url, login=LOGIN)
    second = set_up_login(owner_url, login=LOGIN)

    assert first.password is not None
    assert (second.name, second.password) == (LOGIN, None)


@pytest.mark.parametrize("mighty", ["owner", "postgres"])
async def test_a_user_that_could_put_security_aside_is_refused(owner_url: str, mighty: str) -> None:
    with pytest.raises(ConflictError, match=mighty):
        set_up_login(owner_url, login=mighty)


async def test_a_server_without_tables_is_told_what_makes_them(
    owner_url: str, postgres_server: Server
) -> None:
    postgres_server.execute(f"CREATE ROLE {LOGIN} LOGIN")

    with pytest.raises(ConfigurationError, match="engram postgres setup"):
        async with opened(for_login(owner_url)):
            pass


async def test_a_server_is_told_who_applies_a_migration_that_is_due(
    owner_url: str, postgres_server: Server
) -> None:
    set_up_login(owner_url, login=LOGIN)
    postgres_server.execute(
        "DELETE FROM engram.migration WHERE version = (SELECT max(version) FROM engram.migration)",
        database="engram_owned",
    )

    with pytest.raises(ConfigurationError, match="engram postgres setup"):
        async with opened(for_login(owner_url)):
            pass


async def test_a_user_without_the_role_is_told_what_gives_it(
    owner_url: str, postgres_server: Server
) -> None:
    set_up_login(owner_url, login="engram_other", with_password=False)
    postgres_server.execute(f"CREATE ROLE {LOGIN} LOGIN")

    with pytest.raises(ConfigurationError, match="engram postgres setup"):
        async with opened(for_login(owner_url)):
            pass
    postgres_server.execute("DROP ROLE engram_other")


@pytest.mark.parametrize(("is_owner", "warnings"), [(True, 1), (False, 0)])
async def test_serving_as_the_owner_is_warned_of_once(
    database_url: str, caplog: pytest.LogCaptureFixture, *, is_owner: bool, warnings: int
) -> None:
    warn_of_owner.cache_clear()
    url = as_owner(database_url) if is_owner else database_url

    async with opened(url), opened(url):
        pass

    told = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(told) == warnings
    assert all("engram postgres setup" in record.getMessage() for record in told)


def test_the_command_prints_the_address_for_servers(owner_url: str, tmp_path: Path) -> None:
    engram = Engram(tmp_path)

    made = engram("postgres", "setup", "--database-url", owner_url, "--login", LOGIN, "--json").json
    used = engram("status", "--json", database_url=made["database_url"])
    again = engram("postgres", "setup", "--database-url", owner_url, "--login", LOGIN)

    assert made["login"] == LOGIN
    assert made["password_is_new"] is True
    assert used.status == 0, used.stderr
    assert "keeps its password" in again.stderr
    assert f"//{LOGIN}@" in again.stdout


@pytest.mark.parametrize(
    ("owner", "server"),
    [
        ("postgresql://o:p@db:1,db2:2/engram", "postgresql://clerk:new@db:1,db2:2/engram"),
        ("postgresql://db/engram?user=o&sslmode=require", "postgresql://clerk:new@db/engram?sslmode=require"),
        ("postgresql:///engram?host=/run/pg&password=p", "postgresql://clerk:new@/engram?host=/run/pg"),
    ],
)  # fmt: skip
def test_the_address_for_servers_is_that_of_the_same_database(owner: str, server: str) -> None:
    assert login_url(owner, LOGIN, "new") == server
