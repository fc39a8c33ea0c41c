"""Relative time in a query: the range of time that words such as "two weeks ago" mean.

A language is a table of its words and phrases; all tables together make one pattern.
"""

from __future__ import annotations

import re
from calendar import isleap, monthrange
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias, assert_never

from engram import limits
from engram.clock import to_microseconds
from engram.model.value import Value

UnitName = Literal["hour", "day", "week", "month", "year"]
Meaning = Literal["ago", "past", "last", "this", "weekday", "weekend"]

Count: TypeAlias = tuple[float, float]
"""The least and the most that a number word means: "a few" is 2 to 5."""

_HOUR = 3_600 * 1_000_000
_DAY = 24 * _HOUR
_WEEK_DAYS = 7
_DECEMBER_DAYS = 31


class TimeRange(NamedTuple):
    """A range of time in microseconds since 1970."""

    start: int
    end: int
    """Exclusive."""


class _Unit(NamedTuple):
    """Average length of a unit, and how far off people are who count in it, in microseconds."""

    length: int
    tolerance: int


_UNITS: Mapping[UnitName, _Unit] = {
    "hour": _Unit(_HOUR, _HOUR),
    "day": _Unit(_DAY, _DAY),
    "week": _Unit(_WEEK_DAYS * _DAY, _WEEK_DAYS * _DAY // 2),
    "month": _Unit(int(30.44 * _DAY), 12 * _DAY),
    "year": _Unit(int(365.25 * _DAY), 120 * _DAY),
}


class Language(Value):
    """The words of a language that speak of relative time, in lower case.

    A phrase is a regular expression in which `{count}`, `{unit}`, `{period}` (a week or longer) and
    `{weekday}` stand for those words, and one space for any white space.
    """

    counts: Mapping[str, Count]
    units: Mapping[UnitName, str]
    """The forms of each unit, separated by spaces."""
    weekdays: str = ""
    """Monday to Sunday."""
    days: Mapping[str, int]
    """Words for single days, by the number of days they lie back."""
    phrases: Mapping[str, Meaning]
    since: str = ""
    """The word that makes a range of what began at a time."""
    has_spaces: bool = True
    """Whether a phrase begins and ends where a word does."""

    @property
    def unit_of(self) -> Mapping[str, UnitName]:
        """Return the unit that each form means."""
        return {form: unit for unit, forms in self.units.items() for form in forms.split()}


def _numbers(words: str) -> dict[str, Count]:
    """Return the numbers from one on; forms of the same number are joined by `/`."""
    numbered = enumerate(words.split(), start=1)
    return {word: (number, number) for number, forms in numbered for word in forms.split("/")}


def _each(count: Count, *words: str) -> dict[str, Count]:
    return dict.fromkeys(words, count)


_COUPLE, _FEW, _SEVERAL, _HALF = (2, 2), (2, 5), (3, 7), (0.5, 0.5)

ENGLISH = Language(
    counts={
        **_numbers("a/an/one two three four five six seven eight nine ten eleven twelve"),
        **_each(_COUPLE, "a couple of", "a couple", "couple of", "couple"),
        **_each(_FEW, "a few", "few"),
        **_each(_SEVERAL, "several"),
        **_each(_HALF, "half a"),
    },
    units={
        "hour": "hour hours",
        "day": "day days",
        "week": "week weeks",
        "month": "month months",
        "year": "year years",
    },
    weekdays="monday tuesday wednesday thursday friday saturday sunday",
    days={
        "today": 0,
        "this morning": 0,
        "this afternoon": 0,
        "this evening": 0,
        "yesterday": 1,
        "last night": 1,
        "the day before yesterday": 2,
    },
    phrases={
        "{count} {unit} ago": "ago",
        "(?:last|past|previous) {count} {unit}": "past",
        "past {unit}": "past",
        # "the last week of May" is not relative to now.
        r"the last {period}(?! of\b)": "past",
        r"last {period}(?! of\b)": "last",
        "this {period}": "this",
        "last weekend": "weekend",
        "last {weekday}": "weekday",
    },
    since="since",
)

GERMAN = Language(
    counts={
        **_numbers(
            "ein/eine/einem/einen/einer zwei drei vier fünf sechs sieben acht neun zehn elf zwölf"
        ),
        **_each(_FEW, "ein paar", "paar", "einigen", "wenigen"),
        **_each(_SEVERAL, "mehreren"),
        **_each(_HALF, "einem halben", "einer halben"),
    },
    units={
        "hour": "stunde stunden",
        "day": "tag tage tagen",
        "week": "woche wochen",
        "month": "monat monate monaten",
        "year": "jahr jahre jahren",
    },
    weekdays="montag dienstag mittwoch donnerstag freitag samstag sonntag",
    days={"heute": 0, "gestern": 1, "vorgestern": 2},
    phrases={
        "vor {count} {unit}": "ago",
        "(?:letzten|vergangenen) {count} {unit}": "past",
        "(?:letzte|vergangene|vorige)[nrs]? {period}": "last",
        "diese[nrs]? {period}": "this",
        "(?:letztes|letzten|vergangenes|vergangenen) wochenende": "weekend",
        "(?:letzten|vergangenen) {weekday}": "weekday",
    },
    since="seit",
)

SPANISH = Language(
    counts={
        **_numbers("un/una dos tres cuatro cinco seis siete ocho nueve diez once doce"),
        **_each(_COUPLE, "un par de"),
        **_each(_FEW, "unos", "unas", "algunos", "algunas", "pocos", "pocas"),
        **_each(_SEVERAL, "varios", "varias"),
        **_each(_HALF, "medio", "media"),
    },
    units={
        "hour": "hora horas",
        "day": "día días dia dias",
        "week": "semana semanas",
        "month": "mes meses",
        "year": "año años",
    },
    weekdays="lunes martes miércoles jueves viernes sábado domingo",
    days={"hoy": 0, "esta mañana": 0, "esta tarde": 0, "ayer": 1, "anoche": 1, "anteayer": 2},
    phrases={
        "hace {count} {unit}": "ago",
        "{count} {unit} atrás": "ago",
        "últim[oa]s {count} {unit}": "past",
        "últim[oa] {period}": "past",
        "{period} pasad[oa]": "last",
        "est[ae] {period}": "this",
        "fin de semana pasado": "weekend",
        "{weekday} pasado": "weekday",
    },
    since="desde",
)

FRENCH = Language(
    counts={
        **_numbers("un/une deux trois quatre cinq six sept huit neuf dix onze douze"),
        **_each(_FEW, "quelques"),
        **_each(_SEVERAL, "plusieurs"),
    },
    units={
        "hour": "heure heures",
        "day": "jour jours",
        "week": "semaine semaines",
        "month": "mois",
        "year": "an ans année années",
    },
    weekdays="lundi mardi mercredi jeudi vendredi samedi dimanche",
    # "hier" alone is also the German for "here".
    days={
        "aujourd'hui": 0,
        "aujourd\u2019hui": 0,
        "ce matin": 0,
        "cet après-midi": 0,
        "d'hier": 1,
        "d\u2019hier": 1,
        "hier soir": 1,
        "hier matin": 1,
        "avant-hier": 2,
    },
    phrases={
        "il y a {count} {unit}": "ago",
        "{count} derni(?:ers|ères) {unit}": "past",
        "{period} (?:derni(?:er|ère)|passée?)": "last",
        "ce(?:tte)? {period}": "this",
        "week-end (?:dernier|passé)": "weekend",
        "{weekday} (?:dernier|passé)": "weekday",
    },
    since="depuis",
)

CHINESE = Language(
    counts={
        **_numbers("一 二/两/兩 三 四 五 六 七 八 九 十 十一 十二"),
        **_each(_FEW, "几", "幾"),
        **_each(_HALF, "半"),
    },
    units={
        "hour": "小时 小時 个小时 個小時",
        "day": "天",
        "week": "周 週 星期 个星期 個星期",
        "month": "个月 個月",
        "year": "年",
    },
    days={"今天": 0, "今早": 0, "昨天": 1, "昨晚": 1, "前天": 2},
    phrases={
        r"(?<!\d){count}{unit}(?:以|之)?前": "ago",
        "(?:过去|過去|最近){count}{unit}": "past",
        "上{period}": "last",
        "(?:这|這|本){period}": "this",
    },
    has_spaces=False,
)

LANGUAGES: tuple[Language, ...] = (ENGLISH, GERMAN, SPANISH, FRENCH, CHINESE)


class _Phrase(NamedTuple):
    """A phrase of a language, or one of its words for a day."""

    source: str
    meaning: Meaning | int
    language: Language


_PHRASES = tuple(
    _Phrase(source, meaning, language)
    for language in LANGUAGES
    for source, meaning in (*language.phrases.items(), *language.days.items())
)


def _any_of(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True)))


def _pattern_of(phrase: _Phrase, name: str) -> str:
    """Return the pattern of a phrase: a group of that name, and groups for the words within."""
    language = phrase.language
    periods = [form for form, unit in language.unit_of.items() if unit not in ("hour", "day")]
    words = {
        "{count}": ("number", rf"\d{{1,3}}|{_any_of(language.counts)}"),
        "{unit}": ("unit", _any_of(language.unit_of)),
        "{period}": ("unit", _any_of(periods)),
        "{weekday}": ("weekday", _any_of(language.weekdays.split())),
    }
    source = phrase.source
    for word, (kind, pattern) in words.items():
        source = source.replace(word, f"(?P<{name}_{kind}>{pattern})")
    return f"(?P<{name}>{source})"


def _patterns(*, has_spaces: bool) -> str:
    return "|".join(
        _pattern_of(phrase, f"p{index}")
        for index, phrase in enumerate(_PHRASES)
        if phrase.language.has_spaces == has_spaces
    )


_PATTERN = re.compile(
    rf"(?<!\w)(?:{_patterns(has_spaces=True)})(?!\w)|{_patterns(has_spaces=False)}"
)


def find_range(query: str, asked_at: datetime) -> TimeRange | None:
    """Return the range of time that the first words of relative time in a query mean.

    Of a long query its two ends are read. Days are those of the time zone of `asked_at`. The range is wide enough for people's rounding, and
    ends with the day of asking at the latest.
    """
    end = limits.TIME_CHARACTERS_MAX
    if len(query) > 2 * end:
        query = f"{query[:end]} … {query[-end:]}"
    text = " ".join(query.lower().split())
    found = _PATTERN.search(text)
    if found is None:
        return None
    phrase, words = _spoken(found)
    asked = _Asked.at(asked_at)
    meant = _range_of(phrase, words, asked)
    is_since = phrase.language.since in text[: found.start()].split()
    return asked.until_today(meant.start, asked.midnight + _DAY if is_since else meant.end)


def find_start(text: str, asked_at: datetime) -> int | None:
    """Return when the time begins that a text means, in microseconds; None if it says nothing else.

    Nothing is added for people's rounding: days begin at midnight in the time zone of `asked_at`.
    """
    found = _PATTERN.fullmatch(" ".join(text.lower().split()))
    if found is None:
        return None
    (phrase, words), asked = _spoken(found), _Asked.at(asked_at)
    unit = phrase.language.unit_of[words.unit] if words.unit else "day"
    is_rounded = phrase.meaning not in ("last", "this")
    start = _range_of(phrase, words, asked).start + (_UNITS[unit].tolerance if is_rounded else 0)
    if unit == "hour":
        return start
    return start - (start - asked.midnight) % _DAY


class _Words(NamedTuple):
    """The words that were found in a phrase."""

    number: str | None
    unit: str | None
    weekday: str | None


def _spoken(found: re.Match[str]) -> tuple[_Phrase, _Words]:
    """Return the phrase that a match of the pattern found, and its words."""
    name = found.lastgroup or ""
    words = _Words(*(found.groupdict().get(f"{name}_{kind}") for kind in _Words._fields))
    return _PHRASES[int(name[1:])], words


def _range_of(phrase: _Phrase, words: _Words, asked: _Asked) -> TimeRange:
    """Return the range that a phrase means with its words."""
    if isinstance(phrase.meaning, int):
        return asked.around_day(phrase.meaning)
    return _meant(phrase.meaning, words, phrase.language, asked)


def _meant(meaning: Meaning, words: _Words, language: Language, asked: _Asked) -> TimeRange:
    count = _count(words.number, language)
    unit = language.unit_of[words.unit] if words.unit else "day"
    match meaning:
        case "ago":
            return asked.ago(count, unit)
        case "past":
            return asked.past(count, unit)
        case "last":
            return asked.since_last(unit)
        case "this":
            return asked.since_start(unit)
        case "weekend":
            return asked.since_last_weekend()
        case "weekday":
            return asked.last_weekday(language.weekdays.split().index(words.weekday or ""))
        case _:
            assert_never(meaning)


def _count(word: str | None, language: Language) -> Count:
    if word is None:
        return 1, 1
    return language.counts[word] if word in language.counts else (int(word), int(word))


class _Asked(NamedTuple):
    """The moment of asking, and the day that it falls on."""

    moment: int
    midnight: int
    year: int
    month: int
    day: int
    weekday: int

    @classmethod
    def at(cls, asked_at: datetime) -> _Asked:
        midnight = asked_at.replace(hour=0, minute=0, second=0, microsecond=0)
        return cls(
            to_microseconds(asked_at),
            to_microseconds(midnight),
            asked_at.year,
            asked_at.month,
            asked_at.day,
            asked_at.weekday(),
        )

    def ago(self, count: Count, unit: UnitName) -> TimeRange:
        """Return the time around some units back."""
        length, tolerance = _UNITS[unit]
        first, last = self._counted_from(unit)
        least, most = int(count[0] * length), int(count[1] * length)
        return TimeRange(first - most - tolerance, last - least + tolerance)

    def past(self, count: Count, unit: UnitName) -> TimeRange:
        """Return the time from some units back until now."""
        return TimeRange(self.ago(count, unit).start, self.midnight + _DAY)

    def since_last(self, unit: UnitName) -> TimeRange:
        """Return the time from the start of the calendar's unit before this one until now.

        What happened in it is spoken of then and later.
        """
        days = self._days_before(unit)
        return TimeRange(self.since_start(unit).start - days * _DAY, self.midnight + _DAY)

    def since_start(self, unit: UnitName) -> TimeRange:
        """Return the time from the start of the calendar's current unit until now."""
        return TimeRange(self.midnight - self._days_into(unit) * _DAY, self.midnight + _DAY)

    def since_last_weekend(self) -> TimeRange:
        """Return the time from the weekend before the current week until now."""
        return TimeRange(self.around_day(self.weekday + 2).start, self.midnight + _DAY)

    def last_weekday(self, weekday: int) -> TimeRange:
        """Return the time around the last such day before today."""
        return self.around_day((self.weekday - weekday - 1) % _WEEK_DAYS + 1)

    def around_day(self, back: int) -> TimeRange:
        """Return the time around a day by how many days it lies back."""
        return self.ago((back, back), "day")

    def until_today(self, start: int, end: int) -> TimeRange:
        """Return a range without what comes after today."""
        return TimeRange(start, min(end, self.midnight + _DAY))

    def _counted_from(self, unit: UnitName) -> tuple[int, int]:
        """Return what units are counted back from: hours from the moment, others from the day."""
        if unit == "hour":
            return self.moment, self.moment
        return self.midnight, self.midnight + _DAY

    def _days_into(self, unit: UnitName) -> int:
        """Return how many days ago the calendar's current unit began."""
        if unit == "week":
            return self.weekday
        first = 1 if unit == "year" else self.month
        return (
            self.day - 1 + sum(monthrange(self.year, each)[1] for each in range(first, self.month))
        )

    def _days_before(self, unit: UnitName) -> int:
        """Return the length of the calendar's unit before the current one."""
        if unit == "week":
            return _WEEK_DAYS
        if unit == "year":
            return 366 if isleap(self.year - 1) else 365
        return _DECEMBER_DAYS if self.month == 1 else monthrange(self.year, self.month - 1)[1]
