"""Bringing a database to this version's schema; a newer one is refused and not touched."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, Engine

from memory_core.errors import unavailable
from memory_core.storage.schema import SCHEMA_VERSION
from memory_core.storage.session import schema_version, sqlite_path, waiting_for_the_lock

_KNOWN = ("0001",)


def check_version(version: str | None) -> bool:
    """Say whether a database is at this version's schema; False where it is older and can be migrated.

    Raises `unavailable` where it is newer than the program.
    """
    if version is not None and version not in _KNOWN:
        raise unavailable(
            f"the database has schema {version}, which is newer than this program's {SCHEMA_VERSION}; "
            "install the newer version",
            schema=version,
        )
    return version == SCHEMA_VERSION


def upgrade(engine: Engine) -> None:
    """Migrate to this version's schema in one transaction, after a copy of a SQLite file was kept beside it.

    Of several that come at once, one migrates and the others wait for it, as long as for any other lock.
    """
    waiting_for_the_lock(lambda: _upgrade(engine))


def _upgrade(engine: Engine) -> None:
    path = sqlite_path(engine.url)
    with engine.connect() as connection:
        before = schema_version(connection)
    if check_version(before):
        return
    if path is not None and before is not None:
        _keep_copy(path, before)
    # SQLite takes the writer's lock before Alembic looks at the version, so two processes never migrate at once.
    with engine.connect().execution_options(memory_core_write=True) as connection:
        driver = connection.connection.driver_connection
        if isinstance(driver, sqlite3.Connection):
            # Rebuilding a table with foreign keys on would silently delete the rows of its children; the pragma
            # has no effect inside a transaction, so it goes to the driver before one begins.
            driver.execute("PRAGMA foreign_keys=OFF").close()
        with connection.begin():
            if not check_version(schema_version(connection)):
                _run(connection)
            if path is not None and connection.exec_driver_sql("PRAGMA foreign_key_check").all():
                raise unavailable("the migration would break references; the database was left as it was")
    engine.dispose()


def _run(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _keep_copy(path: Path, version: str) -> None:
    kept = path.with_name(f"{path.name}.schema-{version}")
    kept.touch(0o600)
    with (
        closing(sqlite3.connect(path)) as source,
        closing(sqlite3.connect(kept)) as target,
    ):
        source.backup(target)
