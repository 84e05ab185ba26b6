"""English words without their endings, by Porter's rules of 1980: "allergies" and "allergy" become the same, and by a
list, as "brought" and "bring" do.

What it makes need not be a word; it has only to be the same for forms of one word, when a text is indexed and when it
is asked for. Words of other languages go through it too, in both places alike, and lose little.
"""

from __future__ import annotations

import re
from functools import lru_cache

_CONSONANT = "[^aeiou]"
_VOWEL = "[aeiouy]"
_CONSONANTS = f"{_CONSONANT}[^aeiouy]*"
_VOWELS = f"{_VOWEL}[aeiou]*"
_MEASURED = re.compile(f"^({_CONSONANTS})?{_VOWELS}{_CONSONANTS}")
_ONCE = re.compile(f"^({_CONSONANTS})?{_VOWELS}{_CONSONANTS}({_VOWELS})?$")
_TWICE = re.compile(f"^({_CONSONANTS})?{_VOWELS}{_CONSONANTS}{_VOWELS}{_CONSONANTS}")
_HAS_VOWEL = re.compile(f"^({_CONSONANTS})?{_VOWEL}")
_SHORT = re.compile(f"^{_CONSONANTS}{_VOWEL}[^aeiouwxy]$")
_DOUBLED = re.compile(r"([^aeiouylsz])\1$")

_LONG = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble",
    "logi": "log", "icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": "",
}  # fmt: skip
_FIRST = re.compile(
    r"^(.+?)(ational|tional|enci|anci|izer|bli|alli|entli|eli|ousli|ization|ation|ator|alism|iveness|fulness|ousness"
    r"|aliti|iviti|biliti|logi)$"
)
_SECOND = re.compile(r"^(.+?)(icate|ative|alize|iciti|ical|ful|ness)$")
_THIRD = re.compile(r"^(.+?)(al|ance|ence|er|ic|able|ible|ant|ement|ment|ent|(?<=[st])ion|ou|ism|ate|iti|ous|ive|ize)$")

_FORMS = """
    become became, begin began begun, bite bit bitten, blow blew blown, break broke broken, bring brought, build
    built, buy bought, catch caught, choose chose chosen, come came, deal dealt, dig dug, draw drew drawn, dream
    dreamt, drink drank drunk, drive drove driven, eat ate eaten, fall fell fallen, feed fed, feel felt, fight
    fought, find found, fly flew flown, forget forgot forgotten, forgive forgave forgiven, freeze froze frozen,
    give gave given, go went gone, grow grew grown, hang hung, hear heard, hide hid hidden, hold held, keep kept,
    know knew known, lead led, learn learnt, leave left, lend lent, lose lost, make made, mean meant, meet met,
    pay paid, ride rode ridden, ring rang rung, rise rose risen, run ran, say said, see saw seen, seek sought,
    sell sold, send sent, shake shook shaken, shine shone, shoot shot, show shown, sing sang sung, sink sank sunk,
    sit sat, sleep slept, speak spoke spoken, spend spent, stand stood, steal stole stolen, stick stuck, strike
    struck, swear swore sworn, swim swam swum, swing swung, take took taken, teach taught, tear tore torn, tell
    told, think thought, throw threw thrown, understand understood, wake woke woken, wear wore worn, win won,
    write wrote written, child children, foot feet, goose geese, man men, mouse mice, person people, tooth teeth,
    woman women, wife wives, life lives, knife knives, leaf leaves, half halves, shelf shelves, wolf wolves, thief
    thieves, good better best, bad worse worst
"""
_IRREGULAR = {form: words.split()[0] for words in _FORMS.split(",") for form in words.split()[1:]}


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """The stem of a word in small letters."""
    if len(word) < 3:
        return word
    word = _without_past(_without_plural(_IRREGULAR.get(word, word)))
    if word.endswith("y") and _HAS_VOWEL.match(word[:-1]):
        word = f"{word[:-1]}i"
    word = _without_e(_without_suffixes(word))
    # Beyond Porter: "allergy" with "allergic", "history" with "historic". Short ones are too easily another word.
    return word[:-1] if len(word) > 5 and word.endswith("i") else word


def _without_suffixes(word: str) -> str:
    for endings in (_FIRST, _SECOND):
        found = endings.match(word)
        if found and _MEASURED.match(found[1]):
            word = found[1] + _LONG[found[2]]
    found = _THIRD.match(word)
    return found[1] if found and _TWICE.match(found[1]) else word


def _without_plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us")) else word


def _without_past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _MEASURED.match(word[:-3]) else word
    for ending in ("ed", "ing"):
        base = word.removesuffix(ending)
        if base != word and _HAS_VOWEL.match(base):
            return _whole(base)
    return word


def _whole(base: str) -> str:
    """The word that a past form was made from: "hop" from "hopp", "hope" from "hop"."""
    if base.endswith(("at", "bl", "iz")) or _SHORT.match(base):
        return f"{base}e"
    return base[:-1] if _DOUBLED.search(base) else base


def _without_e(word: str) -> str:
    if word.endswith("e") and _stands_alone(word[:-1]):
        word = word[:-1]
    return word[:-1] if word.endswith("ll") and _TWICE.match(word) else word


def _stands_alone(base: str) -> bool:
    return bool(_TWICE.match(base) or (_ONCE.match(base) and not _SHORT.match(base)))
