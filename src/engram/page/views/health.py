"""Health: whether what is stored is proved, what works in the background, models, backups and imports."""

from __future__ import annotations

from engram.model.health import Examination, HealthReport
from engram.model.value import Value
from engram.page.view import Act, Menu, Shown, View
from engram.page.visit import Visit


class HealthPage(Value, omit_defaults=True):
    """How a store fares, and what an examination just found."""

    report: HealthReport
    examination: Examination | None = None


async def load(visit: Visit) -> HealthPage:
    """Return how the store fares."""
    return HealthPage(report=await visit.call("health"))


async def examine(visit: Visit) -> Shown:
    """Prove what is stored, as far as the bounds of a request allow."""
    examination = await visit.call("examine")
    report = await visit.call("health")
    return Shown(template="health.html", page=HealthPage(report=report, examination=examination))


VIEWS = (
    View(
        path="/health",
        template="health.html",
        load=load,
        scopes=("read",),
        menu=Menu(label="Health", place="more"),
    ),
)
ACTS = (Act(path="/health/examine", run=examine, scopes=("admin", "read")),)
