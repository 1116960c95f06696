"""The client against real sockets: what each way of failing means, and where the key goes.

Covers `service/errors.py`, `service/redaction.py` and `service/uploads.py`.
"""

import json
import logging
import threading
import time
from urllib.parse import parse_qs

import pytest
from pydantic import SecretStr

from assetsync.errors import (
    BadAnswer,
    ConfigError,
    FileChanged,
    FileUnreadable,
    KeyRefused,
    ServiceRefused,
    ServiceUnreachable,
    UsageError,
)
from assetsync.model import AddressProbe, Answer, Fault, SearchRequest, SentExtent, UploadOptions
from assetsync.service.client import HttpService, ServiceSettings
from assetsync.sync.lookup_gates import trouble_of
from tests.scarcity import no_descriptors

BIG = bytes(range(256)) * 65536  # 16 MiB: more than the sockets between hold
LATIN = "application/json;charset=ISO-8859-1"
ROWS = b'{"COLUMNS":["id","size"],"DATA":[["A1",5],["A2",6]]}'


@pytest.fixture
def success(recorded):
    return recorded("upload-success").body


def test_successful_upload_is_accepted(serve, connect, make_body, make_request, wire_tools, success):
    """The request has a length and a boundary, no cookie and no chunks, and the key in its body alone."""
    seen = []

    def script(conn):
        seen.append(wire_tools.request(conn))
        conn.sendall(wire_tools.http(success))

    sent = connect(serve(script).port).upload(make_request(), make_body(b"hello"))
    assert (sent.outcome.answer, sent.outcome.assetid) == (Answer.ACCEPTED, "C93B9F71C23B45D0B1A03DE621A35B47")
    assert (sent.left, sent.bytes_sent, sent.md5) == (SentExtent.ALL, 5, "5D41402ABC4B2A76B9719D911017C592")
    head, body = seen[0]
    assert head.startswith(b"POST /razuna/raz1/dam/index.cfm HTTP/1.1\r\n")
    assert b"\r\nContent-Type: multipart/form-data; boundary=b0undary\r\n" in head + b"\r\n"
    assert f"Content-Length: {len(body)}".encode() in head
    assert b"chunked" not in head.lower()
    assert b"cookie" not in head.lower()
    assert wire_tools.key.encode() in body
    assert wire_tools.key.encode() not in head


def test_large_body_arrives_as_framed(serve, connect, make_body, make_request, wire_tools, success):
    seen = []

    def script(conn):
        seen.append(wire_tools.request(conn)[1])
        conn.sendall(wire_tools.http(success))

    sent = connect(serve(script).port).upload(make_request(), make_body(BIG, chunk=1 << 20))
    assert (sent.outcome.answer, sent.bytes_sent) == (Answer.ACCEPTED, len(BIG))
    assert seen[0].endswith(b"\r\n\r\n" + BIG + b"\r\n--b0undary--\r\n")


def test_a_refused_connection_is_unsent(connect, make_body, make_request, reserved_port):
    sent = connect(reserved_port).upload(make_request(), make_body(b"hello"))
    assert (sent.outcome.answer, sent.outcome.fault, sent.left) == (Answer.UNSENT, Fault.SERVICE, SentExtent.NOTHING)


def test_lack_of_descriptors_is_not_the_services(connect, make_body, make_request, reserved_port):
    service, request, body = connect(reserved_port), make_request(), make_body(b"hello")
    # What is loaded with the first request must not need a descriptor.
    service.upload(make_request(), make_body(b"hello"))
    with no_descriptors():
        sent = service.upload(request, body)
    assert (sent.outcome.answer, sent.outcome.fault, sent.outcome.reason) == (
        Answer.UNSENT, Fault.SERVICE, "out_of_resources",
    )  # fmt: skip
    with no_descriptors(), pytest.raises(ServiceUnreachable) as raised, service.search(SearchRequest("x")) as assets:
        list(assets)
    assert trouble_of(raised.value)[0] == "out_of_resources"


def test_unencodable_name_is_unsent(connect, make_body, make_request):
    service = connect(1, upload_url=f"http://{'a' * 70}.invalid/x")
    assert service.upload(make_request(), make_body(b"hello")).outcome.answer is Answer.UNSENT


def reset_at_once(conn, wire_tools):
    wire_tools.reset(conn)


def reset_after_the_head(conn, wire_tools):
    wire_tools.head(conn)
    wire_tools.reset(conn)


def reset_after_all(conn, wire_tools):
    wire_tools.request(conn)
    wire_tools.reset(conn)


def close_after_all(conn, wire_tools):
    wire_tools.request(conn)


def hang_after_all(conn, wire_tools):
    wire_tools.request(conn)
    conn.recv(1)


def cut_head(conn, wire_tools):
    wire_tools.request(conn)
    conn.sendall(b"HTTP/1.1 200 OK\r\nContent-")


def no_http(conn, wire_tools):
    wire_tools.request(conn)
    conn.sendall(b"\x00\x01\x02 hello\r\n\r\n")


def cut_answer(conn, wire_tools):
    wire_tools.request(conn)
    conn.sendall(wire_tools.http(b"<Response><responsecode>0</responsecode><assetid>A1</assetid></Response>")[:-3])


def answered(answer_of):
    def script(conn, wire_tools):
        wire_tools.request(conn)
        conn.sendall(answer_of(wire_tools))

    script.__name__ = answer_of.__name__
    return script


def html_page(wire_tools):
    return wire_tools.http(b"<html><body>Please log in</body></html>", "text/html")


def unasked_redirect(wire_tools):
    return wire_tools.http(b"", "text/html", "302 Found", "Location: http://127.0.0.1:1/?responsecode=0&assetid=A1")


def repeated_post_redirect(wire_tools):
    return wire_tools.http(b"", "text/html", "307 Temporary Redirect", "Location: /elsewhere")


def too_long(wire_tools):
    return wire_tools.http(
        b"<Response><responsecode>0</responsecode><assetid>A1</assetid></Response>" + b" " * 2_000_000
    )


def proxy_error(wire_tools):
    return wire_tools.http(b"", "text/html", "502 Bad Gateway")


@pytest.mark.parametrize(
    "script",
    [
        reset_after_all,
        close_after_all,
        hang_after_all,
        cut_head,
        no_http,
        cut_answer,
        *map(answered, (html_page, unasked_redirect, repeated_post_redirect, too_long, proxy_error)),
    ],
)
def test_bad_answer_after_full_body_is_doubt(serve, connect, make_body, make_request, wire_tools, script):
    server = serve(lambda conn: script(conn, wire_tools))
    sent = connect(server.port, read_timeout=0.5).upload(make_request(), make_body(b"hello"))
    assert (sent.outcome.answer, sent.left, sent.outcome.assetid) == (Answer.DOUBT, SentExtent.ALL, None)
    assert server.connections == 1


HEAD_500 = b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/html\r\n"


@pytest.mark.parametrize(
    ("answer", "is_answered"),
    [
        (HEAD_500 + b"Content-Length: 5\r\n\r\nsorry", True),
        (HEAD_500 + b"Content-Length: 0\r\n\r\n", False),
        (HEAD_500 + b"Content-Length: 6\r\n\r\nsorry", False),
        (HEAD_500 + b"Transfer-Encoding: chunked\r\n\r\n5\r\nsorry\r\n0\r\n\r\n", True),
        (HEAD_500 + b"Transfer-Encoding: chunked\r\n\r\n5\r\nsorry\r\n", False),
        (HEAD_500 + b"Connection: close\r\n\r\n<html>sorry</html>", True),
        (HEAD_500 + b"Connection: close\r\n\r\n<html>sorry</ht", False),
        (HEAD_500 + b"Connection: close\r\n\r\n", False),
        (HEAD_500 + b"Content-Length: 2000000\r\n\r\n" + b" " * 2_000_000, False),
    ],
)
def test_cut_error_page_is_no_answer(serve, connect, make_body, make_request, wire_tools, answer, is_answered):
    server = serve(lambda conn: (wire_tools.request(conn), conn.sendall(answer)))
    sent = connect(server.port).upload(make_request(), make_body(b"hello"))
    assert (sent.outcome.answer, sent.outcome.answered) == (Answer.DOUBT, is_answered)


def test_answer_before_the_bodys_end_is_none(serve, connect, make_body, make_request, wire_tools):
    def script(conn):
        wire_tools.head(conn)
        conn.sendall(HEAD_500 + b"Content-Length: 5\r\n\r\nsorry")
        time.sleep(0.1)

    sent = connect(serve(script).port).upload(make_request(), make_body(BIG))
    assert (sent.outcome.answer, sent.left, sent.outcome.answered) == (Answer.DOUBT, SentExtent.PART, False)


@pytest.mark.parametrize("script", [reset_at_once, reset_after_the_head])
def test_reset_amid_body_is_doubt_or_unsent(serve, connect, make_body, make_request, wire_tools, script):
    server = serve(lambda conn: script(conn, wire_tools))
    sent = connect(server.port).upload(make_request(), make_body(BIG))
    # A reset at once may come before the head is written: then nothing left, and the body knows it.
    expected = {SentExtent.NOTHING: Answer.UNSENT, SentExtent.PART: Answer.DOUBT}
    assert sent.outcome.answer is expected[sent.left]
    assert sent.bytes_sent < len(BIG)
    assert server.connections == 1


def test_stalled_service_is_doubt(serve, connect, make_body, make_request, wire_tools):
    done = threading.Event()

    def script(conn):
        wire_tools.head(conn)
        done.wait(60)

    sent = connect(serve(script).port, read_timeout=0.3).upload(make_request(), make_body(BIG))
    done.set()
    assert (sent.outcome.answer, sent.left) == (Answer.DOUBT, SentExtent.PART)


def early(name):
    """A script that answers after the head, without reading the body, and closes."""

    def make(recorded, wire_tools):
        def script(conn):
            wire_tools.head(conn)
            conn.sendall(wire_tools.http(recorded(name).body))
            time.sleep(0.1)

        return script

    return make


def test_an_early_refusal_is_believed(serve, connect, make_body, make_request, wire_tools, recorded):
    server = serve(early("upload-wrong-key")(recorded, wire_tools))
    sent = connect(server.port).upload(make_request(), make_body(BIG))
    assert (sent.outcome.answer, sent.outcome.fault, sent.left) == (Answer.REFUSED, Fault.KEY, SentExtent.PART)


def test_an_early_success_is_doubt(serve, connect, make_body, make_request, wire_tools, recorded):
    server = serve(early("upload-success")(recorded, wire_tools))
    sent = connect(server.port).upload(make_request(), make_body(BIG))
    assert (sent.outcome.answer, sent.outcome.reason, sent.left) == (Answer.DOUBT, "success_of_part", SentExtent.PART)


def test_changed_file_costs_no_connection(serve, connect, make_body, make_request):
    server = serve(lambda conn: conn.recv(1))
    sent = connect(server.port).upload(make_request(), make_body(b"hello", fail=FileChanged("it changed")))
    assert (sent.outcome.answer, sent.outcome.reason, sent.left) == (Answer.UNSENT, "changed", SentExtent.NOTHING)
    assert server.connections == 0


@pytest.mark.parametrize(
    ("error", "reason"),
    [(FileChanged("it changed"), "changed_while_sent"), (FileUnreadable("it went"), "unreadable_while_sent")],
)
def test_file_failing_while_sent_is_cut(serve, connect, make_body, make_request, wire_tools, error, reason):
    seen = []
    read = threading.Event()

    def script(conn):
        seen.append(wire_tools.request(conn))
        read.set()

    body = make_body(b"abcdefgh" * 1000, chunk=4000, fail=error, fail_after=4000)
    sent = connect(serve(script).port).upload(make_request(), body)
    assert read.wait(60)
    assert (sent.outcome.answer, sent.outcome.reason, sent.left) == (Answer.DOUBT, reason, SentExtent.PART)
    assert seen[0][1].endswith(b"application/octet-stream\r\n\r\n" + b"abcdefgh" * 500)


def test_unsendable_form_is_unsent(connect, make_body, make_request, reserved_port):
    sent = connect(reserved_port).upload(make_request(boundary='b"'), make_body(b"x"))
    assert (sent.outcome.answer, sent.outcome.reason, sent.outcome.fault) == (Answer.UNSENT, "bad_form", Fault.FILE)


def test_a_chunked_answer_is_read(serve, connect, make_body, make_request, wire_tools, success):
    def script(conn):
        wire_tools.request(conn)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nTransfer-Encoding: chunked\r\n\r\n"
        halves = (success[:100], success[100:])
        conn.sendall(head + b"".join(b"%x\r\n%s\r\n" % (len(half), half) for half in halves) + b"0\r\n\r\n")

    assert connect(serve(script).port).upload(make_request(), make_body(b"x")).outcome.answer is Answer.ACCEPTED


def test_endless_upload_answer_is_abandoned(serve, connect, make_body, make_request, wire_tools):
    sent_bytes = []

    def script(conn):
        wire_tools.request(conn)
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n\r\n")
        try:
            for _ in range(1024):
                conn.sendall(b" " * 65536)
                sent_bytes.append(65536)
        except ConnectionError:
            return

    sent = connect(serve(script).port).upload(make_request(), make_body(b"x"))
    assert (sent.outcome.answer, sent.outcome.reason) == (Answer.DOUBT, "answer_too_long")
    assert sum(sent_bytes) < 32 * 1024 * 1024


def test_an_answer_that_trickles_is_given_up(serve, connect, make_body, make_request, wire_tools):
    def script(conn):
        wire_tools.request(conn)
        conn.sendall(wire_tools.http(b"<" * 1000)[:-1000])
        for _ in range(1000):
            conn.sendall(b"<")
            time.sleep(0.05)

    began = time.monotonic()
    sent = connect(serve(script).port, read_timeout=0.4).upload(make_request(), make_body(b"x"))
    assert sent.outcome.answer is Answer.DOUBT
    assert time.monotonic() - began < 20


def test_requested_redirect_is_not_followed(serve, connect, make_body, make_request, wire_tools):
    asked = "http://127.0.0.1:1/done.html"

    def script(conn):
        wire_tools.request(conn)
        location = f"Location: {asked};jsessionid=1?responsecode=0&message=success&assetid=A1&filetype=img"
        conn.sendall(wire_tools.http(b"", "text/html", "302 Found", location))

    request = make_request(options=UploadOptions(redirectto=asked))
    outcome = connect(serve(script).port).upload(request, make_body(b"x")).outcome
    assert (outcome.answer, outcome.assetid) == (Answer.ACCEPTED, "A1")


_RETRY_AFTER = pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("30", 30.0),
        ("soon", None),
        ("Mon, 01 Jan 2001 00:00:00 GMT", 0.0),
        ("86400", 3600.0),
        ("Fri, 01 Jan 2100 00:00:00 GMT", 3600.0),
    ],
)


@_RETRY_AFTER
def test_retry_after_of_search_is_an_hour_at_most(serve, connect, wire_tools, header, seconds):
    def script(conn):
        wire_tools.request(conn)
        conn.sendall(wire_tools.http(b"", "text/plain", "503 Busy", f"Retry-After: {header}"))

    with pytest.raises(BadAnswer) as failure, connect(serve(script).port).search(SearchRequest(searchfor="a")):
        pass
    assert failure.value.retry_after == seconds


@_RETRY_AFTER
def test_retry_after_is_kept_up_to_an_hour(serve, connect, make_body, make_request, wire_tools, header, seconds):
    def script(conn):
        wire_tools.request(conn)
        conn.sendall(wire_tools.http(b"", "text/plain", "503 Busy", f"Retry-After: {header}"))

    outcome = connect(serve(script).port).upload(make_request(), make_body(b"x")).outcome
    assert (outcome.answer, outcome.retry_after) == (Answer.DOUBT, seconds)


def test_sessiontoken_upload_fills_the_url(serve, connect, make_body, make_request, wire_tools, success):
    seen = []

    def script(conn):
        seen.append(wire_tools.request(conn))
        conn.sendall(wire_tools.http(success))

    service = connect(serve(script).port, credential="sessiontoken")
    assert service.upload(make_request(), make_body(b"x")).outcome.answer is Answer.ACCEPTED
    line = seen[0][0].split(b"\r\n")[0].decode()
    assert line.startswith("POST /razuna/raz1/dam/index.cfm?fa=c.apiupload&sessiontoken=K3Y%2Bof%2Fthis%3Dtest&")
    assert b"api_key" not in seen[0][1]


def test_tls_to_plain_server_is_unsent(serve, connect, make_body, make_request):
    service = connect(serve(lambda conn: conn.sendall(b"HTTP/1.1 400 Bad\r\n\r\n")).port, scheme="https")
    assert service.upload(make_request(), make_body(b"x")).outcome.answer is Answer.UNSENT
    with pytest.raises(ServiceUnreachable, match="TLS"), service.search(SearchRequest("x")):
        pass


def test_an_untrusted_certificate_is_named(serve, connect, make_body, make_request, tls_server):

    def script(conn):
        with tls_server.context.wrap_socket(conn, server_side=True) as tls:
            tls.recv(1)

    port = serve(script).port
    with pytest.raises(ServiceUnreachable, match="ca_file"), connect(port, scheme="https").search(SearchRequest("x")):
        pass
    sent = connect(port, scheme="https").upload(make_request(), make_body(b"x"))
    assert (sent.outcome.answer, sent.left) == (Answer.UNSENT, SentExtent.NOTHING)


def test_certificate_of_named_ca_is_trusted(serve, connect, make_body, make_request, wire_tools, success, tls_server):
    def script(conn):
        with tls_server.context.wrap_socket(conn, server_side=True) as tls:
            wire_tools.request(tls)
            tls.sendall(wire_tools.http(success))

    limits = {"connect_timeout": 20.0, "read_timeout": 20.0}
    service = connect(serve(script).port, scheme="https", ca_file=tls_server.ca_file, **limits)
    assert service.upload(make_request(), make_body(BIG)).outcome.answer is Answer.ACCEPTED


# searchassets and searchIndex


def answering(wire_tools, answer, seen=None):
    def script(conn):
        request = wire_tools.request(conn)
        if seen is not None:
            seen.append(request)
        conn.sendall(answer)

    return script


def test_search_form_keeps_key_out_of_url(serve, connect, wire_tools):
    seen = []
    server = serve(answering(wire_tools, wire_tools.http(ROWS, LATIN), seen))
    with connect(server.port).search(SearchRequest("id:A1 OR id:A2", folderid="F1", dbdirect=True)) as assets:
        found = [(asset.id, asset.size) for asset in assets]
    assert found == [("A1", 5), ("A2", 6)]
    head, body = seen[0]
    assert head.startswith(b"POST /razuna/global/api2/search.cfc?method=searchassets HTTP/1.1\r\n")
    assert body == b"searchfor=id%3AA1+OR+id%3AA2&folderid=F1&dbdirect=true&api_key=K3Y%2Bof%2Fthis%3Dtest"


def _only_by_address(wire_tools, seen):
    """A service that reads the address alone, as the interface shows its requests."""

    def script(conn):
        head, _ = wire_tools.request(conn)
        seen.append(head.split(b" ")[0])
        has_key = b"api_key=K3Y" in head.split(b"\r\n")[0]
        index = b"searchIndex" in head
        good = b'{"responsecode":0,"message":"triggered"}' if index else ROWS
        bad = b'{"responsecode":1,"message":"Login not valid!"}' if index else REFUSED_ROW
        conn.sendall(wire_tools.http(good if has_key else bad, LATIN))

    return script


REFUSED_ROW = b'{"COLUMNS":["responsecode","message"],"DATA":[["1","Login not valid! Check user API Key"]]}'


def test_get_only_service_is_remembered(serve, connect, wire_tools):
    seen = []
    service = connect(serve(_only_by_address(wire_tools, seen)).port)
    for _ in range(2):
        with service.search(SearchRequest("x")) as assets:
            assert [asset.id for asset in assets] == ["A1", "A2"]
    assert service.index(["A1"]) == "triggered"
    assert seen == [b"POST", b"GET", b"GET", b"GET"]


def test_get_only_service_may_name_no_folder(serve, connect, wire_tools):
    """The first search has rows without a folder, so that another folder is asked for inside it."""
    seen = []
    service = connect(serve(_only_by_address(wire_tools, seen)).port)
    with service.search(SearchRequest("x", folderid="F1", dbdirect=True)) as assets:
        assert [asset.id for asset in assets] == ["A1", "A2"]


def test_unknown_verb_is_replaced_by_get(serve, connect, wire_tools):
    seen = []

    def script(conn):
        head, _ = wire_tools.request(conn)
        seen.append(head.split(b" ")[0])
        gone = wire_tools.http(b"", status="405 Method Not Allowed")
        conn.sendall(gone if head.startswith(b"POST") else wire_tools.http(ROWS, LATIN))

    with connect(serve(script).port).search(SearchRequest("x")) as assets:
        assert len(list(assets)) == 2
    assert seen == [b"POST", b"GET"]


def test_refusal_after_post_keeps_url_clean(serve, connect, wire_tools):
    seen = []

    def script(conn):
        head, _ = wire_tools.request(conn)
        seen.append(head.split(b" ")[0])
        conn.sendall(wire_tools.http(ROWS if len(seen) == 1 else REFUSED_ROW, LATIN))

    service = connect(serve(script).port)
    with service.search(SearchRequest("x")) as assets:
        list(assets)
    with pytest.raises(KeyRefused), service.search(SearchRequest("x")) as assets:
        list(assets)
    assert seen == [b"POST", b"POST"]


def test_rows_arrive_before_the_answer_ends(serve, connect, wire_tools):
    go_on = threading.Event()

    def script(conn):
        wire_tools.request(conn)
        conn.sendall(wire_tools.http(ROWS, LATIN)[:-9])
        go_on.wait(60)
        conn.sendall(ROWS[-9:])

    with connect(serve(script).port).search(SearchRequest("x")) as assets:
        first = next(assets).id
        go_on.set()
        assert (first, [asset.id for asset in assets]) == ("A1", ["A2"])


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((b"<html>log in</html>", "text/html"), BadAnswer),
        ((ROWS[:-4], LATIN), BadAnswer),
        ((ROWS + b"x", LATIN), BadAnswer),
        ((b"", LATIN, "302 Found", "Location: /login"), BadAnswer),
        ((ROWS, LATIN, "500 Oops"), BadAnswer),
        ((b'{"COLUMNS":["responsecode","message"],"DATA":[["1","Login not valid!"]]}', LATIN), KeyRefused),
        ((b'{"message":"General SQL Error","errorcode":"x"}', LATIN), ServiceRefused),
    ],
)
def test_bad_search_answer_raises_this_error(serve, connect, wire_tools, answer, error):
    server = serve(answering(wire_tools, wire_tools.http(*answer)))
    with pytest.raises(error), connect(server.port).search(SearchRequest("x")) as assets:
        list(assets)


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (reset_at_once, ServiceUnreachable),
        (reset_after_all, ServiceUnreachable),
        (close_after_all, ServiceUnreachable),
        (hang_after_all, ServiceUnreachable),
        (cut_head, ServiceUnreachable),
        (no_http, ServiceUnreachable),
        (cut_answer, BadAnswer),
    ],
)
def test_broken_connection_raises_this_error(serve, connect, wire_tools, script, error):
    server = serve(lambda conn: script(conn, wire_tools))
    service = connect(server.port, **({"read_timeout": 0.2} if script is hang_after_all else {}))
    with pytest.raises(error), service.search(SearchRequest("x")) as assets:
        list(assets)
    with pytest.raises(error):
        service.index(["A1"])


def test_search_cut_midway_is_a_bad_answer(serve, connect, wire_tools):
    server = serve(answering(wire_tools, wire_tools.http(ROWS, LATIN)[:-3]))
    with connect(server.port).search(SearchRequest("x")) as assets:
        assert next(assets).id == "A1"
        with pytest.raises(BadAnswer):
            list(assets)


def test_search_stalled_midway_is_unreachable(serve, connect, wire_tools):
    def script(conn):
        wire_tools.request(conn)
        conn.sendall(wire_tools.http(ROWS, LATIN)[:-9])
        conn.recv(1)

    with connect(serve(script).port, read_timeout=0.5).search(SearchRequest("x")) as assets:
        assert next(assets).id == "A1"
        with pytest.raises(ServiceUnreachable):
            list(assets)


def test_search_waits_no_longer_than_its_patience(serve, connect, wire_tools):
    service = connect(serve(lambda conn: hang_after_all(conn, wire_tools)).port, read_timeout=600.0)
    began = time.monotonic()
    with pytest.raises(ServiceUnreachable), service.search(SearchRequest("x", patience=0.3)) as assets:
        list(assets)
    assert time.monotonic() - began < 60


def test_caller_errors_pass_unchanged(serve, connect, wire_tools):
    server = serve(answering(wire_tools, wire_tools.http(ROWS, LATIN)))
    with pytest.raises(OSError, match="disk"), connect(server.port).search(SearchRequest("x")):
        raise OSError("disk full")


def test_wrong_parameters_send_no_request(connect, reserved_port):
    service = connect(reserved_port)
    with pytest.raises(UsageError, match="doctype"), service.search(SearchRequest("x", doctype="pdf")):
        pass
    with pytest.raises(UsageError, match="not an asset id"):
        service.index(["A1,B2"])
    with pytest.raises(UsageError, match="no ids"):
        service.index([])


@pytest.mark.parametrize(
    ("wire", "switches"),
    [
        ("row", b""),
        ("column", b"&BDQUERYFORMAT=column&__BDQUERYFORMAT=column"),
        ("jsonp", b"&BDRETURNFORMAT=jsonp&__BDRETURNFORMAT=jsonp&callback=cb"),
        ("wddx", b"&__BDRETURNFORMAT=wddx"),
    ],
)
def test_raw_search_returns_its_form_as_bytes(serve, connect, wire_tools, wire, switches):
    seen = []
    server = serve(answering(wire_tools, wire_tools.http(b"\n raw \xff", LATIN), seen))
    body = connect(server.port).search_raw(SearchRequest("x"), wire)
    assert body == b"\n raw \xff"
    assert seen[0][0].split(b" ")[1] == b"/razuna/global/api2/search.cfc?method=searchassets" + switches


def test_index_posts_ids_and_returns_message(serve, connect, wire_tools, recorded):
    seen = []
    server = serve(answering(wire_tools, wire_tools.http(recorded("index-one").body, LATIN), seen))
    assert connect(server.port).index(["A1", "B2"]) == "Indexing successfully triggered"
    assert seen[0][0].split(b" ")[1].endswith(b"?method=searchIndex")
    assert seen[0][1].startswith(b"assetid=A1%2CB2&api_key=")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"responsecode":1,"message":"Login not valid!"}', KeyRefused),
        (b'{"responsecode":3,"message":"busy"}', ServiceRefused),
        (b"<html></html>", BadAnswer),
        (b"{" + b" " * 2_000_000 + b"}", BadAnswer),
    ],
)
def test_bad_index_answer_raises_this_error(serve, connect, wire_tools, body, error):
    server = serve(answering(wire_tools, wire_tools.http(body, LATIN)))
    with pytest.raises(error):
        connect(server.port).index(["A1"])


# The key


def all_texts(exc):
    texts = []
    while exc is not None:
        texts += [str(exc), repr(exc)]
        exc = exc.__cause__ or exc.__context__
    return " ".join(texts)


def test_errors_omit_a_quoted_key(serve, connect, wire_tools, reserved_port):
    quoted = json.dumps({"message": f"bad key {wire_tools.key}", "errorcode": "1"}).encode()
    port = serve(answering(wire_tools, wire_tools.http(quoted, LATIN))).port
    for service in (connect(port), connect(reserved_port)):
        with (
            pytest.raises((ServiceRefused, ServiceUnreachable)) as caught,
            service.search(SearchRequest("x")) as assets,
        ):
            list(assets)
        assert wire_tools.key not in all_texts(caught.value)
        with pytest.raises((ServiceRefused, ServiceUnreachable)) as caught:
            service.index(["A1"])
        assert wire_tools.key not in all_texts(caught.value)


def test_outcomes_omit_a_quoted_key(serve, connect, make_body, make_request, wire_tools):
    body = f"<Response><responsecode>1</responsecode><message>odd {wire_tools.key}</message></Response>".encode()
    port = serve(answering(wire_tools, wire_tools.http(body))).port
    sent = connect(port).upload(make_request(), make_body(b"x"))
    assert "***" in sent.outcome.message
    assert wire_tools.key not in repr(sent)


@pytest.mark.parametrize("credential", ["api_key", "sessiontoken"])
@pytest.mark.parametrize("by_proxy", [False, True])
def test_the_key_is_in_no_log_line(
    serve, connect, make_body, make_request, wire_tools, success, caplog, credential, by_proxy
):
    caplog.set_level(logging.DEBUG)
    for name in ("httpx", "httpcore"):
        # The program keeps them at WARNING: another test may have set it up.
        caplog.set_level(logging.DEBUG, logger=name)
    port = serve(answering(wire_tools, wire_tools.http(success))).port
    way = {"proxy": f"http://127.0.0.1:{port}"} if by_proxy else {}
    connect(port, credential=credential, **way).upload(make_request(), make_body(b"x"))
    # Only the engine that a proxy is reached by says anything at all.
    assert caplog.records or not by_proxy
    lines = "\n".join(record.getMessage() + repr(record.args) for record in caplog.records)
    assert wire_tools.key not in lines
    assert "K3Y" not in lines


def test_account_names_address_and_key(connect, reserved_port):
    accounts = [
        connect(port, **said).account
        for port in (reserved_port, reserved_port + 1)
        for said in ({}, {}, {"api_key": SecretStr("another key")})
    ]
    assert len(set(accounts)) == 4
    assert accounts[0] == accounts[1]
    assert all(len(bytes.fromhex(account)) == 8 for account in accounts)


def test_printed_settings_omit_the_key():
    settings = ServiceSettings("http://x/a", "http://x/b", SecretStr("K3Y"))
    assert "K3Y" not in repr(settings) + str(settings)


# Settings


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"base_url": "dam.example.com"}, "service.base_url"),
        ({"upload_url": "ftp://x/y"}, "service.upload_url"),
        ({"upload_url": "http://x:99999/y"}, "service.upload_url"),
        ({"upload_url": "http://x/a b"}, "service.upload_url"),
        ({"base_url": "http://[v1.x]/"}, "service.base_url"),
        ({"proxy": "socks5://x:1"}, "service.proxy"),
        ({"ca_file": "/no/such/file.pem"}, "service.ca_file"),
    ],
)
def test_a_setting_that_cannot_work_is_named(changes, key):
    values = {"base_url": "http://x/a", "upload_url": "http://x/b", "api_key": SecretStr("k")} | changes
    with pytest.raises(ConfigError, match=key):
        HttpService(ServiceSettings(**values))


def test_environment_proxy_is_ignored(
    serve, connect, make_body, make_request, wire_tools, success, monkeypatch, reserved_port
):
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{reserved_port}")
    monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{reserved_port}")
    port = serve(answering(wire_tools, wire_tools.http(success))).port
    assert connect(port).upload(make_request(), make_body(b"x")).outcome.answer is Answer.ACCEPTED


def test_unreachable_proxy_is_named(connect):
    service = connect(1, proxy="http://127.0.0.1:9")
    with (
        pytest.raises(ServiceUnreachable, match=r"the proxy gave no connection to .*: check service.proxy"),
        service.search(SearchRequest("x")) as assets,
    ):
        list(assets)


def test_a_named_proxy_is_used(serve, connect, make_body, make_request, wire_tools, success):
    seen = []
    proxy = serve(answering(wire_tools, wire_tools.http(success), seen))
    service = connect(1, proxy=f"http://127.0.0.1:{proxy.port}")
    assert service.upload(make_request(), make_body(b"x")).outcome.answer is Answer.ACCEPTED
    assert seen[0][0].startswith(b"POST http://127.0.0.1:1/razuna/raz1/dam/index.cfm ")


def test_answer_cookies_are_not_returned(serve, connect, make_body, make_request, wire_tools, success):
    seen = []
    cookie = wire_tools.http(success, "application/xml", "200 OK", "Set-Cookie: JSESSIONID=1; Path=/")
    service = connect(serve(answering(wire_tools, cookie, seen)).port)
    for _ in range(2):
        service.upload(make_request(), make_body(b"x"))
    assert b"JSESSIONID" not in seen[1][0]


@pytest.mark.parametrize("credential", ["api_key", "sessiontoken"])
def test_probe_posts_neither_file_nor_folder(serve, connect, wire_tools, recorded, credential):
    seen = []

    def script(conn):
        seen.append(wire_tools.request(conn))
        conn.sendall(wire_tools.http(recorded("upload-no-filedata").body))

    service = connect(serve(script).port, credential=credential)
    assert service.probe_uploads() == AddressProbe(is_right=True)
    ((head, body),) = seen
    assert head.startswith(b"POST /razuna/raz1/dam/index.cfm HTTP/1.1\r\n")
    assert b"\r\nContent-Type: application/x-www-form-urlencoded\r\n" in head + b"\r\n"
    assert parse_qs(body.decode()) == {"fa": ["c.apiupload"], credential: [wire_tools.key]}


def test_probe_follows_no_redirect(serve, connect, wire_tools):
    def script(conn):
        wire_tools.request(conn)
        conn.sendall(b"HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n")

    server = serve(script)
    assert connect(server.port).probe_uploads().is_right is False
    assert server.connections == 1


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n<html>", b"no HTTP at all\r\n"])
def test_probe_without_answer_proves_nothing(serve, connect, wire_tools, answer):
    def script(conn):
        wire_tools.request(conn)
        conn.sendall(answer)

    assert connect(serve(script).port).probe_uploads() == AddressProbe()


def test_probe_of_reserved_port_proves_nothing(connect, reserved_port):
    assert connect(reserved_port).probe_uploads() == AddressProbe()


def test_probe_shows_no_key(serve, connect, wire_tools):
    def script(conn):
        wire_tools.request(conn)
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {wire_tools.key}\r\nContent-Length: 6\r\n\r\n"
        conn.sendall(head.encode() + b"<html>")

    probe = connect(serve(script).port).probe_uploads()
    assert probe.is_right is False
    assert "'***'" in probe.detail
    assert wire_tools.key.lower() not in probe.detail.lower()
