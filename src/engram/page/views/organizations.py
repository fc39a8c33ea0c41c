"""The organisations of an installation, for its operator: who stores how much, and whose page to open."""

from __future__ import annotations

from typing import cast

from engram.api.admin import OrganizationView, StatsView
from engram.errors import UnauthenticatedError
from engram.model.ids import OrganizationId
from engram.model.value import Value
from engram.page.view import Act, Done, Menu, View
from engram.page.visit import Visit


class OrganizationRow(Value):
    """An organisation with its counters."""

    organization: OrganizationView
    stats: StatsView | None


class OrganizationsPage(Value):
    """Every organisation, oldest first, and the one that the operator acts for."""

    organizations: tuple[OrganizationRow, ...]
    chosen: OrganizationId | None


async def load(visit: Visit) -> OrganizationsPage:
    """Return every organisation with its counters."""
    listed = await visit.call("list_organizations")
    counted = await visit.call("stats")
    stats = {each.organization_id: each for each in counted.organizations}
    rows = tuple(
        OrganizationRow(organization=each, stats=stats.get(each.id))
        for each in listed.organizations
    )
    chosen = visit.principal.organization_id if visit.has_organization else None
    return OrganizationsPage(organizations=rows, chosen=chosen)


async def choose(visit: Visit) -> Done:
    """Let the operator's session act for an organisation, or for none."""
    if visit.secret is None:
        raise UnauthenticatedError
    chosen = visit.sent("organization_id") or None
    await visit.service.sessions.choose_organization(
        visit.secret, cast("OrganizationId | None", chosen)
    )
    return Done(to="/" if chosen else "/organizations")


VIEWS = (
    View(
        path="/organizations",
        template="organizations.html",
        load=load,
        menu=Menu(label="Organisations", place="more"),
        is_operators=True,
    ),
)
ACTS = (Act(path="/organizations/choose", run=choose, is_operators=True),)
