"""When an organisation should hear that its quota is nearly used."""

from __future__ import annotations

from engram.model.access import Quota
from engram.model.status import Counters

WARNING_SHARE = 0.8
"""Early enough to act, late enough to matter."""


def quota_warning(quota: Quota, counters: Counters) -> str | None:
    """Return a sentence when a bound of `quota` is at least 80 % used."""
    uses = (
        ("messages", counters.messages, quota.messages_max),
        ("bytes", counters.content_bytes, quota.bytes_max),
    )
    for resource, used, bound in uses:
        if bound is not None and used >= WARNING_SHARE * bound:
            return f"{used:,} of {bound:,} {resource} of the quota are used"
    return None
