"""One table of operations, from which MCP tools, REST routes, commands and the reference are made."""
