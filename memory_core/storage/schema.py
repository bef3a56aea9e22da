"""The tables. Every primary and unique key begins with `space_id`; content is sealed, look-ups go by keyed hash.

Times are text of one width in UTC (`2026-12-01T08:30:00.000000Z`), which sorts as time on every engine and keeps
every microsecond. The installation's own row lives under the nil UUID.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Dialect,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    TypeDecorator,
    text,
)

from memory_core.formats.canonical import moment

SCHEMA_VERSION = "0001"
INSTALLATION = "00000000-0000-0000-0000-000000000000"

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class Moment(TypeDecorator[datetime]):
    """An aware UTC time kept as text of one width; a naive one is a programming error."""

    impl = String(27)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else moment(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        return None if value is None else datetime.fromisoformat(value)


def _id(name: str, *, nullable: bool = False) -> Column[str]:
    return Column(name, String(36), nullable=nullable)


def _hash(name: str, *, nullable: bool = False) -> Column[str]:
    return Column(name, String(64), nullable=nullable)


def _of_space() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(["space_id"], ["spaces.space_id"])


installation = Table(
    "installation",
    metadata,
    _id("space_id"),
    Column("master_key_id", String(16), nullable=False),
    Column("created_at", Moment, nullable=False),
    PrimaryKeyConstraint("space_id"),
)

spaces = Table(
    "spaces",
    metadata,
    _id("space_id"),
    Column("name", Text, nullable=False),
    Column("outreach", Boolean, nullable=False),
    Column("subscription", Boolean, nullable=False),
    Column("settings_version", Integer, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("destroyed_at", Moment),
    PrimaryKeyConstraint("space_id"),
)

data_keys = Table(
    "data_keys",
    metadata,
    _id("space_id"),
    Column("key_id", String(16), nullable=False),
    Column("purpose", String(8), nullable=False),
    Column("wrapped", LargeBinary, nullable=False),
    Column("master_key_id", String(16), nullable=False),
    Column("status", String(8), nullable=False),
    Column("created_at", Moment, nullable=False),
    PrimaryKeyConstraint("space_id", "key_id"),
    _of_space(),
)

people = Table(
    "people",
    metadata,
    _id("space_id"),
    _id("person_id"),
    Column("sealed_name", LargeBinary, nullable=False),
    Column("sealed_email", LargeBinary),
    Column("roles", JSON, nullable=False),
    Column("disabled", Boolean, nullable=False),
    Column("created_at", Moment, nullable=False),
    PrimaryKeyConstraint("space_id", "person_id"),
    _of_space(),
)

sources = Table(
    "sources",
    metadata,
    _id("space_id"),
    _id("source_id"),
    Column("name", Text, nullable=False),
    Column("vendor", Text),
    Column("purposes", JSON, nullable=False),
    Column("created_at", Moment, nullable=False),
    PrimaryKeyConstraint("space_id", "source_id"),
    _of_space(),
)

keys = Table(
    "keys",
    metadata,
    _id("space_id"),
    _id("key_id"),
    _hash("secret_hash"),
    _id("source_id", nullable=True),
    _id("person_id"),
    Column("scopes", JSON, nullable=False),
    Column("expires_at", Moment),
    Column("revoked_at", Moment),
    Column("created_at", Moment, nullable=False),
    PrimaryKeyConstraint("space_id", "key_id"),
    ForeignKeyConstraint(["space_id", "source_id"], ["sources.space_id", "sources.source_id"]),
    ForeignKeyConstraint(["space_id", "person_id"], ["people.space_id", "people.person_id"]),
)

settings_versions = Table(
    "settings_versions",
    metadata,
    _id("space_id"),
    Column("version", Integer, nullable=False),
    Column("settings", JSON, nullable=False),
    _id("change_id", nullable=True),
    Column("created_at", Moment, nullable=False),
    PrimaryKeyConstraint("space_id", "version"),
    _of_space(),
)

settings_changes = Table(
    "settings_changes",
    metadata,
    _id("space_id"),
    _id("change_id"),
    Column("base_version", Integer, nullable=False),
    Column("diff", JSON, nullable=False),
    Column("sealed_reason", LargeBinary, nullable=False),
    Column("evidence", JSON(none_as_null=True)),
    Column("status", String(8), nullable=False),
    Column("proposed_by", JSON, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("decided_by", JSON(none_as_null=True)),
    Column("decided_at", Moment),
    Column("sealed_decision_reason", LargeBinary),
    PrimaryKeyConstraint("space_id", "change_id"),
    _of_space(),
    Index(None, "space_id", "status", "created_at"),
)

prospect_notes = Table(
    "prospect_notes",
    metadata,
    _id("space_id"),
    _id("note_id"),
    _hash("domain_hash"),
    _hash("repeat_hash"),
    Column("status", String(8), nullable=False),
    _id("merged_into", nullable=True),
    Column("sealed_domain", LargeBinary, nullable=False),
    Column("sealed_title", LargeBinary),
    Column("sealed_body", LargeBinary, nullable=False),
    Column("sealed_sources", LargeBinary, nullable=False),
    Column("page_hashes", LargeBinary, nullable=False),
    Column("sealed_embedding", LargeBinary),
    Column("embedding_model", String(200)),
    Column("observed_text", String(64), nullable=False),
    Column("observed_at", Moment, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("author", JSON, nullable=False),
    PrimaryKeyConstraint("space_id", "note_id"),
    _of_space(),
    # In a dossier's order, read backwards, so that no query of one sorts rows that hold vectors and bodies.
    Index(
        "ix_prospect_notes_dossier",
        "space_id",
        "domain_hash",
        "status",
        "observed_at",
        "created_at",
        "note_id",
    ),
    # Few notes are merged ones: a partial index costs a plain save nothing.
    Index(
        None,
        "space_id",
        "merged_into",
        sqlite_where=text("merged_into IS NOT NULL"),
        postgresql_where=text("merged_into IS NOT NULL"),
    ),
)

compactions = Table(
    "compactions",
    metadata,
    _id("space_id"),
    _id("note_id"),
    _hash("domain_hash"),
    Column("merged_from", JSON, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("undone_at", Moment),
    PrimaryKeyConstraint("space_id", "note_id"),
    _of_space(),
)

deleted_notes = Table(
    "deleted_notes",
    metadata,
    _id("space_id"),
    _id("note_id"),
    Column("deleted_at", Moment, nullable=False),
    PrimaryKeyConstraint("space_id", "note_id"),
    _of_space(),
)

daily_saves = Table(
    "daily_saves",
    metadata,
    _id("space_id"),
    Column("starts_at", Moment, nullable=False),
    Column("saves", Integer, nullable=False),
    Column("last_at", Moment, nullable=False),
    PrimaryKeyConstraint("space_id", "starts_at"),
    _of_space(),
    sqlite_with_rowid=False,
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    _id("space_id"),
    _id("caller_id"),
    Column("operation", String(32), nullable=False),
    _hash("key_hash"),
    _hash("request_hash"),
    _id("result_id"),
    Column("created_at", Moment, nullable=False),
    PrimaryKeyConstraint("space_id", "caller_id", "operation", "key_hash"),
    _of_space(),
    Index(None, "space_id", "created_at"),
)

relationship_events = Table(
    "relationship_events",
    metadata,
    _id("space_id"),
    _hash("event_hash"),
    Column("kind", String(20), nullable=False),
    Column("at", Moment, nullable=False),
    _hash("domain_hash"),
    _hash("address_hash", nullable=True),
    _hash("campaign_hash", nullable=True),
    Column("sealed_campaign", LargeBinary),
    Column("language", String(35)),
    Column("sentiment", String(16)),
    Column("scope", String(8)),
    Column("sealed_cause", LargeBinary),
    PrimaryKeyConstraint("space_id", "event_hash"),
    _of_space(),
    Index(None, "space_id", "domain_hash", "kind"),
)

receipts = Table(
    "receipts",
    metadata,
    _id("space_id"),
    Column("seq", Integer, nullable=False),
    Column("hash", String(64), nullable=False),
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint("space_id", "seq"),
    _of_space(),
)

receipt_heads = Table(
    "receipt_heads",
    metadata,
    _id("space_id"),
    Column("seq", Integer, nullable=False),
    Column("hash", String(64), nullable=False),
    PrimaryKeyConstraint("space_id"),
    _of_space(),
    sqlite_with_rowid=False,
)
