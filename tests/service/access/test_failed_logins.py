"""Wrong credentials are looked up so often and no more, and right ones always."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram import limits
from engram.errors import TooManyFailedLoginsError
from engram.service.access.rate import FailedLogins
from tests.fakes import FakeClock
from tests.promises import promise

ADDRESS = "10.0.0.1"


def fail(logins: FailedLogins, address: str, times: int) -> int:
    """Try wrong credentials, each another; return how many were looked up."""
    looked_up = 0
    for number in range(times):
        try:
            logins.admit(address, f"wrong {number}")
        except TooManyFailedLoginsError:
            continue
        looked_up += 1
        logins.note_failure(address, f"wrong {number}")
    return looked_up


@promise("rates")
def test_an_address_may_be_wrong_so_often_in_a_minute() -> None:
    clock = FakeClock()
    logins = FailedLogins(clock)

    at_first = fail(logins, ADDRESS, 1_000)
    clock.advance(timedelta(seconds=30))
    after_half_a_minute = fail(logins, ADDRESS, 1_000)
    clock.advance(timedelta(hours=1))
    much_later = fail(logins, ADDRESS, 1_000)

    most = limits.FAILED_LOGINS_PER_ADDRESS_MAX
    assert (at_first, after_half_a_minute, much_later) == (most, most // 2, most)


@promise("rates")
def test_a_refusal_says_when_to_come_back() -> None:
    clock = FakeClock()
    logins = FailedLogins(clock)
    fail(logins, ADDRESS, limits.FAILED_LOGINS_PER_ADDRESS_MAX)

    with pytest.raises(TooManyFailedLoginsError) as refused:
        logins.admit(ADDRESS, "another")
    clock.advance(timedelta(seconds=refused.value.retry_after_s))

    logins.admit(ADDRESS, "another")


def test_a_credential_that_was_right_is_looked_up_whatever_failed() -> None:
    logins = FailedLogins(FakeClock())
    logins.note_success("right")
    fail(logins, ADDRESS, 1_000)

    logins.admit(ADDRESS, "right")
    logins.note_failure(ADDRESS, "right")

    with pytest.raises(TooManyFailedLoginsError):
        logins.admit(ADDRESS, "right")


def test_nobody_is_held_up_for_what_others_failed() -> None:
    logins = FailedLogins(FakeClock())
    for number in range(limits.FAILED_LOGINS_MAX):
        fail(logins, f"10.1.{number // 250}.{number % 250}", 2)

    logins.admit("10.9.9.9", "never seen")
    with pytest.raises(TooManyFailedLoginsError):
        logins.admit("10.1.0.0", "never seen")


@promise("rates")
def test_failures_of_all_addresses_together_have_a_bound() -> None:
    logins = FailedLogins(FakeClock())

    looked_up = sum(fail(logins, f"10.1.0.{number}", 10) for number in range(200))

    assert looked_up <= limits.FAILED_LOGINS_MAX + 200


def test_what_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FAILED_LOGIN_ADDRESSES_MAX", 2)
    monkeypatch.setattr(limits, "KNOWN_CREDENTIALS_MAX", 1)
    logins = FailedLogins(FakeClock())
    for address in ("one", "two", "three"):
        fail(logins, address, limits.FAILED_LOGINS_PER_ADDRESS_MAX)
    logins.note_success("older")
    logins.note_success("newer")

    logins.admit("one", "forgotten, so as good as new")
    logins.admit("three", "newer")
    with pytest.raises(TooManyFailedLoginsError):
        logins.admit("three", "older")


@given(st.integers(0, 2**64 - 1))
def test_the_addresses_of_one_ipv6_network_count_as_one(host: int) -> None:
    address = f"2001:db8:1:2:{host >> 48:x}:{host >> 32 & 0xFFFF:x}:{host >> 16 & 0xFFFF:x}:{host & 0xFFFF:x}"

    assert FailedLogins.network_of(address) == "2001:db8:1:2::/64"


@pytest.mark.parametrize(
    ("address", "network"),
    [("192.0.2.7", "192.0.2.7"), ("::ffff:192.0.2.7", "192.0.2.7"), (None, "local"), ("", "local")],
)
def test_an_ipv4_address_counts_by_itself(address: str | None, network: str) -> None:
    assert FailedLogins.network_of(address) == network
