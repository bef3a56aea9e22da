"""Run by Alembic with the connection that `storage.migrations.upgrade` hands over; there is no offline mode."""

from alembic import context

from memory_core.storage.schema import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    render_as_batch=True,
    compare_type=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
