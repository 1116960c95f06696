"""The status page in a real browser, of a real daemon: without a script, with it, dark, and on a phone."""

import json
import os
import re
import time
import urllib.request
from pathlib import Path

import pytest

HOSTILE = b'<img src=x onerror="document.title=1">caf\xe9.jpg'


@pytest.fixture(scope="module")
def running(make_lasting_daemon):
    """A daemon with a verified file, a blocked one of a hostile name, and one that `retry` may help."""
    made = make_lasting_daemon(status='{listen: "127.0.0.1:0"}', upload="{max_file_size: 100}").start()
    (made.photos / "a.jpg").write_bytes(b"a picture")
    (made.photos / "big one.jpg").write_bytes(b"x" * 200)
    (Path(os.fsdecode(bytes(made.photos) + b"/" + HOSTILE))).write_bytes(b"")
    made.until_verified(1)
    made.until(lambda: list(made.states().values()).count("blocked") == 2)
    # The page counts anew every few seconds, and less often if that takes long.
    made.until(
        lambda: b"1 of 3 verified, 2 need you." in urllib.request.urlopen(made.address(), timeout=60).read(), 200
    )
    return made


@pytest.fixture
def visit(browser, running):
    """Open the page; at the end, it has said nothing on the console and asked nobody else for anything."""
    opened = []
    said: list[str] = []
    asked: list[str] = []

    def go(*, clock: bool = False, **how):
        context = browser.new_context(**how)
        opened.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        if clock:
            page.clock.install()
        page.goto(running.address())
        return page

    yield go
    for context in opened:
        context.close()
    assert [line for line in said if "503" not in line] == []
    assert asked
    assert [url for url in asked if not url.startswith(running.address() + "/")] == []


def retry_of_the_big_one(running) -> str:
    return f"assetsync retry --config {running.config} 'photos/big one.jpg'"


def test_without_a_script_it_says_everything(visit, running):
    page = visit(java_script_enabled=False)
    assert page.locator("h1").inner_text() == "1 of 3 verified, 2 need you."
    assert page.locator(".way .verified b").inner_text() == "1"
    assert page.locator("#blocked tbody tr").count() == 2
    assert retry_of_the_big_one(running) in page.locator("#blocked").inner_text()
    assert page.locator("button[data-copy]:visible").count() == 0, "a button that does nothing is not shown"


def test_reason_leads_to_its_row_of_the_guide(visit):
    for width in (390, 1280):
        page = visit(java_script_enabled=False, viewport={"width": width, "height": 844})
        page.locator("#blocked a", has_text="too large").click()
        assert page.url.endswith("/guide/troubleshooting#too_large")
        row = page.locator("tr:target")
        assert "upload.max_file_size" in row.inner_text()
        assert 0 < row.bounding_box()["y"] < 400
        page.get_by_role("link", name="Status").click()
        assert page.locator("#verdict h1").is_visible()


def test_page_script_follows_changes(visit, running):
    """The page shows a new count without a reload, and what a person opened stays open."""
    page = visit(clock=True)
    verified = page.locator(".way .verified b")
    before = int(verified.inner_text())
    page.locator("#hours summary").click()
    page.locator("#work summary").click()
    (running.photos / "b.jpg").write_bytes(b"another picture")
    running.until_verified(before + 1)
    until = time.monotonic() + 200
    # The daemon counts anew every few seconds of its own clock.
    while verified.inner_text() == str(before):
        assert time.monotonic() < until, "the page still shows the old count"
        with page.expect_response(running.address() + "/"):
            page.clock.run_for(5_100)
    assert verified.inner_text() == str(before + 1)
    for name in ("hours", "work"):
        assert page.locator(f"#{name} table").is_visible(), "what a person has opened stays open"
    assert page.title() == f"d: {before + 1} of {before + 3} verified, 2 need you."


def test_command_is_copied_by_click_and_key(visit, running):
    page = visit(permissions=["clipboard-read", "clipboard-write"])
    button = page.locator("#blocked button").first
    button.click()
    assert page.evaluate("navigator.clipboard.readText()") == retry_of_the_big_one(running)
    page.evaluate("navigator.clipboard.writeText('')")
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_function("navigator.clipboard.readText().then(text => text !== '')")
    assert page.evaluate("navigator.clipboard.readText()").startswith("assetsync retry ")


def test_a_hostile_name_is_a_text(visit):
    page = visit()
    assert page.locator("img").count() == 0
    assert re.fullmatch(r"d: \d of \d verified, 2 need you\.", page.title())
    shown = page.locator("#blocked .path").all_inner_texts()
    assert 'photos/<img src=x onerror="document.title=1">caf\ufffd.jpg' in shown


@pytest.mark.parametrize(("scheme", "width"), [("light", 1100), ("dark", 1100), ("light", 320), ("dark", 360)], ids=str)
def test_page_is_readable_in_every_layout(visit, tmp_path, scheme, width):
    page = visit(viewport={"width": width, "height": 700}, color_scheme=scheme, reduced_motion="reduce")
    for summary in page.locator("summary").all():
        summary.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    cut = page.evaluate(
        "[...document.querySelectorAll('main *, header *, footer *')].filter(one => {"
        " const box = one.getBoundingClientRect();"
        " return box.width > 2 && (box.right > innerWidth + 1 || box.left < -1);"
        "}).map(one => one.outerHTML.slice(0, 80))"
    )
    assert cut == []
    assert low_contrast(page) == []
    page.screenshot(path=tmp_path / "page.png", full_page=True)
    assert (tmp_path / "page.png").stat().st_size > 10_000


def low_contrast(page) -> list[str]:
    """Texts whose colour is too near to what lies behind them (WCAG AA: 4.5, large ones 3)."""
    found = page.evaluate(
        """() => {
          const behind = (one) => {
            for (; one; one = one.parentElement) {
              const colour = getComputedStyle(one).backgroundColor;
              if (!colour.endsWith(', 0)')) return colour;
            }
            return 'rgb(255, 255, 255)';
          };
          const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
          const found = [];
          while (texts.nextNode()) {
            const one = texts.currentNode.parentElement;
            if (!texts.currentNode.data.trim() || !one.getClientRects().length) continue;
            if (['SCRIPT', 'STYLE'].includes(one.tagName)) continue;
            const style = getComputedStyle(one);
            const text = texts.currentNode.data.trim().slice(0, 40);
            found.push([text, style.color, behind(one), parseFloat(style.fontSize)]);
          }
          return found;
        }"""
    )
    assert len(found) > 40
    poor = []
    for text, front, back, size in found:
        light, dark = sorted((luminance(front), luminance(back)), reverse=True)
        if (light + 0.05) / (dark + 0.05) < (3 if size >= 24 else 4.5):
            poor.append(f"{text}: {front} on {back}")
    return poor


def luminance(colour: str) -> float:
    shares = [int(number) / 255 for number in re.findall(r"\d+", colour)[:3]]
    linear = [share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_page_has_headings_and_labels(visit):
    page = visit()
    assert page.locator("h1").count() == 1
    assert page.locator("h1 [role=status]").count() == 1
    assert page.evaluate("document.documentElement.lang") == "en"
    for section in page.locator("main > section").all():
        heading = section.get_attribute("aria-labelledby")
        assert page.locator(f"#{heading}").inner_text()
    for table in page.locator("table").all():
        assert table.locator("thead th[scope=col]").count() >= 2
        assert table.locator("tbody th[scope=row]").count() == table.locator("tbody tr").count()
    assert re.fullmatch(
        r"[12] files? uploaded in 24 hours.*", page.locator("svg[role=img]").get_attribute("aria-label")
    )


def test_page_links_to_machine_readable_data(visit):
    page = visit()
    page.get_by_role("link", name="status.json").click()
    assert json.loads(page.locator("body").inner_text())["blocked"] == 2


def test_foreign_host_name_is_refused(browser, running):
    port = running.address().rpartition(":")[2]
    with_name = browser.new_context(extra_http_headers={})
    page = with_name.new_page()
    answer = page.goto(f"http://rebound.localhost:{port}/")
    assert answer.status == 421
    with_name.close()


def test_stale_entries_go_and_outage_is_shown(visit, running):
    """Files that are blocked no more leave the open page; if the daemon stops answering, the page keeps the rest."""
    page = visit(clock=True)
    count = len(list(running.photos.iterdir()))
    for number, path in enumerate(running.photos.iterdir()):
        path.write_bytes(b"small enough: %d" % number)
    running.until_verified(count)
    until = time.monotonic() + 200
    while page.locator("header").get_attribute("class") != "in_sync" and time.monotonic() < until:
        page.clock.run_for(5_100)
        page.wait_for_timeout(300)
    assert page.locator("header").get_attribute("class") == "in_sync"
    assert page.locator("#blocked").count() == 0
    assert page.locator("#stale").is_hidden()
    page.route("**/*", lambda route: route.fulfill(status=503, body="busy"))
    while not page.locator("#stale").is_visible() and time.monotonic() < until:
        page.clock.run_for(5_100)
        page.wait_for_timeout(200)
    assert page.locator("#stale").is_visible()
    assert page.locator(".way .verified b").inner_text() == str(count), "what it showed stays"
    page.unroute("**/*")
