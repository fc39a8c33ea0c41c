"""What a deployment needs at a size, from costs that were measured and a mix of requests that is assumed.

The costs are those of `bench/costs.json`, which `make bench ARGS=model` measures and compares with the model. The tables
of `docs/scaling.md` are printed from here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engram.limits import DATABASE_CONNECTIONS, HOMES_MAX

COSTS = Path(__file__).with_name("costs.json")
SIZES = tuple(10**power for power in range(4, 10))
DAY_S = 86_400
GB = 1e9
MILLION = 1e6
_SMALL = 0.01
"""What is less is not worth its digits."""


@dataclass(frozen=True, slots=True)
class Line:
    """A cost that grows with the messages of an organisation."""

    fixed: float
    per_million: float

    def at(self, messages: float) -> float:
        """Return the cost in an organisation of so many messages."""
        return self.fixed + self.per_million * messages / MILLION


def line_through(first: tuple[int, float], second: tuple[int, float]) -> Line:
    """Return the line through two measured points."""
    (few, low), (many, high) = first, second
    per_million = MILLION * (high - low) / (many - few)
    return Line(low - per_million * few / MILLION, per_million)


@dataclass(frozen=True, slots=True)
class Costs:
    """What was measured, on PostgreSQL."""

    message_bytes: float
    """With its words and one deep vector."""
    organization_bytes: float
    """Of one that is idle."""
    vector_bytes: float
    """In the memory of a process."""
    process_mb: float
    """Of one with both models, before it has vectors."""
    storing_ms: float
    """Of the processor in the process for a message, its instant vector included."""
    storing_server_ms: float
    embedding_ms: float
    """For the deep vector of a message, in the background."""
    search_ms: Line
    search_server_ms: Line

    @staticmethod
    def load() -> Costs:
        """Return those of the last full measurement."""
        kept = json.loads(COSTS.read_bytes())
        in_process, in_server = kept.pop("search_ms"), kept.pop("search_server_ms")
        return Costs(search_ms=Line(**in_process), search_server_ms=Line(**in_server), **kept)


@dataclass(frozen=True, slots=True)
class Mix:
    """What is assumed of those who use it."""

    organization_messages: int = 1_000
    largest_share: float = 0.01
    """Of all messages, those of the largest organisation."""
    days: int = 365
    """In which the messages came."""
    searches_per_message: float = 0.25
    peak: float = 10.0
    """Times the mean."""
    active_share: float = 0.05
    """Of the organisations, those whose vectors a process has in memory at the peak."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What is planned for one server of a database, and for one process of Engram."""

    disk_gb: float = 500.0
    cores: float = 8.0
    connections: int = 500
    busy: float = 0.5
    """The share of a processor that may be in use at the peak."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a size needs."""

    messages: int
    organizations: int
    disk_gb: float
    stored_per_s: float
    searched_per_s: float
    trips_per_s: float
    processes: int
    embedding_cores: float
    homes: int
    connections: int
    """At each home."""
    process_gb: float
    largest_search_ms: float


APPEND_TRIPS = SEARCH_TRIPS = 3
"""At most; `tests/postgres/test_round_trips.py` counts them."""

APPENDED_AT_ONCE = 2
"""Messages of a call: a question and its answer."""


class Model:
    """Computes what a given size needs, and which limit is reached first."""

    def __init__(
        self, costs: Costs, *, mix: Mix | None = None, machine: Machine | None = None
    ) -> None:
        self._costs = costs
        self._mix = mix or Mix()
        self._machine = machine or Machine()

    def plan(self, messages: int) -> Plan:
        """Return what so many messages need."""
        mix, machine = self._mix, self._machine
        organizations = max(1, messages // mix.organization_messages)
        stored = mix.peak * messages / (mix.days * DAY_S)
        searched = stored * mix.searches_per_message
        disk = self.disk_bytes(messages, organizations) / GB
        processes = _at_least_one(self.process_cores(stored, searched) / machine.busy)
        server_cores = self.server_cores(stored, searched) / machine.busy
        return Plan(
            messages=messages,
            organizations=organizations,
            disk_gb=disk,
            stored_per_s=stored,
            searched_per_s=searched,
            trips_per_s=APPEND_TRIPS * stored / APPENDED_AT_ONCE + SEARCH_TRIPS * searched,
            processes=processes,
            embedding_cores=stored * self._costs.embedding_ms / 1000,
            homes=_at_least_one(max(disk / machine.disk_gb, server_cores / machine.cores)),
            connections=processes * DATABASE_CONNECTIONS,
            process_gb=self.process_bytes(messages * mix.active_share) / GB,
            largest_search_ms=self._costs.search_ms.at(messages * mix.largest_share),
        )

    def disk_bytes(self, messages: float, organizations: float) -> float:
        """Return the bytes of all tables and indexes."""
        return messages * self._costs.message_bytes + organizations * self._costs.organization_bytes

    def process_bytes(self, vectors: float) -> float:
        """Return the memory of a process that has so many vectors."""
        return 1e6 * self._costs.process_mb + vectors * self._costs.vector_bytes

    def process_cores(self, stored: float, searched: float) -> float:
        """Return the processors that requests take in processes of Engram, deep vectors left out."""
        search_ms = self._costs.search_ms.at(self._mix.organization_messages)
        return (stored * self._costs.storing_ms + searched * search_ms) / 1000

    def server_cores(self, stored: float, searched: float) -> float:
        """Return the processors that requests take in the databases."""
        search_ms = self._costs.search_server_ms.at(self._mix.organization_messages)
        return (stored * self._costs.storing_server_ms + searched * search_ms) / 1000

    def limits(self) -> list[tuple[float, str, str]]:
        """Return how many messages reach each limit, what it is, and what helps; the first comes first."""
        # All of these grow with the messages, so that one size tells the others.
        plan = self.plan(SIZES[-1])
        machine, search_ms = self._machine, self._costs.search_ms
        per_core = plan.messages / self.process_cores(plan.stored_per_s, plan.searched_per_s)
        per_server_core = plan.messages / self.server_cores(plan.stored_per_s, plan.searched_per_s)
        processes_max = machine.connections // DATABASE_CONNECTIONS
        per_disk = machine.disk_gb * plan.messages / plan.disk_gb
        found = [
            (
                machine.busy * per_core,
                f"one process at the peak ({machine.busy:.0%} of a core)",
                "a second `engram serve`",
            ),
            (
                plan.messages / plan.embedding_cores,
                "one core for deep vectors at the peak",
                "more processes, or a service as `ENGRAM_EMBEDDER`; a queue until then",
            ),
            (per_disk, f"the disk of one server ({machine.disk_gb:.0f} GB)", "a second home"),
            (
                machine.busy * machine.cores * per_server_core,
                f"the processors of one server ({machine.cores:.0f} cores)",
                "a second home",
            ),
            (
                processes_max * machine.busy * per_core,
                f"the connections of a server ({machine.connections}: {processes_max} processes)",
                "a transaction pooler, or processes for some homes only",
            ),
            (
                per_disk * (HOMES_MAX + 1),
                f"the number of homes ({HOMES_MAX})",
                "Citus, or larger servers",
            ),
            (
                (1_000 - search_ms.fixed) / search_ms.per_million * MILLION,
                "messages of one organisation whose search takes a second of a core, without HNSW",
                "an organisation for each team",
            ),
        ]
        return sorted(found)


def _at_least_one(wanted: float) -> int:
    return max(1, math.ceil(wanted))


def plans() -> str:
    """Return the plans by the costs that were measured last, for the documentation."""
    return "\n".join(plan_table(Model(Costs.load())))


def first_limits() -> str:
    """Return the limits by the same costs."""
    return "\n".join(limit_table(Model(Costs.load())))


def plan_table(model: Model) -> Iterator[str]:
    """Yield the plan of each size as lines of Markdown."""
    yield (
        "| messages | organisations | disk | stored, searched a second | round trips a second "
        "| processes, memory of each | cores for vectors | homes | connections to each | search of the largest |"
    )
    yield "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for plan in map(model.plan, SIZES):
        yield (
            f"| {_power(plan.messages)} | {plan.organizations:,} | {_rounded(plan.disk_gb)} GB "
            f"| {_rounded(plan.stored_per_s)}, {_rounded(plan.searched_per_s)} "
            f"| {_rounded(plan.trips_per_s)} | {plan.processes}, {_rounded(plan.process_gb)} GB "
            f"| {_rounded(plan.embedding_cores)} | {plan.homes} | {plan.connections} "
            f"| {_rounded(plan.largest_search_ms)} ms |"
        )


def limit_table(model: Model) -> Iterator[str]:
    """Yield what breaks at which size as lines of Markdown."""
    yield "| messages | what is full | what helps |"
    yield "| ---: | --- | --- |"
    for messages, name, remedy in model.limits():
        yield f"| {_rounded(messages / MILLION)} million | {name} | {remedy} |"


def _power(messages: int) -> str:
    return f"10^{round(math.log10(messages))}"


def _rounded(value: float) -> str:
    """Return a value in two digits that mean something."""
    if value >= 100:
        return f"{float(f'{value:.2g}'):,.0f}"
    return f"{value:.2g}" if value >= _SMALL else f"< {_SMALL}"
