"""Signals end or reload a daemon at any moment, and nothing that hangs keeps it from ending.

Covers `daemon/systemd.py`.
"""

import json
import signal
import socket
import threading
import time
import urllib.request

import pytest

from assetsync.sandbox import FaultKind, FaultRule, Operation

_LATEST = 20
"""Seconds: the process gives its threads 9, or 45 while it is sending; a busy machine adds some."""

AT_EACH_IMPORT = """
import os, signal, sys
class Sender:
    def find_spec(self, name, *_):
        if name not in ("assetsync", "assetsync.cli") and {when}:
            os.kill(os.getpid(), signal.{number})
sys.meta_path.insert(0, Sender())
"""


def test_reload_signals_while_it_starts_are_harmless(make):
    """One arrives at each import, the first before anything slow is loaded."""
    running = make().start(broken=AT_EACH_IMPORT.format(number="SIGHUP", when=True), loaded=False)
    assert running.stop() == 0


@pytest.mark.parametrize(
    ("module", "number", "code"), [("click", "SIGTERM", 0), ("pydantic", "SIGINT", 130), ("apscheduler", "SIGTERM", 0)]
)
def test_stop_while_it_starts_ends_it(make, module, number, code):
    spoilt = AT_EACH_IMPORT.format(number=number, when=f"name == {module!r}")
    running = make().start(broken=spoilt, loaded=False, ready=False)
    assert running.process.wait(30) == code
    assert "Traceback" not in running.log.read_text("utf-8")


def _stop(running) -> None:
    running.signal(signal.SIGTERM)
    began = time.monotonic()
    assert running.process.wait(60) == 0
    assert time.monotonic() - began < _LATEST
    assert running.events("stopping")


_SOON = "import assetsync.daemon.systemd as systemd\nsystemd._LATEST = 3.0"
"""Lines of Python after which a process that hangs is ended sooner; one case waits as long as an operator does."""


@pytest.mark.parametrize(
    "spoilt",
    [
        "import assetsync.daemon.daemon as module\nmodule.open_ledger = hang",
        f"import assetsync.daemon.schedule as module\nmodule.Schedule.stop = hang\n{_SOON}",
        f"import assetsync.sync.upload.prepare as module\nmodule.Preparer.prepare = hang\n{_SOON}",
    ],
    ids=["start", "schedule", "disk"],
)
def test_stop_waits_for_nothing_that_hangs(make, spoilt):
    hang = 'import os, time\ndef hang(*_, **__):\n    os.write(2, b\'{"event": "hangs"}\\n\')\n    time.sleep(300)\n'
    running = make()
    (running.photos / "a.jpg").write_bytes(b"a")
    running.start(broken=hang + spoilt, ready="open_ledger" not in spoilt)
    if "Schedule" not in spoilt:
        running.until(lambda: running.events("hangs"))
    _stop(running)


def test_stop_cuts_a_search_that_hangs(make, sandbox):
    running = make()
    running.config.write_text(running.config.read_text("utf-8").replace("read_timeout: 5s", "read_timeout: 5m"))
    sandbox.set_faults(FaultRule(kind=FaultKind.HANG, operation=Operation.SEARCH, seconds=300))
    running.start()
    (running.photos / "a.jpg").write_bytes(b"a")
    with_search = f"{sandbox.address}/_sandbox/log"
    running.until(lambda: json.load(urllib.request.urlopen(with_search, timeout=10))["search"])
    _stop(running)
    assert running.events("stopped")


_NO_RESOLVER = """
import socket, time
resolve = socket.getaddrinfo
def hang(host, *given, **named):
    if host == "dam.example.org":
        time.sleep(300)
    return resolve(host, *given, **named)
socket.getaddrinfo = hang
"""


def test_resolver_that_hangs_is_an_outage(make, sandbox):
    """A look-up is given up after connect_timeout, and a stop waits for none."""
    running = make().start()
    running.until(lambda: running.events("scanned"))
    assert running.stop() == 0
    text = running.config.read_text("utf-8")
    text = text.replace("//127.0.0.1", "//dam.example.org").replace("service: {", "service: {allow_http: true, ")
    running.config.write_text(text)
    (running.photos / "a.jpg").write_bytes(b"a")
    running.start(broken=_NO_RESOLVER)
    running.until(lambda: running.events("sending paused"), 30)
    paused = running.events("sending paused")[0]
    assert paused["reason"] == "unreachable"
    assert "could not be resolved" in paused["detail"]
    began = time.monotonic()
    _stop(running)
    assert time.monotonic() - began < 8
    assert running.events("stopped")[1:]
    assert not running.events("a loop hangs: the watchdog is not fed", "the stop took too long")


def test_halted_process_logs_no_hang(make, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.setblocking(False)
        # A loop is late after a quarter of it.
        running = make().start(NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="4000000")
        running.until(lambda: running.events("scanned"))
        running.signal(signal.SIGSTOP)
        time.sleep(4)
        running.signal(signal.SIGCONT)
        (running.photos / "a.jpg").write_bytes(b"a")
        running.until_verified(1)
        assert running.stop() == 0
    assert not running.events("a loop hangs: the watchdog is not fed")


def test_stop_in_reload_storm_ends_with_0(make):
    """The reloads go on until the process has ended."""
    running = make().start()
    ended = threading.Event()

    def storm():
        while not ended.is_set():
            running.signal(signal.SIGHUP)
            time.sleep(0.001)

    storming = threading.Thread(target=storm)
    storming.start()
    try:
        time.sleep(1)
        running.signal(signal.SIGTERM)
        assert running.process.wait(30) == 0
    finally:
        ended.set()
        storming.join()
    assert "Traceback" not in running.log.read_text("utf-8")


def test_slow_service_is_no_hang(make, sandbox, tmp_path):
    """Each request counts as a heartbeat, for as long as its answer may take."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.setblocking(False)
        running = make().start(NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="4000000")
        running.until(lambda: running.events("scanned"))
        # A loop is late after a quarter of the watchdog's time.
        sandbox.set_faults(*(FaultRule(kind=FaultKind.LATENCY, operation=each, seconds=3.0) for each in Operation))
        (running.photos / "a.jpg").write_bytes(b"a")
        running.until_verified(1)
        assert running.stop() == 0
    assert not running.events("a loop hangs: the watchdog is not fed")
