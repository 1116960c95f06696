"""A form is spooled, then parsed; a cut one is stored damaged, with exactly the bytes that came (observed)."""

import socket
import struct
import tracemalloc

import pytest

from .conftest import BOUNDARY

CONTENT = b"0123456789" * 30_000


def stored(caller):
    return [(caller.sandbox.content(asset.id), asset.damaged) for asset in caller.sandbox.assets()]


@pytest.mark.parametrize("came", [1, 1000, 65_536, 250_000, len(CONTENT)])
def test_closed_client_leaves_received_bytes(caller, eventually, came):
    before = caller.fields() + caller.file_header()
    with caller.connect() as connection:
        connection.sendall(caller.head(len(before) + len(CONTENT) + 100) + before + CONTENT[:came])
    eventually(lambda: stored(caller) == [(CONTENT[:came], True)])


def test_reset_client_leaves_received_bytes(caller, eventually):
    before = caller.fields() + caller.file_header()
    connection = caller.connect()
    connection.sendall(caller.head(len(before) + len(CONTENT)) + before + CONTENT[:5000])
    eventually(lambda: caller.http.get(f"{caller.sandbox.address}/_sandbox/log").json()["upload"] == 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    eventually(lambda: stored(caller) == [(CONTENT[:5000], True)])


def test_half_closed_client_receives_success(caller):
    body = caller.fields() + caller.file_header() + CONTENT[:777]
    assert b"<message>success</message>" in caller.raw(body, len(body) + 1000)
    assert stored(caller) == [(CONTENT[:777], True)]


def test_short_content_length_is_a_success(caller):
    body = caller.fields() + caller.file_header() + CONTENT[:777]
    assert b"<message>success</message>" in caller.raw(body)
    assert stored(caller) == [(CONTENT[:777], True)]


@pytest.mark.parametrize("kept", [0, 1, 2, 3, 10, 30, 41, 42])
def test_partial_closing_boundary_is_stored(caller, kept):
    body = caller.fields() + caller.file_header() + b"the file" + caller.closing[:kept]
    assert b"<message>success</message>" in caller.raw(body)
    assert stored(caller) == [(b"the file" + caller.closing[:kept], True)]


def test_missing_final_line_end_is_accepted(caller):
    body = caller.fields() + caller.file_header() + b"the file" + caller.closing.removesuffix(b"\r\n")
    assert b"<message>success</message>" in caller.raw(body)
    assert stored(caller) == [(b"the file", False)]


def test_whole_body_of_gone_client_is_kept(caller, eventually):
    body = caller.fields() + caller.file_header() + CONTENT + caller.closing
    with caller.connect() as connection:
        connection.sendall(caller.head(len(body)) + body)
    eventually(lambda: stored(caller) == [(CONTENT, False)])


@pytest.mark.parametrize(
    "end", ["in a field's value", "in a field's header", "in the file's header", "before the first byte of the file"]
)
def test_body_cut_before_file_stores_nothing(caller, end):
    body = {
        "in a field's value": caller.fields()[:-10],
        "in a field's header": caller.fields().rpartition(b"name=")[0],
        "in the file's header": caller.fields() + caller.file_header()[:-20],
        "before the first byte of the file": caller.fields() + caller.file_header(),
    }[end]
    assert b"<responsecode>1</responsecode>" in caller.raw(body)
    assert stored(caller) == []


def test_cut_body_with_wrong_key_is_dropped(caller, eventually):
    body = caller.fields(api_key="no") + caller.file_header() + CONTENT
    assert b"Login not valid" in caller.raw(body, len(body) + 10)
    assert stored(caller) == []


@pytest.mark.parametrize(("before", "after"), [('"', '"'), ("", "; charset=utf-8"), ("", ";")])
@pytest.mark.parametrize("dialect", ["observed", "documented"])
def test_hanging_boundary_stores_nothing(make_caller, dialect, before, after):
    caller = make_caller(dialect=dialect)
    body = caller.fields() + caller.file_header() + b"the file" + caller.closing
    head = caller.head(len(body)).replace(BOUNDARY.encode(), f"{before}{BOUNDARY}{after}".encode())
    with caller.connect() as connection:
        connection.sendall(head + body)
        answer = caller.read_all(connection)
    if dialect == "documented":
        assert b"<message>success</message>" in answer
    else:
        assert b"has to be a plain token" in answer
        assert stored(caller) == []
    assert not any(caller.sandbox._stored.incoming.iterdir())


@pytest.mark.parametrize("inner", ["x", "-", "\r", " \r\n", ""])
def test_near_boundary_belongs_to_the_file(caller, inner):
    content = f"before\r\n--{BOUNDARY[:-1]}\r\n--{BOUNDARY}{inner}after\n--{BOUNDARY}--".encode()
    assert b"<message>success</message>" in caller.raw(
        caller.fields() + caller.file_header() + content + caller.closing
    )
    assert stored(caller) == [(content, False)]


@pytest.mark.parametrize("end", ["complete", "cut"])
def test_large_file_is_never_in_memory(caller, eventually, end):
    size, piece = 32 * 1024 * 1024, bytes(64 * 1024)
    before, after = caller.fields() + caller.file_header(), caller.closing if end == "complete" else b""
    tracemalloc.start()
    try:
        with caller.connect() as connection:
            connection.sendall(caller.head(len(before) + size + len(caller.closing)) + before)
            for _ in range(size // len(piece)):
                connection.sendall(piece)
            connection.sendall(after)
        eventually(lambda: [(asset.size, asset.damaged) for asset in caller.sandbox.assets()] == [(size, end == "cut")])
        assert tracemalloc.get_traced_memory()[1] < size / 8
    finally:
        tracemalloc.stop()


def test_fields_of_4_mib_are_refused(caller):
    body = caller.fields(meta_location="x" * (4 * 1024 * 1024)) + caller.file_header() + b"x" + caller.closing
    assert b"the form ended too early" in caller.raw(body)
    assert stored(caller) == []
