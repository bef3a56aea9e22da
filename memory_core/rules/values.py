"""Read a note as segments of words and typed values, in six languages; two spellings of one value share a key.

Markup, links and the looks of characters are no part of the reading. Cost is linear in the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Kind = Literal["number", "amount", "date", "word"]
# A word in lower case; of a value its sort and what it says: ("day", 2026, 10, 16), ("EUR", ("number", "12", 6)).
Key = str | tuple[Any, ...]


class Item(NamedTuple):
    """A word or a value of a text.

    Items of one `key` are equal. An item whose key is among another's `aliases` may say the same with less
    precision (no year, no currency) or in a notation that can be read in two ways (1.200).
    """

    kind: Kind
    key: Key
    aliases: tuple[Key, ...]
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A text as it was read; `plain` is what `start` and `end` of an item count in."""

    language: str | None
    plain: str
    segments: tuple[tuple[Item, ...], ...]


# -- words of six languages -----------------------------------------------------------------------


def _table(rows: str) -> dict[str, int]:
    """Read lines of a number and its words."""
    table: dict[str, int] = {}
    for row in rows.strip().splitlines():
        number, *spellings = row.split()
        table.update(dict.fromkeys(spellings, int(number)))
    return table


def _listed(text: str) -> frozenset[str]:
    return frozenset(text.split())


MONTHS = _table(
    """
    1 january jan januar jänner janvier janv enero ene styczeń stycznia styczniu sty janeiro
    2 february feb februar feber février févr fév febrero luty lutego lutym lut fevereiro fev
    3 march mar märz mrz mars marzo marzec marca marcu março
    4 april apr avril avr abril abr kwiecień kwietnia kwietniu kwi
    5 may mai mayo maj maja maju maio
    6 june jun juni juin junio czerwiec czerwca czerwcu cze junho
    7 july jul juli juillet juil julio lipiec lipca lipcu lip julho
    8 august aug août agosto ago sierpień sierpnia sierpniu sie
    9 september sep sept septembre septiembre setiembre wrzesień września wrześniu wrz setembro set
    10 october oct oktober okt octobre octubre październik października październiku paź outubro out
    11 november nov novembre noviembre listopad listopada listopadzie lis novembro
    12 december dec dezember dez décembre déc diciembre dic grudzień grudnia grudniu gru dezembro
    """
)
# Abbreviations that are everyday words of another language: "12 out of 20", "Sie".
_MONTH_ONLY_IN = {
    "out": "pt",
    "set": "pt",
    "ago": "es pt",
    "sie": "pl",
    "lis": "pl",
    "lip": "pl",
    "gru": "pl",
}
# Months whose name alone, without a day or a year, is as often another word.
_NO_MONTH_ALONE = _listed("march may mars mar mai maj set out ago dic dec lis sie lip gru cze kwi sty lut")

_TENS = {
    "en": "20 twenty|30 thirty|40 forty|50 fifty|60 sixty|70 seventy|80 eighty|90 ninety",
    "de": "20 zwanzig|30 dreißig|40 vierzig|50 fünfzig|60 sechzig|70 siebzig|80 achtzig|90 neunzig",
    "fr": "20 vingt|30 trente|40 quarante|50 cinquante|60 soixante",
    "es": "20 veinte|30 treinta|40 cuarenta|50 cincuenta|60 sesenta|70 setenta|80 ochenta|90 noventa",
    "pl": """20 dwadzieścia dwudziestu|30 trzydzieści trzydziestu|40 czterdzieści czterdziestu|50 pięćdziesiąt
        pięćdziesięciu|60 sześćdziesiąt sześćdziesięciu|70 siedemdziesiąt|80 osiemdziesiąt|90 dziewięćdziesiąt""",
    "pt": "20 vinte|30 trinta|40 quarenta|50 cinquenta|60 sessenta|70 setenta|80 oitenta|90 noventa",
}
# "one" is an article in five of the six languages, so it is no number in any.
_SMALL = {
    "en": """2 two|3 three|4 four|5 five|6 six|7 seven|8 eight|9 nine|10 ten|11 eleven|12 twelve dozen|13 thirteen
        |14 fourteen|15 fifteen|16 sixteen|17 seventeen|18 eighteen|19 nineteen""",
    "de": """2 zwei|3 drei|4 vier|5 fünf|6 sechs|7 sieben|8 acht|9 neun|10 zehn|11 elf|12 zwölf|13 dreizehn
        |14 vierzehn|15 fünfzehn|16 sechzehn|17 siebzehn|18 achtzehn|19 neunzehn""",
    "fr": """2 deux|3 trois|4 quatre|5 cinq|6 six|7 sept|8 huit|9 neuf|10 dix|11 onze|12 douze|13 treize
        |14 quatorze|15 quinze|16 seize""",
    "es": """2 dos|3 tres|4 cuatro|5 cinco|6 seis|7 siete|8 ocho|9 nueve|10 diez|11 once|12 doce|13 trece
        |14 catorce|15 quince|16 dieciséis|17 diecisiete|18 dieciocho|19 diecinueve|21 veintiuno veintiún
        |22 veintidós|23 veintitrés|24 veinticuatro|25 veinticinco|26 veintiséis|27 veintisiete|28 veintiocho
        |29 veintinueve""",
    "pl": """2 dwa dwie dwóch dwu dwaj|3 trzy trzech trzej|4 cztery czterech|5 pięć pięciu|6 sześć sześciu
        |7 siedem siedmiu|8 osiem ośmiu|9 dziewięć dziewięciu|10 dziesięć dziesięciu|11 jedenaście jedenastu
        |12 dwanaście dwunastu|13 trzynaście|14 czternaście|15 piętnaście piętnastu|16 szesnaście|17 siedemnaście
        |18 osiemnaście|19 dziewiętnaście""",
    "pt": """2 dois duas|3 três|4 quatro|5 cinco|6 seis|7 sete|8 oito|9 nove|10 dez|11 onze|12 doze|13 treze
        |14 catorze quatorze|15 quinze|16 dezesseis dezasseis|17 dezessete dezassete|18 dezoito
        |19 dezenove dezanove""",
}


def _number_words() -> dict[str | None, dict[str, int]]:
    """Give the number words of each language, and under None those that mean the same in all that know them."""
    by_language: dict[str | None, dict[str, int]] = {
        language: _table((_SMALL[language] + "|" + _TENS[language]).replace("\n", " ").replace("|", "\n"))
        for language in _SMALL
    }
    german = by_language["de"]
    units = {word: number for word, number in german.items() if number < 10} | {"ein": 1}
    tens = {word: number for word, number in german.items() if number >= 20}
    german.update({f"{one}und{ten}": units[one] + tens[ten] for one in units for ten in tens})
    # Common words of another language, or abbreviated months.
    foreign = {"dos", "once", "neuf", "sept", "dez", "set", "acht", "elf", "ten"}
    by_language[None] = {
        word: number
        for table in list(by_language.values())
        for word, number in table.items()
        if word not in foreign
    }
    # Before a Polish masculine noun this word says "this" far more often than an English number.
    return by_language


_NUMBER_WORDS = _number_words()

_SCALES = _table(
    """
    3 thousand tausend tsd mille mil tysiąc tysiące tysięcy tys
    6 million millions mio mn mln millionen millones millón mill milhão milhões milhao milhoes milion miliony
    6 milionów
    9 billion billions bn mrd milliarde milliarden milliard milliards md mds mld miliard miliardy miliardów
    9 bilhão bilhões bilhoes bi
    12 trillion trillions billionen billón billones bilion biliony bilionów biliões trilhão trilhões
    """
)
# Letters that scale a number only where they touch it or stand beside a currency: 12m, 12 M€.
_SHORT_SCALES = {"k": 3, "m": 6, "b": 9, "t": 12}
_DOTTED = _listed(
    """mio mrd tsd tys mill mln mld jan feb mar apr jun jul aug sep sept oct okt nov dec dez janv févr avr juil déc
    ene abr ago dic r"""
)

_CURRENCY_SYMBOLS = {"€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY", "₹": "INR", "₽": "RUB", "₺": "TRY"}
_DOLLARS = {
    "us": "USD",
    "r": "BRL",
    "a": "AUD",
    "au": "AUD",
    "c": "CAD",
    "ca": "CAD",
    "nz": "NZD",
    "hk": "HKD",
}
_CURRENCY_CODES = _listed(
    """EUR USD GBP PLN BRL CHF SEK NOK DKK CZK HUF RON JPY CNY RMB INR CAD AUD NZD HKD SGD MXN ARS CLP COP TRY
    RUB UAH ZAR KRW ILS AED"""
)
_CURRENCY_WORDS = {
    word: code
    for code, all_ in {
        "EUR": "euro euros eur",
        "USD": "dollar dollars dólar dólares dolar dolary dolarów usd",
        "GBP": "pound pounds pfund sterling funt funty funtów gbp",
        "PLN": "zł zloty zlotys złoty złote złotych pln",
        "BRL": "reais brl",
        "CHF": "franken francs franc francos franków chf",
        "JPY": "yen ienes jenów",
        "CNY": "yuan yuans",
        "SEK": "kronor sek",
        "DKK": "kroner dkk",
    }.items()
    for word in all_.split()
}
_PERCENT = _listed("percent pct prozent procent procenta procentów")
_PERCENT_AFTER = {"per": {"cent"}, "pour": {"cent"}, "por": {"ciento", "cento"}}
_LINKS = _listed("of de del d do da dos di")
_ORDINAL = _listed("st nd rd th er ère re e ème eme º ª o a")
_QUARTERS = _listed("quarter quartal quartals trimestre kwartał kwartale kwartału quarters qtr")
_ORDINAL_WORDS = _table(
    """
    1 first erste ersten erstes premier primer primero primeiro pierwszy pierwszym pierwszego
    2 second zweite zweiten zweites deuxième segundo drugi drugim drugiego
    3 third dritte dritten drittes troisième tercer tercero terceiro trzeci trzecim trzeciego
    4 fourth vierte vierten viertes quatrième cuarto quarto czwarty czwartym czwartego
    """
)
_ROMAN = {"i": 1, "ii": 2, "iii": 3, "iv": 4}
_PERIOD = re.compile(r"([qthks])([1-4])(?:(\d\d)|\D|$)|([1-4])[qt](\d\d)?$")

# Words frequent in one language and in no other of the six; enough to tell them apart in two sentences.
STOP_WORDS = {
    "en": "the and of to in is was for with that by from on at it its has have be will an this are as been not",
    "de": """der die das und ist mit von dem den ein eine einer einen des im zum zur für auf auch sich nicht nach bei
        wird hat als aus bis über wurde sind einem""",
    "fr": """le la les des et est une du dans pour par sur avec au aux ce cette qui que ont été sont son ses leur il
        elle plus à en""",
    "es": """el la los las y es una del en para por con se al que lo su sus ha han fue más como entre desde hasta un
        está""",
    "pl": """i w z na do się jest nie oraz o od za że przez po dla ze są roku ma będzie jako także został została
        firmy firma spółka spółki""",
    "pt": """o a os as e é uma um do da dos das no na nos nas em para por com se ao que não mais foi como sua seu à
        pela pelo até são""",
}
_LANGUAGES_OF: dict[str, list[str]] = {}
for _language, _words in STOP_WORDS.items():
    for _word in _words.split():
        _LANGUAGES_OF.setdefault(_word, []).append(_language)
STOPS = frozenset(_LANGUAGES_OF)


# -- plain text -----------------------------------------------------------------------------------

_DROPPED = re.compile(
    r"[\u00ad\u200b-\u200f\u2060\ufeff]|<!--[^>]{0,400}-->|</?[A-Za-z][^<>\n]{0,200}>|(?<!\d)\*+|\*+(?!\d)|`+|~~"
    r"|(?<!\w)_+|_+(?!\w)|\\(?=[^\w\s])"
)
_LINK = re.compile(
    r"(?:https?://|www\.)[^\s<>()\[\]\"]+|(?<=\])\([^()\s]{0,500}\)|[\w.+-]{1,64}@[\w.-]+|&nbsp;"
)
_LIST_MARK = re.compile(r"^[ \t]*(?:[-+\u2022\u2013\u2014>]+|(\d{1,2})[.)])[ \t]+(?=(\w*))", re.MULTILINE)

_SPACES = re.compile(r"([^\S\n])[^\S\n]+")
_LINE_TAIL = re.compile(r"[^\S\n](?=\n)")

_LOOKS = str.maketrans(
    {
        **{chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},
        **dict.fromkeys(
            "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000\t",
            " ",
        ),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u02bc\u2032\u0060\u00b4", "'"),
        "\u3002": ".",
        "\u3001": ",",
    }
)


def _plain(text: str) -> str:
    """Give the text without markup and links; what is left stands as it was written."""
    text = unicodedata.normalize("NFC", text)
    text = _LINK.sub(" ", text)
    text = _DROPPED.sub("", text)
    text = _LIST_MARK.sub(_list_mark, text)
    # Readers look one space ahead, or one line end.
    return _LINE_TAIL.sub("", _SPACES.sub(r"\1", text))


def _list_mark(found: re.Match[str]) -> str:
    # "8. Februar" begins a line like the eighth point of a list.
    word = found[2].casefold()
    return found[0] if found[1] and (word in MONTHS or word in _QUARTERS) else ""


# -- lexing ---------------------------------------------------------------------------------------

_LEXEME = re.compile(
    r"(?P<iso>\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?(?![\d]))"
    r"|(?P<date>\d{1,2}([./-])\d{1,2}\3(?:\d{4}|\d{2})(?![\d]|[.,/-]\d))"
    r"|(?P<time>\d{1,2}:\d{2}(?![\d:]))"
    r"|(?P<number>\d{1,3}(?:[ ']\d{3})+(?:[.,]\d+)?(?![\d])|\d+(?:[.,]\d+)*)"
    r"|(?P<word>[^\W\d_]\w*(?:(?<=\d)\.\d+)*)"
    r"|(?P<line>\n)"
    r"|(?P<mark>\S)"
)
_SEPARATOR = re.compile(r"[.,]")


_BEHIND_NUMBER = (MONTHS.keys() | _SCALES.keys() | _CURRENCY_WORDS.keys() | _PERCENT) - _NO_MONTH_ALONE


class _Lexeme(NamedTuple):
    group: str
    text: str
    start: int
    end: int
    folded: str


def _lexemes(plain: str) -> list[_Lexeme]:
    looks = plain.translate(_LOOKS)
    lexemes = [
        _Lexeme(
            found.lastgroup or "mark",
            text := found.group(),
            found.start(),
            found.end(),
            text.casefold() if found.lastgroup == "word" else text,
        )
        for found in _LEXEME.finditer(looks)
    ]
    return [
        lexeme for index, lexeme in enumerate(lexemes) if lexeme.group != "line" or not _wraps(lexemes, index)
    ]


def _wraps(lexemes: list[_Lexeme], index: int) -> bool:
    """Say whether a value goes on behind this line end: a number before its month, scale or currency."""
    if not 0 < index < len(lexemes) - 1:
        return False
    before, after = lexemes[index - 1], lexemes[index + 1]
    if before.text == "." and index > 1:
        before = lexemes[index - 2]
    if before.group == "number" or before.folded in _SCALES:
        return after.text in _CURRENCY_SYMBOLS or after.folded in _BEHIND_NUMBER
    return after.group == "number" and (before.text in _CURRENCY_CODES or before.folded in MONTHS)


def _language_of(lexemes: list[_Lexeme]) -> str | None:
    counts: Counter[str] = Counter()
    for lexeme in lexemes:
        if lexeme.group == "word":
            counts.update(_LANGUAGES_OF.get(lexeme.folded, ()))
    best = counts.most_common(2)
    if not best or best[0][1] < 2 or (len(best) > 1 and best[1][1] == best[0][1]):
        return None
    return best[0][0]


# -- parsing --------------------------------------------------------------------------------------


def read(text: str) -> Reading:
    """Read a text; segments end at lines, sentences and colons. No text is refused."""
    plain = _plain(text)
    lexemes = _lexemes(plain)
    language = _language_of(lexemes)
    return Reading(
        language=language, plain=plain, segments=tuple(_Parser(plain, lexemes, language).segments())
    )


_END = _Lexeme("line", "\n", 1 << 60, 1 << 60, "\n")


class _Parser:
    """One pass over the lexemes; every method that reads ahead gives the index behind what it took."""

    __slots__ = ("language", "lexemes", "plain", "words")

    def __init__(self, plain: str, lexemes: list[_Lexeme], language: str | None) -> None:
        self.plain = plain
        # Readers look up to a few lexemes ahead; an end that nothing matches spares them a bound.
        self.lexemes = [*lexemes, _END, _END, _END, _END]
        self.language = language
        self.words = _NUMBER_WORDS[language]

    def segments(self) -> list[tuple[Item, ...]]:
        segments: list[tuple[Item, ...]] = []
        segment: list[Item] = []
        index, end = 0, len(self.lexemes) - 4
        while index < end:
            lexeme = self.lexemes[index]
            group = lexeme.group
            item: Item | None = None
            behind = index + 1
            if group == "word":
                item, behind = self._word(index)
            elif group == "mark":
                if lexeme.text in _CURRENCY_SYMBOLS and self._near(index, "number"):
                    item, behind = self._number(index + 1, index, _CURRENCY_SYMBOLS[lexeme.text])
            elif group == "number":
                item, behind = self._number(index, index, None)
            elif group != "line":
                item = self._written_date(lexeme)
            if item is not None:
                segment.append(item)
            elif segment and self._ends(index):
                segments.append(tuple(segment))
                segment = []
            index = behind
        if segment:
            segments.append(tuple(segment))
        return segments

    def _ends(self, index: int) -> bool:
        lexeme = self.lexemes[index]
        if lexeme.group == "line":
            return True
        return lexeme.text in ".!?;:|" and self.lexemes[index + 1].start > lexeme.end

    def _near(self, index: int, group: str) -> bool:
        """Say whether the next lexeme is of a group and at most a space away."""
        return self.lexemes[index + 1].group == group and self._gap(index) <= 1

    def _gap(self, index: int) -> int:
        return self.lexemes[index + 1].start - self.lexemes[index].end

    def _item(
        self, kind: Kind, key: Key, aliases: tuple[Key, ...], first: int, behind: int
    ) -> tuple[Item, int]:
        start, end = self.lexemes[first].start, self.lexemes[behind - 1].end
        return Item(kind, key, aliases, self.plain[start:end].replace("\n", " "), start, end), behind

    # -- words that begin a value

    def _word(self, index: int) -> tuple[Item, int]:
        lexeme = self.lexemes[index]
        word = lexeme.folded
        following = self.lexemes[index + 1]
        if following.group == "number" and self._gap(index) <= 1:
            if lexeme.text in _CURRENCY_CODES or word == "zł":
                return self._number(index + 1, index, _CURRENCY_WORDS.get(word, lexeme.text))
        elif (
            following.text == "$"
            and word in _DOLLARS
            and self._gap(index) == 0
            and self._near(index + 1, "number")
        ):
            return self._number(index + 2, index, _DOLLARS[word])
        if self._is_month(lexeme) and (lexeme.text[0].isupper() or len(word) > 3):
            dated = self._month(index)
            if dated is not None:
                return dated
        if word in _ORDINAL_WORDS or word in _ROMAN:
            number = _ORDINAL_WORDS.get(word) or _ROMAN[word]
            if following.folded in _QUARTERS:
                return self._quarter(index + 2, index, number)
        if len(word) <= 4 and (period := _PERIOD.match(word)) and period[1]:
            return self._period(index, period)
        if word in self.words:
            return self._number(index, index, None)
        if not word.isalpha() and any(character.isdigit() for character in word):
            version = word[1:] if word[0] == "v" and word[1].isdigit() else word
            return self._item("number", ("code", version), _code_readings(version), index, index + 1)
        return Item("word", word, (), lexeme.text, lexeme.start, lexeme.end), index + 1

    def _is_month(self, lexeme: _Lexeme) -> bool:
        only_in = _MONTH_ONLY_IN.get(lexeme.folded)
        return lexeme.folded in MONTHS and (only_in is None or (self.language or "-") in only_in)

    def _month(self, index: int) -> tuple[Item, int] | None:
        """Read "October 16, 2026", "October 2026", "October"."""
        month = MONTHS[self.lexemes[index].folded]
        behind = self._dot(index)
        day = self.lexemes[behind]
        if (
            day.group == "number"
            and day.text.isdigit()
            and 1 <= int(day.text[:3]) <= 31
            and len(day.text) <= 2
        ):
            after = behind + 1
            if self.lexemes[after].folded in _ORDINAL and self.lexemes[after].start == day.end:
                after += 1
            if self.language in (None, "en"):
                return self._dated(month, int(day.text), after, index)
        year, after = self._year(behind)
        if year:
            return self._item("date", ("month", year, month), (("month", month),), index, after)
        if self.lexemes[index].folded in _NO_MONTH_ALONE or len(self.lexemes[index].text) < 4:
            return None
        return self._item("date", ("month", month), (), index, behind)

    def _dot(self, index: int) -> int:
        """Give the index behind a word, and behind the full stop of its abbreviation."""
        lexeme, dot = self.lexemes[index], self.lexemes[index + 1]
        return (
            index + 2
            if dot.text == "." and dot.start == lexeme.end and lexeme.folded in _DOTTED
            else index + 1
        )

    def _year(self, index: int) -> tuple[int, int]:
        """Read a year of four digits behind "," or "de"; 0 where there is none."""
        behind = index
        if self.lexemes[behind].text == ",":
            behind += 1
        if self.lexemes[behind].folded in _LINKS:
            behind += 1
        lexeme = self.lexemes[behind]
        if lexeme.group == "number" and _is_year(lexeme.text):
            return int(lexeme.text), self._year_word(behind + 1)
        return 0, index

    def _year_word(self, index: int) -> int:
        """Step over the Polish "r." or "roku" behind a year."""
        if self.language in (None, "pl"):
            if self.lexemes[index].folded == "roku":
                return index + 1
            if self.lexemes[index].folded == "r":
                return self._dot(index)
        return index

    def _dated(self, month: int, day: int, index: int, first: int) -> tuple[Item, int]:
        year, behind = self._year(index)
        if year:
            return self._item("date", ("day", year, month, day), (("day", month, day),), first, behind)
        return self._item("date", ("day", month, day), (), first, index)

    def _quarter(self, index: int, first: int, number: int) -> tuple[Item, int]:
        year, behind = self._year(index)
        if year:
            return self._item("date", ("quarter", year, number), (("quarter", number),), first, behind)
        return self._item("date", ("quarter", number), (), first, index)

    def _period(self, index: int, period: re.Match[str]) -> tuple[Item, int]:
        """Read Q3, T3, H1, K2, S1 with or without a year: Q3 2026, Q3/2026, Q326."""
        part = "half" if period[1] in "hs" else "quarter"
        number = int(period[2])
        after = index + 1
        if self.lexemes[after].text in ("/", "-", "'"):
            after += 1
        year, behind = (2000 + int(period[3]), index + 1) if period[3] else self._year(after)
        if year:
            return self._item("date", (part, year, number), ((part, number),), index, behind)
        return self._item("date", (part, number), (), index, index + 1)

    def _written_date(self, lexeme: _Lexeme) -> Item:
        """Read 2026-10-16, 16.10.2026, 10/16/2026 and 14:30; an order that is open has both readings."""
        span = (self.plain[lexeme.start : lexeme.end], lexeme.start, lexeme.end)
        if lexeme.group == "time":
            hour, _, minute = lexeme.text.partition(":")
            return Item("date", ("time", int(hour), int(minute)), (), *span)
        if lexeme.group == "iso":
            year, month, day = (int(part) for part in lexeme.text[:10].split("-"))
            key = ("day", year, month, day)
            aliases: tuple[Key, ...] = (("day", month, day),)
            if len(lexeme.text) > 10:
                return Item("date", (*key, lexeme.text[11:]), (key, *aliases), *span)
            return Item("date", key, aliases, *span)
        first, second, year = (int(part) for part in re.split(r"[./-]", lexeme.text))
        year += 2000 if year < 100 else 0
        readings = [(second, first), (first, second)]
        if self.language == "en" and "/" in lexeme.text:
            readings.reverse()
        valid = [(month, day) for month, day in readings if 1 <= month <= 12 and 1 <= day <= 31]
        if not valid:
            return Item("number", ("code", lexeme.text), (), *span)
        keys: list[Key] = [("day", year, month, day) for month, day in valid]
        short: list[Key] = [("day", month, day) for month, day in valid]
        return Item("date", keys[0], (*keys[1:], *short), *span)

    # -- numbers and what belongs to them

    def _number(self, index: int, first: int, currency: str | None) -> tuple[Item, int]:
        """Read the number at `index` with its scale, currency or unit; `first` is where the value begins."""
        lexeme = self.lexemes[index]
        behind = index + 1
        spelled = lexeme.group == "word"
        if spelled:
            number, behind = self._spelled(index)
            readings = [_digits(str(number))]
        else:
            readings = _readings(lexeme.text, self.language)
            if currency is None:
                special = self._day(index, first) or self._attached(index, first)
                if special is not None:
                    return special
        exponent, behind = self._scale(behind, lexeme, currency)
        if currency is None:
            currency, behind = self._currency(behind)
        sign = "-" if currency is None and self._negative(index) else ""
        if sign:
            first = index - 1
        keys: list[Key] = [
            ("number", sign + digits, power + exponent) if digits[:1] != "v" else ("code", digits[1:])
            for digits, power in readings
        ]
        if currency is not None:
            return self._item("amount", (currency, keys[0]), tuple(keys), first, behind)
        percent = self._percent(behind)
        if percent > behind:
            return self._item("number", ("%", keys[0]), tuple(keys), first, percent)
        if not spelled and not sign and exponent == 0 and _is_year(lexeme.text):
            return self._item("date", keys[0], (), first, self._year_word(behind))
        return self._item("number", keys[0], tuple(keys[1:]), first, behind)

    def _spelled(self, index: int) -> tuple[int, int]:
        """Read "twenty-five", "treinta y cinco", "dwadzieścia pięć"."""
        number = self.words[self.lexemes[index].folded]
        behind = index + 1
        if 20 <= number <= 90 and number % 10 == 0:
            after = behind
            if self.lexemes[after].text in ("-", "y", "e", "et"):
                after += 1
            unit = self.words.get(self.lexemes[after].folded, 0)
            if 0 < unit < 10:
                return number + unit, after + 1
        return number, behind

    def _day(self, index: int, first: int) -> tuple[Item, int] | None:
        """Read "16 October 2026", "16. Oktober", "le 1er octobre", "16 de octubre de 2026", "3. Quartal 2026"."""
        text = self.lexemes[index].text
        if len(text) > 2 or not 1 <= int(text) <= 31:
            return None
        behind = index + 1
        mark = self.lexemes[behind]
        if mark.start == self.lexemes[index].end and (mark.text == "." or mark.folded in _ORDINAL):
            behind += 1
        if self.lexemes[behind].folded in _QUARTERS and int(text) <= 4:
            return self._quarter(behind + 1, first, int(text))
        if self.lexemes[behind].folded in _LINKS:
            behind += 1
        if self.lexemes[behind].text == "'":
            behind += 1
        month = self.lexemes[behind]
        if self._is_month(month):
            return self._dated(MONTHS[month.folded], int(text), self._dot(behind), first)
        return None

    def _attached(self, index: int, first: int) -> tuple[Item, int] | None:
        """Read a number that letters touch: 3rd is 3, 5G and 3Q26 are codes, 12m and 12€ are left to others."""
        number, word = self.lexemes[index], self.lexemes[index + 1]
        if word.group != "word" or word.start != number.end:
            return None
        if word.folded in _ORDINAL:
            return self._item("number", ("number", *_digits(number.text)), (), first, index + 2)
        if word.folded in _SCALES or word.folded in _SHORT_SCALES or word.folded in _CURRENCY_WORDS:
            return None
        code = number.text + word.folded
        period = _PERIOD.match(code)
        if period and period[4]:
            quarter = int(period[4])
            if period[5]:
                key = ("quarter", 2000 + int(period[5]), quarter)
                return self._item("date", key, (("quarter", quarter),), first, index + 2)
            return self._quarter(index + 2, first, quarter)
        return self._item("number", ("code", code), (), first, index + 2)

    def _scale(self, index: int, number: _Lexeme, currency: str | None) -> tuple[int, int]:
        """Read thousand, million, billion behind a number, also two of them: "mil millones"."""
        exponent = 0
        while True:
            behind = index
            hyphen = self.lexemes[behind]
            if hyphen.text == "-" and hyphen.start == self.lexemes[behind - 1].end:
                behind += 1
            word = self.lexemes[behind]
            if word.group != "word":
                return exponent, index
            if word.folded in _SCALES:
                exponent += _SCALES[word.folded]
                index = self._dot(behind)
            elif word.folded in _SHORT_SCALES and not exponent and behind == index:
                touches = word.start == number.end
                if touches or currency is not None or self._currency(behind + 1)[0] is not None:
                    return _SHORT_SCALES[word.folded], behind + 1
                return exponent, index
            else:
                return exponent, index

    def _currency(self, index: int) -> tuple[str | None, int]:
        """Read a currency behind a number or its scale: €, Euro, d'euros, de dólares, US$."""
        behind = index
        hyphen = self.lexemes[behind]
        if hyphen.text == "-" and hyphen.start == self.lexemes[behind - 1].end:
            behind += 1
        if self.lexemes[behind].folded in _LINKS:
            behind += 1
            if self.lexemes[behind].text == "'":
                behind += 1
        lexeme = self.lexemes[behind]
        if lexeme.start - self.lexemes[behind - 1].end > 1:
            return None, index
        if lexeme.text in _CURRENCY_SYMBOLS:
            return _CURRENCY_SYMBOLS[lexeme.text], behind + 1
        if lexeme.folded in _DOLLARS and self.lexemes[behind + 1].text == "$" and self._gap(behind) == 0:
            return _DOLLARS[lexeme.folded], behind + 2
        if lexeme.text in _CURRENCY_CODES:
            return lexeme.text, behind + 1
        if lexeme.folded in _CURRENCY_WORDS:
            return _CURRENCY_WORDS[lexeme.folded], behind + 1
        return None, index

    def _percent(self, index: int) -> int:
        """Give the index behind a percent sign or word, or the index itself."""
        lexeme = self.lexemes[index]
        if lexeme.text == "%" or lexeme.folded in _PERCENT:
            return index + 1
        if self.lexemes[index + 1].folded in _PERCENT_AFTER.get(lexeme.folded, ()):
            return index + 2
        return index

    def _negative(self, index: int) -> bool:
        if index == 0:
            return False
        mark, number = self.lexemes[index - 1], self.lexemes[index]
        if mark.text != "-" or mark.end != number.start:
            return False
        return mark.start == 0 or self.plain[mark.start - 1] in " (\n\u00a0"


def _code_readings(version: str) -> tuple[Key, ...]:
    """Give what "v2.1" or "v2" says without its letter."""
    if not version.replace(".", "").isdecimal() or version.count(".") > 1:
        return ()
    return (("number", *_digits(*version.split("."))),)


def _is_year(text: str) -> bool:
    return len(text) == 4 and text.isdigit() and "1900" <= text <= "2100"


def _digits(text: str, fraction: str = "") -> tuple[str, int]:
    """Give the significant digits and the power of ten: 1200 and 1200.0 are both ("12", 2).

    Digits stay text: a number of 10,000 digits costs no more than its length.
    """
    whole = (text + fraction).lstrip("0")
    digits = whole.rstrip("0")
    return (digits, len(whole) - len(digits) - len(fraction)) if digits else ("0", 0)


def _readings(text: str, language: str | None) -> list[tuple[str, int]]:
    """Give what a written number can mean, the likelier first; a version such as 2.1.3 is marked by "v"."""
    text = text.replace(" ", "").replace("'", "")
    parts = _SEPARATOR.split(text)
    if len(parts) == 1:
        return [_digits(text)]
    separators = _SEPARATOR.findall(text)
    grouped = len(parts[0]) <= 3 and parts[0] != "0" and all(len(part) == 3 for part in parts[1:])
    if len(parts) == 2:
        as_decimal = _digits(*parts)
        if not grouped:
            return [as_decimal]
        readings = [_digits("".join(parts)), as_decimal]
        decimal_mark = "." if language == "en" else "," if language else ""
        return readings[::-1] if separators[0] == decimal_mark else readings
    inner = set(separators[:-1])
    if len(inner) == 1 and separators[-1] not in inner:
        return [_digits("".join(parts[:-1]), parts[-1])]
    if len(set(separators)) == 1 and grouped:
        return [_digits("".join(parts))]
    return [("v" + text, 0)]


__all__ = ["MONTHS", "STOPS", "Item", "Key", "Kind", "Reading", "read"]
