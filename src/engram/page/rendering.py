"""Templates of the page, and the filters that they use: everything stored is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache, lru_cache
from typing import Any, cast
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from engram.clock import format_time
from engram.page.markdown import to_html
from engram.page.places import Place
from engram.page.static_files import static_link
from engram.text.quoting import PLAIN
from engram.text.tokens import count_tokens

_STEPS = ((86_400 * 365, "y"), (86_400 * 30, "mo"), (86_400, "d"), (3_600, "h"), (60, "min"))
_NOW_S = 45
_FACTOR = 1_000
_MESSAGES_LINKED = 4
"""Of one place: the first lead there, and a list has hundreds of them."""

_is_plain = re.compile(r"[\w-]+", re.ASCII).fullmatch
"""Whether a text has nothing to escape, as our ids have not: a list has hundreds of them."""

_CODE = re.compile(r"`([^`\n]+)`")

_CLIENTS_KEPT = 64

_UNITS = ("B", "kB", "MB", "GB", "TB")


def render(template: str, context: Mapping[str, Any]) -> str:
    """Return a template filled with values."""
    return environment().get_template(template).render(context)


@cache
def environment() -> Environment:
    """Return the templates, compiled at their first use."""
    made = Environment(
        loader=PackageLoader("engram.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    cast("dict[str, Any]", made.filters).update(_FILTERS)
    made.globals["static"] = static_link
    return made


def ago(moment: datetime, now: datetime) -> Markup:
    """Return a moment as the time since, with the exact one on hover."""
    exact = format_time(moment)
    shown = f"{exact[:10]} {exact[11:19]} UTC"
    since = _since((now - moment).total_seconds())
    # Digits and names of units: nothing to escape, and a long list has many of them.
    return Markup(f'<time datetime="{exact}" title="{shown}">{since}</time>')  # noqa: S704


def _since(seconds: float) -> str:
    distance = abs(seconds)
    if distance < _NOW_S:
        return "now"
    step, unit = _STEPS[-1]
    for step, unit in _STEPS:  # noqa: B007 both are used below
        if distance >= step:
            break
    amount = f"{max(1, round(distance / step))} {unit}"
    return f"{amount} ago" if seconds > 0 else f"in {amount}"


def number(value: float) -> str:
    """Return a number with its thousands apart."""
    return f"{value:,}"


def share(value: float) -> str:
    """Return a value of 0 to 1 with two digits."""
    return f"{value:.2f}"


def inline_code(text: str) -> Markup:
    """Return one paragraph with what is between backticks as code, and nothing else formatted."""
    # Escaping leaves backticks alone, so it comes first.
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 escaped


@lru_cache(maxsize=_CLIENTS_KEPT)
def client_query(name: str) -> str:
    """Return the name of a client as the value of a query; a list has the same few in all its rows."""
    return quote(name, safe="")


def size(count: int) -> str:
    """Return a number of bytes in the unit that fits."""
    value, unit = float(count), 0
    while value >= _FACTOR and unit < len(_UNITS) - 1:
        value, unit = value / _FACTOR, unit + 1
    return (
        f"{value:.0f} {_UNITS[unit]}" if unit == 0 or value >= 10 else f"{value:.1f} {_UNITS[unit]}"
    )


def place_links(places: Iterable[Place]) -> Markup:
    """Return what was delivered, each as a link to where it can be read."""
    # Written here because a list has hundreds, which a macro takes several times as long for.
    return Markup(f'<span class="places">{"".join(map(_place_link, places))}</span>')  # noqa: S704 escaped


def _place_link(place: Place) -> str:
    owner, link = place.id, place.link
    if not _is_plain(owner):
        owner, link = escape(PLAIN.label(owner)), link and escape(link)
    if link is None:
        return f'<span><span class="tag id">{owner}</span></span> '
    if not place.sequences:
        return f'<span><a class="tag id" href="{link}">{owner}</a></span> '
    first = place.sequences[0]
    messages = "".join(
        [
            f' <a class="tag num" href="{link}?at={each}#m{each}">#{each}</a>'
            for each in place.sequences[:_MESSAGES_LINKED]
        ]
    )
    if (more := len(place.sequences) - _MESSAGES_LINKED) > 0:
        messages += f' <span class="quiet">and {more} more</span>'
    return (
        f'<span><a class="tag id" href="{link}?at={first}#m{first}">{owner}</a>{messages}</span> '
    )


_FILTERS: dict[str, Any] = {
    "ago": ago,
    "size": size,
    "number": number,
    "share": share,
    "client_query": client_query,
    "shown": PLAIN.text,
    "label": PLAIN.label,
    "markdown": to_html,
    "inline_code": inline_code,
    "tokens": count_tokens,
    "place_links": place_links,
}
