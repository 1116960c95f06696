"""The server over real sockets: who may ask, for what, and how little a bad client can do."""

import contextlib
import socket
import threading
import time

import pytest

from assetsync.config.values import Listen
from assetsync.status.board import Reply
from assetsync.status.server import _CONNECTIONS, Hosts, Server

OK = Reply(200, "text/plain", b"fine")
REQUEST = b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    ("listen", "said", "local", "expected"),
    [
        ("127.0.0.1", ["localhost"], "127.0.0.1", True),
        ("127.0.0.1", ["LocalHost:8080"], "127.0.0.1", True),
        ("127.0.0.1", ["127.0.0.1:9464"], "127.0.0.1", True),
        ("127.0.0.1", ["[::1]:9464"], "127.0.0.1", True),
        ("127.0.0.1", ["evil.example"], "127.0.0.1", False),
        ("127.0.0.1", ["localhost.evil.example"], "127.0.0.1", False),
        ("127.0.0.1", ["localhost@evil.example"], "127.0.0.1", False),
        ("127.0.0.1", [socket.gethostname()], "127.0.0.1", socket.gethostname() == "localhost"),
        ("127.0.0.1", [], "127.0.0.1", False),
        ("127.0.0.1", [""], "127.0.0.1", False),
        ("127.0.0.1", ["localhost", "evil.example"], "127.0.0.1", False),
        ("127.0.0.1", ["localhost:port"], "127.0.0.1", False),
        ("dam-mirror", ["dam-mirror:9464"], "10.0.0.5", True),
        ("0.0.0.0", [f"{socket.gethostname()}.:9464"], "10.0.0.5", True),
        ("0.0.0.0", ["10.0.0.5:9464"], "10.0.0.5", True),
        ("0.0.0.0", ["10.0.0.6:9464"], "10.0.0.5", False),
        ("::", ["10.0.0.5"], "::ffff:10.0.0.5", True),
        ("::", ["[fd00::5]:9464"], "fd00::5", True),
        ("0.0.0.0", ["evil.example"], "10.0.0.5", False),
    ],
)
def test_only_local_host_names_are_answered(listen, said, local, expected):
    assert Hosts(listen).accept(said, local) is expected


@pytest.mark.parametrize(
    ("listen", "said", "expected"),
    [
        ("0.0.0.0", "HQ.example.com:9464", True),
        ("0.0.0.0", "hq", True),
        ("0.0.0.0", "hq.evil.example", False),
        ("0.0.0.0", "other.example.com", False),
        ("127.0.0.1", "hq.example.com", False),
    ],
)
def test_public_address_answers_its_own_name(monkeypatch, listen, said, expected):
    monkeypatch.setattr(socket, "gethostname", lambda: "hq")
    monkeypatch.setattr(socket, "getfqdn", lambda: "hq.example.com")
    assert Hosts(listen).accept([said], "10.0.0.5") is expected


def test_foreign_host_is_refused_everywhere(serve, shown, ask):
    port = serve(shown.board.answers()).port
    for path in ("/", "/status.json", "/metrics", "/healthz"):
        answer = ask(port, path, host="rebound.example")
        assert (answer.status, answer.text.count("\n")) == (421, 1)
        assert "host name" in answer.text


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/?anything", "text/html; charset=utf-8"),
        ("/status.json", "application/json"),
        ("/metrics", "text/plain; version=0.0.4; charset=utf-8"),
        ("/healthz", "text/plain; charset=utf-8"),
        ("/icon.svg", "image/svg+xml"),
    ],
)
def test_every_path_has_strict_headers(serve, shown, ask, path, kind):
    answer = ask(serve(shown.board.answers()).port, path)
    assert (answer.status, answer.headers["Content-Type"]) == (200, kind)
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; ")
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    expected = {
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
        "Connection": "close",
    }
    assert expected.items() <= answer.headers.items()
    assert "Python" not in answer.headers["Server"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", "/", 405), ("PUT", "/status.json", 405), ("BREW", "/", 405), ("GET", "/favicon.ico", 404)]
    + [("GET", path, 404) for path in ("/../etc/passwd", "/status.json/", "/%00", "/metrics/../")],
)
def test_other_paths_and_methods_are_refused(serve, ask, method, path, status):
    answer = ask(serve({"/": lambda: OK, "/status.json": lambda: OK}).port, path, method=method)
    assert (answer.status, answer.text.count("\n")) == (status, 1)
    assert answer.headers.get("Allow") == ("GET, HEAD" if status == 405 else None)


def test_head_gives_the_headers_alone(serve, ask):
    port = serve({"/": lambda: OK}).port
    answer = ask(port, method="HEAD")
    assert (answer.status, answer.headers["Content-Length"], answer.body) == (200, "4", b"")


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET /<script> HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: b\r\n" * 200 + b"\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["tls", "version", "many headers", "long path", "long header", "no host"],
)
def test_malformed_request_is_not_echoed(serve, talk, data):
    port = serve({"/": lambda: OK}).port
    answer = talk(port, data)
    assert b"fine" not in answer
    assert b"script" not in answer
    assert b"aaaa" not in answer
    assert talk(port, REQUEST).endswith(b"\r\n\r\nfine")


def test_a_connection_carries_one_request(serve, talk):
    port = serve({"/": lambda: OK}).port
    twice = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n" * 2
    assert talk(port, twice).count(b"fine") == 1


BEGINNINGS = [b"", b"GET / HTTP/1.1\r\nX: y\r\n", b"GET /large HTTP/1.0\r\nHost: localhost\r\n\r\n"]


@pytest.mark.parametrize("begin", BEGINNINGS, ids=["idle", "slow", "not reading"])
def test_200_slow_clients_do_not_block(serve, talk, monkeypatch, begin):
    """No slow client is cut by time here, and a cut one may take long to go: only an eviction makes room."""
    monkeypatch.setattr("assetsync.status.server._Handler.timeout", 600)
    monkeypatch.setattr("assetsync.status.server._DEADLINE", 600)
    monkeypatch.setattr("assetsync.status.server._POLL", 10)
    large = Reply(200, "text/plain", b"large" * 2_000_000)
    port = serve({"/": lambda: OK, "/large": lambda: large}).port
    threads = threading.active_count()
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            client.sendall(begin)
        assert talk(port, REQUEST).endswith(b"fine")
        until = time.monotonic() + 15
        # A thread that is ending has already freed its connection.
        while threading.active_count() > threads + _CONNECTIONS:
            assert time.monotonic() < until, "evicted clients keep their threads"
            time.sleep(0.02)


def test_silent_client_is_cut(serve, monkeypatch):
    monkeypatch.setattr("assetsync.status.server._Handler.timeout", 0.2)
    with socket.create_connection(("127.0.0.1", serve({"/": lambda: OK}).port), timeout=15) as client:
        client.sendall(b"GET / HTTP/1.1\r\n")
        assert client.recv(1) == b""


@pytest.mark.parametrize("byte", [b"a", b"X: y\r\n"], ids=["a line", "fields"])
def test_client_that_drips_is_cut(serve, monkeypatch, byte):
    monkeypatch.setattr("assetsync.status.server._DEADLINE", 0.5)
    with socket.create_connection(("127.0.0.1", serve({"/": lambda: OK}).port), timeout=0.1) as client:
        client.sendall(b"GET / HTTP/1.1\r\n")
        until = time.monotonic() + 15
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < until:
                client.sendall(byte)
                with contextlib.suppress(TimeoutError):
                    assert client.recv(1) == b""
                    break
        assert time.monotonic() < until


def test_deadline_spares_answer_being_made(serve, monkeypatch, talk):
    monkeypatch.setattr("assetsync.status.server._DEADLINE", 0.3)

    def slow():
        time.sleep(1)
        return OK

    assert talk(serve({"/": slow}).port, REQUEST).endswith(b"fine")


def test_connections_being_answered_are_bounded(serve, talk):
    """While as many requests as may be open are being answered, another connection is closed at once."""
    release = threading.Event()
    working = threading.Semaphore(0)

    def slow():
        working.release()
        release.wait(20)
        return OK

    port = serve({"/": slow}).port
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 15)) for _ in range(_CONNECTIONS)]
        for client in crowd:
            client.sendall(REQUEST)
            assert working.acquire(timeout=10)
        with socket.create_connection(("127.0.0.1", port), timeout=15) as refused:
            assert refused.recv(1) == b""
        release.set()
        assert all(client.makefile("rb").read().endswith(b"fine") for client in crowd)
    assert talk(port, REQUEST).endswith(b"fine")


def test_failed_answer_costs_one_connection(serve, talk):
    def broken():
        raise RuntimeError("nobody foresaw this")

    port = serve({"/": lambda: OK, "/broken": broken}).port
    for _ in range(2):
        assert talk(port, b"GET /broken HTTP/1.0\r\nHost: localhost\r\n\r\n") == b""
    assert talk(port, REQUEST).endswith(b"fine")


def test_taken_address_is_bound_once_free(serve, talk, reserved_port):
    with socket.create_server(("127.0.0.1", reserved_port)):
        server = serve({"/": lambda: OK}, Listen("127.0.0.1", reserved_port), again=0.05)
        assert server.port is None
    until = time.monotonic() + 15
    while server.port is None and time.monotonic() < until:
        time.sleep(0.02)
    assert talk(reserved_port, REQUEST).endswith(b"fine")


@pytest.mark.parametrize("host", ["a" * 70, "no-such-host.invalid", "203.0.113.1"], ids=["long", "unknown", "foreign"])
def test_foreign_address_ends_no_process(serve, host):
    server = serve({"/": lambda: OK}, Listen(host, 0))
    assert server.port is None
    server.stop()


def test_unstarted_server_can_be_stopped():
    Server(Listen("127.0.0.1", 0), {}).stop()


def test_address_is_free_right_after_stop(serve, talk, reserved_port):
    listen = Listen("127.0.0.1", reserved_port)
    first = serve({"/": lambda: OK}, listen)
    silent = socket.create_connection(("127.0.0.1", reserved_port))
    for _ in range(3):
        assert talk(reserved_port, REQUEST).endswith(b"fine")
        first.stop()
        first = serve({"/": lambda: OK}, listen)
        assert first.port == reserved_port
    silent.close()


def test_hanging_answer_does_not_delay_stop(serve):
    release = threading.Event()
    begun = threading.Event()

    def hangs():
        begun.set()
        release.wait(30)
        return OK

    server = serve({"/": hangs})
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(REQUEST)
        assert begun.wait(10)
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 10
    release.set()


def test_ipv6_is_served_when_configured(serve, ask):
    if not socket.has_ipv6:
        pytest.skip("this Python knows no IPv6")
    server = serve({"/": lambda: OK}, Listen("::1", 0))
    if server.port is None:
        pytest.skip("this machine has no IPv6 loopback")
    assert ask(server.port, address="::1", host="[::1]").text == "fine"
