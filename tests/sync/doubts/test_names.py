"""Services without MD5 that change names: what may be a file is neither sent a second time nor taken for granted."""

import pytest

from assetsync.model import State
from assetsync.sync.requests.decisions import Adopt, Resolve
from assetsync.sync.requests.take import take_requests
from tests.sync.conftest import lose

VERIFIED, BLOCKED, IN_DOUBT = State.VERIFIED, State.BLOCKED, State.IN_DOUBT
SUN, MOON = "日.txt", "月.txt"


@pytest.fixture
def bare(world):
    """A site whose service gives no MD5 and shows names as ISO-8859-1."""
    world.service.gives_md5 = False
    world.service.shows_latin1 = True
    return world


def say(world, path: str, asset: str | None) -> str:
    return world.ask(Resolve(path.encode(), asset))


def lose_ledger(world) -> None:
    world.close()
    for ending in ("", "-wal", "-shm", ".epoch"):
        world.ledger_path.with_name(world.ledger_path.name + ending).unlink(missing_ok=True)


# After a lost ledger.


def test_lost_ledger_holds_names_of_question_marks(bare):
    bare.write(SUN)
    bare.scan_and_send()
    lose_ledger(bare)
    bare.scan_and_send()
    bare.live(60)
    row = bare.row(SUN)
    assert (row.state, row.reason, len(bare.service.posts)) == (BLOCKED, "resembles", 1)
    assert next(iter(bare.service.assets)) in row.detail
    assert "doubt resolve PATH --asset ID" in row.detail


def test_person_names_the_asset_of_question_marks(bare):
    bare.write(SUN)
    bare.scan_and_send()
    lose_ledger(bare)
    bare.scan_and_send()
    say(bare, SUN, next(iter(bare.service.assets)))
    bare.live(60)
    assert (bare.row(SUN).state, len(bare.service.posts)) == (VERIFIED, 1)


def test_person_has_it_sent_all_the_same(bare):
    bare.service.put(b"content", "?.txt")
    bare.scan_and_send()
    bare.write(SUN)
    bare.scan_and_send()
    assert bare.row(SUN).reason == "resembles"
    bare.ledger.decisions.send_again(bare.row(SUN), bare.clock.now())
    bare.live(60)
    assert (bare.row(SUN).state, len(bare.service.posts)) == (VERIFIED, 1)


@pytest.mark.parametrize(("others", "expected"), [({}, VERIFIED), ({MOON: b"CONTENT"}, BLOCKED)])
def test_adopt_takes_question_marks_of_one_file(bare, others, expected):
    for path, content in ({SUN: b"content"} | others).items():
        bare.write(path, content)
    bare.scan_and_send()
    lose_ledger(bare)
    bare.scan()
    bare.ask(Adopt())
    bare.scan_and_send()
    bare.live(60)
    assert set(bare.states().values()) == {expected}
    assert len(bare.service.posts) == 1 + len(others)


def test_adopt_beside_a_daemon_covers_known_files(bare):
    """The daemon carries it out for what is blocked, and blocks a file that comes later."""
    for path in ("a.txt", "b.txt"):
        bare.service.put(b"content", path)
    bare.write("a.txt")
    bare.scan_and_send()
    assert bare.row("a.txt").reason == "resembles"
    bare.ledger.add_request(Adopt.verb, Adopt().argument(), bare.clock.now())
    take_requests(bare.site.context)
    bare.live(60)
    bare.write("b.txt")
    bare.scan_and_send()
    assert (bare.row("a.txt").state, bare.row("b.txt").reason, bare.posted()) == (VERIFIED, "resembles", [])


def test_first_contact_sends_what_resembles_nothing(bare):
    # Of equal size all of them, as fixed-size records are; none of their names may have been the file's.
    for number in range(50):
        bare.service.put(b"c%06d" % number, f"IMG_{number}.txt")
    bare.service.put(b"content", "??.txt")
    for number in range(5):
        bare.write(f"{chr(ord('日') + number)}.txt", b"%07d" % number)
    bare.scan_and_send()
    bare.live(60)
    assert (set(bare.states().values()), len(bare.service.posts)) == ({VERIFIED}, 5)


def test_file_waits_for_upload_of_like_name(bare):
    bare.write("first.txt", b"of another size")
    bare.scan_and_send()
    lose(bare, "lost_after", path=SUN)
    bare.write(MOON, b"SOME CONTENT")
    # A look-up for another doubt has shown the asset, and it is nobody's yet.
    bare.site.gates.checked()
    shown = bare.service._shown(list(bare.service.assets.values())[-1])
    bare.ledger.assets.record([shown], bare.ledger.doubts.newest_attempt(), bare.clock.now())
    bare.scan_and_send()
    assert "waits until that upload is decided" in (bare.row(MOON).detail or "")
    bare.live(60)
    assert (set(bare.states().values()), len(bare.service.posts)) == ({VERIFIED}, 3)


# Lost answers.


def test_lost_answer_with_question_marks_is_found(bare):
    lose(bare, "lost_after", path=SUN)
    bare.live(60)
    assert (bare.row(SUN).state, len(bare.service.posts)) == (VERIFIED, 1)


def test_lost_answers_of_like_names_wait_for_a_person(bare):
    bare.service.script.extend(["lost_after", "lost_before"])
    for path, content in ((SUN, b"content"), (MOON, b"CONTENT")):
        bare.write(path, content)
    bare.scan_and_send()
    bare.live(120)
    assert {(row.state, row.reason) for row in map(bare.row, (SUN, MOON))} == {(BLOCKED, "undecidable")}
    (asset,) = bare.service.assets.values()
    assert all(asset.id in bare.row(path).detail for path in (SUN, MOON))
    mine, other = (SUN, MOON) if asset.content == b"content" else (MOON, SUN)
    say(bare, mine, asset.id)
    say(bare, other, None)
    bare.live(60)
    assert (set(bare.states().values()), len(bare.service.posts)) == ({VERIFIED}, 3)
    assert bare.service.contents == [b"CONTENT", b"content"]


def test_persons_word_is_not_doubted_for_what_was_seen(bare):
    lose(bare, "lost_before", path=SUN)
    bare.write(MOON, b"SOME CONTENT")
    bare.service.script.append("lost_after")
    bare.site.gates.checked()
    bare.scan_and_send()
    bare.live(120)
    assert {row.state for row in map(bare.row, (SUN, MOON))} == {BLOCKED}
    say(bare, SUN, None)
    bare.live(60)
    assert (bare.row(SUN).state, len(bare.service.posts)) == (VERIFIED, 3)


def test_similar_name_is_no_proof_of_arrival(bare):
    lose(bare, "lost_before", path=SUN)
    asset = bare.service.put(b"SOME CONTENT", "readme.txt")
    bare.live(120)
    row = bare.row(SUN)
    assert (row.state, row.reason, len(bare.service.posts)) == (BLOCKED, "undecidable", 1)
    assert asset.id in row.detail


# Workflows that rename.


@pytest.fixture
def renaming(bare):
    bare.service.renames = True
    return bare


@pytest.mark.parametrize("processing", [0.0, 90.0])
@pytest.mark.parametrize("known", [False, True])
def test_lost_answer_of_renamed_upload_waits_for_person(renaming, processing, known):
    if known:
        renaming.write("first.txt")
        renaming.scan_and_send()
        renaming.live(60)
    renaming.service.processing = processing
    posts = len(renaming.service.posts)
    lose(renaming, "lost_after")
    renaming.live(240)
    row = renaming.row("a.jpg")
    asset = list(renaming.service.assets.values())[-1]
    assert (row.state, row.reason, len(renaming.service.posts)) == (BLOCKED, "undecidable", posts + 1)
    assert asset.id in row.detail
    say(renaming, "a.jpg", asset.id)
    renaming.live(60)
    assert (renaming.row("a.jpg").state, renaming.orphans()) == (VERIFIED, [])


def test_renamed_upload_that_is_sent_again_is_listed(renaming):
    lose(renaming, "lost_after")
    renaming.live(120)
    renaming.ledger.decisions.send_again(renaming.row("a.jpg"), renaming.clock.now())
    renaming.live(60)
    assert (renaming.row("a.jpg").state, len(renaming.service.posts)) == (VERIFIED, 2)
    assert [orphan.why for orphan in renaming.orphans()] == ["suspected"]


def test_renamed_upload_with_md5_is_found(renaming):
    renaming.service.gives_md5 = True
    renaming.service.processing = 90.0
    lose(renaming, "lost_after")
    renaming.live(240)
    assert (renaming.row("a.jpg").state, len(renaming.service.posts)) == (VERIFIED, 1)


def test_other_names_hold_up_nothing_where_names_are_kept(bare):
    bare.write("first.txt")
    bare.scan_and_send()
    bare.live(60)
    lose(bare, "lost_before")
    for number in range(20):
        bare.service.put(b"SOME %07d" % number, f"IMG_{number}.jpg")
    bare.site.gates.checked()
    bare.write("later.txt", b"of another size")
    bare.scan()
    bare.live(120)
    assert (bare.row("a.jpg").state, bare.service.posts[-1].filename) == (VERIFIED, "a.jpg")


def test_workflow_switched_on_later_doubles_nothing(bare):
    bare.write("first.txt")
    bare.scan_and_send()
    bare.live(60)
    bare.service.renames = True
    lose(bare, "lost_after")
    bare.live(120)
    row = bare.row("a.jpg")
    assert (row.state, row.reason, len(bare.service.posts)) == (BLOCKED, "undecidable", 2)
    assert list(bare.service.assets)[-1] in row.detail


def test_assets_before_the_upload_hold_up_nothing(renaming):
    for number in range(20):
        renaming.service.put(b"SOME %07d" % number, f"IMG_{number}.jpg")
    lose(renaming, "lost_before")
    renaming.live(120)
    assert (renaming.row("a.jpg").state, len(renaming.service.posts)) == (VERIFIED, 2)


def test_answer_that_names_a_new_name_is_believed(renaming):
    renaming.write("first.txt")
    renaming.scan_and_send()
    assert renaming.ledger.store.rows("SELECT names FROM folders")[0][0] == "changed"
    # Nothing that is read back later takes that back.
    renaming.service.renames = False
    renaming.write("second.txt", b"of another size")
    renaming.scan_and_send()
    renaming.live(60)
    lose(renaming, "lost_before")
    renaming.write("third.txt", b"of one more size")
    renaming.site.gates.checked()
    renaming.scan_and_send()
    renaming.live(3)
    assert renaming.row("third.txt").state is VERIFIED
    assert renaming.ledger.doubts.may_rename(renaming.ledger.doubts.of(renaming.row("a.jpg").id))


def test_renamed_files_do_not_count_as_renamed_uploads(bare):
    path = bare.write("first.txt")
    bare.scan_and_send()
    path.rename(path.with_name("second.txt"))
    bare.scan()
    bare.live(60)
    assert bare.row("second.txt").state is VERIFIED
    assert bare.ledger.store.rows("SELECT names FROM folders")[0][0] == "kept"
