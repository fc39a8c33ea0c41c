"""The analyser: tokenize texts and queries into index terms, the same for every store.

A word is indexed under its normal form (case and accents folded, English words stemmed). Every word of a
text is found by a query for that word alone. English stop words, irregular forms and stems are here too.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import islice, pairwise

import Stemmer

from engram.model.conversation import Message, MessageDraft, called
from engram.text.folding import SPACED, UNSPACED, fold
from engram.yielding import yield_to_others

_STOP_WORDS = """
a about after all also am an and any are as at be because been before being but by can could did do
does doing for from had has have having he her here him his how i if in into is it its just me more
most my no nor not of on or other our out over own shall she should so some such than that the their
them then there these they this those to too under up very was we were what when where which while
who whom whose why will with would yes you your
"""

_IRREGULAR = """
arise arose arisen · awake awoke awoken · become became · begin began begun · bend bent ·
bite bitten · bleed bled · blow blew blown · break broke broken · breed bred · bring brought ·
build built · burn burnt · buy bought · catch caught · child children · choose chose chosen ·
cling clung · come came · creep crept · deal dealt · dig dug · draw drew drawn · dream dreamt ·
drink drank drunk · drive drove driven · eat ate eaten · fall fallen · feed fed · fight fought ·
flee fled · fly flew flown · foot feet · forbid forbade forbidden · forget forgot forgotten ·
forgive forgave forgiven · freeze froze frozen · get got gotten · give gave given · go went gone ·
goose geese · grow grew grown · half halves · hang hung · hear heard · hide hid hidden · hold held ·
keep kept · kneel knelt · knife knives · know knew known · lay laid · lean leant · learn learnt ·
lend lent · lie lain · loaf loaves · lose lost · make made · man men · mean meant · meet met ·
mistake mistook mistaken · mouse mice · pay paid · person people · prove proven ·
ride rode ridden · ring rang rung · rise risen · run ran · say said · see seen · seek sought ·
sell sold · send sent · sew sewn · shake shook shaken · shelf shelves · shine shone · show shown ·
shrink shrank shrunk · sing sang sung · sink sank sunk · sit sat · sleep slept · slide slid ·
smell smelt · speak spoke spoken · speed sped · spend spent · spill spilt · spin spun ·
spoil spoilt · spring sprang sprung · stand stood · steal stole stolen · stick stuck ·
sting stung · strike struck · strive strove striven · swear swore sworn · sweep swept ·
swell swollen · swim swam swum · swing swung · take took taken · teach taught · tear tore torn ·
tell told · thief thieves · think thought · throw threw thrown · tooth teeth ·
understand understood · wake woke woken · wear wore worn · weave wove woven · weep wept · wife wives ·
win won · withdraw withdrew withdrawn · wolf wolves · woman women · write wrote written
"""
"""A word and its irregular forms, except for forms that are as often other words (left, found, saw)."""

STOP_WORDS = frozenset(_STOP_WORDS.split())
"""Each is its own normal form."""

_CONTRACTIONS = {"can't": "can", "won't": "will", "shan't": "shall", "ain't": "is"}
_ENDINGS = ("n't", "'s", "'ll", "'re", "'ve", "'d", "'m")
_WORD_OF_FORM = {
    form: word for word, *forms in map(str.split, _IRREGULAR.split("·")) for form in forms
}

_stemming = threading.Lock()
_stemmer = Stemmer.Stemmer("english", 0)


def without_ending(word: str) -> str:
    """Return a word without a contraction such as `'s` or `n't`."""
    lowered = word.casefold()
    if lowered in _CONTRACTIONS:
        return _CONTRACTIONS[lowered]
    for ending in _ENDINGS:
        if lowered.endswith(ending) and len(word) > len(ending):
            return word[: -len(ending)]
    return word


def stem(word: str) -> str:
    """Return the stem of a lower-case ASCII word."""
    if len(word) < 3 or word in STOP_WORDS:
        return word
    with _stemming:  # the stemmer is not thread-safe
        return _stemmer.stemWord(_WORD_OF_FORM.get(word, word))


ANALYSER_VERSION = 3
"""Incremented when analysis or the index format changes; the word index is then rebuilt."""

TOKEN_CHARACTERS_MAX = 64
"""A longer token (a key, base64, a line of one letter) is indexed as a prefix and a hash."""

IDENTIFIER_CHARACTERS_MIN = 5
"""Shorter terms with digits are times and sizes: `3pm`, `10am`, `4gb`."""

_PREFIX_CHARACTERS = 32
_SLICE_CHARACTERS = 16_384
"""Tokenized in one call, about 3 ms: `re` holds the GIL meanwhile."""

_WORDS_JOINED = 100_000
"""Words of one token joined in one call, about 5 ms."""

_REACH_CHARACTERS = 8
"""Characters after a token that can extend it."""

_CACHED_TOKENS_MAX = 40_000
"""About 8 MB."""

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_TOKEN = re.compile(
    # A word or identifier; bounded, because `re` records every repetition for backtracking.
    rf"[{SPACED}]+(?:(?:[-'.:/@\\]|(?<=[0-9]),(?=[0-9]{{3}}(?![0-9])))[{SPACED}]+){{0,31}}"
    r"(?:\+\+|\#)?"
    rf"|[{UNSPACED}]+"
)
_UNSPACED_FIRST = re.compile(rf"[{UNSPACED}]")
_JOINTS = re.compile(r"[-'.:/@\\,+#]+")
_HUMPS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^A-Z]+")


def message_words(message: Message | MessageDraft, *, title: str | None = None) -> str:
    """Return the index terms of a message: speaker, tool, content and date, joined by spaces.

    A document has its title in place of a speaker.
    """
    parts = (called(message, title=title), message.tool_name, message.content)
    words: list[str] = []
    for part in parts:
        words += (" ".join(map(_WORDS.__getitem__, each)) for each in iterate_tokens(part) if each)
    if message.occurred_at is not None:
        words.append(_day_words(message.occurred_at))
    return " ".join(words)


def part_words(words: str) -> tuple[str, str]:
    """Partition the terms of `message_words` into content words and stop words.

    A window is found by the content words of its messages; a message by all its words.
    """
    content: list[str] = []
    stops: list[str] = []
    for every in _split_words(words):
        kept = [word for word in every if word not in STOP_WORDS]
        if kept:
            content.append(" ".join(kept))
        if len(kept) < len(every):
            stops.append(" ".join([word for word in every if word in STOP_WORDS]))
    return " ".join(content), " ".join(stops)


def query_terms(query: str) -> list[str]:
    """Return the terms of a query in order, repeats included.

    Stop words are dropped unless there is nothing else. A single character of a script without
    spaces is a prefix term: it matches every word that begins with it.
    """
    terms = [term for each in iterate_tokens(query) for raw in each for term in _query_words(raw)]
    return [term for term in terms if term not in STOP_WORDS] or terms


def is_prefix(term: str) -> bool:
    """Return True if a term matches every word that begins with it."""
    return len(term) == 1 and _UNSPACED_FIRST.match(term) is not None


def is_identifier(term: str) -> bool:
    """Return True if a term is a name that people make up, such as `parse_v2` or `e4471`."""
    return (
        len(term) >= IDENTIFIER_CHARACTERS_MIN
        and not term.isalpha()
        and any(character.isalpha() for character in term)
    )


def iterate_tokens(
    text: str | None, *, slice_characters: int = _SLICE_CHARACTERS
) -> Iterator[list[str]]:
    """Yield the tokens of a text one slice at a time; slicing does not change them."""
    folded = fold(text or "")
    start = 0
    while len(folded) - start > slice_characters:
        yield_to_others()
        end = start + slice_characters
        blank = max(folded.rfind(" ", start, end), folded.rfind("\n", start, end))
        if blank > start:
            yield _TOKEN.findall(folded, start, blank)
            start = blank
        else:
            tokens, start = _tokens_without_blanks(folded, start, end)
            yield tokens
    yield _TOKEN.findall(folded, start)


def _tokens_without_blanks(folded: str, start: int, end: int) -> tuple[list[str], int]:
    """Return the tokens of a range that later text cannot extend, and where to continue."""
    certain = end if end >= len(folded) else end - _REACH_CHARACTERS
    tokens: list[str] = []
    for match in _TOKEN.finditer(folded, start, end):
        yield_to_others()
        if match.end() <= certain:
            tokens.append(match[0])
        elif tokens:
            return tokens, match.start()
        else:  # one token fills the range: look further
            return _tokens_without_blanks(folded, match.start(), end + 3 * (end - start))
    return tokens, end


def _split_words(words: str) -> Iterator[list[str]]:
    """Yield space-separated words one slice at a time."""
    start = 0
    while (end := words.find(" ", start + _SLICE_CHARACTERS)) >= 0:
        yield words[start:end].split(" ")
        start = end + 1
    yield words[start:].split(" ")


def _query_words(raw: str) -> list[str]:
    words = _WORDS[raw].split(" ")
    if len(words) > 1 and is_prefix(words[-1]):
        return words[:-1]  # the pairs of a longer run suffice
    return words


def _day_words(moment: datetime) -> str:
    day = moment.astimezone(UTC)
    return f"{day.day} {_normal_form(_MONTHS[day.month - 1])} {day.year}"


class _WordCache(dict[str, str]):
    """Cache of the words of each token, joined by spaces and never empty; cleared when full."""

    def __missing__(self, raw: str) -> str:
        yield_to_others()
        if len(raw) > TOKEN_CHARACTERS_MAX:  # unlikely to recur
            return _join_long(_analyse(raw))
        words = " ".join(_analyse(raw))
        if len(self) >= _CACHED_TOKENS_MAX:
            self.clear()
        self[raw] = words
        return words


_WORDS = _WordCache()


def _analyse(raw: str) -> Iterable[str]:
    if _UNSPACED_FIRST.match(raw):
        return _pairs(raw)
    if _is_plain(raw):
        return (_normal_form(raw.casefold()),)
    if "'" in raw:
        raw = without_ending(raw)
    return _compound(raw)


_SLICE = 1_000_000
"""Characters that are looked at in one step, some 5 ms: no other thread can run meanwhile."""


def _is_plain(raw: str) -> bool:
    """Return True if a token is one word in lower, title or upper case."""
    # One test per line, so that other threads can run in between: each is slow on a huge token.
    if not all(raw[at : at + _SLICE].isalpha() for at in range(0, len(raw), _SLICE)):
        return False
    if _is_lower(raw):
        return True
    return raw[1:].islower() or raw.isupper()


def _is_lower(raw: str) -> bool:
    """Return what `islower` does, a slice at a time; slices without cased letters decide nothing."""
    is_cased = False
    for at in range(0, len(raw), _SLICE):
        part = raw[at : at + _SLICE]
        if part.islower():
            is_cased = True
        elif part.lower() != part.upper():
            return False
    return is_cased


def _join_long(words: Iterable[str]) -> str:
    """Join any number of words, a batch at a time."""
    left = iter(words)
    return " ".join(iter(lambda: " ".join(islice(left, _WORDS_JOINED)), ""))


def _pairs(run: str) -> Iterator[str]:
    """Yield the bigrams of a run, then its last character, so that it matches as a prefix too."""
    yield from map("".join, pairwise(run))
    yield run[-1]


def _compound(raw: str) -> list[str]:
    """Return the words of a compound token, and the whole of an identifier."""
    words = [word for part in _JOINTS.split(raw) if part for word in _words_of_part(part)]
    whole = _whole(raw)
    return words if whole is None or whole in words else [whole, *words]


def _whole(raw: str) -> str | None:
    """Return an identifier as a single word; None for hyphenated words."""
    name = raw.rstrip("+#")
    if name == raw and name.replace("-", "").replace("'", "").isalpha():
        return None
    whole = _JOINTS.sub("" if "," in name else "_", name).strip("_").casefold()
    return _bounded(whole + raw[len(name) :]) if whole else None


def _words_of_part(part: str) -> list[str]:
    """Return a part of an identifier whole, and its pieces if it is snake_case or camelCase."""
    pieces = [
        _normal_form(piece.casefold())
        for name in part.split("_")
        if name
        for piece in _split_humps(name)
    ]
    whole = _normal_form(part.strip("_").casefold() or part)
    return pieces if pieces == [whole] else [whole, *pieces]


def _split_humps(name: str) -> list[str]:
    if len(name) > TOKEN_CHARACTERS_MAX or name.islower() or name.isupper():
        return [name]
    humps: list[str] = _HUMPS.findall(name)
    return humps


def _normal_form(word: str) -> str:
    """Return the index term of a case-folded word."""
    if len(word) > TOKEN_CHARACTERS_MAX:
        return _bounded(word)
    return stem(word) if word.isascii() and word.isalpha() else word


def _bounded(token: str) -> str:
    if len(token) <= TOKEN_CHARACTERS_MAX:
        return token
    digest = blake2b(token.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()
    return f"{token[:_PREFIX_CHARACTERS]}_{digest}"
