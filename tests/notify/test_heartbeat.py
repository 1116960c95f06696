"""Heartbeats: what each style sends, and what real processes send to a real receiver."""

import contextlib
import json
import os
import re
import signal
import sqlite3
import threading
import time
import urllib.request
from urllib.parse import parse_qs, urlsplit

import pytest
import structlog
from pydantic import SecretStr

from assetsync import log
from assetsync.clock import SystemClock
from assetsync.config.key import read_heartbeat
from assetsync.errors import ConfigError
from assetsync.ledger.ledger import open_ledger
from assetsync.ledger.runs import LastScan
from assetsync.log import redact
from assetsync.notify.channel import Undelivered
from assetsync.notify.heartbeat import Monitor, Ping, Vitals, ping_of
from assetsync.sandbox import FaultKind, FaultRule
from tests.forks import call
from tests.running import KEY, SHORT_BUSY_WAIT

TOKEN = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
HC = f"https://hc.example.com/{TOKEN}"
KUMA = "https://kuma.example.com/api/push/T0k"
GIVEN = f"{KUMA}?status=up&msg=OK&ping="
WELL, BRAKED = Vitals(lives=True), Vitals(lives=True, failure="uploads stopped")
DEAF, KEYLESS = Vitals(lives=False), Vitals(lives=False, failure="no key")


@pytest.mark.parametrize(
    ("style", "url", "vitals", "sent"),
    [
        ("plain", f"{HC}?a=b", WELL, Ping(f"{HC}?a=b")),
        ("plain", HC, BRAKED, Ping(HC)),
        ("plain", HC, DEAF, None),
        ("plain", HC, KEYLESS, None),
        ("healthchecks", HC, WELL, Ping(HC)),
        ("healthchecks", HC, BRAKED, Ping(f"{HC}/fail", "hq: uploads stopped")),
        ("healthchecks", f"{HC}/?create=1", KEYLESS, Ping(f"{HC}/fail?create=1", "hq: no key")),
        ("healthchecks", HC, DEAF, None),
        ("kuma", KUMA, WELL, Ping(GIVEN)),
        ("kuma", GIVEN, WELL, Ping(GIVEN)),
        ("kuma", GIVEN, BRAKED, Ping(f"{KUMA}?status=down&msg=hq%3A+uploads+stopped&ping=")),
        ("kuma", KUMA, KEYLESS, Ping(f"{KUMA}?status=down&msg=hq%3A+no+key&ping=")),
        ("kuma", KUMA, DEAF, None),
    ],
)
def test_request_follows_from_style_and_vitals(style, url, vitals, sent):
    assert ping_of(style, url, vitals, "hq") == sent


def test_message_has_200_characters_at_most():
    vitals = Vitals(lives=True, failure="x" * 500)
    long = ping_of("healthchecks", HC, vitals, "hq").text
    (message,) = parse_qs(urlsplit(ping_of("kuma", KUMA, vitals, "hq").url).query)["msg"]
    assert (len(long), long[-2:], message) == (200, "x…", long)


# ── the address ──


def test_file_holds_the_address(make_world, tmp_path):
    file = tmp_path / "hq.heartbeat"
    file.write_text(f"{HC}\n")
    config = make_world(notify={"heartbeat_file": str(file)}).config()
    assert read_heartbeat(config, {}).get_secret_value() == HC
    (tmp_path / "heartbeat").write_text(KUMA)
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert read_heartbeat(config, environ).get_secret_value() == HC
    assert read_heartbeat(make_world(tmp_path / "b").config(), environ).get_secret_value() == KUMA
    assert read_heartbeat(make_world(tmp_path / "c").config(), {}) is None


@pytest.mark.parametrize("content", ["", "s3cret-words of it", "s3crét-address"])
def test_bad_file_is_a_mistake_without_its_content(make_world, tmp_path, content):
    file = tmp_path / "hq.heartbeat"
    file.write_text(content)
    with pytest.raises(ConfigError, match=r"hq\.heartbeat \(notify\.heartbeat_file\): .* address into it") as caught:
        read_heartbeat(make_world(notify={"heartbeat_file": str(file)}).config(), {})
    assert "s3cr" not in str(caught.value)


def test_link_into_the_tree_is_refused(make_world, tmp_path):
    world = make_world(notify={"heartbeat_file": str(tmp_path / "link")})
    inside = world.write("photos/url", HC.encode())
    (tmp_path / "link").symlink_to(inside)
    with pytest.raises(ConfigError, match="it is inside root, through a link"):
        read_heartbeat(world.config(), {})


@pytest.mark.parametrize("shown", [HC, f"{HC}/fail", f"/{TOKEN}/start", f"GET {HC}?status=up"])
def test_address_is_redacted_whole(make_world, monkeypatch, shown):
    monkeypatch.setattr(log, "_SECRETS", log._Secrets())
    Monitor(make_world().config(), SecretStr(f"{HC}?rid=1"))
    assert TOKEN not in redact(shown)
    assert "hc.example.com" not in redact(shown)


def test_address_of_a_host_alone_hides_no_other(make_world, monkeypatch):
    monkeypatch.setattr(log, "_SECRETS", log._Secrets())
    Monitor(make_world().config(), SecretStr("https://dam.example.com/?token=s3cret"))
    assert redact("https://dam.example.com/razuna") == "https://dam.example.com/razuna"


def test_redirect_is_not_followed(make_world, sink):
    sink.answer, sink.location = 302, sink.url.replace("127.0.0.1", "localhost")
    with pytest.raises(Undelivered, match=r"^notify\.heartbeat: the answer was HTTP status 302$"):
        Monitor(make_world().config(), SecretStr(sink.url)).try_it()
    assert len(sink.requests) == 1


def test_stop_while_it_looks_sends_nothing(make_world, sink):
    clock = SystemClock()

    def look():
        clock.stop.set()
        return Vitals(lives=False, failure="the ledger is closed")

    config = make_world(notify={"heartbeat_every": "1ms", "heartbeat_style": "healthchecks"}).config()
    Monitor(config, SecretStr(sink.url)).start(look, clock)
    for thread in threading.enumerate():
        if thread.name == "heartbeat":
            thread.join(10)
    assert (clock.stop.is_set(), sink.requests) == (True, [])


def test_lack_of_threads_ends_nothing(make_world, sink, monkeypatch):
    def fails(_thread):
        raise RuntimeError("can't start new thread")

    monitor = Monitor(make_world(notify={"heartbeat_style": "healthchecks"}).config(), SecretStr(sink.url))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fails)
        with structlog.testing.capture_logs() as logs:
            monitor.start(lambda: Vitals(lives=True), SystemClock())
            monitor.begin()
    monitor.end(lives=True, failure="")
    assert [line["detail"] for line in logs] == ["can't start new thread"] * 2
    assert len(sink.requests) == 1


# ── the daemon ──

SECTIONS = {"watch": "{settle: 0s}", "schedule": "{index: off, verify: 1s}", "policy": "{verified_when: stored}"}
PATH = f"/ping/{TOKEN}"
UP, START = ("GET", PATH, ""), ("GET", f"{PATH}/start", "")


@pytest.fixture
def site(make_daemon):
    return make_daemon(**SECTIONS)


def configure(site, sink, style="healthchecks", every="300ms", path=PATH, **sections):
    file = site.folder / "heartbeat"
    file.write_text(f"http://127.0.0.1:{sink.server.server_port}{path}\n")
    notify = {"heartbeat_file": str(file), "heartbeat_every": every, "heartbeat_style": style}
    site.write_config(**{**SECTIONS, "notify": json.dumps(notify), **sections})


def run(site, *command, broken=""):
    done = call([*command, "--config", site.config], env={**os.environ, "ASSETSYNC_API_KEY": KEY}, broken=broken)
    with site.log.open("a") as file:
        file.write(done.stderr)
    return done.returncode, done.stdout


@pytest.mark.parametrize(("style", "query"), [("plain", ""), ("healthchecks", ""), ("kuma", "?status=up&msg=OK&ping=")])
def test_blocked_file_does_not_silence_it(site, sink, style, query):
    configure(site, sink, style)
    (site.photos / "empty.jpg").touch()
    site.start().until(lambda: "blocked" in site.states().values())
    sink.requests.clear()
    sink.until(lambda found: len(found) > 3)
    assert site.stop() == 0
    assert set(sink.requests) == {("GET", PATH + query, "")}


def test_stopped_or_killed_daemon_sends_nothing(site, sink):
    """A stop is no event for the monitor; nothing is sent after a kill either."""
    configure(site, sink, every="10m")
    assert site.start().stop() == 0
    assert sink.requests == []
    configure(site, sink)
    site.start()
    sink.until(lambda found: len(found) >= 1)
    site.process.kill()
    site.process.wait(10)
    # A request that left before the kill may still arrive.
    time.sleep(0.5)
    sent = len(sink.requests)
    time.sleep(1)
    assert sink.requests == [UP] * sent


def test_hanging_monitor_delays_nothing(site, sink):
    sink.awake.clear()
    configure(site, sink)
    site.start()
    sink.until(lambda found: len(found) >= 1)
    (site.photos / "a.jpg").write_bytes(b"a")
    site.until_verified(1, 20)
    began = time.monotonic()
    assert site.stop() == 0
    assert time.monotonic() - began < 5
    assert len(sink.requests) == 1, "the next one waits"


def test_failure_is_logged_once_until_it_works(site, sink):
    sink.answer = 503
    configure(site, sink)
    site.start()
    sink.until(lambda found: len(found) >= 3)
    assert len(site.events("the heartbeat cannot be sent")) == 1
    sink.answer = 200
    site.until(lambda: site.events("the heartbeat can be sent again"))
    sink.answer = 503
    site.until(lambda: len(site.events("the heartbeat cannot be sent")) == 2)
    assert len(site.events("the heartbeat can be sent again")) == 1


def test_brake_is_a_failure_without_names(site, sink):
    (site.photos / "s3cret-name.jpg").write_bytes(b"a")
    configure(site, sink, schedule="{index: off, verify: 1s, rescan: 1s}")
    site.start().until_verified(1)
    os.rename(site.photos, site.folder / "away")
    sink.until(lambda found: [path for _, path, _ in found if path == f"{PATH}/fail"])
    method, _, text = next(each for each in sink.requests if each[1].endswith("/fail"))
    assert method == "POST"
    assert re.fullmatch(r"d: uploads stopped \(a mapped folder is empty or missing: 1 file missing since .*\)", text)
    os.rename(site.folder / "away", site.photos)
    sink.requests.clear()
    sink.until(lambda found: UP in found)


def test_refused_key_is_a_failure(site, sink, daemon_sandbox):
    daemon_sandbox.set_faults(FaultRule(kind=FaultKind.KEY_REFUSED))
    configure(site, sink, "kuma")
    site.start()
    sink.until(lambda found: [path for _, path, _ in found if "status=down" in path])
    assert "refuses+the+API+key" in sink.requests[-1][1]


def test_refused_key_silences_the_plain_style(site, sink, daemon_sandbox):
    daemon_sandbox.set_faults(FaultRule(kind=FaultKind.KEY_REFUSED))
    configure(site, sink, "plain")
    site.start().until(lambda: "refuses the API key" in site.status("--json"))
    time.sleep(1.5)
    sent = len(sink.requests)
    time.sleep(1)
    assert len(sink.requests) == sent


@pytest.mark.parametrize(
    "broken",
    [
        "import assetsync.daemon.loops as module\nmodule.Pulse.late = lambda self: ['scan']",
        "import assetsync.daemon.daemon as module\nmodule.next_run = lambda *_: 0.0",
    ],
    ids=["a loop hangs", "a scan is late"],
)
def test_silence_of_a_daemon_that_does_not_work(site, sink, broken):
    configure(site, sink)
    (site.photos / "a.jpg").write_bytes(b"a")
    site.start(broken=broken).until_verified(1)
    time.sleep(1.5)
    assert sink.requests == []


def test_first_scan_has_time_after_a_long_rest(site, sink):
    configure(site, sink, schedule="{index: off, verify: 1s, rescan: 1h}")
    assert run(site, "reconcile", "--wait", "0s")[0] == 0
    with contextlib.closing(open_ledger(site.ledger, site="d")) as ledger:
        ledger.runs.record(LastScan, ledger.runs.last_scan()._replace(at=1.0))
    sink.requests.clear()
    hangs = "import time, assetsync.sync.rescan as module\nmodule.Rescan.run = lambda *_, **__: time.sleep(100)"
    site.start(broken=hangs)
    sink.until(lambda found: UP in found)


def test_unusable_ledger_at_start_is_a_failure(site, sink):
    configure(site, sink)
    broken = """
import assetsync.daemon.daemon as module
from assetsync.errors import LedgerUnwritable
def full(*_, **__): raise LedgerUnwritable("the disk is full")
module.open_ledger = full
"""
    site.start(broken=broken, ready=False)
    sink.until(lambda found: ("POST", f"{PATH}/fail", "d: the ledger cannot be used") in found)
    assert site.stop() == 0


def test_unusable_ledger_at_work_is_a_failure(site, sink):
    configure(site, sink)
    site.start(broken=SHORT_BUSY_WAIT)
    with contextlib.closing(sqlite3.connect(site.ledger)) as other:
        other.execute("BEGIN IMMEDIATE")
        (site.photos / "a.jpg").write_bytes(b"a")
        sink.until(lambda found: ("POST", f"{PATH}/fail", "d: the ledger cannot be used") in found)


def test_reload_takes_another_address(site, sink):
    configure(site, sink)
    site.start()
    sink.until(lambda found: len(found) >= 1)
    configure(site, sink, "kuma", path="/api/push/an0ther-t0ken")
    site.signal(signal.SIGHUP)
    sink.until(lambda found: ("GET", "/api/push/an0ther-t0ken?status=up&msg=OK&ping=", "") in found)
    sink.requests.clear()
    sink.until(lambda found: len(found) > 2)
    assert {urlsplit(path).path for _, path, _ in sink.requests} == {"/api/push/an0ther-t0ken"}
    (site.folder / "heartbeat").write_text("no address")
    site.signal(signal.SIGHUP)
    site.until(lambda: site.events("configuration rejected; the old one stays active"))


def test_address_is_in_no_output(site, sink, monkeypatch):
    """The heartbeat fails, so that it is logged."""
    sink.answer = 500
    configure(site, sink, status='{listen: "127.0.0.1:0"}')
    (site.photos / "a.jpg").write_bytes(b"a")
    site.start().until_verified(1)
    site.until(lambda: site.events("the heartbeat cannot be sent"))
    said = [site.status("--json"), site.status(), run(site, "check", "--notify")[1]]
    said += [run(site, *words)[1] for words in (("check", "--json", "--notify"), ("explain", "photos/a.jpg"))]
    for path in ("/", "/status.json", "/metrics", "/healthz", "/files"):
        with urllib.request.urlopen(site.address() + path) as answer:
            said.append(answer.read().decode())
    assert site.stop() == 0
    said.append(site.log.read_text("utf-8"))
    assert "notify.heartbeat: the answer was HTTP status 500" in said[2]
    assert [text for text in said if TOKEN in text or PATH in text] == []


# ── a single run ──


def outcome(site, sink, *more, broken=""):
    """Return the exit code of a run, and its requests."""
    sink.requests.clear()
    code, _ = run(site, "reconcile", "--wait", "0s", *more, broken=broken)
    return code, list(sink.requests)


def test_run_reports_its_start_and_end(site, sink):
    configure(site, sink)
    (site.photos / "a.jpg").write_bytes(b"a")
    assert outcome(site, sink) == (0, [START, UP])
    (site.photos / "empty.jpg").touch()
    assert outcome(site, sink) == (1, [START, UP])
    assert outcome(site, sink, "--dry-run") == (1, [])
    configure(site, sink, "kuma")
    assert outcome(site, sink) == (1, [("GET", f"{PATH}?status=up&msg=OK&ping=", "")])


def test_run_at_a_brake_reports_a_failure(site, sink):
    configure(site, sink)
    (site.photos / "s3cret-name.jpg").write_bytes(b"a")
    assert outcome(site, sink)[0] == 0
    (site.photos / "s3cret-name.jpg").unlink()
    code, (start, (_, path, text)) = outcome(site, sink)
    assert (code, start, path) == (1, START, f"{PATH}/fail")
    assert text.startswith("d: uploads stopped (a mapped folder is empty or missing: 1 file missing")
    configure(site, sink, "plain")
    assert outcome(site, sink) == (1, [UP])


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (FaultKind.STATUS, "the service returns no usable answer"),
        (FaultKind.KEY_REFUSED, "the service refuses the API key"),
    ],
)
def test_run_without_service_reports_a_failure(site, sink, daemon_sandbox, fault, why):
    daemon_sandbox.set_faults(FaultRule(kind=fault))
    configure(site, sink)
    (site.photos / "a.jpg").write_bytes(b"a")
    code, (start, (_, path, text)) = outcome(site, sink)
    assert (code, start, path, why in text) == (3, START, f"{PATH}/fail", True)
    configure(site, sink, "plain")
    assert outcome(site, sink) == (3, [])


@pytest.mark.parametrize(
    ("broken", "code", "begun"),
    [
        ("import assetsync.sync.rescan as module\nmodule.Rescan.run = lambda *_, **__: 1 / 0", 70, [START]),
        ("import assetsync.cli.commands.reconcile as module\nmodule._opened = lambda *_, **__: 1 / 0", 70, []),
    ],
    ids=["while it runs", "before it begins"],
)
def test_error_of_a_run_is_a_failure(site, sink, broken, code, begun):
    configure(site, sink)
    failed = ("POST", f"{PATH}/fail", "d: the run ended because of an error")
    assert outcome(site, sink, broken=broken) == (code, [*begun, failed])


def test_held_ledger_reports_nothing(site, sink):
    configure(site, sink)
    with contextlib.closing(open_ledger(site.ledger, site="d")):
        assert outcome(site, sink) == (4, [])


def test_interrupted_run_reports_no_end(site, sink):
    """Not even a brake, which a later run meets again."""
    configure(site, sink)
    (site.photos / "a.jpg").write_bytes(b"a")
    assert outcome(site, sink)[0] == 0
    (site.photos / "a.jpg").unlink()
    begun = "import os, signal, assetsync.reconcile.run as module\n"
    begun += "module.Reconciler._drive = lambda self: (os.kill(os.getpid(), signal.SIGTERM), self._clock.wait(9))"
    assert outcome(site, sink, broken=begun) == (130, [START])


def test_run_goes_on_without_the_monitor(site, sink):
    sink.answer = 404
    configure(site, sink)
    (site.photos / "a.jpg").write_bytes(b"a")
    code, out = run(site, "reconcile", "--json", "--wait", "0s")
    assert (code, json.loads(out)["in_sync"], sink.requests) == (0, True, [START, UP])
    assert len(site.events("the heartbeat cannot be sent")) == 1


@pytest.mark.parametrize(
    ("answer", "code", "says"),
    [(200, 0, "notify.heartbeat took the test message"), (404, 2, "notify.heartbeat: the answer was HTTP status 404")],
)
def test_check_tries_the_heartbeat(site, sink, answer, code, says):
    sink.answer = answer
    configure(site, sink)
    found, out = run(site, "check", "--notify")
    assert (found, says in out, sink.requests) == (code, True, [UP])
    assert run(site, "check")[0] == 0
    assert sink.requests == [UP]


def test_check_reports_an_unreadable_file(site, sink):
    configure(site, sink)
    (site.folder / "heartbeat").unlink()
    code, out = run(site, "check")
    assert (code, "heartbeat (notify.heartbeat_file): it cannot be read (No such file" in out) == (2, True)
