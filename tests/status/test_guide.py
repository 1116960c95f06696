"""The guide below the status page: whole, strict, and nothing beside it."""

import re
import subprocess
import sys
from importlib.resources import files
from urllib.parse import urljoin

import pytest

from assetsync.core.outcome import MESSAGES, Answer, Fault
from assetsync.guide import as_html, pages
from assetsync.status.board import guide_page
from assetsync.status.sentences import _HELP

ADDRESSES = ["/guide/", *(f"/guide/{topic}" for topic in pages())]


def ids(html):
    return re.findall(r' id="([^"]*)"', html)


@pytest.fixture
def port(serve, shown):
    return serve(shown.board.answers()).port


def test_each_link_leads_to_a_served_place(port, ask):
    served = {address: ask(port, address) for address in (*ADDRESSES, "/")}
    for address in ADDRESSES:
        for href in re.findall(r'href="([^"]*)"', served[address].text):
            path, _, anchor = urljoin(address, href).partition("#")
            if not href.startswith("http") and path != "/icon.svg":
                assert path in served, (address, href)
                assert not anchor or anchor in ids(served[path].text), (address, href)


def test_ids_of_a_page_are_unique(shown):
    for address in ADDRESSES:
        found = ids(shown.get(address).body.decode())
        assert len(found) == len(set(found)), address


def test_pages_hold_nothing_their_policy_refuses(port, ask):
    for address in ADDRESSES:
        answer = ask(port, address)
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert not re.findall("script-src|connect-src|unsafe", policy)
        assert not re.findall(r"(?i)<(?:script|img|iframe|form|object)\b|\s(?:style|on\w+)=", answer.text), address


OUTSIDE = (
    *("no-such-topic", "guide.css", "__init__.py", "troubleshooting.md", "/etc/passwd"),
    *("../../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/log.py", "../log.py", "..\\log.py"),
    *("troubleshooting/", "troubleshooting%00", "./troubleshooting", "%74roubleshooting", "TROUBLESHOOTING"),
)


def test_nothing_else_is_served_below_guide(port, ask):
    for path in OUTSIDE:
        answer = ask(port, f"/guide/{path}")
        assert (answer.status, answer.text.count("\n")) == (404, 1), path


def test_guide_begins_with_the_tasks(shown):
    contents = shown.get("/guide/").body.decode()
    listed = re.findall(r'<li><a href="([a-z-]+)">', contents.partition("</main>")[0])
    assert listed == list(pages())
    assert listed[0] == "first-site"
    assert listed.index("troubleshooting") < listed.index("benchmarks")


def test_pages_hold_no_html_that_browsers_hide():
    """An unknown tag, such as <site>, would vanish from the text."""
    for page in pages().values():
        text = re.sub(r"(?s)```.*?```|`[^`]*`|<!--.*?-->|<https?://[^>]*>", "", page.text)
        assert set(re.findall(r"<[^>]*>", text)) <= {"</a>", *re.findall(r'<a id="[\w-]+">', text)}, page.topic


def test_cells_carry_the_label_of_their_column(shown):
    html = shown.get("/guide/troubleshooting").body.decode()
    assert '<td>"indexing stopped"</td>\n<td data-label="it means">' in html.replace("&quot;", '"')


def test_status_page_links_to_the_guide(shown):
    assert '<a href="guide/">Guide</a>' in shown.page()
    assert '<a href="../">Status</a>' in shown.get("/guide/troubleshooting").body.decode()


def test_each_place_named_by_status_page_exists(shown):
    template = (files("assetsync.status") / "templates" / "page.html").read_text("utf-8")
    places = re.findall(r'"guide/([a-z-]+)(?:#([a-z-]+))?"|label\("[^"]*", "([a-z-]+)(?:#([a-z-]+))?"\)', template)
    assert len(places) >= 10
    for topic, anchor in [(a or c, b or d) for a, b, c, d in places]:
        html = shown.get(f"/guide/{topic}").body.decode()
        assert not anchor or anchor in ids(html), (topic, anchor)


def test_blocked_reason_links_to_its_row(shown):
    world = shown.world
    world.write("a")
    world.scan()
    world.ledger.queue.block(world.row("a").id, "keeps_changing", "why", world.clock.now())
    assert '<a href="guide/troubleshooting#keeps_changing">keeps changing</a>' in shown.page()


def test_each_blocked_reason_has_a_row(shown):
    rows = set(ids(shown.get("/guide/troubleshooting").body.decode()))
    refused = {
        message.reason for message in MESSAGES if (message.answer, message.fault) == (Answer.REFUSED, Fault.FILE)
    }
    assert {*_HELP, *refused, "different"} <= rows


def test_guide_is_text_without_its_library(shown, monkeypatch):
    guide_page.cache_clear()
    monkeypatch.setitem(sys.modules, "markdown_it", None)
    answer = shown.get("/guide/troubleshooting")
    guide_page.cache_clear()
    assert (answer.status, answer.kind) == (200, "text/plain; charset=utf-8")
    assert answer.body.decode() == pages()["troubleshooting"].text
    assert "Files by state" in shown.page()


def test_answers_load_no_markdown_library():
    code = "import sys, assetsync.status.server, assetsync.guide as g; g.contents(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "assetsync.guide" in done.stdout.split()
    assert "markdown_it" not in done.stdout.split()


def test_served_page_differs_only_in_its_links():
    page = pages()["metadata"]
    copy = re.sub(r'href="([a-z-]+)\.html', r'href="\1', as_html(page, served=False)).replace('"index"', '"./"')
    icon = '<link rel="icon" type="image/svg+xml" href="../icon.svg">\n'
    assert as_html(page, served=True).replace('<a href="../">Status</a> ', "").replace(icon, "") == copy
