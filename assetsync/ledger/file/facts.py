"""Facts of the whole ledger, by name, and the check of the fact that names the site that owns it.

Two sites in one ledger would each report the other's files as vanished, so another site's configuration that names the
ledger is refused. Whether a site has moved to another root is left to `sync.root_identity`; the meaning of any
other fact is left to the module that writes it.
"""

from pathlib import Path

from assetsync.errors import LedgerOfAnother
from assetsync.ledger.file.handle import Handle

ROOT = "root"
"""The fact that holds the root of the ledger's files."""

SITE = "site"
"""The fact that holds the name of the site that owns the ledger."""

SERVICE = "service"
"""The fact that holds the address of the service that was sent to."""

ACCOUNT = "looked_up_as"
"""The fact that identifies the service and the key of the last look-ups, by a digest."""

KINDS = "kinds"
"""The fact that holds the kinds of assets that were learned from the answers of a service, by ending (JSON)."""

NEW_FIELDS = "new_fields"
"""The fact that holds the metadata fields with which a service has processed a file, and those being tried (JSON)."""

LAYOUT = "mappings"
"""The fact that maps each mapped folder to the folder of the service that its files go to."""

XMP_FIRST_SCAN = "xmp_first_scan"
"""The fact that exists in a ledger of an older release until a scan has recorded the XMP files."""

OUTLINE = "configuration"
"""The fact that holds what readers of the ledger need of the configuration, with its digest (`config.outline`)."""

LOOK_ALIKES = "look_alikes"
"""The fact that exists while more files are read again than may vanish at once, so that none of them is sent."""

LISTED_FROM = "listed_from"
"""The fact that exists if the ledger may lack uploads: the first start whose listings of folders count."""

ADOPTS_TO = "adopts_to"
"""The fact that holds the newest version that may adopt an asset by name and size, as an operator has confirmed."""

LAYOUT_LISTED = "mappings_listed"
"""The fact that holds the same of the configuration, before the files followed it."""


def set_fact(conn: Handle, name: str, value: str | None) -> None:
    """Write one fact, in the caller's transaction."""
    conn.table("facts").upsert({"name": name, "value": value}, pk="name")


def fact(conn: Handle, name: str) -> str | None:
    """Return one fact; None if it was never written."""
    # Read with each step of the daemon: the library would first read the names of all tables, twice.
    found = conn.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchall()
    return found[0]["value"] if found else None


def expect_owner(conn: Handle, path: Path, site: str) -> bool:
    """Check that the site owns the ledger; return False if no site does yet. Raise LedgerOfAnother, sqlite3.Error."""
    owner = fact(conn, SITE)
    if owner not in (None, site):
        raise LedgerOfAnother(
            f"the ledger {path} belongs to the site `{owner}`, but this configuration is for the site `{site}`",
            hint="give each site a `ledger` of its own; a new ledger adopts the assets that its folders already hold",
        )
    return owner is not None
