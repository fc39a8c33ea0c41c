"""The judgement on the conformance suite's verdicts."""

from __future__ import annotations

from tools.conformance.__main__ import compare
from tools.conformance.suite import Check


def a_check(name: str, *, status: str) -> Check:
    scenario, _, identifier = name.partition("/")
    return Check(scenario=scenario, id=identifier, status=status, message="")


def test_a_failure_that_was_not_expected_fails_the_run() -> None:
    assert not compare([a_check("ping/ping", status="FAILURE")], [], verbose=False)


def test_an_expected_failure_that_passes_fails_the_run() -> None:
    assert not compare([a_check("ping/ping", status="SUCCESS")], ["ping/*"], verbose=False)


def test_expected_failures_and_successes_pass_the_run() -> None:
    checks = [a_check("ping/ping", status="SUCCESS"), a_check("tasks/get", status="FAILURE")]

    assert compare(checks, ["tasks/*"], verbose=False)
