"""What the operator moves into and out of the prospect memory: relationship history, exported notes, embeddings.

Rows come in batches, each one transaction with its receipt: what a kill interrupts is taken up by a second run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypeVar

from memory_core.embedding import Embedder, embed, embed_or_none
from memory_core.errors import MemoryCoreError, conflict, invalid
from memory_core.formats.canonical import moment
from memory_core.model import OPERATOR, Actor, Clock, Embedding, Imported, ProspectNote
from memory_core.policy import Policy, in_force
from memory_core.rules import limits
from memory_core.rules.fields import check_fields
from memory_core.rules.relationship import Event, check_event
from memory_core.storage import identities, ledger, relationship
from memory_core.storage import prospect_notes as notes
from memory_core.storage.session import Store, Unit

T = TypeVar("T")
Row = tuple[int, Mapping[str, Any] | MemoryCoreError]
_KIND: Final = "prospect_memory"
_BATCH = 100
_PAGE = 200


@dataclass(frozen=True, slots=True)
class Transfers:
    """The operator's imports, exports and embedding runs."""

    store: Store
    embedder: Embedder
    now: Clock

    def import_relationship(self, space_id: str, rows: Iterable[Row]) -> Imported:
        """Add relationship events in batches, each one transaction; what is there already changes nothing."""
        policy = self.store.read(space_id, _policy)
        total = written = 0
        refused: list[dict[str, Any]] = []
        notices: list[dict[str, Any]] = []
        for batch in _batches(rows):
            events: list[Event] = []
            for line, row in batch:
                total += 1
                try:
                    event, found = check_event(_row(row), policy, self.now())
                except MemoryCoreError as error:
                    refused.append(_refused(line, error))
                    continue
                events.append(event)
                notices += [{"line": line, "field": each.field, "rule": each.rule} for each in found]

            def act(unit: Unit, events: list[Event] = events) -> int:
                new = relationship.add_events(unit, events)
                if new:
                    counts = {"events": new, "repeated": len(events) - new}
                    ledger.append(unit, OPERATOR, _KIND, "import_relationship", counts=counts)
                return new

            written += self.store.write(space_id, act)
        return Imported(
            rows=total,
            written=written,
            repeated=total - written - len(refused),
            refused=tuple(refused),
            notices=tuple(notices),
        )

    def import_notes(self, space_id: str, rows: Iterable[Row]) -> Imported:
        """Restore exported notes with their ids, dates and archive pointers, through the checks of a save.

        They use none of the day's quota. A second run stores nothing; what was erased since the export is not
        brought back but listed, with rule `erased`.
        """
        policy = self.store.read(space_id, _policy)
        total = written = 0
        refused: list[dict[str, Any]] = []
        for batch in _batches(rows):
            accepted: list[tuple[int, ProspectNote]] = []
            for line, row in batch:
                total += 1
                try:
                    accepted.append((line, _exported(_row(row), policy, self.now())))
                except MemoryCoreError as error:
                    refused.append(_refused(line, error))
            embeddings, _ = embed_or_none(self.embedder, [note.body for _, note in accepted])
            incoming = list(zip(accepted, embeddings, strict=True))

            def act(
                unit: Unit, incoming: list[tuple[tuple[int, ProspectNote], Embedding | None]] = incoming
            ) -> tuple[list[str], list[dict[str, Any]]]:
                stored: list[str] = []
                turned_away: list[dict[str, Any]] = []
                for (line, note), embedding in incoming:
                    try:
                        if _import_note(unit, note, embedding, policy):
                            stored.append(note.note_id)
                    except MemoryCoreError as error:
                        turned_away.append(_refused(line, error))
                if stored:
                    counts = {"notes": len(stored)}
                    ids = {"note_ids": stored}
                    ledger.append(unit, OPERATOR, _KIND, "import_notes", ids=ids, counts=counts)
                return stored, turned_away

            stored, turned_away = self.store.write(space_id, act)
            written += len(stored)
            refused += turned_away
        return Imported(
            rows=total, written=written, repeated=total - written - len(refused), refused=tuple(refused)
        )

    def export_notes(
        self, space_id: str, consume: Callable[[Iterator[dict[str, Any]]], T], source_id: str | None = None
    ) -> T:
        """Hand every note, archived ones too, to `consume`, as of one moment; with `source_id` that source's alone.

        `consume` may be called again on a retry. The receipt is written before it is handed anything.
        """
        ids = {} if source_id is None else {"source_id": source_id}

        def record(unit: Unit) -> None:
            if source_id is not None:
                identities.source(unit, source_id)
            ledger.append(unit, OPERATOR, "admin", "export", ids=ids)

        def rows(unit: Unit) -> Iterator[dict[str, Any]]:
            after = ""
            while page := notes.every_note(unit, after, _PAGE):
                wanted = (note for note in page if source_id in (None, note.author.source_id))
                yield from (_export_row(note) for note in wanted)
                after = page[-1].note_id

        self.store.write(space_id, record)
        return self.store.read(space_id, lambda unit: consume(rows(unit)))

    def embed_notes(
        self, space_id: str, *, others_too: bool, progress: Callable[[int], None] = lambda _: None
    ) -> int:
        """Embed notes that lack a vector; with `others_too` those of other models too. Give how many were embedded.

        Raises `unavailable` where the model is. Each batch is one transaction; a second run takes up the rest.
        """
        model, done, after = self.embedder.model_id, 0, ""
        while True:

            def look(unit: Unit, after: str = after) -> list[tuple[str, str]]:
                return notes.to_embed(unit, model, others_too=others_too, after=after, limit=_BATCH)

            page = self.store.read(space_id, look)
            if not page:
                return done
            vectors = embed(self.embedder, [body for _, body in page])
            made = [(note_id, vector) for (note_id, _), vector in zip(page, vectors, strict=True) if vector]

            def act(unit: Unit, made: list[tuple[str, Embedding]] = made) -> None:
                for note_id, vector in made:
                    notes.set_embedding(unit, note_id, vector)
                if made:
                    counts = {"notes": len(made)}
                    facts = {"model": model}
                    ledger.append(unit, OPERATOR, _KIND, "embed_notes", counts=counts, facts=facts)

            self.store.write(space_id, act)
            done += len(made)
            after = page[-1][0]
            progress(len(page))


def _policy(unit: Unit) -> Policy:
    return in_force(identities.space_and_settings(unit)[1])


def _exported(row: Mapping[str, Any], policy: Policy, now: datetime) -> ProspectNote:
    """Check one row of an export as a save is checked; a merged note may cite more than 20 sources."""
    given = check_fields(
        row,
        required=(*limits.NOTE_FIELDS, "note_id", "created_at", "author", "status"),
        optional=("title", "merged_into", "merged_from"),
    )
    merged_from = given["merged_from"] or []
    if merged_from:
        limits.check_note_ids(merged_from, "merged_from")
    if merged_from or given["status"] == "archived":
        # The limit holds for a save, not for a merge; an archived note may be a merged one that was undone.
        policy = replace(policy, max_source_urls=sys.maxsize)
    draft = limits.check_note(given, policy, now)
    status, merged_into = given["status"], given["merged_into"]
    if status not in ("active", "archived"):
        raise invalid("status", "choice", "active or archived")
    note_id = limits.check_id("note_id", given["note_id"])
    if merged_into is not None and limits.check_id("merged_into", merged_into) == note_id:
        raise invalid("merged_into", "own_id", "must be another note")
    if merged_into is not None and status == "active":
        raise invalid("merged_into", "active", "an active note was not merged into another")
    if note_id in merged_from:
        raise invalid("merged_from", "own_id", "must be other notes")
    author = given["author"]
    if (
        not isinstance(author, dict)
        or not author.keys() <= {"kind", "key_id", "source_id", "person_id"}
        or author.get("kind") not in ("source", "person", "operator")
        or not all(isinstance(value, str) and len(value) <= 36 for value in author.values())
    ):
        raise invalid("author", "type", "kind and ids, as an export writes them")
    created_at = limits.check_observed_at(given["created_at"], policy, now, "created_at")
    return ProspectNote(
        note_id=note_id,
        domain=draft.domain,
        title=draft.title,
        body=draft.body,
        sources=draft.sources,
        observed_at=draft.observed_at,
        created_at=created_at.instant,
        author=Actor(**author),
        status=status,
        merged_into=merged_into,
        merged_from=tuple(merged_from),
    )


def _import_note(unit: Unit, note: ProspectNote, embedding: Embedding | None, policy: Policy) -> bool:
    """Add one exported note; False where the space has it already."""
    hashed = notes.domain_hash(unit, note.domain)
    if notes.was_erased(unit, note.note_id):
        raise conflict(
            "conflict", "the note was erased since the export", rule="erased", note_id=note.note_id
        )
    present = notes.by_ids(unit, [note.note_id]).get(note.note_id)
    if present is not None:
        if (present.domain, present.title, present.body) != (note.domain, note.title, note.body):
            raise conflict("conflict", "another note has this id", note_id=note.note_id)
        return False
    repeat_hash = notes.repeat_hash(unit, note)
    if note.status == "active":
        if notes.repeat_of(unit, hashed, repeat_hash) is not None:
            return False
        limits.check_room(notes.count_active(unit, hashed), policy)
    notes.add(unit, note, hashed, repeat_hash, embedding)
    if note.merged_from:
        notes.add_compaction(unit, note.note_id, hashed, note.merged_from, note.created_at)
    return True


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    for row in rows:
        batch.append(row)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _row(row: Mapping[str, Any] | MemoryCoreError) -> Mapping[str, Any]:
    if isinstance(row, MemoryCoreError):
        raise row
    return row


def _refused(line: int, error: MemoryCoreError) -> dict[str, Any]:
    return {"line": line, "code": error.code, "message": error.message, **error.details}


def _export_row(note: ProspectNote) -> dict[str, Any]:
    return {
        "note_id": note.note_id,
        "domain": note.domain,
        "title": note.title,
        "body": note.body,
        "source_urls": [source.url for source in note.sources],
        "observed_at": note.observed_at.text,
        "created_at": moment(note.created_at),
        "author": ledger.actor_json(note.author),
        "status": note.status,
        "merged_into": note.merged_into,
        "merged_from": list(note.merged_from),
    }
