"""One seeded run: processes, clients and faults on one store, and the final comparison with the model."""

from __future__ import annotations

import asyncio
import atexit
import gc
import logging
import random
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from engram import limits
from engram.clock import NANOID_ALPHABET, NANOID_LENGTH
from engram.embedding.choice import Hashed, NoEmbedder
from engram.embedding.hashed import IDENTITY, HashedEmbedder
from engram.embedding.port import EmbedderIdentity
from engram.embedding.tiers import Tiers
from engram.errors import (
    EmbedderUnavailableError,
    EngramError,
    StorageError,
    StoreBusyError,
    StoreCorruptError,
)
from engram.model.access import OrganizationDraft, Principal
from engram.model.ids import OrganizationId
from engram.model.memory import MemoryQuery
from engram.model.value import replace
from engram.service import Service
from engram.settings import Settings
from engram.storage.sqlite.descriptors import OPEN_CONNECTIONS, OpenConnections
from engram.storage.sqlite.store import SqliteStore
from engram.wiring import build_service
from tests.simulation.clients import Client, OutcomeUnknownError
from tests.simulation.disk import FaultRates, SimulatedDisk
from tests.simulation.model import Tenant, ViolationError, demand
from tests.simulation.scheduler import SimulatedProcess, World
from tests.simulation.texts import Texts
from tests.simulation.verification import verify

T = TypeVar("T")

STEPS = 4_000
"""Steps of a run unless told otherwise: some hundred operations."""

_START = datetime(2026, 5, 8, 12, 0, tzinfo=UTC)
_SETTLE_STEPS_MAX = 2_000_000
_IDLE_S_MAX = 4 * 3_600.0
"""Virtual time after the last fault within which everything is indexed."""
_TENANTS = 2
_SMALL_LISTS = {
    "PACKED_POSTINGS_MIN": 2,
    "PACKED_BLOCK_POSTINGS": 8,
    "PACKED_LOG_MIN": 4,
    "PACKED_LOG_ROW": 3,
    "PACKED_STEP_POSTINGS": 40,
    "PACKED_STEP_WORDS": 8,
}
"""Bounds with which the few messages of a run have packed posting lists."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a run did."""

    seed: int
    steps: int
    operations: int
    faults: int
    digest: str
    log: Sequence[str]


class FailedRunError(AssertionError):
    """A run in which the store broke a promise; it has the history."""

    def __init__(self, seed: int, steps: int, reason: str, log: Sequence[str]) -> None:
        super().__init__(
            f"seed {seed}: {reason}\nreplay: make simulate SEED={seed} SEEDS=1 STEPS={steps}"
        )
        self.reason = reason
        self.log = log


class _Clock:
    """The clock of one process: it may be wrong, and step."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.offset_s = 0.0

    def now(self) -> datetime:
        return _START + timedelta(seconds=self._world.now_s + self.offset_s)


class _Ids:
    """Identifiers from the seeded generator."""

    def __init__(self, chance: random.Random) -> None:
        self._random = chance

    def new(self, prefix: str) -> str:
        return prefix + "".join(self._random.choices(NANOID_ALPHABET, k=NANOID_LENGTH))


class _SlowEmbedder(HashedEmbedder):
    """A deep model: it takes its time, and is away now and then."""

    def __init__(self, chance: random.Random) -> None:
        self._random = chance

    async def identify(self) -> EmbedderIdentity:
        return replace(IDENTITY, name="slow")

    async def embed_passages(self, passages: Sequence[str]) -> Any:
        await asyncio.sleep(self._random.expovariate(20.0))
        if self._random.random() < 0.02:
            raise EmbedderUnavailableError
        return await super().embed_passages(passages)


class Engram(SimulatedProcess):
    """A process that runs Engram on the shared directory."""

    def __init__(self, world: World, name: str, home: Path, *, embedder: str) -> None:
        super().__init__(world, name)
        self.clock = _Clock(world)
        self.service: Service | None = None
        self.calls: dict[asyncio.Future[Any], None] = {}
        self._home = home
        self._embedder = embedder
        self._background: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Open the store and begin the background work."""
        ids = _Ids(self.world.random)
        store = SqliteStore(self._home, clock=self.clock, ids=ids, scheduler=self)
        await store.open()
        choice = NoEmbedder() if self._embedder == "none" else Hashed()
        settings = Settings(home=self._home, embedder=choice)
        service = build_service(store, self._tiers(), settings, clock=self.clock, ids=ids)
        self._background = self.loop.create_task(service.background.run(service.record_use))
        self.service = service

    def _tiers(self) -> Tiers:
        match self._embedder:
            case "none":
                return Tiers()
            case "hash":
                return Tiers.of(deep=HashedEmbedder())
            case _:
                return Tiers.of(instant=HashedEmbedder(), deep=_SlowEmbedder(self.world.random))


class Simulation:
    """A world with a store, processes and clients."""

    def __init__(self, seed: int, *, steps: int = STEPS, keeps_log: bool = False) -> None:
        self.world = World(seed, keeps_log=keeps_log)
        self.disk = SimulatedDisk(self.world)
        self.tenants: list[Tenant] = []
        self.processes: list[Engram] = []
        self._seed = seed
        self._steps = steps
        self._random = self.world.random
        self._home = Path(tempfile.mkdtemp(prefix="engram-simulation-", dir=_fast_directory()))
        self._outside = SimulatedProcess(self.world, "clients")
        self._embedder = self._random.choice(("none", "hash", "two", "two"))
        self.nemeses: Sequence[str] = self._random.sample(
            _NEMESES, self._random.randint(0, len(_NEMESES))
        )
        self.disk.rates.preempt = self._random.choice((0.005, 0.02, 0.1))
        self._nemeses_per_s = self._random.choice((25.0, 100.0, 300.0))
        self.impatience = 0.04
        """The probability that a client gives up before the answer."""
        self.has_wrong_clocks = False
        self._had_faults = False
        self._was_suspended = False
        self._is_over = False
        self._failure: BaseException | None = None
        self._numbers = 0
        self._nemesis_count = 0
        self._clients: list[Client] = []

    def run(self) -> Report:
        """Run to the end and compare.

        Raises:
            FailedRunError: the store broke a promise.
        """
        try:
            with self.disk.installed():
                try:
                    self._act()
                finally:
                    self._kill_all()
                    self.disk.kill(self._outside)
        except Exception as exc:
            reason = str(exc) if isinstance(exc, ViolationError) else repr(exc)
            log = self.world.log_lines or ()
            raise FailedRunError(self._seed, self._steps, reason, log) from exc
        finally:
            shutil.rmtree(self._home, ignore_errors=True)
        return Report(
            seed=self._seed,
            steps=self.world.steps,
            operations=sum(client.operations for client in self._clients),
            faults=self.disk.faults + self._nemesis_count,
            digest=self.world.digest,
            log=self.world.log_lines or (),
        )

    def _act(self) -> None:
        self._prepare()
        count = self._random.randint(1, 3)
        for _ in range(count):
            self._start_process()
        texts = Texts(self._random)
        for number in range(self._random.randint(2, 5)):
            tenant = self.tenants[number % _TENANTS]
            self._clients.append(self._client(f"c{number}", tenant, texts))
            self._watch(self._run_client(self._clients[-1]))
        if self.nemeses:
            self._schedule_nemesis()
        self._run(lambda: self.world.steps >= self._steps)
        self._settle()

    def _client(self, name: str, tenant: Tenant, texts: Texts) -> Client:
        others = [other for other in self.tenants if other is not tenant]
        return Client(name, tenant, others, installation=self, chance=self._random, texts=texts)

    async def _run_client(self, client: Client) -> None:
        while not self._is_over:
            await client.act()
            await asyncio.sleep(self._random.expovariate(200.0))

    # --- processes -------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Make a store with its tenants, mostly from a copy of one that was made before."""
        if self._random.random() < 0.8:
            directory, principals = _template()
            shutil.copytree(directory, self._home, dirs_exist_ok=True)
            self.tenants = [Tenant(each.organization_id, each) for each in principals]
            self._start_process()
        else:
            self._create_store()

    def make_template(self) -> tuple[Path, tuple[Principal, ...]]:
        """Return a directory with a store, and its tenants."""
        with self.disk.installed():
            self._create_store()
            self._kill_all()
            self.disk.kill(self._outside)
        return self._home, tuple(tenant.principal for tenant in self.tenants)

    def _create_store(self) -> None:
        first = self._new_process()
        created = self._finish(first, self._create_tenants(first))
        self.tenants = [Tenant(principal.organization_id, principal) for principal in created]
        self.processes.append(first)

    async def _create_tenants(self, process: Engram) -> list[Principal]:
        await process.open()
        assert process.service is not None
        operator = process.service.operator
        principals: list[Principal] = []
        for number in range(_TENANTS):
            organization, _ = await operator.create_organization(
                OrganizationDraft(name=f"t{number}")
            )
            principals.append(await operator.act_for(OrganizationId(organization.id)))
        return principals

    def _new_process(self) -> Engram:
        self._numbers += 1
        return Engram(self.world, f"p{self._numbers}", self._home, embedder=self._embedder)

    def _start_process(self) -> None:
        process = self._new_process()
        self.processes.append(process)
        self.log(f"start {process.name}")
        process.spawn(self._open(process))

    async def _open(self, process: Engram) -> None:
        """Open a store, and try again as a supervisor would."""
        while True:
            try:
                await process.open()
            except (EngramError, MemoryError) as exc:
                self._check_error(exc)
                await asyncio.sleep(0.05)
            else:
                return

    def _kill(self, process: Engram) -> None:
        self.log(f"kill {process.name}")
        self.processes.remove(process)
        process.service = None
        self.disk.kill(process)
        for future in list(process.calls):
            if not future.done():
                future.set_exception(OutcomeUnknownError())

    def _kill_all(self) -> None:
        for process in list(self.processes):
            self._kill(process)

    # --- calls of clients ------------------------------------------------------------------------

    def log(self, event: str) -> None:
        """Record an event."""
        self.world.log(event)

    async def call(self, work: Callable[[Service], Awaitable[T]]) -> T:
        """Return what a process answers; some clients give up early."""
        # As a client would, in virtual time.
        while not (ready := [each for each in self.processes if each.service is not None]):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        process = self._random.choice(ready)
        future: asyncio.Future[T] = self._outside.loop.create_future()
        process.calls[future] = None
        task = process.spawn(self._answer(process, work, future))
        if not self._is_over and self._random.random() < self.impatience:
            delay = self._random.expovariate(1000.0)
            process.loop.call_later(delay, task.cancel)
        try:
            return await future
        finally:
            process.calls.pop(future, None)

    async def _answer(
        self, process: Engram, work: Callable[[Service], Awaitable[T]], future: asyncio.Future[T]
    ) -> None:
        assert process.service is not None
        try:
            answer = await work(process.service)
        except asyncio.CancelledError:
            self._settle_call(future, partial(future.set_exception, OutcomeUnknownError()))
            raise
        except Exception as exc:  # noqa: BLE001 given to the client
            self._check_error(exc)
            self._settle_call(future, partial(future.set_exception, exc))
        else:
            self._settle_call(future, partial(future.set_result, answer))

    def _settle_call(self, future: asyncio.Future[Any], settle: Callable[[], None]) -> None:
        def settle_if_awaited() -> None:
            if not future.done():
                settle()

        if self._outside.is_alive:
            self._outside.loop.call_soon(settle_if_awaited)

    def _check_error(self, error: Exception) -> None:
        """Refuse errors that no fault explains."""

        is_ours = isinstance(error, EngramError) or (
            isinstance(error, MemoryError) and self._had_faults
        )
        if not is_ours:
            self._fail(ViolationError(f"a call raised {error!r}"), error)
        if isinstance(error, StoreCorruptError):
            self._fail(ViolationError(f"a store is called damaged that is not: {error!r}"), error)
        # Who waits for a lock while everything is suspended wakes up after its deadline.
        is_late = isinstance(error, StoreBusyError) and self._was_suspended
        if isinstance(error, StorageError) and not self._had_faults and not is_late:
            self._fail(ViolationError(f"a call failed without a fault: {error!r}"), error)

    def _fail(self, failure: BaseException, cause: BaseException | None = None) -> None:
        if self._failure is None:
            failure.__cause__ = cause
            self._failure = failure

    # --- running ---------------------------------------------------------------------------------

    def _watch(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine of a client; its failure is that of the run."""

        async def watched() -> T:
            try:
                return await work
            except BaseException as exc:
                if not isinstance(exc, asyncio.CancelledError):
                    self._fail(exc)
                raise

        return self._outside.spawn(watched())

    def _run(self, is_done: Callable[[], bool]) -> None:
        unhandled = self.world.unhandled
        is_over = lambda: self._failure is not None or bool(unhandled) or is_done()  # noqa: E731
        finished = self.world.run_until(is_over, steps_max=_SETTLE_STEPS_MAX)
        if unhandled:
            self._fail(ViolationError(f"nobody handled {unhandled}"), unhandled[0].get("exception"))
        if self._failure is not None:
            raise self._failure
        demand(finished, "the run does not end")

    def _finish(self, process: SimulatedProcess, work: Coroutine[Any, Any, T]) -> T:
        task = process.spawn(work)
        self._run(task.done)
        return task.result()

    def _settle(self) -> None:
        """End all faults and clients, let the background finish, and compare everything."""
        self._is_over = True
        self._heal()
        self.log("settle")
        if self._random.random() < 0.5:
            self._lose_power()
        while len(self.processes) < 2:
            self._start_process()
        self._run(lambda: all(task.done() for task in self._outside.loop.tasks))
        deadline = self.world.now_s + _IDLE_S_MAX
        pairs = [
            (t, self._client(f"v{n}", t, Texts(self._random))) for n, t in enumerate(self.tenants)
        ]
        while self._finish(self._outside, self._pending()) and self.world.now_s < deadline:
            self._run_for(60.0)
        self._finish(self._outside, verify(self, pairs, self._random))
        demand(not self._finish(self._outside, self._pending()), "work stays pending")

    async def _pending(self) -> int:
        """Return how many texts wait for vectors, and documents for the index."""

        async def count(service: Service) -> int:
            waiting = 0
            for tenant in self.tenants:
                waiting += (await service.account.status(tenant.principal)).counters.pending
                page = await service.documents.list(tenant.principal, MemoryQuery(limit=500))
                waiting += sum(each.document.state == "indexing" for each in page.documents)
            return waiting

        return await self.call(count)

    def _run_for(self, seconds: float) -> None:
        until = self.world.now_s + seconds
        self.world.call_at(until, lambda: None)
        self._run(lambda: self.world.now_s >= until)

    # --- faults ----------------------------------------------------------------------------------

    def _schedule_nemesis(self) -> None:
        delay = self._random.expovariate(self._nemeses_per_s)
        self.world.call_at(self.world.now_s + delay, self._nemesis)

    def _nemesis(self) -> None:
        if self._is_over:
            return
        self._nemesis_count += 1
        getattr(self, f"_{self._random.choice(self.nemeses)}")()
        self._schedule_nemesis()

    def _heal(self) -> None:
        self.disk.rates = FaultRates(preempt=self.disk.rates.preempt)
        self.disk.is_full = False

    def _heal_later(self) -> None:
        delay = self._random.expovariate(50.0)
        self.world.call_at(self.world.now_s + delay, self._heal)

    def _crash(self) -> None:
        if self.processes:
            self._kill(self._random.choice(self.processes))
        delay = self._random.expovariate(100.0)
        self.world.call_at(self.world.now_s + delay, self._start_process)

    def _lose_power(self) -> None:
        count = len(self.processes)
        self._kill_all()
        self.log("power loss")
        self.disk.lose_power()
        for _ in range(count):
            self._start_process()

    def _fill(self) -> None:
        self.log("disk full")
        self._had_faults = self.disk.is_full = True
        self._heal_later()

    def _fail_calls(self) -> None:
        kind = self._random.choice(("read", "write", "sync", "truncate", "memory"))
        self.log(f"faults of {kind}")
        self._had_faults = True
        setattr(self.disk.rates, kind, self._random.choice((0.3, 0.05, 0.01)))
        self._heal_later()

    def _step_clock(self) -> None:
        if self.processes:
            self.has_wrong_clocks = True
            process = self._random.choice(self.processes)
            process.clock.offset_s = self._random.uniform(-1, 1) * self._random.choice(
                (1, 60, 7200)
            )
            self.log(f"clock of {process.name} {process.clock.offset_s:.3f}")

    def _suspend(self) -> None:
        self._was_suspended = True
        self.world.now_s += self._random.choice((1.0, 70.0, 700.0))
        self.log("suspended")


_NEMESES = ("crash", "lose_power", "fill", "fail_calls", "step_clock", "suspend")


@cache
def _fast_directory() -> str | None:
    """Return a directory in memory, if there is one: what is not there cannot be worn out."""
    return "/dev/shm" if sys.platform == "linux" and Path("/dev/shm").is_dir() else None  # noqa: S108


@cache
def _template() -> tuple[Path, tuple[Principal, ...]]:
    directory, principals = Simulation(0).make_template()
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory, principals


@contextmanager
def repeatable_interpreter() -> Generator[None]:
    """Collect no garbage at moments that the seed does not choose, log nothing, and pack small lists."""
    logging.disable(logging.CRITICAL)
    gc.disable()
    large = {name: limits.__dict__[name] for name in _SMALL_LISTS}
    limits.__dict__.update(_SMALL_LISTS)
    try:
        yield
    finally:
        limits.__dict__.update(large)
        gc.enable()
        gc.unfreeze()
        logging.disable(logging.NOTSET)


def run_seed(
    seed: int,
    *,
    steps: int = STEPS,
    keeps_log: bool = False,
    plant: Callable[[Simulation], None] | None = None,
) -> Report:
    """Run one seed; `plant` may put a bug into it.

    Raises:
        FailedRunError: the store broke a promise.
    """
    _template()
    # What is there stays: collections within the run look at its own objects alone.
    gc.collect()
    gc.freeze()
    # Connections of killed processes are not counted, nor are their files kept.
    vars(OPEN_CONNECTIONS).update(vars(OpenConnections()))
    simulation = Simulation(seed, steps=steps, keeps_log=keeps_log)
    if plant is not None:
        plant(simulation)
    return simulation.run()
