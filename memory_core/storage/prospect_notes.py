"""Notes of the prospect memory and what belongs to them: compactions, deletions, the day's saves, repeated requests.

Everything a person wrote is sealed; a domain is found by its keyed hash, an exact repeat by a keyed hash of the folded
note.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Row, Select, bindparam, delete, func, insert, select, update

from memory_core.model import Actor, Draft, Embedding, ListedNote, ObservedAt, ProspectNote, SourceUrl
from memory_core.rules.overlap import fold_for_repeat
from memory_core.storage.ledger import actor_json
from memory_core.storage.schema import (
    compactions,
    daily_saves,
    deleted_notes,
    idempotency_keys,
    prospect_notes,
)
from memory_core.storage.session import Unit

_TABLE = "prospect_notes"
_PAGE_HASH_BYTES = 16
_VECTOR_TYPE = np.dtype("<f4")


class Neighbour(NamedTuple):
    """What a comparison needs of another note, without opening its text; `pages` are keyed hashes.

    A named tuple with the vector's bytes as they are, since a save reads fifty: `vectors` makes one matrix of them.
    """

    note_id: str
    repeat_hash: str
    model: str | None
    plain_vector: bytes | None
    pages: tuple[bytes, ...]


# -- statements -----------------------------------------------------------------------------------

# Built once: to build a statement costs five times what it costs to run it (73 against 14 us).
_COLUMNS = prospect_notes.c
_ORDER = (_COLUMNS.observed_at.desc(), _COLUMNS.created_at.desc(), _COLUMNS.note_id.desc())


def _of_dossier(query: Select[Any]) -> Select[Any]:
    return query.select_from(prospect_notes).where(
        _COLUMNS.space_id == bindparam("in_space"),
        _COLUMNS.domain_hash == bindparam("hashed"),
        _COLUMNS.status == "active",
    )


def _dossier(unit: Unit, hashed: str) -> dict[str, str]:
    return {"in_space": unit.space_id, "hashed": hashed}


_COUNT = _of_dossier(select(func.count()))
_IDS = _of_dossier(select(_COLUMNS.note_id))
_NOTES = _of_dossier(select(prospect_notes)).order_by(*_ORDER)
_NEIGHBOURS = _of_dossier(
    select(
        _COLUMNS.note_id,
        _COLUMNS.repeat_hash,
        _COLUMNS.sealed_embedding,
        _COLUMNS.embedding_model,
        _COLUMNS.page_hashes,
    )
).order_by(*_ORDER)
_REPEAT = _IDS.where(_COLUMNS.repeat_hash == bindparam("repeat_hash")).limit(1)
_BY_IDS = select(prospect_notes).where(
    _COLUMNS.space_id == bindparam("in_space"), _COLUMNS.note_id.in_(bindparam("note_ids", expanding=True))
)
_LISTED = select(_COLUMNS.note_id, _COLUMNS.sealed_title, _COLUMNS.observed_text, _COLUMNS.sealed_body).where(
    _COLUMNS.space_id == bindparam("in_space"), _COLUMNS.note_id == bindparam("note_id")
)
_ADD = insert(prospect_notes)
_TAKE_SAVE = (
    update(daily_saves)
    .where(
        daily_saves.c.space_id == bindparam("in_space"),
        daily_saves.c.starts_at == bindparam("day"),
        daily_saves.c.saves < bindparam("limit"),
    )
    .values(saves=daily_saves.c.saves + 1)
)


# -- reading --------------------------------------------------------------------------------------


def domain_hash(unit: Unit, domain: str) -> str:
    return unit.digest("domain", domain)


def page_hash(unit: Unit, canonical: str) -> bytes:
    """Hash a canonical URL under the space's key, so that a shared page is found without opening any note."""
    return bytes.fromhex(unit.digest("page", canonical))[:_PAGE_HASH_BYTES]


def repeat_hash(unit: Unit, note: Draft | ProspectNote) -> str:
    """Hash what makes two notes an exact repeat: folded title and body, canonical URLs in any order, the date."""
    return unit.digest(
        "repeat",
        note.title or "",
        fold_for_repeat(note.body),
        note.observed_at.text.strip(),
        *sorted(source.canonical for source in note.sources),
    )


def count_active(unit: Unit, hashed: str) -> int:
    return unit.connection.scalar(_COUNT, _dossier(unit, hashed)) or 0


def active_ids(unit: Unit, hashed: str) -> list[str]:
    return list(unit.connection.scalars(_IDS, _dossier(unit, hashed)))


def active(unit: Unit, hashed: str) -> list[tuple[ProspectNote, Embedding | None]]:
    """Give a dossier's active notes with their embeddings, newest first by observed_at, then created_at."""
    rows = unit.connection.execute(_NOTES, _dossier(unit, hashed))
    return [
        (_note(unit, row), _embedding(unit, row.note_id, row.embedding_model, row.sealed_embedding))
        for row in rows
    ]


def neighbours(unit: Unit, hashed: str) -> list[Neighbour]:
    """Give what a save compares with: vectors and pages of the dossier's active notes, in recall's order."""
    rows = unit.connection.execute(_NEIGHBOURS, _dossier(unit, hashed))
    return [
        Neighbour(
            note_id=note_id,
            repeat_hash=repeat_hash,
            model=model,
            plain_vector=None if sealed is None else unit.keys.open(_TABLE, note_id, "embedding", sealed),
            pages=tuple(hashes[at : at + _PAGE_HASH_BYTES] for at in range(0, len(hashes), _PAGE_HASH_BYTES)),
        )
        for note_id, repeat_hash, sealed, model, hashes in rows
    ]


def vectors(others: Sequence[Neighbour]) -> NDArray[np.float32]:
    """Give the vectors of neighbours of one model as a matrix of shape (neighbours, dimensions)."""
    plain = b"".join([other.plain_vector or b"" for other in others])
    return np.frombuffer(plain, dtype=_VECTOR_TYPE).reshape(len(others), -1)


def by_ids(unit: Unit, note_ids: Collection[str]) -> dict[str, ProspectNote]:
    """Give those of the notes that the space has, in any status."""
    if not note_ids:
        return {}
    rows = unit.connection.execute(_BY_IDS, {"in_space": unit.space_id, "note_ids": list(note_ids)})
    return {row.note_id: _note(unit, row) for row in rows}


def listed(unit: Unit, note_ids: Iterable[str]) -> dict[str, ListedNote]:
    """Give what an overlap report shows of these notes, each of which the space has."""
    found = {}
    # One by one: a report lists few, and a statement of varying length is compiled again each time.
    for note_id in note_ids:
        row = unit.connection.execute(_LISTED, {"in_space": unit.space_id, "note_id": note_id}).one()
        found[note_id] = ListedNote(
            note_id=note_id,
            title=_title(unit, row),
            observed_at=row.observed_text,
            body=unit.open_text(_TABLE, note_id, "body", row.sealed_body),
        )
    return found


def repeat_of(unit: Unit, hashed: str, repeat_hash: str) -> str | None:
    """Find an active note of the dossier that says exactly the same."""
    found = unit.connection.scalars(_REPEAT, {**_dossier(unit, hashed), "repeat_hash": repeat_hash})
    return cast("str | None", found.first())


def dossiers(unit: Unit) -> list[tuple[str, int, datetime]]:
    """List the space's dossiers: domain, number of active notes, newest observed_at; the newest dossier first."""
    columns = prospect_notes.c
    rows = unit.connection.execute(
        select(
            func.min(columns.note_id).label("note_id"),
            func.count().label("note_count"),
            func.max(columns.observed_at).label("observed_at"),
        )
        .where(columns.space_id == unit.space_id, columns.status == "active")
        .group_by(columns.domain_hash)
        .order_by(func.max(columns.observed_at).desc(), func.min(columns.note_id))
    ).all()
    shown = by_ids(unit, [row.note_id for row in rows])
    return [(shown[row.note_id].domain, row.note_count, row.observed_at) for row in rows]


def every_note(unit: Unit, after: str, limit: int) -> list[ProspectNote]:
    """Give one page of all notes, archived ones too, by note_id, for an export."""
    rows = unit.connection.execute(
        select(prospect_notes)
        .where(prospect_notes.c.space_id == unit.space_id, prospect_notes.c.note_id > after)
        .order_by(prospect_notes.c.note_id)
        .limit(limit)
    ).all()
    notes = [_note(unit, row) for row in rows]
    merged = {
        row.note_id: tuple(row.merged_from)
        for row in unit.connection.execute(
            select(compactions.c.note_id, compactions.c.merged_from).where(
                compactions.c.space_id == unit.space_id,
                compactions.c.note_id.in_([note.note_id for note in notes]),
                compactions.c.undone_at.is_(None),
            )
        )
    }
    return [
        note if note.note_id not in merged else replace(note, merged_from=merged[note.note_id])
        for note in notes
    ]


def to_embed(unit: Unit, model: str, *, others_too: bool, after: str, limit: int) -> list[tuple[str, str]]:
    """Give one page of (note_id, body) that lack an embedding; with `others_too` also those of other models."""
    columns = prospect_notes.c
    lacking = columns.embedding_model.is_(None)
    rows = unit.connection.execute(
        select(columns.note_id, columns.sealed_body)
        .where(
            columns.space_id == unit.space_id,
            columns.note_id > after,
            (lacking | (columns.embedding_model != model)) if others_too else lacking,
        )
        .order_by(columns.note_id)
        .limit(limit)
    )
    return [(row.note_id, unit.open_text(_TABLE, row.note_id, "body", row.sealed_body)) for row in rows]


# -- writing --------------------------------------------------------------------------------------


def add(unit: Unit, note: ProspectNote, hashed: str, repeat_hash: str, embedding: Embedding | None) -> None:
    row = note.note_id
    sources = json.dumps([[source.url, source.canonical] for source in note.sources])
    unit.connection.execute(
        _ADD,
        {
            "space_id": unit.space_id,
            "note_id": row,
            "domain_hash": hashed,
            "repeat_hash": repeat_hash,
            "status": note.status,
            "merged_into": note.merged_into,
            "sealed_domain": unit.seal(_TABLE, row, "domain", note.domain),
            "sealed_title": None if note.title is None else unit.seal(_TABLE, row, "title", note.title),
            "sealed_body": unit.seal(_TABLE, row, "body", note.body),
            "sealed_sources": unit.seal(_TABLE, row, "sources", sources),
            "page_hashes": b"".join(page_hash(unit, source.canonical) for source in note.sources),
            "observed_text": note.observed_at.text,
            "observed_at": note.observed_at.instant,
            "created_at": note.created_at,
            "author": actor_json(note.author),
            **_embedding_columns(unit, row, embedding),
        },
    )


def set_embedding(unit: Unit, note_id: str, embedding: Embedding) -> None:
    """Attach a vector to a note; without effect where the note was deleted meanwhile."""
    unit.connection.execute(
        update(prospect_notes)
        .where(prospect_notes.c.space_id == unit.space_id, prospect_notes.c.note_id == note_id)
        .values(**_embedding_columns(unit, note_id, embedding))
    )


def archive(unit: Unit, note_ids: Sequence[str], merged_into: str | None) -> None:
    _set_status(unit, note_ids, "archived", merged_into)


def restore(unit: Unit, note_ids: Sequence[str]) -> None:
    _set_status(unit, note_ids, "active", None)


def erase(unit: Unit, note_ids: Sequence[str], now: datetime) -> None:
    """Delete notes with all their content; only their ids stay, so that no import brings them back."""
    unit.connection.execute(
        delete(prospect_notes).where(
            prospect_notes.c.space_id == unit.space_id, prospect_notes.c.note_id.in_(list(note_ids))
        )
    )
    unit.connection.execute(
        insert(deleted_notes),
        [{"space_id": unit.space_id, "note_id": note_id, "deleted_at": now} for note_id in note_ids],
    )


def was_erased(unit: Unit, note_id: str) -> bool:
    return (
        unit.connection.scalar(
            select(deleted_notes.c.note_id).where(
                deleted_notes.c.space_id == unit.space_id, deleted_notes.c.note_id == note_id
            )
        )
        is not None
    )


# -- compactions ----------------------------------------------------------------------------------


def add_compaction(unit: Unit, note_id: str, hashed: str, merged_from: Sequence[str], now: datetime) -> None:
    unit.connection.execute(
        insert(compactions).values(
            space_id=unit.space_id,
            note_id=note_id,
            domain_hash=hashed,
            merged_from=list(merged_from),
            created_at=now,
        )
    )


def compaction(unit: Unit, note_id: str) -> tuple[str, tuple[str, ...], bool] | None:
    """Give the compaction that a merged note came of: the dossier's hash, the ids it replaced, whether undone.

    An import knows of a merged note that was deleted before the export by the pointers of its originals alone.
    """
    row = unit.connection.execute(
        select(compactions).where(compactions.c.space_id == unit.space_id, compactions.c.note_id == note_id)
    ).one_or_none()
    if row is not None:
        return row.domain_hash, tuple(row.merged_from), row.undone_at is not None
    originals = unit.connection.execute(
        select(prospect_notes.c.note_id, prospect_notes.c.domain_hash)
        .where(prospect_notes.c.space_id == unit.space_id, prospect_notes.c.merged_into == note_id)
        .order_by(prospect_notes.c.created_at, prospect_notes.c.note_id)
    ).all()
    return (originals[0].domain_hash, tuple(each.note_id for each in originals), False) if originals else None


def mark_undone(unit: Unit, note_id: str, now: datetime) -> None:
    unit.connection.execute(
        update(compactions)
        .where(compactions.c.space_id == unit.space_id, compactions.c.note_id == note_id)
        .values(undone_at=now)
    )


# -- quota and repeated requests ------------------------------------------------------------------


def take_daily_save(unit: Unit, day: datetime, now: datetime, limit: int) -> bool:
    """Count one save of the day that starts at `day`; False where the limit was reached.

    Exact: the row is locked until commit.
    """
    taken = unit.connection.execute(
        _TAKE_SAVE, {"in_space": unit.space_id, "day": day, "limit": limit, "last_at": now}
    )
    if taken.rowcount:
        return True
    exists = unit.connection.scalar(
        select(daily_saves.c.saves).where(
            daily_saves.c.space_id == unit.space_id, daily_saves.c.starts_at == day
        )
    )
    if exists is not None:
        return False
    # Two processes may both come here on PostgreSQL: the primary key lets one in, the other starts again.
    unit.connection.execute(
        insert(daily_saves).values(space_id=unit.space_id, starts_at=day, saves=1, last_at=now)
    )
    return True


def move_daily_saves(unit: Unit, day: datetime) -> None:
    """Count towards the day that starts at `day` what was saved in days of another zone that reach into it.

    Saves before `day` in such a day are counted, too: a space that moves gets no second quota, and may for one day
    get less than a whole one.
    """
    of_it = (daily_saves.c.space_id == unit.space_id, daily_saves.c.last_at >= day)
    row = unit.connection.execute(
        select(
            func.sum(daily_saves.c.saves).label("saves"), func.max(daily_saves.c.last_at).label("last_at")
        ).where(*of_it)
    ).one()
    if row.saves:
        unit.connection.execute(delete(daily_saves).where(*of_it))
        unit.connection.execute(
            insert(daily_saves).values(
                space_id=unit.space_id, starts_at=day, saves=row.saves, last_at=row.last_at
            )
        )


def answered(
    unit: Unit, caller_id: str, operation: str, key_hash: str, now: datetime, kept_hours: int
) -> Any:
    """Give (request_hash, result_id) of an earlier success under this idempotency key; None where there is none."""
    columns = idempotency_keys.c
    unit.connection.execute(
        delete(idempotency_keys).where(
            columns.space_id == unit.space_id, columns.created_at < now - timedelta(hours=kept_hours)
        )
    )
    return unit.connection.execute(
        select(columns.request_hash, columns.result_id).where(
            columns.space_id == unit.space_id,
            columns.caller_id == caller_id,
            columns.operation == operation,
            columns.key_hash == key_hash,
        )
    ).one_or_none()


def keep_answer(
    unit: Unit,
    caller_id: str,
    operation: str,
    key_hash: str,
    request_hash: str,
    result_id: str,
    now: datetime,
) -> None:
    unit.connection.execute(
        insert(idempotency_keys).values(
            space_id=unit.space_id,
            caller_id=caller_id,
            operation=operation,
            key_hash=key_hash,
            request_hash=request_hash,
            result_id=result_id,
            created_at=now,
        )
    )


# -- rows and nouns -------------------------------------------------------------------------------


def _set_status(unit: Unit, note_ids: Sequence[str], status: str, merged_into: str | None) -> None:
    unit.connection.execute(
        update(prospect_notes)
        .where(prospect_notes.c.space_id == unit.space_id, prospect_notes.c.note_id.in_(list(note_ids)))
        .values(status=status, merged_into=merged_into)
    )


def _embedding_columns(unit: Unit, row: str, embedding: Embedding | None) -> dict[str, Any]:
    if embedding is None:
        return {"sealed_embedding": None, "embedding_model": None}
    plain = embedding.vector.astype(_VECTOR_TYPE).tobytes()
    return {
        "sealed_embedding": unit.seal(_TABLE, row, "embedding", plain),
        "embedding_model": embedding.model,
    }


def _embedding(unit: Unit, note_id: str, model: str | None, sealed: bytes | None) -> Embedding | None:
    if sealed is None or model is None:
        return None
    plain = unit.keys.open(_TABLE, note_id, "embedding", sealed)
    return Embedding(model=model, vector=np.frombuffer(plain, dtype=_VECTOR_TYPE))


def _sources(unit: Unit, row: Row[Any]) -> list[tuple[str, str]]:
    """Give the cited pages as (URL as given, canonical URL)."""
    pairs: list[tuple[str, str]] = json.loads(
        unit.open_text(_TABLE, row.note_id, "sources", row.sealed_sources)
    )
    return pairs


def _title(unit: Unit, row: Any) -> str | None:
    sealed = row.sealed_title
    return None if sealed is None else unit.open_text(_TABLE, row.note_id, "title", sealed)


def _note(unit: Unit, row: Row[Any]) -> ProspectNote:
    return ProspectNote(
        note_id=row.note_id,
        domain=unit.open_text(_TABLE, row.note_id, "domain", row.sealed_domain),
        title=_title(unit, row),
        body=unit.open_text(_TABLE, row.note_id, "body", row.sealed_body),
        sources=tuple(SourceUrl(url=url, canonical=canonical) for url, canonical in _sources(unit, row)),
        observed_at=ObservedAt(text=row.observed_text, instant=row.observed_at),
        created_at=row.created_at,
        author=Actor(**row.author),
        status=row.status,
        merged_into=row.merged_into,
    )
