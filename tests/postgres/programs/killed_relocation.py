"""Move an organisation to another home, and die by kill -9 at a step.

Arguments: the address of the control database, the organisation, the home, and the step.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import closing

from engram.clock import RandomIds, SystemClock
from engram.model.ids import OrganizationId
from engram.storage.postgres import row_sync
from engram.storage.postgres.relocation import HomeAccess, Mover, Step

_ROWS = 40
"""Rows that are sent before a process dies in the middle of copying."""


def move(url: str, organization_id: OrganizationId, home: str, *, last: str) -> None:
    sent = 0

    def tell(step: Step) -> None:
        if step == last:
            os.kill(os.getpid(), signal.SIGKILL)

    def advance(rows: int) -> None:
        nonlocal sent
        sent += rows
        if last == "copying" and sent > _ROWS:
            os.kill(os.getpid(), signal.SIGKILL)

    with closing(HomeAccess(url)) as control:
        mover = Mover(
            control=control, clock=SystemClock(), ids=RandomIds(), tell=tell, advance=advance
        )
        mover.move(organization_id, home)


if __name__ == "__main__":
    row_sync.PIECE_ROWS = 10
    move(sys.argv[1], OrganizationId(sys.argv[2]), sys.argv[3], last=sys.argv[4])
