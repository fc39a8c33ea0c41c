"""Install the coding agents that the tests in `tests/agents` run, pinned, once.

python -m tools.agents
"""

from __future__ import annotations

from tools.agents.programs import install_agents

if __name__ == "__main__":
    install_agents()
