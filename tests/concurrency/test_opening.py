"""Processes that start at once, and the locks that none of them holds while it opens, reads or embeds."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from memory_core.compose import open_workbench
from memory_core.embedding import WordHashEmbedder
from memory_core.errors import MemoryCoreError
from memory_core.home import DATABASE, KEY_FILE
from memory_core.model import ProspectNote
from memory_core.storage.schema import SCHEMA_VERSION
from tests.bench import Client

PROGRAM = str(Path(sys.executable).with_name("memory-core"))


@contextmanager
def write_lock(home: Path) -> Iterator[None]:
    """Hold SQLite's only write lock, as a process does that hangs in the middle of a transaction."""
    connection = sqlite3.connect(home / DATABASE, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.execute("ROLLBACK")
    connection.close()


def test_case_043_five_processes_that_init_one_empty_folder_make_one_workbench(tmp_path: Path) -> None:
    home = tmp_path / "home"
    environ = {**os.environ, "MEMORY_CORE_HOME": str(home)}
    started = [
        subprocess.Popen(
            [PROGRAM, "init", "--json"], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(5)
    ]
    done = [each.communicate(timeout=120) for each in started]
    assert [each.returncode for each in started] == [0] * 5, done
    assert sorted(json.loads(out)["created"] for out, _ in done) == [False] * 4 + [True]
    assert {error for _, error in done} == {b""}
    assert len(json.loads((home / KEY_FILE).read_text())["keys"]) == 1
    connection = sqlite3.connect(home / DATABASE)
    assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(SCHEMA_VERSION,)]
    assert connection.execute("SELECT count(*) FROM installation").fetchall() == [(1,)]
    connection.close()
    left = {path.name for path in home.iterdir()} - {f"{DATABASE}-wal", f"{DATABASE}-shm", "init.lock"}
    assert left == {DATABASE, KEY_FILE}
    opened = open_workbench(home, {}, embedder=WordHashEmbedder())
    assert opened.spaces.list_spaces() == []
    opened.close()


def test_case_041_four_processes_open_and_read_while_a_writer_holds_the_lock(
    desk: Any, start: Callable[..., Any]
) -> None:
    desk.save()
    with write_lock(desk.bench.home):
        workers = [start() for _ in range(4)]
        for worker in workers:
            worker.ready().go([("look", {})])
        looks = [worker.finish() for worker in workers]
    assert looks == [[{"spaces": 1, "people": 2, "dossiers": 1, "policy": 1, "chain": True}]] * 4


def test_case_041_a_process_that_opens_and_reads_changes_no_byte(
    desk: Any, start: Callable[..., Any]
) -> None:
    desk.save()
    # Read by another process: to close the file in this one would drop the locks of its connections.
    files = [str(desk.bench.home / name) for name in (DATABASE, f"{DATABASE}-wal", KEY_FILE)]
    before = subprocess.check_output(["/bin/cat", *files])
    worker = start().ready()
    worker.go([("look", {})])
    assert worker.finish()[0]["dossiers"] == 1
    assert subprocess.check_output(["/bin/cat", *files]) == before


def test_case_041_four_mcp_servers_answer_while_another_process_saves(
    desk: Any, start: Callable[..., Any], finding: Callable[..., Any]
) -> None:
    """They connect, list and recall; no recall is refused, though each writes a receipt between the saves."""
    desk.save()
    writer = start().ready()
    writer.go([("save", finding(f"Fact {number}.", f"w{number // 50}.example")) for number in range(199)])
    environ = {"MEMORY_CORE_HOME": str(desk.bench.home), "MEMORY_CORE_KEY": desk.key.text}
    answers = []
    with ExitStack() as servers:
        for client in [servers.enter_context(Client([PROGRAM, "mcp"], environ)) for _ in range(4)]:
            assert len(client.connect()) == 4
            for _ in range(5):
                result = client.call("outreach_recall_prospect_context", {"domain": "kelva.example"})
                answers.append(json.loads(result["content"][0]["text"])["data"]["note_count"])
    assert answers == [1] * 20
    assert [outcome for outcome in writer.finish() if "code" in outcome] == []
    assert desk.bench.spaces.verify_receipts(desk.space_id).ok


class Nosy(WordHashEmbedder):
    """An embedder that, while it embeds, has another process take the write lock and empty the journal.

    The lock is free only where no transaction writes; the journal can be emptied only where none reads either.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self.found: list[str] = []

    def embed(self, texts: Sequence[str]) -> list[Any]:
        script = (
            "import sqlite3, sys\n"
            "c = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0)\n"
            "c.execute('BEGIN IMMEDIATE')\n"
            "c.execute('ROLLBACK')\n"
            "print(c.execute('PRAGMA wal_checkpoint(TRUNCATE)').fetchone()[0])\n"
        )
        ran = subprocess.run(
            [sys.executable, "-c", script, str(self._home / DATABASE)],
            capture_output=True,
            text=True,
            check=False,
        )
        self.found.append(ran.stdout.strip() or ran.stderr.strip().splitlines()[-1])
        return super().embed(texts)


@pytest.mark.parametrize("act", ["save", "repeat", "compact", "recall", "import", "rebuild"])
def test_case_040_no_transaction_is_open_while_a_model_embeds(desk: Any, act: str) -> None:
    ids = [desk.save(f"Fact {number}. " + "word " * 1_500)["note"]["note_id"] for number in range(14)]
    nosy = Nosy(desk.bench.home)
    bench = open_workbench(desk.bench.home, {}, embedder=nosy, now=desk.clock)
    fields = {
        "domain": "kelva.example",
        "body": "Another fact.",
        "source_urls": ["https://news.example/kelva"],
        "observed_at": "2026-11-10",
    }
    if act == "save":
        bench.prospects.save(desk.key, fields)
    elif act == "repeat":
        desk.save("Another fact.")
        assert bench.prospects.save(desk.key, fields)[0].repeated
    elif act == "compact":
        merged = {"domain": "kelva.example", "note_ids": ids[:2], "body": "Both.", "expected_note_count": 14}
        bench.prospects.compact(desk.key, merged)
    elif act == "recall":
        recall = bench.prospects.recall(desk.key, {"domain": "kelva.example", "focus": "fact"})
        assert recall.truncated
    elif act == "import":
        rows = bench.transfers.export_notes(desk.space_id, list)
        bench.transfers.import_notes(desk.space_id, enumerate(rows, start=1))
    else:
        bench.transfers.embed_notes(desk.space_id, others_too=True)
        nosy.model_id = "nosy"  # type: ignore[misc]
        assert bench.transfers.embed_notes(desk.space_id, others_too=True) == 14
    assert nosy.found
    assert set(nosy.found) == {"0"}
    bench.close()


def test_case_040_the_probe_sees_a_transaction_that_is_open(desk: Any) -> None:
    """The test above can fail: inside a read the journal stays, inside a write the lock is taken."""
    desk.save()
    nosy = Nosy(desk.bench.home)

    def embed(unit: Any) -> None:
        unit.connection.exec_driver_sql("SELECT count(*) FROM receipts").all()
        nosy.embed(["text"])

    desk.bench.store.read(desk.space_id, embed)
    desk.bench.store.write(desk.space_id, embed)
    assert nosy.found[0] == "1"
    assert "locked" in nosy.found[1]


def test_case_044_a_lock_dies_with_its_process(desk: Any) -> None:
    """No lock file is left to be cleared by hand after a crash in the middle of a transaction."""
    script = (
        "import os, signal, sqlite3, sys\n"
        "c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "c.execute('BEGIN IMMEDIATE')\n"
        "c.execute(\"UPDATE spaces SET name = 'half'\")\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(desk.bench.home / DATABASE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        holder.kill()
    assert desk.save()["note_count"] == 1
    assert [space.name for space in desk.bench.spaces.list_spaces()] == ["Halden"]


def test_case_040_a_lock_that_another_process_keeps_is_one_clear_refusal(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_core.storage.session.BUSY_TIMEOUT_S", 0.05)
    kept: list[ProspectNote] = []
    with write_lock(desk.bench.home):
        with pytest.raises(MemoryCoreError) as refused:
            desk.save()
        assert (refused.value.code, refused.value.details) == ("unavailable", {"retry_after_s": 1})
        assert desk.bench.prospects.dossiers(desk.space_id) == kept
    assert desk.save()["note_count"] == 1
