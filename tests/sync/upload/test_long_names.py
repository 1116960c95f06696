"""Names that are cut to what the service keeps, now and by earlier releases.

Covers `sync/upload/prepare.py` and the searches by name of `sync/observer.py`.
"""

import pytest

from assetsync.core.names import LONGEST_NAME, MAX_SENT, sent_name
from assetsync.model import State
from tests.world import FOLDER, OTHER

LONG = "n" * 230 + ".pdf"
EARLIER = sent_name(LONG.encode(), MAX_SENT)
CUT = sent_name(LONG.encode())
SHORT = sent_name(LONG.encode(), 100)


def send_as_earlier(world):
    """Send a file as a release that cut names to 240 characters, and go on as this one."""
    world.restart(service={"longest_name": str(MAX_SENT)})
    world.write(LONG, b"first")
    world.scan_and_send()
    world.restart(service={"longest_name": str(LONGEST_NAME)})


def test_long_name_is_cut_with_its_ending(world):
    world.write(LONG)
    world.scan_and_send()
    assert world.posted() == [CUT]
    assert (len(CUT), CUT[-4:]) == (LONGEST_NAME, ".pdf")


def test_longest_name_is_configured(make_world):
    world = make_world(service={"longest_name": "100"})
    world.write(LONG)
    world.scan_and_send()
    assert world.posted() == [SHORT]


def test_new_version_keeps_its_verified_name(world):
    send_as_earlier(world)
    world.live(120)
    world.write(LONG, b"second")
    world.scan_and_send()
    assert world.posted() == [EARLIER, EARLIER]


def test_unverified_name_is_cut_anew(world):
    """An asset that was never processed may owe this to its name."""
    world.service.processing = 10.0**6
    send_as_earlier(world)
    world.live(120)
    world.write(LONG, b"second")
    world.scan_and_send()
    assert world.posted() == [EARLIER, CUT]


def test_renamed_file_is_cut_anew(world):
    send_as_earlier(world)
    world.live(120)
    other = "m" * 230 + ".pdf"
    (world.root / LONG).rename(world.root / other)
    world.scan_and_send()
    world.write(other, b"second")
    world.scan_and_send()
    assert world.posted() == [EARLIER, sent_name(other.encode())]


def test_queued_name_is_cut_anew_at_upgrade(world):
    world.restart(service={"longest_name": str(MAX_SENT)})
    world.write(LONG)
    world.scan()
    world.restart(service={})
    world.send()
    assert world.posted() == [CUT]
    assert world.row(LONG).folded_name == CUT


@pytest.mark.parametrize("longest", [100, LONGEST_NAME])
def test_names_cut_alike_go_one_by_one(make_world, longest):
    """Their uploads could not be told apart while both are undecided."""
    world = make_world(service={"longest_name": str(MAX_SENT)})
    for number in (1, 2):
        world.write("n" * 230 + f"{number}.pdf", b"n" * number)
    world.scan()
    world.restart(service={"longest_name": str(longest)})
    world.service.script.append("lost_after")
    world.send()
    assert len(world.posted()) == 1
    world.live(240)
    assert set(world.states().values()) == {State.VERIFIED}
    assert len(world.service.assets) == 2


def test_earlier_doubt_is_found_by_its_name(world):
    world.service.script.append("lost_after")
    send_as_earlier(world)
    world.live(120)
    assert world.states() == {LONG: State.VERIFIED}
    assert world.posted() == [EARLIER]


@pytest.mark.parametrize("cut", [EARLIER, CUT, SHORT])
@pytest.mark.parametrize("gives_md5", [True, False])
def test_lost_ledger_finds_each_cut(make_world, cut, gives_md5):
    """Without MD5 the name alone shows that an asset may be the file, and nothing is sent."""
    world = make_world(service={"longest_name": "100"})
    world.service.gives_md5 = gives_md5
    world.service.put(b"first", cut)
    world.write(LONG, b"first")
    world.scan_and_send()
    assert world.posted() == []
    assert world.row(LONG).state is (State.STORED if gives_md5 else State.BLOCKED)


@pytest.mark.parametrize("cut", [EARLIER, CUT, SHORT])
def test_moved_asset_of_each_cut_is_found(make_world, cut):
    """No asset counts as missing only because its name was cut to another length."""
    world = make_world(service={"longest_name": "100"})
    world.write("anchor.txt", b"anchor")
    asset = world.service.put(b"first", cut)
    world.write(LONG, b"first")
    world.scan_and_send()
    world.live(120)
    asset.folder, asset.indexed_at = OTHER, None
    world.site.auditor.audit(FOLDER)
    assert world.row(LONG).asset_folder == OTHER
    assert world.posted() == ["anchor.txt"]
