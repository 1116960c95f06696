"""A service that takes an ending for another kind than its name says: at most two files have the wrong fields."""

import json
import os
import time
from pathlib import Path

import pytest

from assetsync.sandbox import Sandbox, SandboxSettings
from tests.forks import call

KEY = "kinds-key"
FILES = 60


@pytest.fixture
def sandbox():
    made = Sandbox(
        SandboxSettings(
            dialect="observed", api_key=KEY, folders={"F1": "photos"}, file_kinds={"cr3": "other"}, latency=0.05
        )
    )
    made.start()
    yield made
    made.stop()


class Site:
    def __init__(self, base: Path, sandbox: Sandbox, kinds: str) -> None:
        photos = base / "root" / "photos"
        photos.mkdir(parents=True)
        past = time.time() - 600
        for number in range(FILES):
            for name, content in ((f"{number:02}.cr3", f"raw {number}"), (f"{number:02}.cr3.yaml", "keywords: [dawn]")):
                (photos / name).write_text(content)
                os.utime(photos / name, (past, past))
        self.config = base / "site.yaml"
        self.config.write_text(
            f"site: kinds\nroot: {base / 'root'}\nledger: {base / 'ledger.db'}\n"
            f"service: {{base_url: '{sandbox.base_url}', upload_url: '{sandbox.upload_url}', kinds: {kinds}}}\n"
            "folders: [{path: photos, destfolderid: F1}]\nupload: {workers: 8}\nwatch: {settle: 0s}\n"
        )

    def run(self, *words: str) -> list[dict[str, object]]:
        ended = call([*words, "--config", str(self.config), "--json"], env={**os.environ, "ASSETSYNC_API_KEY": KEY})
        return [json.loads(line) for line in ended.stdout.splitlines()]


def kinds_of(sandbox: Sandbox) -> dict[str, str]:
    """Return the name of the field with the keywords of each asset."""
    said = {asset.filename: asset.metadata for asset in sandbox.assets()}
    return {name: next(field for field in fields if field.endswith("_keywords")) for name, fields in said.items()}


def test_run_without_wait_sends_all_files(tmp_path, sandbox):
    (report,) = Site(tmp_path, sandbox, "{}").run("reconcile", "--wait", "0s")
    assert report["uploaded"] == FILES


def test_at_most_two_files_have_wrong_fields(tmp_path, sandbox):
    site = Site(tmp_path, sandbox, "{}")
    (report,) = site.run("reconcile")
    assert (report["uploaded"], report["verified"]) == (FILES, FILES)
    wrong = {name for name, field in kinds_of(sandbox).items() if field != "meta_file_keywords"}
    assert len(wrong) == 2
    assert {Path(found["path"]).name for found in site.run("drift", "list")} == wrong
    (explained,) = site.run("explain", "photos/00.cr3")
    assert (explained["expected_kind"], explained["expected_kind_from"]) == ("other", "learned")
    assert "kind: other, learned from the answers of the service" in explained["said"]


def test_configured_kind_is_right_from_the_first(tmp_path, sandbox):
    site = Site(tmp_path, sandbox, "{cr3: other}")
    site.run("reconcile")
    assert set(kinds_of(sandbox).values()) == {"meta_file_keywords"}
    assert site.run("drift", "list") == []
    (explained,) = site.run("explain", "photos/00.cr3")
    assert (explained["expected_kind"], explained["expected_kind_from"]) == ("other", "configured")
