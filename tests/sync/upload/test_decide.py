"""What becomes of a queued file: one row for each rule, as values.

Covers `sync/upload/facts.py`.
"""

from dataclasses import replace

import pytest

from assetsync.core.settled import HOUR, KEEPS_CHANGING, PastUpload
from assetsync.ledger.equal_content import Sighted
from assetsync.ledger.rows import FileRow
from assetsync.model import FileStat, Mapping, State, UploadOptions, Wanted
from assetsync.sync.intake.sidecars import FileMetadata
from assetsync.sync.upload.decide import Block, Gather, Send, Vanished, Wait, decide
from assetsync.sync.upload.facts import (
    Absent,
    Adopt,
    Content,
    Fact,
    Facts,
    FieldShown,
    KindShown,
    ListedAgain,
    Listing,
    MayBeAnothers,
    MayBeUploadOf,
    NothingEqual,
    Requeue,
    Resembles,
    Rules,
    SidecarState,
    TakeOver,
    Unconfirmed,
    Unreadable,
)

NOW = 1_000_000.0
STAT = FileStat(100, 5, 5, 7)
MAPPING = Mapping(b"photos", "F1")
RULES = Rules(settle=5.0, settles=[5.0])
MD5 = "A" * 32


def named(value: object) -> str | None:
    return "+".join(value) if isinstance(value, dict) else None


def row_of(**values) -> FileRow:
    blank = dict.fromkeys(FileRow._fields)
    zero = dict.fromkeys(("failures", "attempts", "absences", "send_again"), 0)
    known = {
        "id": 1, "path": b"photos/a.jpg", "destfolderid": "F1", "size": STAT.size, "mtime_ns": STAT.mtime_ns,
        "ctime_ns": STAT.ctime_ns, "inode": STAT.inode, "state": State.QUEUED, "wanted": Wanted.YES,
        "folded_name": "a.jpg", "due_at": NOW - 10, "queued_at": NOW - 10,
    }  # fmt: skip
    return FileRow(**(blank | zero | known | values))


def metadata(*, has_own: bool = False, own_is_empty: bool = False) -> FileMetadata:
    return FileMetadata((), "1", UploadOptions(), "digest", (b"a.jpg.yaml",) * has_own, own_is_empty)


OTHER = row_of(id=2, path=b"photos/b.jpg")
ALL = Facts(
    row_of(), RULES, NOW, MAPPING, 5.0, past_uploads=(), listing=Listing(), kind=KindShown(), disk=STAT,
    content=Content(MD5), equal=NothingEqual(), sidecars=SidecarState(metadata()), new_field=FieldShown(),
)  # fmt: skip
CUTS = [PastUpload(NOW - 30 + number, is_cut=True) for number in range(3)]
LONG_AGO, JUST_NOW = NOW - 25 * HOUR, NOW - HOUR


def test_file_with_all_facts_in_order_is_sent():
    assert isinstance(decide(ALL), Send)


@pytest.mark.parametrize(
    ("known", "needed"),
    [
        ({"past_uploads": None}, Fact.PAST_UPLOADS),
        ({"listing": None}, Fact.LISTING),
        ({"kind": None}, Fact.KIND),
        ({"disk": None}, Fact.DISK),
        ({"content": None}, Fact.CONTENT),
        ({"equal": None}, Fact.EQUAL),
        ({"sidecars": None}, Fact.METADATA),
        ({"new_field": None}, Fact.NEW_FIELD),
        ({"past_uploads": None, "row": row_of(send_again=1), "sidecars": None}, Fact.METADATA),
    ],
    ids=named,
)
def test_missing_fact_is_asked_for(known, needed):
    assert decide(replace(ALL, **known)) == Gather(needed)


def test_facts_are_asked_for_by_cost():
    facts, asked = Facts(row_of(), RULES, NOW, MAPPING, 5.0), []
    names = ("past_uploads", "listing", "kind", "disk", "content", "equal", "sidecars", "new_field")
    while isinstance(decision := decide(facts), Gather):
        name = names[len(asked)]
        asked.append(decision.fact)
        setattr(facts, name, getattr(ALL, name))
    # The one that is missing is asked for files that wait for a sidecar.
    assert asked == [fact for fact in Fact if fact is not Fact.HAS_SIDECAR]


@pytest.mark.parametrize(
    ("known", "until", "why"),
    [
        ({"mapping": None}, 60, "its mapping has changed"),
        ({"mapping": Mapping(b"photos", "F2")}, 60, "its mapping has changed"),
        ({"listing": Listing(is_running=True)}, 5, "waits until its folder"),
        ({"listing": Listing("A1", JUST_NOW)}, 60, "the service still works on A1"),
        ({"kind": KindShown(b"photos/b.jpg")}, 2, "waits for the answer to photos/b.jpg, which shows the kind"),
        ({"disk": Absent.FOLDER}, 60, "nor is anything else in its mapped folder"),
        ({"content": MayBeUploadOf(OTHER)}, 5, "may be what was being uploaded as photos/b.jpg"),
        ({"equal": MayBeUploadOf(OTHER)}, 5, "an equal asset may come from the upload of photos/b.jpg"),
        ({"equal": MayBeAnothers("A1")}, 60, "A1 has the same content and another file's name: waits until"),
        ({"equal": Resembles([Sighted("A1", "a.jpg", True)], OTHER)}, 5, "asset A1 may come from the upload of"),
        ({"equal": ListedAgain("A1")}, 0, "the last audit did not show A1"),
        ({"listing": Listing(unsure="the listing is incomplete")}, 60, "the listing is incomplete"),
        (
            {"new_field": FieldShown("F", [b"b.pdf"])},
            5,
            "processed b.pdf, the first file with the metadata field F",
        ),
        ({"new_field": FieldShown("F", [b"b.pdf"]), "row": row_of(queued_at=NOW - 400)}, 100, "first file with"),
        ({"new_field": FieldShown("F", [b"b", b"c"], is_tried=True)}, 5, "not processed b and c, the first files with"),
        ({"sidecars": SidecarState(None, "broken", 3.0)}, 3, "until its sidecar has settled"),
        ({"sidecars": SidecarState(metadata(has_own=True), settles_in=3.0)}, 3, "until its sidecar has settled"),
        ({"rules": replace(RULES, sidecar_wait=60.0)}, 50, "waits for its sidecar"),
    ],
    ids=named,
)
def test_file_waits(known, until, why):
    decision = decide(replace(ALL, **known))
    assert isinstance(decision, Wait)
    assert decision.until == NOW + until
    assert why in decision.why


def test_file_waits_behind_an_undecided_upload():
    assert decide(replace(ALL, content=MayBeUploadOf(OTHER))).behind == OTHER


@pytest.mark.parametrize(
    ("known", "reason", "detail"),
    [
        ({"past_uploads": CUTS}, KEEPS_CHANGING, "changed during each of its last 3 uploads"),
        ({"listing": Listing("A1", LONG_AGO)}, "unprocessed", "has held A1 of the same name for 24 hours"),
        ({"disk": Unreadable("it is locked")}, "unreadable", "it is locked"),
        ({"row": row_of(size=0), "disk": STAT._replace(size=0)}, "empty_file", "the file is empty"),
        ({"rules": replace(RULES, max_file_size=99)}, "too_large", "upload.max_file_size is 99"),
        ({"content": Unreadable("it is broken")}, "unreadable", "it is broken"),
        ({"equal": Unreadable("it is locked")}, "unreadable", "it is locked; what was uploaded from there"),
        ({"equal": Resembles([Sighted("A1", "a.jpg", True)])}, "resembles", "the folder holds A1 of the same name"),
        ({"replaces": "A1", "rules": replace(RULES, resend_changed=False)}, "changed", "policy.on_change is report"),
        ({"sidecars": SidecarState(None, "line 3 is broken")}, "sidecar", "line 3 is broken"),
        ({"row": row_of(send_again=1), "equal": Unconfirmed("A1")}, "unconfirmed", "holds this content as A1"),
    ],
    ids=named,
)
def test_file_is_blocked(known, reason, detail):
    decision = decide(replace(ALL, **known))
    assert isinstance(decision, Block)
    assert decision.reason == reason
    assert detail in decision.detail


@pytest.mark.parametrize(
    ("known", "decision"),
    [
        ({"disk": STAT._replace(size=101)}, Requeue(STAT._replace(size=101))),
        ({"content": Requeue(STAT._replace(mtime_ns=6))}, Requeue(STAT._replace(mtime_ns=6))),
        ({"equal": TakeOver(OTHER, MD5)}, TakeOver(OTHER, MD5)),
        ({"equal": Adopt("A1", MD5)}, Adopt("A1", MD5)),
        ({"equal": Adopt("A1", MD5), "listing": Listing(unsure="x")}, Adopt("A1", MD5)),
    ],
    ids=named,
)
def test_file_needs_no_upload(known, decision):
    assert decide(replace(ALL, **known)) == decision


def test_file_alone_gone_has_vanished():
    assert isinstance(decide(replace(ALL, disk=Absent.FILE)), Vanished)


@pytest.mark.parametrize(
    "known",
    [
        {"row": row_of(send_again=1), "equal": Adopt("A1", MD5)},
        {"row": row_of(send_again=1), "listing": Listing(unsure="the listing is incomplete")},
        {"row": row_of(send_again=1), "past_uploads": CUTS},
        {"replaces": "A1"},
        {"content": Content(None), "equal": NothingEqual()},
        {"rules": replace(RULES, sidecar_wait=60.0), "sidecars": SidecarState(metadata(has_own=True))},
        {"rules": replace(RULES, sidecar_wait=60.0), "row": row_of(queued_at=NOW - 61)},
        {"rules": replace(RULES, sidecar_wait=60.0), "row": row_of(queued_at=NOW + 61)},
        {"rules": replace(RULES, sidecar_wait=60.0), "mapping": MAPPING._replace(sidecars=False)},
    ],
    ids=named,
)
def test_file_is_sent_nevertheless(known):
    assert isinstance(decide(replace(ALL, **known)), Send)


def test_empty_sidecar_has_not_come_yet():
    waiting = replace(RULES, sidecar_wait=60.0)
    empty = SidecarState(metadata(has_own=True, own_is_empty=True))
    assert isinstance(decide(replace(ALL, rules=waiting, sidecars=empty)), Wait)
