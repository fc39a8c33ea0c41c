"""Configuration of MCP clients, ready to paste."""

from __future__ import annotations

import json

NAME = "engram"


def server_url(host: str, port: int) -> str:
    """Return the address at which a client of this machine reaches a server bound to `host`."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 compared, not bound
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


def client_configuration(url: str, key: str) -> str:
    """Return how each client is connected with `key`."""
    bearer = f'"Authorization: Bearer {key}"'
    return f"""\
Claude Code
  claude mcp add --transport http {NAME} {url}/mcp --header {bearer}
  or for a whole project, in .mcp.json, with ENGRAM_API_KEY in the environment:
{_indented(mcp_json(url))}

Codex
  export ENGRAM_API_KEY={key}
  codex mcp add {NAME} --url {url}/mcp --bearer-token-env-var ENGRAM_API_KEY

Gemini CLI
  gemini mcp add --transport http {NAME} {url}/mcp --header {bearer}

curl
  curl {url}/api/v1/search -H {bearer} \\
    -H "Content-Type: application/json" -d '{{"query": "what did we decide?"}}'

Without the server and without a key (stdio)
  {STDIO}"""


STDIO = f"claude mcp add {NAME} -- engram mcp"


def mcp_json(url: str) -> str:
    """Return the file that connects a project; `alwaysLoad` keeps the tools in the model's view."""
    server = {
        "type": "http",
        "url": f"{url}/mcp",
        "headers": {"Authorization": "Bearer ${ENGRAM_API_KEY}"},
        "alwaysLoad": True,
    }
    return json.dumps({"mcpServers": {NAME: server}})


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
