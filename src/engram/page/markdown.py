"""Stored Markdown as HTML that can do nothing: no HTML of its own, no images, links that name where they lead."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from markupsafe import Markup

from engram.text.quoting import PLAIN
from engram.yielding import yield_to_others

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

RENDERED_CHARACTERS_MAX = 20_000
"""A longer text is shown as it is: the parser reads some 500,000 characters a second."""


def to_html(text: str) -> Markup:
    """Return a stored text as HTML; a long one without formatting."""
    yield_to_others()
    shown = PLAIN.text(text)
    if len(shown) > RENDERED_CHARACTERS_MAX:
        return Markup('<div class="verbatim">{}</div>').format(shown)
    return Markup(_parser().render(shown))  # noqa: S704 the parser escapes all HTML


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415 few requests need it

    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "breaks": True})
    # An image would tell its server who reads what, and when.
    return parser.enable("table").disable(["image", "html_block", "html_inline"])
