"""Operations of the operator of an installation, which need the operator's token."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from engram import limits
from engram.api.account import EmptyRequest, shown_counters
from engram.api.operation import Command, Operation, OperatorOperation, Route
from engram.model.access import Organization, OrganizationChange, OrganizationDraft
from engram.model.fields import Between
from engram.model.ids import OrganizationId
from engram.model.request import Request
from engram.model.status import BackfillReport, Coverage
from engram.model.value import Value, derived

if TYPE_CHECKING:
    from engram.service import Service

GROUP = "admin"


class OrganizationReference(Request):
    """Names one organisation."""

    organization_id: OrganizationId


class OneOrganizationChange(OrganizationChange):
    """Changes to one organisation."""

    organization_id: OrganizationId


class CompressionBatch(Request):
    """How many messages to examine."""

    batch_size: Annotated[int, Between(1, limits.BACKFILL_BATCH_MAX)] = 500


class OrganizationCreated(Value):
    """A new organisation, and the secret of its first key."""

    organization_id: OrganizationId
    api_key: str


class OrganizationView(Value):
    """An organisation and its quota."""

    id: OrganizationId
    name: str
    is_local: bool
    messages_max: int | None
    bytes_max: int | None
    created_at: datetime
    home: str | None


class OrganizationsListed(Value):
    """Every organisation, oldest first."""

    organizations: tuple[OrganizationView, ...]


class CoverageListed(Value):
    """How complete the indexes of each organisation are."""

    organizations: tuple[Coverage, ...]


class StatsView(Value):
    """Counts of what one organisation stores."""

    organization_id: OrganizationId
    name: str
    conversations: int
    messages: int
    memories: int
    content_bytes: int
    stored_bytes: int
    chunks: int
    vectors: int
    pending: int


class StatsListed(Value):
    """Counts of what each organisation stores."""

    organizations: tuple[StatsView, ...]


class Reindexed(Value):
    """How many messages were reindexed."""

    messages: int


async def create_organization(
    service: Service, actor: str, request: OrganizationDraft
) -> OrganizationCreated:
    organization, key = await service.operator.create_organization(request, actor=actor)
    return OrganizationCreated(organization_id=organization.id, api_key=key.secret)


async def list_organizations(service: Service, _: str, __: EmptyRequest) -> OrganizationsListed:
    found = await service.operator.list_organizations()
    return OrganizationsListed(organizations=tuple(map(organization_view, found)))


async def change_organization(
    service: Service, actor: str, request: OneOrganizationChange
) -> OrganizationView:
    return organization_view(
        await service.operator.change_organization(request.organization_id, request, actor=actor)
    )


def organization_view(organization: Organization) -> OrganizationView:
    """Return an organisation with its quota flattened into its fields."""
    return derived(OrganizationView, organization, organization.quota)


async def delete_organization(service: Service, actor: str, request: OrganizationReference) -> None:
    await service.operator.delete_organization(request.organization_id, actor=actor)


async def reindex(service: Service, _: str, __: EmptyRequest) -> Reindexed:
    return Reindexed(messages=await service.operator.reindex())


async def coverage(service: Service, _: str, __: EmptyRequest) -> CoverageListed:
    return CoverageListed(organizations=await service.operator.coverage())


async def stats(service: Service, _: str, __: EmptyRequest) -> StatsListed:
    return StatsListed(
        organizations=tuple(
            StatsView(
                organization_id=each.organization.id,
                name=each.organization.name,
                stored_bytes=each.counters.use.stored_bytes,
                **shown_counters(each.counters),
            )
            for each in await service.operator.stats()
        )
    )


OPERATIONS: tuple[OperatorOperation, ...] = (
    Operation(
        name="create_organization",
        description="Add an organisation with a first key, shown this once.",
        request=OrganizationDraft,
        answer=OrganizationCreated,
        run=create_organization,
        group=GROUP,
        is_operators=True,
        routes=(Route(method="POST", path="/admin/organizations", status=201),),
        command=Command(words=("orgs", "create"), arguments=("name",)),
    ),
    Operation(
        name="list_organizations",
        description="List every organisation, oldest first.",
        request=EmptyRequest,
        answer=OrganizationsListed,
        run=list_organizations,
        group=GROUP,
        is_operators=True,
        routes=(Route(method="GET", path="/admin/organizations"),),
        command=Command(words=("orgs", "list")),
    ),
    Operation(
        name="change_organization",
        description="Change an organisation's name or quota; null takes a bound away, what is left"
        " out stays.",
        request=OneOrganizationChange,
        answer=OrganizationView,
        run=change_organization,
        group=GROUP,
        is_operators=True,
        routes=(Route(method="PATCH", path="/admin/organizations/{organization_id}"),),
        command=Command(
            words=("orgs", "set"),
            arguments=("organization_id",),
            removable=("messages_max", "bytes_max"),
        ),
    ),
    Operation(
        name="delete_organization",
        description="Remove an organisation with everything it stored.",
        request=OrganizationReference,
        answer=type(None),
        run=delete_organization,
        group=GROUP,
        is_operators=True,
        routes=(Route(method="DELETE", path="/admin/organizations/{organization_id}", status=204),),
    ),
    Operation(
        name="backfill_compress",
        description="Compress one batch of messages that were stored before compression.",
        request=CompressionBatch,
        answer=BackfillReport,
        run=lambda service, _, request: service.operator.backfill_compress(
            batch_size=request.batch_size
        ),
        group=GROUP,
        is_operators=True,
        routes=(Route(method="POST", path="/admin/backfill/compress"),),
    ),
    Operation(
        name="reindex",
        description="Rebuild the windows and word indexes of every organisation.",
        request=EmptyRequest,
        answer=Reindexed,
        run=reindex,
        group=GROUP,
        is_operators=True,
        routes=(Route(method="POST", path="/admin/reindex", body="none"),),
    ),
    Operation(
        name="coverage",
        description="Say how complete each organisation's indexes are.",
        request=EmptyRequest,
        answer=CoverageListed,
        run=coverage,
        group=GROUP,
        is_operators=True,
        routes=(Route(method="GET", path="/admin/coverage"),),
    ),
    Operation(
        name="stats",
        description="Say what each organisation holds.",
        request=EmptyRequest,
        answer=StatsListed,
        run=stats,
        group=GROUP,
        is_operators=True,
        routes=(Route(method="GET", path="/admin/stats"),),
    ),
)
