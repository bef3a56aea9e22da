"""The prospect memory: recall, save, compact, undo, delete, and what the operator imports and exports.

No note is ever refused or merged for being similar, and none is archived but by `compact`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from importlib.resources import files
from typing import Any, Literal, TypeVar
from zoneinfo import ZoneInfo

import numpy as np

from memory_core.admission import Admission, Clock, Credential, NewId
from memory_core.embedding import Embedder
from memory_core.errors import Kind, MemoryCoreError, conflict, invalid, limited, not_found
from memory_core.formats import answers
from memory_core.formats.canonical import moment
from memory_core.model import (
    Actor,
    Compacted,
    Imported,
    NearDuplicate,
    ObservedAt,
    Overlap,
    OverlapPair,
    OverlapReport,
    ProspectNote,
    Recall,
    RecalledNote,
    Relationship,
    Saved,
    SharedSource,
    SourceUrl,
    Undone,
)
from memory_core.policy import LANGUAGES, Policy, in_force
from memory_core.rules import compaction, limits, overlap, ranking
from memory_core.rules.domains import address_and_domain, registrable_domain
from memory_core.rules.fields import check_fields
from memory_core.rules.relationship import Event, check_event
from memory_core.rules.staleness import is_stale
from memory_core.storage import identities, ledger, relationship
from memory_core.storage import prospect_notes as notes
from memory_core.storage.prospect_notes import Embedding, Neighbour
from memory_core.storage.session import Store, Unit

T = TypeVar("T")
Row = tuple[int, Mapping[str, Any] | MemoryCoreError]
_NOTE_FIELDS = ("domain", "body", "source_urls", "observed_at")
_IMPORT_BATCH = 100
_EXPORT_PAGE = 200
_OPERATOR = Actor(kind="operator")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """The checked fields of a note, before it has an id."""

    domain: str
    title: str | None
    body: str
    sources: tuple[SourceUrl, ...]
    observed_at: ObservedAt


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparison:
    """What a save found, by note ids and distances, before any other note's text is opened."""

    near: list[tuple[str, float]]
    overlapping: list[tuple[str, float]]
    shared: list[SharedSource]
    not_compared: int


@dataclass(frozen=True, slots=True)
class Prospects:
    """The use cases of the prospect memory, one method a verb."""

    store: Store
    admission: Admission
    embedder: Embedder
    now: Clock
    new_id: NewId

    # -- recall -----------------------------------------------------------------------------------

    def recall(self, credential: Credential, fields: Mapping[str, Any], *, size_bytes: int = 0) -> Recall:
        """Give the dossier of a company and the relationship with it; unknown companies have an empty one.

        Fields: `domain` (domain, URL or address), `focus?`.

        A focus is embedded before the transaction, which reads, ranks and writes the receipt of what is delivered.
        """
        principal, policy = self.admission.admit(credential, "recall", size_bytes)
        given = check_fields(fields, required=("domain",), optional=("focus",))
        address, domain = address_and_domain(given["domain"])
        focus = limits.check_focus(given["focus"], policy)
        wanted = self._embed_or_none([focus])[0][0] if focus else None

        def act(unit: Unit) -> Recall:
            hashed = notes.domain_hash(unit, domain)
            active = notes.active(unit, hashed)
            recall = self._dossier(
                domain, active, relationship.relationship_of(unit, hashed, address), policy
            )
            recall = _within_payload(recall, [vector for _, vector in active], wanted, policy)
            self._receipt(
                unit,
                principal.actor,
                "recall",
                {"note_ids": [recalled.note.note_id for recalled in recall.notes]},
                hashed,
                {"note_count": recall.note_count, "delivered": len(recall.notes)},
                {"stale": recall.stale, "stop": bool(recall.relationship.stop_reasons)},
            )
            return recall

        return self.store.write(principal.space.space_id, act)

    def _dossier(
        self,
        domain: str,
        active: Sequence[tuple[ProspectNote, Embedding | None]],
        known: Relationship,
        policy: Policy,
    ) -> Recall:
        now = self.now()
        recalled = tuple(
            RecalledNote(note=note, stale=is_stale(note.observed_at, now, policy)) for note, _ in active
        )
        return Recall(
            domain=domain,
            known=bool(active),
            stale=not recalled or recalled[0].stale,
            note_count=len(active),
            dossier_version=compaction.dossier_version(note.note_id for note, _ in active),
            notes=recalled,
            overlap_pairs=_overlap_pairs(active[: policy.max_overlap_pair_notes], policy),
            compaction_suggested=len(active) > policy.compaction_suggested_over,
            truncated=False,
            relationship=known,
        )

    # -- save -------------------------------------------------------------------------------------

    def save(
        self, credential: Credential, fields: Mapping[str, Any], *, size_bytes: int = 0
    ) -> tuple[Saved, Policy]:
        """Store a note and report what in the dossier is like it.

        Fields: `domain`, `body`, `source_urls`, `observed_at`, `title?`, `idempotency_key?`.
        Raises `invalid_input`, `payload_too_large` (body), `conflict` (an idempotency key with another request),
        `daily_limit_reached` or `domain_full`; then nothing was stored.
        """
        principal, policy = self.admission.admit(credential, "save", size_bytes)
        given = check_fields(fields, required=_NOTE_FIELDS, optional=("title", "idempotency_key"))
        draft = self._draft(given, policy)
        idempotency_key = given["idempotency_key"]
        if idempotency_key is not None:
            idempotency_key = limits.check_text(
                "idempotency_key", idempotency_key, policy.max_idempotency_key_chars
            )
        # Embedding comes before the transaction: no lock is ever held while a model works.
        [embedding], embedder = self._embed_or_none([draft.body])

        def act(unit: Unit) -> tuple[ProspectNote, bool, int, _Comparison, dict[str, ProspectNote]]:
            hashed = notes.domain_hash(unit, draft.domain)
            caller = principal.actor.source_id or principal.actor.person_id or ""
            answered = self._answered(unit, caller, idempotency_key, draft, policy)
            # One query serves the exact repeat, the cap and the comparison.
            repeat_hash, active = _repeat_hash(unit, draft), notes.neighbours(unit, hashed)
            repeated = answered or next(
                (other.note_id for other in active if other.repeat_hash == repeat_hash), None
            )
            if repeated is None:
                self._take_daily_save(unit, policy)
                _check_room(len(active), policy)
            others = [other for other in active if other.note_id != repeated]
            found = self._compare(unit, draft.sources, embedding, others, policy)
            if repeated is None:
                note = self._new_note(draft, principal.actor)
                notes.add(unit, note, hashed, repeat_hash, embedding)
                count = len(active) + 1
            else:
                note = notes.by_ids(unit, [repeated])[repeated]
                # An exact repeat is the only near duplicate, so that a retry reads its own note back; one that was
                # merged since is not in the dossier any more.
                found = replace(found, near=[(repeated, 0.0)] if note.status == "active" else [])
                count = len(active)
            if idempotency_key is not None and answered is None:
                self._keep_answer(unit, caller, idempotency_key, draft, note.note_id)
            opened = notes.by_ids(unit, [note_id for note_id, _ in found.near + found.overlapping])
            self._receipt(
                unit,
                principal.actor,
                "save",
                {"note_id": note.note_id},
                hashed,
                {
                    "note_count": count,
                    "near_duplicates": len(found.near),
                    "overlaps": len(found.overlapping),
                    "shared_sources": len(found.shared),
                    "not_compared": found.not_compared,
                },
                {"repeated": repeated is not None, "embedder": embedder},
            )
            return note, repeated is not None, count, found, opened

        note, repeated, count, found, opened = self.store.write(principal.space.space_id, act)
        saved = Saved(
            note=note,
            stale=is_stale(note.observed_at, self.now(), policy),
            note_count=count,
            compaction_suggested=count > policy.compaction_suggested_over,
            repeated=repeated,
            overlap=self._report(draft.body, found, opened, embedder, policy),
        )
        return saved, policy

    # -- compact and undo -------------------------------------------------------------------------

    def compact(self, credential: Credential, fields: Mapping[str, Any], *, size_bytes: int = 0) -> Compacted:
        """Replace two or more active notes of a dossier by one merged note that the caller wrote.

        Fields: `domain`, `note_ids`, `body`, `expected_note_count`, `title?`, `dossier_version?`.
        Looked at in this order: the dossier as the caller saw it (`note_count_changed` with the present values),
        the ids (`not_found`, or `conflict` where one is archived), the body (`payload_too_large`). The first look
        comes before the model works, the second holds in the transaction of the act.
        """
        principal, policy = self.admission.admit(credential, "compact", size_bytes)
        given = check_fields(
            fields,
            required=("domain", "note_ids", "body", "expected_note_count"),
            optional=("title", "dossier_version"),
        )
        domain = registrable_domain(given["domain"])
        ids = limits.check_note_ids(given["note_ids"])
        expected = limits.check_count("expected_note_count", given["expected_note_count"])
        dossier_version = given["dossier_version"]
        if dossier_version is not None:
            dossier_version = limits.check_text("dossier_version", dossier_version, 64)
        space_id = principal.space.space_id

        def check(unit: Unit) -> tuple[str, list[str], list[ProspectNote]]:
            hashed = notes.domain_hash(unit, domain)
            present = notes.active_ids(unit, hashed)
            version = compaction.dossier_version(present)
            if len(present) != expected or dossier_version not in (None, version):
                raise conflict(
                    "note_count_changed",
                    "the dossier changed since it was recalled; recall it again",
                    note_count=len(present),
                    dossier_version=version,
                )
            found = notes.by_ids(unit, ids)
            missing = [note_id for note_id in ids if note_id not in found or found[note_id].domain != domain]
            if missing:
                raise not_found(f"note in this dossier ({', '.join(missing)})")
            archived = [note_id for note_id in ids if found[note_id].status != "active"]
            if archived:
                raise conflict("conflict", "only active notes can be merged", note_ids=archived)
            return hashed, present, [found[note_id] for note_id in ids]

        self.store.read(space_id, check)
        body = limits.check_body(given["body"], policy)
        title = limits.fold_title(given["title"], policy)
        [embedding], embedder = self._embed_or_none([body])

        def act(unit: Unit) -> Compacted:
            hashed, present, replaced = check(unit)
            sources, observed_at = compaction.inherit(replaced)
            draft = _Draft(domain=domain, title=title, body=body, sources=sources, observed_at=observed_at)
            note = replace(self._new_note(draft, principal.actor), merged_from=tuple(ids))
            notes.add(unit, note, hashed, _repeat_hash(unit, draft), embedding)
            notes.archive(unit, ids, merged_into=note.note_id)
            notes.add_compaction(unit, note.note_id, hashed, ids, note.created_at)
            left = [note_id for note_id in present if note_id not in ids] + [note.note_id]
            self._receipt(
                unit,
                principal.actor,
                "compact",
                {"note_id": note.note_id, "archived": list(ids)},
                hashed,
                {"note_count": len(left)},
                {"embedder": embedder},
            )
            return Compacted(
                note=note,
                stale=is_stale(note.observed_at, self.now(), policy),
                archived=tuple(ids),
                note_count=len(left),
                dossier_version=compaction.dossier_version(left),
                compaction_suggested=len(left) > policy.compaction_suggested_over,
                embedder=embedder,
            )

        return self.store.write(space_id, act)

    def undo_compaction(self, credential: Credential, note_id: str) -> Undone:
        """Make the originals of a merged note active again and archive the merged note.

        A merged note that was deleted leaves only its originals to restore. Raises `conflict` where the merged note
        was archived itself, its compaction undone before, or every original deleted.
        """
        principal, _ = self.admission.admit(credential, "undo_compaction")

        def act(unit: Unit) -> Undone:
            made = notes.compaction(unit, note_id)
            if made is None:
                raise not_found("compaction")
            hashed, merged_from, undone = made
            merged = notes.by_ids(unit, [note_id]).get(note_id)
            if undone or (merged is not None and merged.status != "active"):
                raise conflict("conflict", "the merged note is not active any more", note_id=note_id)
            originals = notes.by_ids(unit, merged_from)
            restored = [
                each for each in merged_from if each in originals and originals[each].merged_into == note_id
            ]
            if not restored:
                raise conflict("conflict", "there is no original left to restore", note_id=note_id)
            if merged is not None:
                notes.archive(unit, [note_id], merged_into=None)
            notes.restore(unit, restored)
            notes.mark_undone(unit, note_id, self.now())
            count = notes.count_active(unit, hashed)
            deleted_since = [each for each in merged_from if each not in originals]
            self._receipt(
                unit,
                principal.actor,
                "undo",
                {"note_id": note_id, "restored": restored, "deleted_since": deleted_since},
                hashed,
                {"note_count": count},
            )
            return Undone(
                note_id=note_id,
                restored=tuple(restored),
                deleted_since=tuple(deleted_since),
                note_count=count,
            )

        return self.store.write(principal.space.space_id, act)

    # -- read and delete one note -----------------------------------------------------------------

    def show(self, credential: Credential, note_id: str) -> RecalledNote:
        """Give one note in any status to a person."""
        principal, policy = self.admission.admit(credential, "recall")
        space_id = principal.space.space_id

        def act(unit: Unit) -> ProspectNote:
            note = notes.by_ids(unit, [note_id]).get(note_id)
            if note is None:
                raise not_found("note")
            hashed = notes.domain_hash(unit, note.domain)
            self._receipt(unit, principal.actor, "show", {"note_id": note_id}, hashed)
            return note

        note = self.store.write(space_id, act)
        return RecalledNote(note=note, stale=is_stale(note.observed_at, self.now(), policy))

    def delete(
        self, credential: Credential, note_id: str, *, with_originals: bool = False
    ) -> tuple[str, ...]:
        """Erase a note, and with `with_originals` the archived notes that it replaced; give the ids erased.

        The content is gone from the database and its journal; the ids stay in receipts.
        """
        principal, _ = self.admission.admit(credential, "delete_note")

        def act(unit: Unit) -> tuple[str, ...]:
            note = notes.by_ids(unit, [note_id]).get(note_id)
            if note is None:
                raise not_found("note")
            doomed = [note_id]
            made = notes.compaction(unit, note_id)
            if with_originals and made is not None:
                originals = notes.by_ids(unit, made[1])
                # An original that was restored, or merged anew since, is no longer this note's to take along.
                doomed += [
                    each for each in made[1] if each in originals and originals[each].merged_into == note_id
                ]
            hashed = notes.domain_hash(unit, note.domain)
            notes.erase(unit, doomed, self.now())
            self._receipt(
                unit,
                principal.actor,
                "delete",
                {"note_ids": doomed},
                hashed,
                {"note_count": notes.count_active(unit, hashed)},
            )
            return tuple(doomed)

        erased = self.store.write(principal.space.space_id, act)
        self.store.scrub()
        return erased

    # -- writing guide ----------------------------------------------------------------------------

    def writing_guide(
        self, credential: Credential, fields: Mapping[str, Any], *, size_bytes: int = 0
    ) -> tuple[str, str]:
        """Give (language, Markdown) of the writing guide. Fields: `language`; `pt-BR` finds `pt`."""
        self.admission.admit(credential, "read_guide", size_bytes)
        given = check_fields(fields, required=("language",))
        tag = limits.check_text("language", given["language"], 35).replace("_", "-").split("-")[0].lower()
        if tag not in LANGUAGES:
            raise invalid("language", "choice", f"one of {', '.join(LANGUAGES)}")
        return tag, files("memory_core").joinpath("guides", f"{tag}.md").read_text(encoding="utf-8")

    # -- the operator's acts ----------------------------------------------------------------------

    def dossiers(self, space_id: str) -> list[tuple[str, int, datetime]]:
        """List domain, number of active notes and newest `observed_at` of every dossier."""
        return self.store.read(space_id, notes.dossiers)

    def import_relationship(self, space_id: str, rows: Iterable[Row]) -> Imported:
        """Add relationship events in batches, each one transaction; what is there already changes nothing."""
        policy = self._policy(space_id)
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
                    self._receipt(unit, _OPERATOR, "import_relationship", {}, None, counts)
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
        policy = self._policy(space_id)
        total = written = 0
        refused: list[dict[str, Any]] = []
        for batch in _batches(rows):
            accepted: list[tuple[int, ProspectNote]] = []
            for line, row in batch:
                total += 1
                try:
                    accepted.append((line, self._exported(_row(row), policy)))
                except MemoryCoreError as error:
                    refused.append(_refused(line, error))
            embeddings, _ = self._embed_or_none([note.body for _, note in accepted])
            incoming = list(zip(accepted, embeddings, strict=True))

            def act(
                unit: Unit, incoming: list[tuple[tuple[int, ProspectNote], Embedding | None]] = incoming
            ) -> tuple[list[str], list[dict[str, Any]]]:
                stored: list[str] = []
                turned_away: list[dict[str, Any]] = []
                for (line, note), embedding in incoming:
                    try:
                        if self._import_note(unit, note, embedding, policy):
                            stored.append(note.note_id)
                    except MemoryCoreError as error:
                        turned_away.append(_refused(line, error))
                if stored:
                    counts = {"notes": len(stored)}
                    self._receipt(unit, _OPERATOR, "import_notes", {"note_ids": stored}, None, counts)
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
            self._receipt(unit, _OPERATOR, "export", ids, kind="admin")

        def rows(unit: Unit) -> Iterator[dict[str, Any]]:
            after = ""
            while page := notes.every_note(unit, after, _EXPORT_PAGE):
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
                return notes.to_embed(unit, model, others_too=others_too, after=after, limit=_IMPORT_BATCH)

            page = self.store.read(space_id, look)
            if not page:
                return done
            vectors = self._embed([body for _, body in page])
            made = [(note_id, vector) for (note_id, _), vector in zip(page, vectors, strict=True) if vector]

            def act(unit: Unit, made: list[tuple[str, Embedding]] = made) -> None:
                for note_id, vector in made:
                    notes.set_embedding(unit, note_id, vector)
                if made:
                    counts = {"notes": len(made)}
                    self._receipt(unit, _OPERATOR, "embed_notes", {}, None, counts, {"model": model})

            self.store.write(space_id, act)
            done += len(made)
            after = page[-1][0]
            progress(len(page))

    # -- parts ------------------------------------------------------------------------------------

    def _draft(self, given: Mapping[str, Any], policy: Policy) -> _Draft:
        return _Draft(
            domain=registrable_domain(given["domain"]),
            title=limits.fold_title(given["title"], policy),
            body=limits.check_body(given["body"], policy),
            sources=limits.check_source_urls(given["source_urls"], policy),
            observed_at=limits.check_observed_at(given["observed_at"], policy, self.now()),
        )

    def _new_note(self, draft: _Draft, author: Actor) -> ProspectNote:
        return ProspectNote(
            note_id=self.new_id(),
            domain=draft.domain,
            title=draft.title,
            body=draft.body,
            sources=draft.sources,
            observed_at=draft.observed_at,
            created_at=self.now(),
            author=author,
        )

    def _embed(self, texts: Sequence[str]) -> list[Embedding | None]:
        model = self.embedder.model_id
        return [
            None if vector is None else Embedding(model=model, vector=vector)
            for vector in self.embedder.embed(texts)
        ]

    def _embed_or_none(
        self, texts: Sequence[str]
    ) -> tuple[list[Embedding | None], Literal["ok", "unavailable"]]:
        try:
            return self._embed(texts), "ok"
        except MemoryCoreError as error:
            if error.kind is not Kind.UNAVAILABLE:
                raise
            # The note is kept all the same; the answer says so, and `embeddings backfill` comes back to it.
            return [None] * len(texts), "unavailable"

    def _answered(
        self, unit: Unit, caller: str, idempotency_key: str | None, draft: _Draft, policy: Policy
    ) -> str | None:
        if idempotency_key is None:
            return None
        key_hash = unit.digest("idempotency_key", idempotency_key)
        earlier = notes.answered(unit, caller, "save", key_hash, self.now(), policy.idempotency_kept_hours)
        if earlier is None:
            return None
        if earlier.request_hash != _request_hash(unit, draft):
            raise conflict(
                "conflict", "idempotency_key: it was used for another request", field="idempotency_key"
            )
        note_id: str = earlier.result_id
        if not notes.by_ids(unit, [note_id]):
            raise conflict(
                "conflict", "the note saved under this idempotency key was deleted since", note_id=note_id
            )
        return note_id

    def _take_daily_save(self, unit: Unit, policy: Policy) -> None:
        zone = ZoneInfo(policy.timezone)
        local = self.now().astimezone(zone)
        if not notes.take_daily_save(unit, local.date().isoformat(), policy.max_saves_per_day):
            midnight = datetime.combine(local.date() + timedelta(days=1), datetime.min.time(), zone)
            wait = int((midnight.timestamp() - local.timestamp()) + 0.999)
            raise limited(
                "daily_limit_reached",
                f"the space saved {policy.max_saves_per_day} notes today",
                wait,
                limit=policy.max_saves_per_day,
            )

    def _keep_answer(
        self, unit: Unit, caller: str, idempotency_key: str, draft: _Draft, note_id: str
    ) -> None:
        key_hash = unit.digest("idempotency_key", idempotency_key)
        request_hash = _request_hash(unit, draft)
        notes.keep_answer(unit, caller, "save", key_hash, request_hash, note_id, self.now())

    def _compare(
        self,
        unit: Unit,
        sources: Sequence[SourceUrl],
        embedding: Embedding | None,
        others: Sequence[Neighbour],
        policy: Policy,
    ) -> _Comparison:
        """Sort the dossier's other notes, nearest first. Notes of another model, or of none, are not compared."""
        model = self.embedder.model_id
        comparable = [other for other in others if embedding is not None and other.model == model]
        distances: list[float] = []
        if embedding is not None and comparable:
            distances = overlap.distances(embedding.vector, notes.vectors(comparable)).tolist()
        measured = zip([other.note_id for other in comparable], distances, strict=True)
        near, overlapping = overlap.judge(measured, policy.thresholds(model))
        cited = {notes.page_hash(unit, source.canonical): source.url for source in sources}
        shared = [
            SharedSource(note_id=other.note_id, url=cited[page])
            for other in others
            for page in other.pages
            if page in cited
        ]
        return _Comparison(
            near=near, overlapping=overlapping, shared=shared, not_compared=len(others) - len(comparable)
        )

    def _report(
        self,
        body: str,
        found: _Comparison,
        opened: Mapping[str, ProspectNote],
        embedder: Literal["ok", "unavailable"],
        policy: Policy,
    ) -> OverlapReport:
        model = self.embedder.model_id
        return OverlapReport(
            near_duplicates=tuple(
                NearDuplicate(
                    note=opened[note_id],
                    distance=distance,
                    changes=overlap.changes(opened[note_id].body, body),
                )
                for note_id, distance in found.near
            ),
            overlaps=tuple(
                Overlap(
                    note=opened[note_id],
                    distance=distance,
                    excerpt=opened[note_id].body[: policy.excerpt_chars],
                )
                for note_id, distance in found.overlapping
            ),
            shared_sources=tuple(found.shared),
            not_compared=found.not_compared,
            embedder=embedder,
            model=model,
            tuned=policy.thresholds(model).tuned,
        )

    def _exported(self, row: Mapping[str, Any], policy: Policy) -> ProspectNote:
        """Check one row of an export as a save is checked; a merged note may cite more than 20 sources."""
        given = check_fields(
            row,
            required=(*_NOTE_FIELDS, "note_id", "created_at", "author", "status"),
            optional=("title", "merged_into", "merged_from"),
        )
        merged_from = given["merged_from"] or []
        if merged_from:
            limits.check_note_ids(merged_from, "merged_from")
        if merged_from or given["status"] == "archived":
            # The limit holds for a save, not for a merge; an archived note may be a merged one that was undone.
            policy = replace(policy, max_source_urls=sys.maxsize)
        draft = self._draft(given, policy)
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
        created_at = limits.check_observed_at(given["created_at"], policy, self.now(), "created_at")
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

    def _import_note(
        self, unit: Unit, note: ProspectNote, embedding: Embedding | None, policy: Policy
    ) -> bool:
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
        repeat_hash = _repeat_hash(unit, note)
        if note.status == "active":
            if notes.repeat_of(unit, hashed, repeat_hash) is not None:
                return False
            _check_room(notes.count_active(unit, hashed), policy)
        notes.add(unit, note, hashed, repeat_hash, embedding)
        if note.merged_from:
            notes.add_compaction(unit, note.note_id, hashed, note.merged_from, note.created_at)
        return True

    def _policy(self, space_id: str) -> Policy:
        def look(unit: Unit) -> Policy:
            return in_force(identities.space_and_settings(unit)[1])

        return self.store.read(space_id, look)

    def _receipt(
        self,
        unit: Unit,
        actor: Actor,
        operation: str,
        ids: Mapping[str, str | Sequence[str]],
        domain_hash: str | None = None,
        counts: Mapping[str, int] | None = None,
        facts: Mapping[str, Any] | None = None,
        kind: str = "prospect_memory",
    ) -> None:
        ledger.append(
            unit,
            receipt_id=self.new_id(),
            at=self.now(),
            actor=actor,
            kind=kind,
            operation=operation,
            ids=ids,
            domain_hash=domain_hash,
            counts=counts,
            facts=facts,
        )


def _repeat_hash(unit: Unit, note: _Draft | ProspectNote) -> str:
    """Hash what makes two notes an exact repeat: folded title and body, canonical URLs in any order, the date."""
    return unit.digest(
        "repeat",
        note.title or "",
        overlap.fold_for_repeat(note.body),
        note.observed_at.text.strip(),
        *sorted(source.canonical for source in note.sources),
    )


def _request_hash(unit: Unit, draft: _Draft) -> str:
    return unit.digest(
        "save_request",
        draft.domain,
        draft.title or "",
        draft.body,
        draft.observed_at.text,
        *(source.url for source in draft.sources),
    )


def _check_room(active: int, policy: Policy) -> None:
    if active >= policy.max_active_notes:
        raise conflict(
            "domain_full",
            f"the dossier has {active} active notes; compaction brings it down",
            note_count=active,
            limit=policy.max_active_notes,
        )


def _of_one_model(
    embeddings: Sequence[Embedding | None],
) -> tuple[str | None, list[np.ndarray[Any, np.dtype[np.float32]] | None]]:
    """Give the vectors of the most frequent model, and None for every other note: ranks compare like with like."""
    models = [embedding.model for embedding in embeddings if embedding is not None]
    model = max(sorted(set(models)), key=models.count) if models else None
    return model, [
        embedding.vector if embedding is not None and embedding.model == model else None
        for embedding in embeddings
    ]


def _within_payload(
    recall: Recall, embeddings: Sequence[Embedding | None], wanted: Embedding | None, policy: Policy
) -> Recall:
    """Keep the notes that fit whole; where not even one does, the first with as many sources as fit."""
    sizes = [answers.note_bytes(recalled) for recalled in recall.notes]
    budget = policy.max_recall_bytes - answers.frame_bytes(recall)
    if sum(sizes) <= budget:
        return recall
    model, vectors = _of_one_model(embeddings)
    if wanted is not None and wanted.model == model:
        order = ranking.by_focus(vectors, wanted.vector)
    else:
        order = ranking.by_relevance(vectors)
    kept = sorted(ranking.fit(sizes, order, budget))
    shown = tuple(recall.notes[index] for index in kept)
    if not shown:
        shown = (answers.with_sources_that_fit(recall.notes[order[0]], budget),)
    return replace(recall, notes=shown, truncated=True)


def _overlap_pairs(
    active: Sequence[tuple[ProspectNote, Embedding | None]], policy: Policy
) -> tuple[OverlapPair, ...]:
    """Give the pairs of these notes within the overlap distance of their model, nearest first."""
    pairs: list[OverlapPair] = []
    for position, (note, embedding) in enumerate(active):
        if embedding is None:
            continue
        others = [
            (other.note_id, vector.vector)
            for other, vector in active[position + 1 :]
            if vector is not None and vector.model == embedding.model
        ]
        if not others:
            continue
        at = policy.thresholds(embedding.model).overlap_at
        distances = overlap.distances(embedding.vector, np.stack([vector for _, vector in others]))
        pairs += [
            OverlapPair(note_ids=(note.note_id, note_id), distance=float(distance))
            for (note_id, _), distance in zip(others, distances, strict=True)
            if distance <= at
        ]
    return tuple(sorted(pairs, key=lambda pair: pair.distance))


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    for row in rows:
        batch.append(row)
        if len(batch) == _IMPORT_BATCH:
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
