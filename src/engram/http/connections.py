"""The open connections of a server process: their bounds, how many there are, and which give way."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections import Counter, OrderedDict
from typing import Protocol

from engram import limits
from engram.errors import ConfigurationError
from engram.model.value import Value

_IPV6_SITE_BITS = 64
"""One client of IPv6 usually has this many bits of addresses to itself."""

logger = logging.getLogger(__name__)


class EdgeBounds(Value):
    """Limits on the resources of a client, authenticated or not; times in seconds."""

    connections_max: int = limits.CONNECTIONS_MAX
    connections_per_address_max: int = limits.CONNECTIONS_PER_ADDRESS_MAX
    header_bytes_max: int = limits.HEADER_BYTES_MAX
    headers_max: int = limits.HEADERS_MAX
    header_s: float = limits.HEADER_S
    pipelined_max: int = limits.PIPELINED_REQUESTS_MAX
    transfer_window_s: float = limits.TRANSFER_WINDOW_S
    transfer_bytes_per_s_min: int = limits.TRANSFER_BYTES_PER_S_MIN
    keep_alive_s: float = limits.KEEP_ALIVE_S
    linger_s: float = limits.LINGER_S
    waste_bytes_per_s: float = limits.WASTE_BYTES_PER_S
    sweep_s: float = limits.SWEEP_S
    answers_bytes_max: int = limits.ANSWERS_BYTES_MAX
    answer_grace_s: float = limits.ANSWER_GRACE_S

    @property
    def window_bytes_min(self) -> float:
        """Bytes that must move in each window."""
        return self.transfer_bytes_per_s_min * self.transfer_window_s


class Connection(Protocol):
    """A connection, as the table sees it."""

    address: str
    """The address group that it is counted for."""
    organization_id: str | None
    """The organisation of its last request; None before one was authenticated."""

    def evict(self) -> None:
        """Close it at once; it waits for its client."""
        ...

    def check(self, now: float) -> None:
        """Close it if its client is too slow."""
        ...

    def postpone(self, seconds: float) -> None:
        """Move every deadline: the server itself was late."""
        ...


class Unread:
    """A long answer that is buffered until its client has read it."""

    __slots__ = ("bytes", "organization_id", "sent", "since")

    def __init__(self, size: int, organization_id: str | None, now: float) -> None:
        self.bytes = size
        self.organization_id = organization_id
        self.since = now
        self.sent = 0

    def rate(self, now: float) -> float:
        """Return how many bytes a second the client reads."""
        return self.sent / max(now - self.since, 1e-3)


class UnreadAnswers:
    """Bounds the memory of long answers that their clients have not read to the end.

    Beyond the bound connections are closed: of the organisation that holds the most, the one that is
    read slowest, and none that began just now.
    """

    def __init__(self, bounds: EdgeBounds) -> None:
        self._bounds = bounds
        self._held: dict[Connection, Unread] = {}

    @property
    def bytes(self) -> int:
        """Return how much memory the answers take."""
        return sum(unread.bytes for unread in self._held.values())

    def add(self, connection: Connection, unread: Unread) -> None:
        """Count an answer until `remove`."""
        self._held[connection] = unread
        self.relieve(unread.since)

    def remove(self, connection: Connection) -> None:
        """Count an answer no more; idempotent."""
        self._held.pop(connection, None)

    def relieve(self, now: float) -> None:
        """Close connections until the bound holds, or none may be closed yet."""
        while self.bytes > self._bounds.answers_bytes_max and (slow := self._slowest(now)):
            logger.warning("closing a connection from %s: its answer is not read", slow.address)
            self.remove(slow)
            slow.evict()

    def _slowest(self, now: float) -> Connection | None:
        held = Counter[str | None]()
        for unread in self._held.values():
            held[unread.organization_id] += unread.bytes
        old = [
            (-held[unread.organization_id], unread.rate(now), connection)
            for connection, unread in self._held.items()
            if now - unread.since >= self._bounds.answer_grace_s
        ]
        return min(old, key=lambda each: each[:2])[2] if old else None


class ConnectionTable:
    """Admits connections up to the bounds; when they are reached, those that wait give way.

    A connection waits while no request of its client is at work. Clients that never showed a
    credential give way first, those that have waited longest before others; then a connection of the
    organisation with the most. An organisation's only one never gives way.
    """

    def __init__(self, bounds: EdgeBounds) -> None:
        self.bounds = bounds
        self.answers = UnreadAnswers(bounds)
        self._open: dict[Connection, None] = {}
        self._per_address: Counter[str] = Counter()
        self._strangers: OrderedDict[Connection, None] = OrderedDict()
        self._known: OrderedDict[Connection, None] = OrderedDict()
        self._next_sweep: float | None = None

    def admit(self, connection: Connection) -> bool:
        """Return True if there is room for a new connection, closing another one if need be."""
        if not self._has_room_for(connection.address):
            return False
        self._open[connection] = None
        self._per_address[connection.address] += 1
        self.wait(connection)
        return True

    def remove(self, connection: Connection) -> None:
        """Remove a connection; idempotent."""
        if connection not in self._open:
            return
        del self._open[connection]
        self.stop_waiting(connection)
        self._per_address[connection.address] -= 1
        if not self._per_address[connection.address]:
            del self._per_address[connection.address]

    def wait(self, connection: Connection) -> None:
        """Mark a connection as idle."""
        if connection in self._open:
            queue = self._strangers if connection.organization_id is None else self._known
            queue[connection] = None

    def stop_waiting(self, connection: Connection) -> None:
        """Mark a connection as busy with a request."""
        self._strangers.pop(connection, None)
        self._known.pop(connection, None)

    def start_sweeping(self, loop: asyncio.AbstractEventLoop) -> None:
        """Check all connections periodically while there are any."""
        if self._next_sweep is None:
            self._schedule(loop)

    def sweep(self, now: float, *, late_s: float = 0.0) -> None:
        """Check every connection; the time by which a sweep is late does not count."""
        self.answers.relieve(now)
        for connection in [*self._open]:
            if late_s > self.bounds.sweep_s:
                connection.postpone(late_s)
            connection.check(now)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self._next_sweep = loop.time() + self.bounds.sweep_s
        loop.call_at(self._next_sweep, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        due, self._next_sweep = self._next_sweep, None
        now = loop.time()
        self.sweep(now, late_s=now - (due or now))
        if self._open:
            self._schedule(loop)

    def _has_room_for(self, address: str) -> bool:
        if self._per_address[address] >= self.bounds.connections_per_address_max:
            return self._evict(address)
        if len(self._open) >= self.bounds.connections_max:
            return self._evict(None)
        return True

    def _evict(self, address: str | None) -> bool:
        evicted = self._longest_waiting_stranger(address) or self._most_dispensable(address)
        if evicted is None:
            return False
        self.remove(evicted)
        evicted.evict()
        return True

    def _longest_waiting_stranger(self, address: str | None) -> Connection | None:
        return next((each for each in self._strangers if address in (None, each.address)), None)

    def _most_dispensable(self, address: str | None) -> Connection | None:
        """Return the longest waiting connection of the organisation that has the most waiting."""
        waiting = [each for each in self._known if address in (None, each.address)]
        ((organization_id, count),) = Counter(each.organization_id for each in waiting).most_common(
            1
        ) or [(None, 0)]
        if count <= 1:
            return None
        return next(each for each in waiting if each.organization_id == organization_id)


def address_group(host: str) -> str:
    """Return whom the connections of `host` are counted for: an IPv4 address, or an IPv6 site."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    site = int(address) >> (128 - _IPV6_SITE_BITS)
    return str(ipaddress.IPv6Address(site << (128 - _IPV6_SITE_BITS)))


def refuse_few_files() -> None:
    """Refuse to serve where too few files may be open.

    Raises:
        ConfigurationError: even the hard limit is below what a server needs.
    """
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= hard < limits.OPEN_FILES_MIN:
        message = f"{hard} open files are too few: a server needs at least {limits.OPEN_FILES_MIN}"
        raise ConfigurationError("ulimit -n", message)


def make_room_for(connections: int) -> int:
    """Raise this process's soft limit of open files, and return how many connections it has room for."""
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        return connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + limits.OPEN_FILES_BESIDE_CONNECTIONS
    # A limit below zero is none.
    if not 0 <= soft < wanted:
        return connections
    allowed = min(wanted, hard) if hard >= 0 else wanted
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))
    return connections if allowed == wanted else _fewer(connections, allowed)


def _fewer(connections: int, files: int) -> int:
    """Return how many connections leave half of the files to everything else."""
    possible = min(connections, files // 2)
    if possible < connections:
        logger.warning(
            "the limit of %d open files leaves room for %d connections, not %d",
            files,
            possible,
            connections,
        )
    return possible
