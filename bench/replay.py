"""How precise the reminders of hooks are: questions of evaluation sets as prompts of agents.

    python -m bench.replay [--data DIRECTORY] [--max-questions N] SET …

`received`: of the prompts whose answer is in memory, the share that was told it. `silent`: of the prompts about
another haystack, which nothing here answers, the share that was told nothing. Both are asked as a hook asks,
with the same bounds, and nothing is remembered of one prompt at the next.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from engram import limits
from engram.errors import InvalidRequestError
from engram.model.access import Principal
from engram.model.conversation import AppendRequest
from engram.model.reminder import Reminder, ReminderRequest
from engram.service import Service
from engram.settings import Settings
from engram.wiring import open_service
from engram_eval.dataset import (
    EvaluationConversation,
    EvaluationSet,
    Haystack,
    Question,
    batches_of,
    limit_questions,
    stages_of,
)
from engram_eval.reading import find_sets, read_set

DEFAULT_DATA = Path(__file__).parents[2] / "shared" / "eval"
RECEIVED_GOAL, SILENT_GOAL = 0.80, 0.95


@dataclass
class Counts:
    """What prompts were told."""

    own: int = 0
    received: int = 0
    foreign: int = 0
    silent: int = 0
    bytes: int = 0

    def line(self, name: str) -> str:
        """Return the shares as one line of text."""
        told = self.bytes / max(self.received, 1)
        return (
            f"{name}: received {self.received / max(self.own, 1):.1%} of {self.own:,} prompts with an "
            f"answer (goal {RECEIVED_GOAL:.0%}), silent {self.silent / max(self.foreign, 1):.1%} of "
            f"{self.foreign:,} without (goal {SILENT_GOAL:.0%}), {told:,.0f} bytes a reminder"
        )


def main() -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.replay", description=__doc__)
    parser.add_argument("sets", nargs="*", metavar="SET", help="names of evaluation sets")
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA)
    parser.add_argument("--max-questions", type=int, default=None, help="ask only so many of a set")
    arguments = parser.parse_args()
    try:
        paths = find_sets(arguments.sets, directory=arguments.data)
    except InvalidRequestError as exc:
        sys.exit(str(exc))
    for path in paths:
        dataset = limit_questions(read_set(path), questions_max=arguments.max_questions)
        print(asyncio.run(replay(dataset)).line(dataset.name), flush=True)
    return 0


async def replay(dataset: EvaluationSet) -> Counts:
    """Return what prompts made of all questions of a set were told."""
    counts = Counts()
    for haystack in dataset.haystacks:
        with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
            async with open_service(Settings(home=Path(directory))) as service:
                me = await service.access.local_principal()
                await _Replay(service, me, counts).run(haystack)
    return counts


@dataclass(frozen=True, slots=True)
class _Replay:
    """The prompts of one haystack, on a store of its own."""

    service: Service
    me: Principal
    counts: Counts

    async def run(self, haystack: Haystack) -> None:
        evidence = dict[str, str]()
        for stage in stages_of(haystack):
            for conversation in stage.conversations:
                await self._store(conversation, evidence)
            # Reminders are measured as they are a while after a session, with all its vectors.
            while await self.service.indexer.work(self.me.organization_id):
                pass
            for question in stage.questions:
                await self._ask(question, evidence)
        for question in haystack.foreign:
            told = await self._remind(question)
            self.counts.foreign += 1
            self.counts.silent += not told.context

    async def _store(self, conversation: EvaluationConversation, evidence: dict[str, str]) -> None:
        """Store a conversation; note by the ids of its messages which evidence they are."""
        store = self.service.conversations
        stored_as = await store.create_conversation(self.me, conversation.draft)
        for batch in batches_of(conversation.messages):
            drafts = tuple(message.draft for message in batch)
            request = AppendRequest(messages=drafts, conversation_id=stored_as)
            receipt = await store.append_messages(self.me, request)
            for message, message_id in zip(batch, receipt.message_ids, strict=True):
                evidence[message_id] = message.id
                evidence[message.id] = conversation.id

    async def _ask(self, question: Question, evidence: dict[str, str]) -> None:
        told = await self._remind(question)
        shown = [evidence[each.id] for each in told.shown]
        wanted = question.evidence or question.evidence_conversations
        found = shown if question.evidence else [evidence[each] for each in shown]
        self.counts.own += 1
        self.counts.received += not wanted.isdisjoint(found)
        self.counts.bytes += len(told.context.encode()) if wanted.intersection(found) else 0

    async def _remind(self, question: Question) -> Reminder:
        request = ReminderRequest(query=question.text, bytes_max=limits.HOOK_PROMPT_BYTES_MAX)
        return await self.service.search.remind(self.me, request)


if __name__ == "__main__":
    sys.exit(main())
