"""Engines and the unit of work: a use case's statements run in one transaction of one space, or not at all.

Writers of SQLite begin with BEGIN IMMEDIATE: with the default transactions two writers that read before they write
break a hash chain without any error. A lock that is taken, or a serialization failure, runs the work again from its
start, so a unit's work must have no effect outside its transaction.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar, cast

from sqlalchemy import Connection as Connection  # noqa: PLC0414 - for admission, which speaks no SQL itself
from sqlalchemy import Engine, bindparam, create_engine, event, insert, select, text, update
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, OperationalError

from memory_core.errors import MemoryCoreError, conflict, not_found, unavailable
from memory_core.formats.envelope import SpaceKeys, key_id_of, new_key, new_key_id, unwrap, wrap
from memory_core.model import Clock, NewId
from memory_core.storage import schema

T = TypeVar("T")

BUSY_TIMEOUT_S = 30.0
SCRUB_TIMEOUT_S = 1.0
_RETRY_JITTER_S = 0.004
_WRITE = "memory_core_write"
# Built once: it runs at the start of every unit.
_CURRENT_KEY = select(schema.data_keys.c.key_id).where(
    schema.data_keys.c.space_id == bindparam("in_space"),
    schema.data_keys.c.purpose == "seal",
    schema.data_keys.c.status == "current",
)


class MasterKeys:
    """The keys that wrap data keys; they live outside the database. `current` wraps, retired ones only unwrap."""

    def __init__(self, current: bytes, retired: tuple[bytes, ...] = ()) -> None:
        self.current_id = key_id_of(current)
        self._keys = {key_id_of(key): key for key in (*retired, current)}

    def __contains__(self, key_id: str) -> bool:
        return key_id in self._keys

    def get(self, key_id: str) -> bytes:
        """Give a key by id. Raises `unavailable` naming the id that is missing."""
        try:
            return self._keys[key_id]
        except KeyError:
            raise unavailable(
                f"the master key {key_id} that wrapped this workbench's data keys is not here", key_id=key_id
            ) from None


@dataclass(frozen=True, slots=True)
class Unit:
    """One transaction within one space: its connection, the space's opened keys, and where time and ids come from."""

    connection: Connection = field(repr=False)
    space_id: str
    keys: SpaceKeys = field(repr=False)
    now: Clock = field(repr=False)
    new_id: NewId = field(repr=False)

    def seal(self, table: str, row: str, name: str, plain: str | bytes) -> bytes:
        return self.keys.seal(table, row, name, plain.encode() if isinstance(plain, str) else plain)

    def open_text(self, table: str, row: str, name: str, sealed: bytes) -> str:
        return self.keys.open(table, row, name, sealed).decode()

    def digest(self, purpose: str, *parts: str) -> str:
        return self.keys.digest(purpose, *parts)


class Store:
    """The database of one workbench and the keys that open it. Safe to use from several threads."""

    def __init__(self, engine: Engine, master_keys: MasterKeys, now: Clock, new_id: NewId) -> None:
        self.engine = engine
        self._now, self._new_id = now, new_id
        self._writer = engine.execution_options(**{_WRITE: True})
        self.master_keys = master_keys
        self._opened: dict[str, SpaceKeys] = {}
        self._lock = Lock()

    # -- transactions -----------------------------------------------------------------------------

    def read(self, space_id: str, work: Callable[[Unit], T]) -> T:
        """Run `work` in a read transaction of the space. Raises `not_found` for a space that is not there."""
        return self._transact(lambda connection: work(self._unit(connection, space_id)), write=False)

    def write(self, space_id: str, work: Callable[[Unit], T]) -> T:
        """Run `work` in one write transaction of the space: all of it is kept, or nothing."""
        return self._transact(lambda connection: work(self._unit(connection, space_id)), write=True)

    def look(self, work: Callable[[Connection], T]) -> T:
        """Run a read that opens nothing sealed: who calls, or an operator's across spaces."""
        return self._transact(work, write=False)

    def create_space(self, space_id: str, work: Callable[[Connection], None], then: Callable[[Unit], T]) -> T:
        """Run `work` (which inserts the space's row), draw its keys, then run `then` in the same transaction."""

        def act(connection: Connection) -> T:
            work(connection)
            now = connection.scalar(
                select(schema.spaces.c.created_at).where(schema.spaces.c.space_id == space_id)
            )
            for purpose in ("seal", "index"):
                connection.execute(
                    insert(schema.data_keys).values(
                        space_id=space_id,
                        key_id=new_key_id(),
                        purpose=purpose,
                        wrapped=wrap(self.master_keys.get(self.master_keys.current_id), new_key()),
                        master_key_id=self.master_keys.current_id,
                        status="current",
                        created_at=now,
                    )
                )
            connection.execute(insert(schema.receipt_heads).values(space_id=space_id, seq=0, hash="0" * 64))
            return then(self._unit(connection, space_id))

        return self._transact(act, write=True)

    def destroy_space(self, space_id: str, work: Callable[[Unit], Any], now: Any) -> None:
        """Forget the space's data keys after `work` wrote its last receipt; nothing of it can be read again."""

        def act(unit: Unit) -> None:
            work(unit)
            unit.connection.execute(schema.data_keys.delete().where(schema.data_keys.c.space_id == space_id))
            unit.connection.execute(
                update(schema.spaces)
                .where(schema.spaces.c.space_id == space_id)
                .values(destroyed_at=now, name="(destroyed)")
            )

        self.write(space_id, act)
        with self._lock:
            self._opened.pop(space_id, None)
        self.scrub()

    def scrub(self) -> None:
        """Overwrite what was deleted in SQLite's journal too; gives up where other processes keep reading it."""
        if self.engine.dialect.name != "sqlite":
            return
        give_up_at = time.monotonic() + SCRUB_TIMEOUT_S
        with self.engine.connect() as connection:
            driver = cast("sqlite3.Connection", connection.connection.driver_connection)
            while True:
                with closing(driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")) as cursor:
                    busy = cursor.fetchone()[0]
                if not busy or time.monotonic() > give_up_at:
                    return
                time.sleep(_RETRY_JITTER_S)

    def _transact(self, work: Callable[[Connection], T], *, write: bool) -> T:
        def act() -> T:
            with (self._writer if write else self.engine).begin() as connection:
                return work(connection)

        try:
            return waiting_for_the_lock(act)
        except DBAPIError as error:
            raise _refusal(error) from None

    # -- keys -------------------------------------------------------------------------------------

    def _unit(self, connection: Connection, space_id: str) -> Unit:
        keys = self._opened.get(space_id)
        if keys is None or not self._keys_are_current(connection, keys):
            keys = self._load_keys(connection, space_id)
        return Unit(connection, space_id, keys, self._now, self._new_id)

    def _keys_are_current(self, connection: Connection, keys: SpaceKeys) -> bool:
        # One indexed look-up a unit: a space destroyed or rotated by another process takes effect at once.
        return keys.sealing_id == connection.scalar(_CURRENT_KEY, {"in_space": keys.space_id})

    def _load_keys(self, connection: Connection, space_id: str) -> SpaceKeys:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        rows = connection.execute(
            select(schema.data_keys).where(schema.data_keys.c.space_id == space_id)
        ).all()
        if not rows:
            raise not_found("space")
        opened = {row.key_id: unwrap(self.master_keys.get(row.master_key_id), row.wrapped) for row in rows}
        seals = [row for row in rows if row.purpose == "seal"]
        keys = SpaceKeys(
            space_id=space_id,
            sealing_id=next(row.key_id for row in seals if row.status == "current"),
            ciphers={row.key_id: AESGCM(opened[row.key_id]) for row in seals},
            index_key=next(opened[row.key_id] for row in rows if row.purpose == "index"),
        )
        with self._lock:
            self._opened[space_id] = keys
        return keys


def waiting_for_the_lock(act: Callable[[], T]) -> T:
    """Run `act` again from its start while a lock, or a serialization failure, stands in its way.

    Raises `unavailable` after BUSY_TIMEOUT_S.
    """
    give_up_at = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            return act()
        except DBAPIError as error:
            if not _passes_by_itself(error):
                raise
            if time.monotonic() > give_up_at:
                raise unavailable(
                    f"the database stayed locked for {BUSY_TIMEOUT_S:.0f} s", retry_after_s=1
                ) from None
            # SQLite's own busy handler backs off so far that some writers starve; a short jitter is fair.
            time.sleep(random.uniform(0, _RETRY_JITTER_S))  # noqa: S311 - a delay, not a secret


# -- engines --------------------------------------------------------------------------------------


def open_engine(url: URL | str) -> Engine:
    """Give an engine whose errors never show statement parameters, since these hold content."""
    url = make_url(url)
    if url.get_backend_name() != "sqlite":
        try:
            return create_engine(url, hide_parameters=True, pool_pre_ping=True)
        except (ModuleNotFoundError, NoSuchModuleError):
            raise unavailable(
                f"the database's driver is not installed: {url.drivername} needs the extra `postgres`"
            ) from None
    engine = create_engine(
        url,
        hide_parameters=True,
        # Every transaction here ends in a commit or a rollback of its own.
        pool_reset_on_return=None,
        connect_args={"isolation_level": None, "timeout": 0},
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _: object) -> None:
        for pragma in ("synchronous=FULL", "foreign_keys=ON", "secure_delete=ON"):
            connection.execute(f"PRAGMA {pragma}").close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # Straight to the driver: a save begins twice, and as statements these would cost more than the note's own.
        begin = "BEGIN IMMEDIATE" if connection.get_execution_options().get(_WRITE, False) else "BEGIN"
        try:
            cast("sqlite3.Connection", connection.connection.driver_connection).execute(begin).close()
        except sqlite3.Error as error:
            raise OperationalError(begin, None, error, hide_parameters=True) from error

    return engine


def sqlite_path(url: URL | str) -> Path | None:
    """Give the file of a SQLite URL; None for another engine."""
    url = make_url(url)
    return Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None


def schema_version(connection: Connection) -> str | None:
    """Read which schema the database has; None where it has none of ours."""
    if not connection.dialect.has_table(connection, "alembic_version"):
        return None
    return cast("str | None", connection.scalar(text("SELECT version_num FROM alembic_version")))


def installation_key_id(connection: Connection) -> str | None:
    """Read the id of the master key that this database was made with, or rotated to."""
    return connection.scalar(
        select(schema.installation.c.master_key_id).where(
            schema.installation.c.space_id == schema.INSTALLATION
        )
    )


def _sqlite_code(error: DBAPIError) -> int:
    # The low byte is the primary result code: 5 busy, 6 locked.
    return getattr(error.orig, "sqlite_errorcode", 0) & 0xFF


def _passes_by_itself(error: DBAPIError) -> bool:
    return _sqlite_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or getattr(
        error.orig, "sqlstate", None
    ) in ("40001", "40P01")


def _refusal(error: DBAPIError) -> MemoryCoreError:
    """Say what is wrong with the database by its code alone; the driver's own words may quote content."""
    code = _sqlite_code(error)
    causes = {
        sqlite3.SQLITE_FULL: "the disk is full",
        sqlite3.SQLITE_READONLY: "the database cannot be written",
        sqlite3.SQLITE_IOERR: "the disk failed",
        sqlite3.SQLITE_CANTOPEN: "the database file cannot be opened",
        sqlite3.SQLITE_CORRUPT: "the database file is damaged",
        sqlite3.SQLITE_NOTADB: "the file is not a database",
    }
    if code == sqlite3.SQLITE_CONSTRAINT:
        return conflict("conflict", "another change came first")
    if code in causes:
        return unavailable(causes[code], cause=getattr(error.orig, "sqlite_errorname", ""))
    name = getattr(error.orig, "sqlite_errorname", None) or type(error.orig).__name__
    return unavailable("the database refused a statement", cause=name)
