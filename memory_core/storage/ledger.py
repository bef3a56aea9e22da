"""Receipts: appended in the transaction of the act itself, read back for verification, never changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from sqlalchemy import Connection, bindparam, insert, select, update

from memory_core.formats import chain
from memory_core.formats.canonical import moment
from memory_core.model import Actor, Receipt
from memory_core.storage.schema import receipt_heads, receipts
from memory_core.storage.session import Unit

Kind = Literal["prospect_memory", "admin"]
_PAGE = 1_000
_HEAD = select(receipt_heads.c.seq, receipt_heads.c.hash).where(
    receipt_heads.c.space_id == bindparam("in_space")
)
_LOCKED_HEAD = _HEAD.with_for_update()
_ADD = insert(receipts)
_MOVE_HEAD = update(receipt_heads).where(receipt_heads.c.space_id == bindparam("in_space"))


def append(
    unit: Unit,
    actor: Actor,
    kind: Kind,
    operation: str,
    *,
    ids: Mapping[str, str | Sequence[str]] | None = None,
    domain_hash: str | None = None,
    counts: Mapping[str, int] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Receipt:
    """Link one receipt to the space's chain. Call it last in a unit: the head's row is locked from here on.

    `ids`, `counts` and `facts` hold ids, numbers, codes and keyed digests only; never a text and never a value.
    """
    body: dict[str, Any] = {
        "receipt_id": unit.new_id(),
        "space_id": unit.space_id,
        "at": moment(unit.now()),
        "actor": actor_json(actor),
        "kind": kind,
        "operation": operation,
        "ids": {
            name: value if isinstance(value, str) else list(value) for name, value in (ids or {}).items()
        },
        "counts": dict(counts or {}),
    }
    if domain_hash is not None:
        body["domain_hash"] = domain_hash
    if facts:
        body["facts"] = dict(facts)
    head = unit.connection.execute(_LOCKED_HEAD, {"in_space": unit.space_id}).one()
    receipt = chain.link(body, head.seq + 1, head.hash)
    link = {"seq": receipt.seq, "hash": receipt.hash}
    unit.connection.execute(_ADD, {"space_id": unit.space_id, **link, "body": receipt.text})
    unit.connection.execute(_MOVE_HEAD, {"in_space": unit.space_id, **link})
    return receipt


def actor_json(actor: Actor) -> dict[str, str]:
    """Write an actor as receipts and note rows keep it: only what is known of it."""
    fields = {
        "kind": actor.kind,
        "key_id": actor.key_id,
        "source_id": actor.source_id,
        "person_id": actor.person_id,
    }
    return {name: value for name, value in fields.items() if value is not None}


def head(connection: Connection, space_id: str) -> tuple[int, str]:
    """Give the number of receipts and the hash of the last one; a head that is gone counts none."""
    row = connection.execute(_HEAD, {"in_space": space_id}).one_or_none()
    return (0, "") if row is None else (row.seq, row.hash)


def stored(connection: Connection, space_id: str) -> Iterator[Receipt]:
    """Give all receipts of the space, oldest first, a page at a time."""
    after = 0
    while True:
        rows = connection.execute(
            select(receipts.c.seq, receipts.c.hash, receipts.c.body)
            .where(receipts.c.space_id == space_id, receipts.c.seq > after)
            .order_by(receipts.c.seq)
            .limit(_PAGE)
        ).all()
        for row in rows:
            yield Receipt(seq=row.seq, hash=row.hash, body=_parsed(row.body))
        if len(rows) < _PAGE:
            return
        after = rows[-1].seq


def _parsed(body: str) -> dict[str, Any]:
    # A row whose text was altered into something that is no object still has to be named by the verifier.
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}
