"""The page, the metrics and the health of a real daemon, and what `status` says beside it."""

import json
import signal
import socket
import time
import urllib.error
import urllib.request
from contextlib import closing

import pytest

from assetsync.config import load_config
from assetsync.ledger.ledger import read_ledger
from assetsync.ledger.runs import LastHolder
from assetsync.sandbox import FaultKind, FaultRule, Operation
from assetsync.status.site_status import read_status

PATHS = ("/", "/status.json", "/metrics", "/healthz", "/icon.svg")
ANYWHERE = '{listen: "127.0.0.1:0"}'


@pytest.fixture
def systemd(tmp_path):
    """The socket that systemd hears a daemon by."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        channel.settimeout(20)
        yield channel


def get(address: str, path: str = "/") -> str:
    with urllib.request.urlopen(address + path, timeout=10) as answer:
        return answer.read().decode()


def test_daemon_status_is_equal_everywhere(make, systemd):
    """Compare systemd's status line, the page, its JSON, the metrics and `status` beside the daemon."""
    running = make(status=ANYWHERE).start(NOTIFY_SOCKET=systemd.getsockname())
    (running.photos / "a.jpg").write_bytes(b"a picture")
    (running.photos / "empty.jpg").write_bytes(b"")
    running.until_verified(1)

    def shows_all() -> bool:
        shown = json.loads(get(running.address(), "/status.json"))
        return shown["blocked"] == 1 and shown["page"] is not None

    running.until(shows_all)
    heard = ""
    while heard != "STATUS=1 of 2 verified, 1 needs you.":
        heard = systemd.recv(4096).decode()
    assert running.status().splitlines()[0] == "d: 1 of 2 verified, 1 needs you."
    page = get(running.address())
    assert "1 of 2 verified, 1 needs you." in page
    assert "photos/empty.jpg" in page
    beside, shown = json.loads(running.status("--json")), json.loads(get(running.address(), "/status.json"))
    daemon = shown.pop("daemon")
    for changing in ("at", "last_runs", "last_scan", "scan_age_seconds"):
        assert beside.pop(changing)
        assert shown.pop(changing)
    assert beside == shown
    assert beside["running"] is True
    assert daemon["watch"]["mode"] == "inotify"
    assert daemon["watch"]["watched"] >= daemon["watch"]["folders"] >= 1
    assert daemon["next_runs"].keys() == {"rescan", "index", "verify", "audit"}
    running.until(lambda: "verify" in json.loads(get(running.address(), "/status.json"))["last_runs"])
    metrics = get(running.address(), "/metrics")
    assert 'assetsync_uploads_total{result="accepted",site="d"} 1.0' in metrics
    assert 'assetsync_files{site="d",state="blocked"} 1.0' in metrics
    assert get(running.address(), "/healthz") == "ok\n"
    assert running.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_ended_daemon_leaves_its_last_sign_of_life(make, number):
    """From it `status` counts the two minutes that a restart may take."""
    running = make().start()
    began = time.time()
    running.signal(number)
    running.process.wait(20)
    with closing(read_ledger(running.ledger)) as ledger:
        holder = ledger.runs.recorded(LastHolder)
        now = read_status(load_config(running.config, {}).outline, ledger, holder.at + 119)
        later = read_status(load_config(running.config, {}).outline, ledger, holder.at + 121)
    assert (holder.command, abs(holder.at - began) < 20) == ("run", True)
    assert (now.not_running_since, later.not_running_since) == (None, holder.at)


def test_reload_keeps_or_moves_status_address(make, reserved_port):
    """Reload with the same address, without a page, and with the address again."""
    running = make(status=f'{{listen: "127.0.0.1:{reserved_port}"}}').start()
    for expected in (reserved_port, None, reserved_port):
        listen = "null" if expected is None else f'"127.0.0.1:{expected}"'
        reloads = len(running.events("configuration reloaded"))
        pages = len(running.events("status page"))
        running.write_config(status=f"{{listen: {listen}}}")
        running.signal(signal.SIGHUP)
        running.until(lambda before=reloads: len(running.events("configuration reloaded")) > before)
        if expected is None:
            with pytest.raises(urllib.error.URLError):
                get(f"http://127.0.0.1:{reserved_port}")
        else:
            running.until(lambda before=pages: len(running.events("status page")) > before)
            assert "assetsync" in get(f"http://127.0.0.1:{reserved_port}")
    assert not running.events("the status page cannot be shown")
    assert running.stop() == 0


def test_refused_configuration_stays_visible(make):
    """JSON, page and `status` show the mistake until a reload succeeds."""
    running = make(status=ANYWHERE).start()
    good = running.config.read_text("utf-8")

    def shown():
        return json.loads(get(running.address(), "/status.json"))["config_refused"]

    assert shown() is None
    running.config.write_text(good + "settle: wrong\n", "utf-8")
    running.signal(signal.SIGHUP)
    running.until(lambda: shown() is not None)
    assert shown().keys() == {"at", "detail", "mistake"}
    assert "settle" in shown()["mistake"]
    assert "Configuration refused" in get(running.address())
    running.config.write_text(good, "utf-8")
    line = f"configuration rejected at {shown()['at']}; the old one stays active: {shown()['mistake']}"
    assert line in running.status().splitlines()
    running.signal(signal.SIGHUP)
    running.until(lambda: len(running.events("status page")) == 2)
    assert shown() is None
    assert "configuration refused" not in running.status()
    assert running.stop() == 0


def test_taken_port_is_logged_and_tolerated(make):
    with socket.create_server(("127.0.0.1", 0)) as other:
        running = make(status=f'{{listen: "127.0.0.1:{other.getsockname()[1]}"}}').start()
        (running.photos / "a.jpg").write_bytes(b"a")
        running.until_verified(1)
        running.until(lambda: running.events("the status page cannot be shown"))
        (said,) = running.events("the status page cannot be shown")
        assert (said["level"], said["listen"]) == ("error", f"127.0.0.1:{other.getsockname()[1]}")
        assert "status.listen" in said["fix"]
        running.until(lambda: "no page: " in running.status())
        assert "Address already in use; files are mirrored all the same" in running.status()
        page = json.loads(running.status("--json"))["page"]
        assert page == {"address": None, "detail": "Address already in use"}
        assert running.stop() == 0


def test_automatic_port_is_kept(make):
    """Another program has the port at the second start, so that a new one is taken and kept.

    The address is one that no other test listens on: the daemons of tests that run beside this one count up the same
    ports, and take a port that becomes free.
    """
    host = "127.0.0.2"
    running = make(status=f'{{listen: "{host}:0"}}').start()

    def address():
        page = json.loads(running.status("--json"))["page"]
        return page and page["address"]

    running.until(address)
    first = address()
    assert get(first, "healthz") == "ok\n"
    assert f"page: {first}" in running.status()
    assert (running.stop(), address()) == (0, None)
    with socket.create_server((host, int(first.rpartition(":")[2].strip("/")))):
        running.start()
        running.until(address)
        second = address()
        running.stop()
    assert second != first
    running.start()
    running.until(address)
    assert (address(), running.stop()) == (second, 0)


def test_automatic_port_is_not_one_that_was_named(make, reserved_port):
    """The site got the port of another one, which was being restarted, and its `listen` was corrected to auto."""
    running = make(status=f'{{listen: "127.0.0.1:{reserved_port}"}}').start()
    running.until(lambda: f"page: http://127.0.0.1:{reserved_port}/" in running.status())
    running.write_config(status="{listen: auto}")
    running.signal(signal.SIGHUP)
    running.until(lambda: "page: http" in running.status() and f":{reserved_port}/" not in running.status())
    assert running.stop() == 0


def test_outage_shows_in_every_output(make, sandbox):
    sandbox.set_faults(FaultRule(kind=FaultKind.STATUS), FaultRule(kind=FaultKind.STATUS, operation=Operation.SEARCH))
    running = make(status=ANYWHERE).start()
    (running.photos / "a.jpg").write_bytes(b"a")
    running.until(lambda: "Paused for" in running.status())
    assert "paused since" in running.status()
    running.until(lambda: "Paused for" in get(running.address()))
    assert 'assetsync_paused{reason="' in get(running.address(), "/metrics")
    assert get(running.address(), "/healthz") == "ok\n", "a service that is down is no illness of ours"
    sandbox.set_faults()
    running.until_verified(1, 200)
    running.until(lambda: "paused" not in running.status())
    assert running.stop() == 0


def test_settling_files_are_counted_pending(make):
    running = make(status=ANYWHERE, watch="{settle: 1h}").start()
    (running.photos / "a.jpg").write_bytes(b"a")
    running.until(lambda: running.status().startswith("d: In progress: 1 pending."))
    running.until(lambda: json.loads(get(running.address(), "/status.json"))["unsettled"] == 1)
    assert running.stop() == 0
    (running.photos / "a.jpg").unlink()
    assert running.status().startswith("d: No process is running: 1 pending."), "nobody has looked at the tree since"
    running.start()
    running.until(lambda: running.status().startswith("d: in sync: 0 files"))
    assert running.stop() == 0


def test_hanging_clients_starve_no_thread(make, systemd):
    running = make(status=ANYWHERE).start(NOTIFY_SOCKET=systemd.getsockname(), WATCHDOG_USEC="16000000")
    port = int(running.address().rpartition(":")[2])
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(30)]
    (running.photos / "a.jpg").write_bytes(b"a")
    running.until_verified(1)
    alive = 0
    # A thread that is silent for a quarter of the watchdog's time hangs: for less than the clients may be silent.
    while alive < 3:
        # Waits no longer than systemd would.
        alive += systemd.recv(4096) == b"WATCHDOG=1"
    for one in silent:
        one.close()
    assert not running.events("a loop hangs: the watchdog is not fed")
    assert running.stop() == 0


def test_key_is_absent_from_served_answers(make, sandbox):
    running = make(status=ANYWHERE).start()
    (running.photos / "a.jpg").write_bytes(b"a")
    (running.photos / "daemon.jpg").write_bytes(b"")
    running.until_verified(1)
    for path in PATHS:
        assert "daemon-key" not in get(running.address(), path)
    assert running.stop() == 0
