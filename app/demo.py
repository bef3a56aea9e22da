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
from memory_core.compose import Workbench, home_folder, init_workbench, open_workbench
from memory_core.formats.canonical import moment
from memory_core.model import Space
from memory_core.surfaces.cli import Outcome, client_configuration, result

FIXTURES = Path(__file__).parent.parent / "data" / "fixtures" / "demo"
SPACE = "Demo"
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
    space = next((each for each in bench.spaces.list_spaces() if each.name == SPACE), None)
    if space is None:
        space = _make(bench)
    people = bench.spaces.list_people(space.space_id)
    source = bench.spaces.list_sources(space.space_id)[0]
    _, key = bench.spaces.create_key(
        space.space_id, source_id=source.source_id, person_id=people[0].person_id, scopes=SCOPES
    )
    document = {
        "space_id": space.space_id,
        "source_id": source.source_id,
        "people": {person.name: person.person_id for person in people},
        "dossiers": len(bench.prospects.dossiers(space.space_id)),
        "key": key,
        "client": client_configuration(key, str(home)),
    }
    lines = [
        f"space_id {space.space_id} ({document['dossiers']} dossiers)",
        *(f"person {person.name} {person.person_id} ({', '.join(person.roles)})" for person in people),
        f"source_id {source.source_id}",
        f"key {key}",
        "",
        "For a desktop client:",
        json.dumps(document["client"], indent=2),
    ]
    bench.close()
    return document, lines


def _make(bench: Workbench) -> Space:
    space = bench.spaces.create_space(SPACE)
    admin, _ = bench.spaces.create_person(space.space_id, "Ines Okafor", ("admin", "outreach_admin"))
    bench.spaces.create_person(space.space_id, "Tomas Brandvold", ("admin", "integration"))
    source = bench.spaces.create_source(space.space_id, "Scout", "Kelva", ("research",))
    _, key = bench.spaces.create_key(
        space.space_id, source_id=source.source_id, person_id=admin.person_id, scopes=SCOPES
    )
    now = bench.prospects.now()
    for row in tqdm(list(_dossiers()), desc="demo notes", disable=None):
        observed_at = (now - timedelta(days=row.pop("observed_days_ago"))).date().isoformat()
        bench.prospects.save(KeyText(key), {**row, "observed_at": observed_at})
    bench.prospects.import_relationship(space.space_id, _history(bench))
    bench.spaces.propose_settings(
        NamedPerson(space_id=space.space_id, person_id=admin.person_id, by_operator=True),
        space.space_id,
        {"stale_after_days": 45},
        "Facts about plant projects keep longer than a month.",
    )
    return space


def _dossiers() -> Iterator[dict[str, Any]]:
    with (FIXTURES / "dossiers.jsonl").open(encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines)


def _history(bench: Workbench) -> Iterator[tuple[int, Mapping[str, Any]]]:
    now = bench.prospects.now()
    with (FIXTURES / "relationship.csv").open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            at = moment(now - timedelta(days=int(row.pop("days_ago"))))
            yield number, {**row, "at": at}
