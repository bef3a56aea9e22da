"""A unit of work is kept whole or not at all, waits for its turn, and never says what it holds."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import event, insert, select, text, update
from sqlalchemy.exc import DBAPIError, OperationalError

from memory_core.compose import new_uuid
from memory_core.errors import Kind, MemoryCoreError
from memory_core.formats import chain
from memory_core.model import OPERATOR, Space
from memory_core.storage import identities, ledger, schema, session
from memory_core.storage.session import MasterKeys, Store, Unit, open_engine, sqlite_path

NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
ONE = "00000000-0000-4000-8000-000000000001"
TWO = "00000000-0000-4000-8000-000000000002"
TOKEN = "planted-zx81"
MASTER = b"k" * 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    opened = open_engine(f"sqlite:///{path}")
    schema.metadata.create_all(opened)
    made = Store(opened, MasterKeys(MASTER), lambda: NOW, new_uuid)
    for space_id in (ONE, TWO):
        add_space(made, space_id)
    yield made
    opened.dispose()


def add_space(store: Store, space_id: str, then: Callable[[Unit], Any] = lambda unit: None) -> None:
    space = Space(
        space_id=space_id, name="Halden", outreach=True, subscription=True, settings_version=1, created_at=NOW
    )
    store.create_space(space_id, lambda connection: identities.insert_space(connection, space, {}), then)


def rename(name: str) -> Callable[[Unit], None]:
    def work(unit: Unit) -> None:
        unit.connection.execute(
            update(schema.spaces).where(schema.spaces.c.space_id == unit.space_id).values(name=name)
        )

    return work


def receipt(unit: Unit) -> None:
    ledger.append(unit, OPERATOR, "admin", "test")


def name_of(store: Store, space_id: str = ONE) -> str:
    return store.read(space_id, lambda unit: identities.space_of(unit).name)


@contextmanager
def lock_held(path: Path) -> Iterator[sqlite3.Connection]:
    """Hold the writer's lock from outside, as another process does."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other


def refusal(work: Callable[[], Any]) -> MemoryCoreError:
    with pytest.raises(MemoryCoreError) as caught:
        work()
    return caught.value


# -- all or nothing -------------------------------------------------------------------------------


def test_what_a_unit_wrote_is_kept_when_its_work_returns(store: Store) -> None:
    store.write(ONE, rename("Renamed"))
    assert name_of(store) == "Renamed"


@pytest.mark.parametrize(
    "error", [ValueError("x"), KeyboardInterrupt(), MemoryCoreError(Kind.CONFLICT, "conflict", "x")]
)
def test_nothing_is_kept_of_a_unit_that_fails_its_receipt_neither(store: Store, error: BaseException) -> None:
    def work(unit: Unit) -> None:
        rename("Renamed")(unit)
        receipt(unit)
        raise error

    with pytest.raises(type(error)):
        store.write(ONE, work)
    assert name_of(store) == "Halden"
    assert store.read(ONE, lambda unit: ledger.head(unit.connection, ONE)) == (0, chain.GENESIS)


def test_a_space_is_created_with_its_first_receipt_or_not_at_all(store: Store) -> None:
    other = "00000000-0000-4000-8000-000000000003"

    def fail(unit: Unit) -> None:
        receipt(unit)
        raise ValueError

    with pytest.raises(ValueError):
        add_space(store, other, fail)
    assert refusal(lambda: store.read(other, lambda unit: None)).code == "not_found"
    assert {space.space_id for space in store.look(identities.all_spaces)} == {ONE, TWO}


def test_a_reader_sees_one_state_from_its_first_statement_to_its_last(store: Store) -> None:
    def work(unit: Unit) -> tuple[str, str]:
        before = identities.space_of(unit).name
        store.write(ONE, rename("Renamed"))
        return before, identities.space_of(unit).name

    assert store.read(ONE, work) == ("Halden", "Halden")
    assert name_of(store) == "Renamed"


# -- locks ----------------------------------------------------------------------------------------


def test_writers_begin_immediate_and_readers_do_not(store: Store) -> None:
    seen: list[str] = []
    with store.engine.connect() as connection:
        # Every transaction of this test runs on the pool's one connection.
        cast("sqlite3.Connection", connection.connection.driver_connection).set_trace_callback(seen.append)
    store.read(ONE, lambda unit: None)
    store.write(ONE, lambda unit: None)
    store.look(lambda connection: None)
    assert [each for each in seen if each.startswith("BEGIN")] == ["BEGIN", "BEGIN IMMEDIATE", "BEGIN"]


def test_case_041_readers_do_not_wait_while_a_writer_holds_the_lock(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "BUSY_TIMEOUT_S", -1.0)
    with lock_held(path) as other:
        other.execute("UPDATE spaces SET name = 'uncommitted'")
        assert name_of(store) == "Halden"
        assert len(store.look(identities.all_spaces)) == 2


def test_case_041_opening_a_store_and_reading_writes_nothing(store: Store, path: Path) -> None:
    statements: list[str] = []
    engine = open_engine(f"sqlite:///{path}")
    event.listen(engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    fresh = Store(engine, MasterKeys(MASTER), lambda: NOW, new_uuid)
    name_of(fresh)
    engine.dispose()
    assert statements
    assert {statement.split()[0] for statement in statements} == {"SELECT"}


def test_a_lock_that_stays_gives_unavailable_at_the_end(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "BUSY_TIMEOUT_S", 0.0)
    calls: list[int] = []
    with lock_held(path):
        refused = refusal(lambda: store.write(ONE, lambda unit: calls.append(1)))
    assert (refused.kind, refused.code) == (Kind.UNAVAILABLE, "unavailable")
    assert refused.details["retry_after_s"] >= 1
    assert calls == []
    store.write(ONE, rename("Afterwards"))
    assert name_of(store) == "Afterwards"


def test_a_writer_waits_until_the_lock_is_free(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    naps: list[float] = []
    with lock_held(path) as other:

        def sleep(seconds: float) -> None:
            naps.append(seconds)
            if len(naps) == 3:
                other.execute("ROLLBACK")

        monkeypatch.setattr(session, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=sleep))
        store.write(ONE, rename("Renamed"))
    assert len(naps) == 3
    assert all(0 <= nap <= 0.1 for nap in naps)
    assert name_of(store) == "Renamed"


@pytest.mark.parametrize("sqlstate", ["40001", "40P01"])
def test_a_serialization_failure_runs_the_work_again_from_its_start(store: Store, sqlstate: str) -> None:
    seen: list[str] = []

    def work(unit: Unit) -> None:
        seen.append(identities.space_of(unit).name)
        rename("Renamed")(unit)
        if len(seen) == 1:
            cause = Exception("could not serialize access")
            cause.sqlstate = sqlstate  # type: ignore[attr-defined]
            raise OperationalError("UPDATE", {}, cause)

    store.write(ONE, work)
    assert seen == ["Halden", "Halden"]


def test_a_deadlock_that_never_ends_gives_unavailable(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1_000, 10))
    monkeypatch.setattr(
        session, "time", SimpleNamespace(monotonic=lambda: float(next(clock)), sleep=lambda seconds: None)
    )

    def work(unit: Unit) -> None:
        cause = Exception()
        cause.sqlstate = "40001"  # type: ignore[attr-defined]
        raise OperationalError("UPDATE", {}, cause)

    assert refusal(lambda: store.write(ONE, work)).code == "unavailable"


def test_threads_that_write_at_once_lose_nothing_and_break_no_chain(store: Store) -> None:
    def write(number: int) -> None:
        store.write((ONE, TWO)[number % 2], receipt)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(40)))
    for space_id in (ONE, TWO):
        verdict = store.read(
            space_id, lambda unit: chain.verify(ledger.stored(unit.connection, unit.space_id))
        )
        assert (verdict.ok, verdict.receipts) == (True, 20)


# -- what an error may say ------------------------------------------------------------------------


def assert_silent(refused: MemoryCoreError) -> None:
    assert TOKEN not in str(refused) + repr(refused.details)
    assert refused.__cause__ is None
    assert refused.__suppress_context__


def test_a_violated_key_is_a_conflict_without_the_values(store: Store) -> None:
    def work(unit: Unit) -> None:
        row = {"space_id": ONE, "note_id": TOKEN, "deleted_at": NOW}
        unit.connection.execute(insert(schema.deleted_notes).values(row))
        unit.connection.execute(insert(schema.deleted_notes).values(row))

    refused = refusal(lambda: store.write(ONE, work))
    assert (refused.kind, refused.code) == (Kind.CONFLICT, "conflict")
    assert_silent(refused)


def test_a_statement_that_the_database_refuses_is_unavailable_without_its_text(store: Store) -> None:
    refused = refusal(
        lambda: store.write(
            ONE, lambda unit: unit.connection.execute(text(f"SELECT '{TOKEN}' FROM no_such_table"))
        )
    )
    assert (refused.kind, refused.code) == (Kind.UNAVAILABLE, "unavailable")
    assert_silent(refused)


def test_the_drivers_own_error_hides_the_parameters(store: Store) -> None:
    with store.engine.connect() as connection, pytest.raises(DBAPIError) as caught:
        connection.execute(text("INSERT INTO deleted_notes VALUES (:a, :b)"), {"a": TOKEN, "b": 1})
    assert TOKEN not in str(caught.value)


def test_a_row_without_its_space_is_refused_by_the_database(store: Store) -> None:
    row = {"space_id": "00000000-0000-4000-8000-00000000dead", "note_id": TWO, "deleted_at": NOW}
    refused = refusal(
        lambda: store.write(
            ONE, lambda unit: unit.connection.execute(insert(schema.deleted_notes).values(row))
        )
    )
    assert refused.code == "conflict"


def test_a_full_disk_is_said_in_plain_words_and_leaves_the_store_as_it_was(store: Store) -> None:
    def work(unit: Unit) -> None:
        unit.connection.execute(text("PRAGMA max_page_count=1"))
        for number in range(2_000):
            unit.connection.execute(
                insert(schema.deleted_notes).values(space_id=ONE, note_id=f"{number:036}", deleted_at=NOW)
            )

    refused = refusal(lambda: store.write(ONE, work))
    assert (refused.code, refused.message) == ("unavailable", "the disk is full")
    assert name_of(store) == "Halden"


def test_a_file_that_is_no_database_is_said_in_plain_words(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    path.write_bytes(TOKEN.encode() * 1_000)
    engine = open_engine(f"sqlite:///{path}")
    refused = refusal(
        lambda: Store(engine, MasterKeys(MASTER), lambda: NOW, new_uuid).read(ONE, lambda unit: None)
    )
    engine.dispose()
    assert (refused.code, refused.message) == ("unavailable", "the file is not a database")


def test_a_unit_shows_neither_its_connection_nor_its_keys(store: Store) -> None:
    shown = store.read(ONE, repr)
    assert shown == f"Unit(space_id='{ONE}')"


# -- keys -----------------------------------------------------------------------------------------


def test_an_unknown_space_is_not_found_for_reading_and_writing(store: Store) -> None:
    for verb in (store.read, store.write):
        refused = refusal(lambda verb=verb: verb("00000000-0000-4000-8000-00000000dead", lambda unit: None))  # type: ignore[misc]
        assert (refused.kind, refused.message) == (Kind.NOT_FOUND, "no such space")


def test_two_spaces_have_keys_of_their_own(store: Store) -> None:
    sealed = store.read(ONE, lambda unit: unit.seal("t", "r", "f", TOKEN))
    assert store.read(ONE, lambda unit: unit.open_text("t", "r", "f", sealed)) == TOKEN
    assert (
        refusal(lambda: store.read(TWO, lambda unit: unit.open_text("t", "r", "f", sealed))).code
        == "unavailable"
    )
    digests = {
        store.read(space_id, lambda unit: unit.digest("domain", "kelva.example")) for space_id in (ONE, TWO)
    }
    assert len(digests) == 2


def test_a_missing_master_key_is_named_by_its_id(store: Store) -> None:
    refused = refusal(
        lambda: Store(store.engine, MasterKeys(b"x" * 32), lambda: NOW, new_uuid).read(ONE, lambda unit: None)
    )
    assert refused.code == "unavailable"
    assert refused.details["key_id"] == MasterKeys(MASTER).current_id


def test_a_retired_master_key_still_unwraps_and_a_new_space_uses_the_current_one(store: Store) -> None:
    both = Store(store.engine, MasterKeys(b"x" * 32, (MASTER,)), lambda: NOW, new_uuid)
    assert name_of(both) == "Halden"
    third = "00000000-0000-4000-8000-000000000003"
    add_space(both, third)
    assert refusal(lambda: store.read(third, lambda unit: None)).code == "unavailable"
    assert name_of(both, third) == "Halden"


def test_a_destroyed_space_is_gone_and_its_sealed_bytes_never_open_again(store: Store, path: Path) -> None:
    sealed = store.write(ONE, lambda unit: unit.seal("t", "r", "f", TOKEN))
    keys = store.read(ONE, lambda unit: unit.keys)
    elsewhere = Store(store.engine, MasterKeys(MASTER), lambda: NOW, new_uuid)
    assert elsewhere.read(ONE, lambda unit: unit.open_text("t", "r", "f", sealed)) == TOKEN
    store.destroy_space(ONE, receipt, NOW)
    for each in (store, elsewhere, Store(store.engine, MasterKeys(MASTER), lambda: NOW, new_uuid)):
        assert refusal(lambda each=each: each.read(ONE, lambda unit: None)).code == "not_found"  # type: ignore[misc]
        assert refusal(lambda each=each: each.write(ONE, lambda unit: None)).code == "not_found"  # type: ignore[misc]
    assert keys.open("t", "r", "f", sealed) == TOKEN.encode(), "only because this test kept the key"
    assert name_of(store, TWO) == "Halden"


def test_the_wrapped_keys_of_a_destroyed_space_are_in_no_file(store: Store, path: Path) -> None:
    wrapped = store.read(
        ONE,
        lambda unit: list(
            unit.connection.scalars(
                select(schema.data_keys.c.wrapped).where(schema.data_keys.c.space_id == ONE)
            )
        ),
    )
    assert len(wrapped) == 2
    on_disk = [each.read_bytes() for each in path.parent.iterdir()]
    assert all(any(key in content for content in on_disk) for key in wrapped)
    store.destroy_space(ONE, receipt, NOW)
    for file in path.parent.iterdir():
        assert not any(key in file.read_bytes() for key in wrapped), file.name


def test_a_space_that_fails_to_be_destroyed_stays_readable(store: Store) -> None:
    def fail(unit: Unit) -> None:
        raise ValueError

    with pytest.raises(ValueError):
        store.destroy_space(ONE, fail, NOW)
    assert name_of(store) == "Halden"


def test_a_data_key_rotated_by_another_process_takes_effect_at_once(store: Store) -> None:
    sealed = store.write(ONE, lambda unit: unit.seal("t", "r", "f", TOKEN))
    elsewhere = Store(store.engine, MasterKeys(MASTER), lambda: NOW, new_uuid)

    def rotate(unit: Unit) -> None:
        keys = schema.data_keys
        unit.connection.execute(
            update(keys).where(keys.c.space_id == ONE, keys.c.purpose == "seal").values(status="retired")
        )
        unit.connection.execute(
            insert(keys).values(
                space_id=ONE,
                key_id="ab" * 8,
                purpose="seal",
                wrapped=session.wrap(MASTER, b"n" * 32),
                master_key_id=MasterKeys(MASTER).current_id,
                status="current",
                created_at=NOW,
            )
        )

    elsewhere.write(ONE, rotate)
    assert store.read(ONE, lambda unit: unit.keys.sealing_id) == "ab" * 8
    assert store.read(ONE, lambda unit: unit.open_text("t", "r", "f", sealed)) == TOKEN


# -- engines --------------------------------------------------------------------------------------


def test_every_connection_syncs_fully_checks_references_and_overwrites_what_it_deletes(store: Store) -> None:
    with store.engine.connect() as one, store.engine.connect() as other:
        for connection in (one, other):
            values = [
                connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("synchronous", "foreign_keys", "secure_delete", "journal_mode")
            ]
            assert values == [2, 1, 1, "wal"]


def test_the_file_of_a_url_is_known_only_for_sqlite() -> None:
    assert sqlite_path("sqlite:////tmp/memory.db") == Path("/tmp/memory.db")
    assert sqlite_path("sqlite://") is None
    assert sqlite_path("postgresql+psycopg://host/db") is None


def test_case_085_times_keep_every_microsecond(store: Store) -> None:
    at = datetime(2026, 11, 20, 9, 30, 0, 123457, tzinfo=UTC)

    def work(unit: Unit) -> datetime | None:
        unit.connection.execute(
            update(schema.spaces).where(schema.spaces.c.space_id == ONE).values(created_at=at)
        )
        return unit.connection.scalar(
            select(schema.spaces.c.created_at).where(schema.spaces.c.space_id == ONE)
        )

    assert store.write(ONE, work) == at
