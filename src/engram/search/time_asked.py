"""Mark the candidates that were said in the time of which a query speaks."""

from __future__ import annotations

from engram.model.search import Candidates
from engram.model.value import replace
from engram.text.relative_time import TimeRange

IN_TIME_SHARE_MAX = 0.5
"""A time that holds this share of the candidates or more does not tell them apart."""


def mark_in_time(candidates: Candidates, said_in: TimeRange | None) -> Candidates:
    """Return the candidates, marked by whether they were said in a range of time.

    The share in the range is that among the candidates: the others are not ranked, and counting all
    messages of a store by time would take a scan of them.
    """
    if said_in is None:
        return candidates
    said_at = candidates.said_at
    are_in_time = (said_at >= said_in.start) & (said_at < said_in.end)
    if are_in_time.sum() >= IN_TIME_SHARE_MAX * len(said_at):
        return candidates
    return replace(candidates, are_in_time=are_in_time)
