"""`memory-core demo`: a space of invented companies, made through the same use cases as any other."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

from memory_core.admission import KeyText, NamedPerson
from memory_core.compose import Workbench, init_workbench, open_workbench
from memory_core.formats.canonical import moment
from memory_core.home import home_folder
from memory_core.surfaces.cli import Outcome, client_configuration, result

FIXTURES = Path(__file__).parent.parent / "data" / "fixtures" / "demo"
SPACE = "Demo"
RECORD = "demo.json"
KEY_DAYS = 30
SCOPES = ("outreach_read", "outreach_write")


@click.command(
    "demo", epilog="\b\nExamples:\n  memory-core demo\n  MEMORY_CORE_HOME=.demo memory-core demo --json"
)
@result
def command() -> Outcome:
    """Make the fixture space, or issue a fresh key for the one that is there."""
    home = home_folder()
    init_workbench(home)
    bench = open_workbench(home)
    record = home / RECORD
    made = json.loads(record.read_text(encoding="utf-8")) if record.exists() else _make(bench)
    # Named last and at once: a demo that was interrupted is made anew, and no other space is ever taken for it.
    beside = record.with_suffix(".partial")
    beside.write_text(json.dumps(made), encoding="utf-8")
    beside.replace(record)
    space_id = made["space_id"]
    _, key = bench.spaces.create_key(
        space_id,
        source_id=made["source_id"],
        person_id=made["owner_id"],
        scopes=SCOPES,
        expires_at=bench.prospects.now() + timedelta(days=KEY_DAYS),
    )
    people = bench.spaces.list_people(space_id)
    document = {
        "space_id": space_id,
        "source_id": made["source_id"],
        "people": {person.name: person.person_id for person in people},
        "dossiers": len(bench.prospects.dossiers(space_id)),
        "key": key,
        "client": client_configuration(key, str(home)),
    }
    lines = [
        f"space_id {space_id} ({document['dossiers']} dossiers)",
        *(f"person {person.name} {person.person_id} ({', '.join(person.roles)})" for person in people),
        f"source_id {made['source_id']}",
        f"key {key} (for {KEY_DAYS} days)",
        "",
        "For a desktop client:",
        json.dumps(document["client"], indent=2),
    ]
    bench.close()
    return document, lines


def _make(bench: Workbench) -> dict[str, str]:
    space_id = bench.spaces.create_space(SPACE).space_id
    admin, _ = bench.spaces.create_person(space_id, "Ines Okafor", ("admin", "outreach_admin"))
    bench.spaces.create_person(space_id, "Tomas Brandvold", ("admin", "integration"))
    source = bench.spaces.create_source(space_id, "Scout", "Kelva", ("research",))
    made_with, key = bench.spaces.create_key(
        space_id, source_id=source.source_id, person_id=admin.person_id, scopes=SCOPES
    )
    now = bench.prospects.now()
    for row in tqdm(list(_dossiers()), desc="demo notes", disable=None):
        observed_at = (now - timedelta(days=row.pop("observed_days_ago"))).date().isoformat()
        bench.prospects.save(KeyText(key), {**row, "observed_at": observed_at})
    bench.spaces.revoke_key(space_id, made_with.key_id)
    bench.transfers.import_relationship(space_id, _history(bench))
    bench.spaces.propose_settings(
        NamedPerson(space_id=space_id, person_id=admin.person_id),
        space_id,
        {"stale_after_days": 45},
        "Facts about plant projects keep longer than a month.",
    )
    return {"space_id": space_id, "source_id": source.source_id, "owner_id": admin.person_id}


def _dossiers() -> Iterator[dict[str, Any]]:
    with (FIXTURES / "dossiers.jsonl").open(encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines)


def _history(bench: Workbench) -> Iterator[tuple[int, Mapping[str, Any]]]:
    now = bench.prospects.now()
    with (FIXTURES / "relationship.csv").open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            at = moment(now - timedelta(days=int(row.pop("days_ago"))))
            yield number, {**row, "at": at}
