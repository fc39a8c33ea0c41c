"""Whole turns of real coding agents: what one session stores, the next one recalls."""

from __future__ import annotations

from engram.mcp.server import INSTRUCTIONS
from tests.agents.coding_agents import CodingAgent
from tests.agents.wires import ToolCall

LINE = "The heron stands in the reeds."
TOOLS = {"search", "append_messages", "store_note", "fetch_context"}
STORE = ToolCall(
    tool="append_messages", arguments={"messages": [{"role": "user", "content": LINE}]}
)
RECALL = ToolCall(tool="search", arguments={"query": "heron"})


def test_what_one_session_stores_the_next_recalls_in_lean_lines(agent: CodingAgent) -> None:
    stored = agent.turn("Keep what I said.", STORE)
    recalled = agent.turn("Where is the heron?", RECALL)

    assert "conv_" in stored.answer
    assert f"a1 user: {LINE}" in recalled.answer
    (result,) = recalled.requests[-1].results
    assert f"a1 user: {LINE}" in result.splitlines()
    assert "{" not in result
    for turn in (stored, recalled):
        # From the first request on: a model that has to search for tools often does not.
        assert set(turn.requests[0].tools) >= TOOLS
        assert any(INSTRUCTIONS in text for text in turn.requests[0].texts)
        assert len(turn.requests) == 2
