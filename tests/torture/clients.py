"""Clients that call one store over REST, MCP and the command line, and record every call."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from random import Random
from time import monotonic
from typing import Any, Protocol

import httpx
import orjson

from tests.torture.history import Call, Kind, Outcome, Recorder, Seen, digest
from tests.torture.processes import PATIENCE_S, Command, DiedError, Server, Session

PAGE = 500
BUDGET = 100_000
MESSAGES_MAX = 250
"""Longer conversations take no more messages, so that one page shows a whole one."""

LIVE_MAX = 5
"""Conversations of a tenant at once: few, so that clients meet in them."""

IN_DOUBT = {"store_unavailable", "storage_error", "internal_error", "engram_error", "unavailable"}
"""Codes of errors that do not say whether the call was carried out."""

_CONSONANTS = "bcdfghjkmnpqrtvwxz"
_PAUSE_S = 0.3
"""At most, after a call that failed."""


class RefusedError(Exception):
    """A call was answered with an error."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class UnsentError(Exception):
    """A call never reached a process."""


class Door(Protocol):
    """A way to call a store.

    Each method returns the answer, and raises RefusedError, UnsentError or, if nobody knows whether
    the call was carried out, DiedError.
    """

    @property
    def name(self) -> str: ...
    def create(self) -> Any: ...
    def append(self, conversation: str, contents: Sequence[str], key: str) -> Any: ...
    def read(self, conversation: str) -> Any: ...
    def search(self, word: str) -> Any: ...
    def delete(self, conversation: str) -> Any: ...


class RestDoor:
    """A server with the key of a tenant."""

    def __init__(self, server: Server, key: str) -> None:
        self.name = server.name
        self._server = server
        headers = {"Authorization": f"Bearer {key}"}
        self._http = httpx.Client(base_url=server.url, headers=headers, timeout=PATIENCE_S)

    def create(self) -> Any:
        return self._ask("POST", "/conversations", {})

    def append(self, conversation: str, contents: Sequence[str], key: str) -> Any:
        body = {"messages": _messages(contents), "idempotency_key": key}
        return self._ask("POST", f"/conversations/{conversation}/messages", body)

    def read(self, conversation: str) -> Any:
        return self._ask("GET", f"/conversations/{conversation}?message_limit={PAGE}")

    def search(self, word: str) -> Any:
        return self._ask("POST", "/search", {"query": word, "token_budget": BUDGET})

    def delete(self, conversation: str) -> Any:
        return self._ask("DELETE", f"/conversations/{conversation}")

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        try:
            answer = self._http.request(method, f"/api/v1{path}", json=body)
        except httpx.ConnectError as exc:
            raise UnsentError from exc
        except httpx.HTTPError as exc:
            raise DiedError from exc
        self._server.has_answered = True
        if answer.is_success:
            return answer.json()
        raise RefusedError(answer.json()["code"])


class McpDoor:
    """A process of the local organisation, which nobody else asks."""

    def __init__(self, session: Session) -> None:
        self.name = session.name
        self._session = session

    def create(self) -> Any:
        return self._ask("create_conversation")

    def append(self, conversation: str, contents: Sequence[str], key: str) -> Any:
        given = {"conversation_id": conversation, "messages": _messages(contents)}
        return self._ask("append_messages", **given, idempotency_key=key)

    def read(self, conversation: str) -> Any:
        full = {"format": "full", "token_budget": BUDGET, "message_limit": PAGE}
        return self._ask("get_conversation", conversation_id=conversation, **full)

    def search(self, word: str) -> Any:
        return self._ask("search", query=word, format="full", token_budget=BUDGET)

    def delete(self, conversation: str) -> Any:
        return self._ask("delete_conversation", conversation_id=conversation)

    def _ask(self, tool: str, **arguments: Any) -> Any:
        try:
            self._session.open()
        except DiedError as exc:
            raise UnsentError from exc
        result = self._session.call(tool, arguments)
        self._session.has_answered = True
        if result.get("isError"):
            raise RefusedError(result["_meta"]["engram/error"]["code"])
        return result["structuredContent"]


class CommandDoor:
    """The command line, a process for each call."""

    def __init__(self, command: Command) -> None:
        self.name = command.name
        self._command = command

    def create(self) -> Any:
        return self._ask("conversations", "create")

    def append(self, conversation: str, contents: Sequence[str], key: str) -> Any:
        lines = b"".join(orjson.dumps(message) + b"\n" for message in _messages(contents))
        where = ("--conversation", conversation, "--idempotency-key", key)
        return self._ask("conversations", "append", "--jsonl", "-", *where, given=lines)

    def read(self, conversation: str) -> Any:
        return self._ask("conversations", "show", conversation, "--limit", str(PAGE))

    def search(self, word: str) -> Any:
        return self._ask("search", word, "--token-budget", str(BUDGET))

    def delete(self, conversation: str) -> Any:
        return self._ask("conversations", "delete", conversation, "--yes")

    def _ask(self, *arguments: str, given: bytes = b"") -> Any:
        status, printed, said = self._command.run(*arguments, "--json", given=given)
        if status == 0:
            return orjson.loads(printed)
        code = re.search(r'^\{"error":\{"code":"(\w+)"', said, re.MULTILINE)
        raise RefusedError(code.group(1) if code else "internal_error")


class Tenant:
    """What the clients of one organisation know together."""

    def __init__(self, name: str, key: str) -> None:
        self.name = name
        self.key = key
        self.lock = threading.Lock()
        self.lengths: dict[str, int] = {}
        """Conversations that nobody has tried to delete, with how long they are known to be."""
        self.all_conversations: list[str] = []
        self.words: list[str] = []
        """A word of every message that was sent."""


class Client:
    """One that makes one call after the other, each through a door of its choice."""

    def __init__(
        self, name: str, tenant: Tenant, doors: Sequence[Door], recorder: Recorder, random: Random
    ) -> None:
        self.name = name
        self._is_over = threading.Event()
        self._tenant = tenant
        self._doors = doors
        self._recorder = recorder
        self._random = random
        self._numbers = itertools.count(1)

    def work(self, others: Sequence[Tenant], is_over: threading.Event) -> None:
        """Call until it is over."""
        self._is_over = is_over
        steps = (
            *[self._append] * 10,
            *[self._read] * 4,
            *[self._search] * 5,
            lambda: self._trespass(self._random.choice(others)),
            self._create,
            self._delete,
        )
        while not is_over.is_set():
            done = self._random.choice(steps)()
            if done is not None and done.outcome != "ok":
                self._pause()

    def read(self, conversation: str, door: Door) -> Call:
        """Read all of a conversation."""
        return self._call("read", door, lambda: door.read(conversation), conversation=conversation)

    def search(self, word: str, door: Door) -> Call:
        """Search for a word."""
        return self._call("search", door, lambda: door.search(word), words=(word,))

    def _create(self) -> Call | None:
        if len(self._tenant.lengths) >= LIVE_MAX:
            return None
        door = self._door()
        made = self._call("create", door, door.create)
        if made.outcome == "ok" and made.conversation:
            with self._tenant.lock:
                self._tenant.lengths[made.conversation] = 0
                self._tenant.all_conversations.append(made.conversation)
        return made

    def _append(self) -> Call | None:
        conversation = self._pick()
        if conversation is None or self._tenant.lengths.get(conversation, 0) > MESSAGES_MAX:
            return self._delete() or self._create()
        words = [self._new_word() for _ in range(self._random.choice((1, 1, 1, 2, 3, 7)))]
        contents = [f"{word} {_text(self._random)}" for word in words]
        self._tenant.words.extend(words)
        return self._append_surely(conversation, words, contents)

    def _append_surely(
        self, conversation: str, words: Sequence[str], contents: Sequence[str]
    ) -> Call:
        """Append, and mostly try again with the same key while the outcome is unknown."""
        fields = {"sent": tuple(map(digest, contents)), "words": tuple(words)}
        while True:
            door = self._door()
            done = self._call(
                "append",
                door,
                lambda door=door: door.append(conversation, contents, words[0]),
                conversation=conversation,
                **fields,
            )
            if done.outcome == "ok":
                with self._tenant.lock:
                    if conversation in self._tenant.lengths:
                        self._tenant.lengths[conversation] = done.last
            if done.outcome == "ok" or done.is_gone or self._random.random() < 0.3:
                return done
            self._pause()

    def _read(self) -> Call | None:
        conversation = self._pick_any()
        return None if conversation is None else self.read(conversation, self._door())

    def _search(self) -> Call | None:
        words = self._tenant.words
        if not words:
            return None
        # Mostly what was sent last: that is what a stale index would not have.
        recent = words[-20:] if self._random.random() < 0.6 else words
        return self.search(self._random.choice(recent), self._door())

    def _trespass(self, other: Tenant) -> Call | None:
        """Read or search for what another tenant has."""
        if self._random.random() < 0.5 and other.words:
            return self.search(self._random.choice(other.words[-100:]), self._door())
        conversations = other.all_conversations
        if not conversations or other is self._tenant:
            return None
        return self.read(self._random.choice(conversations[-20:]), self._door())

    def _delete(self) -> Call | None:
        with self._tenant.lock:
            lengths = self._tenant.lengths
            if len(lengths) < LIVE_MAX:
                return None
            conversation = self._random.choice(list(lengths))
            del lengths[conversation]
        door = self._door()
        return self._call(
            "delete", door, lambda: door.delete(conversation), conversation=conversation
        )

    def _pause(self) -> None:
        self._is_over.wait(self._random.random() * _PAUSE_S)

    def _pick(self) -> str | None:
        with self._tenant.lock:
            live = list(self._tenant.lengths)
        return self._random.choice(live) if live else None

    def _pick_any(self) -> str | None:
        """Return a conversation that lives, or now and then one that was deleted."""
        known = self._tenant.all_conversations
        if known and self._random.random() < 0.2:
            return self._random.choice(known[-10:])
        return self._pick()

    def _door(self) -> Door:
        return self._random.choice(self._doors)

    def _new_word(self) -> str:
        """Return a word that no other message has, and that no stemmer shortens."""
        number = next(self._numbers)
        letters = [_CONSONANTS[number // 18**place % 18] for place in range(4)]
        return f"zx{self.name}{''.join(letters)}q"

    def _call(self, kind: Kind, door: Door, ask: Callable[[], Any], **fields: Any) -> Call:
        """Make a call and record it."""
        start = monotonic()
        outcome, code, answer = _outcome(ask)
        call = Call(
            kind=kind,
            client=self.name,
            process=door.name,
            tenant=self._tenant.name,
            start=start,
            end=monotonic(),
            outcome=outcome,
            code=code,
            **{**fields, **_facts(kind, answer)},
        )
        self._recorder.record(call)
        return call


def _outcome(ask: Callable[[], Any]) -> tuple[Outcome, str | None, Any]:
    try:
        return "ok", None, ask()
    except RefusedError as exc:
        return ("unknown" if exc.code in IN_DOUBT else "failed"), exc.code, None
    except UnsentError:
        return "failed", None, None
    except DiedError:
        return "unknown", None, None


def _facts(kind: Kind, answer: Any) -> Mapping[str, Any]:
    """Return what an answer says."""
    if answer is None:
        return {}
    match kind:
        case "create":
            return {"conversation": answer["conversation_id"]}
        case "append":
            return {"first": answer["first_sequence"], "last": answer["last_sequence"]}
        case "read":
            seen = _seen(answer["conversation"]["id"], answer["messages"])
            return {
                "seen": seen,
                "total": answer["total"],
                "is_whole": answer["next_offset"] is None,
            }
        case "search":
            found = [_seen(each["conversation_id"], each["messages"]) for each in answer["results"]]
            return {"seen": tuple(itertools.chain(*found))}
        case "delete":
            return {}


def _seen(conversation: str, messages: Sequence[Mapping[str, Any]]) -> tuple[Seen, ...]:
    return tuple(
        Seen(conversation, message["sequence"], digest(message["content"]))
        for message in messages
        if message.get("content") is not None
    )


def _messages(contents: Sequence[str]) -> list[dict[str, str]]:
    return [{"role": "user", "content": content} for content in contents]


_PIECES = (
    "harbour",
    "🐈",
    "\x00",
    "\r",
    "\x1b[31m",
    "ß",
    "日本語",
    "\u202e",
    "\n\n",
    "'; --",
    "é",
    "x" * 40,
)


def _text(random: Random) -> str:
    """Return a text with odd characters; most are short, few longer than what is stored in one piece."""
    length = random.choice((0, 3, 10, 10, 40, 40, 200, 2_000))
    return " ".join(random.choices(_PIECES, k=random.randint(0, length)))
