"""A service at another address: asked for what was read back before anything is sent, looked up or concluded."""

import pytest

from assetsync.core.gate import Trouble
from assetsync.daemon.readback import ReadBack
from assetsync.daemon.work import Work
from assetsync.errors import BadAnswer, KeyRefused, ServiceElsewhere
from assetsync.model import State
from assetsync.sync.service_identity import ServiceIdentity

HERE, THERE = "http://127.0.0.1:1/dam", "http://127.0.0.2:1/dam"


def at(address: str) -> dict[str, dict[str, str]]:
    return {"service": {"base_url": address, "upload_url": address + "/index.cfm"}}


@pytest.fixture
def mirrored(world):
    """Three files that are verified at one address; one is new."""
    for name in "012":
        world.write(name, f"content {name}".encode())
    world.scan()
    world.live(5)
    assert set(world.states().values()) == {State.VERIFIED}
    world.write("3", b"new")
    return world


def go_on(world, seconds: float = 100.0) -> None:
    """Let a site live as a daemon does: nothing is sent under a brake."""
    world.scan()
    until = world.clock.steady() + seconds
    while world.clock.steady() < until:
        if world.site.brakes.pulled():
            world._look_up(world.site)
            world.clock.advance(1.0)
        else:
            world.live(1)


def replace_the_service(world) -> None:
    """Let another installation answer, which nobody has used."""
    world.close()
    world.service = type(world.service)(world.clock)
    # No two installations give the same ids.
    world.service._made = 1000


@pytest.mark.parametrize("index_lag", [0.0, None], ids=["indexed", "index lost"])
def test_same_service_at_new_address_is_known(mirrored, index_lag):
    for asset in mirrored.service.assets.values():
        asset.indexed_at = mirrored.clock.now() if index_lag is not None else None
    mirrored.restart(**at(THERE))
    go_on(mirrored)
    assert set(mirrored.states().values()) == {State.VERIFIED}
    assert sorted(mirrored.posted()) == ["0", "1", "2", "3"]
    assert mirrored.ledger.reports.brakes() == []
    searched = len(mirrored.service.searches)
    mirrored.restart()
    mirrored.site.gates.check()
    assert len(mirrored.service.searches) == searched + 1


def test_other_installation_receives_nothing(mirrored):
    replace_the_service(mirrored)
    mirrored.restart(**at(THERE))
    go_on(mirrored)
    assert mirrored.posted() == []
    assert mirrored.states() == dict.fromkeys("012", State.VERIFIED) | {"3": State.QUEUED}
    (brake,) = mirrored.ledger.reports.brakes()
    assert (brake.kind, brake.subject) == ("service", THERE)
    assert HERE in brake.detail
    assert mirrored.site.gates.closed is None


def test_other_installation_indexes_nothing(mirrored):
    replace_the_service(mirrored)
    mirrored.restart(**at(THERE))
    with pytest.raises(ServiceElsewhere):
        mirrored.site.context.service.index(["A"])
    assert mirrored.service.indexed == []


def test_idle_daemon_checks_the_service_too(mirrored):
    mirrored.scan_and_send()
    mirrored.live(5)
    replace_the_service(mirrored)
    mirrored.restart(**at(THERE))
    work = Work(mirrored.site, idle=0.05)
    work.begin()
    try:
        work.tend()
    finally:
        work.end()
    assert [brake.kind for brake in mirrored.ledger.reports.brakes()] == ["service"]
    # It answers: this is no outage.
    assert mirrored.site.gates.closed is None


def test_other_installation_decides_no_doubt(mirrored):
    mirrored.service.script.append("lost_after")
    mirrored.scan_and_send()
    assert mirrored.row("3").state is State.IN_DOUBT
    replace_the_service(mirrored)
    mirrored.restart(**at(THERE))
    go_on(mirrored, 300)
    assert mirrored.row("3").state is State.IN_DOUBT
    with pytest.raises(ServiceElsewhere):
        mirrored.site.auditor.audit("F1")


def test_agreement_resumes_all_work(mirrored):
    replace_the_service(mirrored)
    mirrored.restart(**at(THERE))
    go_on(mirrored)
    mirrored.ledger.resume(None, mirrored.clock.now())
    go_on(mirrored)
    # It is listed first, and shows nothing of what is there by that word; an audit, which is asked for, tells so.
    assert mirrored.posted() == []
    assert float(mirrored.ledger.reports.fact("audit_asked")) <= mirrored.clock.now()
    mirrored.site.auditor.audit("F1")
    assert {row.reason for row in mirrored.ledger.reports.blocked(10)} == {"missing"}
    go_on(mirrored, 400)
    assert mirrored.posted() == ["3"]
    mirrored.restart()
    assert mirrored.site.gates.check()
    assert mirrored.ledger.reports.brakes() == []


def test_corrected_address_lifts_its_brake(mirrored):
    ours = mirrored.service
    replace_the_service(mirrored)
    mirrored.restart(**at(THERE))
    go_on(mirrored)
    mirrored.close()
    mirrored.service = ours
    mirrored.restart(**at(HERE))
    go_on(mirrored)
    assert mirrored.ledger.reports.brakes() == []
    assert sorted(mirrored.posted()) == ["0", "1", "2", "3"]
    replace_the_service(mirrored)
    mirrored.restart(**at(THERE))
    go_on(mirrored)
    assert [brake.kind for brake in mirrored.ledger.reports.brakes()] == ["service"]


def test_known_assets_make_a_release_unnecessary(mirrored):
    ours = mirrored.service.assets
    replace_the_service(mirrored)
    mirrored.restart(**at(THERE))
    go_on(mirrored)
    assert mirrored.site.brakes.pulled()
    mirrored.service.assets |= ours
    go_on(mirrored, 700)
    assert set(mirrored.states().values()) == {State.VERIFIED}
    assert mirrored.posted() == ["3"]


def test_nothing_is_concluded_from_no_answer(mirrored):
    mirrored.service.down = True
    mirrored.restart(**at(THERE))
    mirrored.scan()
    mirrored.live(100)
    assert mirrored.ledger.reports.brakes() == []
    assert mirrored.site.gates.closed.reason == "unreachable"
    mirrored.service.down = False
    mirrored.live(100)
    assert set(mirrored.states().values()) == {State.VERIFIED}


@pytest.mark.parametrize("is_known", [True, False])
def test_failure_of_a_known_address_is_the_services(make_world, is_known):
    """A 500 of an address that stored uploads before does not come from a wrong address."""
    world = make_world()
    if is_known:
        world.write("0")
        world.scan_and_send()

    def fails(_request):
        raise BadAnswer("the answer was HTTP status 500", hint="see whether service.base_url is right", status=500)

    world.service.during_search = fails
    assert not world.site.gates.check()
    detail = world.site.gates.closed.detail
    assert ("the service fails" in detail, "base_url" in detail) == (is_known, not is_known)


def test_empty_ledger_accepts_any_address(make_world):
    world = make_world()
    world.write("0")
    world.scan()
    world.restart(**at(THERE))
    world.scan()
    world.live(5)
    assert set(world.states().values()) == {State.VERIFIED}


def test_identity_check_blocks_no_thread(mirrored):
    mirrored.restart(**at(THERE))
    site = mirrored.site
    heard = []

    def ask_beside(_request) -> None:
        mirrored.service.during_search = lambda _request: None
        with pytest.raises(ServiceElsewhere, match="is being asked"):
            site.folder_listing.ensure("F1")
        heard.append(True)

    mirrored.service.during_search = ask_beside
    assert site.gates.check()
    assert heard


def test_many_that_ask_are_one_look(mirrored):
    replace_the_service(mirrored)
    mirrored.restart(**at(THERE))
    for _ in range(60):
        with pytest.raises(ServiceElsewhere):
            mirrored.site.service_identity.make_sure()
        mirrored.clock.advance(1)
    asked = len(mirrored.service.searches)
    assert asked == 4, mirrored.service.searches
    with pytest.raises(ServiceElsewhere):
        mirrored.site.service_identity.make_sure()
    assert len(mirrored.service.searches) == 2 * asked


@pytest.mark.parametrize("state", ["in doubt", "stored"])
def test_unverified_uploads_brake_new_service(world, state):
    world.write("0", b"content")
    if state == "in doubt":
        world.service.script.append("lost_after")
    world.scan_and_send()
    replace_the_service(world)
    world.restart(**at(THERE))
    go_on(world, 1000)
    assert world.posted() == []
    assert [brake.kind for brake in world.ledger.reports.brakes()] == ["service"]
    assert "no earlier upload was read back" in world.ledger.reports.brakes()[0].detail
    assert world.row("0").state in (State.IN_DOUBT, State.STORED)


def test_history_tells_of_a_service_too(mirrored):
    mirrored.restart(folders=[{"path": "elsewhere", "destfolderid": "F2"}])
    mirrored.scan()
    assert mirrored.states() == {}
    replace_the_service(mirrored)
    mirrored.restart(**at(THERE))
    go_on(mirrored)
    assert [brake.kind for brake in mirrored.ledger.reports.brakes()] == ["service"]


@pytest.mark.parametrize("ours", [True, False])
def test_broken_index_prevents_no_check(mirrored, ours):
    def broken(request) -> None:
        if not request.dbdirect:
            raise BadAnswer("the index is not there")

    if not ours:
        replace_the_service(mirrored)
    mirrored.restart(**at(THERE))
    mirrored.service.during_search = broken
    if ours:
        mirrored.site.service_identity.make_sure()
    else:
        with pytest.raises(ServiceElsewhere):
            mirrored.site.service_identity.make_sure()
    assert mirrored.site.brakes.pulled() is not ours


def test_agreement_is_kept_for_the_address(mirrored):
    ours = mirrored.service
    for _ in range(2):
        replace_the_service(mirrored)
        mirrored.restart(**at(THERE))
        with pytest.raises(ServiceElsewhere):
            mirrored.site.service_identity.make_sure()
        # Whoever has corrected the address, and resumes before it is read, has agreed to the wrong one.
        mirrored.ledger.resume(None, mirrored.clock.now())
        mirrored.close()
        mirrored.service = ours
        mirrored.restart(**at(HERE))
        mirrored.site.service_identity.make_sure()


def test_new_service_resets_index_findings(mirrored):
    for fact in ("index_stopped", "index_suspect"):
        mirrored.ledger.set_fact(fact, "said of the other")
    mirrored.restart(**at(THERE))
    mirrored.site.service_identity.make_sure()
    assert [mirrored.ledger.reports.fact(fact) for fact in ("index_stopped", "index_suspect")] == [None, None]


def test_new_service_lists_folders_again(mirrored):
    mirrored.restart(**at(THERE))
    mirrored.service.put(b"new", "somebody has uploaded it there already")
    go_on(mirrored)
    assert sorted(mirrored.posted()) == ["0", "1", "2"]
    assert mirrored.row("3").state is State.VERIFIED


def test_known_service_lifts_own_brake_only(mirrored):
    mirrored.ledger.pull_brake("vanished", "site", "half is gone", 7, mirrored.clock.now())
    # What is known already is asked no more.
    mirrored.restart()
    mirrored.site.service_identity.make_sure()
    assert [brake.kind for brake in mirrored.ledger.reports.brakes()] == ["vanished"]


def test_identity_check_precedes_all_writes(mirrored):
    mirrored.restart(**at(THERE))
    ledger = mirrored.ledger
    commits = ledger.store._commits.count
    ServiceIdentity(mirrored.service, ledger, mirrored.clock, "http://127.0.0.3:1/dam")
    assert ledger.store._commits.count == commits


def test_renamed_assets_are_known_by_index(mirrored):
    for asset in mirrored.service.assets.values():
        asset.name = "renamed by somebody"
    mirrored.restart(**at(THERE))
    mirrored.site.service_identity.make_sure()
    assert not mirrored.site.brakes.pulled()


def test_index_replaces_unqueryable_names(mirrored):
    def too_much(request) -> None:
        if request.dbdirect:
            raise BadAnswer("it shows more than could ever have been ours")

    mirrored.restart(**at(THERE))
    mirrored.service.during_search = too_much
    mirrored.site.service_identity.make_sure()
    assert mirrored.site.service_identity.is_known
    assert not mirrored.site.brakes.pulled()


@pytest.mark.parametrize(("by_name", "asked"), [(True, 2), (False, 1)])
def test_refused_key_decides_no_identity(mirrored, by_name, asked):
    def refuse(request) -> None:
        if request.dbdirect is by_name:
            raise KeyRefused("the service refuses the API key")

    replace_the_service(mirrored)
    mirrored.restart(**at(THERE))
    mirrored.service.during_search = refuse
    with pytest.raises(KeyRefused):
        mirrored.site.service_identity.make_sure()
    assert len(mirrored.service.searches) == asked
    assert not mirrored.site.brakes.pulled()


def test_ledger_without_address_takes_any(mirrored):
    # Older releases noted none.
    mirrored.ledger.set_fact("service", None)
    replace_the_service(mirrored)
    mirrored.restart(**at(THERE))
    mirrored.site.service_identity.make_sure()
    assert mirrored.service.searches == []
    assert mirrored.ledger.reports.fact("service") == THERE
    assert mirrored.ledger.reports.fact("audit_asked") is None


def test_certain_name_is_queried_first(world):
    for name in ("grün 1", "plain", "grün 2"):
        world.write(name, name.encode())
    world.scan()
    world.live(5)
    for asset in world.service.assets.values():
        asset.indexed_at = None
    world.restart(**at(THERE))
    world.service.searches.clear()
    world.site.service_identity.make_sure()
    assert [request.searchfor for request in world.service.searches if request.dbdirect] == ["plain"]


@pytest.mark.parametrize("kept", ["a/same", "b/same", "c/same"])
def test_any_of_many_namesakes_proves_service(world, kept):
    for name in ("a/same", "b/same", "c/same"):
        world.write(name, name.encode())
    world.scan()
    world.live(5)
    asset = world.service.assets[world.row(kept).assetid]
    asset.indexed_at = None
    world.service.assets = {asset.id: asset}
    world.restart(**at(THERE))
    world.site.service_identity.make_sure()
    assert not world.site.brakes.pulled()


def test_unknown_service_blocks_preparation(mirrored):
    mirrored.scan()
    mirrored.restart(**at(THERE))
    mirrored.service.searches.clear()
    Work(mirrored.site, idle=0.0).send()
    reading = ReadBack(mirrored.site, idle=0.0)
    reading.want_audit()
    reading.step()
    assert (sorted(mirrored.posted()), mirrored.service.searches) == (["0", "1", "2"], [])


def test_pause_ends_at_another_installation(mirrored):
    replace_the_service(mirrored)
    mirrored.restart(**at(THERE))
    mirrored.site.gates.failed(Trouble("unreachable", "nothing answers at the service", None))
    assert mirrored.site.gates.closed is not None
    assert mirrored.site.gates.check()
    assert mirrored.site.gates.closed is None
