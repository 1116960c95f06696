"""Count the waiting files of each folder: which folder has the fewest, and how many files go before a file.

A folder is the first one below its mapping; the files beside these folders form one of their own. Both questions read
every waiting file (about a second for 1,000,000 of them), so they are asked seldom. The turns are left to
`sync.upload.queue`.
"""

from collections.abc import Collection, Iterator

from assetsync.ledger.file.database import Database
from assetsync.ledger.folders import HELD
from assetsync.ledger.pauses import outside
from assetsync.ledger.queue import ALL, Choice
from assetsync.ledger.rows import FileRow
from assetsync.model import Mapping

# As in `queue.due`, for the newest. The index finds the rows of a destination folder, among them no row of the past.
_WAITING = (
    "FROM files INDEXED BY files_standing WHERE destfolderid = ?2 AND state = 'queued' AND wanted = 'yes'"
    " AND size >= 0 AND due_at <= ?1 AND attempts = 0"
)
_DESTINATIONS = (
    "SELECT destfolderid FROM counted WHERE wanted = 'yes' AND state = 'queued' AND files > 0"
    f" AND destfolderid NOT IN (SELECT destfolderid FROM folders WHERE {HELD})"
)


class QueueFolders:
    """The ledger's part for the order of the queue; only files that were never tried count as waiting."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def fewest(self, now: float, limit: int, mappings: Collection[Mapping], choice: Choice = ALL) -> list[int]:
        """Return up to `limit` ids of waiting files: those of the folder with the fewest first, its newest first.

        Files that the choice leaves out, and files for folders that are held, are left out.
        """
        waiting = f"{_WAITING}{outside(choice.pauses)}"
        counts = {
            (into, folder): (files, -newest)
            for into, folder, files, newest in self._counts(now, mappings, limit, waiting)
        }
        left, chosen = limit, dict[str, list[bytes]]()
        for into, folder in sorted(counts, key=counts.__getitem__):
            if left > 0 and into not in choice.apart_from:
                chosen.setdefault(into, []).append(folder)
                left -= counts[into, folder][0]
        found: list[tuple[tuple[int, float], float, int]] = []
        for into, folders in chosen.items():
            folder_of = _folder(into, mappings)
            among = [f"x'{folder.hex()}'" for folder in folders]
            sql = (
                f"SELECT id, due_at, {folder_of} AS folder {waiting} AND {folder_of} IN ({', '.join(among)})"
                # All but the last folder are within the limit.
                f" ORDER BY {folder_of} = {among[-1]}, due_at DESC, id DESC LIMIT ?3"
            )
            rows = self._store.rows(sql, now, into, limit)
            found += ((counts[into, row["folder"]], -row["due_at"], -row["id"]) for row in rows)
        return [-id_ for _, _, id_ in sorted(found)[:limit]]

    def most_before(self, row: FileRow, now: float, mappings: Collection[Mapping]) -> int:
        """Return how many files at most are sent before a queued file, if none is queued or fails from now on.

        Every second file is the oldest, and every other one is of the folder with the fewest.
        """
        older: int
        others: int
        older, others = self._store.rows(
            "SELECT COUNT(*) FILTER (WHERE (due_at, id) < (?1, ?2)), COUNT(*) - 1"
            " FROM files WHERE state = 'queued' AND wanted = 'yes'",
            row.due_at, row.id,
        )[0]  # fmt: skip
        bounds = [2 * older + 1, others]
        if row.attempts == 0 and row.due_at <= now:
            folder_of = _folder(row.destfolderid, mappings)
            own = self._store.value(f"SELECT {folder_of} FROM files WHERE id = ?", row.id)
            counts = {(into, folder): files for into, folder, files, _ in self._counts(now, mappings)}
            mine = counts.pop((row.destfolderid, own), 0)
            ahead: int = self._store.value(
                f"SELECT COUNT(*) {_WAITING} AND {folder_of} = ?3 AND (due_at, id) > (?4, ?5)",
                now, row.destfolderid, own, row.due_at, row.id,
            )  # fmt: skip
            for files in sorted(counts.values()):
                # The turns of the oldest may have made another folder smaller by then.
                if files > mine + ahead + 1:
                    break
                ahead += files
            bounds.append(2 * ahead + 1)
        return max(0, min(bounds))

    def _counts(
        self, now: float, mappings: Collection[Mapping], limit: int = -1, waiting: str = _WAITING
    ) -> Iterator[tuple[str, bytes, int, float]]:
        """Yield the folders with waiting files: destination folder, path, number of files, newest due time.

        At most `limit` for each destination folder, those with the fewest files.
        """
        for into in self._store.column(_DESTINATIONS, now):
            sql = f"SELECT {_folder(into, mappings)} AS folder, COUNT(*), MAX(due_at) {waiting} GROUP BY folder"
            for folder, files, newest in self._store.rows(f"{sql} ORDER BY 2, 3 DESC LIMIT ?3", now, into, limit):
                yield into, folder, files, newest


def _folder(destfolderid: str, mappings: Collection[Mapping]) -> str:
    """Return an SQL expression for the folder of a path: up to the first slash below its mapping, or the mapping's."""
    paths = {mapping.path for mapping in mappings if mapping.destfolderid == destfolderid and mapping.path}
    whens = "".join(
        f" WHEN path >= x'{(path + b'/').hex()}' AND path < x'{(path + b'0').hex()}' THEN {len(path) + 1}"
        for path in sorted(paths, key=len, reverse=True)
    )
    start = f"CASE{whens} ELSE 0 END" if whens else "0"
    return f"substr(path, 1, {start} + instr(substr(path, {start} + 1), x'2f'))"
