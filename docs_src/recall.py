"""Ask a running Engram over MCP: python docs_src/recall.py URL QUESTION"""

import asyncio
import os
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


async def main(url: str, question: str) -> None:
    headers = {"Authorization": f"Bearer {os.environ['ENGRAM_API_KEY']}"}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(url, http_client=http)) as engram,
    ):
        answer = await engram.call_tool("search", {"query": question})
        assert answer.structured_content is not None
        for result in answer.structured_content["results"]:
            for message in result["messages"]:
                print(message["sequence"], message["role"], message["content"])


asyncio.run(main(*sys.argv[1:]))
