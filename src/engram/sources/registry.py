"""Every source that can be imported, by its name."""

from __future__ import annotations

from collections.abc import Mapping

from engram.sources import (
    aider,
    antigravity,
    basic_memory,
    chatgpt,
    claude,
    claude_ai,
    claude_mem,
    cline,
    cloudflare,
    codex,
    copilot,
    cursor,
    gemini,
    goose,
    mem0,
    memory_server,
    memory_service,
    mempalace,
    opencode,
    plain,
    slack,
    zed,
)
from engram.sources.values import Source

SOURCES: Mapping[str, Source] = {
    source.name: source
    for source in (
        claude.SOURCE,
        codex.SOURCE,
        gemini.SOURCE,
        antigravity.SOURCE,
        cursor.SOURCE,
        opencode.SOURCE,
        copilot.SOURCE,
        cline.CLINE,
        cline.ROO,
        zed.SOURCE,
        goose.SOURCE,
        aider.SOURCE,
        chatgpt.SOURCE,
        claude_ai.SOURCE,
        slack.SOURCE,
        plain.SOURCE,
        cloudflare.SOURCE,
        memory_server.SOURCE,
        mem0.SOURCE,
        claude_mem.SOURCE,
        memory_service.SOURCE,
        mempalace.SOURCE,
        basic_memory.SOURCE,
    )
}
