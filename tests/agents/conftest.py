"""A model service, servers and stores, and each coding agent with and without them."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.agents.coding_agents import AGENTS, CodingAgent, LocalServer, McpServer, RemoteServer
from tests.agents.memory import ENGRAM, STOP_S, Memory
from tests.agents.model_service import ModelService, model_service
from tools.agents.programs import INSTALLED
from tools.server import running_server


@pytest.fixture
def model() -> Generator[ModelService]:
    """A stand-in for the services of models."""
    with model_service() as service:
        yield service


@pytest.fixture(params=["stdio", "http"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[McpServer]:
    """A server with an empty store: one that agents start, or one that runs."""
    if request.param == "http":
        with running_server(EMBEDDER="none", ENGINE_IDLE="0") as running:
            yield RemoteServer(url=running.url, key=running.create_organization("agents"))
        return
    environment = {"ENGRAM_HOME": str(tmp_path / "store"), "ENGRAM_EMBEDDER": "none"}
    yield LocalServer(command=ENGRAM, environment=environment)
    subprocess.run([ENGRAM, "engine", "stop"], env=environment, check=True, timeout=STOP_S)


@pytest.fixture(params=AGENTS, ids=lambda kind: kind.__name__)
def newcomer(request: pytest.FixtureRequest, model: ModelService, tmp_path: Path) -> CodingAgent:
    """A coding agent of a user who has not heard of Engram."""
    assert (INSTALLED / "installed").exists(), "the agents are not installed: run `make agents`"
    found: CodingAgent = request.param(tmp_path / "home", model)
    found.configure()
    return found


@pytest.fixture
def agent(newcomer: CodingAgent, server: McpServer) -> CodingAgent:
    """A coding agent that knows the server."""
    newcomer.connect(server)
    return newcomer


@pytest.fixture
def memory(newcomer: CodingAgent) -> Generator[Memory]:
    """The empty store of that user, which nothing is connected to."""
    found = Memory(newcomer)
    yield found
    found.run("engine", "stop")
