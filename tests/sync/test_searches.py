"""How often the service is searched, on a sandbox that answers as a live installation does.

Covers `sync/readback/verifier.py` and `reconcile/run.py` together.
"""

import pytest
from pydantic import SecretStr

from assetsync.model import SearchRequest
from assetsync.parts import make_service
from assetsync.reconcile import Reconciler
from assetsync.sandbox import Sandbox, SandboxSettings
from tests.world import FOLDER


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

    def make(lag: float) -> tuple[Watched, Sandbox]:
        sandbox = Sandbox(SandboxSettings(folders={FOLDER: "Photos"}, index_delay=lag), clock=clock.now)
        sandbox.start()
        service = {"base_url": sandbox.base_url, "upload_url": sandbox.upload_url, "read_timeout": "5m"}
        upload = {"workers": "4", "doubt_grace": "2m", "lookup_lag": None}
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
    assert len(first_contact) == 2, "the empty folder is listed once, and once for unprocessed assets"
    assert len(site.searches) - len(first_contact) <= 3
