"""Rows of the set: two haystacks of conversations with long texts, and their questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import islice
from random import Random
from typing import Any, NamedTuple

from bench.needles.chats import reply, turns
from bench.needles.forms import FORMS, Form, opening, planted_line
from bench.needles.names import SERVICES, pick
from bench.needles.plants import Plant, plants

SEED = 20_240_506
HAYSTACKS = ("north", "south")
FIRST_DAY = date(2024, 5, 6)


class Size(NamedTuple):
    """How many texts of a size a haystack has, and how many things lie in each."""

    kilobytes: int
    texts: int
    plants: int


SIZES = (Size(1, 27, 1), Size(3, 15, 3), Size(10, 6, 6), Size(30, 3, 12), Size(100, 1, 27))
"""Together 320 KB and 171 questions: more would take longer to embed than one waits for."""

PLACES = {"beginning": (0.0, 0.08), "middle": (0.45, 0.55), "end": (0.92, 1.0)}
"""Where a thing lies, as shares of the text."""

SMALL_TALKS = 30
SMALL_TALK_MESSAGES = 8

Row = dict[str, Any]


def rows() -> Iterator[Row]:
    """Yield the lines of the set; every call yields the same."""
    yield {"type": "meta", "name": "needles", "split": "own"}
    for number, name in enumerate(HAYSTACKS):
        yield from _Haystack(name, Random(SEED + number), SERVICES[number :: len(HAYSTACKS)]).rows()  # noqa: S311 a fixed order, not a secret


@dataclass(slots=True)
class _LongText:
    """A text, and what lies in it."""

    form: Form
    service: str
    content: str
    questions: list[Row]


class _Haystack:
    """The conversations of one haystack, generated in order."""

    def __init__(self, name: str, chance: Random, services: Sequence[str]) -> None:
        self._name = name
        self._chance = chance
        self._services = services
        self._plants = plants(chance, services)
        self._turns = turns(chance)
        self._conversations = 0
        self._used = set[str]()

    def rows(self) -> Iterator[Row]:
        """Yield conversations with long texts, everyday talk between them, and the questions."""
        sizes = [size for size in SIZES for _ in range(size.texts)]
        self._chance.shuffle(sizes)
        made = [self._long_text(number, size) for number, size in enumerate(sizes)]
        talks = self._chance.sample(range(len(made)), SMALL_TALKS)
        for number, text in enumerate(made):
            if number in talks:
                yield self._small_talk()
            yield self._conversation(text)
        for text in made:
            yield from text.questions

    def _small_talk(self) -> Row:
        contents = islice(self._turns, SMALL_TALK_MESSAGES)
        return self._row(
            [(("user", "assistant")[place % 2], said) for place, said in enumerate(contents)]
        )

    def _conversation(self, text: _LongText) -> Row:
        row = self._row(
            [
                ("user", next(self._turns)),
                ("user", opening(self._chance, text.form, text.service)),
                (text.form.role, text.content),
                ("assistant", reply(self._chance)),
                ("user", next(self._turns)),
            ]
        )
        for question in text.questions:
            question["evidence"] = [row["messages"][2]["id"]]
            question["evidence_conversations"] = [row["id"]]
        return row

    def _row(self, said: Sequence[tuple[str, str]]) -> Row:
        self._conversations += 1
        identity = f"{self._name}{self._conversations}"
        return {
            "type": "conversation",
            "id": identity,
            "haystack": self._name,
            "date": (FIRST_DAY + timedelta(days=self._conversations)).isoformat(),
            "messages": [
                {"id": f"{identity}.{place}", "role": role, "content": content}
                for place, (role, content) in enumerate(said, start=1)
            ],
        }

    def _long_text(self, number: int, size: Size) -> _LongText:
        form, service = FORMS[number % len(FORMS)], pick(self._chance, self._services)
        blocks = list(self._blocks(form, service, size.kilobytes * 1_000))
        text = _LongText(form, service, "", [])
        placed = list[tuple[int, str]]()
        for count in range(size.plants):
            plant, place = self._plant(), tuple(PLACES)[(number + count // 3) % len(PLACES)]
            index = round(self._chance.uniform(*PLACES[place]) * len(blocks))
            verbatim = _verbatim(form, plant)
            line = planted_line(self._chance, form, service, plant.kind, verbatim)
            placed.append((index, line))
            text.questions.append(self._question(plant, verbatim, place, form, size))
        # From the end, so that the places before stay where they are.
        for index, line in sorted(placed, reverse=True):
            blocks.insert(index, line)
        text.content = "\n".join(blocks)
        return text

    def _blocks(self, form: Form, service: str, size: int) -> Iterator[str]:
        for block in form.blocks(self._chance, service):
            if size <= 0:
                return
            size -= len(block) + 1
            yield block

    def _plant(self) -> Plant:
        """Return the next thing whose words were not planted before."""
        while (plant := next(self._plants)).fields[0] in self._used:
            continue
        self._used.add(plant.fields[0])
        return plant

    def _question(self, plant: Plant, verbatim: str, place: str, form: Form, size: Size) -> Row:
        return {
            "type": "question",
            "id": f"{self._name}?{len(self._used)}",
            "scope": self._name,
            "question": plant.question,
            "category": plant.kind,
            "answer": verbatim,
            "verbatim": verbatim,
            "labels": {
                "kind": plant.kind,
                "size": f"{size.kilobytes} KB",
                "text": form.name,
                "place": place,
            },
        }


def _verbatim(form: Form, plant: Plant) -> str:
    name, value = plant.fields
    return form.setting.format(name=name, value=value) if plant.kind == "identifier" else name
