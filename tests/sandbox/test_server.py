"""The sandbox as a server: connections, bodies, restarts and settings.

Covers `sandbox/app.py`, `sandbox/connection.py` and `sandbox/settings.py`.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from assetsync.errors import UsageError
from assetsync.sandbox import FaultKind, FaultRule, Sandbox, SandboxSettings, serve


def test_sixteen_parallel_uploads_succeed(caller):
    contents = {f"file {number}.bin": bytes([number]) * (40_000 + number) for number in range(64)}
    with ThreadPoolExecutor(16) as pool:
        ids = list(pool.map(lambda item: caller.uploaded(*item), contents.items()))
    assert len(set(ids)) == 64
    assert {asset.filename: caller.sandbox.content(asset.id) for asset in caller.sandbox.assets()} == contents


def test_uploads_and_listings_run_in_parallel(caller):
    with ThreadPoolExecutor(16) as pool:
        uploads = [pool.submit(caller.uploaded, f"{number}.txt", b"x") for number in range(48)]
        counts = [pool.submit(lambda: len(caller.names("%", dbdirect="true"))) for _ in range(16)]
        assert all(0 <= count.result() <= 48 for count in counts)
        assert len({upload.result() for upload in uploads}) == 48


def test_restarted_sandbox_keeps_its_data(make_caller, tmp_path):
    first = make_caller(data_dir=tmp_path)
    assetid = first.uploaded("kept.txt", b"kept")
    before = first.sandbox.assets()
    made = first.sandbox.create_folder("later")
    first.sandbox.stop()
    second = make_caller(data_dir=tmp_path)
    assert second.sandbox.assets() == before
    assert second.sandbox.content(assetid) == b"kept"
    assert second.names("kept") == ["kept.txt"]
    assert "success" in second.upload(destfolderid=made).text


def test_sandbox_object_restarts_on_same_port(tmp_path):
    sandbox = Sandbox(SandboxSettings(dialect="observed", data_dir=tmp_path))
    with sandbox:
        port = sandbox.port
    with sandbox:
        assert (sandbox.port, httpx.get(sandbox.address, trust_env=False).status_code) == (port, 200)


def test_uploads_open_at_stop_leave_nothing(make_caller, tmp_path, eventually):
    caller = make_caller(data_dir=tmp_path)
    body = caller.fields() + caller.file_header() + b"x" * 1000
    with caller.connect() as connection:
        connection.sendall(caller.head(len(body) + 1000) + body)
        eventually(lambda: len(list((tmp_path / "incoming").iterdir())) == 1)
        caller.sandbox.stop()
    assert make_caller(data_dir=tmp_path).sandbox.assets() == []
    assert list((tmp_path / "incoming").iterdir()) == []


def test_foreign_folder_is_refused_untouched(tmp_path):
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming" / "mine.jpg").write_bytes(b"mine")
    with pytest.raises(UsageError, match="not a sandbox's: choose"):
        Sandbox(SandboxSettings(dialect="observed", data_dir=tmp_path)).start()
    # Nor does a file of that name make it a sandbox's.
    with closing(sqlite3.connect(tmp_path / "sandbox.db")) as conn:
        conn.execute("CREATE TABLE mine (x)")
    with pytest.raises(UsageError, match="not a sandbox's: choose"):
        Sandbox(SandboxSettings(dialect="observed", data_dir=tmp_path)).start()
    (tmp_path / "sandbox.db").write_bytes(b"mine" * 500)
    with pytest.raises(UsageError, match="cannot be used for a sandbox"):
        Sandbox(SandboxSettings(dialect="observed", data_dir=tmp_path)).start()
    assert (tmp_path / "incoming" / "mine.jpg").read_bytes() == b"mine"


def test_second_sandbox_in_folder_is_refused(make_caller, tmp_path, eventually):
    caller = make_caller(data_dir=tmp_path)
    body = caller.fields() + caller.file_header() + b"x" * 100_000 + caller.closing
    with caller.connect() as connection:
        connection.sendall(caller.head(len(body)) + body[:50_000])
        eventually(lambda: len(list((tmp_path / "incoming").iterdir())) == 1)
        with pytest.raises(UsageError, match="Another sandbox uses"):
            Sandbox(SandboxSettings(dialect="observed", data_dir=tmp_path)).start()
        connection.sendall(body[50_000:])
        assert b"<responsecode>0</responsecode>" in caller.read_all(connection)
    assert [asset.size for asset in caller.sandbox.assets()] == [100_000]


@pytest.mark.parametrize(
    "settings",
    [{"data_dir": Path("/proc/nowhere")}, {"data_dir": Path("/dev/null")}, {"host": "x" * 70}],
    ids=str,
)
def test_unusable_setting_is_one_sentence(settings):
    sandbox = Sandbox(SandboxSettings(**{"dialect": "observed"} | settings))
    with pytest.raises(UsageError, match=r"^The (sandbox cannot listen|folder /\S+ cannot be used).*: choose another"):
        sandbox.start()
    sandbox.stop()


def test_missing_temporary_space_is_reported(monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/proc/nowhere")
    with pytest.raises(UsageError, match=r"no room for its data.*TMPDIR"):
        Sandbox(SandboxSettings(dialect="observed")).start()


def test_temporary_data_is_removed_at_stop(make_caller):
    caller = make_caller()
    folder = caller.sandbox._stored.incoming.parent
    assert folder.is_dir()
    caller.sandbox.stop()
    assert not folder.exists()


def test_stop_ignores_hanging_requests(caller, eventually):
    """The sandbox stops within a second, and cuts the request."""
    caller.sandbox.set_faults(FaultRule(kind=FaultKind.HANG, seconds=60))
    outcome = []

    def hang():
        try:
            caller.upload()
        except httpx.HTTPError as error:
            outcome.append(type(error).__name__)

    waiting = threading.Thread(target=hang)
    waiting.start()
    eventually(lambda: caller.http.get(f"{caller.sandbox.address}/_sandbox/log").json()["upload"] == 1)
    before = time.monotonic()
    caller.sandbox.stop()
    assert time.monotonic() - before < 30
    waiting.join(30)
    assert len(outcome) == 1


def test_connection_closes_after_each_answer(caller):
    with caller.connect() as connection:
        connection.sendall(b"GET /_sandbox/log HTTP/1.1\r\nHost: sandbox\r\n\r\n")
        assert b"connection: close\r\n" in caller.read_all(connection)


def test_connections_are_kept_when_configured(make_caller):
    caller = make_caller(keep_alive=True)
    request = b"GET /_sandbox/log HTTP/1.1\r\nHost: sandbox\r\n\r\n"
    with caller.connect() as connection:
        for _ in range(2):
            connection.sendall(request)
            answer = b""
            while not answer.endswith(b"}"):
                answer += connection.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200 OK\r\n")


def test_non_http_request_returns_bare_400(caller):
    with caller.connect() as connection:
        connection.sendall(b"this is not HTTP\r\n\r\n")
        head, _, body = caller.read_all(connection).partition(b"\r\n\r\n")
    assert (head.split(b"\r\n")[0], body) == (b"HTTP/1.1 400 Bad Request", b"")


def test_taken_port_is_one_sentence(caller):
    with pytest.raises(
        UsageError, match=f"cannot listen on 127.0.0.1:{caller.sandbox.port}: .* choose another address"
    ):
        Sandbox(SandboxSettings(dialect="observed", port=caller.sandbox.port)).start()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"dialect": "klingon"}, r"dialect\n.*'observed' or 'documented'"),
        ({"index_mode": "sometimes"}, r"index_mode\n.*'adds', 'noop' or 'wipes'"),
        ({"latency": -1}, r"latency\n.*greater than or equal to 0"),
        ({"latency": float("nan")}, r"latency\n"),
        ({"port": 99999}, r"port\n.*less than or equal to 65535"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        SandboxSettings(**{"dialect": "observed"} | settings)


def test_settings_repr_omits_the_key():
    assert "very-secret" not in repr(SandboxSettings(dialect="observed", api_key="very-secret"))


def run(code: str) -> str:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True, timeout=30
    )
    return done.stdout.strip()


def test_import_loads_no_extra_library():
    libraries = ("uvicorn", "starlette", "httpx")
    code = f"import sys, assetsync.sandbox; print([each for each in {libraries} if each in sys.modules])"
    assert run(code) == "[]"


@pytest.mark.parametrize("library", ["uvicorn", "starlette"])
def test_missing_extra_is_named_at_start(library):
    code = (
        f"import sys; sys.modules[{library!r}] = None\n"
        "from assetsync.sandbox import Sandbox, SandboxSettings\n"
        "try: Sandbox(SandboxSettings(dialect='observed')).start()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    assert run(code).startswith("UsageError The sandbox needs the library " + library)
    assert run(code).endswith("which is not installed: in a clone of assetsync: pip install '.[sandbox]'")


def test_serve_ends_at_sigterm_cleanly():
    before = signal.getsignal(signal.SIGTERM)
    statuses = []

    def started(sandbox):
        statuses.append(httpx.get(sandbox.address, trust_env=False).status_code)
        os.kill(os.getpid(), signal.SIGTERM)

    serve(SandboxSettings(dialect="observed"), started=started)
    assert statuses == [200]
    assert signal.getsignal(signal.SIGTERM) is before
