"""The page, its JSON and the health, from a real ledger: complete, harmless and without secrets.

Covers `status/document.py` and `status/page.py`.
"""

import html
import json
import re
import threading
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from pydantic import SecretStr

import assetsync.log as log_module
import assetsync.status.board as board_module
from assetsync.errors import LedgerError
from assetsync.ledger.runs import HeldUp, LastScan, UploadAddress
from assetsync.log import register_secret
from assetsync.model import State
from assetsync.status.site_status import Trust

HOSTILE = [
    b"<script>alert(1)</script>.jpg",
    b'"><img src=x onerror=alert(1)>.jpg',
    b"' onmouseover='alert(1).jpg",
    b"{{ 7*7 }}{% raw %}.jpg",
    b"caf\xe9\xff.jpg",
    b"\x1b[31mred\x07.jpg",
    "\u202egpj.exe".encode(),
    b"new\nline.jpg",
]


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", " ", re.sub(r"(?s)<(style|script)>.*?</\1>", "", page)))


def headings(page: str) -> list[str]:
    return re.findall(r"<h2[^>]*>([^<]*)</h2>", page)


def attributes(page: str) -> set[str]:
    found = set()
    parser = HTMLParser()
    parser.handle_starttag = lambda _tag, attrs: found.update(name for name, _ in attrs)
    parser.feed(page)
    assert {"class", "id", "data-copy"} <= found
    return found


def block(world, path, reason, detail="why"):
    world.write(path, f"content of {path}".encode())
    world.scan()
    world.ledger.queue.block(world.row(path).id, reason, detail, world.clock.now())


def block_all(world, detail="why"):
    world.scan()
    # Two groups, because the page names five files of each.
    for number, row in enumerate(list(world.ledger.reports.files())):
        world.ledger.queue.block(row.id, ("different", "changed")[number % 2], detail, world.clock.now())


def test_hostile_names_are_inert_text_on_page(shown):
    for number, name in enumerate(HOSTILE):
        shown.world.write(name, b"x" * (number + 1))
    block_all(shown.world, "<b>said by the service</b> \x1b[2J")
    page = shown.page()
    assert page.count("<script>") == page.count("</script>") == 1
    assert "<img" not in page
    assert "<b>said" not in page
    assert not [name for name in attributes(page) if name.startswith("on") or name == "style"]
    shown_text = text_of(page)
    for expected in ("<script>alert(1)</script>.jpg", "{{ 7*7 }}", "caf\ufffd\ufffd.jpg", "\\x1b[31mred\\x07.jpg"):
        assert expected in shown_text
    assert "\\u202egpj.exe" in shown_text
    assert not set(page) & {"\x1b", "\x07", "\u202e"}


def test_hostile_names_are_whole_in_the_json(shown):
    for number, name in enumerate(HOSTILE):
        shown.world.write(name, b"x" * (number + 1))
    block_all(shown.world)
    body = shown.get("/status.json").body
    assert body.isascii()
    assert b"\x1b" not in body
    files = json.loads(body)["blocked_files"]
    assert {file["path"] for file in files} == {name.decode("utf-8", "replace") for name in HOSTILE}
    assert [file["path_base64"] for file in files if "path_base64" in file] == ["Y2Fm6f8uanBn"]


def test_json_extends_the_status_command(shown):
    shown.world.write("a")
    block_all(shown.world)
    said = json.loads(shown.get("/status.json").body)
    daemon = said.pop("daemon")
    from assetsync.status.document import as_object

    assert said.keys() == as_object(shown.status()).keys()
    assert (daemon["version"], daemon["late"], daemon["next_runs"]) == (
        "9.8.7",
        [],
        {"rescan": "2096-10-02T07:06:40.000Z"},
    )
    assert daemon["watch"]["overflows"] == 1


def test_page_answers_every_usual_question(shown):
    """The page shows brakes, blocked files, doubts, counts, next runs, the watcher and the release, with commands."""
    world = shown.world
    for number in range(3):
        world.write(f"{number}", b"x" * (number + 1))
    world.service.script.extend(["accept", "accept", "lost_before"])
    world.scan_and_send()
    world.write("blocked.jpg", b"content of it")
    world.scan()
    world.ledger.queue.block(world.row("blocked.jpg").id, "different", "not what was sent", world.clock.now())
    world.write("waiting.jpg", b"another")
    world.scan()
    world.ledger.pull_brake("emptied", "photos", "photos held 5 files and is empty now", 5, 1_700_000_000)
    world.ledger.set_fact("index_stopped", "after searchIndex 5 of 5 were gone")
    page = shown.page()
    said = re.sub(r"\s+", " ", text_of(page))
    for expected in (
        "Action needed: uploads stopped (a mapped folder is empty or missing: 5 files missing since 2023-11-14 22:13",
        "indexing stopped. 0 of 5 verified",
        "0 of 5 verified, 1 needs you, 3 pending, 1 in doubt.",
        "1 Waiting", "1 In doubt", "1 Blocked", "2 Stored", "0 Verified",
        "1 different blocked.jpg not what was sent assetsync retry blocked.jpg",
        "photos held 5 files and is empty now", "assetsync resume 1",
        "after searchIndex 5 of 5 were gone",
        "assetsync doubt list",
        "2 uploaded",
        "rescan compare the whole tree with the ledger", "audit",
        "Folders watched 3 ", "Overflows seen 1 ",
        "F1",
        "9.8.7",
    ):  # fmt: skip
        assert expected in said, expected


def test_commands_in_sentences_are_code(shown):
    block(shown.world, "a`b<c", "missing", "gone: `assetsync retry PATH` looks again & <b>again</b>")
    block(shown.world, "empty", "empty_file", "a lone ` stays")
    page = shown.page()
    assert ">gone: <code>assetsync retry PATH</code> looks again &amp; &lt;b&gt;again&lt;/b&gt;</span>" in page
    path = "&#39;a`b&lt;c&#39;"
    steps = f"<code>assetsync retry {path}</code>, or <code>assetsync retry --send-again {path}</code> if that"
    assert steps in page
    assert "leave it out by an <code>ignore</code> pattern" in page
    assert ">a lone ` stays</span>" in page


def test_mappings_and_tiles_name_states_alike(shown):
    shown.world.write("a")
    shown.world.scan()
    page = shown.page()
    assert '<span class="name">Waiting</span>' in page
    assert '<th scope="col">Waiting</th>' in page
    assert '<td data-label="Waiting">1</td>' in page


def test_what_needs_a_person_comes_first(shown):
    world, now = shown.world, shown.world.clock.now()
    block(world, "a", "different")
    world.ledger.pull_brake("emptied", "photos", "photos is empty now", 5, now)
    shown.live = replace(shown.live, late=("scan",))
    expected = ["Action needed", "Action needed: blocked files", "Clears by itself", "Files by state"]
    assert headings(shown.page())[:4] == expected


def rows_of_blocked(shown) -> list[str]:
    table = shown.page().partition('<section id="blocked"')[2].partition("</section>")[0]
    return [re.sub(r"\s+", " ", text_of(row)).strip() for row in table.split("<tr>")[2:]]


def test_blocked_files_are_grouped_by_reason(shown):
    for number in range(7):
        block(shown.world, f"my docs/{number % 2}/{number}", "missing", "not there")
    for number in range(2):
        block(shown.world, f"{number}.jpg", "changed", f"size {number}")
    block(shown.world, "one.jpg", "unreadable", "Permission denied")
    missing, changed, unreadable = rows_of_blocked(shown)
    names = "my docs/0/0 not there my docs/1/1 my docs/0/2 my docs/1/3 my docs/0/4 and 2 more"
    command = "assetsync retry 'my docs'"
    assert missing == f"7 missing {names} {command} Copy {command}"
    command = "assetsync files --state blocked --reason changed ."
    step = "For each: assetsync retry --send-again PATH To list them:"
    assert changed == f"2 changed 0.jpg size 0 1.jpg size 1 {step} {command} Copy {command}"
    assert unreadable.startswith("1 unreadable one.jpg Permission denied fix its permissions, or restore it from a")
    assert ": it is tried again within a minute once it can be opened, at once assetsync retry one.jpg" in unreadable


def test_group_is_retried_by_one_command(shown):
    for name in ("a.jpg", "b.jpg"):
        block(shown.world, name, "unreadable", "Permission denied")
    (unreadable,) = rows_of_blocked(shown)
    assert "at once assetsync retry --reason unreadable To list them:" in unreadable


def folded(page: str) -> set[str]:
    return set(re.findall('<details id="([a-z]+)-more">', page))


def test_only_what_is_fine_is_folded_away(shown):
    assert folded(shown.page()) == {"work", "watching"}
    assert headings(shown.page())[-2:] == ["Regular work", "The watcher"]
    shown.live = replace(shown.live, late=("scan",), trust=replace(shown.live.trust, polling=True))
    assert folded(shown.page()) == set()
    assert headings(shown.page())[-2:] == ["Regular work", "The watcher"]
    assert "Not every folder can be watched" in shown.page()


def test_incomplete_scan_unfolds_regular_work(shown):
    shown.world.ledger.runs.scanned(LastScan(shown.world.clock.now(), complete=False, unreadable=1), 0.1)
    assert folded(shown.page()) == {"watching"}
    assert "The last scan was not complete" in shown.page()


def test_page_shows_full_disk_remedy(shown, monkeypatch):
    monkeypatch.setattr("assetsync.status.site_status.without_room", lambda _path: "the disk of /var has 9.0 KB left")
    said = re.sub(r"\s+", " ", text_of(shown.page()))
    assert "No room the disk of /var has 9.0 KB left" in said
    assert "Free space" in said


@pytest.mark.parametrize(
    ("reason", "heading", "sentence"),
    [
        ("unreachable", "Clears by itself", "sending resumes by itself"),
        ("key_refused", "Action needed", "Nothing is sent until the service accepts the key"),
    ],
)
def test_page_shows_if_a_pause_ends_by_itself(shown, reason, heading, sentence):
    world = shown.world
    since = world.clock.now() - 60
    said = {"start": world.ledger.start_no, "since": since, "reason": reason, "detail": "why"}
    world.ledger.set_fact("paused", json.dumps(said))
    page = shown.page()
    assert sentence in page
    assert headings(page)[0] == heading
    assert ("resumes by itself" in page) == (reason == "unreachable")


@pytest.mark.parametrize(
    ("everything", "sentence"), [(True, "nothing is sent since"), (False, "nothing is sent into folder F1 since")]
)
def test_page_shows_what_waits_for_doubts(shown, everything, sentence):
    world = shown.world
    world.write("a")
    world.scan()
    now = world.clock.now()
    world.ledger.runs.record(HeldUp, HeldUp(world.ledger.start_no, now, ("F1",), everything, now + 90))
    page = shown.page()
    assert headings(page)[0] == "Clears by itself"
    assert sentence in page
    assert "the next can be decided in 1 min" in page
    assert json.loads(shown.get("/status.json").body)["held_by_doubts"]["folders"] == ["F1"]


@pytest.mark.parametrize(
    ("trust", "sentence"),
    [
        (Trust("inotify", watched=9, folders=8), "New files are noticed at once"),
        (Trust("inotify", polling=True, watched=3, folders=8), "Not every folder can be watched"),
        (Trust("polling", polling=True, folders=8), "The tree is scanned every minute"),
        (Trust("off"), "Nothing is watched"),
    ],
    ids=["inotify", "short", "polling", "off"],
)
def test_page_shows_the_trust_in_the_watcher(shown, trust, sentence):
    shown.live = replace(shown.live, trust=trust)
    assert sentence in shown.page()


def test_only_the_loops_decide_health(shown):
    assert (shown.get("/healthz").status, shown.get("/healthz").body) == (200, b"ok\n")
    shown.live = replace(shown.live, late=("scan", "send-0"))
    assert (shown.get("/healthz").status, shown.get("/healthz").body) == (503, b"late: scan, send-0\n")
    assert "the loop send-0 has missed its deadline" in shown.page()


def test_new_site_page_shows_no_result_yet(shown):
    said = re.sub(r"\s+", " ", text_of(shown.page()))
    assert "No complete scan yet." in said
    assert "not yet" in said
    assert headings(shown.page()) == ["Files by state", "Regular work", "The watcher"]


def test_wrong_upload_address_is_an_alert(shown):
    address = shown.world.site.config.service.upload_url
    shown.world.ledger.runs.record(UploadAddress, UploadAddress(address, 0, "account", "a <login> page"))
    assert "Action needed" in headings(shown.page())
    assert "a &lt;login&gt; page" in shown.page()


def test_wrong_folder_does_not_clear_by_itself(shown):
    for name in "ab":
        shown.world.write(name, name.encode())
    shown.world.service.script.append("unknown_folder")
    shown.world.scan_and_send()
    found = headings(shown.page())
    assert found[:2] == ["Action needed", "Action needed: blocked files"]
    assert "Clears by itself" not in found


def test_answers_omit_a_key_from_the_ledger(shown, monkeypatch):
    monkeypatch.setattr(log_module, "_SECRETS", log_module._Secrets())
    key = 'C4n4ry&<k>"3y'
    register_secret(SecretStr(key))
    shown.world.write("a")
    block_all(shown.world, f"the service said {key}")
    shown.world.ledger.set_fact("index_stopped", f"because {key}")
    for path in shown.board.answers():
        body = shown.get(path).body.decode()
        for form in (key, html.escape(key), json.dumps(key)[1:-1], "C4n4ry"):
            assert form not in body, (path, form)
    assert "because [key]" in shown.page()


def test_slow_ledger_read_shows_last_reading(shown):
    world, board = shown.world, shown.board
    before = board.status()
    world.write("new")
    world.scan()
    board._kept_until = world.clock.steady()
    with board._lock:
        found = []
        asks = threading.Thread(target=lambda: found.append(board.status(0.05)))
        asks.start()
        asks.join(10)
        assert found == [before]
    assert board.status().counts.of(State.QUEUED) == 1


def test_slow_ledger_is_read_again_after_a_minute(shown, monkeypatch):
    """The process stood still for ten seconds, as on a busy machine, while it read the ledger."""
    world, board = shown.world, shown.board
    read = board_module.read_status
    monkeypatch.setattr(board_module, "read_status", lambda *args: world.clock.advance(10) or read(*args))
    world.clock.advance(60)
    before = board.status()
    world.write("new")
    world.scan()
    world.clock.advance(59)
    assert board.status() is before
    world.clock.advance(2)
    assert board.status().counts.of(State.QUEUED) == 1


def test_very_slow_ledger_read_hides_old_data(shown):
    shown.board.status()
    shown.world.clock.advance(120)
    with shown.board._lock:
        with pytest.raises(LedgerError, match="answers slowly"):
            shown.board.status(0.01)
        assert 'assetsync_ledger_readable{site="test"} 0.0' in shown.metrics.exposition().decode()


def test_missing_reading_is_reported(shown):
    with shown.board._lock, pytest.raises(LedgerError, match="answers slowly"):
        shown.board.status(0.01)


def test_counts_are_shared_between_readers(shown):
    first = shown.board.status()
    shown.world.write("new")
    shown.world.scan()
    assert shown.board.status() is first
