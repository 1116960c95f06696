"""Faults of real connections between the real client and the sandbox: what the ledger and the service hold in the end.

What each fault means for one call is in tests/service/test_client.py. Here every case ends with the fault gone, and
then every file is stored once, verified, and every asset that is no file's is listed.
"""

import json
import os
import random
import shutil
import ssl
import subprocess
import time
from pathlib import Path

import httpcore
import pytest

from assetsync.cli.entry import run
from assetsync.model import State
from assetsync.service.transport import Transport

from .conftest import FOLDER

BIG = 300_000
LARGE = 12_000_000
HTML = b"<html><body><h1>Welcome to the hotel network</h1></body></html>"
SUCCESS = (
    b"<Response><responsecode>0</responsecode><message>success</message>"
    b"<assetid>%s</assetid><filetype>doc</filetype></Response>"
)


def page(status: str, body: bytes = HTML, content_type: str = "text/html", *more: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", f"Content-Length: {len(body)}", *more]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode() + body


def split(answer: bytes) -> tuple[bytes, bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return head, body


def headed(body: bytes, *lines: str) -> bytes:
    return "\r\n".join(["HTTP/1.1 200 OK", "Content-Type: text/xml;charset=UTF-8", *lines, "", ""]).encode() + body


# Faults before the service has anything.


def reset_at_once(exchange):
    exchange.reset()


def reset_in_the_body(exchange):
    exchange.body(PART)
    exchange.reset()


def closed_in_the_body(exchange):
    exchange.body(PART)


def hung_without_reading(exchange):
    time.sleep(0.8)


def read_and_forgotten(exchange):
    exchange.body()


def early_page(exchange):
    exchange.conn.sendall(page("503 Service Unavailable"))
    exchange.hang_up()


def early_page_on_an_open_connection(exchange):
    """Answer before the body is read, and later answer the unread body as if it were the next upload."""
    exchange.conn.sendall(page("503 Service Unavailable").replace(b"Connection: close\r\n", b""))
    while (piece := exchange.conn.recv(1 << 16)) and b"/index.cfm HTTP/1.1" not in piece:
        pass
    if piece:
        exchange.conn.sendall(page("200 OK", SUCCESS % (b"F" * 32), "text/xml"))


def early_success(exchange):
    exchange.conn.sendall(page("200 OK", SUCCESS % (b"F" * 32), "text/xml"))
    exchange.hang_up()


def early_success_and_gone(exchange):
    exchange.conn.sendall(page("200 OK", SUCCESS % (b"F" * 32), "text/xml"))
    exchange.body(1_000_000)


def early_page_and_gone(exchange):
    """Answer in the middle of the body, read no more of it, and reset what still comes."""
    exchange.body(PART)
    exchange.conn.sendall(page("503 Service Unavailable"))
    time.sleep(0.1)


def announced_for_ever(exchange):
    exchange.body()
    while True:
        exchange.conn.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")


def half_closed_before_the_body(exchange):
    exchange.conn.shutdown(1)
    exchange.hang_up()


def pages_instead(status: str):
    def script(exchange):
        exchange.body()
        exchange.conn.sendall(page(status))

    script.__name__ = f"page_{status[:3]}_instead"
    return script


def noise(exchange):
    exchange.body()
    exchange.conn.sendall(b"\x16\x03\x01 this is no HTTP\r\n\r\n")


def redirected(exchange):
    exchange.body()
    exchange.conn.sendall(page("302 Found", b"", "text/html", "Location: http://127.0.0.1:9/login"))


PART = 100_000
BEFORE = [
    reset_at_once,
    reset_in_the_body,
    closed_in_the_body,
    hung_without_reading,
    read_and_forgotten,
    early_page,
    early_page_on_an_open_connection,
    early_page_and_gone,
    announced_for_ever,
    half_closed_before_the_body,
    pages_instead("200 OK"),
    pages_instead("407 Proxy Authentication Required"),
    pages_instead("502 Bad Gateway"),
    noise,
    redirected,
]


# Faults after the service has stored the file.


def reset_after(exchange):
    exchange.pass_on()
    exchange.reset()


def closed_after(exchange):
    exchange.pass_on()


def hung_after(exchange):
    exchange.pass_on()
    time.sleep(0.8)


def head_cut(exchange):
    exchange.conn.sendall(exchange.pass_on()[:20])


def head_ended_without_body(exchange):
    exchange.conn.sendall(split(exchange.pass_on())[0] + b"\r\n\r\n")


def body_cut(exchange):
    _, body = split(exchange.pass_on())
    exchange.conn.sendall(headed(body[: len(body) // 2], f"Content-Length: {len(body)}"))


def body_cut_without_a_length(exchange):
    _, body = split(exchange.pass_on())
    exchange.conn.sendall(headed(body[: len(body) // 2], "Connection: close"))


def length_too_large(exchange):
    _, body = split(exchange.pass_on())
    exchange.conn.sendall(headed(body, f"Content-Length: {len(body) + 500}"))


def length_too_small(exchange):
    _, body = split(exchange.pass_on())
    exchange.conn.sendall(headed(body, f"Content-Length: {len(body) // 2}", "Connection: close"))


def chunk_cut(exchange):
    _, body = split(exchange.pass_on())
    exchange.conn.sendall(headed(b"%x\r\n%s" % (len(body), body[:40]), "Transfer-Encoding: chunked"))


def trailers_for_ever(exchange):
    _, body = split(exchange.pass_on())
    exchange.conn.sendall(headed(b"%x\r\n%s\r\n0\r\n" % (len(body), body), "Transfer-Encoding: chunked"))
    while True:
        exchange.conn.sendall(b"X-More: x\r\n")


def two_lengths(exchange):
    _, body = split(exchange.pass_on())
    exchange.conn.sendall(headed(body, f"Content-Length: {len(body)}", f"Content-Length: {len(body) // 2}"))


def length_and_chunks(exchange):
    _, body = split(exchange.pass_on())
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    exchange.conn.sendall(headed(chunks, f"Content-Length: {len(chunks)}", "Transfer-Encoding: chunked"))


def half_closed_in_the_answer(exchange):
    exchange.conn.sendall(exchange.pass_on()[:-10])
    exchange.conn.shutdown(1)
    exchange.hang_up()


def dripped(exchange):
    answer = exchange.pass_on()
    for byte in answer:
        exchange.conn.sendall(bytes([byte]))
        time.sleep(0.02)


def pages_after(status: str):
    def script(exchange):
        exchange.pass_on()
        exchange.conn.sendall(page(status))

    script.__name__ = f"page_{status[:3]}_after"
    return script


AFTER = [
    reset_after,
    closed_after,
    hung_after,
    head_cut,
    head_ended_without_body,
    body_cut,
    body_cut_without_a_length,
    length_too_large,
    length_too_small,
    chunk_cut,
    trailers_for_ever,
    two_lengths,
    length_and_chunks,
    half_closed_in_the_answer,
    dripped,
    pages_after("200 OK"),
    pages_after("407 Proxy Authentication Required"),
    pages_after("502 Bad Gateway"),
]


# What is unusual, and no fault.


def after_100_continue(exchange):
    exchange.conn.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    exchange.conn.sendall(exchange.pass_on())


def chunked(exchange):
    _, body = split(exchange.pass_on())
    pieces = b"".join(b"%x\r\n%s\r\n" % (len(body[i : i + 7]), body[i : i + 7]) for i in range(0, len(body), 7))
    exchange.conn.sendall(headed(pieces + b"0\r\n\r\n", "Transfer-Encoding: chunked"))


def chunked_with_trailers(exchange):
    _, body = split(exchange.pass_on())
    chunks = b"%x;a=b\r\n%s\r\n0\r\nX-Sum: 1\r\nX-Took: 2\r\n\r\n" % (len(body), body)
    exchange.conn.sendall(headed(chunks, "Transfer-Encoding: chunked"))


def after_many_announcements(exchange):
    exchange.conn.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" + b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 50)
    exchange.conn.sendall(b"HTTP/1.1 102 Processing\r\n\r\n" + exchange.pass_on())


def half_closed_by_the_end(exchange):
    exchange.conn.sendall(exchange.pass_on())
    exchange.conn.shutdown(1)
    exchange.hang_up()


def in_two_halves(exchange):
    answer = exchange.pass_on()
    exchange.conn.sendall(answer[:30])
    time.sleep(0.2)
    exchange.conn.sendall(answer[30:])


def kept_and_closed(exchange):
    _, body = split(exchange.pass_on())
    exchange.conn.sendall(headed(body, f"Content-Length: {len(body)}", "Connection: keep-alive"))
    time.sleep(0.01)


def read_in_drips(exchange):
    for most in range(0, exchange.length, 30_000):
        exchange.body(most)
        time.sleep(0.02)
    exchange.conn.sendall(exchange.pass_on())


UNUSUAL = [
    after_100_continue,
    after_many_announcements,
    chunked,
    chunked_with_trailers,
    half_closed_by_the_end,
    in_two_halves,
    kept_and_closed,
    read_in_drips,
]


def random_bytes(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def patience_with(fault) -> dict[str, str]:
    """Return the service's settings for a fault: a short wait, which a busy machine may exceed, only for what hangs."""
    return {"read_timeout": "500ms"} if fault in (hung_without_reading, hung_after, dripped, search_hung) else {}


def expect_sound(place, *, names=("a.bin", "b.bin")) -> None:
    """Every file is stored once and verified, and every asset that is no file's is listed."""
    assert place.states() == dict.fromkeys(names, State.VERIFIED)
    assert place.copies() == dict.fromkeys(names, 1)
    assert {orphan.assetid for orphan in place.orphans()} == place.strangers()


@pytest.mark.parametrize("fault", BEFORE, ids=lambda script: script.__name__)
def test_fault_before_storage_is_resent_once(place, make_front, fault):
    front = make_front(place, **patience_with(fault))
    place.write("a.bin", random_bytes(BIG))
    place.write("b.bin", b"small")
    front.uploads.append(fault)
    first = place.reconcile(wait=0)
    assert not first.in_sync
    assert not front.uploads
    place.point(place.sandbox.address)
    assert place.reconcile().in_sync
    expect_sound(place)


def refused_for_its_size(exchange):
    """As nginx does it: the answer comes before the body, which nobody reads."""
    exchange.conn.sendall(page("413 Request Entity Too Large"))
    exchange.body(100_000)


@pytest.mark.parametrize("size", [BIG, LARGE])
def test_refused_size_blocks_only_its_file(place, make_front, size):
    front = make_front(place)
    place.write("a.bin", random_bytes(size))
    place.write("b.bin", b"small")
    front.uploads.append(refused_for_its_size)
    report = place.reconcile()
    assert (report.blocked, report.verified, front.seen.count("upload")) == (1, 1, 2)
    said = place.command("files", "--state", "blocked", "--json")
    assert said["error"].startswith("refused by a proxy: 413")
    assert place.copies() == {"a.bin": 0, "b.bin": 1}
    place.command("retry", "a.bin")
    assert place.reconcile().in_sync
    expect_sound(place)


def test_premature_success_is_not_believed(place, make_front):
    front = make_front(place)
    place.write("a.bin", random_bytes(LARGE))
    front.uploads.append(early_success_and_gone)
    assert place.reconcile().in_sync
    assert front.seen.count("upload") == 2
    expect_sound(place, names=("a.bin",))


def test_never_shown_id_is_sent_on_request(place, make_front):
    place.grace, place.speed = "60s", 200.0
    front = make_front(place)
    # Small enough to have left before the answer was read: nothing tells that it was given too early.
    place.write("a.bin", b"small")
    front.uploads.append(early_success)
    report = place.reconcile(wait=3600)
    assert (report.blocked, front.seen.count("upload")) == (1, 1)
    said = place.command("doubt list", "--json")
    assert ("shows no such asset" in said["detail"], said["path"]) == (True, "a.bin")
    place.command("doubt resolve", "a.bin", "--absent")
    assert place.reconcile().in_sync
    expect_sound(place, names=("a.bin",))


@pytest.mark.parametrize("fault", AFTER, ids=lambda script: script.__name__)
def test_fault_after_storage_is_not_resent(place, make_front, fault):
    front = make_front(place, **patience_with(fault))
    place.write("a.bin", random_bytes(BIG))
    front.uploads.append(fault)
    place.reconcile(wait=0)
    assert front.seen.count("upload") == 1
    place.write("b.bin", b"small")
    assert place.reconcile().in_sync
    assert front.seen.count("upload") == 2
    expect_sound(place)
    assert place.orphans() == []


def test_an_upload_stored_long_after_a_504_is_found(place, make_front):
    front = make_front(place)
    place.write("a.bin", b"small")

    def gives_up(exchange) -> None:
        exchange.body()
        time.sleep(1.0)
        exchange.conn.sendall(page("504 Gateway Time-out"))
        # Twice the grace of this place by its clock.
        time.sleep(1.0)
        exchange.pass_on()

    front.uploads.append(gives_up)
    assert place.reconcile().in_sync
    assert front.seen.count("upload") == 1
    expect_sound(place, names=("a.bin",))


@pytest.mark.parametrize("way", UNUSUAL, ids=lambda script: script.__name__)
def test_an_unusual_answer_is_an_answer(place, make_front, way):
    front = make_front(place)
    place.write("a.bin", random_bytes(BIG))
    place.write("b.bin", b"small")
    front.uploads.extend([way, way])
    report = place.reconcile()
    assert (report.in_sync, report.uploaded, front.seen.count("upload")) == (True, 2, 2)
    expect_sound(place)
    with_answers = place.read()
    assert {row.id_from for row in with_answers.reports.files()} == {"answer"}
    with_answers.close()


def test_refusal_is_read_when_a_write_fails(place, make_front):
    """The service refuses in the middle of a large body and reads no more: refused, not in doubt."""
    front = make_front(place)
    place.write("a.bin", random_bytes(LARGE))
    place.write("b.bin", b"small")
    refusal = b"<Response><responsecode>1</responsecode><message>Missing 'filedata' parameter</message></Response>"

    def script(exchange):
        exchange.body(PART)
        exchange.conn.sendall(page("200 OK", refusal, "text/xml"))
        time.sleep(0.2)

    front.uploads.append(script)
    report = place.reconcile(wait=0)
    assert (report.blocked, report.in_doubt, report.uploaded) == (1, 0, 1)
    assert front.seen.count("upload") == 2
    assert place.call("retry", "a.bin").returncode == 0
    assert place.reconcile().in_sync
    expect_sound(place)


def cut_on_the_way(exchange):
    exchange.pass_on(PART)
    exchange.reset()


def test_stored_cut_is_listed_and_file_resent(place, make_front):
    front = make_front(place)
    place.write("a.bin", random_bytes(BIG))
    front.uploads.append(cut_on_the_way)
    assert place.reconcile().in_sync
    expect_sound(place, names=("a.bin",))
    assert [orphan.why for orphan in place.orphans()] == ["damaged"]


def search_page(exchange):
    exchange.body()
    exchange.conn.sendall(page("200 OK"))


def search_cut(exchange):
    answer = exchange.pass_on()
    exchange.conn.sendall(answer[: len(answer) - 40])


def search_hung(exchange):
    exchange.body()
    time.sleep(0.8)


def search_empty(exchange):
    exchange.body()
    exchange.conn.sendall(page("200 OK", b"", "application/json"))


@pytest.mark.parametrize("fault", [search_page, search_cut, search_hung, search_empty, reset_at_once])
def test_unanswered_lookups_decide_nothing(place, make_front, fault):
    front = make_front(place, **patience_with(fault))
    place.write("a.bin", random_bytes(BIG))
    assert place.reconcile().in_sync
    place.write("b.bin", b"small")
    front.uploads.append(closed_after)
    # More than a run asks for: each search that fails is repeated twice.
    front.lookups.extend([fault] * 30)
    place.reconcile(wait=0)
    assert place.states()["b.bin"] in (State.IN_DOUBT, State.QUEUED)
    front.lookups.clear()
    assert place.reconcile().in_sync
    assert front.seen.count("upload") == 2
    expect_sound(place)


# A file that is not what it was while it is sent; over 8 MiB, so that it is not read whole before.


def grows(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def shrinks(path: Path) -> None:
    os.truncate(path, LARGE // 2)


def changes(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(LARGE - 10)
        file.write(b"X" * 10)


def changes_unseen(path: Path) -> None:
    """Change without another size or time of modification."""
    before = path.stat()
    changes(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def is_replaced(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(random_bytes(LARGE, 2))
    other.replace(path)


@pytest.mark.parametrize("change", [grows, shrinks, changes, changes_unseen, is_replaced])
@pytest.mark.parametrize("stored", [False, True], ids=["then_gone", "then_stored_as_far_as_it_came"])
def test_file_changed_in_flight_is_stored_once(place, make_front, change, stored):
    """The file changes after a megabyte; what the service makes of the rest is not taken for the file."""
    front = make_front(place)
    path = place.write("a.bin", random_bytes(LARGE))

    def script(exchange):
        exchange.body(1_000_000)
        change(path)
        if stored:
            exchange.pass_on(len(exchange.body()))

    front.uploads.append(script)
    place.reconcile(wait=0)
    assert place.reconcile().in_sync
    expect_sound(place, names=("a.bin",))
    ledger = place.read()
    content = path.read_bytes()
    (row,) = ledger.reports.files()
    assert (row.size, place.sandbox.content(row.assetid)) == (len(content), content)
    ledger.close()


def test_unreadable_file_in_flight_is_sent(place, make_front):
    front = make_front(place)
    path = place.write("a.bin", random_bytes(LARGE))

    def script(exchange):
        exchange.body(1_000_000)
        path.chmod(0)
        exchange.conn.sendall(exchange.pass_on())

    front.uploads.append(script)
    assert place.reconcile().in_sync
    path.chmod(0o600)
    assert place.reconcile().in_sync
    assert front.seen.count("upload") == 1
    expect_sound(place, names=("a.bin",))


def test_vanished_file_in_flight_is_sent(place, make_front):
    """A file is deleted in the middle of its upload: the rest is read from the open descriptor."""
    front = make_front(place)
    place.write("b.bin", b"small")
    # It is stored before, because the next upload follows the script.
    place.reconcile(wait=0)
    content = random_bytes(LARGE)
    path = place.write("a.bin", content)

    def script(exchange):
        exchange.body(1_000_000)
        path.unlink()
        exchange.conn.sendall(exchange.pass_on())

    front.uploads.append(script)
    place.reconcile(wait=0)
    assert place.reconcile().in_sync
    assert place.states() == {"b.bin": State.VERIFIED}
    assert [asset.size for asset in place.sandbox.assets()].count(LARGE) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file_waits_until_readable(place):
    path = place.write("a.bin", random_bytes(BIG))
    path.chmod(0)
    assert place.reconcile(wait=0).blocked == 1
    path.chmod(0o600)
    assert place.reconcile().in_sync


# TLS, names and proxies.


def certificate(folder: Path, *, name: str = "DNS:localhost,IP:127.0.0.1", days: int = 2) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command to make a certificate")
    key, request, made = folder / "tls.key", folder / "tls.csr", folder / "tls.pem"
    more = folder / "tls.ext"
    more.write_text(f"subjectAltName={name}\n")
    ask = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=x"]
    sign = ["openssl", "x509", "-req", "-in", request, "-signkey", key, "-extfile", more, "-days", str(days)]
    for command in ([*ask, "-keyout", key, "-out", request], [*sign, "-out", made]):
        subprocess.run(command, check=True, capture_output=True)
    return key, made


def server_side(key: Path, made: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, key)
    return context


@pytest.mark.parametrize(
    ("made_as", "trusted"),
    [({}, False), ({"name": "DNS:elsewhere.example"}, True), ({"days": -1}, True)],
    ids=["self_signed", "wrong_name", "expired"],
)
def test_unsound_certificate_gets_no_request(place, make_front, tmp_path, made_as, trusted):
    key, made = certificate(tmp_path, **made_as)
    service = {"ca_file": str(made)} if trusted else {}
    front = make_front(place, tls=server_side(key, made), **service)
    place.write("a.bin")
    report = place.reconcile(wait=0)
    assert "certificate" in report.trouble
    assert (front.seen, report.in_doubt, report.pending) == ([], 0, 1)
    place.point(place.sandbox.address)
    assert place.reconcile().in_sync
    expect_sound(place, names=("a.bin",))


def test_configured_authority_is_trusted(place, make_front, tmp_path):
    key, made = certificate(tmp_path)
    front = make_front(place, tls=server_side(key, made), ca_file=str(made))
    place.write("a.bin", random_bytes(BIG))
    front.uploads.append(closed_after)
    assert place.reconcile().in_sync
    expect_sound(place, names=("a.bin",))


@pytest.mark.parametrize("by", ["plain", "rate", "proxy", "tls"])
def test_every_upload_passes_httpx(place, make_front, tmp_path, monkeypatch, by):
    """Small and large files, in a run and by hand: no request arrives that httpx did not carry."""
    if by == "tls":
        key, made = certificate(tmp_path)
        front = make_front(place, tls=server_side(key, made), ca_file=str(made))
    else:
        front = make_front(place)
    if by == "proxy":
        place.point(place.sandbox.address, proxy=f"http://127.0.0.1:{front.port}")
    if by == "rate":
        said = json.loads(place.config.read_text())
        said["upload"]["rate"] = "100MB/s"
        place.config.write_text(json.dumps(said))
    carried = []
    for name, real in (("httpx", Transport.handle_request), ("httpcore", httpcore.ConnectionPool.handle_request)):

        def handle(self, request, name=name, real=real):
            headers = request.headers.raw if name == "httpx" else request.headers
            if any(b"multipart/form-data" in value for _, value in headers):
                carried.append(name)
            return real(self, request)

        monkeypatch.setattr(Transport if name == "httpx" else httpcore.ConnectionPool, "handle_request", handle)
    place.write("a.bin", random_bytes(LARGE))
    place.write("b.bin", b"small")
    assert place.reconcile().in_sync
    by_hand = tmp_path / "c.bin"
    by_hand.write_bytes(b"by hand")
    assert run(["upload", "--config", str(place.config), "--folder", FOLDER, str(by_hand)]) == 0
    assert front.seen.count("upload") == 3
    assert sorted(carried) == ["httpcore"] * 3 + ["httpx"] * 3


@pytest.mark.parametrize(
    ("address", "more"),
    [
        ("http://127.0.0.1:9", {}),
        ("https://nowhere.invalid:443", {}),
        ("https://127.0.0.1:{port}", {}),
        ("http://127.0.0.1:{port}", {"proxy": "http://127.0.0.1:9"}),
        ("https://127.0.0.1:{port}", {"proxy": "http://127.0.0.1:{port}"}),
    ],
    ids=["refused", "name_not_known", "no_tls_there", "proxy_refused", "no_proxy_there"],
)
def test_unreachable_service_causes_no_doubt(place, address, more):
    place.write("a.bin")
    place.write("b.bin", b"small")
    port = place.sandbox.port
    place.point(address.format(port=port), **{name: value.format(port=port) for name, value in more.items()})
    report = place.reconcile(wait=0)
    assert (report.pending, report.in_doubt, report.blocked, report.uploaded) == (2, 0, 0, 0)
    place.point(place.sandbox.address)
    assert place.reconcile().in_sync
    expect_sound(place)


def test_returning_service_gets_files_once(place, make_front):
    front = make_front(place)
    place.write("a.bin", random_bytes(BIG))
    place.write("b.bin", b"small")
    front.uploads.extend([reset_in_the_body, closed_after])
    front.lookups.extend([reset_at_once, search_page, search_cut])
    assert place.reconcile().in_sync
    expect_sound(place)
