"""What the operator of an installation does, with the operator's token."""

from __future__ import annotations

from fastapi import APIRouter

from engram.model.ids import OrganizationId
from engram.transport import answers, requests
from engram.transport.rest.needs import needs
from engram.transport.rest.routes import Call, JsonRoute

router = APIRouter(route_class=JsonRoute, prefix="/admin", tags=["admin"])

ONE_BATCH = requests.BackfillCompress()
"""What an empty body asks for."""


@router.post("/organizations", operation_id="create_organization", status_code=201)
@needs()
async def create_organization(
    call: Call, body: requests.CreateOrganization
) -> answers.OrganizationCreated:
    """Add an organisation with a first key, shown this once."""
    organization, key = await call.service.operator.create_organization(
        body.to_model(), actor=call.operator
    )
    return {"organization_id": organization.id, "api_key": key.secret}


@router.get("/organizations", operation_id="list_organizations")
@needs()
async def list_organizations(call: Call) -> answers.OrganizationsListed:
    """List every organisation, oldest first."""
    organizations = await call.service.operator.list_organizations()
    return {"organizations": [answers.organization_view(item) for item in organizations]}


@router.patch("/organizations/{organization_id}", operation_id="change_organization")
@needs()
async def change_organization(
    call: Call, organization_id: str, body: requests.ChangeOrganization
) -> answers.OrganizationView:
    """Change an organisation's name or quota; null takes a bound away, what is left out stays."""
    changed = await call.service.operator.change_organization(
        OrganizationId(organization_id), body.to_model(), actor=call.operator
    )
    return answers.organization_view(changed)


@router.delete(
    "/organizations/{organization_id}", operation_id="delete_organization", status_code=204
)
@needs()
async def delete_organization(call: Call, organization_id: str) -> None:
    """Remove an organisation with everything it stored."""
    await call.service.operator.delete_organization(
        OrganizationId(organization_id), actor=call.operator
    )


@router.post("/backfill/compress", operation_id="backfill_compress")
@needs()
async def backfill_compress(
    call: Call, body: requests.BackfillCompress = ONE_BATCH
) -> answers.BackfillDone:
    """Compress one batch of messages that were stored before compression."""
    report = await call.service.operator.backfill_compress(batch_size=body.batch_size)
    return answers.backfill_done(report)


@router.post("/reindex", operation_id="reindex")
@needs()
async def reindex(call: Call) -> answers.Reindexed:
    """Rebuild the windows and word indexes of every organisation."""
    return {"messages": await call.service.operator.reindex()}


@router.get("/coverage", operation_id="coverage")
@needs()
async def coverage(call: Call) -> answers.CoverageListed:
    """Say how complete each organisation's indexes are."""
    found = await call.service.operator.coverage()
    return {"organizations": [answers.coverage_view(item) for item in found]}


@router.get("/stats", operation_id="stats")
@needs()
async def stats(call: Call) -> answers.StatsListed:
    """Say what each organisation holds."""
    found = await call.service.operator.stats()
    return {"organizations": [answers.stats_view(item) for item in found]}
