"""The tables of the ledger, and the migrations of older files: each change of a table is a new migration at the end.

The schema is a public interface: any SQLite tool may read it. Times are seconds since the epoch, paths are the raw
bytes relative to the root, MD5s are upper-case hex. A migration, once released, is never changed, except for its
comments: `statements` removes them, and the guide shows them under the newest names. Whether a ledger needs a migration
is left to `integrity`.
"""

import sqlite_utils
from sqlite_utils import Migrations

from assetsync.ledger.file.ledger_files import APPLICATION_ID

migrations = Migrations("assetsync")

_TABLES = """
-- Each row is one version of one path.
CREATE TABLE files (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: a row may be merged away while it is looked up
    path BLOB NOT NULL,       -- relative to the root, as bytes; absolute for a file outside the root
    destfolderid TEXT NOT NULL,  -- folder of the service that the file's mapping names
    size INTEGER NOT NULL,    -- in bytes
    mtime_ns INTEGER NOT NULL,  -- modification time of the file, in nanoseconds
    ctime_ns INTEGER NOT NULL,  -- change time of the file's inode, in nanoseconds
    inode INTEGER NOT NULL,   -- inode number of the file
    md5 TEXT,                 -- MD5 of the content; NULL while it is unknown
    state TEXT NOT NULL,      -- queued, sending, in_doubt, stored, verified or blocked; at rest superseded or gone
    wanted TEXT NOT NULL DEFAULT 'yes',  -- what the tree shows: yes, replaced, gone or unmapped; outside: sent by hand
    reason TEXT,              -- stable word: why it is blocked, in doubt, waiting or checked again
    detail TEXT,              -- the same as a sentence for a person, with the next step
    folded_name TEXT NOT NULL,  -- name to be sent, without case: a folder has at most one open attempt of a name
    assetid TEXT,             -- id that the service assigned
    id_from TEXT,             -- answer (of the upload) or adopted (found by a look-up)
    asset_folder TEXT,        -- folder of the service that holds the asset
    filetype TEXT,            -- kind of asset that the service reported
    meta_digest TEXT,         -- digest of the metadata sent, or of the file's metadata at adoption
    drift TEXT,               -- sentence: how the service differs; unread: not compared yet; away: no file to compare
    failures INTEGER NOT NULL DEFAULT 0,  -- failures in a row; the pause before the next try depends on them
    attempts INTEGER NOT NULL DEFAULT 0,  -- number of uploads begun
    absences INTEGER NOT NULL DEFAULT 0,  -- number of doubts that ended with proof that no whole asset arrived
    crashes INTEGER NOT NULL DEFAULT 0,  -- number of unclean stops during its uploads
    send_again INTEGER NOT NULL DEFAULT 0,  -- 1: a person asked for another copy, so equal versions are not taken over
    due_at REAL NOT NULL DEFAULT 0,  -- earliest time of the next try
    queued_at REAL NOT NULL,  -- when it was first seen in the tree
    uploaded_at REAL,         -- when its upload was accepted, or found by a look-up
    seen_at REAL,             -- when it was first seen in the service's database
    findable_at REAL,         -- when it was first seen through the service's index
    index_asked_at REAL,      -- when searchIndex was last called for it
    verified_at REAL,         -- when it was last read back as it was sent
    rested_at REAL,           -- when it came to rest as superseded or gone
    audited_at REAL,          -- start of the last audit that met its asset
    unseen_boot TEXT,         -- boot in which look-ups did not show its asset
    unseen_first REAL,        -- time of the first of these look-ups, on the steady clock of that boot
    unseen_last REAL          -- time of the last of them, on the same clock
);
CREATE UNIQUE INDEX files_current ON files (path) WHERE wanted = 'yes';
CREATE INDEX files_path ON files (path, id);
CREATE INDEX files_due ON files (due_at, id) WHERE state = 'queued' AND wanted = 'yes';
CREATE INDEX files_by_content ON files (destfolderid, size, md5);
-- One index for each state: SQLite does not recognise that a list of states contains the one that a query asks for.
CREATE INDEX files_sending ON files (id) WHERE state = 'sending';
CREATE INDEX files_in_doubt ON files (id) WHERE state = 'in_doubt';
CREATE INDEX files_stored ON files (due_at, id) WHERE state = 'stored';
CREATE INDEX files_blocked ON files (id) WHERE state = 'blocked';
CREATE INDEX files_blocked_for ON files (reason, destfolderid) WHERE state = 'blocked';
CREATE UNIQUE INDEX files_asset ON files (assetid)
    WHERE assetid IS NOT NULL AND state NOT IN ('superseded', 'gone');
CREATE INDEX files_drift ON files (id) WHERE drift IS NOT NULL;
CREATE INDEX files_history ON files (assetid) WHERE assetid IS NOT NULL;
-- For counting without reading the rows. Every row fulfils its condition, and SQLite uses the index only for a query
-- that has the same condition: others would use it in place of the better indexes above.
CREATE INDEX files_counted ON files (wanted, state, destfolderid, size) WHERE size >= 0;

-- Each row is one POST that was begun; it is open until it is decided.
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY,
    file_id INTEGER NOT NULL,  -- row of `files`
    destfolderid TEXT NOT NULL,  -- folder of the service that it was sent to
    sent_name TEXT NOT NULL,  -- name that was sent
    folded_name TEXT NOT NULL,  -- the same without case
    boundary TEXT NOT NULL,   -- boundary of the form; a cut upload may end in it
    size INTEGER NOT NULL,    -- size in bytes of the file when it was sent
    mtime_ns INTEGER NOT NULL,  -- modification time of the file when it was sent, in nanoseconds
    inode INTEGER NOT NULL,   -- inode number of the file when it was sent
    md5 TEXT,                 -- MD5 of the file when it was sent; NULL while it is unknown
    meta_digest TEXT,         -- digest of the metadata sent
    start_no INTEGER NOT NULL,  -- number of the program's start in which it was sent
    started_at REAL NOT NULL,  -- when it was recorded, before the first byte left
    ended_at REAL,            -- when its answer came or it was given up; NULL while it is in flight
    left_part TEXT,           -- how much of the request left: nothing, part or all; NULL: unknown
    handed INTEGER,           -- number of bytes of the file that left
    handed_md5 TEXT,          -- MD5 of these bytes
    accepted_id TEXT,         -- id of its asset, if it was reopened because look-ups do not show the asset
    is_duplicate INTEGER NOT NULL DEFAULT 0,  -- 1: the service refused it because it has the content
    why TEXT,                 -- stable word: why it failed or is in doubt
    answer TEXT,              -- JSON: fields of the service's answer
    parked INTEGER NOT NULL DEFAULT 0,  -- 1: open, but another upload may have its name: a person must decide this one
    closed_at REAL,           -- when it was decided; NULL while it is open
    result TEXT,              -- accepted, refused, unsent, found, absent, damaged, resolved or sent_again
    grace_boot TEXT,          -- boot in which answered look-ups did not find it
    grace_first REAL,         -- time of the first of these look-ups, on the steady clock of that boot
    grace_last REAL,          -- time of the last of them, on the same clock
    look_at REAL NOT NULL DEFAULT 0,  -- earliest time of the next look-up
    looks INTEGER NOT NULL DEFAULT 0  -- number of answered look-ups
);
CREATE UNIQUE INDEX attempts_open_name ON attempts (destfolderid, folded_name) WHERE closed_at IS NULL AND parked = 0;
CREATE INDEX attempts_open_file ON attempts (file_id) WHERE closed_at IS NULL;
CREATE INDEX attempts_file ON attempts (file_id);

-- Assets that look-ups showed in the mapped folders, and that no row owned.
CREATE TABLE sightings (
    assetid TEXT PRIMARY KEY,  -- id that the service assigned
    folder_id TEXT NOT NULL,  -- folder of the service that showed it
    name TEXT NOT NULL,       -- name in the service
    size INTEGER,             -- in bytes; NULL: not processed yet
    md5 TEXT,                 -- MD5 that the service reported, if any
    first_seen REAL NOT NULL,  -- when a look-up first showed it
    seen_to INTEGER NOT NULL,  -- newest attempt when the look-up that first showed it ended
    why TEXT NOT NULL DEFAULT '',  -- damaged, suspected, doubled, unknown or replaced; empty: not explained
    file_id INTEGER,          -- row of `files` that explains it
    path BLOB,                -- path of that row
    met_at REAL               -- when a look-up last showed it; 0: neither audit nor listing shows it any more
) WITHOUT ROWID;
CREATE INDEX sightings_by_size ON sightings (folder_id, size);

-- Folders of the service that files are sent to.
CREATE TABLE folders (
    destfolderid TEXT PRIMARY KEY,  -- as the configuration names it
    contact_start INTEGER,    -- start of the program in which it was listed before a POST; -1: to be listed again
    hold_reason TEXT,         -- stable word: why nothing is sent there
    hold_detail TEXT,         -- the same as a sentence for a person
    hold_until REAL           -- earliest time of the next try
) WITHOUT ROWID;

-- Sidecars as they were last seen, so that a change is noticed.
CREATE TABLE sidecars (
    path BLOB PRIMARY KEY,    -- relative to the root, as bytes
    size INTEGER NOT NULL,    -- in bytes
    mtime_ns INTEGER NOT NULL,  -- modification time, in nanoseconds
    ctime_ns INTEGER NOT NULL,  -- change time of the inode, in nanoseconds
    inode INTEGER NOT NULL    -- inode number
) WITHOUT ROWID;

-- Requests that commands leave for the process that sends.
CREATE TABLE requests (
    id INTEGER PRIMARY KEY,
    verb TEXT NOT NULL,       -- retry, resume, doubt, drift, audit, upload, uploaded or sighted
    argument TEXT NOT NULL,   -- JSON
    asked_at REAL NOT NULL,   -- when the command left it
    done_at REAL,             -- when it was carried out or refused; NULL while it is open
    answer TEXT               -- result as a sentence, `begun` before it; a refusal begins with `refused: `
);

-- Brakes: each stops uploads until a person releases it, or its cause is gone.
CREATE TABLE brakes (
    id INTEGER PRIMARY KEY,   -- number that `resume` takes
    kind TEXT NOT NULL,       -- root, emptied, vanished, new_files, destfolderid, takeover, missing, service or twin
    subject TEXT NOT NULL,    -- folder that it concerns, or the site
    detail TEXT NOT NULL,     -- what was seen, as a sentence for a person
    amount INTEGER NOT NULL,  -- number of files
    pulled_at REAL NOT NULL,  -- when it was pulled
    resumed_at REAL           -- when it was released; NULL while it is pulled
);
CREATE UNIQUE INDEX brakes_open ON brakes (kind, subject) WHERE resumed_at IS NULL;

-- Uploads in each hour since the epoch (UTC).
CREATE TABLE hours (hour INTEGER PRIMARY KEY, uploads INTEGER NOT NULL, bytes INTEGER NOT NULL);

-- Single facts of the whole ledger, by name.
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
"""


@migrations()
def m001_first(db: sqlite_utils.Database) -> None:
    """Create all tables."""
    # executescript would commit the surrounding transaction first, so each statement runs separately.
    for statement in statements(_TABLES):
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _script(name: str, script: str) -> None:
    """Add a migration that executes a script."""

    @migrations(name=name)
    def run(db: sqlite_utils.Database) -> None:
        for statement in statements(script):
            db.execute(statement)


# Add the folder cache, so that scans skip unchanged folders.
_script("m002_quiet", """
-- Folders whose files all matched their rows at the last scan. A scan skips such a folder while its digest stays the
-- same and none of its rows changes.
CREATE TABLE quiet (
    folder BLOB PRIMARY KEY,  -- with a slash at its end; the root is empty
    digest BLOB NOT NULL,     -- digest of the names, sizes, times and inodes of what is directly in it
    files INTEGER NOT NULL,   -- number of files directly in it
    sidecars INTEGER NOT NULL,  -- number of sidecars directly in it
    ignored INTEGER NOT NULL  -- number of ignored entries directly in it
) WITHOUT ROWID;
""")  # fmt: skip

# Add an index of the few versions with an asset and no digest, so that not every version of a size is read.
_script("m003_unhashed", """
CREATE INDEX files_unhashed ON files (destfolderid, size) WHERE md5 IS NULL AND assetid IS NOT NULL
""")  # fmt: skip

# Store with the grace of a doubt the duration of the slow look-ups that allowed a longer gap.
_script("m004_slow", """
ALTER TABLE attempts ADD COLUMN grace_slow REAL;  -- seconds of the slow look-ups that allowed a longer gap
""")  # fmt: skip

_COUNTED = """
-- Number and total size of versions. Triggers update it for each program that writes to `files`, except for the rows
-- that a REPLACE deletes; once a week everything is counted again.
CREATE TABLE counted (
    destfolderid TEXT NOT NULL,  -- as in `files`
    wanted TEXT NOT NULL,     -- as in `files`
    state TEXT NOT NULL,      -- as in `files`
    files INTEGER NOT NULL,   -- number of versions that have these three
    bytes INTEGER NOT NULL,   -- sum of their sizes
    PRIMARY KEY (destfolderid, wanted, state)
) WITHOUT ROWID;
INSERT INTO counted SELECT destfolderid, wanted, state, COUNT(*), SUM(size) FROM files GROUP BY 1, 2, 3;
DROP INDEX files_counted;
-- Every row fulfils its first condition, and SQLite uses the index only for a query that has the same condition: others
-- would use it in place of the better indexes.
CREATE INDEX files_standing ON files (destfolderid, state) WHERE size >= 0 AND wanted = 'yes';
-- One index for each query: in a common one, the rows that were read would come before those that are to be read.
DROP INDEX files_drift;
CREATE INDEX files_unread ON files (id) WHERE drift = 'unread';
CREATE INDEX files_drifted ON files (wanted) WHERE drift <> 'unread';
"""
_ONE_MORE = """
INSERT INTO counted VALUES (NEW.destfolderid, NEW.wanted, NEW.state, 1, NEW.size)
  ON CONFLICT (destfolderid, wanted, state) DO UPDATE SET files = files + 1, bytes = bytes + NEW.size;
"""
_ONE_LESS = """
UPDATE counted SET files = files - 1, bytes = bytes - OLD.size
  WHERE destfolderid = OLD.destfolderid AND wanted = OLD.wanted AND state = OLD.state;
"""
_COUNTS_ELSE = """
OLD.destfolderid <> NEW.destfolderid OR OLD.wanted <> NEW.wanted OR OLD.state <> NEW.state OR OLD.size <> NEW.size
"""
_CHANGED = f"AFTER UPDATE OF destfolderid, wanted, state, size ON files WHEN {_COUNTS_ELSE}"


@migrations()
def m005_counted(db: sqlite_utils.Database) -> None:
    """Count the files in a table, so that counting costs the same for any number; split the index of drift."""
    for statement in statements(_COUNTED):
        db.execute(statement)
    db.execute(f"CREATE TRIGGER counted_new AFTER INSERT ON files BEGIN {_ONE_MORE} END")
    db.execute(f"CREATE TRIGGER counted_gone AFTER DELETE ON files BEGIN {_ONE_LESS} END")
    db.execute(f"CREATE TRIGGER counted_else {_CHANGED} BEGIN {_ONE_LESS} {_ONE_MORE} END")


# Let an operator record that the service has the metadata that drift reports; read all reported drift again.
_script("m006_settled", """
ALTER TABLE files ADD COLUMN said_digest TEXT;  -- digest of the metadata when `drift` was read; NULL: unreadable
ALTER TABLE files ADD COLUMN agreed_folder TEXT;  -- folder of the service in which a person agreed to leave the asset
UPDATE files SET drift = 'unread' WHERE drift <> 'unread';
""")  # fmt: skip

# Add an index of the uploads into a folder that were closed without an asset: the remains of a cut upload may appear
# later and look like another file's.
_script("m007_waived", """
CREATE INDEX attempts_waived ON attempts (destfolderid, id) WHERE result IN ('absent', 'resolved', 'sent_again')
""")  # fmt: skip

# Add an index of the assets that were moved into a folder of the service: one may equal a file to be sent there.
_script("m008_elsewhere", """
CREATE INDEX files_elsewhere ON files (asset_folder, size, md5) WHERE asset_folder <> destfolderid
""")  # fmt: skip

# Mark as unread the files whose assets were taken over, so that later changes of their metadata are reported.
_script("m009_said_since", """
UPDATE files SET drift = 'unread' WHERE meta_digest IS NULL AND assetid IS NOT NULL AND wanted = 'yes'
""")  # fmt: skip

# Add an index of the names of uploads in doubt, whose remains may be an asset that no row owns.
_script("m010_doubted", """
CREATE INDEX attempts_doubted ON attempts (destfolderid, folded_name)
    WHERE why IS NOT NULL AND result IN ('absent', 'damaged', 'found', 'resolved')
""")  # fmt: skip

# Add an index of files whose drift could not be read because they were missing; they do not count as drift. The same
# words as in `metadata_drift.DRIFTED`, so that SQLite counts drift from the index alone.
_script("m011_away", """
DROP INDEX files_drifted;
CREATE INDEX files_drifted ON files (wanted) WHERE drift <> 'unread' AND drift <> 'away';
CREATE INDEX files_away ON files (id) WHERE drift = 'away';
""")  # fmt: skip

# Replace the index by asset by an index of versions at rest; live versions have an index already. Complements the
# unique index of live rows, so that each upload writes only one of the two.
_script("m012_rested", """
DROP INDEX files_history;
CREATE INDEX files_rested ON files (assetid) WHERE assetid IS NOT NULL AND state IN ('superseded', 'gone');
""")  # fmt: skip

# Exclude accepted uploads from the index of waived uploads by the first condition. SQLite builds a table for a list of
# more than two values for each row written; the first condition avoids most of them.
_script("m013_waived_apart", """
DROP INDEX attempts_waived;
CREATE INDEX attempts_waived ON attempts (destfolderid, id)
    WHERE result <> 'accepted' AND result IN ('absent', 'resolved', 'sent_again');
""")  # fmt: skip

# Record for each folder whether the service renames uploads into it.
_script("m014_names", """
ALTER TABLE folders ADD COLUMN names TEXT;  -- kept or changed: names of uploads that were read back; NULL: unknown
""")  # fmt: skip

# Mark the attempts of `assetsync upload`.
_script("m015_by_hand", """
ALTER TABLE attempts ADD COLUMN by_hand INTEGER NOT NULL DEFAULT 0;  -- 1: sent by `assetsync upload`
""")  # fmt: skip

# Record the duration of an upload in doubt, and the time of its first look-up.
_script("m016_took", """
ALTER TABLE attempts ADD COLUMN took REAL;  -- seconds from first byte to end, 0 if unknown; NULL: cut, or in flight
ALTER TABLE attempts ADD COLUMN look_boot TEXT;  -- boot of its first answered look-up
ALTER TABLE attempts ADD COLUMN look_first REAL;  -- end of that look-up, on the steady clock of that boot
""")  # fmt: skip

# Record since when a folder is held.
_script("m017_held_since", """
ALTER TABLE folders ADD COLUMN hold_since REAL;  -- since when it is held without a release
""")  # fmt: skip

# Record whether an upload in doubt was answered completely; uploads of older ledgers count as not answered.
_script("m018_answered", """
ALTER TABLE attempts ADD COLUMN answered INTEGER NOT NULL DEFAULT 0;  -- 1: the service or a gate before it answered
""")  # fmt: skip

# Store with a doubt all that the next process needs to go on with the span of its answered look-ups.
_script("m019_watched", """
ALTER TABLE attempts ADD COLUMN watch_first REAL;  -- first of the look-ups answered without a gap in `look_boot`
ALTER TABLE attempts ADD COLUMN watch_last REAL;  -- last of them, on the same steady clock
ALTER TABLE attempts ADD COLUMN watch_newest INTEGER;  -- newest attempt when they began; later ones are control samples
ALTER TABLE attempts ADD COLUMN rounds INTEGER NOT NULL DEFAULT 0;  -- number of answered look-ups after half a day
ALTER TABLE attempts ADD COLUMN round_at REAL;  -- the last of these, on the steady clock of `grace_boot`
""")  # fmt: skip

# Give tables and columns the names that the program uses.
_script("m020_renamed", """
ALTER TABLE quiet RENAME TO folder_cache;
UPDATE facts SET name = 'folder_cache_plan' WHERE name = 'quiet_plan';
UPDATE facts SET name = 'folder_cache_since' WHERE name = 'quiet_since';
ALTER TABLE attempts RENAME COLUMN handed TO bytes_sent;
ALTER TABLE attempts RENAME COLUMN handed_md5 TO bytes_sent_md5;
ALTER TABLE attempts RENAME COLUMN parked TO name_released;
ALTER TABLE folders RENAME COLUMN contact_start TO listed_start;
UPDATE facts SET name = 'listed_from' WHERE name = 'contact_from';
ALTER TABLE files RENAME COLUMN said_digest TO drift_digest;
""")  # fmt: skip

# Record since when the service shows an asset unprocessed, because it may never process it.
_script("m021_unprocessed", """
ALTER TABLE files ADD COLUMN unprocessed_id TEXT;  -- the asset that look-ups showed unprocessed; NULL once processed
ALTER TABLE files ADD COLUMN unprocessed_since REAL;  -- the first of these look-ups
ALTER TABLE files ADD COLUMN unprocessed_looks INTEGER;  -- how many of them count since
ALTER TABLE files ADD COLUMN unprocessed_last REAL;  -- the last that counts
""")  # fmt: skip

# Compare the metadata that was sent with the service's; uploads of older ledgers are not compared.
_script("m022_not_as_sent", """
ALTER TABLE attempts ADD COLUMN description_digest BLOB;  -- of what was sent, until it is compared; NULL: not compared
ALTER TABLE attempts ADD COLUMN keywords_digest BLOB;  -- the same of the keywords
ALTER TABLE files ADD COLUMN not_as_sent TEXT;  -- how its asset's metadata differs from what was sent, or the sidecars
CREATE INDEX files_not_as_sent ON files (wanted) WHERE not_as_sent IS NOT NULL;
""")  # fmt: skip

# Record adopted assets with other metadata than the sidecars; assets that were read back before are left out.
_script("m023_adopted_differs", """
ALTER TABLE files ADD COLUMN adopted_differs TEXT;  -- how the metadata of its adopted asset differs from the sidecars
CREATE INDEX files_adopted_differs ON files (wanted) WHERE adopted_differs IS NOT NULL;
""")  # fmt: skip

# Record XMP files as sidecars; those that lie beside files that were sent before are no drift of these files.
_script("m024_xmp", """
ALTER TABLE sidecars ADD COLUMN is_first INTEGER NOT NULL DEFAULT 0;  -- 1: XMP, as the first scan with XMP saw it
INSERT INTO facts SELECT 'xmp_after_file', (SELECT MAX(id) FROM files) FROM files LIMIT 1;
INSERT INTO facts SELECT 'xmp_after_attempt', (SELECT COALESCE(MAX(id), 0) FROM attempts) FROM files LIMIT 1;
INSERT INTO facts SELECT 'xmp_first_scan', 'not ended' FROM files LIMIT 1;
""")  # fmt: skip

# Count the files that wait for their own sidecars, and record which may be sent without.
_script("m025_no_sidecar", """
ALTER TABLE files ADD COLUMN without_sidecar INTEGER NOT NULL DEFAULT 0;  -- 1: needs no sidecar; 2: no metadata
CREATE INDEX files_no_sidecar ON files (queued_at) WHERE state = 'queued' AND wanted = 'yes' AND reason = 'no_sidecar';
""")  # fmt: skip

# Record with each upload what was left out of its metadata.
_script("m026_left_out", """
ALTER TABLE attempts ADD COLUMN left_out TEXT;  -- metadata that was not sent, because the service cannot hold it
""")  # fmt: skip

# Add indexes of the verified versions whose files are read again, and of those that need no sidecar.
_script("m027_checked_again", """
CREATE INDEX files_checked_again ON files (reason, due_at)
    WHERE state = 'verified' AND wanted = 'yes' AND reason IS NOT NULL;
CREATE INDEX files_without_sidecar ON files (inode) WHERE without_sidecar = 1;
""")  # fmt: skip

# Record which metadata fields an upload sent; those of earlier uploads stay unknown.
_script("m028_sent_fields", """
ALTER TABLE attempts ADD COLUMN sent_fields TEXT;  -- digest of the metadata fields and their names; NULL: unknown
""")  # fmt: skip

# Move what the service shows of assets into one table: the sightings, and columns of files. Dropping a column rewrites
# the table, 3 s for a million rows. One copy of it takes as long as nine, because of its indexes, and twice the space.
_script("m029_assets", """
-- Assets that look-ups showed: those of versions, and others in the mapped folders. The view `unowned` has the others.
CREATE TABLE assets (
    assetid TEXT PRIMARY KEY,  -- id that the service assigned
    folder_id TEXT,           -- folder of the service that showed it without a version; of a version's, see `files`
    name TEXT,                -- name in the service, as that folder showed it
    size INTEGER,             -- in bytes, as that folder showed it; NULL: not processed yet
    md5 TEXT,                 -- MD5 that the service reported, if any
    first_seen REAL,          -- when a look-up first showed it without a version
    seen_to INTEGER,          -- newest attempt when that look-up ended
    why TEXT NOT NULL,        -- owned (by a version), damaged, suspected, doubled, unknown, replaced; or empty
    file_id INTEGER,          -- row of `files` that explains an asset without a version
    path BLOB,                -- path of that row
    met_at REAL,              -- when an audit last met it, or a look-up without a version; 0: none does any more
    shown_at REAL,            -- when reading back first saw it in the database; NULL: not yet, or not again
    findable_at REAL,         -- when reading back first saw it through the service's index
    absent_boot TEXT,         -- boot in which look-ups did not show it
    absent_first REAL,        -- time of the first of these look-ups, on the steady clock of that boot
    absent_last REAL,         -- time of the last of them, on the same clock
    unprocessed_since REAL,   -- first look-up that showed it unprocessed; NULL: none, or processed since
    unprocessed_looks INTEGER,  -- how many of them count since
    unprocessed_last REAL     -- the last that counts
) WITHOUT ROWID;
-- Of several versions of an asset the live one replaces those at rest, and a newer one older ones.
INSERT OR REPLACE INTO assets SELECT f.assetid, folder_id, name, s.size, s.md5, first_seen, seen_to,
    COALESCE(why, 'owned'), file_id, s.path, met_at, seen_at, findable_at, unseen_boot, unseen_first, unseen_last,
    IIF(unprocessed_id = f.assetid, unprocessed_since, NULL), unprocessed_looks, unprocessed_last
  FROM files f LEFT JOIN sightings s ON s.assetid = f.assetid WHERE f.assetid IS NOT NULL
  ORDER BY f.assetid, state NOT IN ('superseded', 'gone'), id;
INSERT OR IGNORE INTO assets SELECT *, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM sightings;
DROP TABLE sightings;
-- The conditions are the same words, so that SQLite uses the index for queries of the view.
CREATE INDEX assets_unowned ON assets (folder_id, size) WHERE why <> 'owned';
CREATE VIEW unowned AS SELECT * FROM assets WHERE why <> 'owned';
ALTER TABLE files DROP COLUMN seen_at;
ALTER TABLE files DROP COLUMN findable_at;
ALTER TABLE files DROP COLUMN unseen_boot;
ALTER TABLE files DROP COLUMN unseen_first;
ALTER TABLE files DROP COLUMN unseen_last;
ALTER TABLE files DROP COLUMN unprocessed_id;
ALTER TABLE files DROP COLUMN unprocessed_since;
ALTER TABLE files DROP COLUMN unprocessed_looks;
ALTER TABLE files DROP COLUMN unprocessed_last;
""")  # fmt: skip


def _copy_attempts(name: str, script: str, *dropped: str) -> None:
    """Add a migration that executes a script, and drops columns of the attempts.

    The library copies a million rows once, in 9 s; each ALTER TABLE would take 3 s. It does not recreate partial
    indexes.
    """

    @migrations(name=name)
    def run(db: sqlite_utils.Database) -> None:
        for statement in statements(script):
            db.execute(statement)
        sql = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'attempts'"
        indexes = db.execute(sql).fetchall()
        for index, _ in indexes:
            db.execute(f"DROP INDEX {index}")
        db.table("attempts").transform(drop=dropped)
        for _, sql in indexes:
            db.execute(sql)


# Keep the answered look-ups of a doubt as one value: they are read and written together.
_copy_attempts("m030_looked", """
ALTER TABLE attempts ADD COLUMN looked TEXT;  -- JSON: the answered look-ups so far, in seconds of the steady clock
UPDATE attempts SET looked = json_object(
    'grace', json(IIF(grace_boot IS NULL, '{}', json_object('boot', grace_boot, 'first', COALESCE(grace_first, 0.0),
      'last', COALESCE(grace_last, 0.0), 'slow', COALESCE(grace_slow, 0.0), 'rounds', rounds,
      'round_at', COALESCE(round_at, 0.0)))),
    'watched', json(IIF(grace_boot IS NULL OR watch_first IS NULL OR watch_last IS NULL, '{}',
      json_object('boot', COALESCE(look_boot, ''), 'first', watch_first, 'last', watch_last))),
    'newest', IIF(grace_boot IS NULL, 0, COALESCE(watch_newest, 0)),
    'since', COALESCE(look_first, 0.0), 'boot', COALESCE(look_boot, ''))
  WHERE closed_at IS NULL;
""",
    "grace_boot", "grace_first", "grace_last", "grace_slow", "rounds", "round_at",
    "look_boot", "look_first", "watch_first", "watch_last", "watch_newest",
)  # fmt: skip

# Keep the metadata of an attempt as one value; drop what `files` has of it, and the start of its process.
_copy_attempts("m031_metadata", """
ALTER TABLE attempts ADD COLUMN metadata TEXT NOT NULL DEFAULT '{}';  -- JSON: digests of what was sent, and left_out
UPDATE attempts SET metadata = json_patch('{}', json_object('digest', meta_digest, 'fields', sent_fields,
    'left_out', left_out, 'description', NULLIF(lower(hex(description_digest)), ''),
    'keywords', NULLIF(lower(hex(keywords_digest)), ''))),
  took = IIF(ended_at IS NULL OR left_part IS 'part', took, COALESCE(took, 0.0));
""",
    "meta_digest", "sent_fields", "left_out", "description_digest", "keywords_digest",
    "start_no", "accepted_id", "mtime_ns", "inode",
)  # fmt: skip

# Move what was asked and shown of an asset to `assets`. Keep in one column how its metadata differs, and count unclean
# stops from the attempts. Dropping a column takes 3 s for a million rows, one copy of the table and its indexes 27 s.
_script("m032_one_place", """
ALTER TABLE assets ADD COLUMN index_asked_at REAL;  -- when searchIndex was last called for it, of a version
INSERT INTO assets (assetid, why, met_at, index_asked_at)
  SELECT assetid, 'owned', MAX(audited_at), MAX(index_asked_at) FROM files
  WHERE assetid IS NOT NULL AND (audited_at IS NOT NULL OR index_asked_at IS NOT NULL) GROUP BY assetid
  ON CONFLICT (assetid) DO UPDATE SET index_asked_at = excluded.index_asked_at,
    met_at = IIF(met_at = 0, 0, NULLIF(MAX(COALESCE(met_at, first_seen, 0), COALESCE(excluded.met_at, 0)), 0));
DROP INDEX files_not_as_sent;
DROP INDEX files_adopted_differs;
UPDATE files SET not_as_sent = IIF(assetid IS NULL, NULL, IIF(uploaded_at IS NULL, adopted_differs, not_as_sent))
  WHERE adopted_differs IS NOT NULL OR not_as_sent IS NOT NULL;
ALTER TABLE files RENAME COLUMN not_as_sent TO differs;
CREATE INDEX files_not_as_sent ON files (wanted) WHERE differs IS NOT NULL AND uploaded_at IS NOT NULL;
CREATE INDEX files_adopted_differs ON files (wanted) WHERE differs IS NOT NULL AND uploaded_at IS NULL;
ALTER TABLE files DROP COLUMN audited_at;
ALTER TABLE files DROP COLUMN index_asked_at;
ALTER TABLE files DROP COLUMN adopted_differs;
ALTER TABLE files DROP COLUMN crashes;
""")  # fmt: skip


def statements(script: str) -> list[str]:
    """Return the statements of a script, split at semicolons, without comments."""
    bare = "\n".join(line.split("--", 1)[0] for line in script.splitlines())
    return [part.strip() for part in bare.split(";") if part.strip()]
