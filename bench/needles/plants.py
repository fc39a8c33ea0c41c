"""What is planted: identifiers with their values, error texts, facts, and the questions that ask for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from random import Random

from bench.needles.names import (
    CITIES,
    NOUNS,
    PEOPLE,
    amount,
    camel,
    hexadecimal,
    host,
    number,
    pascal,
    path,
    pick,
    snake,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """Something to plant, and the question that it answers."""

    kind: str
    fields: tuple[str, str]
    """Name and value of a setting; the text of an error or a fact, twice."""
    question: str


KINDS = ("identifier", "error", "fact", "paraphrase")

_IDENTIFIERS: tuple[Callable[[Random], str], ...] = (
    lambda chance: f"{snake(chance)}_ms",
    lambda chance: snake(chance).upper(),
    lambda chance: pascal(chance) + pick(chance, ("Handler", "Planner", "Factory", "Guard")),
    lambda chance: f"{camel(chance)}V{chance.randrange(2, 9)}",
    lambda chance: f"{pick(chance, NOUNS)[:4]}_{hexadecimal(chance, 10)}",
    lambda chance: (
        f"{pick(chance, ('OPS', 'INFRA', 'BILL', 'DATA'))}-{chance.randrange(10_000, 99_999)}"
    ),
    lambda chance: f"E{chance.randrange(1000, 9999)}{pick(chance, 'KQXZ')}",
    lambda chance: hexadecimal(chance, 12),
)

_VALUES: tuple[Callable[[Random], str], ...] = (
    amount,
    path,
    host,
    lambda chance: hexadecimal(chance, 16),
)

_IDENTIFIER_QUESTIONS = (
    "{name}",
    "What is {name} set to?",
    "Where did we come across {name}?",
    "Which value has {name}?",
)

_ERRORS = (
    "cannot allocate {n} pages for ring buffer {noun}-{hex}",
    "checksum mismatch in segment {hex}: expected {other}",
    "refusing to start: {path} is held by process {big}",
    "connection to {host} closed after {big} bytes of the handshake",
    "column {snake} of relation {noun} contains null values",
    "undefined reference to {camel} in lib{noun}",
    "peer {host} sent a frame of type {n} before its settings",
    "certificate for {host} expired {n} days ago",
    "could not serialize access to {snake} after {n} attempts",
    "unexpected byte {hex} at offset {big} of {path}",
    "assertion failed: {snake} is {n}, at most {big} expected",
    "quota of {noun} exceeded by {big} objects in {path}",
    "deadline passed while waiting for a quorum of {snake}",
    "unknown filesystem type on {path}",
    "no migration from schema {n} to {big} for {noun} {hex}",
    "broken pipe while streaming {noun} {hex} to {host}",
    "type {pascal} does not implement {camel}",
    "duplicate key {hex} violates unique constraint {snake}",
    "out of file descriptors after {big} sockets to {host}",
    "cyclic import between {snake} and {noun}.{camel}",
)

_ERROR_QUESTIONS = (
    "{text}",
    "Have we seen this before: {text}",
    "Where did we get the error '{text}'?",
)

_FACTS = tuple(
    tuple(line.split(" | "))
    for line in """\
{s} keeps its backups for {n} days before they are pruned. | For how many days does {s} keep its backups before they are pruned? | How long are old snapshots of {s} retained?
{s} writes its audit trail to {path}. | Where does {s} write its audit trail? | Where does {s} store the record of who did what?
Never restart {s} between {h} and {h2} o'clock. | Between which hours must nobody restart {s}? | At what time of day is it forbidden to reboot {s}?
{person} carries the pager of {s}. | Who carries the pager of {s}? | Who is called when {s} breaks at night?
{s} falls back to the replica in {city} when its primary is down. | To which replica does {s} fall back when its primary is down? | Where is the spare database of {s}?
Nodes of {s} talk to each other on port {big}. | On which port do nodes of {s} talk to each other? | Over which endpoint number does {s} communicate internally?
The licence of {s} runs out in {month} {year}. | When does the licence of {s} run out? | When does our right to use {s} expire?
{s} was rewritten because the old one leaked {noun} handles. | Why was {s} rewritten, what did the old one leak? | Why did we replace the implementation of {s}?
{person} chose batches of {n} rows for {s} after the load test. | Who chose the batches of rows for {s} after the load test? | How many records does {s} process at once?
{s} rejects uploads above {n} megabytes. | Above how many megabytes does {s} reject uploads? | What is the largest file that {s} accepts?
{s} retries a failed call {n} times and then gives up. | How many times does {s} retry a failed call before it gives up? | How many attempts does {s} make before it stops?
The dashboard of {s} lives at {host}. | Where does the dashboard of {s} live? | Where can I see the graphs of {s}?
{s} belongs to the {noun} team since the reorganisation. | Which team does {s} belong to since the reorganisation? | Which group maintains {s} now?
{s} drops events that are older than {n} minutes. | After how many minutes does {s} drop older events? | What happens in {s} to data that arrives late?
{s} needs {n} gigabytes of memory to rebuild its index. | How many gigabytes of memory does {s} need to rebuild its index? | How much RAM does reindexing take on {s}?
{s} signs its tokens with the key {hex}. | Which key does {s} sign its tokens with? | What are the credentials of {s} issued with?
{s} gets its configuration from {path}, not from the environment. | Where does {s} get its configuration from, if not from the environment? | From which file is {s} set up?
Do not enable compression in {s}: it corrupts frames above {n} kilobytes. | Why should we not enable compression in {s}, what does it corrupt? | Why is zipping switched off for {s}?
{s} goes to production every {day} after lunch. | On which day does {s} go to production after lunch? | On which weekday is {s} deployed?
{s} runs {n} replicas in {city} and none elsewhere. | How many replicas does {s} run, and in which city? | In which town are the machines of {s}?
The first month of {s} cost {big} euros of traffic. | What did the first month of {s} cost in traffic? | How expensive was the launch of {s}?
{s} was named after a boat of {person}'s uncle. | Whose uncle's boat was {s} named after? | Where does the name {s} come from?
Clocks that differ by {n} seconds make {s} refuse writes. | By how many seconds may clocks differ until {s} refuses writes? | How far may the time be off before {s} rejects changes?
{s} empties half of its cache when it is {n} percent full. | At how many percent does {s} empty half of its cache? | At which fill level does {s} throw entries away?
{s} stays on version {n}.{n2}, as later ones break the {noun} export. | Which version does {s} stay on because later ones break the export? | Why can we not upgrade {s}?
{s} mails its weekly summary to {person}. | To whom does {s} mail its weekly summary? | Who receives the report of {s}?
{s} may use at most {n} connections of the pool. | How many connections of the pool may {s} use at most? | What is the ceiling of database sessions for {s}?
The contract test of {s} pretends that it is the year {year}. | Which year does the contract test of {s} pretend that it is? | Which date does {s} assume when it is tested?
{person} has the only spare token for the {s} vault. | Who has the only spare token for the {s} vault? | Who can open the safe of {s} in an emergency?
{s} treats an amount without a currency as {currency}. | As which currency does {s} treat an amount without one? | What does {s} assume if no money unit is given?\
""".splitlines()
)


_MONTHS = ("January", "March", "May", "August", "October", "December")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday")
_CURRENCIES = ("Swiss francs", "Danish crowns", "Polish zloty", "Japanese yen")


def plants(chance: Random, services: Sequence[str]) -> Iterator[Plant]:
    """Yield endless plants of the kinds in turn; no fact is told of a service twice."""
    facts = _facts(chance, services)
    for kind in cycle(KINDS):
        if kind == "identifier":
            yield _identifier(chance)
        elif kind == "error":
            yield _error(chance)
        else:
            yield _fact(*next(facts), kind=kind)


def _identifier(chance: Random) -> Plant:
    name, value = pick(chance, _IDENTIFIERS)(chance), pick(chance, _VALUES)(chance)
    question = pick(chance, _IDENTIFIER_QUESTIONS).format(name=name)
    return Plant(kind="identifier", fields=(name, value), question=question)


def _error(chance: Random) -> Plant:
    text = pick(chance, _ERRORS).format(**_values(chance))
    question = pick(chance, _ERROR_QUESTIONS).format(text=text)
    return Plant(kind="error", fields=(text, text), question=question)


def _facts(chance: Random, services: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield facts about services, each with a question in its words and one in others."""
    pairs = [(fact, service) for fact in _FACTS for service in services]
    chance.shuffle(pairs)
    for (fact, *questions), service in pairs:
        text = fact.format(s=service, **_values(chance))
        direct, paraphrased = (question.format(s=service) for question in questions)
        yield text, direct, paraphrased


def _fact(text: str, direct: str, paraphrased: str, *, kind: str) -> Plant:
    question = direct if kind == "fact" else paraphrased
    return Plant(kind=kind, fields=(text, text), question=question)


def _values(chance: Random) -> dict[str, object]:
    hour = chance.randrange(1, 20)
    return {
        "n": number(chance),
        "n2": chance.randrange(1, 40),
        "big": chance.randrange(1_000, 60_000),
        "hex": hexadecimal(chance, 8),
        "other": hexadecimal(chance, 8),
        "noun": pick(chance, NOUNS),
        "snake": snake(chance),
        "camel": camel(chance),
        "pascal": pascal(chance),
        "path": path(chance),
        "host": host(chance),
        "person": pick(chance, PEOPLE),
        "city": pick(chance, CITIES),
        "month": pick(chance, _MONTHS),
        "year": chance.randrange(2027, 2039),
        "day": pick(chance, _DAYS),
        "currency": pick(chance, _CURRENCIES),
        "h": hour,
        "h2": hour + chance.randrange(1, 4),
    }
