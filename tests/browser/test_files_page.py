"""Finding a file in a real browser: without a script, by keyboard alone, on a phone, in the dark; judged by axe-core.

axe-core comes from `$ASSETSYNC_AXE` (the path of an `axe.min.js`) or from the npm registry. Without both the test that
needs it is skipped. The program never loads it.
"""

import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

AXE = "axe-core@4.14.1"
ASSETS = "https://dam.example.com/asset/{assetid}"
HOSTILE = b'<img src=x onerror="document.title=1">caf\xe9.jpg'
PAGES = {
    "status": "/",
    "files": "/files",
    "results": "/files?q=img_",
    "nothing": "/files?q=nothing%20like%20it",
    "verified": "/file?path=photos/evening/IMG_0001.jpg",
    "versions": "/file?path=photos/evening/IMG_0002.jpg",
    "blocked": "/file?path=photos/big%20one.jpg",
    "unknown": "/file?path=photos/none.jpg",
}


@pytest.fixture(scope="module")
def running(make_lasting_daemon):
    """A daemon with verified files, a file of two versions, a blocked one, one of a hostile name, and one waiting."""
    made = make_lasting_daemon(status='{listen: "127.0.0.1:0"}', upload="{max_file_size: 100}")
    made.config.write_text(made.config.read_text().replace("service: {", f'service: {{asset_url: "{ASSETS}", '))
    made.start()
    (made.photos / "evening").mkdir()
    for number in range(3):
        (made.photos / "evening" / f"IMG_{number:04}.jpg").write_bytes(b"picture %d" % number)
    (Path(os.fsdecode(bytes(made.photos) + b"/" + HOSTILE))).write_bytes(b"hostile")
    (made.photos / "big one.jpg").write_bytes(b"x" * 200)
    made.until_verified(4)
    (made.photos / "evening" / "IMG_0002.jpg").write_bytes(b"another picture")
    made.until(lambda: len(made.events("uploaded")) == 5)
    made.until_verified(4)
    made.until(lambda: list(made.states().values()).count("blocked") == 1)
    return made


@pytest.fixture
def visit(browser, running):
    """Open a page; at the end, it has said nothing on the console and asked nobody else for anything."""
    opened = []
    said: list[str] = []
    asked: list[str] = []

    def go(address="/", **how):
        context = browser.new_context(**how)
        opened.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(running.address() + address)
        return page

    yield go
    for context in opened:
        context.close()
    assert [line for line in said if "404" not in line] == []
    assert [url for url in asked if not url.startswith(running.address() + "/")] == []


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    """The path of axe-core's script."""
    if (given := os.environ.get("ASSETSYNC_AXE")) is not None:
        return given
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("axe-core is not here: set $ASSETSYNC_AXE to an axe.min.js, or install npm")
    folder = tmp_path_factory.mktemp("axe")
    packed = subprocess.run([npm, "pack", "--silent", AXE], cwd=folder, capture_output=True, text=True, check=False)
    if packed.returncode:
        pytest.skip(f"npm cannot load {AXE}, and $ASSETSYNC_AXE names no axe.min.js: {packed.stderr.strip()[-200:]}")
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        (folder / "axe.min.js").write_bytes(archive.extractfile("package/axe.min.js").read())
    return folder / "axe.min.js"


@pytest.mark.parametrize("how", [{}, {"java_script_enabled": False}], ids=["script", "no-script"])
def test_editor_finds_the_file_and_its_asset(visit, running, how):
    page = visit(**how)
    page.get_by_label("Find a file").fill("img_0001")
    page.get_by_role("button", name="Find").click()
    assert page.get_by_role("heading", level=1).inner_text() == "1 file found"
    page.get_by_role("link", name="IMG_0001.jpg").click()
    assert page.get_by_role("heading", level=1).inner_text() == "IMG_0001.jpg: In the service, verified"
    (asset,) = [each for each in running.sandbox.assets() if each.filename == "IMG_0001.jpg"]
    link = page.get_by_role("link", name=asset.id)
    assert link.get_attribute("href") == ASSETS.format(assetid=asset.id)


def test_keyboard_alone_finds_the_file(visit):
    page = visit("/files")
    until_focused(page, "q")
    page.keyboard.type("big one")
    page.keyboard.press("Enter")
    page.wait_for_url("**/files?q=big+one")
    until_focused(page, "big one.jpg")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid", "the focus is visible"
    page.keyboard.press("Enter")
    page.wait_for_url("**/file?path=photos/big%20one.jpg")
    assert page.get_by_role("heading", level=1).inner_text() == "big one.jpg: Blocked"


def until_focused(page, name):
    """Press Tab until the element of this id or text has the focus."""
    for _ in range(10):
        page.keyboard.press("Tab")
        if name in page.evaluate("[document.activeElement.id, document.activeElement.innerText]"):
            return
    raise AssertionError(f"no Tab reaches {name}")


def test_hostile_name_is_text_on_its_page(visit):
    page = visit("/files?q=%3Cimg")
    page.get_by_role("link", name="<img").click()
    assert page.locator("img").count() == 0
    assert (
        page.get_by_role("heading", level=1).inner_text().startswith('<img src=x onerror="document.title=1">caf\ufffd')
    )


def test_page_of_a_new_file_follows_it(visit, running):
    page = visit("/file?path=photos/late.jpg")
    assert page.get_by_role("heading", name="This file is not known").is_visible()
    (running.photos / "late.jpg").write_bytes(b"it came late")
    page.get_by_role("heading", name="late.jpg: In the service, verified").wait_for(timeout=60_000)
    assert page.title().startswith("late.jpg: In the service, verified")
    assert page.locator("#unknown").count() == 0
    assert page.locator("#stale").is_hidden()


def test_earlier_versions_are_on_the_page(visit):
    page = visit("/file?path=photos/evening/IMG_0002.jpg")
    page.get_by_text("Replaced by a newer version").click()
    assert page.locator("#version-1 dd", has_text="9 bytes").is_visible()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 360), ("dark", 360)], ids=str)
def test_axe_finds_no_fault(visit, axe, scheme, width):
    how = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme, "reduced_motion": "reduce"}
    # The policy of the pages would refuse axe's script.
    page = visit(bypass_csp=True, **how)
    found = {}
    for name, address in PAGES.items():
        page.goto(page.url.partition("/f")[0].rstrip("/") + address)
        for details in page.locator("details").all():
            details.evaluate("each => each.open = true")
        page.add_script_tag(path=axe)
        violations = page.evaluate("axe.run().then(found => found.violations)")
        found[name] = [(each["id"], each["nodes"][0]["html"][:200]) for each in violations]
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
    assert {name: faults for name, faults in found.items() if faults} == {}


def test_pages_name_their_parts(visit):
    for address in PAGES.values():
        page = visit(address)
        assert page.locator("h1").count() == 1
        assert re.fullmatch(r".+ - d|d: .+", page.title())
        for section in page.locator("main > section").all():
            assert page.locator(f"#{section.get_attribute('aria-labelledby')}").inner_text()
        for table in page.locator("table").all():
            assert table.locator("tbody th[scope=row]").count() == table.locator("tbody tr").count()
