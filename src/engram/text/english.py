"""English words: stop words, irregular forms and stems."""

from __future__ import annotations

import threading

import Stemmer

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
