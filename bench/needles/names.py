"""Random names, numbers and values, as they stand in logs and code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")

SERVICES = tuple(
    """
    kestrel heron osprey merlin bittern plover curlew dunlin godwit avocet lapwing redshank
    basalt gneiss feldspar olivine gypsum marble schist pumice quartz dolomite travertine obsidian
    juniper alder hornbeam rowan tamarack cypress hawthorn larch mulberry sequoia willow hazel
    borealis meridian zenith perigee solstice equinox parallax nadir apogee azimuth ecliptic umbra
    caravel brigantine schooner ketch felucca galleon corvette dhow clipper sloop trawler barque
    """.split()  # noqa: SIM905 sixty quoted words would be harder to read
)
"""Code names of the services that the texts are about."""

NOUNS = tuple(
    """
    account address anchor archive batch beacon bridge broker bucket buffer cache carrier catalog channel
    checkpoint claim cluster column commit connection consumer contract counter cursor customer delta digest
    document domain draft element endpoint entry envelope event export feature field filter folder frame gateway
    grant graph group handle header history image import index ingest interval invoice item journal kernel label lease
    ledger limit listing loader lock manifest marker merge message metric mirror model network node notice object offer
    order origin owner packet page parcel partition patch payload payment pipeline policy pool prefix price probe
    producer profile project prompt proxy quota range reader receipt record refund region registry relay replica report
    request reservation resource result route schedule schema scope segment sensor session shard shipment signal
    snapshot source span spool stage state stream supplier table tenant ticket token topic trace transfer tree trigger
    update upload user vector version view voucher wallet window worker writer zone
    """.split()  # noqa: SIM905 as above
)

VERBS = tuple(
    """
    accept acquire add allocate apply archive assign attach bind build cancel check claim clear close collect commit
    compact compare compute confirm connect copy count create decode defer delete detach drain drop emit encode evict
    expand expire export fetch filter find flush fold forward freeze gather import index insert issue join limit list
    load lock map mark merge migrate move normalise notify open pack parse patch pause persist pick plan poll prune
    publish purge push queue read rebuild receive refresh reject release remove rename render repair replace replay
    reserve reset resolve restore resume retry revoke rotate route save scan schedule seal select send settle shrink
    sign skip snapshot sort split spill stamp start stop store sync tag throttle touch trace trim truncate unlock update
    validate verify wait warm watch write
    """.split()  # noqa: SIM905 as above
)

ADJECTIVES = tuple(
    """
    active ancient async backup broken cached cold current daily dirty durable eager early empty expired external
    failed fast final first foreign global hidden hot idle initial internal invalid last late lazy local locked manual
    missing nested next old open optional orphaned partial pending primary private public quick random raw recent
    remote sealed secondary shared short slow spare stale static strict sudden temporary unknown unused upper weak
    """.split()  # noqa: SIM905 as above
)

PEOPLE = tuple(
    """
    Amara Bastien Chiara Dmitri Eleni Farid Greta Hiroshi Ingrid Jamal Katarzyna Leandro Mirjam Nikhil Oluwaseun
    Priya Quentin Rosalind Siobhan Tomasz Ulrike Vikram Wanjiru Xiomara Yusuf Zofia
    """.split()  # noqa: SIM905 as above
)

CITIES = tuple(
    """
    Antwerp Bergen Cork Debrecen Eindhoven Faro Ghent Heraklion Izmir Jena Kaunas Leiden Malmo Nantes Oulu Porto
    Quimper Riga Sofia Tartu Utrecht Valencia Wroclaw Zagreb
    """.split()  # noqa: SIM905 as above
)

_SIZES = (2, 3, 5, 7, 12, 16, 24, 45, 60, 90, 120, 180, 250, 400, 512, 640, 900, 1200, 2048, 3600)
_UNITS = ("ms", "seconds", "MB", "rows", "entries")
_HEXADECIMAL = "0123456789abcdef"


def pick(chance: Random, some: Sequence[T]) -> T:
    """Return one of some values."""
    return some[chance.randrange(len(some))]


def hexadecimal(chance: Random, length: int) -> str:
    """Return random hexadecimal digits, at least one of them a letter."""
    digits = "".join(pick(chance, _HEXADECIMAL) for _ in range(length - 1))
    return pick(chance, "abcdef") + digits


def snake(chance: Random) -> str:
    """Return a name such as `pending_lease_count`."""
    return "_".join((pick(chance, ADJECTIVES), pick(chance, NOUNS), pick(chance, NOUNS)))


def camel(chance: Random) -> str:
    """Return a name such as `mergePendingLease`."""
    return pick(chance, VERBS) + pick(chance, ADJECTIVES).title() + pick(chance, NOUNS).title()


def pascal(chance: Random) -> str:
    """Return a name such as `StaleLeaseReader`."""
    parts = pick(chance, ADJECTIVES), pick(chance, NOUNS), pick(chance, NOUNS)
    return "".join(part.title() for part in parts)


def number(chance: Random) -> int:
    """Return a number as people choose them."""
    return pick(chance, _SIZES)


def amount(chance: Random) -> str:
    """Return a number with a unit."""
    return f"{chance.randrange(3, 9000)} {pick(chance, _UNITS)}"


def path(chance: Random) -> str:
    """Return the path of a file."""
    folders = "/".join(pick(chance, NOUNS) for _ in range(chance.randrange(1, 4)))
    return f"/srv/{folders}/{pick(chance, NOUNS)}.{pick(chance, ('yaml', 'db', 'toml', 'lock'))}"


def host(chance: Random) -> str:
    """Return the name of a machine."""
    place = pick(chance, CITIES)[:3].lower()
    return f"{pick(chance, NOUNS)}-{chance.randrange(10, 99)}.{place}.example.net"


def moment(chance: Random) -> str:
    """Return a time of day with milliseconds."""
    return next(moments(chance))


def moments(chance: Random) -> Iterator[str]:
    """Yield times of one day, each some milliseconds after the one before."""
    at = chance.randrange(20_000_000)
    while True:
        at += chance.randrange(1, 900)
        hour, rest = divmod(at, 3_600_000)
        minute, rest = divmod(rest, 60_000)
        yield f"{hour % 24:02}:{minute:02}:{rest // 1000:02}.{rest % 1000:03}"


def phrase(chance: Random) -> str:
    """Return a few words of a log line or a comment."""
    parts = (
        f"{pick(chance, VERBS)} {pick(chance, ADJECTIVES)} {pick(chance, NOUNS)}",
        f"{pick(chance, ADJECTIVES)} {pick(chance, NOUNS)} {pick(chance, NOUNS)} ready",
        f"{pick(chance, NOUNS)} {pick(chance, NOUNS)} took {chance.randrange(2, 4000)} ms",
        f"waiting for {pick(chance, NOUNS)} of {pick(chance, NOUNS)}",
        f"{pick(chance, VERBS)} {chance.randrange(2, 900)} {pick(chance, NOUNS)}s",
    )
    return pick(chance, parts)
