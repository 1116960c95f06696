"""What must hold after every step of a simulation, told from the service's side and from the ledger's.

Nothing here is asked of the program: what was stored is known to the simulated service, what stood in the tree to its
users. The promises I1 to I8 are named in `test_simulation`; what holds only at the end is `sim_end`'s.
"""

import sqlite3
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import quote

from assetsync.core.doubt import MAX_ABSENCES
from assetsync.core.doubt_grace import SLOW_GAP
from assetsync.core.names import may_be
from assetsync.ledger.rows import FileRow
from assetsync.service.search import like_pattern

from .sim_answers import KEY, md5
from .sim_tree import CONTENTS, FOLDERS, PATHS, anchor_of
from .sim_values import Post, Stored

if TYPE_CHECKING:
    from .simulation import Simulation

_MOST_DOUBTS = 5
"""For each worker: four may be in doubt when another file leaves, and all that are on their way may be lost."""

_MOST_LOOKS = 30
"""In a minute, for one upload: a listing is for all doubts of a folder, and each begins with short pauses."""


class Violation(AssertionError):
    """A promise that was not kept."""


class Checks:
    """The witnesses of one simulation."""

    def __init__(self, simulation: "Simulation") -> None:
        self._simulation = simulation
        self.heard: list[str] = []
        self._allowed: Counter[tuple[str, bytes]] = Counter()
        self._stored: Counter[tuple[str, bytes]] = Counter()
        self._graces: dict[int, tuple[float, float]] = {}
        # By attempt: the numbers of its look-ups within the last minute, with the true times at which they were seen.
        self._looks: dict[int, list[tuple[float, int]]] = {}
        self._blind: Counter[str] = Counter()
        self.blind_copies: set[tuple[str, bytes]] = set()

    def posted(self, post: Post) -> None:
        """I2: a body leaves only for a version that is neither in doubt nor stored, after its intent is committed."""
        rows = self._rows(
            "SELECT f.state, f.assetid, (SELECT COUNT(*) FROM attempts o WHERE o.file_id = f.id AND o.id <> a.id"
            " AND o.closed_at IS NULL) AS open FROM attempts a JOIN files f ON f.id = a.file_id WHERE a.boundary = ?",
            post.boundary,
        )
        if len(rows) != 1:
            raise Violation(f"I2: {post.name} leaves before its intent is committed")
        state, assetid, other = rows[0]
        if state != "sending" or assetid is not None or other:
            raise Violation(f"I2: {post.name} is sent while it is {state}, asset {assetid}, {other} attempts open")

    def made(self, asset: Stored) -> None:
        """I2: no more whole copies than there were files of the content at once, or a person asked for."""
        if not asset.whole:
            return
        key = (asset.folder, asset.content)
        self._stored[key] += 1
        most = self._simulation.files.most[key] + self._allowed[key] + self._untold(asset) + self._handed_on(asset)
        most += self._under_other_names(asset)
        if self._stored[key] > most and self._blind[asset.folder]:
            self._blind[asset.folder] -= 1
            self._allowed[key] += 1
            self.blind_copies.add(key)
        elif self._stored[key] > most and self._may_be_hidden(key):
            self.blind_copies.add(key)
        elif self._stored[key] > most:
            raise Violation(
                f"I2: {asset.name} in {asset.folder} ({len(asset.content)} bytes) is stored {self._stored[key]} times"
                f" by us, and {most} is the most there may be"
            )

    def _may_be_hidden(self, key: tuple[str, bytes]) -> bool:
        """Return whether a folder shows nothing, so that one file, and no other, may be sent there again and again.

        A person who has a file sent there again takes the folder for empty, and so does a ledger that has forgotten.
        """
        folder, content = key
        if folder != self._simulation.variant.lies.hides:
            return False
        copied = {other for where, other in self.blind_copies if where == folder}
        # Where uploads are renamed and no MD5 is shown, nothing that appears later can be matched with a file.
        variant = self._simulation.variant
        is_nameless = variant.renames and not variant.gives_md5
        if self._simulation.retried or self._simulation.forgot or is_nameless:
            copied = set()
        return copied <= {content} and self._stored[key] < self._simulation.files.most[key] + MAX_ABSENCES

    def _under_other_names(self, asset: Stored) -> int:
        """Count equal assets of other names that a capped list hides from a ledger that has forgotten them.

        Their files were renamed since, so that no search by name shows them either.
        """
        if not (self._simulation.forgot and self._simulation.service.habits.lies.cap):
            return 0
        others = (one for one in self._simulation.service.assets.values() if one is not asset and one.post is not None)
        same = (one for one in others if (one.folder, one.content) == (asset.folder, asset.content))
        return sum(not may_be(asset.name, one.name) for one in same)

    def _untold(self, asset: Stored) -> int:
        """Count versions of which no digest is known on either side: one that was only touched may be sent again.

        So it is with a large file on whose first upload the process died, where the service gives no MD5.
        """
        if self._simulation.variant.gives_md5:
            return 0
        sql = "SELECT COUNT(*) FROM files WHERE destfolderid = ? AND size = ? AND md5 IS NULL AND assetid IS NOT NULL"
        return int(self._rows(sql, asset.folder, len(asset.content))[0][0])

    def _handed_on(self, asset: Stored) -> int:
        """Count equal assets that people moved from this folder to another, where an equal file took them over.

        Also of one that has gone on from there since: what comes back to this folder with it is sent there. And those
        about which a person is asked, of a file that was never hashed: nobody can tell that this one is equal to it.
        """
        taken = "SELECT COUNT(*) FROM files WHERE assetid = ? AND destfolderid <> ?"
        asked = (
            "SELECT COUNT(*) FROM attempts a JOIN files f ON f.id = a.file_id"
            " WHERE a.boundary = ? AND f.md5 IS NULL AND f.state = 'blocked'"
        )
        moved = [
            one
            for one in self._simulation.service.assets.values()
            if one.curated and one.content == asset.content and one.made_in == asset.folder != one.folder
        ]
        return sum(
            int(self._rows(taken, one.id, asset.folder)[0][0]) + int(self._rows(asked, one.post)[0][0]) for one in moved
        )

    def blinded(self, folder: str) -> None:
        """Note that a folder shows nothing: the first file that is sent there, and no other, may be there already."""
        self._blind[folder] += 1

    def allow(self, row: FileRow) -> None:
        """Note that a person wants another copy of a version."""
        for content in (*CONTENTS, *map(anchor_of, FOLDERS)):
            if len(content) == row.size and row.md5 in (None, md5(content)):
                self._allowed[row.destfolderid, content] += 1

    def is_wanted_again(self, folder: str, content: bytes) -> bool:
        """Whether a person wanted another copy of such content in a folder: one may lie there that is nobody's."""
        return self._allowed[folder, content] > 0

    def may_come_again(self, folder: str, content: bytes) -> None:
        """Note that a file went away after a look and before its intent was committed: it is sent still.

        Should an equal file have come elsewhere meanwhile, each of them is sent once. So it is where a person takes an
        asset away: it may be sent once more.
        """
        self._allowed[folder, content] += 1

    def truth_of(self, row: FileRow) -> str | None:
        """Give the asset that is the version's, None where there is none, or `unknown` while that is not decided."""
        service = self._simulation.service
        # What is still on its way would belie a person who says that nothing came of it.
        late = any(asset.folder == row.destfolderid for asset in service.late)
        if row.md5 is None or late or self._simulation.baton.busy() or self._simulation.hand.runs:
            return "unknown"
        equal = [a for a in service.shown() if md5(a.content) == row.md5]
        if any(asset.curated for asset in equal):
            # A person who does not know who moved it says nothing.
            return "unknown"
        equal = [asset for asset in equal if asset.folder == row.destfolderid]
        owned = self._simulation.site.context.ledger.doubts.owned([a.id for a in equal])
        free = [asset for asset in equal if asset.id not in owned or asset.id == row.assetid]
        # Of several a person takes the one that has the file's name; another may be another file's upload, which
        # without an MD5 nobody would know for it any more.
        named = [asset for asset in free if asset.name.casefold() == row.folded_name]
        if len(free) > 1 and not named:
            return "unknown"
        return (named or free)[0].id if free else None

    def always(self) -> None:
        """I3 and I6, and what must be true of the ledger's rows after every step."""
        simulation = self._simulation
        simulation.pauses.always()
        service = simulation.service
        held: dict[str, int] = {}
        doubts = sending = 0
        for row in self._rows(
            "SELECT id, state, assetid, (SELECT COUNT(*) FROM attempts a WHERE a.file_id = f.id AND a.closed_at IS NULL"
            " AND a.ended_at IS NULL) AS flying, (SELECT COUNT(*) FROM attempts a WHERE a.file_id = f.id"
            " AND a.closed_at IS NULL AND a.by_hand) AS by_hand FROM files f WHERE state NOT IN ('superseded', 'gone')"
        ):
            doubts += row["state"] == "in_doubt"
            # The number of uploads by hand is up to the persons.
            sending += row["state"] == "sending" and not row["by_hand"]
            if (row["state"] == "sending") != (row["flying"] == 1):
                raise Violation(f"I2: row {row['id']} is {row['state']} with {row['flying']} attempts in flight")
            assetid = row["assetid"]
            if assetid is None:
                continue
            if assetid in held:
                raise Violation(f"I3: {assetid} is held by two rows")
            held[assetid] = row["id"]
            if not any(assetid in known for known in (service.assets, service.given, service.deleted)):
                raise Violation(f"I3: {assetid} never came from the service")
        workers = simulation.config.upload.workers
        # Of what was accepted lately, half may be in doubt; folders that accept nothing have a limit of their own.
        more = len(service.assets) // 2 + 4 * workers if simulation.variant.default_limits else 0
        # The daemon has one sender that takes several files together, the simulation two.
        senders = sum(name.startswith("send") for name in simulation.baton.fibers) if simulation.variant.together else 1
        if doubts > _MOST_DOUBTS * workers + service.phantoms + more or sending > senders * workers:
            raise Violation(f"I6: {doubts} doubts, {sending} on their way")
        if len(simulation.watch_queue) > 2 * len(PATHS) or len(simulation.site.settling) > 2 * len(PATHS):
            raise Violation("I6: watch_queue or settling files pile up")
        self._answered_graces()
        self._few_looks()

    def _few_looks(self) -> None:
        """I6: an upload in doubt is looked up a few times a minute, whatever keeps it in doubt."""
        now, before = self._simulation.clock.true, self._looks
        self._looks = {}
        for row in self._rows("SELECT id, sent_name, looks FROM attempts WHERE closed_at IS NULL"):
            seen = [one for one in before.get(row["id"], []) if one[0] > now - 60.0]
            self._looks[row["id"]] = [*seen, (now, row["looks"])]
            if seen and row["looks"] - seen[0][1] > _MOST_LOOKS:
                raise Violation(f"I6: {row['sent_name']} is looked up {row['looks'] - seen[0][1]} times in a minute")

    def _answered_graces(self) -> None:
        """I2: the grace of a doubt spans answered look-ups of its folder alone, without a longer gap than may be.

        A search for another name counts if it shows an asset of ours.
        """
        service, boot = self._simulation.service, self._simulation.clock.boot()
        ours = {row["assetid"] for row in self._rows("SELECT assetid FROM files WHERE assetid IS NOT NULL")}
        for row in self._rows(
            "SELECT id, destfolderid, sent_name, looked -> '$.grace.first' AS first, looked -> '$.grace.last' AS last,"
            " looked -> '$.grace.slow' AS slow, took, left_part, answered"
            " FROM attempts WHERE closed_at IS NULL AND looked ->> '$.grace.boot' = ?",
            boot,
        ):
            first, last = float(row["first"]), float(row["last"])
            if self._graces.get(row["id"]) == (first, last):
                continue
            self._graces[row["id"]] = first, last
            asked_for = ("%", like_pattern(row["sent_name"]))
            answered = [
                at
                for booted, at, folder, pattern, shown in service.answered
                if booted == boot
                and at >= first
                and folder == row["destfolderid"]
                and (pattern in asked_for or not ours.isdisjoint(shown))
            ]
            if first == last:
                # It begins when the process goes on after the answer, which may be later.
                continue
            after = [at for at in answered if at >= last]
            counted = [first, *(at for at in answered if at < last), *after[:1]]
            most = self._longest_gap(row) + SLOW_GAP * float(row["slow"])
            if not after or any(later - earlier > most for earlier, later in pairwise(counted)):
                raise Violation(f"I2: the grace of {row['sent_name']} counts look-ups that were not answered")

    def _longest_gap(self, row: sqlite3.Row) -> float:
        """Return half the grace, or a twentieth of the grace that the doubt needs before half a day has passed."""
        config, took = self._simulation.config, row["took"]
        grace = needed = config.upload.doubt_grace
        if took is not None or row["left_part"] != "part":
            needed = max(grace, 5 * (took or 0.0), 0.0 if row["answered"] else config.service.read_timeout)
        return max(grace / 2, needed / 20)

    def counted(self) -> None:
        """I8: the ledger's counts are those of its rows."""
        counted = {tuple(row) for row in self._rows("SELECT * FROM counted WHERE files <> 0 OR bytes <> 0")}
        there = "SELECT destfolderid, wanted, state, COUNT(*), SUM(size) FROM files GROUP BY 1, 2, 3"
        if counted != {tuple(row) for row in self._rows(there)}:
            raise Violation(f"I8: counted {sorted(counted)}")

    def secret(self) -> None:
        """I5: the key stands in nothing that is logged or kept."""
        simulation = self._simulation
        kept = b"".join(path.read_bytes() for path in sorted(simulation.base.glob("ledger.db*")))
        said = "\n".join([*self.heard, *simulation.trace])
        for form in (KEY, quote(KEY, safe=""), quote(KEY)):
            if form in said or form.encode() in kept:
                raise Violation("I5: the API key is in the log or in the ledger")

    def _rows(self, sql: str, *values: object):
        return self._simulation.site.context.ledger.store.rows(sql, *values)
