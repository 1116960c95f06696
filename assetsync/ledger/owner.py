"""Whose ledger it is: the site that its first process served, by which a second configuration that names it is refused.

Two sites in one ledger would each take the other's files for vanished. That a site may move to another root is another
matter, and `sync.intake.root_identity`'s.
"""

import sqlite3
from pathlib import Path

from assetsync.errors import LedgerOfAnother
from assetsync.ledger.ledger_metadata import set_fact

ROOT = "root"
"""The fact that names the root that the ledger's files lie below."""

SITE = "site"
"""The fact that names the site whose ledger it is."""

SERVICE = "service"
"""The fact that names the address of the service that was sent to."""

LAYOUT = "mappings"
"""The fact that says where the files go: the mapped folders, each with the folder of the service."""

LISTED = "mappings_listed"
"""The fact that says the same of the configuration, before its files followed it."""


def claim(conn: sqlite3.Connection, path: Path, site: str) -> None:
    """See, in a transaction, that the ledger is the site's; one of nobody's becomes so. Raises LedgerOfAnother."""
    owner = _owner(conn)
    if owner is None:
        set_fact(conn, SITE, site)
    else:
        _expect(path, owner, site)


def expect(conn: sqlite3.Connection, path: Path, site: str) -> None:
    """See that the ledger is the site's, or nobody's yet. Raises LedgerOfAnother, sqlite3.Error."""
    owner = _owner(conn)
    if owner is not None:
        _expect(path, owner, site)


def _owner(conn: sqlite3.Connection) -> str | None:
    row = conn.execute("SELECT value FROM facts WHERE name = ?", (SITE,)).fetchone()
    return None if row is None else row[0]


def _expect(path: Path, owner: str, site: str) -> None:
    if owner != site:
        raise LedgerOfAnother(
            f"the ledger {path} belongs to the site `{owner}`, and this configuration is of the site `{site}`",
            hint="give each site a `ledger` of its own; a new one takes over what its folders hold already",
        )
