"""What readers of the ledger need of a configuration: recorded once, and used only for the same bytes."""

from pathlib import Path

import pytest

from assetsync.config import load_config
from assetsync.config.models import SiteConfig
from assetsync.config.outline import MappedFolder, Outline, digest_of, ledger_named, may_hold_key
from assetsync.config.timetable import window

SMALL = b"""\
site: hq
root: /srv/media
service: {base_url: "https://dam.example.com/razuna", upload_url: "https://dam.example.com/index.cfm"}
folders: [{path: photos, destfolderid: F1}, {path: ., destfolderid: F2}]
"""
WINDOW = SMALL + b'upload: {window: "19:00-07:30"}\nschedule: {index: off, verify: off}\nledger: /srv/hq.db\n'


def read(folder: Path, data: bytes) -> SiteConfig:
    file = folder / "hq.yaml"
    file.write_bytes(data)
    return load_config(file, {})


def test_outline_holds_values_of_configuration(tmp_path):
    assert read(tmp_path, WINDOW).outline == Outline(
        site="hq",
        root=Path("/srv/media"),
        ledger=Path("/srv/hq.db"),
        folders=(MappedFolder("photos", "F1"), MappedFolder(".", "F2")),
        upload_url="https://dam.example.com/index.cfm",
        upload_window=window("19:00-07:30"),
        reads_back=False,
        expected_every=93_600.0,
    )


@pytest.mark.parametrize("data", [SMALL, WINDOW])
def test_record_yields_the_same_outline(tmp_path, data):
    config = read(tmp_path, data)
    assert config.outline_record is not None
    assert Outline.recorded(config.outline_record, digest_of(data)) == config.outline


def test_record_of_other_bytes_is_not_used(tmp_path):
    record = read(tmp_path, SMALL).outline_record
    assert record is not None
    assert Outline.recorded(record, digest_of(SMALL + b"\n")) is None


def test_record_of_another_release_is_not_used(tmp_path, monkeypatch):
    """Another release may refuse the file, or read other values in it."""
    record = read(tmp_path, SMALL).outline_record
    assert record is not None
    monkeypatch.setattr("assetsync.config.outline.__version__", "0.0.0")
    assert Outline.recorded(record, digest_of(SMALL)) is None


@pytest.mark.parametrize(
    ("data", "ledger"),
    [
        (b"site: hq\nledger: /srv/hq.db\n", "/srv/hq.db"),
        (b"ledger:   '/srv/hq.db'  # here\nsite: hq\n", "/srv/hq.db"),
        (b'# the site\nsite: "hq"\n', "/var/lib/assetsync/hq.db"),
        (b"site: hq\nledger: null\n", "/var/lib/assetsync/hq.db"),
        (b"{site: hq, ledger: /srv/hq.db}", None),
        (b"site: hq\nledger: ../hq.db\n", "/var/lib/assetsync/hq.db"),
        (b"", None),
        (b"\xff\0", None),
    ],
)
def test_ledger_is_guessed_by_its_line(data, ledger):
    """A wrong guess costs a check of the whole file, no more."""
    assert ledger_named(data) == (None if ledger is None else Path(ledger))


@pytest.mark.parametrize(
    ("data", "key", "may"),
    [
        (b"site: hq", "", False),
        (b"site: hq", "0123456789", False),
        (b"proxy: http://0123456789@proxy", "0123456789", True),
        (b'proxy: "http://\\x30123456789@proxy"', "0123456789", True),
    ],
)
def test_file_that_may_hold_the_key_is_noticed(data, key, may):
    assert may_hold_key(data, {"ASSETSYNC_API_KEY": key}) is may
