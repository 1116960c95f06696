"""The owner of a ledger: the site that its first process served. Another site's configuration that names it is refused.

Two sites in one ledger would each report the other's files as vanished. Whether a site has moved to another root is
left to `sync.root_identity`.
"""

import sqlite3
from pathlib import Path

from assetsync.errors import LedgerOfAnother
from assetsync.ledger.ledger_metadata import set_fact

ROOT = "root"
"""The fact that holds the root of the ledger's files."""

SITE = "site"
"""The fact that holds the name of the site that owns the ledger."""

SERVICE = "service"
"""The fact that holds the address of the service that was sent to."""

LAYOUT = "mappings"
"""The fact that maps each mapped folder to the folder of the service that its files go to."""

LISTED = "mappings_listed"
"""The fact that holds the same of the configuration, before the files followed it."""


def claim(conn: sqlite3.Connection, path: Path, site: str) -> None:
    """Check, in a transaction, that the site owns the ledger, or make it the owner. Raises LedgerOfAnother."""
    owner = _owner(conn)
    if owner is None:
        set_fact(conn, SITE, site)
    else:
        _expect(path, owner, site)


def expect(conn: sqlite3.Connection, path: Path, site: str) -> None:
    """Check that the site owns the ledger, or that nobody does yet. Raises LedgerOfAnother, sqlite3.Error."""
    owner = _owner(conn)
    if owner is not None:
        _expect(path, owner, site)


def _owner(conn: sqlite3.Connection) -> str | None:
    row = conn.execute("SELECT value FROM facts WHERE name = ?", (SITE,)).fetchone()
    return None if row is None else row[0]


def _expect(path: Path, owner: str, site: str) -> None:
    if owner != site:
        raise LedgerOfAnother(
            f"the ledger {path} belongs to the site `{owner}`, but this configuration is for the site `{site}`",
            hint="give each site a `ledger` of its own; a new ledger adopts the assets that its folders already hold",
        )
