"""Which connections a full table closes, and whom a sweep blames."""

from __future__ import annotations

import pytest

from engram.http.connections import ConnectionTable, EdgeBounds, address_group
from tests.promises import promise

pytestmark = promise("fair")

BOUNDS = EdgeBounds(connections_max=3, connections_per_address_max=2, sweep_s=1)


class Client:
    """A connection that remembers what was done to it."""

    def __init__(self, address: str = "", *, organization_id: str | None = None) -> None:
        self.address = address or f"host-{id(self)}"
        self.organization_id = organization_id
        self.is_evicted = False
        self.checks: list[float] = []
        self.postponed_s = 0.0

    def evict(self) -> None:
        self.is_evicted = True

    def check(self, now: float) -> None:
        self.checks.append(now)

    def postpone(self, seconds: float) -> None:
        self.postponed_s += seconds


def full_table(*clients: Client) -> ConnectionTable:
    table = ConnectionTable(BOUNDS)
    for client in clients:
        assert table.admit(client)
    return table


def test_the_client_that_waits_longest_gives_way_to_a_new_one() -> None:
    first, second, third = clients = [Client() for _ in range(3)]
    table = full_table(*clients)
    table.stop_waiting(first)
    table.wait(first)

    assert table.admit(Client())

    assert (first.is_evicted, second.is_evicted, third.is_evicted) == (False, True, False)


def test_strangers_give_way_before_known_clients() -> None:
    known, stranger, other = (Client(organization_id=name) for name in ("a", None, "b"))
    table = full_table(known, stranger, other)

    assert table.admit(Client())

    assert stranger.is_evicted
    assert not known.is_evicted


def test_the_organisation_with_the_most_connections_gives_way() -> None:
    good, *hostile = [Client(organization_id=name) for name in ("good", "hostile", "hostile")]
    table = full_table(good, *hostile)

    assert table.admit(Client())

    assert [each.is_evicted for each in (good, *hostile)] == [False, True, False]


def test_the_only_connection_of_an_organisation_stays() -> None:
    clients = [Client(organization_id=name) for name in ("a", "b", "c")]
    table = full_table(*clients)

    assert not table.admit(Client())

    assert not any(each.is_evicted for each in clients)


def test_nobody_gives_way_while_all_are_at_work() -> None:
    clients = [Client() for _ in range(3)]
    table = full_table(*clients)
    for client in clients:
        table.stop_waiting(client)

    assert not table.admit(Client())
    table.remove(clients[0])
    assert table.admit(Client())


def test_an_address_makes_room_among_its_own_connections() -> None:
    stranger, first, second = Client("a"), Client("b"), Client("b")
    table = full_table(stranger, first, second)

    assert table.admit(Client("b"))

    assert (stranger.is_evicted, first.is_evicted) == (False, True)


def test_an_address_at_work_everywhere_is_refused_while_others_are_not() -> None:
    first, second = Client("b"), Client("b")
    table = full_table(first, second)
    for client in (first, second):
        table.stop_waiting(client)

    assert not table.admit(Client("b"))
    assert table.admit(Client("c"))


def test_removing_a_connection_twice_frees_one_place() -> None:
    client = Client("b")
    table = full_table(client, Client("b"))
    table.remove(client)
    table.remove(client)

    assert table.admit(Client("b"))
    table.stop_waiting(client)
    table.wait(client)

    assert not client.is_evicted


def test_a_sweep_that_comes_late_blames_nobody_for_that_time() -> None:
    client = Client()
    table = full_table(client)

    table.sweep(10.0, late_s=0.5)
    table.sweep(40.0, late_s=25.0)

    assert client.checks == [10.0, 40.0]
    assert client.postponed_s == 25.0


@pytest.mark.parametrize(
    ("host", "group"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("", ""),
    ],
)
def test_an_ipv6_site_counts_as_one_address(host: str, group: str) -> None:
    assert address_group(host) == group
