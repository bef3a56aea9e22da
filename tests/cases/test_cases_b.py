"""Group B of the cases: compaction, provenance, staleness, export. Cases with a test in `tests/unit` stand there."""

from __future__ import annotations

import ast
import threading
from pathlib import Path
from typing import Any

import pytest

import memory_core
from memory_core.storage import ledger
from tests.conftest import Desk


def calls_of(name: str) -> set[str]:
    """Name every function of the core that calls `....name(...)` or `name(...)`, as module.function."""
    found = set()
    root = Path(memory_core.__file__).parent
    for path in root.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Call):
                    called = node.func
                    named = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
                    if named == name:
                        found.add(f"{path.relative_to(root)}:{function.name}")
    return found


def test_case_022_no_code_path_archives_but_a_compaction_and_its_undo() -> None:
    archivers = {place for place in calls_of("archive") if not place.endswith(":act")}
    assert archivers == {"prospects.py:compact", "prospects.py:undo_compaction"}
    assert calls_of("_set_status") == {
        "storage/prospect_notes.py:archive",
        "storage/prospect_notes.py:restore",
    }


def test_case_028_a_recall_beside_compactions_sees_the_old_notes_or_the_new_one_and_never_neither(
    desk: Desk,
) -> None:
    """One thread merges and undoes thirty times, another recalls; each recall is one whole state."""
    ids = [desk.save(f"Fact {number}.")["note"]["note_id"] for number in range(3)]
    seen: list[tuple[tuple[str, ...], int]] = []
    merged_ids: list[str] = []
    done = threading.Event()
    failed: list[BaseException] = []

    def merge() -> None:
        try:
            for number in range(30):
                compacted = desk.bench.prospects.compact(
                    desk.key,
                    {
                        "domain": "kelva.example",
                        "note_ids": ids[:2],
                        "body": f"Both facts, {number}.",
                        "expected_note_count": 3,
                    },
                )
                merged_ids.append(compacted.note.note_id)
                desk.bench.prospects.undo_compaction(desk.owner, compacted.note.note_id)
        except BaseException as error:  # noqa: BLE001 - told to the test's own thread
            failed.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=merge)
    thread.start()
    while not done.is_set():
        recalled = desk.recall()
        seen.append((tuple(sorted(note["note_id"] for note in recalled["notes"])), recalled["note_count"]))
    thread.join()
    assert failed == []
    states = {tuple(sorted(ids))} | {tuple(sorted((ids[2], merged))) for merged in merged_ids}
    assert {notes for notes, _ in seen} <= states
    assert all(len(notes) == count for notes, count in seen)


def test_case_028_a_compaction_that_fails_at_its_receipt_changes_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [desk.save(f"Fact {number}.")["note"]["note_id"] for number in range(2)]
    before = desk.recall()
    really = ledger.append

    def fail(unit: Any, actor: Any, kind: Any, operation: str, **fields: Any) -> Any:
        if operation == "compact":
            raise OSError("the disk failed")
        return really(unit, actor, kind, operation, **fields)

    monkeypatch.setattr(ledger, "append", fail)
    merged = {"domain": "kelva.example", "note_ids": ids, "body": "Both.", "expected_note_count": 2}
    with pytest.raises(OSError, match="the disk failed"):
        desk.bench.prospects.compact(desk.key, merged)
    monkeypatch.undo()
    assert desk.recall() == before
    assert len(desk.bench.transfers.export_notes(desk.space_id, list)) == 2


def test_case_032_imported_notes_are_read_again_by_the_model_that_ships(desk: Desk, real_desk: Desk) -> None:
    """An export of a space that used another model brings no vector along, and its notes are compared all the same."""
    body = "Kelva opened a second plant in Bremen in May with 120 jobs."
    desk.save(body)
    rows = desk.bench.transfers.export_notes(desk.space_id, list)
    assert not any("embedding" in name for row in rows for name in row)
    assert real_desk.bench.transfers.import_notes(real_desk.space_id, enumerate(rows, start=1)).written == 1
    report = real_desk.save(body, observed_at="2026-11-11")["overlap"]
    assert report["not_compared"] == 0
    assert [entry["distance"] for entry in report["near_duplicates"]] == [pytest.approx(0, abs=1e-6)]
