"""`engram keys` and `engram orgs`: API keys and organisations."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engram.cli.clients import command_line
from engram.cli.invocation import Invocation
from engram.cli.operations import BY_NAME, Given, request_options
from engram.cli.options import Yes, confirm, confirm_name, shared_options, span
from engram.cli.output import print_line, print_notice, short_time, show_table
from engram.cli.serve import is_terminal, server_url
from engram.model.access import KeyDraft, parse_toolsets
from engram.model.ids import OrganizationId
from engram.model.request import parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engram.api.account import KeyCreated, KeyRotated, KeysListed
    from engram.api.admin import OrganizationCreated, OrganizationsListed, OrganizationView
    from engram.model.access import AccountDeletion, ApiKey
    from engram.service import Service


OrganizationOption = Annotated[
    str | None,
    typer.Option("--org", metavar="ID", help="Organisation id. [default: the local one]"),
]
KeyName = Annotated[str, typer.Argument(metavar="NAME", help="What or whom the key is for.")]
Toolsets = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="Comma-separated toolsets the key may use. [default: all]"),
]
Overlap = Annotated[
    str, typer.Option(metavar="SPAN", help="How long the old key stays valid: 90m, 24h, 7d.")
]
OperatorName = Annotated[
    str, typer.Argument(metavar="NAME", help="The operator's name in the audit log.")
]
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The key's id (key_…).")]
OrganizationArgument = Annotated[
    str, typer.Argument(metavar="ORGANISATION", help="The organisation's id.")
]
NameConfirmation = Annotated[
    str | None,
    typer.Option(
        "--name", metavar="NAME", help="The organisation's name, instead of a prompt to confirm."
    ),
]


@shared_options
def list_keys(invocation: Invocation, *, org: OrganizationOption = None) -> None:
    """List an organisation's keys, without their secrets.

    Examples:
      engram keys list
      engram keys list --org org_… --json
    """
    answer: KeysListed = _call_for(invocation, org, "list_keys", {})
    invocation.show(answer, lambda: _print_keys(answer.keys))


@request_options(KeyDraft, without=("name", "toolsets"))
def create_key(
    invocation: Invocation,
    name: KeyName,
    *,
    given: Given,
    toolsets: Toolsets = None,
    org: OrganizationOption = None,
) -> None:
    """Create a key and print it; it is shown only once.

    Examples:
      engram keys create laptop
      engram keys create reader --scope read --scope search --expires 90d
      engram keys create curator --toolsets memories,maintenance
      export ENGRAM_API_KEY=$(engram keys create codex)
    """
    chosen = {} if toolsets is None else {"toolsets": parse_toolsets(toolsets)}
    draft = {"name": name, **given, **chosen}
    answer: KeyCreated = _call_for(invocation, org, "create_key", draft)
    invocation.show(answer, lambda: _print_created(invocation, answer))


@shared_options
def rotate_key(
    invocation: Invocation,
    key: KeyArgument,
    *,
    overlap: Overlap = "24h",
    org: OrganizationOption = None,
) -> None:
    """Replace a key with a new one, shown only once; the old one stays valid for a while.

    Examples:
      engram keys rotate key_…
      engram keys rotate key_… --overlap 7d --json
      engram keys rotate key_… --overlap 0h        expire the old key at once
    """
    overlap_s = int(span("overlap", overlap).total_seconds())
    rotation = {"key_id": key, "overlap_s": overlap_s}
    answer: KeyRotated = _call_for(invocation, org, "rotate_key", rotation)
    invocation.show(answer, lambda: _print_rotated(invocation, answer))


@shared_options
def make_operator_token(invocation: Invocation, name: OperatorName) -> None:
    """Create an operator token and print it once, with its line for the token file.

    Examples:
      engram keys operator-token ada
      engram keys operator-token ada@example.org --json

    Add the line to the file named by ENGRAM_ADMIN_TOKENS_FILE, which only its
    owner may read (chmod 600). A running server reloads the file when it changes.
    """
    from engram.service.access.credentials import new_operator_token

    token, line = new_operator_token(name)
    invocation.show({"token": token, "line": line}, lambda: _print_operator(token, line))


@shared_options
def revoke_key(
    invocation: Invocation, key: KeyArgument, *, org: OrganizationOption = None, yes: Yes = False
) -> None:
    """Revoke a key; it stops working in every process within one second.

    Examples:
      engram keys revoke key_…
      engram keys revoke key_… --org org_… --yes
    """
    confirm(f"Revoke {key}? It can be restored for ten minutes.", yes=yes)
    answer: ApiKey = _call_for(invocation, org, "revoke_key", {"key_id": key})
    invocation.show(answer, lambda: print_line(f"revoked {answer.id} ({answer.name})"))


@shared_options
def restore_key(
    invocation: Invocation, key: KeyArgument, *, org: OrganizationOption = None
) -> None:
    """Make a key work again that was revoked in the last ten minutes.

    Examples:
      engram keys restore key_…
      engram keys restore key_… --org org_…
    """
    answer: ApiKey = _call_for(invocation, org, "restore_key", {"key_id": key})
    invocation.show(answer, lambda: print_line(f"restored {answer.id} ({answer.name})"))


def _call_for(invocation: Invocation, organization: str | None, name: str, given: Given) -> Any:
    """Run an operation as the operator, on behalf of one organisation, and return its answer."""
    operation = BY_NAME[name]
    request = parse(operation.request, given)

    async def acting(service: Service) -> Any:
        chosen = organization or (await service.access.local_principal()).organization_id
        principal = await service.operator.act_for(OrganizationId(chosen))
        return await operation.run(service, principal, request)

    return invocation.run(acting)


def _print_keys(keys: Sequence[ApiKey]) -> None:
    if not keys:
        print_notice("no keys yet; create one with `engram keys create NAME`")
        return
    show_table(
        ("ID", "NAME", "BEGINS WITH", "SCOPES", "TOOLSETS", "CREATED", "LAST USED", "STATE"),
        (
            (
                key.id,
                key.name,
                key.prefix,
                " ".join(key.scopes),
                ",".join(key.toolsets or ()),
                short_time(key.created_at),
                short_time(key.last_used_at) if key.last_used_at else "never",
                _state(key),
            )
            for key in keys
        ),
    )


def _state(key: ApiKey) -> str:
    if key.revoked_at:
        return f"revoked {short_time(key.revoked_at)}"
    return f"until {short_time(key.expires_at)}" if key.expires_at else "live"


def _print_created(invocation: Invocation, answer: KeyCreated) -> None:
    print_line(answer.key)
    print_notice(f"{answer.id} ({answer.name}): the key is shown only once")
    settings = invocation.settings()
    line = command_line(settings, "connect", "--all")
    line += f" --url {shlex.quote(server_url(settings.host, settings.port))}"
    if is_terminal():
        print_notice(f"Connect clients with it: {line} --key {answer.key}")
    else:
        # What captures the key does not want to see it on the terminal.
        print_notice(f"Connect clients that read it from ENGRAM_API_KEY: {line}")


def _print_rotated(invocation: Invocation, answer: KeyRotated) -> None:
    _print_created(invocation, answer)
    if answer.replaced_expires_at is not None:
        print_notice(
            f"{answer.replaces} stays valid until {short_time(answer.replaced_expires_at)}"
        )


def _print_operator(token: str, line: str) -> None:
    print_line(token)
    print_line(line)
    print_notice(
        "the token is shown only once; add the line to ENGRAM_ADMIN_TOKENS_FILE (chmod 600)"
    )


def print_organizations(answer: OrganizationsListed) -> None:
    """List the organisations of this store, oldest first.

    Examples:
      engram orgs list
      engram orgs list --json | jq -r '.organizations[].id'
    """
    if not answer.organizations:
        print_notice("no organisation yet; the local one is created when the store is first used")
        return
    _print_table(answer.organizations)


def print_changed_organization(answer: OrganizationView) -> None:
    """Change an organisation's name or quota; takes effect in every process within a second.

    Examples:
      engram orgs set org_… --bytes-max 50000000
      engram orgs set org_… --no-messages-max --name acme
    """
    _print_table([answer])


def print_created_organization(answer: OrganizationCreated) -> None:
    """Create an organisation and print its id and first key; the key is shown only once.

    Examples:
      engram orgs create acme
      engram orgs create trial --messages-max 10000 --bytes-max 50000000
    """
    print_line(answer.organization_id)
    print_line(answer.api_key)
    print_notice("the key is shown only once; create another with `engram keys create --org …`")


@shared_options
def delete_organization(
    invocation: Invocation, organization: OrganizationArgument, *, name: NameConfirmation = None
) -> None:
    """Delete an organisation, its keys and all its data; this cannot be undone.

    Examples:
      engram orgs delete org_…
      engram orgs delete org_… --name acme
    """
    confirmed = confirm_name(
        f"Delete {organization}, its keys and all its data permanently?", given=name
    )
    answer = invocation.run(
        lambda service: service.operator.delete_organization(
            OrganizationId(organization), name=confirmed
        )
    )
    invocation.show(answer, lambda: _print_deleted(answer))


def _print_table(organizations: Sequence[OrganizationView]) -> None:
    show_table(
        ("ID", "NAME", "CREATED", "MESSAGES MAX", "BYTES MAX"),
        (
            (
                each.id,
                each.name + (" (this machine)" if each.is_local else ""),
                short_time(each.created_at),
                _bound(each.messages_max),
                _bound(each.bytes_max),
            )
            for each in organizations
        ),
    )


def _print_deleted(answer: AccountDeletion) -> None:
    print_line(f"deleted {answer.organization_id}")
    removed = dict(answer.removed)
    counts = [("bytes", removed.pop("content_bytes")), *removed.items()]
    gone = ", ".join(f"{count:,} {name}" for name, count in counts)
    print_notice(f"removed {gone}; receipt {answer.receipt}")


def _bound(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
