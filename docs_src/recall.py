"""Ask a running Engram over MCP: python docs_src/recall.py URL QUESTION"""

import asyncio
import os
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent


async def main(url: str, question: str) -> None:
    headers = {"Authorization": f"Bearer {os.environ['ENGRAM_API_KEY']}"}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(url, http_client=http)) as engram,
    ):
        answer = await engram.call_tool("search", {"query": question})
        for part in answer.content:
            if isinstance(part, TextContent):
                print(part.text)


asyncio.run(main(*sys.argv[1:]))
