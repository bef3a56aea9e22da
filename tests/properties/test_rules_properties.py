"""What holds for every input of the pure rules."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Callable
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memory_core.errors import Kind, MemoryCoreError
from memory_core.rules.domains import address_and_domain, registrable_domain
from memory_core.rules.overlap import MAX_CHANGES, changes
from memory_core.rules.ranking import by_focus, by_relevance, fit
from memory_core.rules.urls import canonical_url

LABEL = st.text(string.ascii_letters + string.digits + "äößłń", min_size=1, max_size=12)
HOST = st.builds(lambda labels, suffix: ".".join([*labels, suffix]), st.lists(LABEL, min_size=1, max_size=3),
                 st.sampled_from(["example", "co.uk", "github.io", "de", "com.br"]))  # fmt: skip
PATH = st.text(string.printable.strip() + "ä%é.~", max_size=40).map(lambda text: text.replace("\\", ""))
URL = st.builds(
    lambda scheme, host, port, path: f"{scheme}://{host}{port}/{path}",
    st.sampled_from(["http", "https", "HTTPS"]),
    HOST,
    st.sampled_from(["", ":80", ":443", ":8080", "."]),
    PATH,
)
_WORDS = """12 1,200 1.200 EUR million Mio. Euro € $12m 16 October 2026 2026-10-16 16.10.2026 Q3 % percent Prozent
    Porto Braga Tomás Herrera in the and der die und le la el de w z o a . ; : - ** # Kelva GmbH v2.1.3 five fünf cinq
    5G r. d'euros mil millones Oktober octobre de października CO2 14:30 -5 1st 3. Quartal"""
PIECES = st.sampled_from([*_WORDS.split(), "\n", "\n- ", "\n1. "])
NOTE = st.one_of(st.lists(PIECES, max_size=40).map(" ".join), st.text(max_size=60))


def _refusal(call: Callable[[str], object], text: str) -> MemoryCoreError | None:
    try:
        call(text)
    except MemoryCoreError as refusal:
        return refusal
    return None


@given(URL)
def test_a_canonical_url_is_its_own_canonical_form(url: str) -> None:
    try:
        key = canonical_url(url)
    except MemoryCoreError:
        return
    assert canonical_url(f"https://{key}") == key
    assert canonical_url(f"http://www.{key}#fragment") == key
    assert key.isascii()


@given(st.text(max_size=80))
def test_any_text_is_a_canonical_url_or_refused_by_a_rule(text: str) -> None:
    for url in (text, "https://" + text):
        refusal = _refusal(canonical_url, url)
        assert refusal is None or (refusal.kind is Kind.INVALID and refusal.details["rule"])


@given(HOST)
def test_a_registrable_domain_is_its_own_and_has_no_case(host: str) -> None:
    try:
        domain = registrable_domain(host)
    except MemoryCoreError:
        return
    assert registrable_domain(domain) == domain
    assert registrable_domain(f"https://www.{host}/x") == registrable_domain(f"{host}.") == domain
    if "ß" not in host:
        # Upper case turns the sharp s into two letters, which is another name.
        assert registrable_domain(host.upper()) == domain
    assert domain == domain.lower()
    assert domain.isascii()


@given(st.text(max_size=80))
def test_any_text_is_a_domain_or_refused_by_a_rule(text: str) -> None:
    for given_text in (text, f"jo@{text}", f"https://{text}"):
        refusal = _refusal(address_and_domain, given_text)
        if refusal is not None:
            assert refusal.details["field"] == "domain"
            continue
        address, domain = address_and_domain(given_text)
        assert "." in domain
        assert address is None or address.endswith(domain)
        assert registrable_domain(domain) == domain


@given(NOTE)
def test_a_text_has_no_changes_against_itself(text: str) -> None:
    assert changes(text, text) == ()
    assert changes(text, text.replace(" ", "  ")) == ()


@given(NOTE, NOTE)
def test_swapping_two_texts_swaps_the_sides_of_every_change(one: str, other: str) -> None:
    found = Counter((change.kind, change.before, change.after) for change in changes(one, other))
    swapped = Counter((change.kind, change.after, change.before) for change in changes(other, one))
    assert found == swapped
    assert sum(found.values()) <= MAX_CHANGES
    assert all(before or after for _, before, after in found)


@given(NOTE)
def test_the_order_of_lines_is_no_change(text: str) -> None:
    lines = text.split("\n")
    lines = [line + " ." for line in lines]
    assert changes("\n\n".join(lines), "\n\n".join(lines[::-1])) == ()


@given(st.lists(st.integers(0, 500), max_size=30), st.integers(-10, 2_000), st.randoms())
def test_what_fits_is_never_over_the_budget_and_nothing_left_out_would_fit(
    sizes: list[int], budget: int, random: Random
) -> None:
    order = list(range(len(sizes)))
    random.shuffle(order)
    kept = fit(sizes, order, budget)
    total = sum(sizes[index] for index in kept)
    assert total <= max(budget, 0)
    assert len(set(kept)) == len(kept)
    assert all(total + size > budget for index, size in enumerate(sizes) if index not in kept)


@given(st.lists(st.one_of(st.none(), st.lists(st.integers(-3, 3), min_size=3, max_size=3)), max_size=20))
def test_every_ranking_is_an_order_of_all_notes_with_the_unembedded_last(
    rows: list[list[int] | None],
) -> None:
    vectors = [None if row is None else np.array(row, dtype=np.float32) for row in rows]
    without = [index for index, vector in enumerate(vectors) if vector is None]
    for order in (by_relevance(vectors), by_focus(vectors, np.array([1, 0, 0], dtype=np.float32))):
        assert sorted(order) == list(range(len(vectors)))
        assert order[len(order) - len(without) :] == without
