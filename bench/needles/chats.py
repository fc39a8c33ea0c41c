"""Ordinary conversation, to hide the long texts among."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from bench.needles.names import ADJECTIVES, CITIES, NOUNS, PEOPLE, VERBS, pick

_TURNS = (
    "Did {person} answer you about the {noun}? I would like to close that this week.",
    "Not yet, {person} is in {city} until Thursday. I can ask again tomorrow.",
    "Let us keep the {adjective} {noun} for now and decide after the holidays.",
    "I would rather {verb} the {noun} first; it is the smaller change.",
    "Fine with me. Who writes the note for {person}?",
    "The train to {city} was late again, so I missed half of the meeting.",
    "My daughter has a concert on Friday, I leave at three.",
    "Lunch at the usual place? {person} wants to come along.",
    "We should thank {person} for the help with the {noun}.",
    "Is there a reason why we {verb} every {noun} twice?",
    "That was before my time. {person} may remember.",
    "I put the slides for {city} into the shared folder.",
    "Please make the second paragraph shorter, nobody reads that much.",
    "Done. I also removed the sentence about the {adjective} {noun}.",
    "The customer from {city} called and asked for a discount.",
    "Tell them that we answer by Monday.",
    "How was the weekend? We went swimming in the lake near {city}.",
    "Quiet. {person} visited and we cooked for six people.",
    "Can you explain in two sentences what a {noun} {noun2} is for?",
    "It lets one part {verb} a {noun} while the other still reads the old {noun2}.",
    "Good, I can use that for the newsletter.",
    "Remind me to order new chairs for the office in {city}.",
    "I will. Blue ones as before?",
    "Yes, and one for {person}, who has a bad back.",
    "The coffee machine is broken again.",
    "I prefer short meetings without slides.",
)

_REPLIES = (
    "Thank you, I will read it and come back to you.",
    "I see. Nothing alarming at first sight, but I have not read every line.",
    "That is a lot. Which part do you mean?",
    "Ok, thanks.",
    "Good, let us go on with the next point.",
    "Understood. I keep it in mind.",
)


def turns(chance: Random) -> Iterator[str]:
    """Yield endless messages of everyday talk."""
    while True:
        yield pick(chance, _TURNS).format(
            person=pick(chance, PEOPLE),
            city=pick(chance, CITIES),
            noun=pick(chance, NOUNS),
            noun2=pick(chance, NOUNS),
            verb=pick(chance, VERBS),
            adjective=pick(chance, ADJECTIVES),
        )


def reply(chance: Random) -> str:
    """Return what is said after a long text."""
    return pick(chance, _REPLIES)
