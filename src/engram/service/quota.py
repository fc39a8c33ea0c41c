"""When an organisation should hear that its quota is nearly used."""

from __future__ import annotations

import logging

from engram.model.access import Principal, Quota
from engram.model.status import Counters
from engram.storage.organization import OrganizationStore

logger = logging.getLogger(__name__)

WARNING_SHARE = 0.8
"""Early enough to act, late enough to matter."""


def quota_warning(quota: Quota, counters: Counters) -> str | None:
    """Return a sentence when a bound of `quota` is at least 80 % used."""
    use = counters.use
    uses = (
        ("messages", use.messages, quota.messages_max),
        ("bytes", use.stored_bytes, quota.bytes_max),
    )
    for resource, used, bound in uses:
        if bound is not None and used >= WARNING_SHARE * bound:
            return f"{used:,} of {bound:,} {resource} of the quota are used"
    return None


async def find_quota_warning(principal: Principal, store: OrganizationStore) -> str | None:
    """Return the warning that is due after a write, and log it."""
    if principal.quota.is_unbounded:
        return None
    warning = quota_warning(principal.quota, await store.counters())
    if warning:
        logger.warning("organisation %s: %s", principal.organization_id, warning)
    return warning
