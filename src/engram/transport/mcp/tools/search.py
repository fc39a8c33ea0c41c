"""The tool that most sessions begin with, apart from the others so that it starts without them."""

from __future__ import annotations

from typing import Any

from engram.model.access import Principal
from engram.service import Service
from engram.transport import answers, requests
from engram.transport.mcp.tools.tool import Answer, Tool, as_json


async def _search(service: Service, principal: Principal, request: requests.Search) -> Answer:
    return answers.search_answered(await service.recall.search(principal, request.to_model()))


def _show(answer: Answer) -> str:
    quoted = [{**result, "chunk_text": answers.quoted_text(result)} for result in answer["results"]]
    return as_json({**answer, "results": quoted})


SEARCH_TOOLS: tuple[Tool[Any], ...] = (
    Tool(
        name="search",
        title="Search memory",
        description=(
            "Find what was said in any earlier conversation, verbatim. Use it before you answer"
            " what may rest on the past. Read around a result with"
            " get_conversation(around_sequence)."
        ),
        toolset="conversations",
        request=requests.Search,
        answer=answers.SearchAnswered,
        run=_search,
        show=_show,
        reads=True,
    ),
)
