"""Sites for sandboxes of every dialect, and the commands on them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from assetsync.config import load_config
from assetsync.parts import make_service
from assetsync.sandbox import Sandbox, SandboxSettings

from ..cli.conftest import (  # noqa: TID252 - the one way to another folder's parts without an installed package
    KEY,
    PAPERS,
    PHOTOS,
    Site,
)


@pytest.fixture
def make_site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Site]]:
    """Make a site for a sandbox: the given one, or one that is started with these settings."""
    with ExitStack() as open_ones:

        def make(sandbox: Sandbox | None = None, **settings) -> Site:
            given = {"api_key": KEY, "folders": {PHOTOS: "photos", PAPERS: "papers"}} | settings
            sandbox = sandbox or open_ones.enter_context(Sandbox(SandboxSettings(**{"dialect": "observed"} | given)))
            site = Site(tmp_path / f"site-{sandbox.port}", sandbox, capsys)
            open_ones.callback(site.end)
            return site

        yield make


@pytest.fixture
def make_client() -> Iterator[Callable[[Site], object]]:
    """Make the real client for a site."""
    from pydantic import SecretStr

    with ExitStack() as open_ones:

        def make(site: Site):
            client = make_service(load_config(site.config, {}), SecretStr(KEY))
            open_ones.callback(client.close)
            return client

        yield make
