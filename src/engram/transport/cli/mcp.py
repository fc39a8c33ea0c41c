"""`engram mcp`, as a command with options."""

from __future__ import annotations

from typing import Annotated

import typer

from engram.transport.cli.invocation import Invocation
from engram.transport.cli.options import shared_options
from engram.transport.cli.stdio import run_mcp

EXAMPLES = """\b
Examples:
  claude mcp add engram -- engram mcp
  engram mcp --toolsets conversations
  ENGRAM_API_KEY=… engram mcp --url https://memory.example.org
\b
Without a URL the local store is opened and no key is needed. Any number of
these may run beside each other and beside `engram serve`.
"""

Toolsets = Annotated[
    str | None, typer.Option(metavar="NAMES", help="Toolsets shown, comma-separated.")
]
Url = Annotated[
    str | None, typer.Option(metavar="URL", help="Relay to this server. [env: ENGRAM_URL]")
]


@shared_options
def mcp(invocation: Invocation, *, toolsets: Toolsets = None, url: Url = None) -> None:
    """Speak MCP over stdin and stdout, as clients start it."""
    run_mcp(invocation, toolsets=toolsets, url=url)
