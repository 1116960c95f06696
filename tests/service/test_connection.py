"""How requests leave and answers are waited for, over real sockets."""

import contextlib
import select
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from assetsync.errors import ServiceError, ServiceUnreachable
from assetsync.model import Answer, SearchRequest
from assetsync.service.transport import Transport

SUCCESS = b"<Response><responsecode>0</responsecode><message>success</message><assetid>A1</assetid></Response>"


def dripping(wire_tools, gone):
    """Give a script that sends a byte of an endless head every so often, until the other side has gone."""

    def script(conn):
        wire_tools.request(conn)
        conn.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        try:
            while True:
                conn.sendall(b"x")
                time.sleep(0.05)
        except OSError:
            gone.set()

    return script


def test_dripping_upload_head_is_doubt(serve, connect, make_body, make_request, wire_tools):
    gone = threading.Event()
    client = connect(serve(dripping(wire_tools, gone)).port, read_timeout=0.4)
    sent = client.upload(make_request(), make_body(b"x"))
    assert sent.outcome.answer is Answer.DOUBT
    assert gone.wait(60), "the connection was closed"


def test_dripping_search_head_is_unreachable(serve, connect, wire_tools):
    gone = threading.Event()
    client = connect(serve(dripping(wire_tools, gone)).port, read_timeout=0.4)
    with pytest.raises(ServiceUnreachable, match="did not answer in time"), client.search(SearchRequest("x")):
        pass
    assert gone.wait(60)


CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = b"%x\r\n%s\r\n" % (len(SUCCESS), SUCCESS)


@pytest.mark.parametrize("by_proxy", [False, True], ids=["direct", "proxy"])
@pytest.mark.parametrize("asks", ["upload", "search"])
@pytest.mark.parametrize(
    ("start", "drip"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (CHUNKED, b"0"),
        (CHUNKED + b"5;", b"x"),
        (CHUNKED + CHUNK + b"0\r\n", b"X: y\r\n"),
        (CHUNKED + CHUNK + b"0\r\nX: ", b"x"),
    ],
    ids=["announcements", "a_size", "an_extension", "trailers", "a_trailer"],
)
def test_dripping_framing_is_given_up(serve, connect, make_body, make_request, wire_tools, start, drip, asks, by_proxy):
    """A service sends the framing of its answer byte by byte; the read timeout ends that as it ends silence."""
    gone = threading.Event()

    def script(conn):
        wire_tools.request(conn)
        conn.sendall(start)
        with contextlib.suppress(OSError):
            for _ in range(1000):
                conn.sendall(drip)
                time.sleep(0.02)
            return
        gone.set()

    port = serve(script).port
    client = connect(port, read_timeout=0.2, **({"proxy": f"http://127.0.0.1:{port}"} if by_proxy else {}))
    if asks == "upload":
        assert client.upload(make_request(), make_body(b"x")).outcome.answer is Answer.DOUBT
    else:
        with pytest.raises(ServiceUnreachable), client.search(SearchRequest("x")) as found:
            list(found)
    assert gone.wait(60), "the connection was closed before the service ended it"


def test_each_slice_sent_is_a_sign_of_life(serve, connect, make_body, make_request, wire_tools):
    signs = []

    def script(conn):
        wire_tools.request(conn)
        conn.sendall(wire_tools.http(SUCCESS))

    client = connect(serve(script).port, alive=lambda: signs.append(1))
    sent = client.upload(make_request(), make_body(bytes(1 << 20), chunk=1 << 20))
    assert sent.outcome.answer is Answer.ACCEPTED
    assert len(signs) > 64, "a slice has at most 16 KiB"


def test_each_wait_for_rows_is_a_sign_of_life(serve, connect, wire_tools):
    """The service sends each further part only after the sign that the client waits for it."""
    signs, has_waited = [], threading.Condition()
    answer = b'{"COLUMNS":["id","folder_id"],"DATA":[["A1","F"],["A2","F"]]}'

    def alive():
        with has_waited:
            signs.append(1)
            has_waited.notify_all()

    def script(conn):
        wire_tools.request(conn)
        *parts, last = wire_tools.http(answer, "application/json").partition(b'["A1"')
        for part in parts:
            seen = len(signs)
            conn.sendall(part)
            with has_waited:
                assert has_waited.wait_for(lambda seen=seen: len(signs) > seen, 20)
        conn.sendall(last)

    with connect(serve(script).port, alive=alive).search(SearchRequest("x")) as found:
        assert [asset.id for asset in found] == ["A1", "A2"]


def test_body_may_take_longer_than_the_head(serve, connect, wire_tools):
    rows = b",".join(b'["A%d","F"]' % number for number in range(1000))
    answer = b'{"COLUMNS":["id","folder_id"],"DATA":[' + rows + b"]}"

    def script(conn):
        wire_tools.request(conn)
        whole = wire_tools.http(answer, "application/json")
        for start in range(0, len(whole), 1000):
            conn.sendall(whole[start : start + 1000])
            time.sleep(0.1)

    with connect(serve(script).port, read_timeout=1.0).search(SearchRequest("x")) as found:
        assert len(list(found)) == 1000


def test_slow_reader_of_a_body_is_no_timeout(serve, connect, wire_tools):
    rows = b",".join(b'["A%d","F"]' % number for number in range(20_000))
    answer = wire_tools.http(b'{"COLUMNS":["id","folder_id"],"DATA":[' + rows + b"]}", "application/json")

    def script(conn):
        wire_tools.request(conn)
        conn.sendall(answer)

    count = 0
    with connect(serve(script).port, read_timeout=0.5).search(SearchRequest("x")) as found:
        for count, _row in enumerate(found, 1):
            if count in (1, 10_000):
                time.sleep(0.7)
    assert count == 20_000, "the number of rows"


def test_small_request_is_one_write(serve, connect, make_body, make_request, wire_tools):
    came = []

    def script(conn):
        came.append(conn.recv(1 << 20))
        conn.sendall(wire_tools.http(SUCCESS))

    sent = connect(serve(script).port).upload(make_request(), make_body(b"x" * 5000))
    assert sent.outcome.answer is Answer.ACCEPTED
    assert came[0].startswith(b"POST ")
    assert came[0].endswith(b"--\r\n")


def test_answer_in_other_protocol_is_rejected(serve, connect, make_body, make_request, wire_tools):
    def script(conn):
        wire_tools.request(conn)
        conn.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")

    client = connect(serve(script).port)
    assert client.upload(make_request(), make_body(b"x")).outcome.answer is Answer.DOUBT
    with pytest.raises(ServiceError), client.search(SearchRequest("x")):
        pass


def kept(assetid):
    """Give an answer to an upload after which the connection stays open."""
    body = SUCCESS.replace(b"A1", assetid)
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def test_surplus_bytes_answer_no_request(serve, connect, make_body, make_request, wire_tools):
    def script(conn):
        wire_tools.request(conn)
        conn.sendall(kept(b"A1") + kept(b"SMUGGLED"))
        conn.recv(1)

    client = connect(serve(script).port)
    ids = [client.upload(make_request(), make_body(b"x")).outcome.assetid for _ in range(2)]
    assert ids == ["A1", "A1"]


@pytest.mark.parametrize("by_proxy", [False, True], ids=["direct", "proxy"])
def test_cleanly_ended_connection_is_reused(serve, connect, make_body, make_request, wire_tools, by_proxy):
    def script(conn):
        for assetid in (b"A1", b"A2"):
            wire_tools.request(conn)
            conn.sendall(kept(assetid))

    port = serve(script).port
    client = connect(port, **({"proxy": f"http://127.0.0.1:{port}"} if by_proxy else {}))
    ids = [client.upload(make_request(), make_body(b"x")).outcome.assetid for _ in range(2)]
    assert ids == ["A1", "A2"]


def test_answer_with_two_lengths_is_not_followed(serve, connect, make_body, make_request, wire_tools):
    """httpx takes the chunks to count; another reader may have taken the length."""
    answer = CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Length: %d\r\n\r\n" % len(SUCCESS)) + CHUNK + b"0\r\n\r\n"

    def script(conn):
        while wire_tools.request(conn)[0]:
            conn.sendall(answer)

    server = serve(script)
    client = connect(9, proxy=f"http://127.0.0.1:{server.port}")
    for _ in range(2):
        assert client.upload(make_request(), make_body(b"x")).outcome.answer is Answer.ACCEPTED
    assert server.connections == 2


def test_lengthless_cut_answer_is_doubt(serve, connect, make_body, make_request, wire_tools):
    came, over = threading.Event(), threading.Event()

    def script(conn):
        wire_tools.request(conn)
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\n\r\n" + SUCCESS)
        came.set()
        over.wait(60)

    client = connect(serve(script).port, read_timeout=60.0)
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(client.upload, make_request(), make_body(b"x"))
        assert came.wait(60)
        client.close()
        outcome = sent.result(60).outcome
    over.set()
    assert (outcome.answer, outcome.reason) == (Answer.DOUBT, "no_answer")


def test_connect_during_close_sends_nothing(serve, connect, make_body, make_request, tls_server):
    """The client is closed while TLS is agreed on; the upload is reported as unsent, and no byte of it arrives."""
    connected, closed, over = threading.Event(), threading.Event(), threading.Event()
    came = []

    def script(conn):
        connected.set()
        assert closed.wait(60)
        try:
            with tls_server.context.wrap_socket(conn, server_side=True) as tls:
                came.append(tls.recv(1 << 16))
        except OSError:
            # The client may end with a reset.
            came.append(b"")
        over.set()

    client = connect(serve(script).port, scheme="https", ca_file=tls_server.ca_file)
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(client.upload, make_request(), make_body(b"x"))
        assert connected.wait(60)
        client.close()
        closed.set()
        assert sent.result(60).outcome.answer is Answer.UNSENT
    assert over.wait(60)
    assert came == [b""]


def pump(one, other):
    """Carry bytes both ways until one side ends, in one thread: two may not use a TLS connection at the same time."""
    way = {one: other, other: one}
    with contextlib.suppress(OSError):
        while True:
            for source in select.select(list(way), [], [], 10)[0]:
                data = source.recv(1 << 16)
                if not data:
                    return
                way[source].sendall(data)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_tunnel_carries_further_uploads(serve, connect, make_body, make_request, wire_tools, tls_server, scheme):
    """The tunnel stands as long as the answers leave no doubt about their ends."""

    def inner(conn):
        with tls_server.context.wrap_socket(conn, server_side=True) as tls:
            while wire_tools.request(tls)[0]:
                tls.sendall(kept(b"A1"))

    behind = serve(inner)

    def proxy(conn):
        if scheme == "https":
            conn = tls_server.context.wrap_socket(conn, server_side=True)
        with conn, socket.create_connection(("127.0.0.1", behind.port)) as onward:
            wire_tools.head(conn)
            conn.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            pump(conn, onward)

    front = serve(proxy)
    client = connect(
        behind.port, scheme="https", proxy=f"{scheme}://127.0.0.1:{front.port}", ca_file=tls_server.ca_file
    )
    for _ in range(3):
        assert client.upload(make_request(), make_body(b"x")).outcome.assetid == "A1"
    assert front.connections == 1


REFUSAL = b"<Response><responsecode>1</responsecode><message>%s</message></Response>"
EARLY = {
    "refusal": (b"200 OK", b"text/xml", REFUSAL % b"Missing 'filedata' parameter"),
    "duplicate": (b"200 OK", b"text/xml", REFUSAL % b"File already exists in Razuna"),
    "page": (b"413 Request Entity Too Large", b"text/html", b"<html>too large</html>"),
    "unknown": (b"200 OK", b"text/xml", REFUSAL % b"No"),
    "search_refusal": (b"200 OK", b"application/json", b'{"responsecode":1,"message":"No"}'),
    "search_page": (b"403 Forbidden", b"text/html", b"<html>no</html>"),
    "search_rows": (b"200 OK", b"application/json", b'{"COLUMNS":["id"],"DATA":[]}'),
}


@pytest.mark.parametrize("by_proxy", [False, True], ids=["direct", "proxy"])
@pytest.mark.parametrize("early", EARLY)
def test_early_answer_leaves_no_second_one(serve, connect, make_body, make_request, wire_tools, early, by_proxy):
    """A server answers before it reads the body, and later answers the unread body as if it were a request."""
    status, kind, body = EARLY[early]
    first = threading.Event()

    def script(conn):
        if first.is_set():
            wire_tools.request(conn)
            conn.sendall(wire_tools.http(SUCCESS))
            return
        first.set()
        wire_tools.head(conn)
        lines = b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n" % (status, kind, len(body))
        conn.sendall(lines + body)
        # The unread body is only looked at once the next request stands behind it.
        while b"/index.cfm HTTP/1.1" not in (piece := conn.recv(1 << 16)) and piece:
            pass
        if piece:
            conn.sendall(kept(b"SMUGGLED"))

    server = serve(script)
    client = connect(server.port, **({"proxy": f"http://127.0.0.1:{server.port}"} if by_proxy else {}))
    if early.startswith("search"):
        with contextlib.suppress(ServiceError), client.search(SearchRequest("x")) as found:
            list(found)
    else:
        assert client.upload(make_request(), make_body(b"x")).outcome.answer is not Answer.ACCEPTED
    assert client.upload(make_request(), make_body(b"y")).outcome.assetid == "A1"


def test_interrupted_upload_reads_no_further(connect, make_body, make_request, monkeypatch):
    """Whoever handles the interrupt holds the body by its traceback, and a thread may be reading the file ahead."""
    body = make_body(b"x" * 300_000)
    chunks = body.chunks()
    monkeypatch.setattr(body, "chunks", lambda: chunks)

    def interrupted(_transport, request):
        next(iter(request.stream))
        raise KeyboardInterrupt

    monkeypatch.setattr(Transport, "handle_request", interrupted)
    with pytest.raises(KeyboardInterrupt) as handled:
        connect(1).upload(make_request(), body)
    assert (chunks.gi_frame, handled.type) == (None, KeyboardInterrupt)
