"""A configuration that was copied for another site, and of which only the name and the ledger were changed."""

import pytest

from assetsync.cli.finding import Level


@pytest.fixture
def copied(site):
    """A mirrored site `hq`; the configuration at hand is `oslo`'s, with the same tree and folder."""
    site.write("a.jpg", b"one")
    assert site.run("reconcile").code == 0
    become(site, "oslo", site.folder / "oslo.db")
    return site


def become(site, name: str, ledger) -> None:
    lines = site.config.read_text("utf-8").splitlines()
    named = {"site:": f"site: {name}", "ledger:": f"ledger: {ledger}"}
    said = [named.get(line.split(" ")[0], line) for line in lines]
    site.config.write_text("\n".join(said) + "\n", "utf-8")


def warnings(site) -> list[str]:
    return [f["message"] for f in site.run("check", "--json").only["findings"] if f["level"] == Level.WARNING]


def test_check_names_duplicate_site_first(copied):
    (message,) = warnings(copied)
    assert message.startswith(f"the site `hq` (ledger {copied.ledger}) sends {copied.photos} to folder ")
    assert not (copied.folder / "oslo.db").exists()


def test_duplicate_site_pulls_a_brake(copied):
    copied.write("b.jpg", b"new")
    said = copied.run("reconcile", "--wait", "0s")
    assert (said.code, "the site `hq`" in said.out) == (1, True)
    assert "if this is intended, or once the cause is fixed: assetsync resume 1" in said.out
    assert [asset.filename for asset in copied.sandbox.assets()] == ["a.jpg"]
    (brake,) = copied.run("status", "--json").only["brakes"]
    assert brake["kind"] == "twin"


def test_dry_run_without_ledger_shows_brake(copied):
    dry = copied.run("reconcile", "--dry-run")
    assert (dry.code, "a run would pull the brake: the site `hq`" in dry.out) == (1, True)


def test_the_first_site_goes_on_meanwhile(copied):
    copied.write("b.jpg", b"new")
    copied.run("reconcile", "--wait", "0s")
    become(copied, "hq", copied.ledger)
    assert copied.run("reconcile").code == 0
    assert sorted(asset.filename for asset in copied.sandbox.assets()) == ["a.jpg", "b.jpg"]


def test_resumed_second_site_adopts_assets(copied):
    copied.run("reconcile", "--wait", "0s")
    assert copied.run("resume").code == 0
    assert copied.run("reconcile").code == 0
    assert copied.files() == {"photos/a.jpg": "verified"}
    assert len(copied.sandbox.assets()) == 1
    assert warnings(copied) == []


def test_folder_of_other_site_is_warned_of(copied):
    (copied.folder / "other" / "photos").mkdir(parents=True)
    text = copied.config.read_text("utf-8").replace(f"root: {copied.tree}\n", f"root: {copied.folder / 'other'}\n")
    copied.config.write_text(text, "utf-8")
    (message,) = warnings(copied)
    assert message.startswith("the site `hq` (ledger ")
    assert copied.run("reconcile").code == 0
