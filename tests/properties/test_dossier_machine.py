"""Any order of saves, compactions, undoings and deletions leaves a dossier as a plain dict would have it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from memory_core.compose import init_workbench, open_workbench
from memory_core.embedding import WordHashEmbedder
from memory_core.errors import MemoryCoreError
from memory_core.formats.answers import compacted_json
from tests.conftest import NOW, Clock, make_desk

NOWHERE = "00000000-0000-4000-8000-ffffffffffff"
BODIES = ("alpha beta gamma", "alpha beta delta", "one two three", "one two four")
PAGES = ("https://a.example/1", "https://b.example/2", "https://c.example/3")


@dataclass
class Note:
    """What the model knows of a note; a deleted one is gone from the dict."""

    body: str
    observed_at: str
    pages: tuple[str, ...]
    saved: int
    active: bool = True
    merged_into: str | None = None


@dataclass
class Model:
    """A dossier as a plain dict, and what each compaction replaced; undone ones are taken out."""

    notes: dict[str, Note] = field(default_factory=dict)
    compactions: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def active(self) -> list[str]:
        kept = [note_id for note_id, note in self.notes.items() if note.active]
        return sorted(
            kept,
            key=lambda note_id: (self.notes[note_id].observed_at, self.notes[note_id].saved),
            reverse=True,
        )


class Dossier(RuleBasedStateMachine):
    """One company's dossier beside its model."""

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        home = Path(self.folder.name) / "home"
        init_workbench(home, {})
        numbers = count(1)
        self.clock = Clock()
        bench = open_workbench(
            home,
            {},
            embedder=WordHashEmbedder(),
            now=self.clock,
            new_id=lambda: str(UUID(int=(4 << 76) | (2 << 62) | next(numbers))),
        )
        self.desk = make_desk(bench, self.clock)
        self.model = Model()
        self.seen: dict[str, Any] = self.desk.recall()

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            assert self.desk.bench.spaces.verify_receipts(self.desk.space_id).ok
            self.desk.bench.close()
            self.folder.cleanup()

    @rule(
        body=st.sampled_from(BODIES), day=st.integers(0, 2), pages=st.sets(st.sampled_from(PAGES), min_size=1)
    )
    def save(self, body: str, day: int, pages: set[str]) -> None:
        self.clock.move(seconds=1)
        observed_at = (date(2026, 11, 10) + timedelta(days=day)).isoformat()
        cited = tuple(sorted(pages))
        answer = self.desk.save(body, observed_at=observed_at, source_urls=list(cited))
        note_id = answer["note"]["note_id"]
        equal = [
            each
            for each in self.model.active()
            if (self.model.notes[each].body, self.model.notes[each].observed_at) == (body, observed_at)
            and set(self.model.notes[each].pages) == pages
        ]
        assert answer["repeated"] == bool(equal)
        if equal:
            assert note_id in equal
        else:
            assert note_id not in self.model.notes
            self.model.notes[note_id] = Note(body, observed_at, cited, self.tick())
        self.check_report(note_id, answer)

    def tick(self) -> int:
        return int((self.clock() - NOW).total_seconds())

    def check_report(self, note_id: str, answer: dict[str, Any]) -> None:
        others = {each: note for each, note in self.model.notes.items() if note.active and each != note_id}
        overlap = answer["overlap"]
        assert answer["note_count"] == len(others) + 1
        assert overlap["not_compared"] == 0
        cited = set(self.model.notes[note_id].pages)
        assert {(each["note_id"], each["url"]) for each in overlap["shared_sources"]} == {
            (each, page) for each, note in others.items() for page in cited & set(note.pages)
        }
        if not answer["repeated"]:
            body = self.model.notes[note_id].body
            # Two of three words in common: a distance of a third, which is in neither list.
            same = {each for each, note in others.items() if note.body == body}
            assert {each["note_id"] for each in overlap["near_duplicates"]} == same
            assert overlap["overlaps"] == []

    @precondition(lambda self: len(self.model.active()) >= 2)
    @rule(data=st.data(), body=st.sampled_from(BODIES), locked=st.booleans())
    def compact(self, data: st.DataObject, body: str, locked: bool) -> None:
        self.clock.move(seconds=1)
        present = self.model.active()
        chosen = data.draw(st.lists(st.sampled_from(present), min_size=2, max_size=4, unique=True))
        given: dict[str, Any] = {
            "domain": "kelva.example",
            "note_ids": chosen,
            "body": body,
            "expected_note_count": len(present),
        }
        if locked:
            given["dossier_version"] = self.desk.recall()["dossier_version"]
        answer = compacted_json(self.desk.bench.prospects.compact(self.desk.key, given))
        merged = answer["note"]["note_id"]
        pages = tuple(dict.fromkeys(page for each in chosen for page in self.model.notes[each].pages))
        earliest = min(self.model.notes[each].observed_at for each in chosen)
        assert (answer["note"]["source_urls"], answer["note"]["observed_at"]) == (list(pages), earliest)
        assert answer["note_count"] == len(present) - len(chosen) + 1
        self.model.notes[merged] = Note(body, earliest, pages, self.tick())
        for each in chosen:
            self.model.notes[each].active, self.model.notes[each].merged_into = False, merged
        self.model.compactions[merged] = tuple(chosen)

    @precondition(lambda self: len(self.model.active()) >= 2)
    @rule(by=st.sampled_from([-1, 1]))
    def compact_what_was_not_seen(self, by: int) -> None:
        present = self.model.active()
        given = {
            "domain": "kelva.example",
            "note_ids": present[:2],
            "body": "Merged.",
            "expected_note_count": len(present) + by,
        }
        with pytest.raises(MemoryCoreError) as caught:
            self.desk.bench.prospects.compact(self.desk.key, given)
        assert caught.value.code == "note_count_changed"
        assert caught.value.details["note_count"] == len(present)

    @precondition(lambda self: self.seen["dossier_version"] and len(self.model.active()) >= 2)
    @rule()
    def compact_an_older_dossier(self) -> None:
        present = self.model.active()
        given = {
            "domain": "kelva.example",
            "note_ids": present[:2],
            "body": "Merged.",
            "expected_note_count": len(present),
            "dossier_version": self.seen["dossier_version"],
        }
        if {note["note_id"] for note in self.seen["notes"]} == set(present):
            return
        with pytest.raises(MemoryCoreError) as caught:
            self.desk.bench.prospects.compact(self.desk.key, given)
        assert caught.value.code == "note_count_changed"

    @precondition(lambda self: self.model.compactions)
    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        merged = data.draw(st.sampled_from(sorted(self.model.compactions)))
        note = self.model.notes.get(merged)
        if note is not None and not note.active:
            with pytest.raises(MemoryCoreError) as caught:
                self.desk.bench.prospects.undo_compaction(self.desk.admin, merged)
            assert caught.value.code == "conflict"
            return
        undone = self.desk.bench.prospects.undo_compaction(self.desk.admin, merged)
        originals = self.model.compactions.pop(merged)
        assert undone.restored == tuple(each for each in originals if each in self.model.notes)
        assert undone.deleted_since == tuple(each for each in originals if each not in self.model.notes)
        if note is not None:
            note.active = False
        for each in undone.restored:
            self.model.notes[each].active, self.model.notes[each].merged_into = True, None
        assert undone.note_count == len(self.model.active())

    @precondition(lambda self: self.model.notes)
    @rule(data=st.data(), with_originals=st.booleans())
    def delete(self, data: st.DataObject, with_originals: bool) -> None:
        note_id = data.draw(st.sampled_from(sorted(self.model.notes)))
        erased = self.desk.bench.prospects.delete(self.desk.admin, note_id, with_originals=with_originals)
        expected = {note_id}
        if with_originals:
            expected |= {each for each, note in self.model.notes.items() if note.merged_into == note_id}
        assert set(erased) == expected
        for each in expected:
            del self.model.notes[each]

    @rule()
    def remember_what_was_seen(self) -> None:
        self.seen = self.desk.recall()

    @rule()
    def what_is_not_there_is_not_found(self) -> None:
        for act in (self.desk.bench.prospects.delete, self.desk.bench.prospects.undo_compaction):
            with pytest.raises(MemoryCoreError) as caught:
                act(self.desk.admin, NOWHERE)
            assert caught.value.code == "not_found"

    @invariant()
    def recall_gives_the_active_notes_of_the_model_in_order(self) -> None:
        if not hasattr(self, "model"):
            return
        recalled = self.desk.recall()
        present = self.model.active()
        assert [note["note_id"] for note in recalled["notes"]] == present
        assert (recalled["note_count"], recalled["known"]) == (len(present), bool(present))
        for note in recalled["notes"]:
            known = self.model.notes[note["note_id"]]
            assert (note["body"], note["observed_at"]) == (known.body, known.observed_at)
            assert tuple(note["source_urls"]) == known.pages

    @invariant()
    def an_export_holds_every_note_that_was_not_deleted_with_its_pointer(self) -> None:
        if not hasattr(self, "model"):
            return
        rows = self.desk.bench.transfers.export_notes(self.desk.space_id, list)
        assert {row["note_id"]: (row["status"] == "active", row["merged_into"]) for row in rows} == {
            note_id: (note.active, note.merged_into) for note_id, note in self.model.notes.items()
        }


Dossier.TestCase.settings = settings(
    max_examples=12,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestDossier = Dossier.TestCase
