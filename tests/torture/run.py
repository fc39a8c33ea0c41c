"""One run: processes on a store, clients, nemeses, and the judgement of what was recorded."""

from __future__ import annotations

import contextlib
import itertools
import secrets
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Any

import httpx
import orjson

from engram.storage.postgres.logins import set_up_login
from tests.postgres.servers import Server as Database
from tests.postgres.servers import running_servers
from tests.torture.checker import Violation, check
from tests.torture.clients import Client, CommandDoor, Door, McpDoor, RestDoor, Tenant
from tests.torture.history import Call, Recorder
from tests.torture.nemeses import Event, Nemeses, Wire
from tests.torture.processes import Command, DiedError, Process, Server, Session

SETTLE_S = 600.0
"""How long everything may take to be ready again at the end, on a machine that is busy."""

FOUND_AGAIN_MAX = 2_000
"""Acknowledged messages of each tenant that are searched for at the end, drawn by the seed."""

FOUND_AGAIN_S = 30.0
"""How long that may take: a search waits for texts that a killed process was to embed."""

_SUPERVISE_S = 0.1
_LOGIN = "engram_server"
_DATABASE = "engram_torture"
_LETTERS = "bcdfghjkmnpqrtvwxz"
"""Names of clients, which are parts of words that must not be shortened."""

LOCAL = "local"


class UnsettledError(Exception):
    """The store could not be used in peace after the nemeses were gone."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run consists of."""

    seed: int
    minutes: float
    servers: int
    sessions: int
    clients: int
    """Clients of each tenant that has no process of its own."""
    embedder: str


@dataclass(slots=True)
class Report:
    """What was done and found."""

    calls: list[Call] = field(default_factory=list[Call])
    events: list[Event] = field(default_factory=list[Event])
    violations: list[Violation] = field(default_factory=list[Violation])
    findings: list[str] = field(default_factory=list[str])
    """What `engram doctor` found at the end."""

    @property
    def is_good(self) -> bool:
        """Whether nothing was found."""
        return not self.violations and not self.findings


@dataclass(slots=True)
class House:
    """The processes on one store, and what nemeses can reach beside them."""

    servers: list[Server]
    sessions: list[Session]
    command: Command
    admin_token: str
    disk: Path | None = None
    database: Database | None = None
    wires: Sequence[Wire] = ()

    @property
    def processes(self) -> list[Process]:
        """Every process of Engram."""
        return [*self.servers, *self.sessions, self.command]

    def deeds(self, nemeses: Nemeses) -> list[list[Callable[[Random], Event | None]]]:
        """Return what can be done to processes, and what to that which they stand on."""
        processes = self.processes
        to_processes: list[Callable[[Random], Event | None]] = [
            partial(nemeses.kill, processes),
            partial(nemeses.pause, processes),
            partial(nemeses.skew, processes),
        ]
        to_ground: list[Callable[[Random], Event | None]] = []
        if self.disk:
            to_ground += [partial(nemeses.fill, self.disk)]
        if self.database:
            to_ground += [
                partial(nemeses.cut, self.wires),
                partial(nemeses.silence, self.wires),
                partial(nemeses.crash, self.database),
            ]
        return [deeds for deeds in (to_processes, to_ground) if deeds]


@contextlib.contextmanager
def sqlite_house(plan: Plan, place: Path, disk: Path | None) -> Generator[House]:
    """Yield processes on a directory, which is on a disk of its own if there is one."""
    token = secrets.token_urlsafe(24)
    settings = {**_settings(plan, token), "HOME": str((disk or place) / "store")}
    yield _furnished(plan, place, token, [settings] * plan.servers, settings, disk=disk)


@contextlib.contextmanager
def postgres_house(plan: Plan, place: Path) -> Generator[House]:
    """Yield processes on a database, each server with a wire of its own to it."""
    with running_servers() as databases, contextlib.ExitStack() as stack:
        database = databases.primary()
        database.execute(f"CREATE DATABASE {_DATABASE}")
        set_up_login(database.url(_DATABASE), login=_LOGIN, with_password=False)
        names = [f"wire-{number}" for number in range(1, plan.servers + 2)]
        wires = [Wire(name, database) for name in names]
        for wire in wires:
            wire.start()
            stack.callback(wire.stop)
        token = secrets.token_urlsafe(24)
        settings = [_settings(plan, token) | _over(wire, place) for wire in wires]
        yield _furnished(
            plan, place, token, settings[:-1], settings[-1], database=database, wires=wires
        )


def _settings(plan: Plan, admin_token: str) -> dict[str, str]:
    return {"EMBEDDER": plan.embedder, "RATE_LIMIT": "0", "ADMIN_TOKEN": admin_token}


def _over(wire: Wire, place: Path) -> dict[str, str]:
    url = f"postgresql://{_LOGIN}@127.0.0.1:{wire.port}/{_DATABASE}"
    return {"HOME": str(place / "home"), "DATABASE_URL": url}


def _furnished(
    plan: Plan,
    place: Path,
    admin_token: str,
    of_servers: Sequence[Mapping[str, str]],
    local: Mapping[str, str],
    **ground: Any,
) -> House:
    servers = [
        Server(f"serve-{number}", settings, place)
        for number, settings in enumerate(of_servers, start=1)
    ]
    sessions = [Session(f"mcp-{number}", local, place) for number in range(1, plan.sessions + 1)]
    return House(servers, sessions, Command("cli", local, place), admin_token, **ground)


def torture(house: House, plan: Plan) -> Report:
    """Run clients and nemeses for as long as planned, settle, and judge.

    Raises:
        UnsettledError: the store cannot be used afterwards.
    """
    recorder = Recorder()
    nemeses = Nemeses(recorder)
    report = Report(events=nemeses.events)
    try:
        _wait_until_ready(house)
        tenants = _tenants(house)
        _work(house, plan, _clients(house, plan, tenants, recorder), tenants, nemeses)
        for process in house.processes:
            process.shift_clock(0)
        _wait_until_ready(house)
        _look_again(house, plan, tenants, recorder)
        report.findings = _doctor(house)
    finally:
        report.calls = recorder.calls()
        for process in house.processes:
            process.stop()
    report.violations = check(report.calls)
    return report


def _tenants(house: House) -> Sequence[Tenant]:
    """Return the local organisation, which all kinds of processes serve, and two that servers do."""
    create = ("keys", "create", "torture", "--json")
    status, printed, said = house.command.run(*create, patience_s=SETTLE_S)
    if status:
        raise UnsettledError(said)
    others = [Tenant(name, _new_key(house, name)) for name in ("acme", "bolt")]
    return [Tenant(LOCAL, orjson.loads(printed)["key"]), *others]


def _new_key(house: House, name: str) -> str:
    made = httpx.post(
        f"{house.servers[0].url}/admin/organizations",
        json={"name": name},
        headers={"Authorization": f"Bearer {house.admin_token}"},
        timeout=SETTLE_S,
    )
    return made.raise_for_status().json()["api_key"]


def _clients(
    house: House, plan: Plan, tenants: Sequence[Tenant], recorder: Recorder
) -> list[Client]:
    local, *others = tenants
    engaged: list[tuple[Tenant, Sequence[Door]]] = [
        *((tenant, _doors(house, tenant)) for tenant in others for _ in range(plan.clients)),
        *((local, (McpDoor(each), _doors(house, local)[0])) for each in house.sessions),
        # Starting a process takes most of a second, so that few calls go this way.
        (local, (CommandDoor(house.command), *_doors(house, local))),
    ]
    return [
        Client(letter, tenant, doors, recorder, Random(f"{plan.seed}/{letter}"))  # noqa: S311 no secret
        for letter, (tenant, doors) in zip(_LETTERS, engaged, strict=False)
    ]


def _doors(house: House, tenant: Tenant) -> list[RestDoor]:
    return [RestDoor(server, tenant.key) for server in house.servers]


def _work(
    house: House,
    plan: Plan,
    clients: Sequence[Client],
    tenants: Sequence[Tenant],
    nemeses: Nemeses,
) -> None:
    """Have everyone work at once; start servers again that have died."""
    is_over = threading.Event()
    working = [threading.Thread(target=each.work, args=(tenants, is_over)) for each in clients]
    for number, deeds in enumerate(house.deeds(nemeses)):
        random = Random(f"{plan.seed}/nemesis/{number}")  # noqa: S311 no secret
        working.append(threading.Thread(target=nemeses.work, args=(deeds, random)))
    for thread in working:
        thread.start()
    until = monotonic() + plan.minutes * 60
    try:
        while monotonic() < until:
            _supervise(house)
            sleep(_SUPERVISE_S)
    finally:
        nemeses.stop()
        is_over.set()
        for thread in working:
            thread.join()


def _supervise(house: House) -> None:
    for server in house.servers:
        if not server.is_running:
            server.start()


def _wait_until_ready(house: House) -> None:
    until = monotonic() + SETTLE_S
    for server in house.servers:
        while not server.is_ready():
            if monotonic() > until:
                raise UnsettledError(f"{server.name} is not ready\n{server.log_end()}")
            _supervise(house)
            sleep(_SUPERVISE_S)


def _look_again(house: House, plan: Plan, tenants: Sequence[Tenant], recorder: Recorder) -> None:
    """Read every conversation through every server, and search for what was acknowledged."""
    random = Random(f"{plan.seed}/again")  # noqa: S311 no secret
    known = recorder.calls()
    for tenant in tenants:
        doors = _doors(house, tenant)
        last = Client("last", tenant, doors, recorder, random)
        for conversation in tenant.all_conversations:
            for door in doors:
                _insist(partial(last.read, conversation, door))
        _find_again(last, _drawn(known, tenant, random), doors)


def _find_again(last: Client, words: Sequence[str], doors: Sequence[Door]) -> None:
    until = monotonic() + FOUND_AGAIN_S
    for word, door in zip(words, itertools.cycle(doors), strict=False):
        if monotonic() < until:
            _insist(partial(last.search, word, door))


def _insist(ask: Callable[[], Call]) -> None:
    """Ask until there is an answer: in peace there must be one."""
    until = monotonic() + SETTLE_S
    while (call := ask()).outcome != "ok" and not call.is_gone:
        if monotonic() > until:
            raise UnsettledError(f"no answer from {call.process}: {call.code}")
        sleep(_SUPERVISE_S)


def _drawn(calls: Sequence[Call], tenant: Tenant, random: Random) -> list[str]:
    acknowledged = [
        word
        for call in calls
        if call.kind == "append" and call.outcome == "ok" and call.tenant == tenant.name
        for word in call.words
    ]
    return random.sample(acknowledged, min(len(acknowledged), FOUND_AGAIN_MAX))


def _doctor(house: House) -> list[str]:
    """Return what `engram doctor` finds once all other processes have ended."""
    for process in house.processes:
        process.stop()
    try:
        status, printed, said = house.command.run("doctor", "--json", patience_s=SETTLE_S)
        found = [str(finding) for finding in orjson.loads(printed)["findings"]]
    except (DiedError, orjson.JSONDecodeError) as exc:
        return [f"it gave no answer: {exc!r}"]
    return found or ([f"it ended with {status}: {said}"] if status else [])
