"""Where the coding agents and the validator of bundles are installed, and how each is started."""

from __future__ import annotations

from pathlib import Path

from tools.node import NODE, install_packages

INSTALLED = Path(__file__).parents[2] / ".coding-agents"
_MODULES = INSTALLED / "node_modules"

CLAUDE_CODE = (NODE, _MODULES / "@anthropic-ai/claude-code/cli-wrapper.cjs")
CODEX = (NODE, _MODULES / "@openai/codex/bin/codex.js")
GEMINI_CLI = (NODE, _MODULES / "@google/gemini-cli/bundle/gemini.js")

MCPB = (NODE, _MODULES / "@anthropic-ai/mcpb/dist/cli/cli.js")
"""The program that validates bundles for Claude Desktop."""


def install_agents() -> None:
    """Install the pinned agents unless they are there already."""
    install_packages(Path(__file__).parent, into=INSTALLED)
