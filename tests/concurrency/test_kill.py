"""A process killed at any point leaves the store as before or after its act, and what it answered is there."""

from __future__ import annotations

import random
import signal
import sqlite3
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from memory_core.compose import open_workbench
from memory_core.embedding import WordHashEmbedder
from memory_core.home import DATABASE

KILLS = 12
_LONG = "A long finding, so that a note takes several pages of the file. " * 40


def state_of(desk: Any) -> dict[str, str]:
    """Open the workbench as a process that starts after a crash does; give the notes' bodies by id.

    Every field of every note opens, the chain holds, there is a receipt a note, and the file itself is whole.
    """
    bench = open_workbench(desk.bench.home, {}, embedder=WordHashEmbedder())
    rows = bench.transfers.export_notes(desk.space_id, list)
    verdict = bench.spaces.verify_receipts(desk.space_id)
    assert verdict.ok, verdict.problem
    saved = bench.spaces.export_receipts(
        desk.space_id, lambda rows: [row["ids"]["note_id"] for row in rows if row["operation"] == "save"]
    )
    bench.close()
    connection = sqlite3.connect(desk.bench.home / DATABASE)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    [[counted]] = connection.execute("SELECT coalesce(sum(saves), 0) FROM daily_saves").fetchall()
    vectors = connection.execute("SELECT count(*) FROM prospect_notes WHERE sealed_embedding IS NULL")
    assert vectors.fetchall() == [(0,)]
    connection.close()
    assert sorted(saved) == sorted(row["note_id"] for row in rows)
    assert counted == len(rows)
    return {row["note_id"]: row["body"] for row in rows}


def test_case_038_a_process_killed_at_random_moments_of_its_saves_leaves_no_half_note(
    desk: Any, start: Callable[..., Any], finding: Callable[..., Any]
) -> None:
    moments = random.Random(38)
    there = 0
    for kill in range(KILLS):
        # Each on a day of its own, so that the quota of 200 a day is not what ends it.
        worker = start(now=(desk.clock.at + timedelta(days=kill)).isoformat()).ready()
        bodies = [f"Kill {kill}, fact {number}. {_LONG}" for number in range(200)]
        worker.go(
            [("save", finding(body, f"k{kill}-{number // 50}.example")) for number, body in enumerate(bodies)]
        )
        first = worker.next()
        assert first is not None
        time.sleep(moments.uniform(0, 0.08))
        worker.running.kill()
        outcomes = worker.finish()
        assert worker.running.returncode == -signal.SIGKILL
        kept = state_of(desk)
        for number, outcome in enumerate(outcomes):
            assert kept[outcome["note_id"]] == bodies[number]
        # At most the save that was under way is there without its answer.
        assert len(kept) - there - len(outcomes) in (0, 1)
        there = len(kept)
    assert there > KILLS


@pytest.mark.parametrize("verb", ["save", "compact"])
def test_case_038_a_process_killed_before_each_statement_of_an_act_leaves_nothing_of_it(
    desk: Any, start: Callable[..., Any], finding: Callable[..., Any], verb: str
) -> None:
    """From the first statement to the commit; only the run that is not killed changes anything."""
    ids = [desk.save(f"Fact {number}. {_LONG}")["note"]["note_id"] for number in range(3)]
    fields = {
        "save": finding(f"The fourth fact. {_LONG}"),
        "compact": {
            "domain": "kelva.example",
            "note_ids": ids[:2],
            "body": f"Both facts. {_LONG}",
            "expected_note_count": 3,
        },
    }[verb]
    state_of(desk)
    before = desk.bench.spaces.verify_receipts(desk.space_id)
    deaths = 0
    while True:
        worker = start("--die-before", str(deaths + 1)).ready()
        worker.go([(verb, fields)])
        outcomes = worker.finish()
        if worker.running.returncode == 0:
            break
        assert (worker.running.returncode, outcomes) == (-signal.SIGKILL, [])
        assert desk.bench.spaces.verify_receipts(desk.space_id) == before
        deaths += 1
    # BEGIN, key and identity of the caller, the look at the dossier, the rows, receipt, head, COMMIT.
    assert deaths >= 12
    [outcome] = outcomes
    after = desk.bench.spaces.verify_receipts(desk.space_id)
    assert (after.ok, after.receipts) == (True, before.receipts + 1)
    kept = {note["note_id"]: note["body"] for note in desk.recall()["notes"]}
    assert kept[outcome["note_id"]] == fields["body"]
    assert len(kept) == (4 if verb == "save" else 2)
