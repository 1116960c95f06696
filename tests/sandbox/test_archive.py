import io
import zipfile

import pytest


@pytest.fixture
def archive() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("top.txt", b"top" * 100)
        opened.writestr("sub/deep/inner.txt", b"inner")
        opened.writestr("../../etc/outside.txt", b"outside")
        opened.writestr("sub/empty.txt", b"")
    return made.getvalue()


@pytest.mark.parametrize("zip_extract", ["1", "true", None])
def test_archive_members_become_assets(caller, archive, zip_extract):
    assetid = caller.uploaded("all.zip", archive, zip_extract=zip_extract)
    stored = {
        asset.filename: (asset.folder_name, caller.sandbox.content(asset.id)) for asset in caller.sandbox.assets()
    }
    assert stored == {
        "all.zip": ("SyncA", archive),
        "top.txt": ("SyncA", b"top" * 100),
        "inner.txt": ("deep", b"inner"),
        "outside.txt": ("etc", b"outside"),
    }
    assert [asset.id for asset in caller.sandbox.assets() if asset.filename == "all.zip"] == [assetid]


def test_a_zip_is_left_whole_when_asked(caller, archive):
    caller.upload("all.zip", archive, zip_extract="0")
    assert [asset.filename for asset in caller.sandbox.assets()] == ["all.zip"]


@pytest.mark.parametrize("content", [b"no archive at all", b"PK\x05\x06" + b"\xff" * 18])
def test_non_archive_is_stored_unchanged(caller, content):
    assert "success" in caller.upload("all.zip", content).text
    assert len(caller.sandbox.assets()) == 1


def test_a_damaged_member_ends_the_unpacking(caller, archive):
    at = archive.index(b"inner.txt") + len(b"inner.txt")
    broken = archive[:at] + bytes([archive[at] ^ 0xFF]) + archive[at + 1 :]
    assert "success" in caller.upload("all.zip", broken).text
    assert [asset.filename for asset in caller.sandbox.assets()] == ["all.zip", "top.txt"]


def test_a_cut_zip_is_not_unpacked(caller, archive):
    caller.raw(caller.fields() + caller.file_header("all.zip") + archive)
    assert [(asset.filename, asset.damaged) for asset in caller.sandbox.assets()] == [("all.zip", True)]
