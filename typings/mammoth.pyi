"""The part of Mammoth that Engram uses; it ships no types of its own."""

from collections.abc import Callable
from typing import BinaryIO

class Result:
    value: str

def convert_to_html(
    fileobj: BinaryIO,
    *,
    convert_image: Callable[[object], list[object]],
    include_embedded_style_map: bool,
) -> Result: ...
