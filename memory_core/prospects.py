"""The prospect memory: recall, save, compact, undo, delete, and the writing guide.

No note is ever refused or merged for being similar, and none is archived but by `compact`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.resources import files
from math import ceil
from typing import Any, Literal

import numpy as np

from memory_core.admission import Admission, Credential
from memory_core.embedding import Embedder, embed_or_none
from memory_core.errors import conflict, invalid, limited, not_found
from memory_core.formats import answers
from memory_core.model import (
    Actor,
    Clock,
    Compacted,
    Draft,
    Embedding,
    ListedNote,
    NearDuplicate,
    NewId,
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
from memory_core.policy import LANGUAGES, Policy
from memory_core.rules import compaction, limits, overlap, ranking
from memory_core.rules.domains import address_and_domain, registrable_domain
from memory_core.rules.fields import check_fields
from memory_core.rules.staleness import day_around, is_stale
from memory_core.storage import ledger, relationship
from memory_core.storage import prospect_notes as notes
from memory_core.storage.prospect_notes import Neighbour
from memory_core.storage.session import Store, Unit


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
        wanted = embed_or_none(self.embedder, [focus])[0][0] if focus else None

        def act(unit: Unit) -> Recall:
            hashed = notes.domain_hash(unit, domain)
            active = notes.active(unit, hashed)
            recall = self._dossier(
                domain, active, relationship.relationship_of(unit, hashed, address), policy
            )
            recall = _within_payload(recall, [vector for _, vector in active], wanted, policy)
            ledger.append(
                unit,
                principal.actor,
                "prospect_memory",
                "recall",
                ids={"note_ids": [recalled.note.note_id for recalled in recall.notes]},
                domain_hash=hashed,
                counts={"note_count": recall.note_count, "delivered": len(recall.notes)},
                facts={"stale": recall.stale, "stop": bool(recall.relationship.stop_reasons)},
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
        given = check_fields(fields, required=limits.NOTE_FIELDS, optional=("title", "idempotency_key"))
        draft = limits.check_note(given, policy, self.now())
        idempotency_key = given["idempotency_key"]
        if idempotency_key is not None:
            idempotency_key = limits.check_text(
                "idempotency_key", idempotency_key, policy.max_idempotency_key_chars
            )
        # Embedding comes before the transaction: no lock is ever held while a model works.
        [embedding], embedder = embed_or_none(self.embedder, [draft.body])

        def act(unit: Unit) -> tuple[ProspectNote, bool, int, _Comparison, dict[str, ListedNote]]:
            hashed = notes.domain_hash(unit, draft.domain)
            caller = principal.actor.source_id or principal.actor.person_id or ""
            answered = self._answered(unit, caller, idempotency_key, draft, policy)
            # One query serves the exact repeat, the cap and the comparison.
            repeat_hash, active = notes.repeat_hash(unit, draft), notes.neighbours(unit, hashed)
            repeated = answered or next(
                (other.note_id for other in active if other.repeat_hash == repeat_hash), None
            )
            if repeated is None:
                self._take_daily_save(unit, policy)
                limits.check_room(len(active), policy)
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
            listed = notes.listed(unit, [note_id for note_id, _ in found.near + found.overlapping])
            ledger.append(
                unit,
                principal.actor,
                "prospect_memory",
                "save",
                ids={"note_id": note.note_id},
                domain_hash=hashed,
                counts={
                    "note_count": count,
                    "near_duplicates": len(found.near),
                    "overlaps": len(found.overlapping),
                    "shared_sources": len(found.shared),
                    "not_compared": found.not_compared,
                },
                facts={"repeated": repeated is not None, "embedder": embedder},
            )
            return note, repeated is not None, count, found, listed

        note, repeated, count, found, listed = self.store.write(principal.space.space_id, act)
        saved = Saved(
            note=note,
            stale=is_stale(note.observed_at, self.now(), policy),
            note_count=count,
            compaction_suggested=count > policy.compaction_suggested_over,
            repeated=repeated,
            overlap=self._report(draft.body, found, listed, embedder, policy),
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
        [embedding], embedder = embed_or_none(self.embedder, [body])

        def act(unit: Unit) -> Compacted:
            hashed, present, replaced = check(unit)
            sources, observed_at = compaction.inherit(replaced)
            draft = Draft(domain=domain, title=title, body=body, sources=sources, observed_at=observed_at)
            note = replace(self._new_note(draft, principal.actor), merged_from=tuple(ids))
            notes.add(unit, note, hashed, notes.repeat_hash(unit, draft), embedding)
            notes.archive(unit, ids, merged_into=note.note_id)
            notes.add_compaction(unit, note.note_id, hashed, ids, note.created_at)
            left = [note_id for note_id in present if note_id not in ids] + [note.note_id]
            ledger.append(
                unit,
                principal.actor,
                "prospect_memory",
                "compact",
                ids={"note_id": note.note_id, "archived": list(ids)},
                domain_hash=hashed,
                counts={"note_count": len(left)},
                facts={"embedder": embedder},
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
            ledger.append(
                unit,
                principal.actor,
                "prospect_memory",
                "undo",
                ids={"note_id": note_id, "restored": restored, "deleted_since": deleted_since},
                domain_hash=hashed,
                counts={"note_count": count},
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
            ledger.append(
                unit, principal.actor, "prospect_memory", "show", ids={"note_id": note_id}, domain_hash=hashed
            )
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
            ledger.append(
                unit,
                principal.actor,
                "prospect_memory",
                "delete",
                ids={"note_ids": doomed},
                domain_hash=hashed,
                counts={"note_count": notes.count_active(unit, hashed)},
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

    # -- read the list of dossiers ----------------------------------------------------------------------

    def dossiers(self, space_id: str) -> list[tuple[str, int, datetime]]:
        """List domain, number of active notes and newest `observed_at` of every dossier."""
        return self.store.read(space_id, notes.dossiers)

    # -- parts ------------------------------------------------------------------------------------

    def _new_note(self, draft: Draft, author: Actor) -> ProspectNote:
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

    def _answered(
        self, unit: Unit, caller: str, idempotency_key: str | None, draft: Draft, policy: Policy
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
        now = self.now()
        today, tomorrow = day_around(now, policy.timezone)
        if not notes.take_daily_save(unit, today, now, policy.max_saves_per_day):
            raise limited(
                "daily_limit_reached",
                f"the space saved {policy.max_saves_per_day} notes today",
                ceil((tomorrow - now).total_seconds()),
                limit=policy.max_saves_per_day,
            )

    def _keep_answer(self, unit: Unit, caller: str, idempotency_key: str, draft: Draft, note_id: str) -> None:
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
        listed: Mapping[str, ListedNote],
        embedder: Literal["ok", "unavailable"],
        policy: Policy,
    ) -> OverlapReport:
        model = self.embedder.model_id
        return OverlapReport(
            near_duplicates=tuple(
                NearDuplicate(
                    note=listed[note_id],
                    distance=distance,
                    changes=overlap.changes(listed[note_id].body, body),
                )
                for note_id, distance in found.near
            ),
            overlaps=tuple(
                Overlap(
                    note=listed[note_id],
                    distance=distance,
                    excerpt=listed[note_id].body[: policy.excerpt_chars],
                )
                for note_id, distance in found.overlapping
            ),
            shared_sources=tuple(found.shared),
            not_compared=found.not_compared,
            embedder=embedder,
            model=model,
            tuned=policy.thresholds(model).tuned,
        )


def _request_hash(unit: Unit, draft: Draft) -> str:
    return unit.digest(
        "save_request",
        draft.domain,
        draft.title or "",
        draft.body,
        draft.observed_at.text,
        *(source.url for source in draft.sources),
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
