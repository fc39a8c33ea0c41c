"""The engine's side of hooks: drain the spool into the store, and remind sessions.

Everything that decides by settings or by the directory of a session happens here, because a hook reads
neither.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable, Mapping
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from engram import limits
from engram.clock import Clock, SystemClock, to_microseconds
from engram.engine.shown import SessionView, ShownTexts
from engram.errors import EngramError
from engram.hooks.events import CLIENTS, answer_to, call_of, client_of, meaning_of, text_of
from engram.hooks.places import spool_directory
from engram.hooks.spool import Drain
from engram.model.access import Principal
from engram.model.capture import session_conversation
from engram.model.project import ProjectNames
from engram.model.reminder import Delivery, Reminder, ReminderRequest
from engram.model.value import replace
from engram.privacy.cleaning import query_of_prompt
from engram.service import Service
from engram.settings import Settings, find_places
from engram.sources.importing import Choices
from engram.sources.ledger import Ledger
from engram.sources.registry import SOURCES
from engram.wiring import build_policy

logger = logging.getLogger(__name__)

AFRESH = frozenset({"startup", "clear", "compact"})
"""How a session starts that has nothing of what it was shown in view."""

_SECOND_BYTES_MIN = 600
"""Of the bound that must be left for an overview beside what answers a prompt."""

_POLL_S = 0.02


class _File(NamedTuple):
    """A transcript to import."""

    source: str
    path: Path


class Telling(NamedTuple):
    """What a session is to be told; it counts as shown unless it is withdrawn."""

    context: str = ""
    """Empty for silence."""
    digests: tuple[str, ...] = ()
    delivery: Delivery | None = None
    is_first: bool = False
    """True if nothing was asked for this session before."""


SILENCE = Telling()


class Hooks:
    """Captures and reminders of the sessions on one store."""

    def __init__(self, service: Service, settings: Settings, *, clock: Clock | None = None) -> None:
        self._service = service
        self._settings = settings
        self._clock = clock or SystemClock()
        self._directory = Path(spool_directory(str(settings.home)))
        """There is none until the first hook has run."""
        self._shown = ShownTexts(settings.home)
        self._pause_s = limits.SPOOL_POLL_S
        self._turn = asyncio.Lock()
        """Reminds one session at a time: two clients may run the same hook at once."""
        self._draining = asyncio.Lock()
        """Lets the end of the engine wait for what is being drained."""
        self._recording = set[asyncio.Task[None]]()

    async def run(self) -> None:
        """Drain the spool whenever there is one, until cancelled.

        A captured transcript is looked at once more, for what its client wrote after the hook.
        """
        loop, is_warm = asyncio.get_running_loop(), False
        settling = dict[_File, float]()
        while True:
            if not is_warm and self._directory.exists():
                is_warm = True
                await self._warm_up()
            drained = await self.drain()
            settling |= dict.fromkeys(drained, loop.time() + limits.SPOOL_SETTLE_S)
            due = {file for file, at in settling.items() if at <= loop.time()}
            await self._settle(due)
            for file in due:
                del settling[file]
            # Hooks do not say that there is something: that would take them longer than the rest.
            await asyncio.sleep(self._pause_s)

    async def _warm_up(self) -> None:
        """Load models and caches, so that the first prompt is answered in time."""
        me = await self._service.access.local_principal()
        asked = ReminderRequest(query="warm up", bytes_max=limits.HOOK_PROMPT_BYTES_MAX)
        try:
            await self._service.search.remind(me, asked)
        except EngramError as exc:
            logger.warning("sessions are not reminded yet: %s", exc)

    async def _settle(self, files: set[_File]) -> None:
        if not files:
            return
        try:
            await self._import(files)
        except EngramError as exc:
            logger.warning("the end of captured sessions may wait for their next event: %s", exc)

    async def drain(self) -> set[_File]:
        """Import the transcripts that the spool names; return them."""
        async with self._draining:
            return await self._drain()

    async def _drain(self) -> set[_File]:
        drain, imported = Drain(str(self._settings.home)), set[_File]()
        self._pause_s = limits.SPOOL_POLL_S
        try:
            if not drain.open():
                return imported
            while (records := await _take(drain)) is not None:
                files = {file for record in records for file in _files_of(record)}
                await self._import(files)
                drain.finish()
                imported |= files
        except (EngramError, OSError) as exc:
            # What was taken stays where it is, and is imported the next time.
            logger.warning("the spool waits: %s", exc)
            self._pause_s = limits.SPOOL_RETRY_S
        finally:
            drain.close()
        return imported

    async def _import(self, files: Iterable[_File]) -> None:
        """Import what was written to transcripts.

        One that cannot be read is logged and left: `engram import` finds it as well.
        """
        me = await self._service.access.local_principal()
        ledger = Ledger(self._settings.home, organization=me.organization_id)
        choices = Choices(policy=build_policy(self._settings, find_places()))
        for source, path in sorted(files):
            try:
                report = await self._service.importing.import_files(
                    me, SOURCES[source], [path], ledger=ledger, choices=choices
                )
            except EngramError:
                raise
            except Exception:
                logger.exception("%s was not captured", path)
                continue
            for reason in report.failed.values():
                logger.warning("%s was not captured: %s", path, reason)

    async def recall(self, call: Mapping[str, Any], *, within_s: float | None = None) -> Telling:
        """Return what the agent of a session is to be told now; mostly nothing.

        Raises:
            TimeoutError: it was not found within the time.
        """
        event, session = str(call.get("event", "")), str(call.get("session", ""))
        directory = str(call.get("cwd", ""))
        if self._settings.hooks == "off" or not session or not directory:
            return SILENCE
        deadline = None if within_s is None else asyncio.get_running_loop().time() + within_s
        async with asyncio.timeout_at(deadline):
            me = await self._service.access.local_principal()
            names = ProjectNames(await self._service.projects.rules(me))
            policy = build_policy(self._settings, find_places()).with_names(names)
            project = await asyncio.to_thread(policy.project_of, directory)
            if project is None:
                return SILENCE
            await self._turn.acquire()
        try:
            if _loses_sight(event, call):
                # The same hook may stand in a second file, and the other has just told something.
                at = to_microseconds(self._clock.now() - timedelta(seconds=limits.HOOK_TWICE_S))
                await asyncio.to_thread(self._shown.forget, session, until=at)
            if event == "compact":
                return SILENCE
            return await self._remind(event, call, project=project, deadline=deadline)
        finally:
            self._turn.release()

    async def _remind(
        self, event: str, call: Mapping[str, Any], *, project: str, deadline: float | None
    ) -> Telling:
        session, client = str(call["session"]), str(call.get("client", ""))
        now = self._clock.now()
        at = to_microseconds(now)
        # Only the search is given up when it is late: what is noted as shown is also returned.
        async with asyncio.timeout_at(deadline):
            view = await asyncio.to_thread(self._shown.view, session, now=at)
            me = await self._service.access.local_principal()
            own = session_conversation(me.organization_id, source=client, session=session)
            # After a compaction the session has lost sight of its own beginning too.
            without = None if call.get("source") == "compact" else own
            asked = ReminderRequest(
                project=project, without=without, bytes_max=limits.HOOK_START_BYTES_MAX
            )
            reminders = await self._reminders(me, event, call, asked=asked, view=view)
        shown = [each for reminder in reminders for each in reminder.shown]
        digests = tuple(each.digest for each in shown)
        await asyncio.to_thread(self._shown.add, session, digests, now=at)
        context = "\n".join(reminder.context for reminder in reminders if reminder.context)
        if not context:
            return SILENCE
        delivery = Delivery(
            at=now,
            client=client,
            session=session,
            event=event,
            query=_digest_of(call) if event == "prompt" else None,
            shown=tuple(each.place for each in shown),
            bytes=len(context.encode()),
            tokens=sum(reminder.tokens for reminder in reminders),
        )
        return Telling(context, digests, delivery, is_first=not view.is_known)

    async def remind_or_not(self, call: Mapping[str, Any]) -> Telling:
        """Return what is to be told, or silence if that fails or takes too long."""
        try:
            return await self.recall(call, within_s=limits.HOOK_RECALL_S)
        except (EngramError, OSError) as exc:
            logger.info("a session was not reminded: %s", str(exc) or type(exc).__name__)
            return SILENCE

    async def answer_tool(self, payload: dict[str, Any]) -> str:
        """Answer a client that calls a tool where others run a command, as the command would."""
        event = meaning_of(text_of(payload, "command").rpartition(" ")[2])
        if event != "prompt":
            return "{}"
        client = client_of(payload) or CLIENTS[0]
        told = await self.remind_or_not(call_of(event, client, payload))
        self.confirm(told)
        return json.dumps(answer_to(event, client, payload, told.context))

    def confirm(self, told: Telling) -> None:
        """Log what a hook has received, after the answer was given."""
        if told.delivery is None or self._settings.hook_log == "off":
            return
        task = asyncio.create_task(self._record(told.delivery))
        self._recording.add(task)
        task.add_done_callback(self._recording.discard)

    async def withdraw(self, told: Telling) -> None:
        """Let a session be told again what its hook did not wait for."""
        if told.delivery is None:
            return
        async with self._turn:
            await asyncio.to_thread(
                self._shown.remove,
                told.delivery.session,
                told.digests,
                is_unknown=told.is_first,
            )

    async def _record(self, delivery: Delivery) -> None:
        try:
            me = await self._service.access.local_principal()
            await self._service.search.record_delivery(me, delivery)
        except EngramError as exc:
            logger.warning("a reminder is missing in the log: %s", exc)

    async def finish(self) -> None:
        """Import what still waits, and wait for the log."""
        await self.drain()
        if self._recording:
            await asyncio.wait(self._recording)

    async def _reminders(
        self,
        me: Principal,
        event: str,
        call: Mapping[str, Any],
        *,
        asked: ReminderRequest,
        view: SessionView,
    ) -> list[Reminder]:
        """Return what answers the prompt, and what a new session should know if it was not told."""
        search, found = self._service.search, list[Reminder]()
        asked = replace(asked, seen=view.seen)
        left = limits.HOOK_START_BYTES_MAX
        if event == "prompt" and (query := query_of_prompt(str(call.get("prompt", "")))):
            bytes_max = limits.HOOK_PROMPT_BYTES_MAX
            found.append(await search.remind(me, replace(asked, query=query, bytes_max=bytes_max)))
            left -= len(found[0].context.encode()) + 1
        is_owed = event == "start" or not view.is_known
        if is_owed and left >= _SECOND_BYTES_MIN:
            seen = view.seen.union(each.digest for each in found[0].shown) if found else view.seen
            found.append(await search.remind(me, replace(asked, seen=seen, bytes_max=left)))
        return found


async def answer_nothing(_payload: Mapping[str, Any]) -> str:
    """Answer a client whose user wants no hooks, or whose store has none."""
    return "{}"


async def _take(drain: Drain) -> list[dict[str, Any]] | None:
    """Take the next records, when nobody is appending to them any more."""
    async with asyncio.timeout(limits.SPOOL_TAKE_S):
        while True:
            try:
                return drain.take()
            except BlockingIOError:
                await asyncio.sleep(_POLL_S)


def _loses_sight(event: str, call: Mapping[str, Any]) -> bool:
    """Return True if the session has nothing of what it was shown in view from now on."""
    if event == "compact":
        # Gemini CLI sends it with every prompt, before it finds out whether the session is too long.
        return call.get("client") != "gemini" or call.get("trigger") == "manual"
    return event == "start" and call.get("source") in AFRESH


def _digest_of(call: Mapping[str, Any]) -> str:
    return sha256(str(call.get("prompt", "")).encode("utf-8", "replace")).hexdigest()[:16]


def _files_of(record: Mapping[str, Any]) -> Iterable[_File]:
    """Yield the transcripts that a record names, with those of its sub-agents."""
    source = str(record.get("client"))
    if source not in SOURCES:
        return
    for name in ("transcript", "agent_transcript"):
        given = record.get(name)
        if isinstance(given, str) and given:
            path = Path(given).expanduser()
            yield _File(source, path)
            for other in sorted((path.with_suffix("") / "subagents").glob("*.jsonl")):
                yield _File(source, other)
