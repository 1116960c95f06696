"""Check whether a ledger is of this release, older or newer, and migrate an older one.

The migrations are left to `schema`. sqlite-utils applies them and takes a while to load, so it is loaded only for a
ledger that is not of this release.
"""

import sqlite3
from pathlib import Path

from assetsync.errors import LedgerDamaged, LedgerError, LedgerNewer
from assetsync.ledger import damage

MIGRATIONS = frozenset(
    {
        "m001_first",
        "m002_quiet",
        "m003_unhashed",
        "m004_slow",
        "m005_counted",
        "m006_settled",
        "m007_waived",
        "m008_elsewhere",
        "m009_said_since",
        "m010_doubted",
        "m011_away",
        "m012_rested",
        "m013_waived_apart",
        "m014_names",
        "m015_by_hand",
        "m016_took",
    }
)
"""The names of all migrations in `schema`."""


def expect_current(path: Path, conn: sqlite3.Connection) -> None:
    """Check that this release can read a ledger; raise LedgerNewer, LedgerError for an older one, or sqlite3.Error."""
    rows = conn.execute("SELECT name FROM _sqlite_migrations WHERE migration_set = 'assetsync'").fetchall()
    applied = {row[0] for row in rows}
    if applied == MIGRATIONS:
        return
    from assetsync.ledger import schema  # noqa: PLC0415 - see above

    _refuse_newer(path, applied - schema.known())
    if schema.known() - applied:
        raise LedgerError(
            f"the ledger {path} was written by an older release",
            hint="run `assetsync reconcile` once to bring it up",
        )


def migrate(path: Path, conn: sqlite3.Connection) -> None:
    """Create or migrate the tables; raise LedgerNewer, LedgerDamaged for a file that is no ledger, or sqlite3.Error."""
    tables = {row[0] for row in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    unlisted = bool(tables) and "_sqlite_migrations" not in tables
    if unlisted and damage.is_ours(conn):
        raise LedgerDamaged(f"the ledger {path} is damaged (its list of migrations is gone)", hint=damage.BY_HAND)
    if unlisted or damage.is_foreign(conn):
        raise LedgerDamaged(f"{path} is no ledger but another SQLite file", hint="is the path right?")
    if tables:
        rows = conn.execute("SELECT name FROM _sqlite_migrations WHERE migration_set = 'assetsync'").fetchall()
        if {row[0] for row in rows} == MIGRATIONS:
            return
    import sqlite_utils  # noqa: PLC0415 - see above

    from assetsync.ledger import schema  # noqa: PLC0415 - see above

    db = sqlite_utils.Database(conn, execute_plugins=False)
    _refuse_newer(path, {migration.name for migration in schema.migrations.applied(db)} - schema.known())
    schema.migrations.apply(db)


def _refuse_newer(path: Path, unknown: set[str]) -> None:
    if unknown:
        raise LedgerNewer(
            f"the ledger {path} was written by a newer release ({', '.join(sorted(unknown))})",
            hint="install that release",
        )
