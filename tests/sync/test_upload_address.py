"""The probe of the address for uploads: when it is made, and what is recorded of it."""

import pytest
from structlog.testing import capture_logs

from assetsync.errors import KeyRefused
from assetsync.model import AddressProbe
from assetsync.status.sentences import headline, leftovers
from assetsync.status.site_status import Level, read_status

WRONG = AddressProbe(is_right=False, detail="the answer was an HTML page, not the service's XML")


REFUSED = AddressProbe(is_right=True, key_refused=True, detail="the service refuses the API key")


def step(world, *, tries_key=False):
    world.site.upload_address_check.step(tries_key=tries_key)


def status(world):
    return read_status(world.site.config.outline, world.ledger, world.clock.now())


@pytest.fixture
def astray(world):
    """A site whose first upload is in doubt because something else answers at the address."""
    world.service.probed = WRONG
    world.service.script.append("lost_before")
    world.write("a", b"1")
    world.scan_and_send()
    return world


def test_probe_waits_for_a_doubt(world):
    world.service.probed = WRONG
    step(world)
    assert (world.service.probes, status(world).wrong_address) == (0, None)


def test_wrong_address_is_reported(astray):
    step(astray)
    found = status(astray)
    address = astray.site.config.service.upload_url
    assert found.level is Level.NEEDS_YOU
    assert headline(found) == "Action needed: wrong upload address. 0 of 1 verified, 1 in doubt."
    named = f"service.upload_url: what answers at {address} is not the upload operation of the service: {WRONG.detail}"
    lines = list(leftovers(found))
    assert lines[lines.index(f"wrong upload address: {named}") + 1].startswith("    correct service.upload_url")


def test_address_is_probed_once(astray):
    for _ in range(3):
        step(astray)
    astray.restart()
    step(astray)
    assert (astray.service.probes, status(astray).wrong_address is None) == (1, False)


def test_another_key_is_probed_anew(astray):
    step(astray)
    astray.service.account = "another key"
    astray.restart()
    step(astray)
    assert astray.service.probes == 2


def test_unanswered_probe_is_repeated_by_next_process(astray):
    astray.service.probed = AddressProbe()
    step(astray)
    step(astray)
    assert (astray.service.probes, status(astray).wrong_address) == (1, None)
    astray.restart()
    astray.service.probed = WRONG
    step(astray)
    assert (astray.service.probes, status(astray).wrong_address is None) == (2, False)


def test_accepted_upload_needs_no_probe(world):
    world.service.probed = WRONG
    world.write("a", b"1")
    world.scan_and_send()
    world.service.script.append("lost_before")
    world.write("b", b"22")
    world.scan_and_send()
    step(world)
    assert (world.service.probes, status(world).wrong_address) == (0, None)


def test_accepted_upload_ends_the_report(astray):
    step(astray)
    astray.write("b", b"22")
    astray.scan()
    astray.live(300)
    assert status(astray).wrong_address is None


def test_another_address_is_judged_for_itself(world):
    world.write("a", b"1")
    world.scan_and_send()
    step(world)
    world.service.probed = WRONG
    world.restart(service={"upload_url": "http://127.0.0.1:1/wrong.cfm"})
    step(world)
    assert world.service.probes == 0
    world.service.script.append("lost_before")
    world.write("b", b"22")
    world.scan_and_send()
    step(world)
    assert world.service.probes == 1
    assert "at http://127.0.0.1:1/wrong.cfm is not" in status(world).wrong_address
    world.restart(service={"upload_url": "http://127.0.0.1:1/dam/index.cfm"})
    assert status(world).wrong_address is None


def test_right_address_is_not_reported(astray):
    astray.service.probed = AddressProbe(is_right=True)
    step(astray)
    assert (astray.service.probes, status(astray).wrong_address) == (1, None)


def test_start_tries_the_key(world):
    world.service.probed = REFUSED
    with pytest.raises(KeyRefused, match="the service refuses the API key"):
        step(world, tries_key=True)
    step(world, tries_key=True)
    assert world.service.probes == 1


@pytest.mark.parametrize(("hours", "probes"), [(23, 1), (25, 2)])
def test_key_is_tried_daily(world, hours, probes):
    """The service makes a folder on its disk for each try."""
    step(world, tries_key=True)
    world.clock.advance(hours * 3600)
    step(world, tries_key=True)
    assert world.service.probes == probes


@pytest.mark.parametrize(
    ("minutes", "key", "before", "probes"),
    [
        pytest.param(5, "account", AddressProbe(is_right=True), 1, id="restarts in a row"),
        pytest.param(15, "account", AddressProbe(is_right=True), 2, id="a later start"),
        pytest.param(5, "another key", AddressProbe(is_right=True), 2, id="another key"),
        pytest.param(5, "account", AddressProbe(), 2, id="no answer before"),
    ],
)
def test_next_start_tries_the_key(world, minutes, key, before, probes):
    world.service.probed = before
    step(world, tries_key=True)
    world.clock.advance(minutes * 60)
    world.service.account = key
    world.restart()
    step(world, tries_key=True)
    assert world.service.probes == probes


def test_refused_key_is_tried_by_the_next_start(world):
    world.service.probed = REFUSED
    for _ in range(2):
        with pytest.raises(KeyRefused):
            step(world, tries_key=True)
        world.restart()
    assert world.service.probes == 2


def test_wrong_address_is_reported_at_the_start(world):
    world.service.probed = WRONG
    step(world, tries_key=True)
    assert status(world).wrong_address is not None


def test_failing_probe_makes_no_used_address_wrong(world):
    """What answers there for now, such as a page of a proxy, does not outweigh an upload that was stored."""
    world.write("a", b"1")
    world.scan()
    step(world)
    world.live(5)
    world.service.probed = WRONG
    with capture_logs() as logs:
        step(world, tries_key=True)
    assert (world.service.probes, logs) == (1, [])
