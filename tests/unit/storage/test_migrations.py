"""A database is brought to this version's schema whole or not at all; a newer one is refused and not touched."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from shutil import copytree

import pytest
from sqlalchemy import Engine, insert, inspect, text

from memory_core.errors import Kind, MemoryCoreError
from memory_core.storage import migrations, schema
from memory_core.storage.migrations import check_version, upgrade
from memory_core.storage.session import open_engine, schema_version

NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)

# Rebuilds a parent table, which is where a migration of SQLite can lose the children's rows.
NEXT = """
import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("spaces", recreate="always") as batch:
        batch.add_column(sa.Column("region", sa.Text(), nullable=True))
    op.create_table("extras", sa.Column("space_id", sa.String(36), nullable=False), sa.PrimaryKeyConstraint("space_id"))
    {then}
"""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    opened = open_engine(f"sqlite:///{tmp_path / 'memory.db'}")
    yield opened
    opened.dispose()


@pytest.fixture
def later_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Make the program one version younger than the database: with a migration 0002 that ends with a statement."""

    def install(then: str) -> None:
        folder = tmp_path / "migrations"
        copytree(Path(migrations.__file__).parent, folder, dirs_exist_ok=True)
        (folder / "versions" / "0002_next.py").write_text(NEXT.format(then=then), encoding="utf-8")
        monkeypatch.setattr(migrations, "__file__", str(folder / "__init__.py"))
        monkeypatch.setattr(migrations, "SCHEMA_VERSION", "0002")
        monkeypatch.setattr(migrations, "_KNOWN", ("0001", "0002"))

    return install


def at_version(engine: Engine) -> str | None:
    with engine.connect() as connection:
        return schema_version(connection)


def fill(engine: Engine) -> None:
    """Write a space with a row below it."""
    with engine.connect().execution_options(memory_core_write=True) as connection, connection.begin():
        connection.execute(
            text("INSERT INTO spaces VALUES ('s', 'Halden', 1, 1, 1, '2026-11-20T09:30:00.000000Z', NULL)")
        )
        connection.execute(
            insert(schema.daily_saves).values(space_id="s", starts_at=NOW, saves=7, last_at=NOW)
        )


def saves(engine: Engine) -> list[int]:
    with engine.connect() as connection:
        return list(connection.scalars(text("SELECT saves FROM daily_saves")))


def test_an_empty_database_gets_the_whole_schema_and_its_version(engine: Engine) -> None:
    upgrade(engine)
    assert at_version(engine) == schema.SCHEMA_VERSION
    assert set(inspect(engine).get_table_names()) == {*schema.metadata.tables, "alembic_version"}


def test_this_versions_schema_is_the_last_that_the_migrations_know() -> None:
    assert migrations._KNOWN[-1] == schema.SCHEMA_VERSION
    files = sorted(Path(migrations.__file__).parent.joinpath("versions").glob("[0-9]*.py"))
    assert tuple(file.name[:4] for file in files) == migrations._KNOWN


def test_upgrading_again_changes_nothing_and_keeps_no_copy(engine: Engine, tmp_path: Path) -> None:
    upgrade(engine)
    fill(engine)
    before = (tmp_path / "memory.db").read_bytes()
    upgrade(engine)
    assert (tmp_path / "memory.db").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["memory.db"]


def test_several_that_upgrade_an_empty_database_at_once_make_one_schema(tmp_path: Path) -> None:
    engines = [open_engine(f"sqlite:///{tmp_path / 'memory.db'}") for _ in range(3)]
    with closing(sqlite3.connect(tmp_path / "memory.db")) as connection:
        connection.execute("PRAGMA journal_mode=WAL")

    def run(engine: Engine) -> str | None:
        upgrade(engine)
        return at_version(engine)

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(run, engines)) == [schema.SCHEMA_VERSION] * 3
    for engine in engines:
        engine.dispose()


# -- newer ----------------------------------------------------------------------------------------


def test_a_newer_database_is_refused_by_name_and_not_touched(engine: Engine, tmp_path: Path) -> None:
    upgrade(engine)
    with closing(sqlite3.connect(tmp_path / "memory.db")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0099'")
        connection.commit()
    before = (tmp_path / "memory.db").read_bytes()
    with pytest.raises(MemoryCoreError) as caught:
        upgrade(engine)
    assert (caught.value.kind, caught.value.code) == (Kind.UNAVAILABLE, "unavailable")
    assert caught.value.details["schema"] == "0099"
    assert "newer" in caught.value.message
    assert (tmp_path / "memory.db").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["memory.db"]


def test_a_version_is_current_older_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "SCHEMA_VERSION", "0002")
    monkeypatch.setattr(migrations, "_KNOWN", ("0001", "0002"))
    assert [check_version(version) for version in ("0002", "0001", None)] == [True, False, False]
    for unknown in ("0003", "", "abc"):
        with pytest.raises(MemoryCoreError):
            check_version(unknown)


# -- older ----------------------------------------------------------------------------------------


def test_an_older_database_is_migrated_after_a_copy_was_kept_and_loses_no_row(
    engine: Engine, tmp_path: Path, later_version: Callable[[str], None]
) -> None:
    upgrade(engine)
    fill(engine)
    later_version("pass")
    upgrade(engine)
    assert at_version(engine) == "0002"
    assert "region" in {column["name"] for column in inspect(engine).get_columns("spaces")}
    assert saves(engine) == [7], "rebuilding the parent deleted its children"
    kept = open_engine(f"sqlite:///{tmp_path / 'memory.db.schema-0001'}")
    assert (at_version(kept), saves(kept)) == ("0001", [7])
    assert "extras" not in inspect(kept).get_table_names()
    kept.dispose()


def test_references_are_checked_again_after_a_migration(
    engine: Engine, later_version: Callable[[str], None]
) -> None:
    upgrade(engine)
    later_version("pass")
    upgrade(engine)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


@pytest.mark.parametrize(
    "then",
    ["raise RuntimeError('stopped')", "op.execute('no such statement')", 'op.execute("DELETE FROM spaces")'],
)
def test_a_migration_that_fails_leaves_the_database_as_it_was(
    engine: Engine, then: str, later_version: Callable[[str], None]
) -> None:
    upgrade(engine)
    fill(engine)
    later_version(then)
    with pytest.raises(Exception):  # noqa: B017 - whatever the migration raises
        upgrade(engine)
    engine.dispose()
    assert at_version(engine) == "0001"
    assert saves(engine) == [7]
    assert "extras" not in inspect(engine).get_table_names()
    assert "region" not in {column["name"] for column in inspect(engine).get_columns("spaces")}


def test_a_copy_holds_what_was_still_in_the_journal(
    engine: Engine, tmp_path: Path, later_version: Callable[[str], None]
) -> None:
    with closing(sqlite3.connect(tmp_path / "memory.db")) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    upgrade(engine)
    with closing(sqlite3.connect(tmp_path / "memory.db")) as reader:
        # A reader keeps the journal from being folded into the file.
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM spaces").fetchall()
        fill(engine)
        later_version("pass")
        upgrade(engine)
    kept = open_engine(f"sqlite:///{tmp_path / 'memory.db.schema-0001'}")
    assert saves(kept) == [7]
    kept.dispose()


def test_the_copy_is_its_owners_alone_as_the_database_is(
    engine: Engine, tmp_path: Path, later_version: Callable[[str], None]
) -> None:
    (tmp_path / "memory.db").touch(0o600)
    upgrade(engine)
    later_version("pass")
    upgrade(engine)
    assert (tmp_path / "memory.db.schema-0001").stat().st_mode & 0o077 == 0
