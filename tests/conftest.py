"""Settings every test shares: one event loop backend and the amount of generated examples."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "engram",
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("thorough", parent=settings.get_profile("engram"), max_examples=1_000)
settings.load_profile("engram")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Return the one event loop Engram runs on."""
    return "asyncio"
