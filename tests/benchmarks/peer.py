"""A thin service for measuring clients: `python tests/benchmarks/peer.py [--assets N]`.

One thread over epoll in a process of its own: takes uploads, answers each with a fresh id and forgets the bytes;
answers searches from what was uploaded, or from N assets made up beforehand, without paging. It checks nothing. Uploads
of any size are taken, and their first bytes timed; where many small ones are measured, `sink.py` takes them. Prints its
port, then runs until its standard input is closed.
"""

import argparse
import hashlib
import json
import re
import selectors
import socket
import sys
import time
from urllib.parse import parse_qs

_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_NAME = re.compile(rb'filename="([^"]*)"')
_BOUNDARY = re.compile(rb"boundary=([^\r\n;]+)")
_FOLDER = re.compile(rb'name="destfolderid"\r\n(?:[^\r\n]+\r\n)*\r\n([^\r]*)\r\n')
_IDS = re.compile(r"id:([A-Za-z0-9-]+)")
_COLUMNS = [
    *("id", "filename", "folder_id", "folder_name", "extension", "video_image", "filename_org", "kind"),
    *("extension_thumb", "path_to_asset", "cloud_url", "cloud_url_org", "size", "size_num", "width"),
    *("height", "isalias", "description", "keywords", "dateadd", "datechange", "expiry_date_actual"),
    *("local_url_org", "local_url_thumb", "colid", "colorspace", "xdpi", "ydpi", "unit", "md5hash"),
    *("filename_forsort", "cnt", "date_create", "date_change", "file_type", "responsecode"),
    *("totalassetscount", "calledwith"),
]
_JSON = b"application/json;charset=ISO-8859-1"
_DATE = "November, 21 2026 02:45:02"
_ARRIVALS = 10_000
_KEPT = 1 << 20
"""Longer uploads are counted and thrown away, without a digest."""

_FORM = 1 << 16
"""Bytes of a longer upload that hold the form's fields and the name of the file."""

MADE_UP_SIZE = 8192
MADE_UP_MD5 = "0123456789ABCDEF0123456789ABCDEF"


def made_up_id(number: int) -> str:
    return f"{number:032X}"


class Peer:
    def __init__(self, assets: int) -> None:
        self._made_up = assets
        self._stored: dict[str, tuple[str, str, int, str | None]] = {}
        self._selector = selectors.SelectSelector()
        self._arrivals: dict[str, float] = {}
        self._number = assets
        self._scrap = bytearray(1 << 20)
        self._searches = 0

    def serve(self, stop_fd: int) -> int:
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._selector.register(stop_fd, selectors.EVENT_READ, None)
        print(listener.getsockname()[1], flush=True)
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    return 0
                key.data(key.fileobj)

    def _accept(self, listener: socket.socket) -> None:
        sock, _ = listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector.register(sock, selectors.EVENT_READ, _Connection(self))

    def _send(self, sock: socket.socket, answer: bytes) -> None:
        try:
            sock.setblocking(True)
            sock.sendall(answer)
            sock.setblocking(False)
        except OSError:
            self.drop(sock)

    def drop(self, sock: socket.socket) -> None:
        if sock.fileno() >= 0:
            self._selector.unregister(sock)
            sock.close()

    def received(self, sock: socket.socket, request: bytes, length: int) -> None:
        """Answer one request: its head and what was kept of its body."""
        line = request[: request.index(b"\r\n")]
        if b"/global/api2/" in line:
            self._searches += 1
            self._send(sock, self._search(request.partition(_HEAD_END)[2]))
        elif line.startswith(b"GET "):
            told = self._arrivals if b"/arrivals" in line else {"searches": self._searches}
            self._send(sock, _answer(json.dumps(told).encode(), b"application/json"))
        else:
            self._uploaded(sock, request, length)

    def _uploaded(self, sock: socket.socket, request: bytes, length: int) -> None:
        now = time.monotonic()
        self._number += 1
        assetid = made_up_id(self._number)
        found = _NAME.search(request)
        if found:
            name = found[1].decode("utf-8", "replace")
            start = request.index(_HEAD_END, found.end()) + 4
            folder = _FOLDER.search(request)
            boundary = _BOUNDARY.search(request)
            size = length - start - (len(boundary[1]) + 8 if boundary else 0)
            # Of a long one the bytes were not kept, and so there is no digest.
            md5 = hashlib.md5(request[start : start + size]).hexdigest().upper() if length <= _KEPT else None
            self._stored[assetid] = (name, folder[1].decode() if folder else "", size, md5)
            if len(self._arrivals) < _ARRIVALS:
                self._arrivals[name] = now
        xml = (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<Response>\n<responsecode>0</responsecode>\n<message>success'
            f"</message>\n<assetid>{assetid}</assetid>\n<filetype>doc</filetype>\n</Response>\n"
        )
        self._send(sock, _answer(xml.encode(), b"application/xml;charset=UTF-8"))

    def _search(self, form: bytes) -> bytes:
        fields = parse_qs(form.decode())
        if "assetid" in fields:
            # A call of searchIndex, without effect: the index shows each asset by itself.
            return _answer(b'{"responsecode":0,"message":"Indexing successfully triggered"}', _JSON)
        asked = fields["searchfor"][0]
        ids = _IDS.findall(asked)
        if ids:
            rows = [row for assetid in ids if (row := self._row(assetid)) is not None]
        elif asked == "%":
            # As a live service does, which ignores the parameters for paging and for unprocessed assets there.
            return _answer(self.listing(fields.get("folderid", [""])[0]), _JSON)
        else:
            like = re.compile("".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in asked), re.IGNORECASE)
            rows = [self._row(assetid) for assetid, kept in self._stored.items() if like.fullmatch(kept[0])]
        return _answer(_shown(rows), _JSON)

    def listing(self, folder: str) -> bytes:
        made_up = [self._row(made_up_id(number)) for number in range(1, self._made_up + 1)]
        return _shown(made_up + [self._row(i) for i, kept in self._stored.items() if kept[1] == folder])

    def _row(self, assetid: str) -> list[object] | None:
        kept = self._stored.get(assetid)
        if kept is None:
            number = int(assetid, 16)
            if not 1 <= number <= self._made_up:
                return None
            kept = (f"f{number:07}.bin", "F", MADE_UP_SIZE, MADE_UP_MD5)
        name, folder, size, md5 = kept
        path = f"{folder}/doc/{assetid}"
        url = f"http://127.0.0.1:18080//razuna/assets/1/{path}/{name}"
        return [
            *(assetid, name, folder, "Sync", "bin", "dummy", name, "doc", "bin", path, None, None, str(size), size),
            *(0, 0, "0", None, None, _DATE, _DATE, None, url, "0", None, "", "", "", "", md5, name, "1", _DATE, _DATE),
            *("", 0, 1, assetid),
        ]


class _Connection:
    """What has come of a request on one connection, as the call that takes more of it."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._kept = b""
        self._needed = 0
        self._length = 0

    def __call__(self, sock: socket.socket) -> None:
        if self._needed > _KEPT:
            try:
                got = sock.recv_into(self._peer._scrap, min(len(self._peer._scrap), self._needed))
            except OSError:
                got = 0
            self._needed -= got
            if len(self._kept) < _FORM:
                # The form may come after the head, in a piece of its own.
                self._kept += self._peer._scrap[:got]
        else:
            try:
                piece = sock.recv(1 << 18)
            except OSError:
                piece = b""
            got = len(piece)
            if self._needed:
                self._needed -= got
                if self._length <= _KEPT:
                    self._kept += piece
            else:
                self._begin(sock, self._kept + piece)
        if not got:
            self._peer.drop(sock)
        elif self._length and self._needed <= 0:
            request, length = self._kept, self._length
            self._kept, self._length, self._needed = b"", 0, 0
            self._peer.received(sock, request, length)

    def _begin(self, sock: socket.socket, so_far: bytes) -> None:
        self._kept = so_far
        end = so_far.find(_HEAD_END)
        if end < 0:
            return
        head = so_far[: end + 4].lower()
        found = _LENGTH.search(head)
        body = int(found[1]) if found else 0
        self._length = end + 4 + body
        self._needed = self._length - len(so_far)
        if b"expect: 100-continue" in head and self._needed:
            sock.send(b"HTTP/1.1 100 Continue\r\n\r\n")


def _shown(rows: list) -> bytes:
    return json.dumps({"COLUMNS": _COLUMNS, "DATA": rows}, separators=(",", ":")).encode()


def _answer(body: bytes, content_type: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (content_type, len(body), body)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--assets", type=int, default=0)
    given = parser.parse_args()
    return Peer(given.assets).serve(sys.stdin.fileno())


if __name__ == "__main__":
    sys.exit(main())
