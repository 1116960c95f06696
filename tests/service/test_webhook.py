"""A message that is posted: what goes out, and what is taken for its delivery."""

import base64
import socket
import threading

import pytest

from assetsync.errors import BadAnswer, ConfigError, ServiceUnreachable
from assetsync.service.webhook import Webhook

BODY = b'{"text":"hq"}'


@pytest.fixture
def receive(serve):
    """Start a receiver that answers with the bytes given and keeps what it got in `seen`."""

    def start(answer=b"HTTP/1.1 204 No Content\r\n\r\n"):
        def talk(conn):
            data = b""
            while not data.endswith(BODY) and (piece := conn.recv(65536)):
                data += piece
            server.seen.append(data)
            conn.sendall(answer)

        server = serve(talk)
        server.seen = []
        return server

    return start


def test_message_is_posted_as_json(receive):
    server = receive()
    assert Webhook(f"http://127.0.0.1:{server.port}/a/b?token=x%20y").send(BODY) == 204
    head, _, body = server.seen[0].partition(b"\r\n\r\n")
    assert head.splitlines()[0] == b"POST /a/b?token=x%20y HTTP/1.1"
    lines = {line.lower() for line in head.splitlines()[1:]}
    assert {b"content-type: application/json; charset=utf-8", b"content-length: 13"} <= lines
    assert b"host: 127.0.0.1:%d" % server.port in lines
    assert body == BODY


def test_address_credentials_are_sent(receive):
    server = receive()
    Webhook(f"http://us%40er:pass@127.0.0.1:{server.port}/").send(BODY)
    head = server.seen[0].partition(b"\r\n\r\n")[0]
    assert b"Authorization: Basic " + base64.b64encode(b"us@er:pass") in head
    assert b"Host: 127.0.0.1:" in head


@pytest.mark.parametrize("status", [100, 301, 302, 307, 400, 403, 404, 429, 500, 503])
def test_any_status_but_success_is_none(receive, status):
    elsewhere = receive()
    location = f"Location: http://127.0.0.1:{elsewhere.port}/\r\n" if 300 <= status < 400 else ""
    server = receive(f"HTTP/1.1 {status} X\r\n{location}Content-Length: 0\r\n\r\n".encode())
    with pytest.raises((BadAnswer, ServiceUnreachable)):
        Webhook(f"http://127.0.0.1:{server.port}/").send(BODY)
    assert elsewhere.seen == []
    assert len(server.seen) == 1


@pytest.mark.parametrize("answer", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 2"])
def test_delivery_error_redacts_the_address(receive, answer):
    server = receive(answer)
    with pytest.raises(ServiceUnreachable) as caught:
        Webhook(f"http://user:pass@127.0.0.1:{server.port}/s3cret?t=s3cret").send(BODY)
    assert f"127.0.0.1:{server.port}" in str(caught.value)
    assert not [word for word in ("s3cret", "user", "pass") if word in str(caught.value)]


def test_the_answers_body_is_not_read(receive):
    server = receive(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\nx")
    assert Webhook(f"http://127.0.0.1:{server.port}/").send(BODY) == 200


def test_headless_webhook_answer_is_abandoned():
    """A receiver sends interim answers without end: the patience for the whole answer ends it."""
    gone = threading.Event()

    def answer(listener):
        conn, _ = listener.accept()
        with conn:
            try:
                while not gone.wait(0.05):
                    conn.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            except OSError:
                gone.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=(listener,), daemon=True)
        thread.start()
        with pytest.raises(ServiceUnreachable, match="did not answer in time"):
            Webhook(f"http://127.0.0.1:{listener.getsockname()[1]}/", patience=0.5).send(BODY)
        assert gone.wait(10), "the connection was closed"
        thread.join(10)


def test_configured_proxy_is_used(receive, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    proxy = receive()
    Webhook("http://hook.invalid/x", proxy=f"http://127.0.0.1:{proxy.port}").send(BODY)
    assert proxy.seen[0].startswith(b"POST http://hook.invalid/x HTTP/1.1")


@pytest.mark.parametrize("url", ["ftp://x/", "http://", "x", "http://[v1.x]/"])
def test_bad_address_is_refused_by_its_key(url):
    with pytest.raises(ConfigError, match=r"notify\.webhook"):
        Webhook(url)
