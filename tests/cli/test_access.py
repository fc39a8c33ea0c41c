"""Organisations and keys, managed by the owner of the store."""

from __future__ import annotations

import hashlib

import pytest
from dirty_equals import IsPartialDict, IsStr

from engram.model.access import KEY_SCOPES
from tests.cli.commands import Engram
from tests.promises import promise

SECRET = r"engram_sk_live_[\w-]{32}"


def test_created_organization_gets_an_id_and_a_key(engram: Engram) -> None:
    created = engram("orgs", "create", "acme", "--messages-max", "10", "--json").json

    listed = engram("orgs", "list", "--json").json

    assert created == {
        "organization_id": IsStr(regex=r"org_[\w-]{21}"),
        "api_key": IsStr(regex=SECRET),
    }
    assert listed["organizations"] == [
        IsPartialDict(
            id=created["organization_id"],
            name="acme",
            is_local=False,
            messages_max=10,
            bytes_max=None,
        )
    ]


def test_text_of_organizations_names_the_local_one(engram: Engram) -> None:
    engram("status")

    listed = engram("orgs", "list")

    assert "local (this machine)" in listed.stdout


def test_no_organization_is_said_on_stderr(engram: Engram) -> None:
    listed = engram("orgs", "list")

    assert (listed.status, listed.stdout) == (0, "")
    assert "no organisation yet" in listed.stderr


def test_changed_organization_has_its_new_quota(engram: Engram) -> None:
    organization = engram("orgs", "create", "acme", "--json").json["organization_id"]

    bounded = engram("orgs", "set", organization, "--bytes-max", "500", "--name", "Acme", "--json")
    shown = engram("orgs", "set", organization, "--messages-max", "9")
    lifted = engram("orgs", "set", organization, "--no-bytes-max", "--json")

    assert bounded.json == IsPartialDict(name="Acme", bytes_max=500, messages_max=None)
    assert "500" in shown.stdout
    assert lifted.json == IsPartialDict(name="Acme", bytes_max=None, messages_max=9)


@pytest.mark.parametrize(
    "options", [(), ("--bytes-max", "1", "--no-bytes-max"), ("--name", ""), ("--bytes-max", "-1")]
)
def test_what_changes_nothing_of_an_organization_is_an_error(
    engram: Engram, options: tuple[str, ...]
) -> None:
    organization = engram("orgs", "create", "acme", "--json").json["organization_id"]

    refused = engram("orgs", "set", organization, *options)

    assert (refused.status, refused.stdout) == (2, "")
    assert "Traceback" not in refused.stderr


def test_deleted_organization_is_gone(engram: Engram) -> None:
    organization = engram("orgs", "create", "acme", "--json").json["organization_id"]

    wrong = engram("orgs", "delete", organization, "--name", "acne")
    deleted = engram("orgs", "delete", organization, "--name", "acme", "--json").json

    assert wrong.status == 2
    assert "organization: must be the organisation's name" in wrong.stderr
    assert deleted == IsPartialDict(
        deleted=True, organization_id=organization, receipt=IsStr(regex="aud_.*")
    )
    assert engram("orgs", "list", "--json").json == {"organizations": []}
    assert engram("orgs", "delete", organization, "--name", "acme").status == 2


def test_revoked_key_is_restored(engram: Engram) -> None:
    key = engram("keys", "create", "laptop", "--json").json
    engram("keys", "revoke", key["id"], "--yes")

    restored = engram("keys", "restore", key["id"])

    assert restored.stdout == f"restored {key['id']} (laptop)\n"
    (listed,) = engram("keys", "list", "--json").json["keys"]
    assert listed["revoked_at"] is None


def test_rotated_key_is_printed_once_and_the_other_ends_later(engram: Engram) -> None:
    old = engram("keys", "create", "laptop", "--scope", "read", "--json").json

    rotated = engram("keys", "rotate", old["id"], "--overlap", "2h")
    listed = engram("keys", "list", "--json").json["keys"]

    assert rotated.stdout.startswith("engram_sk_live_")
    assert f"{old['id']} stays valid until " in rotated.stderr
    assert [(key["name"], key["scopes"]) for key in listed] == [("laptop", ["read"])] * 2
    assert [key["expires_at"] is None for key in listed] == [False, True]


@pytest.mark.parametrize("overlap", ["soon", "31d", "-1h", "2026-01-01"])
def test_overlap_that_is_no_span_or_too_long_is_refused(engram: Engram, overlap: str) -> None:
    old = engram("keys", "create", "laptop", "--json").json

    refused = engram("keys", "rotate", old["id"], f"--overlap={overlap}")

    assert refused.status == 2
    assert "overlap" in refused.stderr


def test_operators_token_comes_with_the_line_that_lets_it_in(engram: Engram) -> None:
    made = engram("keys", "operator-token", "ada", "--json").json

    digest = hashlib.sha256(made["token"].encode()).hexdigest()
    assert made["line"] == f"ada:{digest}"
    assert engram("keys", "operator-token", "a b").status == 2


@promise("secrets")
def test_key_is_printed_alone_and_listed_without_its_secret(engram: Engram) -> None:
    created = engram("keys", "create", "laptop")

    listed = engram("keys", "list", "--json").json["keys"]

    secret = created.stdout.strip()
    assert secret == IsStr(regex=SECRET)
    assert listed == [
        IsPartialDict(name="laptop", prefix=secret[:20], scopes=list(KEY_SCOPES), revoked_at=None)
    ]
    assert secret not in str(listed)


def test_key_takes_toolsets(engram: Engram) -> None:
    created = engram("keys", "create", "curator", "--toolsets", "memories,notes", "--json").json

    listed = engram("keys", "list")

    assert created["toolsets"] == ["notes", "memories"]
    assert "notes,memories" in listed.stdout


def test_key_takes_scopes_and_an_end(engram: Engram) -> None:
    created = engram(
        "keys", "create", "reader", "--scope", "read", "--scope", "search",
        "--expires", "2200-01-01", "--json",
    ).json  # fmt: skip

    assert created == IsPartialDict(
        scopes=["read", "search"],
        expires_at="2200-01-01T00:00:00.000000Z",
        key=IsStr(regex=SECRET),
    )


def test_revoked_key_is_listed_as_revoked(engram: Engram) -> None:
    key = engram("keys", "create", "laptop", "--json").json

    revoked = engram("keys", "revoke", key["id"], "--yes", "--json").json

    assert revoked == IsPartialDict(id=key["id"], revoked_at=IsStr())
    assert "revoked" in engram("keys", "list").stdout


def test_keys_of_one_organization_are_not_those_of_another(engram: Engram) -> None:
    organization = engram("orgs", "create", "acme", "--json").json["organization_id"]
    local = engram("keys", "create", "mine", "--json").json

    theirs = engram("keys", "list", "--org", organization, "--json").json["keys"]
    refused = engram("keys", "revoke", local["id"], "--org", organization, "--yes")

    assert [key["name"] for key in theirs] == ["first key"]
    assert refused.status == 2
    assert "error: not_found: " in refused.stderr


@pytest.mark.parametrize(
    "command",
    [("list",), ("create", "laptop"), ("revoke", "key_unknown", "--yes")],
)
def test_unknown_organization_is_an_error(engram: Engram, command: tuple[str, ...]) -> None:
    refused = engram("keys", *command, "--org", "org_unknown")

    assert (refused.status, refused.stdout) == (2, "")
    assert "error: not_found: " in refused.stderr
    assert "`engram orgs list`" in refused.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("orgs", "delete", "org_x"),
        ("keys", "revoke", "key_x"),
        ("conversations", "delete", "c", "--forever"),
    ],
)
def test_destruction_is_refused_where_nobody_can_be_asked(
    engram: Engram, command: tuple[str, ...]
) -> None:
    refused = engram(*command, stdin="y\n")

    assert refused.status == 2
    assert ("--name" if command[0] == "orgs" else "--yes") in refused.stderr
