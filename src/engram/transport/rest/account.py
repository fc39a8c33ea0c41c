"""What an organisation sees of itself: its keys, its status, its audit, and its end."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from engram.model.ids import KeyId
from engram.transport import answers, requests
from engram.transport.rest.needs import needs
from engram.transport.rest.routes import Call, JsonRoute

router = APIRouter(route_class=JsonRoute, prefix="/api/v1", tags=["account"])


A_DAYS_OVERLAP = requests.RotateKey()
"""What an empty body asks for."""


@router.get("/keys", operation_id="list_keys")
@needs("admin")
async def list_keys(call: Call) -> answers.KeysListed:
    """List the organisation's keys; their secrets are not kept."""
    keys = await call.service.access.list_keys(call.principal)
    return {"keys": [answers.key_view(key) for key in keys]}


@router.post("/keys", operation_id="create_key", status_code=201)
@needs("admin")
async def create_key(call: Call, body: requests.CreateKey) -> answers.KeyCreated:
    """Make a key; `key` is shown this once."""
    created = await call.service.access.create_key(call.principal, body.to_model())
    return answers.key_created(created)


@router.delete("/keys/{key_id}", operation_id="revoke_key")
@needs("admin")
async def revoke_key(call: Call, key_id: str) -> answers.KeyView:
    """Revoke a key; it stops working everywhere within one second."""
    return answers.key_view(await call.service.access.revoke_key(call.principal, KeyId(key_id)))


@router.post("/keys/{key_id}/rotate", operation_id="rotate_key", status_code=201)
@needs("admin")
async def rotate_key(
    call: Call, key_id: str, body: requests.RotateKey = A_DAYS_OVERLAP
) -> answers.KeyRotated:
    """Make a key like this one, which goes on working for a while; `key` is shown this once."""
    rotated = await call.service.access.rotate_key(
        call.principal, KeyId(key_id), overlap_s=body.overlap_s
    )
    return answers.key_rotated(rotated)


@router.get("/status", operation_id="status")
@needs("read")
async def status(call: Call) -> answers.StatusView:
    """Say what is stored and how it is searched."""
    return answers.status_view(await call.service.account.status(call.principal))


@router.get("/usage", operation_id="usage")
@needs("read")
async def usage(call: Call, query: Annotated[requests.UsageQuery, Query()]) -> answers.UsageView:
    """Return what is used of the quota, and what was done by day, at most a minute old."""
    used = await call.service.account.usage(call.principal, days=query.days)
    return answers.usage_view(used)


@router.get("/audit", operation_id="audit")
@needs("admin")
async def audit(call: Call, query: Annotated[requests.AuditQuery, Query()]) -> answers.AuditListed:
    """List who did what and when, newest first."""
    entries = await call.service.account.audit(
        call.principal, limit=query.limit, before=query.before
    )
    return {"entries": [answers.audit_view(entry) for entry in entries]}


@router.delete("/account", operation_id="delete_account")
@needs("admin", "delete")
async def delete_account(call: Call, body: requests.DeleteAccount) -> answers.AccountDeleted:
    """Remove the organisation of that name with its keys and everything it stored."""
    deleted = await call.service.account.delete_account(
        call.principal, organization=body.organization
    )
    return answers.account_deleted(deleted)
