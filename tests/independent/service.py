"""A service written from the interface and from observed answers alone, with the standard library only.

It shares no line and no idea with assetsync's own sandbox: what both misread alike shows only against a second reading.
What a client does against the interface is not refused but noted in `complaints`. Faults beyond a cut connection are
left to the sandbox.
"""

import hashlib
import json
import re
import sys
import threading
import time
import uuid
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from xml.sax.saxutils import escape

from .dialect import OBSERVED, Dialect, names
from .form import read_form
from .front import Front
from .terms import like, matches

KEY = "C0FFEE00C0FFEE00C0FFEE00C0FFEE00"
BAD_KEY = (
    "Login not valid! Check user API Key and ensure with your administrator that the user has appropriate "
    "permissions for access."
)
SEARCH_FIELDS = {
    *names(
        "method api_key searchfor show doctype datecreate datechange datecreaterange datechangerange folderid sortby "
        "available startrow maxrows showrenditions dbdirect datecreateparam datecreatestart datecreatestop "
        "datechangeparam datechangestart datechangestop"
    )
}
INDEX_FIELDS = {"method", "api_key", "assetid"}
KINDS = {"jpg": "img", "png": "img", "gif": "img", "mp4": "vid", "mp3": "aud", "txt": "doc", "pdf": "doc"}


@dataclass
class Asset:
    """One stored file; `whole`: its closing boundary came. Times are those of the monotonic clock."""

    id: str
    name: str
    folder: str
    md5: str
    size: int
    kind: str
    said: dict[str, str]
    whole: bool
    processed_at: float
    indexed_at: float | None = None

    def metadata(self, *endings: str) -> str:
        """Give the metadata field with one of these endings, whatever the prefix of its kind."""
        return next((v for k, v in self.said.items() if k.startswith("meta_") and k.endswith(endings)), "")


@dataclass(frozen=True)
class Answer:
    """Status, content type and body of one answer."""

    status: int
    kind: str
    body: bytes


class Service:
    """The assets and the three operations.

    `slow`: seconds for each piece of an upload's body after its first MiB; `mute`: file names that are stored and
    answered with a page of HTML. `posts` holds the file name of each upload request that came; `midway` is set when
    one passed its first MiB.
    """

    def __init__(self, dialect: Dialect = OBSERVED, folders: tuple[str, ...] = ()) -> None:
        self.dialect, self.folders = dialect, set(folders)
        self.assets: list[Asset] = []
        self.posts: list[str] = []
        self.complaints: list[str] = []
        self.slow = 0.0
        self.mute: set[str] = set()
        self.midway = threading.Event()
        self._lock = threading.Lock()
        version = "HTTP/1.0" if dialect.connection == "http/1.0" else "HTTP/1.1"
        front = type("Front", (Front,), {"service": self, "protocol_version": version})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), front)
        self._server.daemon_threads = True
        self._server.handle_error = self._failed
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        self.base_url = f"http://127.0.0.1:{self._server.server_port}/razuna"
        self.upload_url = f"{self.base_url}/raz1/dam/index.cfm"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def complain(self, what: str) -> None:
        self.complaints.append(what)

    def _failed(self, *_: object) -> None:
        # A client that is killed resets the connections it kept; that is no mistake of either side.
        error = sys.exception()
        if not isinstance(error, ConnectionError):
            self.complain(f"the test service itself failed: {error!r}")

    def exceeds(self, length: int) -> bool:
        return self.dialect.largest is not None and length > self.dialect.largest

    # -- upload, interface section 4.3 ---------------------------------------------------------------------------------

    def form_without_file(self, said: dict[str, str]) -> Answer:
        """Refuse a form that can hold no file; it is no upload."""
        if said.get("fa") != "c.apiupload":
            self.complain(f"a form of {sorted(said)}")
        is_known = KEY in {said.get("api_key"), said.get("sessiontoken")}
        return self._xml(1, "Missing 'filedata' parameter" if is_known else BAD_KEY)

    def upload(self, content_type: str, body: bytes, *, whole: bool) -> Answer:
        form = read_form(content_type, body, whole=whole)
        self.complaints += form.complaints
        self.posts.append(form.name or "")
        folder = form.said.get("destfolderid", "")
        if self.exceeds(len(body)):
            return self.too_large()
        if KEY not in {form.said.get("api_key"), form.said.get("sessiontoken")}:
            return self._xml(1, BAD_KEY)
        if form.said.get("fa") != "c.apiupload":
            return Answer(200, "text/html;charset=ISO-8859-1", b"<html><body>Login</body></html>")
        if form.name is None:
            return self._xml(1, "Missing 'filedata' parameter")
        if folder not in self.folders:
            return self._xml(1, f"Specified folder '{folder}' does not exist")
        if not form.content:
            return self._xml(1, "Upload failed There was no appropriate FILE found in the upload")
        number, now = uuid.uuid4(), time.monotonic()
        asset = Asset(
            id={"upper": number.hex.upper(), "lower": number.hex, "dashed": str(number)}[self.dialect.ids],
            name=form.name,
            folder=folder,
            md5=hashlib.md5(form.content).hexdigest().upper(),
            size=len(form.content),
            kind=KINDS.get(form.name.rpartition(".")[2].lower(), "other"),
            said=form.said,
            whole=whole and form.closed,
            processed_at=now + self.dialect.processing,
        )
        if self.dialect.indexes_itself:
            asset.indexed_at = asset.processed_at + self.dialect.index_lag
        with self._lock:
            self.assets.append(asset)
        if form.name in self.mute:
            return Answer(
                200, "text/html;charset=ISO-8859-1", b"<h3>Oops, something really strange happened here.</h3>"
            )
        return self._xml(0, "success", asset)

    def too_large(self) -> Answer:
        return self._xml(10001, "Content exceeds the maximum content-length")

    def _xml(self, code: int, message: str, asset: Asset | None = None) -> Answer:
        element, root = self.dialect.result_element, self.dialect.root
        lines = [f"<{root}>", f"<{element}>{code}</{element}>", f"<message>{escape(message)}</message>"]
        if asset:
            lines += [f"<assetid>{asset.id}</assetid>", f"<filetype>{asset.kind}</filetype>"]
            lines += ["<comingfrom><![CDATA[]]></comingfrom>", "<renamefilebody><![CDATA[]]></renamefilebody>"]
        text = "\n".join([*lines, f"</{root}>"])
        if self.dialect.frame == "upper":
            text = re.sub(r"</?\w+>", lambda tag: tag[0].upper(), text)
        before = {"blanks": "\n\n \t\n", "bom": "\ufeff"}.get(self.dialect.frame, "")
        text = f'{before}<?xml version="1.0" encoding="UTF-8"?>\n{text}\n\n\n\n'
        return Answer(200, f"{self.dialect.types[1]};charset=UTF-8", text.encode())

    # -- searchassets and searchIndex, interface sections 4.1 and 4.2 --------------------------------------------------

    def operate(self, said: dict[str, str]) -> Answer:
        method = said.get("method", "").lower()
        if method == "searchassets":
            return self._search(said)
        if method == "searchindex":
            return self._index(said)
        return Answer(500, "text/html;charset=ISO-8859-1", b"\n<html><title>RunTime Error</title></html>\n")

    def _search(self, said: dict[str, str]) -> Answer:
        self.complaints += [f"search parameter {key!r}" for key in said.keys() - SEARCH_FIELDS]
        if said.get("api_key") != KEY:
            return self._recordset(["responsecode", "message"], [["1", BAD_KEY]])
        if "searchfor" not in said:
            what = "Value not provided for required argument SEARCHFOR of function searchassets()"
            return self._text(json.dumps({"message": what, "errorcode": "errorCode.runtimeError", "detail": ""}))
        now, direct = time.monotonic(), said.get("dbdirect") == "true"
        with self._lock:
            found = [a for a in self.assets if self._within(a, said) and self._found(a, said, now)]
        found.sort(key=lambda a: (a.processed_at <= now, a.name.lower()))
        total = len(found)
        if not direct or self.dialect.database_pages:
            found = self._page(found, int(said.get("startrow") or 1), int(said.get("maxrows") or 25))
        if self.dialect.rows_twice and not direct:
            found = [a for a in found for _ in range(2)]
        return self._rows(found, said["searchfor"], total, now)

    def _within(self, asset: Asset, said: dict[str, str]) -> bool:
        folders, kind = said.get("folderid", ""), "doc" if asset.kind == "other" else asset.kind
        wanted = folders.split(",") if self.dialect.folder_lists else [folders]
        return (not folders or asset.folder in wanted) and said.get("show", "all") in {"all", kind}

    def _found(self, asset: Asset, said: dict[str, str], now: float) -> bool:
        if said.get("dbdirect") == "true":
            shown = (asset.processed_at <= now) == (said.get("available", "1") == "1")
            return (shown or not self.dialect.hides_unprocessed) and like(said["searchfor"], asset.name)
        if asset.indexed_at is None or asset.indexed_at > now:
            return False
        fields = {"description": asset.metadata("_description", "_desc"), "keywords": asset.metadata("_keywords")}
        words = {name: re.findall(r"\w+", text.lower()) for name, text in fields.items()}
        words |= {"id": [asset.id.lower()], "filename": re.findall(r"[\w.-]+", asset.name.lower())}
        words[""] = [word for some in words.values() for word in some]
        return matches(said["searchfor"], words)

    def _page(self, rows: list[Asset], start: int, most: int) -> list[Asset]:
        if not self.dialect.pages_by_kind:
            return rows[start - 1 :][:most]
        if most == 0:
            return rows
        by_kind = [[a for a in rows if a.kind == kind] for kind in sorted({a.kind for a in rows})]
        return [asset for some in by_kind for asset in some[start - 1 :][:most]]

    def _rows(self, found: list[Asset], asked: str, total: int, now: float) -> Answer:
        rows = []
        for asset in found:
            values = self._processed(asset) if asset.processed_at <= now else {"size": "0"}
            values |= {"id": asset.id, "filename": asset.name, "folder_id": asset.folder, "video_image": "dummy"}
            values |= {"kind": "doc" if asset.kind == "other" else asset.kind, "rowtotal": total}
            values |= {"responsecode": 0, "totalassetscount": total, "calledwith": asked}
            rows.append([values.get(column) for column in self.dialect.columns])
        return self._recordset(list(self.dialect.columns), rows)

    def _processed(self, asset: Asset) -> dict[str, object]:
        return {
            "extension": asset.name.rpartition(".")[2],
            "filename_org": re.sub(r"[^\w.-]", "", asset.name.replace(" ", "_"), flags=re.ASCII),
            "path_to_asset": f"{asset.folder}/{asset.kind}/{asset.id}",
            "size": str(asset.size) if self.dialect.sizes == "text" else asset.size,
            "size_num": asset.size,
            "width": 0,
            "height": 0,
            "description": asset.metadata("_description", "_desc"),
            "keywords": asset.metadata("_keywords"),
            "dateadd": "November, 21 2026 02:45:02",
            "local_url_org": f"{self.base_url}/assets/1/{asset.id}",
            "md5hash": asset.md5,
        }

    def _index(self, said: dict[str, str]) -> Answer:
        self.complaints += [f"index parameter {key!r}" for key in said.keys() - INDEX_FIELDS]
        right, asked = said.get("api_key") == KEY, said.get("assetid", "")
        with self._lock:
            for asset in self.assets if right else []:
                if asset.indexed_at is None and (asked == "all" or asset.id in asked.split(",")):
                    asset.indexed_at = max(time.monotonic(), asset.processed_at) + self.dialect.index_lag
        code, message = (0, "Indexing successfully triggered") if right else (1, BAD_KEY)
        if self.dialect.strict_index_json:
            return self._text(json.dumps({"responsecode": code, "message": message}))
        return self._text(f"{{'responsecode':{code},'message':'{message}'}}")

    def _recordset(self, columns: list[str], rows: list[list[object]]) -> Answer:
        names = ("COLUMNS", "DATA") if self.dialect.upper_keys else ("columns", "data")
        return self._text(json.dumps(dict(zip(names, (columns, rows), strict=True)), ensure_ascii=False))

    def _text(self, text: str) -> Answer:
        charset = self.dialect.charset
        return Answer(200, f"{self.dialect.types[0]};charset={charset}", text.encode(charset, "replace"))
