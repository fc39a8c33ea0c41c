"""Lean texts of answers: a head for each conversation, a line for each message, within a token budget.

A model pays for every character, so there are no ids, times or scores that it does not need. Whatever does
not fit is counted in the last line, which names the bound that cut it. Stored text never begins a line:
its own line breaks continue with `| `.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from engram.model.conversation import Message
from engram.text.excerpts import cut, cut_tokens, fit, longest
from engram.text.quoting import label, quote_after
from engram.text.tokens import beginning, count_tokens

NOTES_TOKENS = 70
"""Room that is kept for the last line."""

EXCERPT_CHARACTERS_MIN = 80
"""A shorter beginning of a text is not worth its line."""

LINE_TOKENS_MIN = 45
"""Of a line that shares its room with others, at least this is shown: its label and a sentence."""

TITLE_CHARACTERS = 80
"""How much of a title is shown; it may be as long as a page."""

CUT_MARK = " […]"
CUT_MARK_TOKENS = 4
"""With the line break after it."""

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

    def add_beginning(self, label: str, content: str, *, head: str | None = None) -> int:
        """Add as much of a text as fits and mark where it was cut; return its characters, or 0."""

        def line(characters: int) -> str:
            rest = f" [… {len(content) - characters:,} more characters]"
            return quote_after(label, content[:characters]) + rest

        fitting = longest(
            beginning(content, self._left),
            cost=lambda characters: self._cost([line(characters), head or ""]),
            tokens_max=self._left,
        )
        shown = len(cut(content, fitting).text)
        if shown < min(EXCERPT_CHARACTERS_MIN, len(content)) or not self._add(line(shown), head):
            return 0
        return shown

    def add_shared(self, lines: Sequence[str]) -> int:
        """Add lines, the long ones cut to equal shares of what is left; return how many there are."""
        room, count = self._left, 0
        for line in lines:
            room -= count_tokens(cut_tokens(line, LINE_TOKENS_MIN).text) + CUT_MARK_TOKENS
            if room < 0:
                break
            count += 1
        shown = fit(lines[:count], token_budget=self._left - CUT_MARK_TOKENS * count)
        for part in shown:
            self._add(part.text.rstrip() + CUT_MARK if part.is_cut else part.text, None)
        if lines and not count:
            line = cut_tokens(lines[0], self._left - CUT_MARK_TOKENS).text
            return int(bool(line) and self._add(line.rstrip() + CUT_MARK, None))
        return count

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

    @property
    def left(self) -> int:
        """Return how many tokens are left for further lines."""
        return self._left

    @property
    def is_cut(self) -> bool:
        """Return True if a line ends with the mark of a cut."""
        return any(line.endswith(CUT_MARK) for line in self._lines)

    def finish(self, notes: Sequence[str]) -> str:
        """Return the text, with the notes as its last line."""
        last = ["; ".join(notes)] if notes else []
        return "\n".join([*self._lines, *self._footers, *last])


def list_text(
    lines: Sequence[str], total: int, following: int | None, token_budget: int, *, noun: str
) -> str:
    """Return a page of a listing, with its total and where to go on."""
    text = LeanText(token_budget)
    shown = add_whole(text, lines)
    return text.finish([page_note(shown, len(lines), total, following, noun=noun)])


def add_whole(text: LeanText, lines: Sequence[str]) -> int:
    """Add lines up to the first that does not fit; return how many. Only the very first is cut."""
    shown = 0
    for line in lines:
        if not text.add(line):
            break
        shown += 1
    return shown or text.add_shared(lines[:1])


def page_note(
    shown: int, on_page: int, total: int | None, following: int | None, *, noun: str
) -> str:
    """Return how many of a listing are shown, which bound cut it, and where to go on.

    Args:
        shown: how many fitted.
        on_page: how many the page has.
        total: how many there are; None if that was not counted.
        following: the offset of the next page.
        noun: what is listed.
    """
    if not on_page:
        return f"no {noun}" if not total else f"{total} {noun}; none from this offset on"
    counted = f"{shown} of {total} {noun}" if total is not None else f"{shown} {noun}"
    if not shown:
        return f"{counted}; the first does not fit: raise token_budget"
    if shown < on_page:
        end = following if following is not None else total
        return f"{counted}; token_budget reached" + (
            f", go on with offset={end - on_page + shown}" if end is not None else ": raise it"
        )
    return counted if following is None else f"{counted}; go on with offset={following}"


def short_title(title: str) -> str:
    """Return a title on one line, the end of a long one left out."""
    shown = cut(title, TITLE_CHARACTERS)
    return label(shown.text) + (" …" if shown.is_cut else "")


def message_label(message: Message, *, with_date: bool) -> str:
    """Return what stands before a message: its sequence, its day if that varies, and its speaker."""
    date = f" {date_of(said_at(message))}" if with_date else ""
    return f"#{message.sequence}{date} {label(message.name or message.tool_name or message.role)}:"


def said_at(message: Message) -> datetime:
    """Return when a message was said, or else stored."""
    return message.occurred_at or message.created_at


def date_of(moment: datetime) -> str:
    """Return the day of a moment; a model seldom needs more."""
    return moment.date().isoformat()
