"""Judge a history: was there one order of all calls that explains every answer?

A conversation is a log of unique texts, so an order need not be searched for: the sequence that an
answer shows says where it stands. What is left to check is that places agree with each other and with
real time, which takes one pass over the calls in the order of their ends and beginnings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Literal, TypeAlias, get_args

from tests.torture.history import Call, Seen

Rule: TypeAlias = Literal[
    "visible",
    "monotonic",
    "in order",
    "consecutive",
    "one place",
    "all or nothing",
    "refused is absent",
    "verbatim",
    "not before it was sent",
    "gone",
    "kept",
    "apart",
    "findable",
    "clear failure",
]
RULES: Sequence[Rule] = get_args(Rule)

_INTERNAL = "internal_error"


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a history breaks, and the calls that show it."""

    rule: Rule
    said: str
    calls: tuple[Call, ...]


@dataclass(slots=True)
class Append:
    """An append with all its attempts, which share an idempotency key."""

    attempts: list[Call] = field(default_factory=list[Call])

    @property
    def sent(self) -> tuple[str, ...]:
        """The texts, by their SHA-256."""
        return self.attempts[0].sent

    @property
    def conversation(self) -> str:
        """Where they were sent to."""
        return self.attempts[0].conversation or ""

    @property
    def tenant(self) -> str:
        """Whose they are."""
        return self.attempts[0].tenant

    @property
    def start(self) -> float:
        """The moment before which nobody can have seen the texts."""
        return min(call.start for call in self.attempts)

    @property
    def end(self) -> float:
        """The moment from which everybody must see them; never, if none was acknowledged."""
        return min((call.end for call in self.acknowledged), default=inf)

    @property
    def acknowledged(self) -> list[Call]:
        """The attempts that were answered with sequences."""
        return [call for call in self.attempts if call.outcome == "ok"]

    @property
    def is_refused(self) -> bool:
        """Whether every attempt certainly failed."""
        return all(call.outcome == "failed" for call in self.attempts)


@dataclass(slots=True)
class Conversation:
    """What a history says of one conversation."""

    name: str
    appends: list[Append] = field(default_factory=list[Append])
    reads: list[Call] = field(default_factory=list[Call])
    searches: list[Call] = field(default_factory=list[Call])
    """Those that showed some of it."""
    deletes: list[Call] = field(default_factory=list[Call])

    @property
    def gone_from(self) -> float:
        """The moment from which it may be gone."""
        return min((call.start for call in self.deletes if _may_be_done(call)), default=inf)


class History:
    """All calls, sorted by conversation and by what they carry."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = calls
        self.conversations: dict[str, Conversation] = {}
        self.tenants: dict[str, str] = {}
        self.appends: dict[str, Append] = {}
        """The append of each text."""
        self.words: dict[str, tuple[str, Append]] = {}
        """The text and the append of each word."""
        for call in sorted(calls, key=lambda call: call.start):
            self._sort_in(call)

    def _sort_in(self, call: Call) -> None:
        for name in {seen.conversation for seen in call.seen if call.kind == "search"}:
            self._conversation(name).searches.append(call)
        if call.conversation is None or self.is_trespass(call):
            return
        conversation = self._conversation(call.conversation)
        match call.kind:
            case "create":
                self.tenants[call.conversation] = call.tenant
            case "append":
                self._sort_in_append(call, conversation)
            case "read":
                conversation.reads.append(call)
            case "delete":
                conversation.deletes.append(call)
            case "search":
                pass

    def _sort_in_append(self, call: Call, conversation: Conversation) -> None:
        append = self.appends.get(call.sent[0])
        if append is None:
            append = Append()
            conversation.appends.append(append)
            self.appends |= dict.fromkeys(call.sent, append)
            pairs = zip(call.words, call.sent, strict=True)
            self.words |= {word: (text, append) for word, text in pairs}
        append.attempts.append(call)

    def is_trespass(self, call: Call) -> bool:
        """Return True if a call names another tenant's conversation."""
        return self.tenants.get(call.conversation or "", call.tenant) != call.tenant

    def _conversation(self, name: str) -> Conversation:
        return self.conversations.setdefault(name, Conversation(name))


def check(calls: Sequence[Call]) -> list[Violation]:
    """Return every violation of a history."""
    history = History(calls)
    violations = [*_clear_failures(calls), *_trespasses(history), *_foreign_texts(history)]
    for conversation in history.conversations.values():
        places = _Places(conversation)
        violations += places.violations
        violations += _halves(conversation, places)
        violations += _against_time(conversation, places)
    return [*violations, *_unfound(history)]


def _clear_failures(calls: Iterable[Call]) -> Iterator[Violation]:
    for call in calls:
        if call.code == _INTERNAL:
            yield Violation("clear failure", "the failure has no code of its own", (call,))


def _trespasses(history: History) -> Iterator[Violation]:
    """Yield calls on another tenant's conversation that were answered like calls on one's own."""
    for call in history.calls:
        if history.is_trespass(call) and call.outcome == "ok":
            yield Violation("apart", f"{call.tenant} used a conversation of another", (call,))


def _foreign_texts(history: History) -> Iterator[Violation]:
    """Yield answers with texts that nobody sent, sent later, to elsewhere, or in vain."""
    for call in history.calls:
        for seen in call.seen:
            append = history.appends.get(seen.sha256)
            if append is None:
                yield Violation("verbatim", f"nobody sent what is at {_place(seen)}", (call,))
            else:
                yield from _misplaced(call, seen, append)


def _misplaced(call: Call, seen: Seen, append: Append) -> Iterator[Violation]:
    shown = (*append.attempts, call)
    if append.tenant != call.tenant:
        yield Violation("apart", f"{call.tenant} was shown a text of {append.tenant}", shown)
    if append.conversation != seen.conversation:
        yield Violation("one place", f"{_place(seen)} shows a text sent elsewhere", shown)
    if append.is_refused:
        yield Violation("refused is absent", f"{_place(seen)} was refused", shown)
    if append.start > call.end:
        yield Violation("not before it was sent", f"{_place(seen)} was sent later", shown)


class _Places:
    """Which text has which sequence, as far as any answer says."""

    def __init__(self, conversation: Conversation) -> None:
        self.texts: dict[int, str] = {}
        self.sequences: dict[str, int] = {}
        self.violations: list[Violation] = []
        for append in conversation.appends:
            for call in append.acknowledged:
                self._learn_append(call)
        for call in (*conversation.reads, *conversation.searches):
            self._learn_shown(conversation.name, call)

    def of(self, append: Append) -> tuple[int, int] | None:
        """Return the first and last sequence of an append, if anything of it is known to be stored."""
        for number, text in enumerate(append.sent):
            if text in self.sequences:
                first = self.sequences[text] - number
                return first, first + len(append.sent) - 1
        return None

    def _learn_append(self, call: Call) -> None:
        if call.last - call.first + 1 != len(call.sent) or call.first < 1:
            said = f"{len(call.sent)} messages got {call.first} to {call.last}"
            self.violations.append(Violation("consecutive", said, (call,)))
        for number, text in enumerate(call.sent):
            self._learn(call.first + number, text, call)

    def _learn_shown(self, name: str, call: Call) -> None:
        shown = [seen for seen in call.seen if seen.conversation == name]
        for seen in shown:
            self._learn(seen.sequence, seen.sha256, call)
        if call.kind == "read" and call.outcome == "ok":
            self._learn_page(call, [seen.sequence for seen in shown])

    def _learn_page(self, call: Call, sequences: list[int]) -> None:
        begin = call.offset + 1
        if sequences != list(range(begin, begin + len(sequences))):
            said = f"a page from {begin} has {sequences}"
            self.violations.append(Violation("consecutive", said, (call,)))
        if call.is_whole and call.offset + len(sequences) != call.total:
            said = f"a page of {len(sequences)} from {begin} ends before {call.total}"
            self.violations.append(Violation("consecutive", said, (call,)))

    def _learn(self, sequence: int, text: str, call: Call) -> None:
        if self.texts.setdefault(sequence, text) != text:
            said = f"two texts at {sequence}"
            self.violations.append(Violation("one place", said, (call,)))
        if self.sequences.setdefault(text, sequence) != sequence:
            said = f"one text at {self.sequences[text]} and {sequence}"
            self.violations.append(Violation("one place", said, (call,)))


def _halves(conversation: Conversation, places: _Places) -> Iterator[Violation]:
    """Yield appends of which a part is stored, or was shown before the rest."""
    inside: Mapping[int, Append] = {
        sequence: append
        for append in conversation.appends
        if (place := places.of(append))
        for sequence in range(place[0], place[1])
    }
    for append in conversation.appends:
        yield from _torn(append, places)
    for read in conversation.reads:
        if read.outcome == "ok" and read.total in inside:
            shown = (*inside[read.total].attempts, read)
            yield Violation("all or nothing", f"a read ends within one at {read.total}", shown)


def _torn(append: Append, places: _Places) -> Iterator[Violation]:
    place = places.of(append)
    if place is None:
        return
    for number, text in enumerate(append.sent):
        if places.texts.get(place[0] + number, text) != text:
            said = f"another text lies within it at {place[0] + number}"
            yield Violation("all or nothing", said, tuple(append.attempts))


@dataclass(frozen=True, slots=True)
class _Step:
    """A call that needs a conversation to be so long when it begins, and shows how long at its end."""

    call: Call
    start: float
    end: float
    least: float
    """How long the log may have been at most when it began: `inf` for any length, and gone."""
    shows: float
    """How long it was at least when it ended; `inf` says gone."""


def _against_time(conversation: Conversation, places: _Places) -> Iterator[Violation]:
    """Yield answers that contradict one that was given before they were asked for."""
    steps = [*_append_steps(conversation, places), *_other_steps(conversation)]
    beginnings = sorted(steps, key=lambda step: step.start)
    endings = iter(sorted((step for step in steps if step.end < inf), key=lambda step: step.end))
    known: _Step | None = None
    by_client: dict[str, _Step] = {}
    ending = next(endings, None)
    for step in beginnings:
        while ending is not None and ending.end < step.start:
            known = _further(known, ending)
            by_client[ending.call.client] = _further(by_client.get(ending.call.client), ending)
            ending = next(endings, None)
        if known is not None and step.least < known.shows:
            yield _contradiction(by_client.get(step.call.client), known, step)
    for step in beginnings:
        if step.shows == inf and conversation.gone_from > step.end:
            yield Violation("kept", "nobody had deleted it", (step.call,))


def _further(known: _Step | None, step: _Step) -> _Step:
    return step if known is None or step.shows > known.shows else known


def _contradiction(own: _Step | None, known: _Step, step: _Step) -> Violation:
    shown = (known.call, step.call)
    if known.shows == inf:
        return Violation("gone", f"{step.call.kind} after it was gone", shown)
    said = f"{step.call.kind} at {step.least:.0f} after {known.shows:.0f} was known"
    if step.call.kind == "append":
        return Violation("in order", said, shown)
    if own is not None and own.call.kind == "read" and own.shows > step.least:
        return Violation("monotonic", said, (own.call, step.call))
    return Violation("visible", said, shown)


def _append_steps(conversation: Conversation, places: _Places) -> Iterator[_Step]:
    for append in conversation.appends:
        place = places.of(append)
        if place is not None:
            yield _Step(append.attempts[0], append.start, append.end, place[0] - 1, place[1])
        yield from (_gone(call) for call in append.attempts if call.is_gone)


def _other_steps(conversation: Conversation) -> Iterator[_Step]:
    for call in conversation.reads:
        if call.outcome == "ok":
            yield _Step(call, call.start, call.end, call.total, call.total)
        elif call.is_gone:
            yield _gone(call)
    for call in conversation.deletes:
        if call.outcome == "ok" or call.is_gone:
            yield _gone(call)
    for call in conversation.searches:
        found = max(seen.sequence for seen in call.seen if seen.conversation == conversation.name)
        # What a search leaves out is judged by `_unfound`; what it shows must not have been gone.
        yield _Step(call, call.start, call.end, _ANY_LENGTH, found)


_ANY_LENGTH = 1e18
"""More than any log is long, and less than gone."""


def _gone(call: Call) -> _Step:
    return _Step(call, call.start, call.end, inf, inf)


def _unfound(history: History) -> Iterator[Violation]:
    """Yield searches that did not find what was acknowledged before they began."""
    for call in history.calls:
        if call.kind != "search" or call.outcome != "ok":
            continue
        text, append = history.words.get(call.words[0], ("", None))
        if append is None or append.tenant != call.tenant or append.end >= call.start:
            continue
        if history.conversations[append.conversation].gone_from < call.end:
            continue
        if text not in {seen.sha256 for seen in call.seen}:
            shown = (*append.attempts, call)
            yield Violation("findable", f"the word {call.words[0]} was not found", shown)


def _may_be_done(call: Call) -> bool:
    return call.outcome != "failed"


def _place(seen: Seen) -> str:
    return f"{seen.conversation} #{seen.sequence}"
