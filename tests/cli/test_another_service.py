"""What the commands say and do where the configuration names another installation than the ledger tells of."""

import pytest

from assetsync.sandbox import Sandbox, SandboxSettings

from .conftest import KEY, PHOTOS, Site


@pytest.fixture
def moved(site: Site):
    """A site with one verified and one new file, whose configuration names a service that has never had any."""
    site.write("one.jpg", b"one")
    assert site.run("reconcile").code == 0
    site.write("two.jpg", b"two")
    with Sandbox(SandboxSettings(dialect="observed", api_key=KEY, folders={PHOTOS: "photos"})) as other:
        site.configure(base_url=other.base_url, upload_url=other.upload_url)
        yield site, other


def test_other_service_stops_all_uploads(moved):
    site, other = moved
    said = site.run("reconcile", "--wait", "0s")
    assert (said.code, "to proceed as it is: assetsync resume 1" in said.out) == (1, True)
    assert other.assets() == []
    (brake,) = site.run("status", "--json").only["brakes"]
    assert brake["kind"] == "service"
    assert other.base_url in brake["detail"]
    assert site.files() == {"photos/one.jpg": "verified", "photos/two.jpg": "queued"}


def test_an_audit_concludes_nothing_from_it(moved):
    site, _other = moved
    assert site.run("audit").code == 1
    assert site.files()["photos/one.jpg"] == "verified"


def test_resume_allows_the_new_service(moved):
    site, other = moved
    site.run("reconcile", "--wait", "5m")
    assert site.run("resume").code == 0
    site.run("audit")
    site.run("reconcile", "--wait", "5s")
    assert [asset.filename for asset in other.assets()] == ["two.jpg"]


def test_check_names_both_addresses(moved):
    site, other = moved
    site.run("reconcile", "--wait", "0s")
    found, brake = [f for f in site.run("check", "--json").only["findings"] if f["level"] != "ok"]
    assert (found["what"], brake["what"]) == ("ledger", "brake")
    assert site.sandbox.base_url in found["message"]
    assert other.base_url in found["message"]
    assert "assetsync resume 1" in brake["fix"]


def test_idle_run_elsewhere_is_not_in_sync(moved):
    site, _other = moved
    (site.photos / "two.jpg").unlink()
    assert site.run("reconcile", "--wait", "5m").code == 1
    assert [brake["kind"] for brake in site.run("status", "--json").only["brakes"]] == ["service"]


def test_dry_run_on_fixed_url_writes_nothing(moved):
    site, _other = moved
    site.run("reconcile", "--wait", "0s")
    site.configure()
    assert site.run("reconcile", "--dry-run").code == 1
    assert [brake["kind"] for brake in site.run("status", "--json").only["brakes"]] == ["service"]
    assert site.run("reconcile").code == 0
