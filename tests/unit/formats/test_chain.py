"""A chain of receipts names the first one that does not hold, whatever was done to it."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from memory_core.formats.chain import GENESIS, cut, link, read_exported, verify
from memory_core.model import Receipt


def chain_of(count: int, salt: str = "") -> list[Receipt]:
    receipts: list[Receipt] = []
    head = GENESIS
    for number in range(1, count + 1):
        receipts.append(link({"operation": f"save{salt}", "counts": {"note_count": number}}, number, head))
        head = receipts[-1].hash
    return receipts


def altered(receipt: Receipt, **changes: Any) -> Receipt:
    return replace(receipt, body={**receipt.body, **changes})


def exported(receipts: list[Receipt]) -> list[bytes]:
    return [json.dumps({**receipt.body, "hash": receipt.hash}).encode() + b"\n" for receipt in receipts]


def broken_at(receipts: list[Receipt], saved_head: str | None = None) -> tuple[int | None, str]:
    verdict = verify(receipts, saved_head)
    assert not verdict.ok
    assert verdict.problem
    return verdict.broken_seq, verdict.problem


def test_an_empty_chain_holds_and_its_head_is_64_zeros() -> None:
    verdict = verify([])
    assert (verdict.ok, verdict.receipts, verdict.head) == (True, 0, "0" * 64)


def test_an_untouched_chain_holds_to_its_last_hash() -> None:
    receipts = chain_of(5)
    verdict = verify(receipts)
    assert (verdict.ok, verdict.receipts, verdict.head) == (True, 5, receipts[-1].hash)
    assert (verdict.broken_seq, verdict.problem) == (None, None)


def test_the_first_receipt_links_to_64_zeros_and_each_to_the_one_before() -> None:
    receipts = chain_of(3)
    assert receipts[0].body["prev_hash"] == "0" * 64
    assert [receipt.body["prev_hash"] for receipt in receipts[1:]] == [
        receipt.hash for receipt in receipts[:-1]
    ]
    assert [receipt.body["seq"] for receipt in receipts] == [1, 2, 3]


def test_a_hash_does_not_depend_on_the_order_of_members() -> None:
    assert link({"a": 1, "b": 2}, 1, GENESIS).hash == link({"b": 2, "a": 1}, 1, GENESIS).hash


def test_a_hash_is_sha256_of_the_canonical_form_of_everything_else_in_the_receipt() -> None:
    written = '{"counts":{"note_count":1},"operation":"save","prev_hash":"' + "0" * 64 + '","seq":1}'
    assert chain_of(1)[0].hash == sha256(written.encode()).hexdigest()


@pytest.mark.parametrize("position", [0, 2, 4])
def test_an_altered_receipt_is_named(position: int) -> None:
    receipts = chain_of(5)
    receipts[position] = altered(receipts[position], operation="delete")
    seq, problem = broken_at(receipts)
    assert seq == position + 1
    assert "altered" in problem


@pytest.mark.parametrize("changes", [{"added": 1}, {"counts": {}}, {"counts": {"note_count": "3"}}])
def test_a_member_added_removed_or_retyped_is_an_alteration(changes: dict[str, Any]) -> None:
    receipts = chain_of(3)
    receipts[2] = altered(receipts[2], **changes)
    assert broken_at(receipts)[0] == 3


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**60, "\ud800", 1.5])
def test_a_value_that_no_receipt_can_hold_is_named_and_stops_no_verification(value: Any) -> None:
    receipts = chain_of(3)
    receipts[1] = altered(receipts[1], counts={"note_count": value})
    assert broken_at(receipts)[0] == 2


def test_an_altered_hash_is_named() -> None:
    receipts = chain_of(3)
    receipts[1] = replace(receipts[1], hash="f" * 64)
    assert broken_at(receipts)[0] == 2


@pytest.mark.parametrize("position", [0, 1, 3])
def test_a_removed_receipt_is_noticed_in_its_place(position: int) -> None:
    receipts = chain_of(5)
    del receipts[position]
    assert broken_at(receipts)[0] == position + 1


def test_a_removed_receipt_is_noticed_also_where_the_rest_was_numbered_anew() -> None:
    receipts = chain_of(4)
    del receipts[1]
    receipts[1:] = [
        replace(receipt, seq=seq, body={**receipt.body, "seq": seq})
        for seq, receipt in enumerate(receipts[1:], 2)
    ]
    assert broken_at(receipts)[0] == 2


def test_an_inserted_receipt_is_noticed() -> None:
    receipts = chain_of(4)
    receipts.insert(2, link({"operation": "save"}, 3, receipts[1].hash))
    seq, problem = broken_at(receipts)
    # The forged one fits its place; the true third one then stands where the fourth belongs.
    assert seq == 4
    assert "inserted" in problem


def test_two_receipts_that_changed_places_are_noticed() -> None:
    receipts = chain_of(4)
    receipts[1], receipts[2] = receipts[2], receipts[1]
    assert broken_at(receipts)[0] == 2


def test_a_receipt_of_another_chain_does_not_fit() -> None:
    receipts, others = chain_of(4), chain_of(4, "d")
    receipts[2] = others[2]
    seq, problem = broken_at(receipts)
    assert seq == 3
    assert "link" in problem


def test_a_row_number_that_differs_from_the_body_is_noticed() -> None:
    receipts = chain_of(3)
    receipts[1] = replace(receipts[1], body={**receipts[1].body, "seq": 3})
    assert broken_at(receipts)[0] == 2


def test_a_cut_tail_is_noticed_only_against_a_head_saved_elsewhere() -> None:
    receipts = chain_of(5)
    assert verify(receipts[:3]).ok
    seq, problem = broken_at(receipts[:3], receipts[-1].hash)
    assert seq == 4
    assert "cut" in problem


def test_a_saved_head_stays_good_while_the_chain_grows() -> None:
    receipts = chain_of(5)
    assert verify(receipts, receipts[2].hash).ok
    assert verify(receipts, GENESIS).ok
    assert verify([], GENESIS).ok


def test_a_whole_chain_forged_anew_is_noticed_only_against_a_head_saved_elsewhere() -> None:
    forged = chain_of(5, " forged")
    assert verify(forged).ok
    assert not verify(forged, chain_of(5)[-1].hash).ok


def test_the_verdict_on_a_broken_chain_gives_the_last_head_that_held() -> None:
    receipts = chain_of(5)
    verdict = verify([*receipts[:2], altered(receipts[2], operation="x"), *receipts[3:]])
    assert (verdict.receipts, verdict.head) == (2, receipts[1].hash)


def test_a_chain_that_ends_before_its_head_row_is_called_cut() -> None:
    verdict = cut(verify(chain_of(2)))
    assert (verdict.ok, verdict.broken_seq, verdict.receipts) == (False, 3, 2)


# -- exported -------------------------------------------------------------------------------------


def test_an_exported_chain_verifies_like_the_stored_one() -> None:
    receipts = chain_of(4)
    assert verify(read_exported(exported(receipts))) == verify(receipts)


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"not json\n",
        b"[1]\n",
        b"null\n",
        b"{}\n",
        b"\xff\xfe\n",
        b'{"seq": "2"}\n',
        b'{"seq": true}\n',
        b"[" * 200_000 + b"\n",
    ],
)
def test_a_line_that_is_no_receipt_is_named_by_its_place(line: bytes) -> None:
    lines = exported(chain_of(4))
    lines[1] = line
    verdict = verify(read_exported(lines))
    assert (verdict.ok, verdict.broken_seq) == (False, 2)


@pytest.mark.parametrize("hashed", [None, 7, "", ["x"]])
def test_an_exported_receipt_with_no_hash_does_not_hold(hashed: Any) -> None:
    receipts = chain_of(2)
    lines = exported(receipts)
    lines[1] = json.dumps({**receipts[1].body, "hash": hashed}).encode()
    assert verify(read_exported(lines)).broken_seq == 2


def test_case_085_a_chain_written_out_and_read_back_keeps_its_hashes() -> None:
    body = {
        "at": "2026-11-20T09:30:00.000001Z",
        "ids": {"note_ids": ["a", "é", "\u2028"]},
        "counts": {"n": 0},
    }
    receipt = link(body, 1, GENESIS)
    assert verify(read_exported(exported([receipt])), receipt.hash).ok
