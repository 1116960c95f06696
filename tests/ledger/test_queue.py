"""What is due, what need not be sent, and the attempt that is committed before a body leaves.

Covers `ledger/equal_content.py` and `ledger/folders.py`.
"""

import itertools

import pytest

from assetsync.clock import SystemClock
from assetsync.core.backoff import LONGEST
from assetsync.core.states import Event
from assetsync.ledger.audits import Unmet, begin
from assetsync.ledger.folders import Hold
from assetsync.ledger.queue import Choice, NameBusy, Outdated
from assetsync.ledger.read_back import Change
from assetsync.model import Answer, Asset, Mapping, Outcome, Sent, SentExtent, State, Wanted

from .conftest import M1, M2, NOW, accepted, traced

HELD = Outcome(Answer.REFUSED, "unknown_folder", "the service has no such folder:")


def due(book, now: float = NOW, **said) -> list[bytes]:
    return [row.path for row in book.ledger.queue.due(now, 100, **said)]


def looked_for(book, row, md5: str) -> list:
    """Look for equal versions as sending does: closer only where the hints say that it pays."""
    alike = book.ledger.equal_content
    return alike.equals(row, md5) if alike.hints(row, md5)[0] else []


def test_queue_returns_oldest_due_first(book):
    for path, at in ((b"c", NOW - 1), (b"a", NOW - 3), (b"b", NOW - 2), (b"later", NOW + 60)):
        book.queue(path, due=at)
    assert due(book) == [b"a", b"b", b"c"]
    assert [row.path for row in book.ledger.queue.due(NOW, 2)] == [b"a", b"b"]
    assert book.ledger.queue.next_due() == NOW - 3


def test_newest_due_excludes_tried_files(book):
    for path, at in ((b"a", NOW - 3), (b"b", NOW - 1), (b"c", NOW - 2), (b"later", NOW + 60), (b"odd", NOW + 9000)):
        book.queue(path, due=at)
    tried = book.queue(b"tried", due=NOW)
    book.lose(tried)
    book.ledger.decisions.resolve_as_absent(tried, NOW)
    assert due(book, choice=Choice(newest=True)) == [b"b", b"c", b"a"]


def test_file_above_size_limit_is_not_due(book):
    for size in (99, 100, 101):
        book.queue(b"%d" % size, size=size)
    assert due(book, below=100) == [b"99"]
    assert due(book, below=100, choice=Choice(newest=True)) == [b"99"]


def test_skipped_rows_do_not_use_the_limit(book):
    rows = [book.queue(path) for path in (b"a", b"b", b"c")]
    assert [row.path for row in book.ledger.queue.due(NOW, 2, skip={rows[0].id})] == [b"b", b"c"]


def test_due_time_beyond_backoff_is_due_now(book):
    book.queue(b"a", due=NOW + LONGEST - 1)
    book.queue(b"b", due=NOW + LONGEST + 1)
    assert due(book) == [b"b"]


def test_blocked_file_retry_backs_off(book):
    row = book.queue(b"a")
    tried, now = [], NOW
    while now < NOW + 7200:
        if book.ledger.queue.retry_blocked("unreadable", now, only_due=True) or now == NOW:
            tried.append(now - NOW)
            book.ledger.queue.block(row.id, "unreadable", "why", now + 1)
        now += 60
    assert tried[:6] == [0, 60, 180, 420, 900, 1860]
    assert {later - sooner for sooner, later in itertools.pairwise(tried[4:])} == {960}


def test_requested_retry_ignores_the_backoff(book):
    row = book.queue(b"a")
    book.ledger.queue.block(row.id, "unreadable", "why", NOW + 3600)
    assert book.ledger.queue.retry_blocked("unreadable", NOW + 3601, only_due=True) == 0
    assert book.ledger.queue.retry_blocked("sidecar", NOW + 3601) == 0
    assert book.ledger.queue.retry_blocked("unreadable", NOW + 3601) == 1
    book.ledger.queue.block(row.id, "unreadable", "why", NOW + 3602)
    assert book.ledger.queue.retry_blocked("unreadable", NOW - 9000, only_due=True) == 1


def test_held_folder_returns_nothing(book):
    book.queue(b"a", folder="F")
    book.queue(b"b", folder="G")
    book.hold_folder("F", HELD, NOW + 600)
    assert due(book) == [b"b"]
    assert book.ledger.queue.counts(NOW) == (2, 1)
    assert book.ledger.reports.holds(NOW)["F"].detail == HELD.detail
    assert due(book, NOW + 600) == [b"a", b"b"]
    book.ledger.queue.release_folders(NOW)
    assert due(book) == [b"a", b"b"]


def test_hold_lasts_since_its_first_failure(book):
    book.queue(b"a", folder="F")
    for since in (NOW, NOW + 600):
        book.ledger.queue.hold_folder("F", Hold("unknown_folder", "why", since, since + 600))
    assert book.ledger.reports.holds(NOW + 601) == {"F": ("unknown_folder", "why", NOW, NOW + 1200)}
    book.ledger.queue.release_folders(NOW + 601)
    assert book.ledger.reports.holds(NOW + 601) == {}
    book.ledger.queue.hold_folder("F", Hold("unlisted", "why", NOW + 700, NOW + 900))
    assert book.ledger.reports.holds(NOW + 701)["F"].since == NOW + 700


def test_folder_release_retries_its_files(book):
    rows = [book.queue(path, folder=folder) for path, folder in ((b"a", "F"), (b"b", "F"), (b"c", "G"))]
    book.ledger.queue.block(rows[0].id, HELD.reason, HELD.detail, NOW)
    book.ledger.queue.block(rows[1].id, "sidecar", "line 1", NOW)
    book.ledger.queue.block(rows[2].id, HELD.reason, HELD.detail, NOW)
    book.hold_folder("F", HELD, NOW + 600)
    book.ledger.queue.release_folders(NOW)
    assert [book.row(path).state for path in (b"a", b"b", b"c")] == [State.QUEUED, State.BLOCKED, State.BLOCKED]


@pytest.mark.parametrize("how", ["sending", "in_doubt"])
def test_newer_version_waits_for_older(book, how):
    old = book.queue(b"a")
    attempt = book.begin(old) if how == "sending" else book.lose(old)
    book.queue(b"a", size=20)
    assert book.by_id(old).state == how
    assert due(book) == []
    if how == "sending":
        book.ledger.attempt_results.accepted(attempt, old.id, accepted("A"), NOW)
    else:
        book.ledger.decisions.resolve_as_absent(old, NOW)
    assert book.by_id(old).state is State.SUPERSEDED
    assert due(book) == [b"a"]


@pytest.mark.parametrize("how", ["sending", "in_doubt"])
def test_newer_version_waits_in_another_folder_too(book, how):
    """The name is free there, so that the older version of the path alone keeps the newer back."""
    old = book.queue(b"a")
    book.begin(old) if how == "sending" else book.lose(old)
    book.queue(b"a", folder="G", size=20)
    assert due(book) == []


def test_open_attempt_blocks_equal_name(book):
    first = book.queue(b"x/Photo.jpg")
    second = book.queue(b"y/photo.JPG")
    elsewhere = book.queue(b"z/photo.jpg", folder="G")
    attempt = book.begin(first)
    assert due(book) == [elsewhere.path]
    with pytest.raises(NameBusy):
        book.begin(second)
    assert book.row(second.path).state is State.QUEUED
    book.ledger.attempt_results.accepted(attempt, first.id, accepted("A"), NOW)
    assert due(book) == [second.path, elsewhere.path]


def test_replaced_version_is_not_begun(book):
    stale = book.queue(b"a")
    fresh = book.queue(b"a", size=20)
    with pytest.raises(Outdated):
        book.begin(stale)
    book.ledger.queue.block(stale.id, "sidecar", "", NOW)
    book.ledger.queue.vanished(stale.id, NOW)
    assert book.ledger.queue.adopt(stale, "A", M1, "said", NOW) is False
    assert book.by_id(stale) is None
    assert book.row(b"a") == fresh
    assert book.ledger.doubts.newest_attempt() == 0


def test_remapped_version_is_not_begun(book):
    stale = book.queue(b"a")
    book.ledger.store.write(lambda conn: conn.execute("UPDATE files SET destfolderid = 'G'"))
    with pytest.raises(Outdated):
        book.begin(stale)
    assert book.ledger.doubts.newest_attempt() == 0
    assert book.begin(book.row(b"a")) == 1


def test_attempt_is_in_flight_once_committed(book):
    row = book.queue(b"a")
    attempt = book.ledger.doubts.of(row.id)
    assert attempt is None
    book.begin(row)
    attempt = book.ledger.doubts.of(row.id)
    assert attempt is not None
    assert (attempt.ended_at, attempt.closed_at, attempt.md5) == (None, None, M1)
    assert (book.row(b"a").state, book.row(b"a").attempts) == (State.SENDING, 1)


# What the row of equal content is when the new version is to be sent; whether it counts as an equal.
EQUALS = {
    "verified": (lambda book, row: book.accept(row, "A"), True),
    "sending": (lambda book, row: book.begin(row), True),
    "in_doubt": (lambda book, row: book.lose(row), True),
    "gone_with_an_asset": (
        lambda book, row: (
            book.accept(row, "A"),
            book.ledger.versions.unwanted([(row.id, row.path)], Event.VANISHED, NOW),
        ),
        True,
    ),
    "blocked_with_an_open_attempt": (
        lambda book, row: (
            book.lose(row),
            book.ledger.store.write(
                lambda conn: conn.execute("UPDATE files SET state = 'blocked' WHERE id = ?", (row.id,))
            ),
        ),
        True,
    ),
    "queued": (lambda book, row: None, False),
    "blocked_unsent": (lambda book, row: book.ledger.queue.block(row.id, "sidecar", "", NOW), False),
    "gone_unsent": (
        lambda book, row: book.ledger.versions.unwanted([(row.id, row.path)], Event.VANISHED, NOW),
        False,
    ),
}


@pytest.mark.parametrize("case", EQUALS)
def test_equal_version_needs_possible_asset(book, case):
    act, counts = EQUALS[case]
    old = book.queue(b"old")
    act(book, old)
    new = book.queue(b"new")
    assert [row.id for row in looked_for(book, new, M1)] == [old.id] * counts
    assert looked_for(book, new, M2) == []
    assert book.ledger.equal_content.has_size(new.id, "F", 10) is counts
    assert book.ledger.equal_content.has_size(new.id, "G", 10) is False


def test_unhashed_version_is_matched_by_stat(book):
    old = book.queue(b"old", inode=77, mtime=5)
    book.lose(old, md5=None, left=SentExtent.PART)
    for inode, mtime, counts in ((77, 5, True), (78, 5, False), (77, 6, False)):
        new = book.queue(f"new{inode}{mtime}".encode(), inode=inode, mtime=mtime)
        assert [row.id for row in looked_for(book, new, M1)] == [old.id] * counts


def test_version_without_its_asset_is_no_equal(book):
    resting = book.accept(book.queue(b"a"), "A")
    book.ledger.versions.unwanted([(resting.id, b"a")], Event.VANISHED, NOW)
    owner = book.queue(b"b")
    assert book.ledger.queue.adopt(owner, "A", M1, "said", NOW) is True
    new = book.queue(b"c")
    assert [row.id for row in looked_for(book, new, M1)] == [owner.id]
    assert book.ledger.queue.take_over(new, book.by_id(resting), M1, NOW) is None
    assert book.row(b"c").state is State.QUEUED


def test_own_path_and_inode_rank_first(book):
    moved = book.accept(book.queue(b"moved", inode=4242), "M")
    for number in range(120):
        book.accept(book.queue(f"{number}".encode()), f"A{number}")
    new = book.queue(b"renamed", inode=4242)
    equals = looked_for(book, new, M1)
    assert len(equals) == 100
    assert equals[0].id == moved.id


def test_takeover_keeps_asset_and_attempts(book):
    old = book.accept(book.queue(b"a"), "A")
    new = book.queue(b"b", inode=9)
    assert book.ledger.queue.take_over(new, old, M1, NOW) is State.STORED
    merged = book.row(b"b")
    assert (merged.id, merged.assetid, merged.inode, merged.wanted) == (old.id, "A", 9, Wanted.YES)
    assert book.by_id(new) is None
    assert book.ledger.versions.current_of(b"a") is None


@pytest.mark.parametrize("first", ["sending", "in_doubt"])
def test_takeover_keeps_open_attempt(book, first):
    old = book.queue(b"a")
    attempt = book.begin(old) if first == "sending" else book.lose(old)
    new = book.queue(b"b")
    assert book.ledger.queue.take_over(new, book.by_id(old), M1, NOW) == first
    assert book.ledger.doubts.of(book.row(b"b").id).id == attempt


def test_returning_content_regains_its_asset(book):
    a1 = book.accept(book.queue(b"p", size=10), "A")
    b1 = book.accept(book.queue(b"p", size=20), "B", md5=M2)
    a2 = book.queue(b"p", size=10)
    assert [book.by_id(row).state for row in (a1, b1)] == [State.SUPERSEDED, State.SUPERSEDED]
    assert looked_for(book, a2, M1)[0].id == a1.id
    book.ledger.queue.take_over(a2, book.by_id(a1), M1, NOW)
    assert book.row(b"p").assetid == "A"
    assert [orphan.assetid for orphan in book.ledger.reports.orphans(NOW)] == ["B"]


def test_swapped_files_swap_their_assets(book):
    x = book.accept(book.queue(b"x", size=10), "A")
    y = book.accept(book.queue(b"y", size=10), "B", md5=M2)
    new_x = book.queue(b"x", inode=y.inode)
    new_y = book.queue(b"y", inode=x.inode)
    book.ledger.queue.take_over(new_x, book.by_id(y), M2, NOW)
    book.ledger.queue.take_over(new_y, book.by_id(x), M1, NOW)
    assert [(book.row(path).assetid, book.row(path).id) for path in (b"x", b"y")] == [("B", y.id), ("A", x.id)]


def test_second_takeover_stays_queued(book):
    old = book.accept(book.queue(b"a"), "A")
    new, later = book.queue(b"b"), book.queue(b"c")
    assert book.ledger.queue.take_over(new, old, M1, NOW) is State.STORED
    assert book.ledger.queue.take_over(later, old, M1, NOW) is None
    assert book.row(b"c").state is State.QUEUED


def test_second_adopter_stays_queued(book):
    first, second = book.queue(b"a"), book.queue(b"b")
    assert book.ledger.queue.adopt(first, "A", M1, "said", NOW) is True
    assert book.ledger.queue.adopt(second, "A", M1, "said", NOW) is False
    assert [book.row(path).state for path in (b"a", b"b")] == [State.STORED, State.QUEUED]


def test_only_own_failures_are_counted(book):
    row = book.queue(b"a")
    unsent = Sent(Outcome(Answer.UNSENT, "unsent", "refused"), SentExtent.NOTHING, 0, "")
    for counts in (False, True, False):
        book.ledger.attempt_results.unsent(book.begin(row), row.id, unsent, NOW, NOW + 5, counts=counts)
    assert (book.row(b"a").failures, book.row(b"a").attempts, book.row(b"a").due_at) == (1, 3, NOW + 5)


def _verified(book) -> None:
    row = book.accept(book.queue(b"v"), "V")
    book.ledger.read_back.apply_all([Change(row, Event.CONFIRMED, {"verified_at": NOW})], NOW)


def _restored(book) -> None:
    """Go on with a copy of the ledger that is older than its last start."""
    book.ledger.close()
    copy = book.path.read_bytes()
    book.reopen()
    book.ledger.close()
    book.path.write_bytes(copy)
    book.reopen()


@pytest.mark.parametrize(
    ("steps", "needed"),
    [
        ((), True),
        ((lambda book: book.accept(book.queue(b"s"), "S"),), True),
        ((_verified,), False),
        ((lambda book: book.ledger.folder_listings.made("F"),), False),
        ((lambda book: book.ledger.folder_listings.made("G"),), True),
        ((lambda book: book.ledger.folder_listings.made("F"), lambda book: book.reopen()), False),
        ((_verified, _restored), True),
        ((lambda book: book.ledger.folder_listings.made("F"), _restored), True),
        ((_verified, _restored, lambda book: book.ledger.folder_listings.made("F")), False),
        ((_verified, _restored, lambda book: book.ledger.folder_listings.made("F"), lambda book: book.reopen()), False),
    ],
)
def test_unknown_folder_is_listed_first(book, steps, needed):
    for step in steps:
        step(book)
    assert book.ledger.folder_listings.needed("F") is needed


# What a worker or the main loop asks again and again, a million files or not.
@pytest.mark.parametrize(
    "ask",
    [
        lambda ledger: ledger.queue.due(NOW, 1),
        lambda ledger: ledger.queue.due(NOW, 64, choice=Choice(newest=True), among=[1, 2]),
        lambda ledger: ledger.queue_folders.fewest(NOW, 64, [Mapping(b"a", "F")]),
        lambda ledger: ledger.queue.next_due(),
        lambda ledger: ledger.doubts.count(),
        lambda ledger: ledger.doubts.due(NOW),
        lambda ledger: ledger.doubts.next_look(),
        lambda ledger: ledger.doubts.by_folder(),
        lambda ledger: ledger.reports.holds(NOW),
        lambda ledger: ledger.queue.due(NOW, 64, (), Choice(("F", "G"))),
        lambda ledger: ledger.read_back.to_verify(NOW),
        lambda ledger: ledger.read_back.to_index(NOW, NOW, NOW),
        lambda ledger: ledger.attempt_results.recover(NOW),
        lambda ledger: ledger.queue.retry_blocked("unreadable", NOW),
        lambda ledger: ledger.audits.sent_as("F", "a.jpg"),
        lambda ledger: ledger.audits.unmet_of(Unmet("F"), ["A", "B"], begin(SystemClock())),
        lambda ledger: ledger.metadata_drift.met(
            "F", [Asset("A", "F", "a", 10, M1, "doc"), Asset("B", "F", "b", 10, M2, "doc")]
        ),
        lambda ledger: ledger.equal_content.resembling(ledger.versions.current_of(b"there"), ["there"]),
        lambda ledger: ledger.control_samples.has_begun(),
        lambda ledger: ledger.queue.verified_name(b"there"),
        lambda ledger: ledger.queue.is_overtaken(1),
        # Accepted with the id of another, whose owner is looked for.
        lambda ledger: ledger.attempt_results.accepted(1, 1, accepted("A"), NOW),
    ],
)
def test_frequent_queries_scan_no_table(book, ask):
    """SQLite's plan of each query that is asked often uses an index."""
    book.begin(book.queue(b"there"))
    book.accept(book.queue(b"other"), "A")
    store = book.ledger.store
    with traced(store) as statements:
        store._writer.conn.set_trace_callback(statements.append)
        ask(book.ledger)
        store._writer.conn.set_trace_callback(None)
    plans = [
        row["detail"]
        for statement in statements
        if statement.upper().startswith("SELECT")
        for row in store.rows(f"EXPLAIN QUERY PLAN {statement}")
    ]
    assert plans
    assert [plan for plan in plans if plan in ("SCAN f", "SCAN o", "SCAN a", "SCAN files", "SCAN attempts")] == []
    # These hold all files.
    of_all = ("files_by_content", "files_path", "files_current", "files_standing")
    assert [plan for plan in plans if plan.startswith("SCAN ") and plan.endswith(of_all)] == []


@pytest.mark.parametrize(
    ("held", "due"),
    [((), 4), (("F",), 2), (("G", "H"), 2), (("F", "G", "H"), 0), (("F", "G", "H", "I"), 0)],
)
def test_files_of_held_folders_are_not_due(book, held, due):
    for number, folder in enumerate("FFGH"):
        book.queue(f"{number}".encode(), folder=folder)
    outcome = Outcome(Answer.REFUSED, "unknown_folder", "not there")
    for folder in held:
        book.hold_folder(folder, outcome, NOW + 60)
    assert len(book.ledger.queue.due(NOW, 10)) == due
    assert book.ledger.queue.counts(NOW) == (4, 4 - due)
    assert book.ledger.reports.counts(NOW).held == 4 - due
    assert len(book.ledger.queue.due(NOW + 61, 10)) == 4
