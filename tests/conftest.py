"""What every test shares: one event loop, the amount of generated examples, and interrupts."""

from __future__ import annotations

import inspect
import os
import signal
import sys

import httpx
import pytest
from hypothesis import HealthCheck, settings

from tests.postgres.databases import database_url, postgres_server
from tests.promises import EXAMPLES
from tests.scratch import keep_files_in_memory

__all__ = ["database_url", "postgres_server"]
"""Fixtures: of a session there is one each, so all tests have them from here."""

# A shell that starts the tests in the background has them ignore interrupts, and every process they
# start with them; the tests of interrupts need processes that do not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Loading models takes longer than most tests; those about meaning choose their own embedder.
os.environ["ENGRAM_EMBEDDER"] = "none"  # noqa: TID251 for the processes that tests start
# An engine outlives the process that starts it; those about engines start and stop their own.
os.environ["ENGRAM_ENGINE_IDLE"] = "0"  # noqa: TID251 for the processes that tests start

keep_files_in_memory()

# Where Python is told to keep no compiled code, every worker would compile all tests in every run,
# which takes longer than any of them, and every process that a test starts all of Engram.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # noqa: TID251 for the processes that tests start

# A machine that others use may keep an answer back for longer than the five seconds of the library.
patient = inspect.signature(httpx.Client).parameters["timeout"].default
patient.connect = patient.read = patient.write = patient.pool = 120.0

settings.register_profile(
    "engram",
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("thorough", parent=settings.get_profile("engram"), max_examples=1_000)
settings.load_profile("engram")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run do more than there is time for in every run."""
    parser.addoption("--damages", type=int, default=60, help="how many copies of a store to damage")
    parser.addoption(
        "--every-store",
        action="store_true",
        help="run all of the storage contract at a second home and through a pooler too",
    )
    parser.addoption("--kills", type=int, help="how often to kill exports, and imports")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Return the one event loop Engram runs on."""
    return "asyncio"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what tests have measured: those that record a property `told`."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "told":
                terminalreporter.write_line(f"{report.nodeid}: {value}")
