"""How often the service is searched, on a sandbox that answers as a live installation does.

Covers `sync/readback/verifier.py`, `sync/doubts/resolver.py` and `reconcile/run.py` together.
"""

import pytest
from pydantic import SecretStr

from assetsync.model import SearchRequest, State
from assetsync.parts import make_service
from assetsync.reconcile import Reconciler
from assetsync.sandbox import FaultKind, FaultRule, Operation, Sandbox, SandboxSettings
from tests.world import FOLDER, PROBE


class Quiet:
    """Shows nothing of a run's progress."""

    def phase(self, name: str, total: int | None = None) -> None:
        pass

    def at(self, done: float, bytes_done: int = 0, bytes_hashed: int = 0) -> None:
        pass


class Watched:
    """A site with a sandbox whose index lags; `searches` has each search with its time, in steady seconds."""

    def __init__(self, world, sandbox: Sandbox) -> None:
        self.world = world
        self.clock = world.clock
        self.searches: list[tuple[float, SearchRequest]] = []
        service = make_service(world.config(), SecretStr(sandbox.settings.api_key))
        search = service.search

        def noted(request: SearchRequest):
            self.searches.append((self.clock.steady(), request))
            return search(request)

        service.search = noted
        self.service = service
        world.service = service
        self.site = world.site

    def run(self, wait: float = 300.0):
        return Reconciler(self.site, wait=wait, adopt=False, progress=Quiet()).run()


@pytest.fixture
def watched(make_world, clock):
    opened = []

    def make(lag: float, grace: str = "2m") -> tuple[Watched, Sandbox]:
        sandbox = Sandbox(
            SandboxSettings(dialect="observed", folders={FOLDER: "Photos"}, index_delay=lag), clock=clock.now
        )
        sandbox.start()
        service = {"base_url": sandbox.base_url, "upload_url": sandbox.upload_url, "read_timeout": "5m"}
        upload = {"workers": "4", "doubt_grace": grace, "lookup_lag": None}
        schedule = {"index": "1m", "verify": "5m"}
        site = Watched(make_world(service=service, upload=upload, schedule=schedule), sandbox)
        opened.append((site, sandbox))
        return site, sandbox

    yield make
    for site, sandbox in opened:
        site.service.close()
        sandbox.stop()


@pytest.mark.parametrize("lag", [0.0, 10.0, 60.0])
def test_hundred_files_cost_three_searches(watched, lag):
    site, _ = watched(lag)
    for number in range(100):
        site.world.write(f"{number}", f"content {number}".encode())
    report = site.run()
    assert (report.verified, report.in_sync) == (100, True)
    first_contact = [request for _, request in site.searches if request.searchfor == "%"]
    assert len(first_contact) == 4, "listed empty, and with the first file; each time for unprocessed assets, too"
    assert len(site.searches) - len(first_contact) <= 3


def test_five_doubts_cost_ten_searches_a_minute(watched):
    """Count the rounds after the first minute, in which the doubts are new, and before the one that decides.

    The folder holds more assets than a page of the interface, so that each listing takes two searches.
    """
    site, sandbox = watched(0.0)
    for number in range(40):
        site.world.write(f"{number}", f"content {number}".encode())
    site.run()
    sandbox.set_faults(FaultRule(kind=FaultKind.STATUS, operation=Operation.UPLOAD, times=5))
    for number in range(5):
        site.world.write(f"lost {number}", f"lost content {number}".encode())
    site.world.scan()
    site.searches.clear()
    began = site.clock.steady()
    while site.world.site.context.ledger.doubts.by_folder() or site.clock.steady() < began + 60:
        assert site.clock.steady() < began + 1200
        site.world.live(2, tick=2)
    asked = [(at, request) for at, request in site.searches if request.dbdirect and request.searchfor != PROBE]
    # The round that decides also asks for each file in all folders.
    decided = next(at for at, request in asked if request.folderid is None)
    lookups = [at for at, _ in asked if began + 60 <= at < decided - 1]

    assert decided - began > 120
    assert max(sum(at <= each < at + 60 for each in lookups) for at in lookups) <= 10
    site.world.live(4, tick=2)
    assert {row.state for row in site.world.ledger.reports.files()} == {State.VERIFIED}
    assert len(sandbox.assets()) == 45


def test_short_grace_asks_no_more_than_needed(watched):
    """An upload without an answer is looked up for five minutes, as long as an answer may take, in pauses that fit."""
    site, sandbox = watched(0.0, "2s")
    site.world.write("here")
    site.run()
    sandbox.set_faults(FaultRule(kind=FaultKind.STATUS, operation=Operation.UPLOAD, times=1))
    site.world.write("lost")
    site.world.scan()
    site.searches.clear()
    began = site.clock.steady()
    while len(sandbox.assets()) < 2:
        assert site.clock.steady() < began + 400
        site.world.live(1, tick=0.5)
    lookups = [request for _, request in site.searches if request.dbdirect and request.searchfor != PROBE]
    assert 300 <= site.clock.steady() - began <= 320
    assert len(lookups) <= 100
