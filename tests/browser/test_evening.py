"""An evening at a photo desk: RAW+JPEG pairs with XMP files by exiftool, and an editor who follows her files.

The XMP files of some pairs come late, some are broken at first, and one folder requires them. In the end the service
holds each file once, with the metadata that was given to exiftool. The desk has 12 pairs, and 300 with `--long`.
"""

import hashlib
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

AGENCY = "D0D1"
ASSETS = "https://dam.example.com/asset/{assetid}"
MOMENTS = ("early", "early", "late", "broken")
FIELDS = {
    "JPG": ("meta_img_description", "meta_img_keywords", "meta_location", "meta_headline"),
    "CR3": ("meta_file_desc", "meta_file_keywords"),
}
"""The form fields of both endings, in the order of what exiftool is given; only pictures have the last two."""
PATIENCE = 30_000
"""Milliseconds for which the browser waits."""


class Pair(NamedTuple):
    """Two files of one stem, of which one XMP file tells what is in the picture."""

    number: int

    @property
    def folder(self) -> str:
        return "agency" if self.number % 3 == 2 else "evening"

    @property
    def moment(self) -> str:
        """When the XMP file is written."""
        return MOMENTS[self.number % len(MOMENTS)]

    @property
    def names(self) -> tuple[str, str]:
        return f"IMG_{self.number:04}.CR3", f"IMG_{self.number:04}.JPG"

    @property
    def described(self) -> dict[str, str]:
        """What exiftool is given, by its names; the keywords are joined."""
        return {
            "XMP-dc:Description": f'Évening {self.number}: "the <old> harbour" & the sea',
            "XMP-dc:Subject": f"harbour,dusk,Tromsø {self.number}",
            "XMP-iptcCore:Location": f"Pier {self.number}",
            "XMP-photoshop:Headline": f"Harbour, {self.number}",
        }

    def content(self, name: str) -> bytes:
        return f"the picture of {name}".encode()

    def xmp(self, photos: Path) -> Path:
        return photos / self.folder / f"IMG_{self.number:04}.xmp"


class Desk:
    """The people who fill the tree."""

    def __init__(self, photos: Path, count: int) -> None:
        self.photos = photos
        self.pairs = [Pair(number) for number in range(count)]
        for folder in ("agency", "evening"):
            (photos / folder).mkdir()

    def describe(self, pairs: list[Pair]) -> None:
        """Let one exiftool write the XMP file of each pair."""
        lines: list[str] = []
        for pair in pairs:
            lines += ["-o", str(pair.xmp(self.photos)), "-sep", ","]
            lines += [f"-{tag}={text}" for tag, text in pair.described.items()]
            lines += ["-execute"]
        words = ["exiftool", "-charset", "utf8", "-@", "-"]
        done = subprocess.run(words, input="\n".join(lines), capture_output=True, text=True, check=False)
        assert done.stdout.count("1 image files created") == len(pairs), done.stdout[-500:] + done.stderr[-500:]

    def spoil(self, pair: Pair) -> None:
        """Break an XMP file in its middle, as no program would leave it for a moment."""
        xmp = pair.xmp(self.photos)
        xmp.write_text(xmp.read_text("utf-8").replace("</rdf:RDF>", "</rdf:RFD>"), "utf-8")

    def copy(self, pair: Pair) -> None:
        for name in pair.names:
            (self.photos / pair.folder / name).write_bytes(pair.content(name))

    def of(self, moment: str, folder: str | None = None) -> list[Pair]:
        return [pair for pair in self.pairs if pair.moment == moment and folder in (None, pair.folder)]


@pytest.fixture
def evening(request, make_daemon, daemon_sandbox):
    """A running daemon, and a desk whose pictures are all there: early XMP files are whole, broken ones broken."""
    if shutil.which("exiftool") is None:
        pytest.skip("exiftool is not installed: apt-get install libimage-exiftool-perl")
    daemon_sandbox.create_folder("agency", AGENCY)
    running = make_daemon(
        status='{listen: "127.0.0.1:0"}',
        watch="{settle: 300ms, sidecar_wait: 1h}",
        folders='[{path: photos, destfolderid: "D0D0"},'
        f' {{path: photos/agency, destfolderid: "{AGENCY}", sidecars: required}}]',
    )
    fields = 'kinds: {cr3: other}, xmp_fields: {"photoshop:Headline": headline}'
    service = f'service: {{asset_url: "{ASSETS}", {fields}, '
    running.config.write_text(running.config.read_text().replace("service: {", service))
    running.start()
    desk = Desk(running.photos, 300 if request.config.getoption("--long") else 12)
    early, broken = desk.of("early"), desk.of("broken")
    desk.describe(early + broken)
    for pair in broken:
        desk.spoil(pair)
    for pair in desk.pairs:
        desk.copy(pair)
    running.until(lambda: Counter(running.states().values())["blocked"] == 2 * len(broken), 300)
    running.until_verified(2 * len(early), 300)
    return running, desk


@pytest.fixture
def editor(browser, evening):
    """A page in the browser of an editor, at the list of files; assets are shown by a service of the same address."""
    running, _ = evening
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    page.route("https://dam.example.com/**", lambda route: route.fulfill(body=f"asset at {route.request.url}"))
    page.goto(running.address() + "/files")
    yield page
    page.close()


def find(page, name):
    """Search for a file by its name, and open its page."""
    page.get_by_label("Find a file").fill(name.lower())
    page.get_by_role("button", name="Find").click()
    page.get_by_role("link", name=name).click()
    return page.get_by_role("heading", level=1)


def test_each_file_arrives_once_with_its_metadata(evening, editor):
    running, desk = evening
    found = running.sandbox.assets()
    assert Counter(asset.filename for asset in found) == Counter(
        name for pair in desk.of("early") for name in pair.names
    )

    follow_to_the_asset(running, editor, desk.of("early", "evening")[0])
    desk.describe(desk.of("late", "evening"))
    see_it_sent_with_its_xmp(running, desk, editor)
    see_why_it_is_blocked(running, desk, editor)

    running.until_verified(2 * len(desk.pairs), 300)
    judge(running, desk)


def follow_to_the_asset(running, page, pair):
    """Find a file by its name, and follow the link on its page to its asset."""
    name = pair.names[1]
    page.get_by_label("Find a file").fill(name[:8].lower())
    page.get_by_role("button", name="Find").click()
    assert page.get_by_role("heading", level=1).inner_text() == "2 files found"
    page.get_by_role("link", name=name).click()
    assert page.get_by_role("heading", level=1).inner_text() == f"{name}: In the service, verified"
    (asset,) = [each for each in running.sandbox.assets() if each.filename == name]
    page.get_by_role("link", name=asset.id).click()
    assert page.locator("body").inner_text() == f"asset at {ASSETS.format(assetid=asset.id)}"
    page.go_back()
    page.get_by_role("link", name="All files").click()


def see_it_sent_with_its_xmp(running, desk, page):
    """Watch the page of a file that waits for its sidecar until exiftool has written it."""
    late = desk.of("late", "agency")
    name = late[0].names[0]
    heading = find(page, name)
    assert heading.inner_text() == f"{name}: Waiting for its sidecar"
    assert "its mapping says sidecars: required" in page.locator("#known").inner_text()
    desk.describe(late)
    page.get_by_role("heading", name=f"{name}: In the service, verified").wait_for()
    page.get_by_role("link", name="All files").click()


def see_why_it_is_blocked(running, desk, page):
    """Find the broken XMP file, its line and the reason on the page of a file; let exiftool write all of them again."""
    broken = desk.of("broken")
    name, xmp = broken[0].names[1], broken[0].xmp(desk.photos)
    assert find(page, name).inner_text() == f"{name}: Blocked"
    line = 1 + xmp.read_text("utf-8").partition("</rdf:RFD>")[0].count("\n")
    why = page.locator("#known").inner_text()
    assert f"{xmp.relative_to(running.tree)}, line {line}, column " in why
    assert "save it again in the program that wrote it" in why
    for pair in broken:
        pair.xmp(desk.photos).unlink()
    desk.describe(broken)
    page.get_by_role("heading", name=f"{name}: In the service, verified").wait_for()


def judge(running, desk):
    """Compare the tree with what the sandbox holds, each by itself."""
    assets = {asset.md5: asset for asset in running.sandbox.assets()}
    assert len(running.sandbox.assets()) == len(assets) == 2 * len(desk.pairs), "nothing twice, and no XMP file"
    for pair in desk.pairs:
        for name in pair.names:
            asset = assets[hashlib.md5(pair.content(name), usedforsecurity=False).hexdigest().upper()]
            assert (asset.filename, asset.folder_name) == (name, "agency" if pair.folder == "agency" else "photos")
            fields = dict(zip(FIELDS[name[-3:]], pair.described.values(), strict=False))
            sent = {key: value for key, value in asset.metadata.items() if key.startswith("meta_")}
            assert sent == fields | {"meta_lang_id_r": "1"}, name
    assert set(running.states().values()) == {"verified"}
    assert running.drift() == {}
