"""Short ways to erase in a test, and to look for what may be left."""

from __future__ import annotations

import random
from pathlib import Path

from engram.model.erasure import ErasureReceipt, ErasureRequest
from engram.model.ids import ErasureId
from engram.storage.organization import OrganizationStore
from tests.storage.drafts import ACTOR

_ALPHABET = "abcdefghjkmnpqrstvwxyz"


def unique_word(seed: int) -> str:
    """Return a word that occurs nowhere else and is not compressed away."""
    chance = random.Random(seed)  # noqa: S311 - no secrets
    return "".join(chance.choice(_ALPHABET) for _ in range(24))


async def finish(organization: OrganizationStore, erasure_id: ErasureId) -> ErasureReceipt:
    """Do what is left of an erasure, as the background does."""
    erasing = organization.erasing
    await erasing.hide(erasure_id)
    while await erasing.remove_some(erasure_id):
        pass
    await erasing.replace_dictionaries()
    await erasing.begin_rewriting(erasure_id, files=0)
    await erasing.rewrite(erasure_id)
    return await erasing.get(erasure_id)


async def erase(organization: OrganizationStore, request: ErasureRequest) -> ErasureReceipt:
    """Erase something and return the receipt."""
    receipt = await organization.erasing.begin(request, actor=ACTOR)
    return await finish(organization, receipt.id)


def places_of(folder: Path, *needles: bytes) -> list[str]:
    """Return the files below a folder that have any of these bytes."""
    return [
        path.name
        for path in sorted(folder.rglob("*"))
        if path.is_file() and any(needle in path.read_bytes() for needle in needles)
    ]
