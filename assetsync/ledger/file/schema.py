"""The tables of the ledger, and the migrations of older files.

The schema is a public interface: any SQLite tool may read it. Times are seconds since the epoch, paths are the raw
bytes relative to the root, MD5s are upper-case hex. A migration, once released, is never changed. Whether a ledger
needs a migration is left to `integrity`.
"""

import sqlite_utils
from sqlite_utils import Migrations

from assetsync.ledger.file.ledger_files import APPLICATION_ID

migrations = Migrations("assetsync")

_TABLES = """
-- One row is one version of one path.
CREATE TABLE files (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given twice: a row may be merged away while it is looked at
    path BLOB NOT NULL,       -- relative to the root, as bytes; absolute of what is outside
    destfolderid TEXT NOT NULL,  -- the folder of the service that its mapping names
    size INTEGER NOT NULL,    -- in bytes
    mtime_ns INTEGER NOT NULL,  -- of the file, in nanoseconds
    ctime_ns INTEGER NOT NULL,  -- of the file, in nanoseconds
    inode INTEGER NOT NULL,   -- of the file
    md5 TEXT,                 -- of the content, once it was read
    state TEXT NOT NULL,      -- what the service knows of it
    wanted TEXT NOT NULL DEFAULT 'yes',  -- what the tree says: yes, replaced, gone or unmapped; or outside
    reason TEXT,              -- a stable word: why it is blocked, in doubt or waiting
    detail TEXT,              -- the same for a person, with the next step
    folded_name TEXT NOT NULL,  -- the name to be sent, without case: one open attempt for each in a folder
    assetid TEXT,             -- as the service gave it
    id_from TEXT,             -- answer (of the upload) or adopted (found by a look-up)
    asset_folder TEXT,        -- where the service holds the asset
    filetype TEXT,            -- the kind of asset that the service named
    meta_digest TEXT,         -- of the metadata that was sent; that was said when the asset was taken over
    drift TEXT,               -- what the sidecar says now and the service does not
    failures INTEGER NOT NULL DEFAULT 0,  -- in a row, for the pause before the next try
    attempts INTEGER NOT NULL DEFAULT 0,  -- uploads that were begun
    absences INTEGER NOT NULL DEFAULT 0,  -- times that it was proven absent after a doubt
    crashes INTEGER NOT NULL DEFAULT 0,  -- unclean stops while it was on its way
    send_again INTEGER NOT NULL DEFAULT 0,  -- a person asked for a copy: equal versions are not taken over
    due_at REAL NOT NULL DEFAULT 0,  -- not tried before
    queued_at REAL NOT NULL,  -- first seen in the tree
    uploaded_at REAL,         -- when the service gave its id
    seen_at REAL,             -- first seen in the service's database
    findable_at REAL,         -- first seen through the service's index
    index_asked_at REAL,      -- when searchIndex was last asked for it
    verified_at REAL,         -- when it was read back equal
    rested_at REAL,           -- when it became history
    audited_at REAL,          -- last met by an audit of its folder
    unseen_boot TEXT,         -- look-ups that did not show it: the boot, and the first and last of them
    unseen_first REAL,        -- on the steady clock of that boot
    unseen_last REAL
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
    file_id INTEGER NOT NULL,  -- the row of `files`
    destfolderid TEXT NOT NULL,  -- where it was sent
    sent_name TEXT NOT NULL,  -- the name that the service was given
    folded_name TEXT NOT NULL,  -- the same without case
    boundary TEXT NOT NULL,   -- of the form; a cut upload may end in it
    size INTEGER NOT NULL,    -- of the file as it was sent
    mtime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    md5 TEXT,                 -- of the file as it was sent
    meta_digest TEXT,         -- of the metadata that was sent
    start_no INTEGER NOT NULL,  -- which start of the program
    started_at REAL NOT NULL,  -- committed before the first byte left
    ended_at REAL,            -- when its answer came or was given up; NULL while it is in flight
    left_part TEXT,           -- nothing, part or all, as far as it is known
    handed INTEGER,           -- bytes of the file that left
    handed_md5 TEXT,          -- of these
    accepted_id TEXT,         -- the id of its answer, where there was one
    is_duplicate INTEGER NOT NULL DEFAULT 0,  -- the service said that it has the content
    why TEXT,                 -- a stable word: why it failed or is in doubt
    answer TEXT,              -- JSON: what the service said, word for word where it matters
    parked INTEGER NOT NULL DEFAULT 0,  -- open, but a person's matter: does not hold its name back for others
    closed_at REAL,           -- when it was decided; NULL while it is open
    result TEXT,              -- how
    grace_boot TEXT,          -- answered look-ups that did not find it: the boot, and the first and last of them
    grace_first REAL,         -- on the steady clock of that boot
    grace_last REAL,
    look_at REAL NOT NULL DEFAULT 0,  -- when it is looked up next
    looks INTEGER NOT NULL DEFAULT 0  -- how often it was looked up
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
    met_at REAL                     -- when a look-up showed it last; 0: audit and listing no longer did
) WITHOUT ROWID;
CREATE INDEX sightings_by_size ON sightings (folder_id, size);

-- What is known of a folder of the service.
CREATE TABLE folders (
    destfolderid TEXT PRIMARY KEY,  -- as the configuration names it
    contact_start INTEGER,    -- the start in which it was listed before the first POST; -1: to be listed again
    hold_reason TEXT,         -- a stable word: why nothing is sent there
    hold_detail TEXT,         -- the same for a person
    hold_until REAL           -- not tried before
) WITHOUT ROWID;

-- The sidecars that a scan saw, so that one that changes is noticed.
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
    verb TEXT NOT NULL,       -- retry, resume, doubt, drift, audit, upload, uploaded or sighted
    argument TEXT NOT NULL,   -- JSON
    asked_at REAL NOT NULL,   -- when it was left
    done_at REAL,             -- when it was carried out or refused
    answer TEXT               -- the sentence that says which, or begun before that; a refusal begins with `refused: `
);

-- Pauses that wait, or waited, for a person.
CREATE TABLE brakes (
    id INTEGER PRIMARY KEY,   -- the number that `resume` takes
    kind TEXT NOT NULL,       -- root, emptied, vanished, new_files, destfolderid, takeover, missing, service or twin
    subject TEXT NOT NULL,    -- what it is about: a folder, or the site
    detail TEXT NOT NULL,     -- what was seen, for a person
    amount INTEGER NOT NULL,  -- how many files
    pulled_at REAL NOT NULL,  -- when
    resumed_at REAL           -- when a person released it; NULL while it holds
);
CREATE UNIQUE INDEX brakes_open ON brakes (kind, subject) WHERE resumed_at IS NULL;

-- What was uploaded in each hour since the epoch (UTC), counted with the upload.
CREATE TABLE hours (hour INTEGER PRIMARY KEY, uploads INTEGER NOT NULL, bytes INTEGER NOT NULL);

-- Single facts of the whole ledger, by their names.
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
"""


@migrations()
def m001_first(db: sqlite_utils.Database) -> None:
    """Create all tables."""
    # executescript would commit the surrounding transaction first, so each statement runs separately.
    for statement in statements(_TABLES):
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")


_QUIET = """
-- Folders whose files were all as the rows say when their names and facts gave the digest; see `ledger.folder_cache`.
CREATE TABLE quiet (
    folder BLOB PRIMARY KEY,  -- with a slash at its end; the root is empty
    digest BLOB NOT NULL,
    files INTEGER NOT NULL,
    sidecars INTEGER NOT NULL,
    ignored INTEGER NOT NULL
) WITHOUT ROWID;
"""

_SLOW = """
ALTER TABLE attempts ADD COLUMN grace_slow REAL;  -- seconds of the slow look-ups for which the grace is longer
"""


@migrations()
def m002_quiet(db: sqlite_utils.Database) -> None:
    """Add the folder cache, so that scans skip unchanged folders."""
    for statement in statements(_QUIET):
        db.execute(statement)


@migrations()
def m003_unhashed(db: sqlite_utils.Database) -> None:
    """Add an index of the few versions with an asset and no digest, so that not every version of a size is read."""
    db.execute("CREATE INDEX files_unhashed ON files (destfolderid, size) WHERE md5 IS NULL AND assetid IS NOT NULL")


@migrations()
def m004_slow(db: sqlite_utils.Database) -> None:
    """Store with the grace of a doubt the duration of the slow look-ups that allowed a longer gap."""
    for statement in statements(_SLOW):
        db.execute(statement)


_COUNTED = """
-- How many versions there are, and of how many bytes in all; kept by triggers, whoever writes to `files` (not REPLACE,
-- which fires none for what it takes away), and counted anew once a week.
CREATE TABLE counted (
    destfolderid TEXT NOT NULL,  -- as in `files`
    wanted TEXT NOT NULL,     -- as in `files`
    state TEXT NOT NULL,      -- as in `files`
    files INTEGER NOT NULL,   -- how many versions have these three
    bytes INTEGER NOT NULL,   -- their sizes together
    PRIMARY KEY (destfolderid, wanted, state)
) WITHOUT ROWID;
INSERT INTO counted SELECT destfolderid, wanted, state, COUNT(*), SUM(size) FROM files GROUP BY 1, 2, 3;
DROP INDEX files_counted;
-- Its first condition, which every row fulfils, keeps it from all that do not ask for it by the same words: it would be
-- taken in place of the better ones.
CREATE INDEX files_standing ON files (destfolderid, state) WHERE size >= 0 AND wanted = 'yes';
-- One for each question: what was read would stand before what is to be read.
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


_SETTLED = """
ALTER TABLE files ADD COLUMN said_digest TEXT;  -- of the metadata that `drift` is about, where it could be read
ALTER TABLE files ADD COLUMN agreed_folder TEXT;  -- where a person wants the asset, who moved it in the service
UPDATE files SET drift = 'unread' WHERE drift <> 'unread';
"""

# Uploads that were closed without an asset: the remains of a cut upload may appear later and look like another file's.
_WAIVED = """
CREATE INDEX attempts_waived ON attempts (destfolderid, id) WHERE result IN ('absent', 'resolved', 'sent_again')
"""

# Finds an asset that was moved in the service by its current folder, because it may equal a file to be sent there.
_ELSEWHERE = """
CREATE INDEX files_elsewhere ON files (asset_folder, size, md5) WHERE asset_folder <> destfolderid
"""

# The remains of an upload in doubt are searched for under each name that no row owns.
_DOUBTED = """
CREATE INDEX attempts_doubted ON attempts (destfolderid, folded_name)
    WHERE why IS NOT NULL AND result IN ('absent', 'damaged', 'found', 'resolved')
"""

# The same words as in `metadata_drift.DRIFTED`, so that SQLite counts drift from the index alone.
_AWAY = """
DROP INDEX files_drifted;
CREATE INDEX files_drifted ON files (wanted) WHERE drift <> 'unread' AND drift <> 'away';
CREATE INDEX files_away ON files (id) WHERE drift = 'away';
"""

# Complements the unique index of live rows, so that each upload writes only one of the two.
_RESTED = """
DROP INDEX files_history;
CREATE INDEX files_rested ON files (assetid) WHERE assetid IS NOT NULL AND state IN ('superseded', 'gone');
"""

# SQLite builds a table for a list of more than two values for each row written; the first condition avoids most of
# them.
_WAIVED_APART = """
DROP INDEX attempts_waived;
CREATE INDEX attempts_waived ON attempts (destfolderid, id)
    WHERE result <> 'accepted' AND result IN ('absent', 'resolved', 'sent_again');
"""


@migrations()
def m006_settled(db: sqlite_utils.Database) -> None:
    """Let an operator record that the service has the metadata that drift reports; read all reported drift again."""
    for statement in statements(_SETTLED):
        db.execute(statement)


@migrations()
def m007_waived(db: sqlite_utils.Database) -> None:
    """Add an index of the uploads into a folder that were closed without an asset."""
    for statement in statements(_WAIVED):
        db.execute(statement)


@migrations()
def m008_elsewhere(db: sqlite_utils.Database) -> None:
    """Add an index of the assets that were moved into a folder of the service."""
    for statement in statements(_ELSEWHERE):
        db.execute(statement)


@migrations()
def m009_said_since(db: sqlite_utils.Database) -> None:
    """Mark as unread the files whose assets were taken over, so that later changes of their metadata are reported."""
    db.execute("UPDATE files SET drift = 'unread' WHERE meta_digest IS NULL AND assetid IS NOT NULL AND wanted = 'yes'")


@migrations()
def m010_doubted(db: sqlite_utils.Database) -> None:
    """Add an index of the names of uploads in doubt, whose remains may be an asset that no row owns."""
    for statement in statements(_DOUBTED):
        db.execute(statement)


@migrations()
def m011_away(db: sqlite_utils.Database) -> None:
    """Add an index of files whose drift could not be read because they were missing; they do not count as drift."""
    for statement in statements(_AWAY):
        db.execute(statement)


@migrations()
def m012_rested(db: sqlite_utils.Database) -> None:
    """Replace the index by asset by an index of versions at rest; live versions have an index already."""
    for statement in statements(_RESTED):
        db.execute(statement)


@migrations()
def m013_waived_apart(db: sqlite_utils.Database) -> None:
    """Exclude accepted uploads from the index of waived uploads by the first condition."""
    for statement in statements(_WAIVED_APART):
        db.execute(statement)


_NAMES = """
ALTER TABLE folders ADD COLUMN names TEXT;  -- of uploads there, as read back: kept, changed; NULL: not known
"""


@migrations()
def m014_names(db: sqlite_utils.Database) -> None:
    """Record for each folder whether the service renames uploads into it."""
    for statement in statements(_NAMES):
        db.execute(statement)


_BY_HAND = """
ALTER TABLE attempts ADD COLUMN by_hand INTEGER NOT NULL DEFAULT 0;  -- sent by `assetsync upload`
"""


@migrations()
def m015_by_hand(db: sqlite_utils.Database) -> None:
    """Mark the attempts of `assetsync upload`."""
    for statement in statements(_BY_HAND):
        db.execute(statement)


_TOOK = """
ALTER TABLE attempts ADD COLUMN took REAL;  -- seconds from first byte to end; NULL where it was cut, or is not known
ALTER TABLE attempts ADD COLUMN look_boot TEXT;  -- its first answered look-up in this boot: the boot
ALTER TABLE attempts ADD COLUMN look_first REAL;  -- and its end on the steady clock of that boot
"""


@migrations()
def m016_took(db: sqlite_utils.Database) -> None:
    """Record the duration of an upload in doubt, and the time of its first look-up."""
    for statement in statements(_TOOK):
        db.execute(statement)


_HELD_SINCE = """
ALTER TABLE folders ADD COLUMN hold_since REAL;  -- when it was held first, without a release since
"""


@migrations()
def m017_held_since(db: sqlite_utils.Database) -> None:
    """Record since when a folder is held."""
    for statement in statements(_HELD_SINCE):
        db.execute(statement)


_ANSWERED = """
ALTER TABLE attempts ADD COLUMN answered INTEGER NOT NULL DEFAULT 0;  -- the application, or a gate before it, answered
"""


@migrations()
def m018_answered(db: sqlite_utils.Database) -> None:
    """Record whether an upload in doubt was answered completely; uploads of older ledgers count as not answered."""
    for statement in statements(_ANSWERED):
        db.execute(statement)


_WATCHED = """
ALTER TABLE attempts ADD COLUMN watch_first REAL;  -- look-ups answered without a gap, counted or not, in the boot
ALTER TABLE attempts ADD COLUMN watch_last REAL;  -- `look_boot`: the first and the last of them
ALTER TABLE attempts ADD COLUMN watch_newest INTEGER;  -- the newest attempt when they began; a later one is a sample
ALTER TABLE attempts ADD COLUMN rounds INTEGER NOT NULL DEFAULT 0;  -- answered look-ups after half a day
ALTER TABLE attempts ADD COLUMN round_at REAL;  -- the last of them on the steady clock of `grace_boot`
"""


@migrations()
def m019_watched(db: sqlite_utils.Database) -> None:
    """Store with a doubt all that the next process needs to go on with the span of its answered look-ups."""
    for statement in statements(_WATCHED):
        db.execute(statement)


_UNPROCESSED = """
ALTER TABLE files ADD COLUMN unprocessed_id TEXT;  -- the asset that look-ups showed unprocessed; NULL once processed
ALTER TABLE files ADD COLUMN unprocessed_since REAL;  -- the first of these look-ups
ALTER TABLE files ADD COLUMN unprocessed_looks INTEGER;  -- how many of them count since
ALTER TABLE files ADD COLUMN unprocessed_last REAL;  -- the last that counts
"""


@migrations()
def m021_unprocessed(db: sqlite_utils.Database) -> None:
    """Record since when the service shows an asset unprocessed, because it may never process it."""
    for statement in statements(_UNPROCESSED):
        db.execute(statement)


_NOT_AS_SENT = """
ALTER TABLE attempts ADD COLUMN description_digest BLOB;  -- of what was sent, until it is compared; NULL: not compared
ALTER TABLE attempts ADD COLUMN keywords_digest BLOB;  -- the same of the keywords
ALTER TABLE files ADD COLUMN not_as_sent TEXT;  -- how the metadata in the service differs from what was sent
CREATE INDEX files_not_as_sent ON files (wanted) WHERE not_as_sent IS NOT NULL;
"""


@migrations()
def m022_not_as_sent(db: sqlite_utils.Database) -> None:
    """Compare the metadata that was sent with the service's; uploads of older ledgers are not compared."""
    for statement in statements(_NOT_AS_SENT):
        db.execute(statement)


def statements(script: str) -> list[str]:
    """Return the statements of a script, split at semicolons, without comments."""
    bare = "\n".join(line.split("--", 1)[0] for line in script.splitlines())
    return [part.strip() for part in bare.split(";") if part.strip()]
