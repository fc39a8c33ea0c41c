"""The wire formats in which coding agents ask their models, as far as a turn needs them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SERVER = "engram"
"""The name under which agents know the MCP server."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that the model makes: one of our tools, by the name that the server gives it."""

    tool: str
    arguments: Json
    says: str | None = None
    """What a sub-agent says to its prompt; the tool that starts it is the agent's own."""

    def starts(self, shown: Shown) -> bool:
        """Return True if this is what the sub-agent of this call asks first."""
        return (
            self.says is not None
            and not shown.results
            and any(self.arguments["prompt"] in text for text in shown.texts)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What one request shows the model."""

    tools: tuple[str, ...]
    """Ours, by the names that the server gives them."""
    others: tuple[str, ...]
    """The agent's own tools."""
    results: tuple[str, ...]
    """Of the tools that were called in the session, as the model reads them."""
    texts: tuple[str, ...]
    """Every text of the request, the descriptions of tools among them."""


class Wire(ABC):
    """Reads the requests of one model service and writes its answers."""

    @abstractmethod
    def names(self, body: Json) -> Iterator[str]:
        """Yield the names of all tools; ours start with `prefix`."""

    @abstractmethod
    def results(self, body: Json) -> Iterator[str]:
        """Yield the texts of the tools' results."""

    @abstractmethod
    def call(self, call: ToolCall, *, number: int) -> Sequence[Json]:
        """Return the events of an answer that calls a tool of ours, the n-th of the session."""

    @abstractmethod
    def say(self, text: str) -> Sequence[Json]:
        """Return the events of an answer that ends the turn."""

    prefix: str

    def shown(self, body: Json) -> Shown:
        """Return what a request shows the model."""
        names = list(self.names(body))
        return Shown(
            tools=tuple(
                name.removeprefix(self.prefix) for name in names if name.startswith(self.prefix)
            ),
            others=tuple(name for name in names if not name.startswith(self.prefix)),
            results=tuple(self.results(body)),
            texts=tuple(_texts(body)),
        )


class Messages(Wire):
    """Anthropic's messages."""

    prefix = f"mcp__{SERVER}__"

    def names(self, body: Json) -> Iterator[str]:
        yield from (tool["name"] for tool in body.get("tools", ()))

    def results(self, body: Json) -> Iterator[str]:
        for message in body["messages"]:
            for block in message["content"] if isinstance(message["content"], list) else ():
                if block["type"] == "tool_result":
                    yield "\n".join(_texts(block["content"]))

    def call(self, call: ToolCall, *, number: int) -> Sequence[Json]:
        name = self.prefix + call.tool if call.says is None else call.tool
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": name}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call.arguments)}
        return self._message({**block, "input": {}}, delta, "tool_use")

    def say(self, text: str) -> Sequence[Json]:
        delta = {"type": "text_delta", "text": text}
        return self._message({"type": "text", "text": ""}, delta, "end_turn")

    def _message(self, block: Json, delta: Json, reason: str) -> Sequence[Json]:
        message: Json = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "stand-in",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        return [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": reason, "stop_sequence": None},
                "usage": {"output_tokens": 1},
            },
            {"type": "message_stop"},
        ]


class Responses(Wire):
    """OpenAI's responses, where the tools of a server stand in a namespace."""

    prefix = f"mcp__{SERVER}."

    def names(self, body: Json) -> Iterator[str]:
        for tool in body.get("tools", ()):
            if tool["type"] == "namespace":
                yield from (f"{tool['name']}.{inner['name']}" for inner in tool["tools"])
            else:
                yield tool.get("name", tool["type"])

    def results(self, body: Json) -> Iterator[str]:
        for item in body["input"]:
            if item["type"] == "function_call_output":
                yield "\n".join(_texts(item["output"]))

    def call(self, call: ToolCall, *, number: int) -> Sequence[Json]:
        return self._response(
            {
                "type": "function_call",
                "id": f"fc_{number}",
                "call_id": f"call_{number}",
                "namespace": self.prefix.removesuffix("."),
                "name": call.tool,
                "arguments": json.dumps(call.arguments),
                "status": "completed",
            }
        )

    def say(self, text: str) -> Sequence[Json]:
        content = {"type": "output_text", "text": text, "annotations": list[Json]()}
        return self._response(
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [content],
            }
        )

    def _response(self, item: Json) -> Sequence[Json]:
        begun: Json = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
        usage: Json = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        ended = {**begun, "status": "completed", "output": [item], "usage": usage}
        return [
            {"type": "response.created", "response": begun},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": ended},
        ]


class GenerateContent(Wire):
    """Gemini's generated content."""

    prefix = f"mcp_{SERVER}_"

    def names(self, body: Json) -> Iterator[str]:
        for group in body.get("tools", ()):
            yield from (tool["name"] for tool in group.get("functionDeclarations", ()))

    def results(self, body: Json) -> Iterator[str]:
        for content in body["contents"]:
            for part in content["parts"]:
                if "functionResponse" in part:
                    yield "\n".join(_texts(part["functionResponse"]["response"]))

    def call(self, call: ToolCall, *, number: int) -> Sequence[Json]:
        return self._candidate(
            {
                "functionCall": {
                    "id": f"call_{number}",
                    "name": self.prefix + call.tool,
                    "args": call.arguments,
                }
            }
        )

    def say(self, text: str) -> Sequence[Json]:
        return self._candidate({"text": text})

    def _candidate(self, part: Json) -> Sequence[Json]:
        candidate: Json = {
            "content": {"role": "model", "parts": [part]},
            "finishReason": "STOP",
            "index": 0,
        }
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        return [{"candidates": [candidate], "usageMetadata": usage}]


WIRES: Mapping[str, Wire] = {
    "/messages": Messages(),
    "/responses": Responses(),
    ":streamGenerateContent": GenerateContent(),
}
"""By the end of the path that a request goes to."""


def _texts(value: object) -> Iterator[str]:
    """Yield every string of a JSON value but the names of fields."""
    match value:
        case str():
            yield value
        case dict():
            for each in value.values():  # pyright: ignore[reportUnknownVariableType] - JSON
                yield from _texts(each)  # pyright: ignore[reportUnknownArgumentType] - JSON
        case list():
            for each in value:  # pyright: ignore[reportUnknownVariableType] - JSON
                yield from _texts(each)  # pyright: ignore[reportUnknownArgumentType] - JSON
        case _:
            return
