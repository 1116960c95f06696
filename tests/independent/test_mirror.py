"""The promises of a mirror, seen from the other side: by a service that assetsync's authors did not write."""

import hashlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from .dialect import DOCUMENTED, OBSERVED, Dialect
from .mirror import Mirror
from .service import Service

PHOTOS, PAPERS = "0123", "5D0E5B1C9AB24E6F8E1F0A2B3C4D5E6F"
ENDS = pytest.mark.parametrize("dialect", [OBSERVED, DOCUMENTED], ids=["observed", "documented"])

# Switches that do not touch each other share a row.
DIALECTS = {
    "kept connections, xml after blanks, lower-case ids": replace(
        OBSERVED, connection="keep-alive", frame="blanks", ids="lower"
    ),
    "http 1.0, text types, rows twice": replace(
        OBSERVED, connection="http/1.0", types=("text/plain", "text/xml"), rows_twice=True
    ),
    "chunked, byte order mark, sizes as numbers": replace(OBSERVED, connection="chunked", frame="bom", sizes="number"),
    "upper-case tags, unprocessed rows hidden": replace(
        OBSERVED, frame="upper", processing=1.0, hides_unprocessed=True
    ),
    "Response in Response, html types, ids with dashes, sizes as numbers": replace(
        DOCUMENTED, root="Response", types=("text/html", "text/html"), ids="dashed", sizes="number"
    ),
    "slow processing and a slow index": replace(OBSERVED, processing=1.2, index_lag=1.2),
}


def fill(mirror: Mirror, count: int, *, sidecars: bool = True) -> None:
    """Write files into nested folders, each with a sidecar and with content and size of its own."""
    for number in range(count):
        top = ("photos", "papers")[number % 2]
        path = f"{top}/y{number % 3}/d{number % 7}/f {number:03}.{('jpg', 'txt', 'zip')[number % 3]}"
        mirror.write(path, f"content of {number}\n" * (number + 1))
        if sidecars:
            mirror.write(f"{path}.yaml", f"description: number {number}\nkeywords: [no, 0{number}]\n")


def assert_one_to_one(mirror: Mirror) -> None:
    """Assert that each file of the tree is verified, with the id, size and MD5 of one asset, and no asset is left."""
    files, assets = mirror.files(), {asset.id: asset for asset in mirror.service.assets}
    tree = {str(p.relative_to(mirror.root)): p for p in mirror.root.rglob("*") if p.is_file() and p.suffix != ".yaml"}
    assert files.keys() == tree.keys()
    assert {row["state"] for row in files.values()} == {"verified"}
    assert sorted(row["assetid"] for row in files.values()) == sorted(assets)
    for path, row in files.items():
        asset, content = assets[row["assetid"]], tree[path].read_bytes()
        assert (asset.name, asset.folder) == (tree[path].name, row["destfolderid"])
        assert row["md5"] == asset.md5 == hashlib.md5(content).hexdigest().upper()
        assert row["size"] == asset.size == len(content)


@ENDS
def test_files_and_assets_match_one_to_one(make_mirror: Callable[..., Mirror], dialect: Dialect) -> None:
    mirror = make_mirror(dialect, {"photos": PHOTOS, "papers": PAPERS})
    fill(mirror, 150)
    code, told = mirror.reconcile()
    assert code == 0, told
    assert (told["uploaded"], told["verified"], told["in_sync"]) == (150, 150, True)
    assert_one_to_one(mirror)
    for asset in mirror.service.assets:
        number = int(asset.name[2:5])
        assert asset.metadata("_description", "_desc") == f"number {number}"
        assert asset.metadata("_keywords") == f"no,0{number}"
    code, told = mirror.reconcile()
    assert code == 0, told
    assert (told["uploaded"], told["adopted"], told["unchanged"]) == (0, 0, 150)
    assert len(mirror.service.posts) == 150


@ENDS
def test_only_the_changed_file_is_sent(make_mirror: Callable[..., Mirror], dialect: Dialect) -> None:
    """Of four files one is changed, one renamed and one touched."""
    mirror = make_mirror(dialect)
    for name in ("changed.txt", "renamed.txt", "touched.txt", "left.txt"):
        mirror.write(f"a/b/{name}", f"the content of {name}")
    assert mirror.reconcile()[0] == 0
    before = mirror.files()
    mirror.write("a/b/changed.txt", "other content")
    (mirror.root / "a/b/renamed.txt").rename(mirror.root / "a/new name.txt")
    os.utime(mirror.root / "a/b/touched.txt", (1_700_000_000, 1_700_000_000))
    code, told = mirror.reconcile()
    after = mirror.files()
    assert code == 0, told
    assert (told["uploaded"], told["verified"], len(mirror.service.posts)) == (1, 4, 5)
    assert after["a/new name.txt"]["assetid"] == before["a/b/renamed.txt"]["assetid"]
    assert after["a/b/touched.txt"]["assetid"] == before["a/b/touched.txt"]["assetid"]
    assert after["a/b/changed.txt"]["assetid"] == mirror.service.assets[-1].id
    orphans = [(row["assetid"], row["why"]) for row in mirror.orphans()]
    assert orphans == [(before["a/b/changed.txt"]["assetid"], "replaced")]


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Mirror, int, dict[str, Any]]]]:
    """Run one mirror for each dialect, all at once, because most of each is waiting."""
    mirrors = {}
    for number, (name, dialect) in enumerate(DIALECTS.items()):
        base = tmp_path_factory.mktemp(f"dialect-{number}")
        mirrors[name] = Mirror(base, Service(dialect, (PHOTOS,)), {".": PHOTOS})
        fill(mirrors[name], 12, sidecars=False)
    with ThreadPoolExecutor(len(mirrors)) as pool:
        ended = list(pool.map(Mirror.reconcile, mirrors.values()))
    yield {name: (mirror, *end) for (name, mirror), end in zip(mirrors.items(), ended, strict=True)}
    for mirror in mirrors.values():
        mirror.service.close()


@pytest.mark.parametrize("name", DIALECTS)
def test_every_service_dialect_is_understood(
    mirrored: dict[str, tuple[Mirror, int, dict[str, Any]]], name: str
) -> None:
    mirror, code, told = mirrored[name]
    assert (code, told["uploaded"], told["in_sync"]) == (0, 12, True)
    assert_one_to_one(mirror)
    assert mirror.service.complaints == []


@ENDS
def test_sidecar_texts_arrive_unchanged(make_mirror: Callable[..., Mirror], dialect: Dialect) -> None:
    """Values that YAML would read as a boolean, number, date or null arrive as they are written."""
    mirror = make_mirror(dialect)
    mirror.write("a.jpg", "a picture")
    mirror.write(
        "a.jpg.yaml",
        "description: NO\nkeywords: [012, 12:30, Tromsø]\nlocation: 1e5\nlanguage: 02\nmeta: {headline: yes}\n",
    )
    mirror.write("b.txt", "a text")
    mirror.write("b.txt.yaml", 'description: "null"\nkeywords: 2024-01-01\n')
    assert mirror.reconcile()[0] == 0
    said = {asset.name: asset.said for asset in mirror.service.assets}
    assert {key: value for key, value in said["a.jpg"].items() if key.startswith("meta")} == {
        "metadata": "1",
        "meta_lang_id_r": "02",
        "meta_img_description": "NO",
        "meta_img_keywords": "012,12:30,Tromsø",
        "meta_location": "1e5",
        "meta_headline": "yes",
    }
    assert {key: value for key, value in said["b.txt"].items() if key.startswith("meta_")} == {
        "meta_lang_id_r": "1",
        "meta_file_desc": "null",
        "meta_file_keywords": "2024-01-01",
    }
    # 0123 as a number would be 83: the folder would not exist.
    assert {row["destfolderid"] for row in mirror.files().values()} == {"0123"}
    assert {asset.folder for asset in mirror.service.assets} == {"0123"}


def test_lost_ledger_rebuild_uploads_nothing(make_mirror: Callable[..., Mirror]) -> None:
    mirror = make_mirror(OBSERVED)
    fill(mirror, 40, sidecars=False)
    assert mirror.reconcile()[0] == 0
    for file in mirror.base.glob("hq.db*"):
        file.unlink()
    code, told = mirror.reconcile()
    assert (code, told["uploaded"], told["adopted"], told["verified"]) == (0, 0, 40, 40)
    assert_one_to_one(mirror)


@pytest.mark.parametrize(
    "dialect",
    [replace(OBSERVED, processing=1.0, hides_unprocessed=True), DOCUMENTED],
    ids=["shown late", "documented, without MD5"],
)
def test_lost_answer_is_not_resent(make_mirror: Callable[..., Mirror], dialect: Dialect) -> None:
    mirror = make_mirror(dialect)
    fill(mirror, 6, sidecars=False)
    mirror.service.mute = {"f 001.txt", "f 004.txt"}
    code, told = mirror.reconcile()
    assert (code, told["verified"], told["in_doubt"]) == (0, 6, 0)
    assert sorted(mirror.service.posts) == sorted(path.name for path in mirror.root.rglob("f *"))
    assert_one_to_one(mirror)
