"""Makes a workbench of its folder and the environment: the one place where its parts are wired together."""

from __future__ import annotations

import base64
import binascii
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from filelock import FileLock
from sqlalchemy import Engine, insert
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from memory_core.admission import Admission
from memory_core.embedding import Embedder, open_embedder
from memory_core.errors import invalid, unavailable
from memory_core.formats.canonical import moment
from memory_core.formats.envelope import KEY_BYTES, key_id_of, new_key
from memory_core.home import DATABASE, KEY_FILE, home_folder, no_workbench
from memory_core.model import Clock, NewId
from memory_core.prospects import Prospects
from memory_core.spaces import Spaces
from memory_core.storage import migrations, schema
from memory_core.storage.session import (
    MasterKeys,
    Store,
    installation_key_id,
    open_engine,
    schema_version,
    sqlite_path,
)
from memory_core.transfers import Transfers


@dataclass(frozen=True, slots=True)
class Workbench:
    """Everything a surface needs, opened once a process."""

    home: Path
    store: Store
    admission: Admission
    embedder: Embedder
    spaces: Spaces
    prospects: Prospects
    transfers: Transfers

    def close(self) -> None:
        self.store.engine.dispose()


def utc_now() -> datetime:
    return datetime.now(UTC)


def new_uuid() -> str:
    return str(uuid4())


def init_workbench(home: Path, environ: Mapping[str, str] = os.environ) -> bool:
    """Create folder, key file and database; safe to repeat, also by several processes at once.

    Gives False where a workbench was there already. Raises `unavailable` where a database is there whose key is gone.
    """
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise unavailable(f"the folder {home} cannot be created: {error.strerror}") from None
    with FileLock(home / "init.lock"):
        engine = open_engine(_database_url(home, environ))
        with _opening(engine):
            path = sqlite_path(engine.url)
            there = (path is None or path.exists()) and _installed(engine)
            keys = _master_keys(home, environ)
            if there:
                _check_key(engine, keys, home)
            if keys is None:
                keys = _write_key_file(home)
            if path is not None:
                _prepare_file(path)
            migrations.upgrade(engine)
            if not there:
                _mark_installed(engine, keys)
        engine.dispose()
    return not there


def open_workbench(
    home: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    *,
    embedder: Embedder | None = None,
    now: Clock = utc_now,
    new_id: NewId = new_uuid,
) -> Workbench:
    """Open the workbench of a folder, migrating an older database after a copy of it was kept.

    Raises `unavailable` with one clear sentence: no workbench there, the key missing or another one, a newer schema.
    """
    home = home_folder(environ) if home is None else home
    engine = open_engine(_database_url(home, environ))
    path = sqlite_path(engine.url)
    with _opening(engine):
        if (path is not None and not path.exists()) or not _installed(engine):
            raise no_workbench(home)
        keys = _check_key(engine, _master_keys(home, environ), home)
        migrations.upgrade(engine)
    store = Store(engine, keys, now, new_id)
    embedder = embedder or open_embedder(environ.get("MEMORY_CORE_EMBEDDER"))
    admission = Admission(store, now)
    return Workbench(
        home=home,
        store=store,
        admission=admission,
        embedder=embedder,
        spaces=Spaces(store, admission, now, new_id),
        prospects=Prospects(store, admission, embedder, now, new_id),
        transfers=Transfers(store, embedder, now),
    )


# -- parts ----------------------------------------------------------------------------------------


@contextmanager
def _opening(engine: Engine) -> Iterator[None]:
    """Turn a driver's error while opening into one clear refusal."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        engine.dispose()
        cause = type(getattr(error, "orig", error)).__name__
        raise unavailable("the database cannot be opened", cause=cause) from None


def _database_url(home: Path, environ: Mapping[str, str]) -> URL:
    given = environ.get("MEMORY_CORE_DATABASE_URL")
    if not given:
        return URL.create("sqlite", database=str(home / DATABASE))
    try:
        return make_url(given)
    except ArgumentError:
        raise invalid("MEMORY_CORE_DATABASE_URL", "url", "not a database URL") from None


def _installed(engine: Engine) -> bool:
    with engine.connect() as connection:
        version = schema_version(connection)
        if version is None:
            return False
        migrations.check_version(version)
        return installation_key_id(connection) is not None


def _mark_installed(engine: Engine, keys: MasterKeys) -> None:
    row = insert(schema.installation).values(
        space_id=schema.INSTALLATION, master_key_id=keys.current_id, created_at=utc_now()
    )
    with engine.connect().execution_options(memory_core_write=True) as connection, connection.begin():
        connection.execute(row)


def _check_key(engine: Engine, keys: MasterKeys | None, home: Path) -> MasterKeys:
    with engine.connect() as connection:
        needed = installation_key_id(connection) or ""
    if keys is None:
        raise unavailable(
            f"the key of this workbench is missing: put {KEY_FILE} back into {home} or set MEMORY_CORE_MASTER_KEY",
            key_id=needed,
        )
    if needed not in keys:
        raise unavailable(
            f"the master key is another one: this database needs the key {needed}", key_id=needed
        )
    return keys


def _master_keys(home: Path, environ: Mapping[str, str]) -> MasterKeys | None:
    given = environ.get("MEMORY_CORE_MASTER_KEY")
    if given:
        return MasterKeys(_decoded(given, "MEMORY_CORE_MASTER_KEY"))
    path = home / KEY_FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        current = content["current"]
        keys = {name: _decoded(entry["key"], KEY_FILE) for name, entry in content["keys"].items()}
        retired = tuple(key for name, key in keys.items() if name != current)
        return MasterKeys(keys[current], retired)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unavailable(f"{KEY_FILE} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise unavailable(f"{KEY_FILE} is damaged") from None


def _decoded(text: str, where: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise invalid(where, "key", f"{KEY_BYTES} random bytes in base64")
    return key


def _write_key_file(home: Path) -> MasterKeys:
    key = new_key()
    key_id = key_id_of(key)
    content = {
        "format": 1,
        "current": key_id,
        "keys": {
            key_id: {
                "key": base64.b64encode(key).decode(),
                "status": "current",
                "created_at": moment(utc_now()),
            }
        },
    }
    # Written beside, synced, then named: a kill leaves either no key file or a whole one.
    beside = home / f".{KEY_FILE}.{os.getpid()}"
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(home / KEY_FILE)
    return MasterKeys(key)


def _prepare_file(path: Path) -> None:
    # The file is the owner's alone from its first byte; write-ahead logging stays with the file once set. A file that
    # is there is not opened: closing it again would drop the locks of this process's own connections to it.
    if not path.exists():
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
    finally:
        connection.close()
