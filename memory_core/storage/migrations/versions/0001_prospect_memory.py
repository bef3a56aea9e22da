"""Spaces, people, sources, keys, settings, the prospect memory and the receipts."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "installation",
        sa.Column("space_id", sa.String(length=36), nullable=False),
        sa.Column("master_key_id", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.String(27), nullable=False),
        sa.PrimaryKeyConstraint("space_id", name=op.f("pk_installation")),
    )
    op.create_table(
        "spaces",
        sa.Column("space_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("outreach", sa.Boolean(), nullable=False),
        sa.Column("subscription", sa.Boolean(), nullable=False),
        sa.Column("settings_version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.String(27), nullable=False),
        sa.Column("destroyed_at", sa.String(27), nullable=True),
        sa.PrimaryKeyConstraint("space_id", name=op.f("pk_spaces")),
    )
    op.create_table(
        "compactions",
        sa.Column("space_id", sa.String(length=36), nullable=False),
        sa.Column("note_id", sa.String(length=36), nullable=False),
        sa.Column("domain_hash", sa.String(length=64), nullable=False),
        sa.Column("merged_from", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.String(27), nullable=False),
        sa.Column("undone_at", sa.String(27), nullable=True),
        sa.ForeignKeyConstraint(
            ["space_id"], ["spaces.space_id"], name=op.f("fk_compactions_space_id_spaces")
        ),
        sa.PrimaryKeyConstraint("space_id", "note_id", name=op.f("pk_compactions")),
    )
    op.create_table(
        "daily_saves",
        sa.Column("space_id", sa.String(length=36), nullable=False),
        sa.Column("starts_at", sa.String(27), nullable=False),
        sa.Column("saves", sa.Integer(), nullable=False),
        sa.Column("last_at", sa.String(27), nullable=False),
        sa.ForeignKeyConstraint(
            ["space_id"], ["spaces.space_id"], name=op.f("fk_daily_saves_space_id_spaces")
        ),
        sa.PrimaryKeyConstraint("space_id", "starts_at", name=op.f("pk_daily_saves")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "data_keys",
        sa.Column("space_id", sa.String(length=36), nullable=False),
        sa.Column("key_id", sa.String(length=16), nullable=False),
        sa.Column("purpose", sa.String(length=8), nullable=False),
        sa.Column("wrapped", sa.LargeBinary(), nullable=False),
        sa.Column("master_key_id", sa.String(length=16), nullable=False),
        sa.Column("status", sa.String(length=8), nullable=False),
        sa.Column("created_at", sa.String(27), nullable=False),
        sa.ForeignKeyConstraint(["space_id"], ["spaces.space_id"], name=op.f("fk_data_keys_space_id_spaces")),
        sa.PrimaryKeyConstraint("space_id", "key_id", name=op.f("pk_data_keys")),
    )
    op.create_table(
        "deleted_notes",
        sa.Column("space_id", sa.String(length=36), nullable=False),
        sa.Column("note_id", sa.String(length=36), nullable=False),
        sa.Column("deleted_at", sa.String(27), nullable=False),
        sa.ForeignKeyConstraint(
            ["space_id"], ["spaces.space_id"], name=op.f("fk_deleted_notes_space_id_spaces")
        ),
        sa.PrimaryKeyConstraint("space_id", "note_id", name=op.f("pk_deleted_notes")),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("space_id", sa.String(length=36), nullable=False),
        sa.Column("caller_id", sa.String(length=36), nullable=False),
        sa.Column("operation", sa.String(length=32), nullable=False),
        sa.Column("key_hash", sa.String(length=64), nullable=False),
        sa.Column("request_hash", sa.String(length=64), nullable=False),
        sa.Column("result_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.String(27), nullable=False),
        sa.ForeignKeyConstraint(
            ["space_id"], ["spaces.space_id"], name=op.f("fk_idempotency_keys_space_id_spaces")
        ),
        sa.PrimaryKeyConstraint(
            "space_id", "caller_id", "operation", "key_hash", name=op.f("pk_idempotency_keys")
        ),
    )
    op.create_index(
        op.f("ix_idempotency_keys_space_id_created_at"),
        "idempotency_keys",
        ["space_id", "created_at"],
        unique=False,
    )
    op.create_table(
        "people",
        sa.Column("space_id", sa.String(length=36), nullable=False),
        sa.Column("person_id", sa.String(length=36), nullable=False),
        sa.Column("sealed_name", sa.LargeBinary(), nullable=False),
        sa.Column("sealed_email", sa.LargeBinary(), nullable=True),
        sa.Column("roles", sa.JSON(), nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.String(27), nullable=False),
        sa.ForeignKeyConstraint(["space_id"], ["spaces.space_id"], name=op.f("fk_people_space_id_spaces")),
        sa.PrimaryKeyConstraint("space_id", "person_id", name=op.f("pk_people")),
    )
    op.create_table(
        "prospect_notes",
        sa.Column("space_id", sa.String(length=36), nullable=False),
        sa.Column("note_id", sa.String(length=36), nullable=False),
        sa.Column("domain_hash", sa.String(length=64), nullable=False),
        sa.Column("repeat_hash", sa.String(length=64), nullable=False),
        sa.Column("status", sa.String(length=8), nullable=False),
        sa.Column("merged_into", sa.String(length=36), nullable=True),
        sa.Column("sealed_domain", sa.LargeBinary(), nullable=False),
        sa.Column("sealed_title", sa.LargeBinary(), nullable=True),
        sa.Column("sealed_body", sa.LargeBinary(), nullable=False),
        sa.Column("sealed_sources", sa.LargeBinary(), nullable=False),
        sa.Column("page_hashes", sa.LargeBinary(), nullable=False),
        sa.Column("sealed_embedding", sa.LargeBinary(), nullable=True),
        sa.Column("embedding_model", sa.String(length=200), nullable=True),
        sa.Column("observed_text", sa.String(length=64), nullable=False),
        sa.Column("observed_at", sa.String(27), nullable=False),
        sa.Column("created_at", sa.String(27), nullable=False),
        sa.Column("author", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["space_id"], ["spaces.space_id"], name=op.f("fk_prospect_notes_space_id_spaces")
        ),
        sa.PrimaryKeyConstraint("space_id", "note_id", name=op.f("pk_prospect_notes")),
    )
    op.create_index(
        "ix_prospect_notes_dossier",
        "prospect_notes",
        ["space_id", "domain_hash", "status", "observed_at", "created_at", "note_id"],
        unique=False,
    )
    op.create_index(
        op.f("ix_prospect_notes_space_id_merged_into"),
        "prospect_notes",
        ["space_id", "merged_into"],
        unique=False,
        sqlite_where=sa.text("merged_into IS NOT NULL"),
        postgresql_where=sa.text("merged_into IS NOT NULL"),
    )
    op.create_table(
        "receipt_heads",
        sa.Column("space_id", sa.String(length=36), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["space_id"], ["spaces.space_id"], name=op.f("fk_receipt_heads_space_id_spaces")
        ),
        sa.PrimaryKeyConstraint("space_id", name=op.f("pk_receipt_heads")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "receipts",
        sa.Column("space_id", sa.String(length=36), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["space_id"], ["spaces.space_id"], name=op.f("fk_receipts_space_id_spaces")),
        sa.PrimaryKeyConstraint("space_id", "seq", name=op.f("pk_receipts")),
    )
    op.create_table(
        "relationship_events",
        sa.Column("space_id", sa.String(length=36), nullable=False),
        sa.Column("event_hash", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("at", sa.String(27), nullable=False),
        sa.Column("domain_hash", sa.String(length=64), nullable=False),
        sa.Column("address_hash", sa.String(length=64), nullable=True),
        sa.Column("campaign_hash", sa.String(length=64), nullable=True),
        sa.Column("sealed_campaign", sa.LargeBinary(), nullable=True),
        sa.Column("language", sa.String(length=35), nullable=True),
        sa.Column("sentiment", sa.String(length=16), nullable=True),
        sa.Column("scope", sa.String(length=8), nullable=True),
        sa.Column("sealed_cause", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(
            ["space_id"], ["spaces.space_id"], name=op.f("fk_relationship_events_space_id_spaces")
        ),
        sa.PrimaryKeyConstraint("space_id", "event_hash", name=op.f("pk_relationship_events")),
    )
    op.create_index(
        op.f("ix_relationship_events_space_id_domain_hash_kind"),
        "relationship_events",
        ["space_id", "domain_hash", "kind"],
        unique=False,
    )
    op.create_table(
        "settings_changes",
        sa.Column("space_id", sa.String(length=36), nullable=False),
        sa.Column("change_id", sa.String(length=36), nullable=False),
        sa.Column("base_version", sa.Integer(), nullable=False),
        sa.Column("diff", sa.JSON(), nullable=False),
        sa.Column("sealed_reason", sa.LargeBinary(), nullable=False),
        sa.Column("evidence", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("status", sa.String(length=8), nullable=False),
        sa.Column("proposed_by", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.String(27), nullable=False),
        sa.Column("decided_by", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("decided_at", sa.String(27), nullable=True),
        sa.Column("sealed_decision_reason", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(
            ["space_id"], ["spaces.space_id"], name=op.f("fk_settings_changes_space_id_spaces")
        ),
        sa.PrimaryKeyConstraint("space_id", "change_id", name=op.f("pk_settings_changes")),
    )
    op.create_index(
        op.f("ix_settings_changes_space_id_status_created_at"),
        "settings_changes",
        ["space_id", "status", "created_at"],
        unique=False,
    )
    op.create_table(
        "settings_versions",
        sa.Column("space_id", sa.String(length=36), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("change_id", sa.String(length=36), nullable=True),
        sa.Column("created_at", sa.String(27), nullable=False),
        sa.ForeignKeyConstraint(
            ["space_id"], ["spaces.space_id"], name=op.f("fk_settings_versions_space_id_spaces")
        ),
        sa.PrimaryKeyConstraint("space_id", "version", name=op.f("pk_settings_versions")),
    )
    op.create_table(
        "sources",
        sa.Column("space_id", sa.String(length=36), nullable=False),
        sa.Column("source_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("vendor", sa.Text(), nullable=True),
        sa.Column("purposes", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.String(27), nullable=False),
        sa.ForeignKeyConstraint(["space_id"], ["spaces.space_id"], name=op.f("fk_sources_space_id_spaces")),
        sa.PrimaryKeyConstraint("space_id", "source_id", name=op.f("pk_sources")),
    )
    op.create_table(
        "keys",
        sa.Column("space_id", sa.String(length=36), nullable=False),
        sa.Column("key_id", sa.String(length=36), nullable=False),
        sa.Column("secret_hash", sa.String(length=64), nullable=False),
        sa.Column("source_id", sa.String(length=36), nullable=True),
        sa.Column("person_id", sa.String(length=36), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("expires_at", sa.String(27), nullable=True),
        sa.Column("revoked_at", sa.String(27), nullable=True),
        sa.Column("created_at", sa.String(27), nullable=False),
        sa.ForeignKeyConstraint(
            ["space_id", "person_id"],
            ["people.space_id", "people.person_id"],
            name=op.f("fk_keys_space_id_person_id_people"),
        ),
        sa.ForeignKeyConstraint(
            ["space_id", "source_id"],
            ["sources.space_id", "sources.source_id"],
            name=op.f("fk_keys_space_id_source_id_sources"),
        ),
        sa.PrimaryKeyConstraint("space_id", "key_id", name=op.f("pk_keys")),
    )
