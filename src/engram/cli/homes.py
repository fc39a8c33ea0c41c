"""`engram homes` and `engram orgs move`: databases that have the rows of organisations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from engram.cli.databases import database_settings
from engram.cli.invocation import Invocation
from engram.cli.options import DatabaseUrl, shared_options
from engram.cli.output import print_line, print_notice, progress, show_table
from engram.model.ids import OrganizationId

if TYPE_CHECKING:
    from engram.wiring import HomeView

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The home's name.")]
UrlArgument = Annotated[
    str, typer.Argument(metavar="URL", help="PostgreSQL URL of the home's database.")
]
OrganizationArgument = Annotated[
    str, typer.Argument(metavar="ORGANISATION", help="The organisation's id.")
]
To = Annotated[
    str,
    typer.Option(
        "--to", metavar="NAME", help="Home to move it to; `control` is the control database."
    ),
]
_OUTCOMES = {
    "moved": "moved {id} to {to}; all rows match",
    "there already": "{id} is at {to} already",
    "given up": "gave up the move that was begun; {id} stays at {to}",
}


@shared_options
def add(
    invocation: Invocation,
    name: NameArgument,
    url: UrlArgument,
    *,
    database_url: DatabaseUrl = None,
) -> None:
    """Add a database as a home for organisations, or change the address of one.

    Examples:
      engram homes add eu postgresql://engram_server:secret@eu-db/engram
      engram orgs create acme --at eu

    The database must have no organisations of its own. Its tables are created or
    upgraded if the user may do that; run `engram postgres setup` on it otherwise,
    and give the URL that is printed. The URL is stored in the control database
    with its password, and never shown; leave the password out to have it read
    from a libpq password file on every machine.
    """
    from engram.wiring import add_home

    add_home(database_settings(invocation, database_url), name, url)
    invocation.show({"name": name}, lambda: print_line(f"added {name}"))


@shared_options
def list_homes(invocation: Invocation, *, database_url: DatabaseUrl = None) -> None:
    """List the homes, where they are, and which of them cannot be reached.

    Examples:
      engram homes list
      engram homes list --json
    """
    from engram.wiring import list_homes

    homes = list_homes(database_settings(invocation, database_url))
    invocation.show({"homes": homes}, lambda: _print_homes(homes))


@shared_options
def remove(invocation: Invocation, name: NameArgument, *, database_url: DatabaseUrl = None) -> None:
    """Remove a home that has no organisations; its database stays as it is.

    Examples:
      engram homes remove eu
    """
    from engram.wiring import remove_home

    remove_home(database_settings(invocation, database_url), name)
    invocation.show({"name": name}, lambda: print_line(f"removed {name}"))


@shared_options
def move(
    invocation: Invocation,
    organization: OrganizationArgument,
    *,
    to: To,
    database_url: DatabaseUrl = None,
) -> None:
    """Move an organisation to another home while it is in use.

    Examples:
      engram orgs move org_… --to eu
      engram orgs move org_… --to control

    All rows are copied and compared. Writers wait while the last of them are,
    and go on at the new home; readers do not notice. After an interruption, run
    the same command to resume, or move it to where it is to give up.
    """
    from engram.wiring import move_organization

    settings = database_settings(invocation, database_url)
    with progress("Copying", noun="rows") as advance:
        outcome = move_organization(settings, OrganizationId(organization), to=to, advance=advance)
    answer = {"organization_id": organization, "home": to, "outcome": outcome.replace(" ", "_")}
    invocation.show(answer, lambda: print_line(_OUTCOMES[outcome].format(id=organization, to=to)))


def _print_homes(homes: list[HomeView]) -> None:
    if not homes:
        print_notice("no homes: every organisation is in the control database")
        return
    show_table(
        ("NAME", "DATABASE", "ORGANISATIONS", "STATE"),
        (
            (
                home["name"],
                home["database"],
                f"{home['organizations']:,}",
                "away" if home["is_away"] else "reachable",
            )
            for home in homes
        ),
    )
