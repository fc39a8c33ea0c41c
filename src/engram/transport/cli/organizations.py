"""`engram orgs`: the organisations of this store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from engram.transport.cli.confirming import ask_name
from engram.transport.cli.invocation import Invocation
from engram.transport.cli.options import parse, parse_given, shared_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engram.transport.answers import AccountDeleted, OrganizationCreated, OrganizationView

LIST_EXAMPLES = """\b
Examples:
  engram orgs list
  engram orgs list --json | jq -r '.organizations[].id'
"""

CREATE_EXAMPLES = """\b
Examples:
  engram orgs create acme
  engram orgs create trial --messages-max 10000 --bytes-max 50000000
"""

SET_EXAMPLES = """\b
Examples:
  engram orgs set org_… --bytes-max 50000000
  engram orgs set org_… --no-messages-max --name acme
"""

DELETE_EXAMPLES = """\b
Examples:
  engram orgs delete org_…
  engram orgs delete org_… --name acme
"""

Name = Annotated[str, typer.Argument(metavar="NAME", help="What to call it.")]
MessagesMax = Annotated[int | None, typer.Option(min=0, help="Messages it may keep.")]
NameToBeSure = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="The organisation's name, to be sure; else asked."),
]
BytesMax = Annotated[int | None, typer.Option(min=0, help="Bytes it may keep.")]
NewName = Annotated[str | None, typer.Option("--name", help="What to call it from now on.")]
NoMessagesMax = Annotated[
    bool, typer.Option("--no-messages-max", help="Let it keep any number of messages.")
]
NoBytesMax = Annotated[
    bool, typer.Option("--no-bytes-max", help="Let it keep any number of bytes.")
]
OrganizationArgument = Annotated[
    str, typer.Argument(metavar="ORGANISATION", help="The organisation's id.")
]


@shared_options
def list_organizations(invocation: Invocation) -> None:
    """List the organisations of this store, oldest first."""
    from engram.transport.answers import organization_view

    found = invocation.run(lambda service: service.operator.list_organizations())
    views = [organization_view(organization) for organization in found]
    invocation.show({"organizations": views}, lambda: _print_list(views))


@shared_options
def create_organization(
    invocation: Invocation,
    name: Name,
    *,
    messages_max: MessagesMax = None,
    bytes_max: BytesMax = None,
) -> None:
    """Add an organisation and print its first key, this once."""
    from engram.transport.requests import CreateOrganization

    draft = parse(
        CreateOrganization, name=name, messages_max=messages_max, bytes_max=bytes_max
    ).to_model()
    organization, key = invocation.run(lambda service: service.operator.create_organization(draft))
    answer: OrganizationCreated = {"organization_id": organization.id, "api_key": key.secret}
    invocation.show(answer, lambda: _print_created(answer))


@shared_options
def set_organization(
    invocation: Invocation,
    organization: OrganizationArgument,
    *,
    name: NewName = None,
    messages_max: MessagesMax = None,
    no_messages_max: NoMessagesMax = False,
    bytes_max: BytesMax = None,
    no_bytes_max: NoBytesMax = False,
) -> None:
    """Change an organisation's name or quota; every process holds to it within a second."""
    from engram.model.ids import OrganizationId
    from engram.transport.answers import organization_view
    from engram.transport.requests import ChangeOrganization

    given = (
        _given(name=name)
        | _bound_given("messages-max", messages_max, is_lifted=no_messages_max)
        | _bound_given("bytes-max", bytes_max, is_lifted=no_bytes_max)
    )
    change = parse_given(ChangeOrganization, given).to_model()
    changed = invocation.run(
        lambda service: service.operator.change_organization(OrganizationId(organization), change)
    )
    view = organization_view(changed)
    invocation.show(view, lambda: _print_list([view]))


def _given(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _bound_given(option: str, bound: int | None, *, is_lifted: bool) -> dict[str, object]:
    """Return a bound under its field, None to take it away; nothing when neither was typed."""
    from engram.errors import InvalidRequestError

    field = option.replace("-", "_")
    if not is_lifted:
        return _given(**{field: bound})
    if bound is not None:
        raise InvalidRequestError(f"cannot be combined with --{option}", field=f"--no-{option}")
    return {field: None}


@shared_options
def delete_organization(
    invocation: Invocation, organization: OrganizationArgument, *, name: NameToBeSure = None
) -> None:
    """Remove an organisation, its keys and everything it stored; this cannot be undone."""
    from engram.model.ids import OrganizationId
    from engram.transport.answers import account_deleted

    sure = ask_name(f"Delete {organization}, its keys and all it stored, for good?", given=name)
    deleted = invocation.run(
        lambda service: service.operator.delete_organization(
            OrganizationId(organization), name=sure
        )
    )
    answer = account_deleted(deleted)
    invocation.show(answer, lambda: _print_deleted(answer))


def _print_list(views: Sequence[OrganizationView]) -> None:
    from engram.transport.cli.moments import short_time
    from engram.transport.cli.output import notice, show_table

    if not views:
        notice("no organisation yet: the first use of this store makes the local one")
        return
    show_table(
        ("ID", "NAME", "CREATED", "MESSAGES AT MOST", "BYTES AT MOST"),
        (
            (
                view["id"],
                view["name"] + (" (this machine's)" if view["is_local"] else ""),
                short_time(view["created_at"]),
                _bound(view["messages_max"]),
                _bound(view["bytes_max"]),
            )
            for view in views
        ),
    )


def _print_created(answer: OrganizationCreated) -> None:
    from engram.transport.cli.output import notice, say

    say(answer["organization_id"])
    say(answer["api_key"])
    notice("the key is shown this once; `engram keys create --org …` makes another")


def _print_deleted(answer: AccountDeleted) -> None:
    from engram.transport.cli.output import notice, say

    say(f"deleted {answer['organization_id']}")
    gone = ", ".join(f"{count:,} {name}" for name, count in _gone(answer))
    notice(f"gone: {gone}; the receipt is {answer['receipt']}")


def _gone(answer: AccountDeleted) -> list[tuple[str, int]]:
    removed = dict(answer["removed"])
    return [("bytes", removed.pop("content_bytes")), *removed.items()]


def _bound(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
