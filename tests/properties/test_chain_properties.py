"""Whatever is done to a chain, it is found at the first receipt that is not the one written there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from memory_core.formats.chain import GENESIS, link, read_exported, verify
from memory_core.model import Receipt

STEADY = settings(deadline=None, derandomize=True)
# What receipts hold: whole numbers that RFC 8785 can write, texts, lists and objects of these.
_LEAVES = st.booleans() | st.none() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=8)
VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.text(min_size=1, max_size=6).filter(lambda name: name not in ("seq", "prev_hash", "hash"))
BODIES = st.dictionaries(NAMES, VALUES, max_size=4)
CHAINS = st.lists(BODIES, min_size=1, max_size=8)


def chain_of(bodies: Sequence[dict[str, Any]]) -> list[Receipt]:
    receipts: list[Receipt] = []
    head = GENESIS
    for seq, body in enumerate(bodies, 1):
        receipts.append(link(body, seq, head))
        head = receipts[-1].hash
    return receipts


def first_difference(one: Sequence[Receipt], other: Sequence[Receipt]) -> int:
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if not same(a, b)), min(len(one), len(other)))


def same(one: Receipt, other: Receipt) -> bool:
    # Compared as text, because 1 == True.
    return (one.seq, one.hash, json.dumps(one.body, sort_keys=True)) == (
        other.seq,
        other.hash,
        json.dumps(other.body, sort_keys=True),
    )


@STEADY
@given(CHAINS, st.data())
def test_a_chain_holds_in_memory_and_exported_up_to_any_of_its_heads(
    bodies: list[dict[str, Any]], data: st.DataObject
) -> None:
    receipts = chain_of(bodies)
    head = data.draw(st.sampled_from([GENESIS, *(receipt.hash for receipt in receipts)]))
    lines = [json.dumps({**receipt.body, "hash": receipt.hash}).encode() for receipt in receipts]
    for verdict in (verify(receipts, head), verify(read_exported(lines), head)):
        assert (verdict.ok, verdict.receipts, verdict.head) == (True, len(receipts), receipts[-1].hash)


@STEADY
@given(CHAINS, st.data())
def test_an_alteration_of_any_member_is_named_in_its_place(
    bodies: list[dict[str, Any]], data: st.DataObject
) -> None:
    receipts = chain_of(bodies)
    place = data.draw(st.integers(0, len(receipts) - 1))
    body = dict(receipts[place].body)
    name = data.draw(st.sampled_from(sorted(body)) | NAMES)
    if name in body and data.draw(st.booleans()):
        del body[name]
    else:
        body[name] = data.draw(VALUES)
    tampered = [*receipts]
    tampered[place] = replace(receipts[place], body=body)
    assume(not same(tampered[place], receipts[place]))
    verdict = verify(tampered)
    assert (verdict.ok, verdict.broken_seq) == (False, place + 1)


@STEADY
@given(CHAINS, st.data())
def test_removing_moving_and_repeating_receipts_is_named_at_the_first_one_out_of_place(
    bodies: list[dict[str, Any]], data: st.DataObject
) -> None:
    receipts = chain_of(bodies)
    tampered = data.draw(st.lists(st.sampled_from(receipts), max_size=len(receipts) + 2))
    place = first_difference(tampered, receipts)
    verdict = verify(tampered, receipts[-1].hash)
    if [receipt.seq for receipt in tampered] == list(range(1, len(receipts) + 1)):
        assert verdict.ok
    else:
        # Without a difference but in length, the tail was cut: only the saved head shows it.
        assert (verdict.ok, verdict.broken_seq) == (False, place + 1)


@STEADY
@given(CHAINS, BODIES, st.data())
def test_a_forged_receipt_linked_in_is_noticed_by_the_one_behind_it(
    bodies: list[dict[str, Any]], forged: dict[str, Any], data: st.DataObject
) -> None:
    receipts = chain_of(bodies)
    place = data.draw(st.integers(0, len(receipts) - 1))
    before = receipts[place].body["prev_hash"]
    planted = link(forged, place + 1, before)
    assume(planted.hash != receipts[place].hash)
    replaced = [*receipts[:place], planted, *receipts[place + 1 :]]
    inserted = [*receipts[:place], planted, *receipts[place:]]
    for tampered in (replaced, inserted):
        verdict = verify(tampered, receipts[-1].hash)
        assert not verdict.ok
        assert verdict.broken_seq == place + 2


@STEADY
@given(CHAINS, BODIES, st.data())
def test_a_chain_rewritten_from_a_forged_receipt_on_is_noticed_against_a_saved_head(
    bodies: list[dict[str, Any]], forged: dict[str, Any], data: st.DataObject
) -> None:
    receipts = chain_of(bodies)
    place = data.draw(st.integers(0, len(receipts) - 1))
    rewritten = chain_of([*bodies[:place], forged, *bodies[place + 1 :]])
    assume(rewritten[place].hash != receipts[place].hash)
    assert verify(rewritten).ok
    for saved in receipts[place:]:
        assert not verify(rewritten, saved.hash).ok
    for saved in receipts[:place]:
        assert verify(rewritten, saved.hash).ok


@STEADY
@given(CHAINS, st.data())
def test_a_cut_tail_is_noticed_against_every_head_that_was_in_it(
    bodies: list[dict[str, Any]], data: st.DataObject
) -> None:
    receipts = chain_of(bodies)
    left = data.draw(st.integers(0, len(receipts) - 1))
    for saved in receipts[left:]:
        verdict = verify(receipts[:left], saved.hash)
        assert (verdict.ok, verdict.broken_seq) == (False, left + 1)


@STEADY
@given(CHAINS, st.lists(st.binary(max_size=30), min_size=1, max_size=3), st.data())
def test_lines_that_are_no_receipts_are_named_and_stop_no_verification(
    bodies: list[dict[str, Any]], junk: list[bytes], data: st.DataObject
) -> None:
    receipts = chain_of(bodies)
    lines = [json.dumps({**receipt.body, "hash": receipt.hash}).encode() for receipt in receipts]
    place = data.draw(st.integers(0, len(lines)))
    lines[place:place] = junk
    verdict = verify(read_exported(lines))
    assert (verdict.ok, verdict.broken_seq) == (False, place + 1)
