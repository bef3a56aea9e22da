"""Spaces, people, sources, keys and versions of settings: rows to nouns and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, insert, select, update

from memory_core.errors import not_found
from memory_core.model import Actor, Key, Person, SettingsChange, Source, Space
from memory_core.storage.ledger import actor_json
from memory_core.storage.schema import keys, people, settings_changes, settings_versions, sources, spaces
from memory_core.storage.session import Unit

# What every call reads, built once: to build a statement costs five times what it costs to run it.
_SPACE = select(spaces).where(spaces.c.space_id == bindparam("in_space"), spaces.c.destroyed_at.is_(None))
_PERSON = select(people).where(
    people.c.space_id == bindparam("in_space"), people.c.person_id == bindparam("person_id")
)
_SPACE_AND_SETTINGS = _SPACE.add_columns(settings_versions.c.settings).join(
    settings_versions,
    (settings_versions.c.space_id == spaces.c.space_id)
    & (settings_versions.c.version == spaces.c.settings_version),
)
_STANDING = (
    select(*spaces.c, settings_versions.c.settings, people.c.person_id, people.c.roles, people.c.disabled)
    .join(
        settings_versions,
        (settings_versions.c.space_id == spaces.c.space_id)
        & (settings_versions.c.version == spaces.c.settings_version),
    )
    .join(people, people.c.space_id == spaces.c.space_id)
    .where(spaces.c.space_id == bindparam("in_space"), spaces.c.destroyed_at.is_(None))
)
_BY_PERSON = _STANDING.where(people.c.person_id == bindparam("person_id"))
_BY_KEY = (
    _STANDING.add_columns(
        keys.c.key_id,
        keys.c.secret_hash,
        keys.c.source_id,
        keys.c.scopes,
        keys.c.expires_at,
        keys.c.revoked_at,
    )
    .join(keys, (keys.c.space_id == people.c.space_id) & (keys.c.person_id == people.c.person_id))
    .where(keys.c.key_id == bindparam("key_id"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls, as the space has it now: the person, or the key and the person behind it."""

    space: Space
    settings: dict[str, Any]
    person_id: str
    roles: tuple[str, ...]
    disabled: bool
    key_id: str | None = None
    secret_hash: str = ""
    source_id: str | None = None
    scopes: tuple[str, ...] = ()
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


# -- callers --------------------------------------------------------------------------------------


def caller_by_key(connection: Connection, space_id: str, key_id: str) -> Caller | None:
    """Give who holds a key, in one look-up that opens nothing sealed; None where the space has no such key."""
    row = connection.execute(_BY_KEY, {"in_space": space_id, "key_id": key_id}).one_or_none()
    if row is None:
        return None
    return Caller(
        space=_space(row),
        settings=dict(row.settings),
        person_id=row.person_id,
        roles=tuple(row.roles),
        disabled=row.disabled,
        key_id=row.key_id,
        secret_hash=row.secret_hash,
        source_id=row.source_id,
        scopes=tuple(row.scopes),
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
    )


def caller_by_name(connection: Connection, space_id: str, person_id: str) -> Caller:
    """Give a person of the space. Raises `not_found`."""
    row = connection.execute(_BY_PERSON, {"in_space": space_id, "person_id": person_id}).one_or_none()
    if row is None:
        raise not_found("person")
    return Caller(
        space=_space(row),
        settings=dict(row.settings),
        person_id=row.person_id,
        roles=tuple(row.roles),
        disabled=row.disabled,
    )


# -- spaces ---------------------------------------------------------------------------------------


def insert_space(connection: Connection, space: Space, settings: Mapping[str, Any]) -> None:
    """Add a space with version 1 of its settings."""
    connection.execute(
        insert(spaces).values(
            space_id=space.space_id,
            name=space.name,
            outreach=space.outreach,
            subscription=space.subscription,
            settings_version=space.settings_version,
            created_at=space.created_at,
        )
    )
    connection.execute(
        insert(settings_versions).values(
            space_id=space.space_id,
            version=space.settings_version,
            settings=dict(settings),
            change_id=None,
            created_at=space.created_at,
        )
    )


def space_of(unit: Unit) -> Space:
    row = unit.connection.execute(_SPACE, {"in_space": unit.space_id}).one_or_none()
    if row is None:
        raise not_found("space")
    return _space(row)


def space_and_settings(unit: Unit) -> tuple[Space, dict[str, Any]]:
    """Give the space and its approved settings; what is not named there has its default."""
    row = unit.connection.execute(_SPACE_AND_SETTINGS, {"in_space": unit.space_id}).one_or_none()
    if row is None:
        raise not_found("space")
    return _space(row), dict(row.settings)


def all_spaces(connection: Connection) -> list[Space]:
    """List the spaces that were not destroyed, oldest first. An operator's act."""
    rows = connection.execute(
        select(spaces).where(spaces.c.destroyed_at.is_(None)).order_by(spaces.c.created_at, spaces.c.space_id)
    )
    return [_space(row) for row in rows]


def set_flags(unit: Unit, flags: Mapping[str, bool]) -> None:
    unit.connection.execute(update(spaces).where(spaces.c.space_id == unit.space_id).values(**flags))


def space_holding(connection: Connection, column: Any, value: str) -> str | None:
    """Find the space of a row by its id alone. An operator's look-up: the command line names an id, not a space."""
    return connection.scalar(select(column.table.c.space_id).where(column == value))


def _space(row: Any) -> Space:
    return Space(
        space_id=row.space_id,
        name=row.name,
        outreach=row.outreach,
        subscription=row.subscription,
        settings_version=row.settings_version,
        created_at=row.created_at,
    )


# -- people ---------------------------------------------------------------------------------------


def insert_person(unit: Unit, person: Person) -> None:
    row = person.person_id
    unit.connection.execute(
        insert(people).values(
            space_id=unit.space_id,
            person_id=row,
            sealed_name=unit.seal("people", row, "name", person.name),
            sealed_email=None if person.email is None else unit.seal("people", row, "email", person.email),
            roles=list(person.roles),
            disabled=person.disabled,
            created_at=person.created_at,
        )
    )


def person(unit: Unit, person_id: str) -> Person:
    """Give a person of the space. Raises `not_found`."""
    row = unit.connection.execute(_PERSON, {"in_space": unit.space_id, "person_id": person_id}).one_or_none()
    if row is None:
        raise not_found("person")
    return _person(unit, row)


def all_people(unit: Unit) -> list[Person]:
    rows = unit.connection.execute(
        select(people)
        .where(people.c.space_id == unit.space_id)
        .order_by(people.c.created_at, people.c.person_id)
    )
    return [_person(unit, row) for row in rows]


def disable_person(unit: Unit, person_id: str) -> None:
    unit.connection.execute(
        update(people)
        .where(people.c.space_id == unit.space_id, people.c.person_id == person_id)
        .values(disabled=True)
    )


def _person(unit: Unit, row: Row[Any]) -> Person:
    email = row.sealed_email
    return Person(
        person_id=row.person_id,
        name=unit.open_text("people", row.person_id, "name", row.sealed_name),
        email=None if email is None else unit.open_text("people", row.person_id, "email", email),
        roles=tuple(row.roles),
        disabled=row.disabled,
        created_at=row.created_at,
    )


# -- sources --------------------------------------------------------------------------------------


def insert_source(unit: Unit, source: Source) -> None:
    unit.connection.execute(
        insert(sources).values(
            space_id=unit.space_id, **{**asdict(source), "purposes": list(source.purposes)}
        )
    )


def source(unit: Unit, source_id: str) -> Source:
    """Give a source of the space. Raises `not_found`."""
    row = unit.connection.execute(
        select(sources).where(sources.c.space_id == unit.space_id, sources.c.source_id == source_id)
    ).one_or_none()
    if row is None:
        raise not_found("source")
    return _source(row)


def all_sources(unit: Unit) -> list[Source]:
    rows = unit.connection.execute(
        select(sources)
        .where(sources.c.space_id == unit.space_id)
        .order_by(sources.c.created_at, sources.c.source_id)
    )
    return [_source(row) for row in rows]


def _source(row: Row[Any]) -> Source:
    return Source(
        source_id=row.source_id,
        name=row.name,
        vendor=row.vendor,
        purposes=tuple(row.purposes),
        created_at=row.created_at,
    )


# -- keys -----------------------------------------------------------------------------------------


def insert_key(unit: Unit, key: Key, secret_hash: str) -> None:
    unit.connection.execute(
        insert(keys).values(
            space_id=unit.space_id, secret_hash=secret_hash, **{**asdict(key), "scopes": list(key.scopes)}
        )
    )


def has_key(unit: Unit, key_id: str) -> bool:
    query = select(keys.c.key_id).where(keys.c.space_id == unit.space_id, keys.c.key_id == key_id)
    return unit.connection.scalar(query) is not None


def all_keys(unit: Unit) -> list[Key]:
    rows = unit.connection.execute(
        select(keys).where(keys.c.space_id == unit.space_id).order_by(keys.c.created_at, keys.c.key_id)
    )
    return [_key(row) for row in rows]


def revoke_key(unit: Unit, key_id: str, now: datetime) -> None:
    unit.connection.execute(
        update(keys)
        .where(keys.c.space_id == unit.space_id, keys.c.key_id == key_id, keys.c.revoked_at.is_(None))
        .values(revoked_at=now)
    )


def _key(row: Row[Any]) -> Key:
    return Key(
        key_id=row.key_id,
        source_id=row.source_id,
        person_id=row.person_id,
        scopes=tuple(row.scopes),
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        created_at=row.created_at,
    )


# -- settings -------------------------------------------------------------------------------------


def insert_settings(
    unit: Unit, version: int, settings: Mapping[str, Any], change_id: str, now: datetime
) -> None:
    """Add the next version and make it the current one."""
    unit.connection.execute(
        insert(settings_versions).values(
            space_id=unit.space_id,
            version=version,
            settings=dict(settings),
            change_id=change_id,
            created_at=now,
        )
    )
    unit.connection.execute(
        update(spaces).where(spaces.c.space_id == unit.space_id).values(settings_version=version)
    )


def insert_change(unit: Unit, change: SettingsChange) -> None:
    unit.connection.execute(
        insert(settings_changes).values(
            space_id=unit.space_id,
            change_id=change.change_id,
            base_version=change.base_version,
            diff=change.diff,
            sealed_reason=unit.seal("settings_changes", change.change_id, "reason", change.reason),
            evidence=change.evidence,
            status=change.status,
            proposed_by=actor_json(change.proposed_by),
            created_at=change.created_at,
        )
    )


def change(unit: Unit, change_id: str) -> SettingsChange:
    """Give a proposed change of the space's settings. Raises `not_found`."""
    row = unit.connection.execute(
        select(settings_changes).where(
            settings_changes.c.space_id == unit.space_id, settings_changes.c.change_id == change_id
        )
    ).one_or_none()
    if row is None:
        raise not_found("settings change")
    return _change(unit, row)


def all_changes(unit: Unit, status: str | None = None) -> list[SettingsChange]:
    query = select(settings_changes).where(settings_changes.c.space_id == unit.space_id)
    if status is not None:
        query = query.where(settings_changes.c.status == status)
    rows = unit.connection.execute(
        query.order_by(settings_changes.c.created_at.desc(), settings_changes.c.change_id)
    )
    return [_change(unit, row) for row in rows]


def decide_change(
    unit: Unit, change_id: str, status: str, decided_by: Actor, decided_at: datetime, reason: str | None
) -> bool:
    """Decide a pending change; False where somebody else did it first."""
    sealed = None if reason is None else unit.seal("settings_changes", change_id, "decision_reason", reason)
    result = unit.connection.execute(
        update(settings_changes)
        .where(
            settings_changes.c.space_id == unit.space_id,
            settings_changes.c.change_id == change_id,
            settings_changes.c.status == "pending",
        )
        .values(
            status=status,
            decided_by=actor_json(decided_by),
            decided_at=decided_at,
            sealed_decision_reason=sealed,
        )
    )
    return result.rowcount == 1


def count_admins(unit: Unit) -> int:
    """Count the people who can decide: admins that are not disabled."""
    return sum("admin" in person.roles and not person.disabled for person in all_people(unit))


def versions(unit: Unit) -> Sequence[tuple[int, dict[str, Any], str | None, datetime]]:
    """List every version of the settings, newest first: number, values, the change it came from, when."""
    rows = unit.connection.execute(
        select(settings_versions)
        .where(settings_versions.c.space_id == unit.space_id)
        .order_by(settings_versions.c.version.desc())
    )
    return [(row.version, dict(row.settings), row.change_id, row.created_at) for row in rows]


def _change(unit: Unit, row: Row[Any]) -> SettingsChange:
    sealed = row.sealed_decision_reason
    return SettingsChange(
        change_id=row.change_id,
        base_version=row.base_version,
        diff=dict(row.diff),
        reason=unit.open_text("settings_changes", row.change_id, "reason", row.sealed_reason),
        evidence=row.evidence,
        status=row.status,
        proposed_by=Actor(**row.proposed_by),
        created_at=row.created_at,
        decided_by=None if row.decided_by is None else Actor(**row.decided_by),
        decided_at=row.decided_at,
        decision_reason=(
            None
            if sealed is None
            else unit.open_text("settings_changes", row.change_id, "decision_reason", sealed)
        ),
    )
