"""What callers may send about keys, organisations and the audit."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from engram import limits
from engram.model.access import (
    KEY_OVERLAP_S,
    KEY_SCOPES,
    KeyDraft,
    KeyScope,
    OrganizationChange,
    OrganizationDraft,
    Quota,
)
from engram.model.toolsets import Toolset, choose_toolsets
from engram.transport.requests.fields import WHOLE, Moment, Name
from engram.transport.requests.request import Request


class CreateKey(Request):
    name: Name
    scopes: Annotated[list[KeyScope], Field(min_length=1)] = list(KEY_SCOPES)
    toolsets: Annotated[list[Toolset], Field(min_length=1)] | None = None
    expires_at: Moment | None = None

    def to_model(self) -> KeyDraft:
        return KeyDraft(
            name=self.name,
            scopes=tuple(dict.fromkeys(self.scopes)),
            toolsets=None if self.toolsets is None else choose_toolsets(self.toolsets),
            expires_at=self.expires_at,
        )


class RotateKey(Request):
    overlap_s: Annotated[int, Field(ge=0, le=limits.KEY_OVERLAP_S_MAX), WHOLE] = KEY_OVERLAP_S


class DeleteAccount(Request):
    organization: Annotated[str, Field(description="The organisation's name, to be sure.")]


class CreateOrganization(Request):
    name: Name
    messages_max: Annotated[int | None, Field(ge=0, le=limits.WHOLE_NUMBER_MAX), WHOLE] = None
    bytes_max: Annotated[int | None, Field(ge=0, le=limits.WHOLE_NUMBER_MAX), WHOLE] = None

    def to_model(self) -> OrganizationDraft:
        quota = Quota(messages_max=self.messages_max, bytes_max=self.bytes_max)
        return OrganizationDraft(name=self.name, quota=quota)


class ChangeOrganization(Request):
    """What to change in an organisation: what is left out stays, and null takes a bound away."""

    name: Name | None = None
    messages_max: Annotated[int | None, Field(ge=0, le=limits.WHOLE_NUMBER_MAX), WHOLE] = None
    bytes_max: Annotated[int | None, Field(ge=0, le=limits.WHOLE_NUMBER_MAX), WHOLE] = None

    def to_model(self) -> OrganizationChange:
        given = self.model_dump(include=self.model_fields_set)
        if self.name is None:
            given.pop("name", None)
        return OrganizationChange(given=given)


class UsageQuery(Request):
    days: Annotated[int, Field(ge=1, le=limits.USAGE_DAYS_MAX), WHOLE] = 30


class BackfillCompress(Request):
    batch_size: Annotated[int, Field(ge=1, le=limits.BACKFILL_BATCH_MAX), WHOLE] = 500


class AuditQuery(Request):
    limit: Annotated[int, Field(ge=1, le=limits.AUDIT_PAGE_MAX), WHOLE] = 100
    before: Moment | None = None
