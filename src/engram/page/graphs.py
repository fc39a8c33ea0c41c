"""Relations around a memory, laid out as a graph: a column for each step away from it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence

from engram.model.ids import MemoryId
from engram.model.memory import Relation, RelationType
from engram.model.value import Value

NODES_MAX = 150
"""More are a list, and no picture."""

COLUMN = 300
ROW = 34
NODE_WIDTH = 210
NODE_HEIGHT = 26
MARGIN = 6
LABEL_CELLS = 26
"""Room for the label of a node, in characters of normal width."""


class Node(Value):
    """A memory of the graph, and the middle of the left edge of its box."""

    id: MemoryId
    label: str
    step: int
    x: int
    y: int
    is_forgotten: bool = False


class Edge(Value):
    """A relation of the graph, as the path of its line."""

    source_id: MemoryId
    target_id: MemoryId
    relation_type: RelationType
    strength: float
    path: str


class Graph(Value):
    """A graph in its frame, and how many memories did not fit."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    width: int
    height: int
    hidden: int = 0


def steps_from(center: MemoryId, relations: Iterable[Relation]) -> dict[MemoryId, int]:
    """Return how many steps memories are away from one, nearest first; `relations` come nearest first."""
    steps = {center: 0}
    for relation in relations:
        ends = (relation.source_id, relation.target_id)
        for near, far in (ends, ends[::-1]):
            if near in steps and far not in steps:
                steps[far] = steps[near] + 1
    return steps


def lay_out(
    center: MemoryId,
    relations: Sequence[Relation],
    *,
    labels: Mapping[MemoryId, str],
    forgotten: Iterable[MemoryId] = (),
) -> Graph:
    """Return the nearest memories around one in columns, each beside what leads to it."""
    steps = steps_from(center, relations)
    shown = dict(list(steps.items())[:NODES_MAX])
    columns = [
        [each for each, step in shown.items() if step == column]
        for column in range(max(shown.values()) + 1)
    ]
    tallest = max(map(len, columns))
    gone = frozenset(forgotten)
    nodes = {
        each: Node(
            id=each,
            label=short_label(labels.get(each, each)),
            step=column,
            x=MARGIN + column * COLUMN,
            y=MARGIN + round((row + 0.5) * ROW + (tallest - len(members)) * ROW / 2),
            is_forgotten=each in gone,
        )
        for column, members in enumerate(columns)
        for row, each in enumerate(members)
    }
    return Graph(
        nodes=tuple(nodes.values()),
        edges=tuple(
            _edge(relation, nodes[relation.source_id], nodes[relation.target_id])
            for relation in relations
            if relation.source_id in nodes and relation.target_id in nodes
        ),
        width=2 * MARGIN + (len(columns) - 1) * COLUMN + NODE_WIDTH + ROW,
        height=2 * MARGIN + tallest * ROW,
        hidden=len(steps) - len(shown),
    )


def short_label(text: str, cells: int = LABEL_CELLS) -> str:
    """Return the beginning of a text that fits some cells; wide characters take two."""
    line, used = " ".join(text[: 4 * cells].split()), 0
    for place, character in enumerate(line):
        used += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if used > cells:
            return line[: max(0, place - 1)] + "…"
    return line


def _edge(relation: Relation, source: Node, target: Node) -> Edge:
    return Edge(
        source_id=relation.source_id,
        target_id=relation.target_id,
        relation_type=relation.relation_type,
        strength=relation.strength,
        path=_path(source, target),
    )


def _path(source: Node, target: Node) -> str:
    """Return the line between two boxes, from the source to the target."""
    if source.step == target.step:
        side, out = source.x + NODE_WIDTH, source.x + NODE_WIDTH + ROW
        return f"M{side} {source.y}C{out} {source.y} {out} {target.y} {side} {target.y}"
    is_onward = source.step < target.step
    start = source.x + (NODE_WIDTH if is_onward else 0)
    end = target.x + (0 if is_onward else NODE_WIDTH)
    middle = (start + end) // 2
    return f"M{start} {source.y}C{middle} {source.y} {middle} {target.y} {end} {target.y}"
