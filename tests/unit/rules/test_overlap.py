"""Distances sort notes, and `changes` names what differs: values in six languages, never the format."""

from __future__ import annotations

import time

import numpy as np
import pytest

from memory_core.policy import Thresholds
from memory_core.rules.overlap import MAX_CHANGES, changes, distances, fold_for_repeat, judge

THRESHOLDS = Thresholds(near_duplicate_at=0.10, overlap_at=0.30, tuned=False)


def _found(before: str, after: str) -> list[tuple[str, str, str]]:
    return [(change.kind, change.before, change.after) for change in changes(before, after)]


# -- distances


def test_case_017_identical_vectors_lie_at_distance_zero_and_opposite_ones_farthest() -> None:
    random = np.random.default_rng(7)
    vector = random.normal(size=512).astype(np.float32)
    vector /= np.linalg.norm(vector)
    found = distances(vector, np.stack([vector, -vector]))
    assert 0 <= found[0] <= 1e-6
    assert found[1] == pytest.approx(2, abs=1e-6)
    near, overlaps = judge(zip(("same", "opposite"), found, strict=True), THRESHOLDS)
    assert [name for name, _ in near] == ["same"]
    assert not overlaps


def test_distances_of_no_notes_are_none() -> None:
    assert distances(np.ones(4, dtype=np.float32), np.empty((0, 4), dtype=np.float32)).shape == (0,)


def test_both_thresholds_are_inclusive_and_the_nearest_comes_first() -> None:
    candidates = [
        ("a", 0.30),
        ("b", 0.10),
        ("c", None),
        ("d", 0.0),
        ("e", 0.31),
        ("f", 0.1000001),
        ("g", 0.10),
    ]
    near, overlaps = judge(candidates, THRESHOLDS)
    assert near == [("d", 0.0), ("b", 0.10), ("g", 0.10)]
    assert overlaps == [("f", 0.1000001), ("a", 0.30)]


def test_white_space_alone_makes_no_other_text() -> None:
    assert fold_for_repeat(" a\r\n\tb\u00a0 c ") == fold_for_repeat("a b c") == "a b c"


# -- what changed


def test_case_001_a_changed_amount_is_named() -> None:
    assert _found("Halden Bank series B: 12 million", "Halden Bank series B: 21 million") == [
        ("number", "12 million", "21 million")
    ]


def test_case_002_a_changed_day_is_named_as_a_date() -> None:
    assert _found("contract renews 15 October", "contract renews 16 October") == [
        ("date", "15 October", "16 October")
    ]


def test_case_002_a_changed_version_is_named() -> None:
    assert _found("They run release v2.1.3 now.", "They run release v2.1.4 now.") == [
        ("number", "v2.1.3", "v2.1.4")
    ]
    assert _found("They run release 2.1.3 now.", "They run release v2.1.3 now.") == []


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("in business for 5 years", "in business for 6 years", ("number", "5", "6")),
        ("in business for five years", "in business for six years", ("number", "five", "six")),
        ("seit fünf Jahren am Markt", "seit sechs Jahren am Markt", ("number", "fünf", "sechs")),
        ("depuis cinq ans sur le marché", "depuis six ans sur le marché", ("number", "cinq", "six")),
        (
            "desde hace cinco años en el sector",
            "desde hace seis años en el sector",
            ("number", "cinco", "seis"),
        ),
        ("od pięciu lat na rynku", "od sześciu lat na rynku", ("number", "pięciu", "sześciu")),
        ("há cinco anos no mercado", "há seis anos no mercado", ("number", "cinco", "seis")),
    ],
)
def test_case_011_a_changed_number_is_named_in_six_languages(
    before: str, after: str, change: tuple[str, str, str]
) -> None:
    assert _found(before, after) == [change]


def test_case_019_full_width_punctuation_and_digits_are_no_change() -> None:
    assert _found("该公司有１，２００名员工，总部在上海。", "该公司有1,200名员工,总部在上海.") == []


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (
            "raised EUR 12 million in all",
            "raised EUR 15 million in all",
            ("amount", "EUR 12 million", "EUR 15 million"),
        ),
        (
            "hat 12 Mio. Euro erhalten",
            "hat 15 Mio. Euro erhalten",
            ("amount", "12 Mio. Euro", "15 Mio. Euro"),
        ),
        ("a levé 12 M€ cette année", "a levé 15 M€ cette année", ("amount", "12 M€", "15 M€")),
        ("pozyskała 12,5 mln zł od", "pozyskała 15 mln zł od", ("amount", "12,5 mln zł", "15 mln zł")),
        (
            "recebeu R$ 12 milhões de",
            "recebeu R$ 15 milhões de",
            ("amount", "R$ 12 milhões", "R$ 15 milhões"),
        ),
        (
            "recaudó 12 millones de euros",
            "recaudó 12 millones de dólares",
            ("amount", "12 millones de euros", "12 millones de dólares"),
        ),
        ("raised $12m in May 2026", "raised $21m in May 2026", ("amount", "$12m", "$21m")),
        ("margin of 20 percent", "margin of 25 percent", ("number", "20 percent", "25 percent")),
        ("a change of -5 %", "a change of 5 %", ("number", "-5 %", "5 %")),
        (
            "on 16 October 2026 at last",
            "on 16 October 2027 at last",
            ("date", "16 October 2026", "16 October 2027"),
        ),
        (
            "am 16. Oktober 2026 fertig",
            "am 17. Oktober 2026 fertig",
            ("date", "16. Oktober 2026", "17. Oktober 2026"),
        ),
        ("le 1er octobre au soir", "le 2 octobre au soir", ("date", "1er octobre", "2 octobre")),
        (
            "el 16 de octubre de 2026 abre",
            "el 16 de mayo de 2026 abre",
            ("date", "16 de octubre de 2026", "16 de mayo de 2026"),
        ),
        (
            "od 16 października 2026 r. w",
            "od 16 maja 2026 r. w",
            ("date", "16 października 2026 r.", "16 maja 2026 r."),
        ),
        ("due in Q3 2026 at last", "due in Q4 2026 at last", ("date", "Q3 2026", "Q4 2026")),
        ("due in October 2026 at last", "due in May 2026 at last", ("date", "October 2026", "May 2026")),
        ("due in 2026 at last", "due in 2027 at last", ("date", "2026", "2027")),
        ("the call is at 14:30 today", "the call is at 15:30 today", ("date", "14:30", "15:30")),
        ("the plant in Porto opens", "the plant in Braga opens", ("name", "Porto", "Braga")),
        (
            "led by Tomás Herrera since",
            "led by Rui Teixeira since",
            ("name", "Tomás Herrera", "Rui Teixeira"),
        ),
        (
            "Das Werk in Aveiro ist groß und neu",
            "Das Werk in Bristol ist groß und neu",
            ("name", "Aveiro", "Bristol"),
        ),
        ("uses 5G everywhere", "uses 6G everywhere", ("number", "5G", "6G")),
    ],
)
def test_a_changed_value_is_given_by_its_kind_as_it_was_written(
    before: str, after: str, change: tuple[str, str, str]
) -> None:
    assert _found(before, after) == [change]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1,200 people", "1.200 people"),
        ("1,200 people", "1 200 people"),
        ("1,200 people", "1\u00a0200 people"),
        ("1,200 people", "1200 people"),
        ("1'200 people", "1\u202f200 people"),
        ("12.5 percent", "12,5 %"),
        ("12.50 percent", "12.5 per cent"),
        ("EUR 12 million", "12 Mio. Euro"),
        ("12 million", "12 Mio."),
        ("12 million", "12,000,000"),
        ("EUR 12 million", "12 M€"),
        ("€12m", "12 millions d'euros"),
        ("€12m", "12 millones de euros"),
        ("€12m", "12 milhões de euros"),
        ("€12m", "12 mln euro"),
        ("$12m", "12 million dollars"),
        ("US$ 5 million", "USD 5m"),
        ("12,5 mln zł", "PLN 12.5 million"),
        ("R$ 12 milhões", "12.000.000 reais"),
        ("3 mil millones de euros", "€3bn"),
        ("EUR 3 billion", "3 Mrd. Euro"),
        ("a 12-million-euro deal", "a EUR 12 million deal"),
        ("16 October 2026", "2026-10-16"),
        ("16 October 2026", "October 16, 2026"),
        ("16th of October 2026", "16. Oktober 2026"),
        ("16 October 2026", "16.10.2026"),
        ("10/16/2026", "16/10/2026"),
        ("16 octobre 2026", "16 de octubre de 2026"),
        ("16 października 2026 r.", "16 de outubro de 2026"),
        ("le 16 octobre", "16 octobre 2026"),
        ("Q3 2026", "third quarter of 2026"),
        ("3Q26", "3. Quartal 2026"),
        ("T3 2026", "troisième trimestre 2026"),
        ("III kwartał 2026", "Q3/2026"),
        ("five years", "5 years"),
        ("twenty-five people", "25 people"),
        ("fünfundzwanzig Leute und ein Hund", "25 Leute und ein Hund"),
        ("treinta y cinco de las personas", "35 de las personas"),
    ],
)
def test_equal_values_are_no_change_however_they_are_written(one: str, other: str) -> None:
    assert _found(f"It says {one} here", f"It says {other} here") == []


TEXT = (
    "# Kelva: funding\n\nKelva closed a EUR 12 million round on 16 October 2026. It was led by Duero Capital - with "
    "1,200 people in Porto. The board's plan: hire 25 percent more staff."
)


@pytest.mark.parametrize(
    "edited",
    [
        TEXT.replace("12", "**12**").replace("Porto", "_Porto_"),
        TEXT.replace("# Kelva: funding", "**KELVA: FUNDING**\n\n---"),
        TEXT.replace("# Kelva: funding", "Kelva: funding\n=============="),
        TEXT.replace(". It", ".\n- It")
        .replace(". The", ".\n- The")
        .replace("Kelva closed", "- Kelva closed"),
        TEXT.replace(". It", ".\n2. It").replace("Kelva closed", "1. Kelva closed"),
        TEXT.replace(" ", "\u00a0"),
        TEXT.replace("-", "\u2014").replace("'", "\u2019"),
        TEXT.replace("1,200", "１，２００"),
        TEXT.replace("Duero Capital", "“Duero Capital”"),
        TEXT.replace(" ", "\n"),
        TEXT.replace("\n", "\r\n"),
        TEXT.replace("Duero Capital", "[Duero Capital](https://duero.example/2024/77)"),
        TEXT + "\n\n<!-- edited 2025 -->",
        TEXT + " https://kelva.example/news/2025/01/7",
        "> " + TEXT.replace("\n", "\n> "),
        TEXT.replace("Porto", "Porto\u200b").replace("October", "Oct\u00adober"),
    ],
)
def test_a_change_of_format_is_no_change(edited: str) -> None:
    assert edited != TEXT
    assert _found(TEXT, edited) == []


def test_what_only_moved_is_no_change() -> None:
    one = "Revenue is EUR 5 million. Staff is 40 people. The plant is in Porto."
    other = "The plant is in Porto. Staff is 40 people. Revenue is EUR 5 million."
    assert _found(one, other) == []
    assert _found("- 2024: 5 sites\n- 2025: 6 sites", "- 2025: 6 sites\n- 2024: 5 sites") == []


def test_values_that_changed_places_within_a_sentence_are_changes() -> None:
    one = "EUR 5 million in 2024 and EUR 6 million in 2025"
    other = "EUR 6 million in 2024 and EUR 5 million in 2025"
    assert _found(one, other) == [
        ("amount", "EUR 5 million", "EUR 6 million"),
        ("amount", "EUR 6 million", "EUR 5 million"),
    ]


def test_what_one_text_lacks_has_an_empty_side() -> None:
    one = "Kelva hired a new chief of sales."
    assert _found(one, one + " It now has 40 people.") == [("number", "", "40")]
    assert _found(one + " It now has 40 people.", one) == [("number", "40", "")]
    assert _found(one, one + " She came from Halden Electric.") == [("name", "", "Halden Electric")]


def test_values_find_each_other_in_another_wording() -> None:
    one = "The programme cuts 310 jobs, 14 percent of the staff, and saves EUR 49 million a year."
    other = "Savings of EUR 34 million a year are planned: 22 percent of the staff, or 190 jobs, will go."
    assert sorted(_found(one, other)) == [
        ("amount", "EUR 49 million", "EUR 34 million"),
        ("number", "14 percent", "22 percent"),
        ("number", "310", "190"),
    ]


def test_values_are_compared_across_languages_and_names_left_alone() -> None:
    one = "Das Werk in München kostet 12 Mio. Euro und wird am 16. Oktober 2026 fertig."
    other = "The plant in Munich costs EUR 15 million and will be ready on 16 October 2026."
    assert _found(one, other) == [("amount", "12 Mio. Euro", "EUR 15 million")]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Der Umsatz ist im Jahr gestiegen", "Der Gewinn ist im Jahr gestiegen"),
        ("The company grew and the board agreed", "The business grew and the board agreed"),
        ("Customers wait for the product", "Clients wait for the product"),
        ("12 out of 20 customers of the firm", "12 of 20 customers of the firm"),
        ("European markets and the plant", "The plant and Europe as a market"),
        ("likes pilots", "dislikes pilots"),
    ],
)
def test_other_words_are_neither_figures_nor_names(one: str, other: str) -> None:
    assert _found(one, other) == []


def test_an_inflected_name_is_the_same_name() -> None:
    one = "Prezesem jest Jan Kowalski, a firma jest w Polsce."
    other = "Firma jest w Polsce i nie ma już Jana Kowalskiego."
    assert _found(one, other) == []


def test_a_value_that_a_line_end_parts_is_still_one_value() -> None:
    assert (
        _found(
            "ready on 16 October 2026 for EUR 12 million", "ready on 16\nOctober 2026 for EUR\n12\nmillion"
        )
        == []
    )


def test_swapping_the_texts_swaps_the_sides() -> None:
    one = "Kelva has 40 people in Porto, EUR 5 million in 2024 and a plan."
    other = "Kelva has 45 people in Braga, a plan, and 12 sites."
    swapped = [(kind, after, before) for kind, before, after in _found(other, one)]
    assert swapped == _found(one, other)


def test_at_most_fifty_changes_are_listed() -> None:
    one = ". ".join(f"Site number{letter} has {n} rooms" for n, letter in enumerate("abcdefghij" * 8, 10))
    other = ". ".join(f"Site number{letter} has {n} rooms" for n, letter in enumerate("abcdefghij" * 8, 500))
    assert len(changes(one, other)) == MAX_CHANGES == 50


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1" * 10_240, "2" * 10_240),
        ("1 " * 5_120, "2 " * 5_120),
        ("1," * 5_120, "1." * 5_120),
        ("<!--" * 2_560, "<" * 10_240),
        ("a@" * 5_120, "@" * 10_240),
        ("](" * 5_120, "[(" * 5_120),
        ("Ab de " * 1_700, "De la " * 1_700),
        ("16.10.2026 " * 930, "10/17/2026 " * 930),
        ("x" * 10_240, "y" * 10_240),
        ("*" * 10_240, "_" * 10_240),
        (" " * 10_239 + "a", "\n" * 10_239 + "b"),
    ],
)
def test_no_text_of_ten_kilobytes_costs_out_of_proportion(one: str, other: str) -> None:
    """Measured at six times an ordinary note of the same length; a quadratic step would cost hundreds."""

    def cost(before: str, after: str) -> float:
        started = time.perf_counter()
        changes(before, after)
        return time.perf_counter() - started

    sentence = "Kelva raised 12 million euros on 3 May 2026 and hired Ana Brandvold as head of sales. "
    ordinary = min(cost(sentence * 119, sentence.replace("12", "21") * 119) for _ in range(3))
    assert min(cost(one, other) for _ in range(2)) < 60 * ordinary
