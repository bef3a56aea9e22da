"""One space is one tenant down to every key and every statement, and migrations make exactly the schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine, LargeBinary, Table, UniqueConstraint, event, inspect

from memory_core.formats.answers import compacted_json
from memory_core.storage import migrations, schema
from memory_core.storage.session import open_engine
from tests.conftest import Clock, Desk, make_desk

TABLES = list(schema.metadata.tables.values())

# What everybody writes or reads in plain: ids, hashes, states, times, counts, settings, receipts' canonical text.
PLAIN_TEXT = {
    "spaces.name",
    "sources.name",
    "sources.vendor",
    "prospect_notes.observed_text",
    "prospect_notes.embedding_model",
    "receipts.body",
}


@pytest.fixture
def migrated(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(f"sqlite:///{tmp_path / 'memory.db'}")
    migrations.upgrade(engine)
    yield engine
    engine.dispose()


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_primary_and_unique_key_and_index_begins_with_the_space(table: Table) -> None:
    assert next(iter(table.primary_key.columns)).name == "space_id"
    unique = [each for each in table.constraints if isinstance(each, UniqueConstraint)]
    for key in (*unique, *table.indexes):
        assert next(iter(key.columns)).name == "space_id", key.name
    assert not any(column.unique for column in table.columns)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_reference_stays_within_its_space(table: Table) -> None:
    for reference in table.foreign_key_constraints:
        pairs = [(element.parent.name, element.column.name) for element in reference.elements]
        assert pairs[0] == ("space_id", "space_id")


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_what_people_and_agents_wrote_is_sealed_bytes(table: Table) -> None:
    for column in table.columns:
        if column.name.startswith("sealed_"):
            assert isinstance(column.type, LargeBinary)
        elif getattr(column.type, "python_type", None) is str and (column.type.length or 999) > 64:
            assert f"{table.name}.{column.name}" in PLAIN_TEXT


def test_migrations_make_exactly_the_schema(migrated: Engine) -> None:
    with migrated.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, schema.metadata) == []


def test_migrations_make_the_same_keys_under_the_same_names(migrated: Engine, tmp_path: Path) -> None:
    direct = open_engine(f"sqlite:///{tmp_path / 'direct.db'}")
    schema.metadata.create_all(direct)
    one, two = inspect(migrated), inspect(direct)
    for table in schema.metadata.tables:
        for what in ("get_pk_constraint", "get_foreign_keys", "get_unique_constraints", "get_indexes"):
            found, wanted = (sorted_by_name(getattr(inspector, what)(table)) for inspector in (one, two))
            assert found == wanted, (table, what)
    direct.dispose()


def sorted_by_name(found: Any) -> Any:
    # A partial index holds its condition as an object; the words count.
    return (
        found if isinstance(found, dict) else sorted(map(repr_of_conditions, found), key=itemgetter("name"))
    )


def repr_of_conditions(index: Any) -> Any:
    options = {name: str(value) for name, value in index.get("dialect_options", {}).items()}
    return {**index, "name": str(index["name"]), "dialect_options": options}


# -- statements -----------------------------------------------------------------------------------


def run_every_verb(desk: Desk) -> None:
    """Use every use case of one space once, as people, sources and the operator do."""
    prospects, spaces = desk.bench.prospects, desk.bench.spaces
    note_ids = [
        desk.save(f"alpha beta {word}", idempotency_key=word)["note"]["note_id"]
        for word in ("gamma", "delta", "epsilon")
    ]
    desk.save("alpha beta gamma", idempotency_key="gamma")
    count = desk.recall(focus="alpha")["note_count"]
    given = {
        "domain": "kelva.example",
        "note_ids": note_ids[:2],
        "body": "Merged.",
        "expected_note_count": count,
    }
    merged = compacted_json(prospects.compact(desk.key, given))["note"]["note_id"]
    prospects.undo_compaction(desk.admin, merged)
    prospects.show(desk.admin, merged)
    rows = desk.bench.transfers.export_notes(desk.space_id, list)
    prospects.delete(desk.admin, merged, with_originals=True)
    desk.bench.transfers.import_notes(desk.space_id, enumerate(rows, 1))
    prospects.dossiers(desk.space_id)
    desk.bench.transfers.embed_notes(desk.space_id, others_too=True)
    prospects.writing_guide(desk.key, {"language": "en"})
    events = [
        {"kind": "campaign", "at": "2026-03-01T09:00:00Z", "domain": "kelva.example", "campaign": "Spring"},
        {
            "kind": "message",
            "at": "2026-03-02T09:00:00Z",
            "address": "jo@kelva.example",
            "campaign": "Spring",
        },
        {"kind": "suppression", "at": "2026-03-03T09:00:00Z", "domain": "kelva.example", "scope": "domain"},
    ]
    desk.bench.transfers.import_relationship(desk.space_id, enumerate(events, 1))
    desk.recall("jo@kelva.example")
    spaces.set_flags(desk.space_id, {"outreach": True})
    for listed in (spaces.list_people, spaces.list_sources, spaces.settings_history, spaces.list_changes):
        listed(desk.space_id)
    person, _ = spaces.create_person(desk.space_id, "Pat", ("admin",))
    spaces.disable_person(desk.space_id, person.person_id)
    spaces.revoke_key(desk.space_id, spaces.list_keys(desk.space_id)[-1].key_id)
    change = spaces.propose_settings(desk.admin, desk.space_id, {"language": "de"}, "why")
    spaces.decide_settings(desk.admin, change.change_id, approve=True)
    spaces.policy(desk.space_id)
    spaces.list_changes(desk.space_id, "approved")
    spaces.verify_receipts(desk.space_id)
    spaces.head(desk.space_id)
    spaces.export_receipts(desk.space_id, list)
    desk.bench.admission.recognise(desk.key)
    spaces.destroy_space(desk.space_id)


def flat(parameters: Any) -> set[Any]:
    rows = parameters if isinstance(parameters, list) else [parameters]
    return {value for row in rows for value in (row.values() if isinstance(row, dict) else row)}


def test_every_statement_of_a_use_case_names_its_space_and_touches_no_other(desk: Desk, clock: Clock) -> None:
    other = make_desk(desk.bench, clock, "Other")
    other.save()
    seen: list[tuple[str, Any]] = []

    def keep(conn: Any, cursor: Any, statement: str, parameters: Any, *rest: Any) -> None:
        seen.append((" ".join(statement.split()), parameters))

    event.listen(desk.bench.store.engine, "before_cursor_execute", keep)
    run_every_verb(desk)
    event.remove(desk.bench.store.engine, "before_cursor_execute", keep)

    read_or_changed = set()
    for statement, parameters in seen:
        verb = statement.split()[0]
        if verb == "BEGIN":
            continue
        assert verb in ("SELECT", "INSERT", "UPDATE", "DELETE"), statement
        values = flat(parameters)
        assert desk.space_id in values, statement
        assert other.space_id not in values, statement
        if verb == "INSERT":
            assert re.match(r"INSERT INTO \w+ \(space_id, ", statement), statement
        else:
            assert re.search(r"\bWHERE\b.*\bspace_id = \?", statement), statement
        read_or_changed |= set(re.findall(r"(?:FROM|INTO|UPDATE) (\w+)", statement))
    assert read_or_changed >= set(schema.metadata.tables) - {"installation"}, "the scenario misses a table"
