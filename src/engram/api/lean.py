"""Lean texts of answers: a head for each conversation, a line for each message, within a token budget.

A model pays for every character, so there are no ids, times or scores that it does not need. Whatever does
not fit is counted in the last line, which names the bound that cut it. Stored text never begins a line:
its own line breaks continue with `| `.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from engram.model.conversation import Message
from engram.text import quoting
from engram.text.excerpts import cut
from engram.text.quoting import quote_after
from engram.text.tokens import count_tokens

NOTES_TOKENS = 70
"""Room that is kept for the last line."""

EXCERPT_CHARACTERS_MIN = 80
"""A shorter beginning of a text is not worth its line."""

CHARACTERS_PER_TOKEN_MAX = 8
"""A text with more characters for each token that is left is not counted: it does not fit."""


class LeanText:
    """Lines of an answer, as many as a token budget holds."""

    def __init__(self, token_budget: int) -> None:
        self._lines: list[str] = []
        self._footers: list[str] = []
        self._left = token_budget - NOTES_TOKENS

    def add(
        self, label: str, content: str = "", *, head: str | None = None, footer: str | None = None
    ) -> bool:
        """Add a line, stored text after its label, below a head; return False if they do not fit.

        Args:
            footer: a line that comes after all others.
        """
        if len(content) > self._left * CHARACTERS_PER_TOKEN_MAX:
            return False
        return self._add(quote_after(label, content) if content else label, head, footer)

    def add_footer(self, footer: str) -> bool:
        """Add a line that comes after all others; return False if it does not fit."""
        return self._add(None, None, footer)

    def add_beginning(self, label: str, content: str, *, head: str | None = None) -> bool:
        """Add as much of a text as fits, with a mark where it was cut; return False if too little does."""
        characters = max(0, self._left) * CHARACTERS_PER_TOKEN_MAX
        while len(shown := cut(content, characters).text) >= EXCERPT_CHARACTERS_MIN:
            rest = f" [… {len(content) - len(shown):,} more characters]"
            line = quote_after(label, shown) + rest
            if self._add(line, head):
                return True
            # By the share that fits, and a little less: its tokens may be longer than the average.
            characters = len(shown) * self._left * 9 // (self._cost([line, head or ""]) * 10)
        return False

    def _add(self, line: str | None, head: str | None, footer: str | None = None) -> bool:
        lines = [each for each in (head, line) if each is not None]
        footers = [] if footer is None else [footer]
        cost = self._cost([*lines, *footers])
        if cost > self._left:
            return False
        self._lines += lines
        self._footers += footers
        self._left -= cost
        return True

    @staticmethod
    def _cost(lines: Sequence[str]) -> int:
        return sum(count_tokens(each) + 1 for each in lines)

    def finish(self, notes: Sequence[str]) -> str:
        """Return the text, with the notes as its last line."""
        last = ["; ".join(notes)] if notes else []
        return "\n".join([*self._lines, *self._footers, *last])


def list_text(
    lines: Sequence[str], total: int, following: int | None, token_budget: int, *, noun: str
) -> str:
    """Return a page of a listing, with its total and where to go on."""
    text = LeanText(token_budget)
    shown = 0
    for line in lines:
        if not text.add(line):
            break
        shown += 1
    if not lines:
        return f"no {noun}" if not total else f"{total} {noun}; none from this offset on"
    notes = [f"{shown} of {total} {noun}"]
    if shown < len(lines):
        offset = (total if following is None else following) - len(lines) + shown
        notes[0] += f"; token_budget reached, go on with offset={offset}"
    elif following is not None:
        notes[0] += f"; go on with offset={following}"
    return text.finish(notes)


def add_messages(
    text: LeanText, head: str, messages: Sequence[Message], *, is_in_order: bool = False
) -> int:
    """Add the lines of messages; return how many do not fit.

    Messages in order end with the first that does not fit; of others, later ones may.
    """
    dates = {date_of(said_at(message)) for message in messages}
    is_one_day = len(dates) == 1
    pending: str | None = f"{head}, {dates.pop()}" if is_one_day else head
    hidden = 0
    for place, message in enumerate(messages):
        label = _line_head(message, with_date=not is_one_day)
        is_shown = text.add(label, message.content, head=pending) or (
            not hidden and text.add_beginning(label, message.content, head=pending)
        )
        if is_shown:
            pending = None
        elif is_in_order:
            return len(messages) - place
        else:
            hidden += 1
    return hidden


def _line_head(message: Message, *, with_date: bool) -> str:
    date = f" {date_of(said_at(message))}" if with_date else ""
    return f"#{message.sequence}{date} {quoting.label(message.name or message.tool_name or message.role)}:"


def said_at(message: Message) -> datetime:
    """Return when a message was said, or else when it was stored."""
    return message.occurred_at or message.created_at


def date_of(moment: datetime) -> str:
    """Return the day of a moment; a model seldom needs more."""
    return moment.date().isoformat()
