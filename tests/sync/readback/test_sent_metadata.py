"""What was sent of a file is compared once with what the service has; a difference is drift and blocks nothing."""

import math

import pytest

from assetsync.errors import ServiceUnreachable
from assetsync.ledger.metadata_drift import drift_of, reason_of
from assetsync.model import State
from assetsync.status.site_status import read_status
from assetsync.sync.requests.decisions import SettleDrift
from assetsync.sync.requests.retry import Retry

VERIFIED = State.VERIFIED
SIDECAR = b"description: The old harbour at dawn\nkeywords: [harbour, dawn]\n"


@pytest.fixture
def report(make_world):
    """Make a world with `report.pdf`, whose own metadata replaces what its sidecar says, and with `plain.txt`."""

    def make(own=("", ""), sidecar: bytes = SIDECAR, *, lag: float = 0.0, **said):
        world = make_world(**said)
        world.service.keeps_own = lambda asset: own if asset.name.endswith(".pdf") else None
        world.service.index_lag = lag
        for name in ("report.pdf", "plain.txt"):
            world.write(name, name.encode())
            world.write(f"{name}.yaml", sidecar)
        world.scan_and_send()
        # Indexed at the latest after 61 seconds, and looked for again within 15.
        world.live(80)
        return world

    return make


def drifted(world) -> dict[str, str | None]:
    return {row.path.decode(): drift_of(row) for row in world.ledger.metadata_drift.drifted()}


@pytest.mark.parametrize("lag", [0.0, 20.0])
def test_replaced_metadata_is_drift_of_a_verified_file(report, lag):
    world = report(lag=lag)
    assert set(world.states().values()) == {VERIFIED}
    assert drifted(world) == {
        "report.pdf": "the service does not hold the metadata that was sent (the description is empty, the keywords are"
        " empty): set it there by hand"
    }
    status = read_status(world.config().outline, world.ledger, world.clock.now())
    assert (status.drift_count, [reason_of(row) for row in status.drifted]) == (1, ["not_as_sent"])
    assert status.in_sync


def test_cut_metadata_is_named_by_its_length(report):
    world = report(own=("The old harbour", "dawn,harbour"))
    assert "(the description is cut after 15 characters)" in drifted(world)["report.pdf"]


def test_text_is_unknown_after_a_change_of_the_sidecar(report):
    world = report(own=("The old harbour", "dawn,harbour"), lag=None)
    assert "cut after" in drifted(world)["report.pdf"]
    world.service.processing = 20.0
    world.write("late.pdf", b"a late report")
    world.write("late.pdf.yaml", SIDECAR)
    world.scan_and_send()
    world.write("late.pdf.yaml", b"description: The old harbour by night\n")
    world.live(120)
    assert "(the description is other than was sent)" in drifted(world)["late.pdf"]


@pytest.mark.parametrize(
    "sidecar",
    [b"description: Harbour\nlanguage: 2\n", b"location: Oslo\n", b"description: ''\n"],
)
def test_other_language_and_fields_are_not_compared(report, sidecar):
    assert drifted(report(sidecar=sidecar)) == {}


def test_question_marks_are_equal(make_world):
    world = make_world()
    world.service.shows_latin1 = True
    world.write("a.txt")
    world.write("a.txt.yaml", "description: 東京 at dawn\nkeywords: [東京, 🙂]\n".encode())
    world.scan_and_send()
    world.live(5)
    assert (world.row("a.txt").state, drifted(world)) == (VERIFIED, {})


def test_finding_survives_a_new_reading(report):
    world = report()
    world.ledger.metadata_drift.mark_unread(world.row("report.pdf").id)
    while world.site.drift.step():
        pass
    world.site.auditor.audit("F1")
    world.live(5)
    assert list(drifted(world)) == ["report.pdf"]


def test_settled_finding_is_not_reported_again(report):
    world = report()
    assert world.ask(SettleDrift((b"report.pdf",))) == "1 settled"
    world.site.auditor.audit("F1")
    world.live(5)
    assert drifted(world) == {}


def test_finding_and_changed_sidecar_are_settled_together(report):
    world = report()
    world.write("report.pdf.yaml", b"description: another one\n")
    world.scan()
    while world.site.drift.step():
        pass
    assert drifted(world)["report.pdf"].startswith(
        "its metadata changed after the upload: set it in the service by hand; "
    )
    assert reason_of(world.row("report.pdf")) == "metadata"
    assert world.ask(SettleDrift((b"",))) == "1 settled"
    while world.site.drift.step():
        pass
    assert drifted(world) == {}


def test_new_upload_ends_the_finding(report):
    world = report()
    world.service.keeps_own = lambda _asset: None
    world.ask(Retry((b"report.pdf",), send_again=True))
    world.send()
    world.live(5)
    assert (world.row("report.pdf").state, drifted(world)) == (VERIFIED, {})


def test_new_version_is_compared_by_itself(report):
    world = report()
    world.write("report.pdf", b"a new report")
    world.service.keeps_own = lambda _asset: None
    world.scan_and_send()
    world.live(5)
    assert drifted(world) == {}


def test_renamed_file_keeps_its_finding(report):
    world = report()
    for ending in ("", ".yaml"):
        (world.root / f"report.pdf{ending}").rename(world.root / f"renamed.pdf{ending}")
    world.scan_and_send()
    world.live(5)
    assert list(drifted(world)) == ["renamed.pdf"]
    assert sorted(world.posted()) == ["plain.txt", "report.pdf"]


def test_upload_of_an_older_ledger_is_not_compared(report):
    world = report(lag=None)
    world.service.processing = 20.0
    world.write("late.pdf", b"late")
    world.write("late.pdf.yaml", SIDECAR)
    world.scan_and_send()
    clear = "UPDATE attempts SET metadata = '{}'"
    world.ledger.store.write(lambda conn: conn.execute(clear))
    world.live(60)
    assert "late.pdf" not in drifted(world)


def test_only_the_upload_of_the_asset_is_compared(make_world):
    """The first upload is never processed, and the second comes without metadata."""
    world = make_world()
    world.service.processing = math.inf
    world.write("a.pdf")
    world.write("a.pdf.yaml", SIDECAR)
    world.scan_and_send()
    world.live(5)
    (world.root / "a.pdf.yaml").unlink()
    world.scan()
    world.service.processing = 0.0
    world.ask(Retry((b"a.pdf",), send_again=True))
    world.send()
    world.live(5)
    assert (world.row("a.pdf").state, drifted(world)) == (VERIFIED, {})


def test_finding_ends_with_its_asset(report):
    world = report()
    other = world.service.put(b"another", "another.pdf")
    del world.service.assets[world.row("report.pdf").assetid]
    world.clock.advance(60)
    world.site.auditor.audit("F1")
    assert world.row("report.pdf").reason == "missing"
    world.ledger.decisions.resolve_as_asset(world.row("report.pdf"), world.service._shown(other), world.clock.now())
    assert "does not hold" not in str(drifted(world))


def test_found_upload_is_not_compared(make_world):
    """Its answer was lost, so that nothing but its content shows that the asset is its own."""
    world = make_world()
    world.service.keeps_own = lambda _asset: ("", "")
    world.write("a.pdf")
    world.write("a.pdf.yaml", SIDECAR)
    world.service.script.append("lost_after")
    world.scan_and_send()
    world.live(60)
    assert (world.row("a.pdf").state, drifted(world)) == (VERIFIED, {})


def test_audit_compares_what_a_failed_look_up_did_not(make_world):
    world = make_world()
    world.service.keeps_own = lambda _asset: ("", "")
    world.write("a.pdf")
    world.write("a.pdf.yaml", SIDECAR)

    def fail(request):
        if request.dbdirect and request.folderid and world.service.posts:
            raise ServiceUnreachable("no answer")

    world.scan_and_send()
    world.service.during_search = fail
    world.live(5)
    assert (world.row("a.pdf").state, drifted(world)) == (VERIFIED, {})
    world.service.during_search = lambda _request: None
    world.site.auditor.audit("F1")
    assert list(drifted(world)) == ["a.pdf"]


@pytest.mark.parametrize("name", ["a.mp3", "a.mp4"])
@pytest.mark.parametrize("said", [{"schedule": {"index": "off"}}, {"policy": {"verified_when": "stored"}}])
@pytest.mark.parametrize("comes", [True, False])
def test_metadata_written_late_is_compared_by_audit(make_world, name, said, comes):
    """The service writes size and MD5 first, and the description and keywords once the file is in its storage."""
    world = make_world(**said)
    world.service.keeps_own = lambda _asset: ("", "")
    world.write(name)
    world.write(f"{name}.yaml", SIDECAR)
    world.scan_and_send()
    world.live(30)
    assert (world.row(name).state, drifted(world)) == (VERIFIED, {})
    if comes:
        world.service.keeps_own = lambda _asset: None
    world.clock.advance(600)
    searched = len(world.service.searches)
    world.live(30)
    assert len(world.service.searches) == searched
    world.site.auditor.audit("F1")
    assert list(drifted(world)) == ([] if comes else [name])


def test_cut_metadata_of_new_video_is_drift(make_world):
    world = make_world()
    world.service.keeps_own = lambda _asset: ("The old harbour", "")
    world.write("a.mp4")
    world.write("a.mp4.yaml", SIDECAR)
    world.scan_and_send()
    world.live(30)
    assert "cut after 15 characters" in drifted(world)["a.mp4"]


def test_other_kind_is_reported_as_such_alone(make_world):
    world = make_world()
    world.service.kinds["a.ai"] = "doc"
    world.write("a.ai")
    world.write("a.ai.yaml", SIDECAR)
    world.scan_and_send()
    world.live(5)
    while world.site.drift.step():
        pass
    assert "another kind of file (doc)" in drifted(world)["a.ai"]
    assert "does not hold" not in drifted(world)["a.ai"]


def test_uploads_without_metadata_cost_no_search(make_world):
    world = make_world()
    for number in range(20):
        world.write(f"{number}.pdf", b"%d" % number)
    world.scan_and_send()
    before = len(world.service.searches)
    world.site.verifier.step()
    # All twenty are found through the index.
    assert len(world.service.searches) - before == 1


@pytest.mark.parametrize(("files", "searches"), [(20, 2), (130, 3)])
def test_uploads_with_metadata_cost_one_listing(make_world, files, searches):
    world = make_world()
    world.write("_folder.yaml", SIDECAR)
    for number in range(files):
        world.write(f"{number}.pdf", b"%d" % number)
    world.scan_and_send()
    before = len(world.service.searches)
    while world.site.verifier.step().looked:
        pass
    assert set(world.states().values()) == {VERIFIED}
    # One through the index for each hundred, and one of the folder, which ends once all are shown.
    assert len(world.service.searches) - before == searches


def test_reader_loses_all_metadata(report):
    """Observed with a key whose user may only read the folder: uploads are stored without their metadata."""
    world = report()
    world.service.keeps_own = lambda _asset: ("", "")
    world.write("other.txt", b"other")
    world.write("other.txt.yaml", SIDECAR)
    world.scan_and_send()
    world.live(80)
    assert drifted(world)["other.txt"].endswith("if the key's user may only read the folder")
