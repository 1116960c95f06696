"""Destination folders: hold and release them, and record which were listed before the first POST.

Why a folder is held, and for how long, is left to the caller; making a listing to `sync.upload.folder_listing`.
"""

import json
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from assetsync.core.spaced_sample import SpacedSample
from assetsync.ledger.audits import SIGHTED, TAKEN_AWAY
from assetsync.ledger.file.database import ANY_OF, Database
from assetsync.ledger.file.facts import LISTED_FROM, set_fact
from assetsync.ledger.file.handle import Handle
from assetsync.ledger.rows import NEW_FIELD, NO_SIDECAR, WHOSE_ASSET, FileRow, files_where, retry_where
from assetsync.ledger.runs import AUDITED

UNLISTED = "unlisted"
"""The hold reason of a folder that cannot be listed; kept until a listing succeeds, also while one is tried."""

ASKED_TO_WAIT = "asked_to_wait"
"""The hold reason of a folder while an answer to an upload into it asks the client to wait."""

PASSING = f"('{UNLISTED}', '{ASKED_TO_WAIT}')"
"""SQL list of the hold reasons that block no file and end without an operator."""

HELD = "(hold_until > ?1 AND hold_until <= ?1 + 3600)"
"""SQL condition: a folder is held; `now` is the first value. A hold that ends more than an hour ahead does not
count: its clock was set back since."""

NOT_HELD = dict.fromkeys(("hold_reason", "hold_detail", "hold_since", "hold_until"))
"""The columns to write for a folder that is released."""

_WANTED_IN = "INDEXED BY files_standing WHERE size >= 0 AND wanted = 'yes' AND destfolderid = ?"
"""SQL condition for the versions of a folder that the tree holds, to be continued with their states."""

_AGAIN = -1
"""Stored in place of a start number; lower than every start."""


class Hold(NamedTuple):
    """Why nothing is sent to a folder, since when, and when it is tried again; in seconds since the epoch.

    `since` is None for a hold that an older release began.
    """

    reason: str
    detail: str
    since: float | None
    until: float

    @property
    def ends_by_itself(self) -> bool:
        """Whether the hold blocks no file and ends without an operator."""
        return self.reason in (UNLISTED, ASKED_TO_WAIT)


def hold_folder(conn: Handle, destfolderid: str, hold: Hold) -> None:
    """Hold a whole destination folder, because the cause is not in its files; a hold that goes on keeps its `since`."""
    folders = conn.table("folders")
    record = {"destfolderid": destfolderid, **{f"hold_{name}": value for name, value in hold._asdict().items()}}
    for before in list(folders.rows_where("destfolderid = ?", [destfolderid])):
        # A passing reason does not replace another one, which is needed later to release the files that it blocked.
        if hold.ends_by_itself and before["hold_reason"] not in (None, UNLISTED, ASKED_TO_WAIT):
            record |= {"hold_reason": before["hold_reason"], "hold_detail": before["hold_detail"]}
        if before["hold_until"] is not None:
            record["hold_since"] = before["hold_since"]
    folders.upsert(record, pk="destfolderid")


def release_folder(conn: Handle, destfolderid: str, now: float) -> None:
    """Release a folder that was held, or that accepted a file again, and retry the files that its trouble blocked."""
    sql = "SELECT hold_reason FROM folders WHERE destfolderid = ? AND hold_until IS NOT NULL"
    held = conn.execute(sql, (destfolderid,)).fetchone()
    if held is None:
        return
    retry_where(conn, "reason = ? AND destfolderid = ?", (held[0], destfolderid), now)
    conn.table("folders").update(destfolderid, NOT_HELD)


def note_names(conn: Handle, destfolderid: str, *, kept: bool) -> None:
    """Record whether an upload into a folder kept its name; once an upload was renamed, the folder stays `changed`."""
    conn.execute(
        "INSERT INTO folders (destfolderid, names) VALUES (?, ?) ON CONFLICT (destfolderid) DO UPDATE"
        " SET names = excluded.names WHERE names IS NOT 'changed'",
        (destfolderid, "kept" if kept else "changed"),
    )


_SPELLED = "spelled"
"""The fact that holds the folder ids as the configuration spelled them at the last start."""

_NAMED_IN = {
    "files": ("destfolderid", "asset_folder", "agreed_folder"),
    "attempts": ("destfolderid",),
    "assets": ("folder_id",),
    "folders": ("destfolderid",),
}
"""The columns that hold folder ids, by table."""


def _spell(conn: Handle, spelling: Mapping[str, str]) -> None:
    """Write folder ids everywhere in this spelling, which has each of them by its small letters."""

    def others(sql: str) -> list[tuple[str, str]]:
        found = (row[0] for row in conn.execute(sql))
        return [(spelling[each.lower()], each) for each in found if spelling.get(each.lower(), each) != each]

    for table, columns in _NAMED_IN.items():
        for column in columns:
            # A row that would collide stays: the folder is listed anew, and an attempt is looked up as it was sent.
            conn.execute_each(
                f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {column} = ?",
                others(f"SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL"),
            )
    conn.execute_each(
        "UPDATE facts SET value = ? WHERE name LIKE 'mapping:%' AND value = ?",
        others("SELECT DISTINCT value FROM facts WHERE name LIKE 'mapping:%' AND value IS NOT NULL"),
    )
    conn.execute_each(
        f"UPDATE OR IGNORE facts SET name = '{AUDITED}' || ? WHERE name = '{AUDITED}' || ?",
        others(f"SELECT substr(name, {len(AUDITED) + 1}) FROM facts WHERE name LIKE '{AUDITED}%'"),
    )
    # What an operator permits to the brake counts for the folder.
    conn.execute_each(
        "UPDATE OR IGNORE brakes SET subject = ? WHERE kind = 'missing' AND subject = ?",
        others("SELECT DISTINCT subject FROM brakes WHERE kind = 'missing'"),
    )


class FolderListings:
    """The ledger's part for folder listings. `start_no` is the number of the start of this process."""

    def __init__(self, store: Database, start_no: int) -> None:
        self._store = store
        self._start_no = start_no
        self._asks: Counter[str] = Counter()
        self._by_hand: dict[str, int] = {}

    def needed(self, destfolderid: str) -> bool:
        """Return whether the folder must be listed before the first POST into it.

        It must be listed in three cases: it was never listed and none of its rows is verified; the ledger may lack
        uploads that were sent (`open_ledger`); or a mapping has begun to point to it (`again`).
        """
        return not self._store.value(
            "SELECT EXISTS (SELECT 1 FROM folders WHERE destfolderid = ?1 AND listed_start >="
            f"   COALESCE((SELECT CAST(value AS INTEGER) FROM facts WHERE name = '{LISTED_FROM}'), 0))"
            f" OR (NOT EXISTS (SELECT 1 FROM facts WHERE name = '{LISTED_FROM}')"
            "   AND NOT EXISTS (SELECT 1 FROM folders WHERE destfolderid = ?1 AND listed_start < 0) AND EXISTS"
            "   (SELECT 1 FROM files WHERE destfolderid = ?1 AND verified_at IS NOT NULL))",
            destfolderid,
        )

    def may_lack(self) -> bool:
        """Return whether the ledger may lack uploads that were sent, as after a loss of it (`open_ledger`)."""
        return self._store.fact(LISTED_FROM) is not None

    def spell(self, spelling: Mapping[str, str]) -> None:
        """Write folder ids as the configuration does (`_spell`), if that has changed since the last start."""
        spelled = json.dumps(sorted(spelling.values()))
        if self._store.fact(_SPELLED) == spelled:
            return

        def work(conn: Handle) -> None:
            _spell(conn, spelling)
            set_fact(conn, _SPELLED, spelled)

        self._store.write(work)

    def unproven(self, destfolderid: str) -> None:
        """Record that a listing proved nothing: the next start lists the folder again."""
        self._set(destfolderid, _AGAIN)

    def made(self, destfolderid: str) -> None:
        """Record that the folder was listed completely in this start."""
        self._set(destfolderid, self._start_no)

    def again(self, destfolderid: str) -> None:
        """Record that the folder must be listed again, whatever was listed before."""
        self._set(destfolderid, _AGAIN)
        # Count after the write: a thread that sees the new count finds the record in the ledger.
        self._asks[destfolderid] += 1

    def needed_by_hand(self, destfolderid: str) -> bool:
        """Return whether the folder must be listed before an upload by hand; one listing in this process suffices."""
        return self._by_hand.get(destfolderid) != self._asks[destfolderid] and self.needed(destfolderid)

    def made_by_hand(self, destfolderid: str) -> None:
        """Record that the folder was listed completely for uploads by hand; the daemon still has to list it."""
        self.again(destfolderid)
        self._by_hand[destfolderid] = self._asks[destfolderid]

    def asks(self, destfolderid: str) -> int:
        """Return how often `again` was called for the folder in this process; a listing of another count is old."""
        return self._asks[destfolderid]

    def _set(self, destfolderid: str, start_no: int) -> None:
        record = {"destfolderid": destfolderid, "listed_start": start_no}
        self._store.write(lambda conn: conn.table("folders").upsert(record, pk="destfolderid"))

    def accepted(self, destfolderid: str) -> bytes | None:
        """Return the path of a file that the folder accepted, and that was not missed since; None without one."""
        sql = (
            f"SELECT path FROM files f {_WANTED_IN} AND (state IN ('stored', 'verified')"
            "   OR state IN ('in_doubt', 'blocked') AND verified_at IS NULL)"
            " AND (id_from = 'answer' AND asset_folder = destfolderid"
            "   OR assetid IS NOT NULL AND EXISTS (SELECT 1 FROM attempts WHERE file_id = f.id AND closed_at IS NULL))"
            " LIMIT 1"
        )
        path: bytes | None = self._store.value(sql, destfolderid)
        return path

    def first_absent(self, destfolderid: str) -> int | None:
        """Return the first version of a folder whose upload was found absent, and that was not read back since.

        A version that cannot go again by itself is left out: it waits for its sidecar or for a field, or is blocked for
        another reason than its absences.
        """
        sql = (
            f"SELECT MIN(id) FROM files {_WANTED_IN} AND absences > 0 AND state <> 'verified'"
            f" AND COALESCE(reason, '') NOT IN ('{NO_SIDECAR}', '{NEW_FIELD}')"
            " AND (state <> 'blocked' OR reason = 'undecidable')"
        )
        found: int | None = self._store.value(sql, destfolderid)
        return found

    def absent(self, row: FileRow) -> list[tuple[int, float]]:
        """Return number and end of each upload of a file of this name and size that its folder did not show.

        The newest comes first. Other versions count: a file that was touched since is the same. What left in part only
        was not stored whole.
        """
        sql = (
            "SELECT id, COALESCE(ended_at, started_at) FROM attempts WHERE why IS NOT NULL"
            " AND result IN ('absent', 'damaged', 'found', 'resolved') AND destfolderid = ? AND folded_name = ?"
            " AND size = ? AND +result = 'absent' AND left_part IS NOT 'part' ORDER BY id DESC"
        )
        return [(number, ended) for number, ended in self._store.rows(sql, row.destfolderid, row.folded_name, row.size)]

    def lacks(self, destfolderid: str, most: int) -> list[FileRow]:
        """Return queued files that the listing of the folder seems to lack: evenly spaced, below `most`.

        No asset without an owner in the folder has the size of such a file, or none has its name.
        """
        sql = (
            f"SELECT id FROM files f {_WANTED_IN} AND state = 'queued' AND (NOT EXISTS"
            " (SELECT 1 FROM unowned WHERE folder_id = f.destfolderid AND size = f.size)"
            # Not by file, because any number of assets may be of one size.
            " OR folded_name NOT IN (SELECT lower(name) FROM unowned WHERE folder_id = ?1)) ORDER BY id"
        )
        spaced = SpacedSample[int](most // 2)
        for file_id in self._store.column(sql, destfolderid):
            spaced.add(file_id)
        return files_where(self._store, f"id {ANY_OF}", json.dumps(spaced.values))

    def keeps_names(self, destfolderid: str) -> bool:
        """Return whether uploads into the folder were read back, or taken over, under their names, and all of them."""
        sql = "SELECT EXISTS (SELECT 1 FROM folders WHERE destfolderid = ? AND names = 'kept')"
        return bool(self._store.value(sql, destfolderid))

    def named(self, destfolderid: str, *, kept: bool) -> None:
        """Record whether an upload into the folder was read back under the name that was sent."""
        self._store.write(lambda conn: note_names(conn, destfolderid, kept=kept))

    def left_unprocessed(self, destfolderid: str) -> bool:
        """Return whether a sighted asset in the folder, which no version has or had, was still being processed."""
        known = f"why = 'replaced' OR EXISTS (SELECT 1 FROM files WHERE {WHOSE_ASSET.format('= s.assetid')})"
        sql = f"SELECT 1 FROM unowned s WHERE folder_id = ? AND size IS NULL AND NOT ({known}) LIMIT 1"
        return bool(self._store.value(sql, destfolderid))

    def sighted_since(self, assetid: str) -> float | None:
        """Return when an asset that no row owns was first seen; None if none was."""
        seen: float | None = self._store.value("SELECT first_seen FROM unowned WHERE assetid = ?", assetid)
        return seen

    def missed(self, destfolderid: str, limit: int) -> dict[str, float | None]:
        """Return some sighted assets that the folder's newest audit did not show, with the time each was last seen."""
        sql = (
            "SELECT assetid, met_at FROM unowned s WHERE folder_id = ? AND met_at IS NOT 0"
            f" AND {TAKEN_AWAY.format('s.folder_id', SIGHTED.format('s'))} LIMIT ?"
        )
        return {row[0]: row[1] for row in self._store.rows(sql, destfolderid, limit)}

    def not_there(self, missed: Mapping[str, float | None]) -> None:
        """Record that a listing did not show these assets either, unless they were seen since."""
        self._store.change_each("UPDATE assets SET met_at = 0 WHERE assetid = ? AND met_at IS ?", missed.items())
