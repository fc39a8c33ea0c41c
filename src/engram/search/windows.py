"""Choose the windows that show ranked messages in the context they were said in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engram.model.ids import ConversationKey
from engram.search.ranking import Scored
from engram.text.windows import Window, window, window_numbers_holding


@dataclass(frozen=True, slots=True)
class ChosenWindow:
    """A window and the best message it is shown for."""

    item: Scored
    window: Window


def choose_windows(
    ranked: Sequence[Scored], *, last_sequences: Mapping[ConversationKey, int]
) -> list[ChosenWindow]:
    """Return for each message, best first, the window of its that holds most, unless one was chosen.

    Messages of conversations that are not among `last_sequences` are left out.
    """
    known = [item for item in ranked if item.conversation in last_sequences]
    worth: defaultdict[tuple[ConversationKey, int], float] = defaultdict(float)
    for item in known:
        for place in _places(item, last_sequences):
            worth[place] += item.order
    chosen: dict[tuple[ConversationKey, int], Scored] = {}
    for item in known:
        places = _places(item, last_sequences)
        if not any(place in chosen for place in places):
            chosen[max(places, key=lambda place: (worth[place], -place[1]))] = item
    return [
        ChosenWindow(item, window(number, last_sequence=last_sequences[conversation]))
        for (conversation, number), item in chosen.items()
    ]


def _places(
    item: Scored, last_sequences: Mapping[ConversationKey, int]
) -> list[tuple[ConversationKey, int]]:
    # A message may have been appended since the conversation's length was read.
    last = max(last_sequences[item.conversation], item.sequence)
    numbers = window_numbers_holding(item.sequence, last_sequence=last)
    return [(item.conversation, number) for number in numbers]
