"""The hash chain of receipts: linking one, and verifying many step by step.

A receipt's hash is SHA-256 over the RFC 8785 form of everything else in it, `prev_hash` included, so a receipt
altered, removed, inserted or moved is found at the first place that does not hold. A chain alone cannot show that
its tail was cut: for that a head saved elsewhere is compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

from memory_core.formats.canonical import canonical
from memory_core.model import ChainVerdict, Receipt

GENESIS = "0" * 64


def link(body: Mapping[str, Any], seq: int, prev_hash: str) -> Receipt:
    """Give the receipt that follows `prev_hash`. `body` holds ints, strings, lists and objects of these only."""
    linked = {**body, "seq": seq, "prev_hash": prev_hash}
    text = canonical(linked)
    return Receipt(seq=seq, hash=_hash(text), body=linked, text=text)


def verify(receipts: Iterable[Receipt], saved_head: str | None = None) -> ChainVerdict:
    """Verify a whole chain, oldest first, in one pass and constant memory.

    For each receipt: 1. its place in the chain, 2. its link to the one before, 3. its own hash. Last,
    4. the head against `saved_head` (a hash kept elsewhere), which must occur in the chain.
    """
    prev_hash, count = GENESIS, 0
    head_seen = saved_head is None or saved_head == GENESIS
    for receipt in receipts:
        expected_seq = count + 1
        body_seq = receipt.body.get("seq")
        # 1. Its place.
        if receipt.seq != expected_seq or body_seq != receipt.seq:
            return _broken(count, prev_hash, expected_seq, "a receipt is missing, inserted or out of order")
        # 2. Its link.
        if receipt.body.get("prev_hash") != prev_hash:
            return _broken(count, prev_hash, expected_seq, "the link to the receipt before does not hold")
        # 3. Its own hash.
        if not _holds(receipt):
            return _broken(count, prev_hash, expected_seq, "the receipt was altered")
        prev_hash, count = receipt.hash, expected_seq
        head_seen = head_seen or receipt.hash == saved_head
    # 4. The saved head.
    if not head_seen:
        return _broken(
            count, prev_hash, count + 1, "the saved head is not in the chain: it was cut or rewritten"
        )
    return ChainVerdict(ok=True, receipts=count, head=prev_hash)


def read_exported(lines: Iterable[bytes]) -> Iterator[Receipt]:
    """Read a chain exported as JSON Lines; a line that is no receipt becomes one that cannot hold."""
    for line in lines:
        try:
            body = json.loads(line)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            body = {}
        seq, hashed = body.get("seq"), body.pop("hash", "")
        yield Receipt(seq=seq if isinstance(seq, int) else 0, hash=str(hashed), body=body)


def cut(verdict: ChainVerdict) -> ChainVerdict:
    """Give the verdict on a chain that holds but ends elsewhere than its head says: its tail was cut."""
    return _broken(verdict.receipts, verdict.head, verdict.receipts + 1, "the chain was cut at its end")


def _broken(count: int, head: str, seq: int, problem: str) -> ChainVerdict:
    return ChainVerdict(ok=False, receipts=count, head=head, broken_seq=seq, problem=problem)


def _holds(receipt: Receipt) -> bool:
    try:
        return _hash(canonical(receipt.body)) == receipt.hash
    except (ValueError, RecursionError):
        # A value that RFC 8785 cannot write was never hashed: it was put there later.
        return False


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()
