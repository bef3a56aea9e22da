"""How close two notes lie, and which figures, dates and names differ between two that lie close.

Distances are cosine distances, lower is closer. `changes` reads the texts alone, so it needs no model; a change of
format (Markdown, quotes, dashes, wide digits, another way to write one value) is none.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from memory_core.model import Change
from memory_core.policy import Thresholds
from memory_core.rules.values import MONTHS, STOPS, Item, Key, Reading, read

T = TypeVar("T")
Vector = NDArray[np.float32]

MAX_CHANGES = 50
# The words that count as near a value, and as around it, where nothing else could pair it.
_NEAR = 5
_AROUND = 15
# Above this many values a side, pairing by neighbourhood would cost too much: the order of the text decides.
_MAX_BY_NEIGHBOURHOOD = 30


# -- distances ------------------------------------------------------------------------------------


def distances(query: Vector, others: NDArray[np.float32]) -> NDArray[np.float64]:
    """Give the cosine distance of a unit vector to each row of unit vectors, shape (n,), from 0 to 2.

    Computed in float64: in float32 a text can lie at a negative distance from itself.
    """
    similarity = np.asarray(others, dtype=np.float64) @ np.asarray(query, dtype=np.float64)
    return np.clip(1.0 - similarity, 0.0, 2.0)


def judge(
    candidates: Iterable[tuple[T, float | None]], thresholds: Thresholds
) -> tuple[list[tuple[T, float]], list[tuple[T, float]]]:
    """Sort candidates into near duplicates and overlaps, each nearest first; ties keep the order of the input.

    A candidate without a distance was not compared and is in neither list, nor is one beyond `overlap_at`.
    """
    compared = [(candidate, distance) for candidate, distance in candidates if distance is not None]
    compared.sort(key=lambda pair: pair[1])
    near = [pair for pair in compared if pair[1] <= thresholds.near_duplicate_at]
    overlaps = [pair for pair in compared if thresholds.near_duplicate_at < pair[1] <= thresholds.overlap_at]
    return near, overlaps


def fold_for_repeat(text: str) -> str:
    """Fold white space, so that a retry with other line ends or indentation is the same text."""
    return " ".join(text.split())


# -- changes --------------------------------------------------------------------------------------


class _Slot(NamedTuple):
    """A value or a name in its place: the items of its segment, and where it begins and ends among them."""

    kind: Literal["number", "amount", "date", "name"]
    family: str
    key: Key
    aliases: tuple[Key, ...]
    text: str
    start: int
    segment: tuple[Item, ...]
    first: int
    behind: int
    certain: bool


_Pair = tuple[_Slot | None, _Slot | None]
_Context = Callable[[_Slot], Hashable | None]


def changes(before: str, after: str) -> tuple[Change, ...]:
    """List the numbers, amounts, dates and names that differ, as written; at most MAX_CHANGES.

    Reads English, German, French, Spanish, Polish and Portuguese, and compares values, not spellings:
    1,200 = 1.200 = 1 200, 12 Mio. Euro = EUR 12 million, 16 October 2026 = 2026-10-16. What only moved is no
    change. An empty side means that nothing stands in its place. Swapping the texts swaps the sides.
    Costs time linear in the texts.

    1. Read each text as segments (sentences, lines) of words and values.
    2. Set aside the segments that both texts have.
    3. Pair values that stand in the same words; where they differ, that is a change.
    4. Set aside equal values wherever they stand, then those that say one thing with different precision.
    5. Pair the rest by the words around them, then by kind; what is left stands alone.
    6. Pair names that only one text has, by the words around them.
    """
    if before == after:
        return ()
    # Pairing is greedy, so it always goes in the same order: swapping the texts must swap the sides and no more.
    swapped = after < before
    left, right = (read(text) for text in ((after, before) if swapped else (before, after)))
    left_rest, right_rest = _unshared(left, right)
    pairs = _pair_values(_values(left_rest), _values(right_rest))
    pairs += _pair_names(left, right, left_rest, right_rest)
    pairs.sort(key=lambda pair: min(slot.start for slot in pair if slot is not None))
    if swapped:
        pairs = [(other, one) for one, other in pairs]
    return tuple(
        Change(kind=_kind(one, other), before=one.text if one else "", after=other.text if other else "")
        for one, other in pairs[:MAX_CHANGES]
    )


def _kind(one: _Slot | None, other: _Slot | None) -> Literal["number", "amount", "date", "name"]:
    kinds = {slot.kind for slot in (one, other) if slot is not None}
    return next(kind for kind in ("name", "amount", "date", "number") if kind in kinds)


def _unshared(left: Reading, right: Reading) -> tuple[list[tuple[Item, ...]], list[tuple[Item, ...]]]:
    """Give the segments that only one side has; of a repeated one as many as the other side lacks."""
    keyed = [
        [(tuple(item.key for item in segment), segment) for segment in reading.segments]
        for reading in (left, right)
    ]
    counts = [Counter(key for key, _ in side) for side in keyed]
    shared = counts[0] & counts[1]
    rest: list[list[tuple[Item, ...]]] = []
    for side in keyed:
        open_ = Counter(shared)
        rest.append([])
        for key, segment in side:
            if open_[key] > 0:
                open_[key] -= 1
            else:
                rest[-1].append(segment)
    return rest[0], rest[1]


def _values(segments: Iterable[tuple[Item, ...]]) -> list[_Slot]:
    slots = []
    for segment in segments:
        for position, item in enumerate(segment):
            if item.kind != "word":
                slots.append(
                    _Slot(
                        item.kind,
                        _family(item),
                        item.key,
                        item.aliases,
                        item.text,
                        item.start,
                        segment,
                        position,
                        position + 1,
                        # CO2 and B2B are words more than figures: only a pair such as X200 and X300 tells.
                        item.text[0].isdecimal() or item.key[0] != "code",
                    )
                )
    return slots


def _family(item: Item) -> str:
    """Say what a value can be exchanged for: an amount, a percentage, a year, another date, a number."""
    if item.key[0] == "%":
        return "%"
    return "year" if item.kind == "date" and item.key[0] == "number" else item.kind


def _around(slot: _Slot, offsets: Sequence[int]) -> tuple[Hashable, ...]:
    """Give the neighbours at these offsets: words as they are, values by kind, None beyond the segment."""
    around: list[Hashable] = []
    for offset in offsets:
        place = slot.first + offset if offset < 0 else slot.behind + offset - 1
        if 0 <= place < len(slot.segment):
            item = slot.segment[place]
            around.append(item.key if item.kind == "word" else (item.kind,))
        else:
            around.append(None)
    return tuple(around)


def _context(offsets: Sequence[int], min_words: int, *, by_family: bool) -> _Context:
    """Make a context of neighbours; None where too few are words, or two at most and stop words."""

    def context(slot: _Slot) -> Hashable | None:
        around = _around(slot, offsets)
        spelled = [neighbour for neighbour in around if isinstance(neighbour, str)]
        if len(spelled) < min_words or (len(offsets) <= 2 and STOPS.issuperset(spelled)):
            return None
        return (around, slot.family) if by_family else around

    return context


_SAME_WORDS = _context((-2, -1, 1, 2), 2, by_family=False)
_SIMILAR_WORDS = (
    _context((-1, 1), 2, by_family=False),
    _context((1, 2), 2, by_family=True),
    _context((-2, -1), 2, by_family=True),
    _context((1,), 1, by_family=True),
    _context((-1,), 1, by_family=True),
)


def _pair_values(left: list[_Slot], right: list[_Slot]) -> list[_Pair]:
    pairs: list[_Pair] = []
    left, right = _pair_by(_SAME_WORDS, left, right, pairs)
    left, right = _without_equal(left, right)
    for context in _SIMILAR_WORDS:
        left, right = _pair_by(context, left, right, pairs)
    left, right = _pair_by_family(left, right, pairs)
    lone = [(slot, None) for slot in left if slot.certain], [(None, slot) for slot in right if slot.certain]
    return [*pairs, *lone[0], *lone[1]]


def _pair_by(
    context: _Context, left: list[_Slot], right: list[_Slot], pairs: list[_Pair]
) -> tuple[list[_Slot], list[_Slot]]:
    """Pair the slots of one context in their order, equal ones first; add the pairs that differ, give the rest."""
    if not left or not right:
        return left, right
    places = (_grouped(context, left), _grouped(context, right))
    taken: tuple[set[int], set[int]] = (set(), set())
    for key, ours in places[0].items():
        theirs = places[1].get(key)
        if theirs is None:
            continue
        matched = _equal_places(left, ours, right, theirs)
        matched_ours, matched_theirs = ({pair[side] for pair in matched} for side in (0, 1))
        open_ours = [place for place in ours if place not in matched_ours]
        open_theirs = [place for place in theirs if place not in matched_theirs]
        differing = [
            (one, other)
            for one, other in zip(open_ours, open_theirs, strict=False)
            if context is _SAME_WORDS or _comparable(left[one], right[other])
        ]
        pairs.extend((left[one], right[other]) for one, other in differing)
        for one, other in [*matched, *differing]:
            taken[0].add(one)
            taken[1].add(other)
    return (
        [slot for place, slot in enumerate(left) if place not in taken[0]],
        [slot for place, slot in enumerate(right) if place not in taken[1]],
    )


def _grouped(context: _Context, slots: list[_Slot]) -> dict[Hashable, list[int]]:
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for place, slot in enumerate(slots):
        key = context(slot)
        if key is not None:
            groups[key].append(place)
    return groups


def _equal_places(
    left: list[_Slot], ours: Iterable[int], right: list[_Slot], theirs: Iterable[int]
) -> list[tuple[int, int]]:
    """Match places whose values are equal, then those where one side's key is among the other's aliases."""
    matched: list[tuple[int, int]] = []
    ours, theirs = list(ours), list(theirs)
    for our_keys, their_keys in (
        (lambda slot: (slot.key,), lambda slot: (slot.key,)),
        (lambda slot: (slot.key,), lambda slot: slot.aliases),
        (lambda slot: slot.aliases, lambda slot: (slot.key,)),
    ):
        if not ours or not theirs:
            break
        waiting: dict[Hashable, list[int]] = defaultdict(list)
        for place in reversed(theirs):
            for key in their_keys(right[place]):
                waiting[key].append(place)
        used: set[int] = set()
        left_over = []
        for place in ours:
            for key in our_keys(left[place]):
                candidates = waiting.get(key)
                while candidates and candidates[-1] in used:
                    candidates.pop()
                if candidates:
                    used.add(candidates[-1])
                    matched.append((place, candidates.pop()))
                    break
            else:
                left_over.append(place)
        ours = left_over
        theirs = [place for place in theirs if place not in used]
    return matched


def _without_equal(left: list[_Slot], right: list[_Slot]) -> tuple[list[_Slot], list[_Slot]]:
    matched = _equal_places(left, range(len(left)), right, range(len(right)))
    ours, theirs = ({pair[side] for pair in matched} for side in (0, 1))
    return (
        [slot for place, slot in enumerate(left) if place not in ours],
        [slot for place, slot in enumerate(right) if place not in theirs],
    )


def _pair_by_family(
    left: list[_Slot], right: list[_Slot], pairs: list[_Pair]
) -> tuple[list[_Slot], list[_Slot]]:
    """Pair what is left of one family by the words they share around them, most first; give the rest.

    Where both sides have one segment with as many values of a family, their order pairs them. Amounts and
    percentages that are left are paired by size where there are as many: an update keeps the order of revenue,
    profit and cost, another wording need not. So is a single date.
    """
    one_segment = len({id(slot.segment) for slot in left}) == len({id(slot.segment) for slot in right}) == 1
    rest: tuple[list[_Slot], list[_Slot]] = ([], [])
    for family in dict.fromkeys(slot.family for slot in (*left, *right)):
        ours = [slot for slot in left if slot.family == family]
        theirs = [slot for slot in right if slot.family == family]
        if one_segment and len(ours) == len(theirs):
            pairs.extend(zip(ours, theirs, strict=True))
            continue
        if len(ours) <= _MAX_BY_NEIGHBOURHOOD and len(theirs) <= _MAX_BY_NEIGHBOURHOOD:
            ours, theirs = _pair_by_neighbourhood(ours, theirs, pairs)
        # Reference numbers and years come and go with footers; two of them need no connection.
        related = family not in ("number", "date", "year") or (family == "date" and len(ours) == 1)
        if related and len(ours) == len(theirs):
            ours, theirs = _pair_by_size(ours, theirs, pairs)
        rest[0].extend(ours)
        rest[1].extend(theirs)
    return rest


def _pair_by_size(
    ours: list[_Slot], theirs: list[_Slot], pairs: list[_Pair]
) -> tuple[list[_Slot], list[_Slot]]:
    rest: tuple[list[_Slot], list[_Slot]] = ([], [])
    for one, other in zip(sorted(ours, key=_size), sorted(theirs, key=_size), strict=True):
        if _comparable(one, other):
            pairs.append((one, other))
        else:
            rest[0].append(one)
            rest[1].append(other)
    return rest


def _size(slot: _Slot) -> tuple[int, str]:
    """Order values by size: how many digits stand before the decimal mark, then the digits."""
    number = slot.key if slot.key[0] in ("number", "code") else slot.key[1]
    if not isinstance(number, tuple) or number[0] != "number":
        return 0, ""
    _, digits, exponent = number
    return len(digits) + exponent, digits


def _comparable(one: _Slot, other: _Slot) -> bool:
    """Say whether one value can have become the other: never a price of thousands a revenue of millions."""
    if "date" in (one.kind, other.kind) or one.kind == "name":
        return True
    return abs(_size(one)[0] - _size(other)[0]) <= 1


def _pair_by_neighbourhood(
    ours: list[_Slot], theirs: list[_Slot], pairs: list[_Pair]
) -> tuple[list[_Slot], list[_Slot]]:
    near = [
        [(_neighbours(slot, _NEAR), _neighbours(slot, _AROUND)) for slot in side] for side in (ours, theirs)
    ]
    scored = sorted(
        (-score, abs(one - other), one, other)
        for one, (near_one, around_one) in enumerate(near[0])
        for other, (near_other, around_other) in enumerate(near[1])
        if _comparable(ours[one], theirs[other])
        and (score := 2 * len(near_one & near_other) + len(around_one & around_other))
    )
    taken: tuple[set[int], set[int]] = (set(), set())
    for _, _, one, other in scored:
        if one not in taken[0] and other not in taken[1]:
            taken[0].add(one)
            taken[1].add(other)
            pairs.append((ours[one], theirs[other]))
    return (
        [slot for place, slot in enumerate(ours) if place not in taken[0]],
        [slot for place, slot in enumerate(theirs) if place not in taken[1]],
    )


def _neighbours(slot: _Slot, reach: int) -> set[Hashable]:
    around = slot.segment[max(0, slot.first - reach) : slot.behind + reach]
    return {item.key for item in around if item.key not in STOPS}


# -- names ----------------------------------------------------------------------------------------


def _listed(text: str) -> frozenset[str]:
    return frozenset(text.split())


_IN_NAMES = _listed("de da do dos das del della di du van der den la le of y e")
_NO_NAMES = _listed(
    """monday tuesday wednesday thursday friday saturday sunday montag dienstag mittwoch donnerstag freitag
    samstag sonntag i ceo cfo cto coo hr it ai api saas ebit ebitda eu uk us usa co gmbh ag se sa inc ltd llc plc
    mr mrs ms dr herr frau"""
)
# After these a single German noun is a place or a company far more often than a thing.
_GERMAN_BEFORE = _listed("in aus nach bei firma herr frau standort werk unternehmen raum")
# Endings of German nouns that are no names.
_GERMAN_NOUN = re.compile(
    r"(?:ungs?|ungen|heit|keit|schaft|ion|ionen|en|ment|tät|nis|stand|recht|platz|plätze)$"
)
_JOINTS = frozenset((" ", "-", "'", " & ", "\u00a0", "\u2019", "\u2011"))


def _pair_names(
    left: Reading, right: Reading, left_rest: list[tuple[Item, ...]], right_rest: list[tuple[Item, ...]]
) -> list[_Pair]:
    small = _small_words(left) | _small_words(right)
    # A text too short to tell its language is taken to be in the other's.
    left = replace(left, language=left.language or right.language)
    right = replace(right, language=right.language or left.language)
    ours = _names(left, left_rest, _vocabulary(right), small)
    theirs = _names(right, right_rest, _vocabulary(left), small)
    pairs: list[_Pair] = []
    for context in (_SAME_WORDS, _context((-1, 1), 1, by_family=False)):
        ours, theirs = _pair_by(context, ours, theirs, pairs)
    if left.language != right.language:
        # A name has other words in another language; only what stands in the same place can be told.
        return pairs
    ours = [slot for slot in ours if slot.certain]
    theirs = [slot for slot in theirs if slot.certain]
    if len(ours) == len(theirs) == 1:
        return [*pairs, (ours[0], theirs[0])]
    return [*pairs, *((slot, None) for slot in ours), *((None, slot) for slot in theirs)]


def _small_words(reading: Reading) -> set[Key]:
    """Give the words that a text has without a capital; they are no names where they have one."""
    return {
        item.key
        for segment in reading.segments
        for item in segment
        if item.kind == "word" and item.text[0].islower()
    }


def _vocabulary(reading: Reading) -> set[str]:
    """Give the words of a text, and the stems by which an inflected name is known again."""
    spelled = {str(item.key) for segment in reading.segments for item in segment if item.kind == "word"}
    return spelled.union(*(_stems(word, reading.language) for word in spelled))


def _stems(word: str, language: str | None) -> list[str]:
    """Give what is left of a word without its last letters: two (European, Aurentas), in Polish three."""
    shortest = max(3, len(word) - 2) if language == "pl" and len(word) < 6 else max(4, len(word) - 2)
    if language == "pl" and len(word) >= 7:
        shortest = len(word) - 3
    return [word[:end] for end in range(shortest, len(word))] + [word]


def _names(
    reading: Reading, segments: Iterable[tuple[Item, ...]], known: set[str], small: set[Key]
) -> list[_Slot]:
    slots: list[_Slot] = []
    for segment in segments:
        if _shouts(segment):
            continue
        position = 0
        while position < len(segment):
            behind = _run(reading, segment, position)
            if behind > position:
                slot = _name(reading, segment, position, behind, known, small)
                if slot is not None:
                    slots.append(slot)
            position = max(behind, position + 1)
    return slots


def _shouts(segment: tuple[Item, ...]) -> bool:
    spelled = [item.text for item in segment if item.kind == "word"]
    return len(spelled) > 1 and all(text.isupper() for text in spelled)


def _capital(item: Item) -> bool:
    return item.kind == "word" and item.text[0].isupper()


def _run(reading: Reading, segment: tuple[Item, ...], position: int) -> int:
    """Give the end of the run of capitalised words that begins here, with the small words inside a name."""
    if not _capital(segment[position]):
        return position
    behind = position + 1
    while behind < len(segment):
        after = behind
        while (
            after < len(segment)
            and segment[after].key in _IN_NAMES
            # In German every noun has a capital: a small word joins two nouns far more often than a name.
            and reading.language != "de"
            and not _capital(segment[after])
            and after - behind < 2
            and _joined(reading, segment, after)
        ):
            after += 1
        if after == len(segment) or not _capital(segment[after]) or not _joined(reading, segment, after):
            break
        behind = after + 1
    return behind


def _joined(reading: Reading, segment: tuple[Item, ...], position: int) -> bool:
    return reading.plain[segment[position - 1].end : segment[position].start] in _JOINTS


def _name(
    reading: Reading,
    segment: tuple[Item, ...],
    first: int,
    behind: int,
    known: set[str],
    small: set[Key],
) -> _Slot | None:
    """Make a slot of a run that holds a word the other text lacks; None where it is hardly a name.

    The first word of a sentence counts only as a part of a longer name. In German a single word counts only behind
    a word such as "in" or "Firma", or behind a noun that the other text has too.
    """
    german = reading.language == "de"
    spelled = [place for place in range(first, behind) if _capital(segment[place])]
    if first == 0 and (segment[0].key in STOPS or segment[0].key in small):
        del spelled[0]
    novel = [place for place in spelled if _novel(segment[place], known, small, reading.language)]
    if not novel or novel == [0]:
        return None
    first = spelled[0]
    heading = reading.plain.startswith("#", reading.plain.rfind("\n", 0, segment[0].start) + 1)
    certain = len(novel) > 1 or not segment[novel[0]].text.isupper()
    if german:
        before = novel[0] - 1
        if len(novel) == 1 and before not in spelled and segment[before].key not in _GERMAN_BEFORE:
            return None
        certain = (
            novel[0] > 0
            and len(novel) > 1
            and not any(_GERMAN_NOUN.search(segment[place].text) for place in novel)
            and "-" not in reading.plain[segment[novel[0]].start : segment[novel[-1]].end]
        )
    text = reading.plain[segment[first].start : segment[behind - 1].end].replace("\n", " ")
    key = tuple(item.key for item in segment[first:behind])
    return _Slot(
        "name", "name", key, (), text, segment[first].start, segment, first, behind, certain and not heading
    )


def _novel(item: Item, known: set[str], small: set[Key], language: str | None) -> bool:
    word = str(item.key)
    return (
        len(word) > 1
        and word not in STOPS
        and word not in _NO_NAMES
        and word not in MONTHS
        and word not in small
        and known.isdisjoint(_stems(word, language))
    )


__all__ = ["MAX_CHANGES", "changes", "distances", "fold_for_repeat", "judge"]
