"""The tables of the ledger and how older files become newer ones.

The schema is a public interface: any SQLite tool may read it. Times are seconds since the epoch, paths are the raw
bytes relative to the root, MD5s are upper-case hex. A migration, once released, is never changed.
"""

import sqlite_utils
from sqlite_utils import Migrations

from assetsync.ledger.damage import APPLICATION_ID

migrations = Migrations("assetsync")

_TABLES = """
-- One row is one version of one path.
CREATE TABLE files (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given twice: a row may be merged away while it is looked at
    path BLOB NOT NULL,
    destfolderid TEXT NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    md5 TEXT,
    state TEXT NOT NULL,
    wanted TEXT NOT NULL DEFAULT 'yes',
    reason TEXT,              -- a stable word: why it is blocked, in doubt or waiting
    detail TEXT,              -- the same for a person, with the next step
    folded_name TEXT NOT NULL,  -- the name to be sent, without case: one open attempt for each in a folder
    assetid TEXT,
    id_from TEXT,             -- answer (of the upload) or adopted (found by a look-up)
    asset_folder TEXT,        -- where the service holds the asset
    filetype TEXT,
    meta_digest TEXT,         -- of the metadata that was sent
    drift TEXT,               -- what the sidecar says now and the service does not
    failures INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    absences INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    send_again INTEGER NOT NULL DEFAULT 0,  -- a person asked for a copy: equal versions are not taken over
    due_at REAL NOT NULL DEFAULT 0,
    queued_at REAL NOT NULL,
    uploaded_at REAL,
    seen_at REAL,             -- first seen in the service's database
    findable_at REAL,         -- first seen through the service's index
    index_asked_at REAL,
    verified_at REAL,
    rested_at REAL,
    audited_at REAL,          -- last met by an audit of its folder
    unseen_boot TEXT, unseen_first REAL, unseen_last REAL
);
CREATE UNIQUE INDEX files_current ON files (path) WHERE wanted = 'yes';
CREATE INDEX files_path ON files (path, id);
CREATE INDEX files_due ON files (due_at, id) WHERE state = 'queued' AND wanted = 'yes';
CREATE INDEX files_by_content ON files (destfolderid, size, md5);
-- One for each state: of a list of states SQLite does not see that it holds the one that is asked for.
CREATE INDEX files_sending ON files (id) WHERE state = 'sending';
CREATE INDEX files_in_doubt ON files (id) WHERE state = 'in_doubt';
CREATE INDEX files_stored ON files (due_at, id) WHERE state = 'stored';
CREATE INDEX files_blocked ON files (id) WHERE state = 'blocked';
CREATE INDEX files_blocked_for ON files (reason, destfolderid) WHERE state = 'blocked';
CREATE UNIQUE INDEX files_asset ON files (assetid)
    WHERE assetid IS NOT NULL AND state NOT IN ('superseded', 'gone');
CREATE INDEX files_drift ON files (id) WHERE drift IS NOT NULL;
CREATE INDEX files_history ON files (assetid) WHERE assetid IS NOT NULL;
-- For counting without reading the rows. Its condition, which every row fulfils, keeps it from all that do not ask for
-- it by the same words: it would be taken in place of the better ones above.
CREATE INDEX files_counted ON files (wanted, state, destfolderid, size) WHERE size >= 0;

-- One row is one POST that was begun; it is open until it is decided.
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY,
    file_id INTEGER NOT NULL,
    destfolderid TEXT NOT NULL,
    sent_name TEXT NOT NULL,
    folded_name TEXT NOT NULL,
    boundary TEXT NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    md5 TEXT,
    meta_digest TEXT,
    start_no INTEGER NOT NULL,
    started_at REAL NOT NULL,
    ended_at REAL,            -- when its answer came or was given up; NULL while it is in flight
    left_part TEXT,           -- nothing, part or all, as far as it is known
    handed INTEGER,
    handed_md5 TEXT,
    accepted_id TEXT,
    is_duplicate INTEGER NOT NULL DEFAULT 0,
    why TEXT,
    answer TEXT,              -- JSON: what the service said, word for word where it matters
    parked INTEGER NOT NULL DEFAULT 0,  -- open, but a person's matter: does not hold its name back for others
    closed_at REAL,
    result TEXT,
    grace_boot TEXT, grace_first REAL, grace_last REAL,
    look_at REAL NOT NULL DEFAULT 0,
    looks INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX attempts_open_name ON attempts (destfolderid, folded_name) WHERE closed_at IS NULL AND parked = 0;
CREATE INDEX attempts_open_file ON attempts (file_id) WHERE closed_at IS NULL;
CREATE INDEX attempts_file ON attempts (file_id);

-- Assets that look-ups showed in our folders and that no row owned.
CREATE TABLE sightings (
    assetid TEXT PRIMARY KEY,
    folder_id TEXT NOT NULL,
    name TEXT NOT NULL,
    size INTEGER,
    md5 TEXT,
    first_seen REAL NOT NULL,
    seen_to INTEGER NOT NULL,       -- the newest attempt when the look-up that first showed it ended
    why TEXT NOT NULL DEFAULT '',   -- damaged, suspected, doubled, unknown, or nothing
    file_id INTEGER,
    path BLOB,
    met_at REAL                     -- when a look-up showed it last
) WITHOUT ROWID;
CREATE INDEX sightings_by_size ON sightings (folder_id, size);

CREATE TABLE folders (
    destfolderid TEXT PRIMARY KEY,
    contact_start INTEGER,    -- the start in which it was listed before the first POST
    hold_reason TEXT,
    hold_detail TEXT,
    hold_until REAL
) WITHOUT ROWID;

CREATE TABLE sidecars (
    path BLOB PRIMARY KEY,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL
) WITHOUT ROWID;

-- What commands beside a running process ask of it.
CREATE TABLE requests (
    id INTEGER PRIMARY KEY,
    verb TEXT NOT NULL,
    argument TEXT NOT NULL,   -- JSON
    asked_at REAL NOT NULL,
    done_at REAL,
    answer TEXT
);

CREATE TABLE brakes (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL,
    amount INTEGER NOT NULL,
    pulled_at REAL NOT NULL,
    resumed_at REAL
);
CREATE UNIQUE INDEX brakes_open ON brakes (kind, subject) WHERE resumed_at IS NULL;

CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
"""


@migrations()
def m001_first(db: sqlite_utils.Database) -> None:
    """Create everything."""
    # executescript would commit the surrounding transaction first, so each statement goes by itself.
    for statement in statements(_TABLES):
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def statements(script: str) -> list[str]:
    """Split a script at the semicolons that end its statements, comments removed."""
    bare = "\n".join(line.split("--", 1)[0] for line in script.splitlines())
    return [part.strip() for part in bare.split(";") if part.strip()]


def known() -> set[str]:
    """Give the names of all migrations that this release has."""
    empty = sqlite_utils.Database(memory=True)
    try:
        return {migration.name for migration in migrations.pending(empty)}
    finally:
        empty.close()
