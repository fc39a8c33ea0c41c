"""Read SQLite's variable-length integers, in which FTS5 keeps its own counts."""

from __future__ import annotations


def read_varints(block: bytes) -> list[int]:
    """Return the integers of a block, each of one to nine bytes, the high bits first."""
    numbers: list[int] = []
    value = length = 0
    for byte in block:
        length += 1
        if length == 9:
            value = value << 8 | byte
        else:
            value = value << 7 | byte & 0x7F
            if byte & 0x80:
                continue
        numbers.append(value)
        value = length = 0
    return numbers
