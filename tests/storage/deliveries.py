"""A row of the log of what agents were told."""

from __future__ import annotations

from datetime import timedelta

from engram.model.reminder import Delivery
from tests.fakes import SOME_DAY


def told(session: str, *, after_s: int = 0) -> Delivery:
    return Delivery(
        at=SOME_DAY + timedelta(seconds=after_s),
        client="claude",
        session=session,
        event="prompt",
        query="0123456789abcdef",
        shown=("mem_1", "msg_2"),
        bytes=1_200,
        tokens=300,
    )
