"""`engram keys`: the API keys of an organisation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from engram.model.access import KEY_SCOPES
from engram.model.toolsets import parse_toolsets
from engram.transport.cli.confirming import Yes, confirm
from engram.transport.cli.invocation import Invocation
from engram.transport.cli.options import parse, shared_options

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import TypeVar

    from engram.model.access import Principal
    from engram.service import Service
    from engram.transport.answers import KeyCreated, KeyRotated, KeyView

    T = TypeVar("T")

LIST_EXAMPLES = """\b
Examples:
  engram keys list
  engram keys list --org org_… --json
"""

CREATE_EXAMPLES = """\b
Examples:
  engram keys create laptop
  engram keys create reader --scope read --scope search --expires 90d
  engram keys create curator --toolsets memories,maintenance
  export ENGRAM_API_KEY=$(engram keys create codex)
"""

REVOKE_EXAMPLES = """\b
Examples:
  engram keys revoke key_…
  engram keys revoke key_… --org org_… --yes
"""

ROTATE_EXAMPLES = """\b
Examples:
  engram keys rotate key_…
  engram keys rotate key_… --overlap 7d --json
  engram keys rotate key_… --overlap 0h        the old one ends at once
"""

OPERATOR_EXAMPLES = """\b
Examples:
  engram keys operator-token ada
  engram keys operator-token ada@example.org --json
\b
The line goes into the file that ENGRAM_ADMIN_TOKENS_FILE names, which only
its owner may read (chmod 600). A running server reads it when it changes.
"""

OrganizationOption = Annotated[
    str | None, typer.Option("--org", metavar="ID", help="Organisation; the local one if left out.")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="What or whom it is for.")]
Scopes = Annotated[
    list[str] | None,
    typer.Option(
        "--scope",
        metavar="|".join(KEY_SCOPES),
        help="What it may do; repeat for more. [default: everything]",
    ),
]
Toolsets = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Toolsets it may use, comma-separated. [default: all]",
    ),
]
Expires = Annotated[
    str | None, typer.Option(metavar="WHEN", help="When it ends: a date, RFC 3339, or 90d, 24h.")
]
Overlap = Annotated[
    str, typer.Option(metavar="SPAN", help="How long the old one goes on: 90m, 24h, 7d.")
]
OperatorName = Annotated[str, typer.Argument(metavar="NAME", help="Who it is, in the audit.")]
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The key's id (key_…).")]


@shared_options
def list_keys(invocation: Invocation, *, org: OrganizationOption = None) -> None:
    """List an organisation's keys, without their secrets."""
    from engram.transport.answers import key_view

    found = _run_for(invocation, org, lambda service, me: service.access.list_keys(me))
    views = [key_view(key) for key in found]
    invocation.show({"keys": views}, lambda: _print_list(views))


@shared_options
def create_key(
    invocation: Invocation,
    name: Name,
    *,
    scope: Scopes = None,
    toolsets: Toolsets = None,
    expires: Expires = None,
    org: OrganizationOption = None,
) -> None:
    """Make a key and print it, this once."""
    from engram.clock import SystemClock
    from engram.transport.answers import key_created
    from engram.transport.cli.moments import future_moment
    from engram.transport.requests import CreateKey

    expires_at = future_moment("expires", expires, now=SystemClock().now())
    draft = parse(
        CreateKey,
        name=name,
        scopes=scope or None,
        toolsets=None if toolsets is None else parse_toolsets(toolsets),
        expires_at=expires_at,
    ).to_model()
    answer = key_created(
        _run_for(invocation, org, lambda service, me: service.access.create_key(me, draft))
    )
    invocation.show(answer, lambda: _print_created(answer))


@shared_options
def rotate_key(
    invocation: Invocation,
    key: KeyArgument,
    *,
    overlap: Overlap = "24h",
    org: OrganizationOption = None,
) -> None:
    """Make a key like another one, and print it, this once; the other goes on for a while."""
    from engram.model.ids import KeyId
    from engram.transport.answers import key_rotated
    from engram.transport.cli.moments import span
    from engram.transport.requests import RotateKey

    asked = parse(RotateKey, overlap_s=int(span("overlap", overlap).total_seconds()))
    answer = key_rotated(
        _run_for(
            invocation,
            org,
            lambda service, me: service.access.rotate_key(
                me, KeyId(key), overlap_s=asked.overlap_s
            ),
        )
    )
    invocation.show(answer, lambda: _print_rotated(answer))


@shared_options
def make_operator_token(invocation: Invocation, name: OperatorName) -> None:
    """Make an operator's token and print it, this once, with its line for the file of tokens."""
    from engram.service.operator_tokens import new_operator_token

    token, line = new_operator_token(name)
    answer = {"token": token, "line": line}
    invocation.show(answer, lambda: _print_operator(token, line))


@shared_options
def revoke_key(
    invocation: Invocation,
    key: KeyArgument,
    *,
    org: OrganizationOption = None,
    yes: Yes = False,
) -> None:
    """Revoke a key; it stops working in every process within one second."""
    from engram.model.ids import KeyId
    from engram.transport.answers import key_view
    from engram.transport.cli.output import say

    confirm(f"Revoke {key} for good?", yes=yes)
    answer = key_view(
        _run_for(invocation, org, lambda service, me: service.access.revoke_key(me, KeyId(key)))
    )
    invocation.show(answer, lambda: say(f"revoked {answer['id']} ({answer['name']})"))


def _run_for(
    invocation: Invocation,
    organization: str | None,
    work: Callable[[Service, Principal], Awaitable[T]],
) -> T:
    """Return what `work` does as the operator acting for one organisation."""
    from engram.model.ids import OrganizationId

    async def acting(service: Service) -> T:
        chosen = organization or (await service.access.local_principal()).organization_id
        return await work(service, await service.operator.act_for(OrganizationId(chosen)))

    return invocation.run(acting)


def _print_list(views: Sequence[KeyView]) -> None:
    from engram.transport.cli.moments import short_time
    from engram.transport.cli.output import notice, show_table

    if not views:
        notice("no keys yet; `engram keys create NAME` makes one")
        return
    show_table(
        ("ID", "NAME", "BEGINS WITH", "SCOPES", "TOOLSETS", "CREATED", "LAST USED", "STATE"),
        (
            (
                view["id"],
                view["name"],
                view["prefix"],
                " ".join(view["scopes"]),
                ",".join(view["toolsets"] or ()),
                short_time(view["created_at"]),
                short_time(view["last_used_at"]) if view["last_used_at"] else "never",
                _state(view),
            )
            for view in views
        ),
    )


def _state(view: KeyView) -> str:
    from engram.transport.cli.moments import short_time

    if view["revoked_at"]:
        return f"revoked {short_time(view['revoked_at'])}"
    return f"until {short_time(view['expires_at'])}" if view["expires_at"] else "live"


def _print_created(answer: KeyCreated) -> None:
    from engram.transport.cli.output import notice, say

    say(answer["key"])
    notice(f"{answer['id']} ({answer['name']}): the key is shown this once")


def _print_rotated(answer: KeyRotated) -> None:
    from engram.transport.cli.moments import short_time
    from engram.transport.cli.output import notice

    _print_created(answer)
    if answer["replaced_expires_at"] is not None:
        notice(f"{answer['replaces']} works until {short_time(answer['replaced_expires_at'])}")


def _print_operator(token: str, line: str) -> None:
    from engram.transport.cli.output import notice, say

    say(token)
    say(line)
    notice("the token is shown this once; the line goes into ENGRAM_ADMIN_TOKENS_FILE (chmod 600)")
