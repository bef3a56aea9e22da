"""A process that opens a workbench as any other does and acts on command; the tests start several and kill some.

It writes "ready", reads one JSON line `[[verb, fields], ...]`, and answers each act with one JSON line, written before
the next act begins. With `--die-before N` it kills itself before the N-th statement of its first act.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import event

from memory_core.admission import KeyText
from memory_core.compose import open_workbench
from memory_core.embedding import WordHashEmbedder
from memory_core.errors import MemoryCoreError


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("home", type=Path)
    parser.add_argument("--key", default="")
    parser.add_argument("--space", default="")
    parser.add_argument("--now", required=True)
    parser.add_argument("--die-before", type=int)
    given = parser.parse_args()
    now = datetime.fromisoformat(given.now)
    bench = open_workbench(given.home, {}, embedder=WordHashEmbedder(), now=lambda: now)
    key = KeyText(given.key)

    def act(verb: str, fields: dict[str, Any]) -> dict[str, Any]:
        if verb == "save":
            saved, _ = bench.prospects.save(key, fields)
            return {
                "note_id": saved.note.note_id,
                "repeated": saved.repeated,
                "note_count": saved.note_count,
                "near": [near.note.note_id for near in saved.overlap.near_duplicates],
            }
        if verb == "compact":
            compacted = bench.prospects.compact(key, fields)
            return {"note_id": compacted.note.note_id, "archived": list(compacted.archived)}
        if verb == "recall":
            return {"note_count": bench.prospects.recall(key, fields).note_count}
        if verb == "look":
            # Every act that only reads, as the operator and the Console do it.
            return {
                "spaces": len(bench.spaces.list_spaces()),
                "people": len(bench.spaces.list_people(given.space)),
                "dossiers": len(bench.prospects.dossiers(given.space)),
                "policy": bench.spaces.policy(given.space)[0],
                "chain": bench.spaces.verify_receipts(given.space).ok,
            }
        raise ValueError(verb)

    print("ready", flush=True)
    commands = json.loads(sys.stdin.readline())
    if given.die_before is not None:
        _die_before(bench.store.engine, given.die_before)
    for verb, fields in commands:
        try:
            outcome = act(verb, fields)
        except MemoryCoreError as error:
            outcome = {"code": error.code, **error.details}
        print(json.dumps(outcome), flush=True)
    bench.close()


def _die_before(engine: Any, number: int) -> None:
    """Kill this process before a statement, COMMIT among them, as a failing machine would."""
    seen = 0

    def count(*_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == number:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(engine, "before_cursor_execute", count)
    event.listen(engine, "commit", count)


if __name__ == "__main__":
    main()
