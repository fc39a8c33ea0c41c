"""Clients of several tenants, who use a store through its use cases and compare every answer with the model."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from engram import limits
from engram.errors import EngramError, NotFoundError, StorageError, UnavailableError
from engram.model.conversation import (
    AppendRequest,
    ConversationDraft,
    ConversationPage,
    ConversationQuery,
    MessageDraft,
    MessageQuery,
    Role,
)
from engram.model.document import DocumentDraft, StoredDocument
from engram.model.ids import ConversationId, MemoryId
from engram.model.memory import MemoryChange, MemoryDraft, NoteDraft
from engram.model.recall import MemoryFetch
from engram.model.search import SearchAnswer, SearchRequest
from engram.service import Service
from tests.simulation.model import Append, Conversation, MemoryEntry, Tenant, demand
from tests.simulation.texts import Texts

T = TypeVar("T")

_ATTEMPTS_MAX = 6
_ROLES: tuple[Role, ...] = ("user", "assistant", "tool", "system")


class OutcomeUnknownError(Exception):
    """No answer came: the process died, or the client gave up waiting."""


LOST = (OutcomeUnknownError, StorageError, UnavailableError, MemoryError)
"""Answers after which nothing is known of the outcome."""


class Installation(Protocol):
    """The processes of one store; at least one of them eventually accepts calls."""

    has_wrong_clocks: bool
    """Whether the processes have had different times."""

    async def call(self, work: Callable[[Service], Awaitable[T]]) -> T:
        """Return the answer of some process.

        Raises:
            OutcomeUnknownError: there was none.
            EngramError: it was an error.
        """
        ...

    def log(self, event: str) -> None:
        """Record an event."""
        ...


class Client:
    """One client of one tenant, which does one thing after the other."""

    def __init__(
        self,
        name: str,
        tenant: Tenant,
        others: Sequence[Tenant],
        *,
        installation: Installation,
        chance: random.Random,
        texts: Texts,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._name = name
        self._tenant = tenant
        self._others = others
        self._installation = installation
        self._random = chance
        self._texts = texts
        self._sleep = sleep
        self.operations = 0
        self._acts: tuple[tuple[int, Callable[[], Awaitable[None]]], ...] = (
            (6, self._create),
            (40, self._append),
            (12, self._read),
            (3, self._list),
            (14, self._search_known),
            (4, self._search_foreign),
            (4, self._search_gone),
            (3, self._delete),
            (5, self._store_note),
            (5, self._store_memory),
            (4, self._correct),
            (2, self._forget),
            (4, self._fetch),
            (2, self._store_document),
            (2, self._read_document),
            (1, self._remove_document),
        )

    async def act(self) -> None:
        """Do one thing of the client's choice."""
        weights = [weight for weight, _ in self._acts]
        ((_, act),) = self._random.choices(self._acts, weights)
        self.operations += 1
        await act()

    # --- conversations ---------------------------------------------------------------------------

    async def _create(self) -> None:
        title = self._texts.word()
        self._tenant.loose_titles.add(title)
        draft = ConversationDraft(title=title)
        created = await self._try(
            "create", lambda service: service.conversations.create_conversation(self._who, draft)
        )
        if created is not None:
            demand(created not in self._tenant.conversations, "an id was given twice")
            self._tenant.conversations[created] = Conversation(created)
            self._tenant.loose_titles.remove(title)

    async def _append(self) -> None:
        conversation = self._any_conversation()
        if conversation is None:
            return await self._create()
        pairs = [self._texts.text() for _ in range(self._random.choice((1, 1, 1, 2, 2, 3, 5)))]
        append = Append(
            texts=tuple(text for text, _ in pairs),
            words=tuple(word for _, word in pairs),
            key=self._texts.word() if self._random.random() < 0.5 else None,
            after=conversation.last,
        )
        conversation.appends.append(append)
        request = AppendRequest(
            conversation_id=ConversationId(conversation.id),
            messages=tuple(
                MessageDraft(role=self._random.choice(_ROLES), content=text)
                for text in append.texts
            ),
            idempotency_key=append.key,
        )
        for _ in range(_ATTEMPTS_MAX if append.key else 1):
            if await self._send(conversation, append, request):
                return None
            await self._wait()
        return None

    async def _send(
        self, conversation: Conversation, append: Append, request: AppendRequest
    ) -> bool:
        """Send an append; return False if its outcome is unknown."""
        was = conversation.deletion
        try:
            receipt = await self._call(
                f"append {conversation.id} {append.texts!r:.40}",
                lambda service: service.conversations.append_messages(self._who, request),
            )
        except NotFoundError:
            demand(conversation.deletion, "an append does not find its conversation")
            return True
        except LOST:
            return False
        demand(was != "done", "an append to a deleted conversation was acknowledged")
        if conversation.deletion is None:
            conversation.acknowledge(append, receipt)
        return True

    async def _read(self) -> None:
        conversation = self._any_conversation(with_deleted=True)
        if conversation is not None:
            await self.read(conversation)

    async def read(self, conversation: Conversation) -> int | None:
        """Read a whole conversation and compare it; return its messages, None if it is gone."""
        required, was = conversation.done, conversation.deletion
        query = MessageQuery(
            conversation_id=ConversationId(conversation.id), message_limit=limits.MESSAGE_PAGE_MAX
        )
        try:
            page = await self._call(
                f"read {conversation.id}",
                lambda service: service.conversations.get_conversation(self._who, query),
            )
        except NotFoundError:
            demand(conversation.deletion, f"{conversation.id} is not there any more")
            if conversation.deletion == "open" and was == "open":
                conversation.deletion = "done"  # seen to be gone: it must not come back
            return None
        except LOST:
            return None
        demand(was != "done", f"{conversation.id} was deleted, and is still read")
        conversation.check(page, required)
        return len(page.messages)

    async def _list(self) -> None:
        required = [c for c in self._tenant.conversations.values() if c.deletion is None]
        gone = self._tenant.gone()
        listed = await self.list_conversations()
        if listed is None:
            return
        for found in listed:
            demand(found not in gone, f"{found} was deleted, and is still listed")
        for conversation in required:
            is_listed = conversation.id in listed or conversation.deletion is not None
            demand(is_listed, f"{conversation.id} is not listed")

    async def list_conversations(self) -> dict[str, int] | None:
        """Return the messages of each conversation; None if that is not known."""
        counts: dict[str, int] = {}
        offset: int | None = 0
        while offset is not None:
            page = await self._list_page(offset)
            if page is None:
                return None
            for each in page.conversations:
                is_known = each.id in self._tenant.conversations
                is_loose = each.title in self._tenant.loose_titles and not each.message_count
                demand(is_known or is_loose, "a list shows a conversation of another tenant")
                counts[each.id] = each.message_count
            offset = page.next_offset
        return counts

    async def _list_page(self, offset: int) -> ConversationPage | None:
        query = ConversationQuery(
            limit=limits.CONVERSATION_PAGE_MAX, offset=offset, sort="created_at", order="asc"
        )
        return await self._try(
            "list", lambda service: service.conversations.list_conversations(self._who, query)
        )

    async def _delete(self) -> None:
        conversation = self._any_conversation()
        if conversation is None:
            return
        conversation.deletion = "open"
        least = conversation.last
        for attempt in range(_ATTEMPTS_MAX):
            try:
                receipt = await self._call(
                    f"delete {conversation.id}",
                    lambda service: service.conversations.delete_conversation(
                        self._who, ConversationId(conversation.id)
                    ),
                )
            except NotFoundError:
                demand(attempt, f"{conversation.id} cannot be found to be deleted")
                conversation.deletion = "done"
                return
            except LOST:
                await self._wait()
            else:
                demand(receipt.messages >= least, "a deletion removed too few messages")
                conversation.deletion = "done"
                return

    # --- searches --------------------------------------------------------------------------------

    async def _search_known(self) -> None:
        conversation = self._any_conversation()
        if conversation is None or not conversation.done:
            return
        append = self._random.choice(conversation.done)
        place = self._random.randrange(len(append.texts))
        if append.words[place]:
            await self.find(conversation, append, place)

    async def find(self, conversation: Conversation, append: Append, place: int) -> None:
        """Demand that a search for the word of a message finds it."""
        answer = await self.search(append.words[place])
        if answer is None or conversation.deletion is not None:
            return
        sequence = append.first + place
        found = any(
            result.owner.id == conversation.id
            and (
                any(each.message.sequence == sequence for each in result.messages)
                or result.found_sequence == sequence
                or (result.is_handle and result.start_sequence <= sequence <= result.end_sequence)
            )
            for result in answer.results
        )
        demand(
            found, f"message {sequence} of {conversation.id} is not found by {append.words[place]}"
        )

    async def _search_gone(self) -> None:
        deleted = [c for c in self._tenant.conversations.values() if c.deletion == "done"]
        words = [word for c in deleted for append in c.done for word in append.words if word]
        if words:
            await self.search(self._random.choice(words))

    async def _search_foreign(self) -> None:
        conversations = [c for other in self._others for c in other.conversations.values()]
        words = [
            word for c in conversations for append in c.appends for word in append.words if word
        ]
        if words:
            await self.search(self._random.choice(words))

    async def search(self, word: str) -> SearchAnswer | None:
        """Return what a search finds once it was compared; None if it failed."""
        gone = self._tenant.gone()
        request = SearchRequest(query=word, limit=10, token_budget=4000)
        answer = await self._try(
            f"search {word}", lambda service: service.search.search(self._who, request)
        )
        if answer is not None:
            self._tenant.check_answer(answer, gone=gone)
        return answer

    # --- memories --------------------------------------------------------------------------------

    async def _store_note(self) -> None:
        text = f"remember that they call it {self._texts.word()} here"
        self._tenant.loose[text] = 1
        for _ in range(_ATTEMPTS_MAX):
            stored = await self._try(
                "note",
                lambda service: service.memories.store_note(self._who, NoteDraft(content=text)),
            )
            if stored is not None:
                self._keep(MemoryEntry(stored.memories[0].id, [text]))
                del self._tenant.loose[text]
                return
            await self._wait()

    async def _store_memory(self) -> None:
        text, _ = self._texts.text()
        if not text:
            return
        self._tenant.loose[text] = 1
        stored = await self._try(
            "memory", lambda service: service.memories.store(self._who, MemoryDraft(content=text))
        )
        if stored is not None:
            self._keep(MemoryEntry(stored.memories[0].id, [text]))
            del self._tenant.loose[text]

    def _keep(self, entry: MemoryEntry) -> None:
        demand(entry.id not in self._tenant.memories, "an id was given twice")
        self._tenant.memories[entry.id] = entry

    async def _correct(self) -> None:
        entry = self._any_memory()
        text, _ = self._texts.text()
        if entry is None or not text:
            return
        entry.is_busy = True
        before, entry.possible = entry.possible, [*entry.possible, text]
        change = MemoryChange(content=text)
        try:
            corrected = await self._call(
                f"correct {entry.id}",
                lambda service: service.memories.correct(self._who, MemoryId(entry.id), change),
            )
        except LOST:
            pass
        except EngramError:
            demand(None in before, f"{entry.id} cannot be corrected")
        else:
            demand(corrected.content == text, "a correction returns another text")
            entry.possible = [text]
        entry.is_busy = False

    async def _forget(self) -> None:
        entry = self._any_memory()
        if entry is None:
            return
        entry.is_busy = True
        before, entry.possible = entry.possible, [*entry.possible, None]
        try:
            await self._call(
                f"forget {entry.id}",
                lambda service: service.memories.forget(self._who, MemoryId(entry.id)),
            )
        except LOST:
            pass
        except EngramError:
            demand(None in before, f"{entry.id} cannot be forgotten")
        else:
            entry.possible = [None]
        entry.is_busy = False

    async def _fetch(self) -> None:
        entries = [e for e in self._tenant.memories.values() if e.document_id is None]
        if entries:
            await self.fetch(self._random.choice(entries))

    async def fetch(self, entry: MemoryEntry) -> None:
        """Read a memory and compare it."""
        was_forgotten, before = entry.is_forgotten, list(entry.possible)
        fetch = MemoryFetch(id=MemoryId(entry.id), detail="full", token_budget=100_000)
        fetched = await self._try(
            f"fetch {entry.id}", lambda service: service.memories.fetch(self._who, fetch)
        )
        if fetched is None:
            return
        memory = fetched.memory
        if was_forgotten:
            demand(not memory.is_searched, f"{entry.id} was forgotten, and is still there")
        elif memory.is_searched:
            demand(memory.content in [*before, *entry.possible], f"{entry.id} is altered")
        else:
            demand(None in [*before, *entry.possible], f"{entry.id} is forgotten by nobody")

    # --- documents -------------------------------------------------------------------------------

    async def _store_document(self) -> None:
        text, word = self._texts.text()
        body = (text or "they call it " + (word := self._texts.word())).encode()
        loose = self._tenant.loose
        loose["document"] = loose.get("document", 0) + 1

        async def stream() -> AsyncIterator[bytes]:
            half = len(body) // 2
            yield body[:half]
            yield body[half:]

        for _ in range(_ATTEMPTS_MAX):
            stored = await self._upload(word, stream())
            if stored is not None:
                document = stored.document
                entry = MemoryEntry(document.memory_id, [word], document_id=document.id, body=body)
                self._keep(entry)
                loose["document"] -= 1
                return
            await self._wait()

    async def _upload(self, word: str, stream: AsyncIterator[bytes]) -> StoredDocument | None:
        draft = DocumentDraft(name=f"{word}.txt")
        try:
            return await self._try(
                f"document {word}",
                lambda service: service.documents.store_stream(self._who, draft, stream),
            )
        except NotFoundError:
            # For a process whose clock is hours ahead it has expired.
            demand(self._installation.has_wrong_clocks, "an upload was removed while it went on")
            return None

    async def _read_document(self) -> None:
        entries = [e for e in self._tenant.memories.values() if e.document_id is not None]
        if entries:
            await self.read_document(self._random.choice(entries))

    async def read_document(self, entry: MemoryEntry) -> None:
        """Read the bytes of a document and compare them."""
        was_removed, identifier = entry.is_forgotten, entry.document_id or ""

        async def read(service: Service) -> bytes:
            document = await service.documents.get(self._who, identifier)
            return b"".join(
                [p async for p in await service.documents.read_body(self._who, document)]
            )

        try:
            body = await self._call(f"read {identifier}", read)
        except NotFoundError:
            demand(None in entry.possible, f"{identifier} is not there any more")
        except LOST:
            return
        else:
            demand(not was_removed, f"{identifier} was removed, and is still read")
            demand(body == entry.body, f"{identifier} is altered")

    async def _remove_document(self) -> None:
        entries = [
            e
            for e in self._tenant.memories.values()
            if e.document_id and not e.is_busy and None not in e.possible
        ]
        if not entries:
            return
        entry = self._random.choice(entries)
        entry.is_busy, entry.possible = True, [*entry.possible, None]
        removed = await self._try(
            f"remove {entry.document_id}",
            lambda service: service.documents.remove(self._who, entry.document_id or ""),
        )
        if removed is not None:
            entry.possible = [None]
        entry.is_busy = False

    # --- calls -----------------------------------------------------------------------------------

    @property
    def _who(self):
        return self._tenant.principal

    def _any_conversation(self, *, with_deleted: bool = False) -> Conversation | None:
        known = [
            c for c in self._tenant.conversations.values() if with_deleted or c.deletion is None
        ]
        # Mostly one of the latest, so that several clients use the same.
        return (
            self._random.choice(known[-4:] if self._random.random() < 0.7 else known)
            if known
            else None
        )

    def _any_memory(self) -> MemoryEntry | None:
        free = [
            e
            for e in self._tenant.memories.values()
            if not e.is_busy and not e.is_forgotten and e.document_id is None
        ]
        return self._random.choice(free) if free else None

    async def _try(self, event: str, work: Callable[[Service], Awaitable[T]]) -> T | None:
        """Return an answer; None if nothing is known of it."""
        try:
            return await self._call(event, work)
        except LOST:
            return None

    async def _call(self, event: str, work: Callable[[Service], Awaitable[T]]) -> T:
        log = self._installation.log
        log(f"{self._name} {event}")
        try:
            answer = await self._installation.call(work)
        except (EngramError, MemoryError, OutcomeUnknownError) as exc:
            log(f"{self._name} {event}: {type(exc).__name__}")
            raise
        log(f"{self._name} {event}: done")
        return answer

    async def _wait(self) -> None:
        await self._sleep(self._random.expovariate(50.0))
