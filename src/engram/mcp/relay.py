"""Relays the messages of a stdio client to the `/mcp` of a server, whichever era they speak.

It knows HTTP and just enough of the protocol to name each message in the headers a server wants;
it does not import the SDK, because a client starts it for every session.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from typing import Any, cast

import httpx

from engram import limits
from engram.bodies.json_text import is_light, prepare, restore
from engram.bodies.lines import LineTooLongError, as_object, id_of_refused, parsed_object, usable_id
from engram.errors import LimitExceededError
from engram.mcp.lines import STDIN, LineWriter, claim_stdout, read_lines
from engram.model.access import Toolset

logger = logging.getLogger(__name__)

Message = Mapping[str, Any]

PARSE_ERROR, INVALID_REQUEST, INTERNAL_ERROR = -32700, -32600, -32603
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
NAME_FIELDS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Which parameter of a request the `Mcp-Name` header repeats."""

TIMEOUT = httpx.Timeout(
    limits.RELAY_CONNECT_S, read=limits.RELAY_READ_S, write=limits.RELAY_WRITE_S, pool=None
)
_PLAIN = re.compile(r"(?! )(?!=\?base64\?)[\x20-\x7e]*(?<! )")
"""What a header carries unchanged: printable ASCII that neither begins nor ends with a space."""


async def relay_stdio(
    url: str, *, api_key: str | None, toolsets: tuple[Toolset, ...] | None = None
) -> None:
    """Relay until the input ends; every request gets an answer, even if the server fails."""
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        **({"Authorization": f"Bearer {api_key}"} if api_key else {}),
    }
    parameters = {"toolsets": ",".join(toolsets)} if toolsets else {}
    writer = LineWriter(claim_stdout())
    with closing(writer):
        async with (
            httpx.AsyncClient(headers=headers, params=parameters, timeout=TIMEOUT) as client,
            asyncio.TaskGroup() as tasks,
        ):
            relay = Relay(client, url.rstrip("/") + "/mcp", writer)
            slots = asyncio.Semaphore(limits.RELAY_REQUESTS_MAX)
            async for line in read_lines(STDIN, bytes_max=limits.BODY_BYTES_MAX):
                await slots.acquire()
                task = tasks.create_task(relay.pass_on(line))
                task.add_done_callback(lambda _task: slots.release())


class Relay:
    """One client's connection to the server."""

    def __init__(self, client: httpx.AsyncClient, url: str, writer: LineWriter) -> None:
        self._client = client
        self._url = url
        self._writer = writer
        self._version: str | None = None
        """The negotiated version; messages of the later era carry their own."""

    async def pass_on(self, line: bytes | LineTooLongError) -> None:
        """Send one line to the server and write what it answers."""
        if isinstance(line, LineTooLongError):
            self._fail(None, INVALID_REQUEST, str(line))
            return
        if not line or line.isspace():
            return
        try:
            message = _parse(line) if is_light(line) else await asyncio.to_thread(_parse, line)
        except LimitExceededError as exc:
            self._fail(id_of_refused(line), INVALID_REQUEST, f"Invalid request: {exc}")
            return
        except (ValueError, RecursionError) as exc:
            self._fail(None, PARSE_ERROR, f"Parse error: {exc}")
            return
        if not isinstance(message, dict):
            self._fail(None, INVALID_REQUEST, "not a JSON-RPC message")
            return
        await self._exchange(cast("Message", message), line)

    async def _exchange(self, message: Message, line: bytes) -> None:
        request_id = _request_id(message)
        headers = routing_headers(message, agreed_version=self._version)
        try:
            async with self._client.stream(
                "POST", self._url, content=line, headers=headers
            ) as response:
                answered = await self._write_answers(message, response)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as exc:
            reason = str(exc) or type(exc).__name__
            self._fail(request_id, INTERNAL_ERROR, f"no valid answer of {self._url}: {reason}")
            return
        if request_id is not None and not answered:
            self._fail(request_id, INTERNAL_ERROR, f"{self._url} gave no answer")

    async def _write_answers(self, message: Message, response: httpx.Response) -> bool:
        """Write every message of the answer; return whether the request's own is among them."""
        request_id = message.get("id")
        if response.is_error or response.is_redirect:
            self._refuse(message, response, await response.aread())
            return True
        answered = False
        async for text in _messages_of(response):
            answer = as_object(json.loads(text))
            if answer.get("id") == request_id and "method" not in answer:
                answered = True
                self._learn_version(message, answer)
            self._writer.write(text)
        return answered

    def _learn_version(self, message: Message, answer: Message) -> None:
        if message.get("method") == "initialize":
            self._version = as_object(answer.get("result")).get("protocolVersion")

    def _refuse(self, message: Message, response: httpx.Response, body: bytes) -> None:
        """Pass on a JSON-RPC error of the server, or convert its problem to one."""
        request_id = _request_id(message)
        details = parsed_object(body)
        status = response.status_code
        match details:
            case {"error": {"code": int(code), "message": str(text)} as error}:
                self._fail(request_id, code, text, error.get("data"))
            case {"code": str(code), "detail": str(detail)}:
                self._fail(request_id, _code_of(status), f"{code}: {detail}", details)
            case _:
                text = f"{self._url} answered {status} {response.reason_phrase}"
                self._fail(request_id, _code_of(status), text)

    def _fail(
        self, request_id: str | int | None, code: int, message: str, data: object = None
    ) -> None:
        """Answer a request with an error; a failed notification is only logged."""
        if code not in (PARSE_ERROR, INVALID_REQUEST) and request_id is None:
            logger.warning("a notification was lost: %s", message)
            return
        error = {"code": code, "message": message, **({} if data is None else {"data": data})}
        answer = {"jsonrpc": "2.0", "id": request_id, "error": error}
        self._writer.write(json.dumps(answer, separators=(",", ":")).encode())


def _parse(line: bytes) -> object:
    """Return what a line holds; its shape is checked before anything is built of it."""
    text = prepare(line)
    return restore(json.loads(text.data), text.texts)


def _request_id(message: Message) -> str | int | None:
    """Return the id under which a message is to be answered; None where it has none that counts."""
    return usable_id(message.get("id")) if "method" in message else None


def routing_headers(message: Message, *, agreed_version: str | None) -> dict[str, str]:
    """Return the headers that name a message to the server.

    A message of the later era carries its version; one of the handshake era relies on what was
    agreed, and needs no other header.
    """
    parameters = as_object(message.get("params"))
    version = as_object(parameters.get("_meta")).get(VERSION_KEY)
    if not isinstance(version, str):
        return {"MCP-Protocol-Version": agreed_version} if agreed_version else {}
    method = str(message.get("method"))
    headers = {"MCP-Protocol-Version": header_value(version), "Mcp-Method": header_value(method)}
    name = parameters.get(NAME_FIELDS.get(method, ""))
    if isinstance(name, str):
        headers["Mcp-Name"] = header_value(name)
    return headers


def header_value(text: str) -> str:
    """Return `text` as it is, or in the protocol's Base64 form when a header cannot carry it."""
    if _PLAIN.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode(errors='replace')).decode()}?="


async def _messages_of(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yield each message of an answer on one line; JSON has no raw line break inside a string."""
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        async for data in _events_of(response):
            yield data
    elif body := (await response.aread()).strip():
        yield _one_line(body)


async def _events_of(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the data of each server-sent event that has any."""
    data, rest = list[bytes](), b""
    async for piece in response.aiter_bytes():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            field, _, value = line.rstrip(b"\r").partition(b":")
            if field == b"data":
                data.append(value.strip())
            elif not field and not value and any(data):
                yield b" ".join(data)
                data = []


def _one_line(text: bytes) -> bytes:
    return text.replace(b"\r", b" ").replace(b"\n", b" ")


def _code_of(status: int) -> int:
    return INTERNAL_ERROR if status >= httpx.codes.INTERNAL_SERVER_ERROR else INVALID_REQUEST
