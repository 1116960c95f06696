"""The service of the simulation: a transport below the real HTTP client, with every way of the live service to fail.

It answers the bytes of real requests with the bytes of real answers. What happens to each upload is a `Plan` that was
armed before; what it stores late is stored within the grace, in time in which it does not hang (`model`, assumption 1),
or after a 504 within five times what the upload took.
What may be concluded from all this is `sim_checks`'s.
"""

import math
import random
import re
from collections import deque
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import parse_qs

import httpx

from .baton import Crash
from .sim_answers import COLUMNS, KEY, NO_KEY, PAGE, as_json, md5, response, xml, xml_text
from .sim_clock import SimClock
from .sim_lies import PAGE as ROWS
from .sim_lies import ended, in_order, is_archived, is_asked_for, is_available, is_capped, shown_folder
from .sim_tree import FOLDERS
from .sim_values import GRACE, LATEST, Habits, Plan, Post, Stored

T = TypeVar("T")
_SHIFTS_EACH = 60.0
"""Seconds between two times at which strangers are deleted between pages: not in each listing of a few in a row."""
_TOLD = ("meta_file_", "metacf_")
_LONGEST = 200


class SimService(httpx.BaseTransport):
    """The installation; `mark` is where a request may stand still, `note` where it tells what it does."""

    def __init__(self, clock: SimClock, habits: Habits) -> None:
        self._clock = clock
        self.habits = habits
        self.mark: Callable[[str], None] = lambda _place: None
        self.note: Callable[[str], None] = lambda _line: None
        self.arrived: Callable[[Post], None] = lambda _post: None
        self.given_up: Callable[[Post], None] = lambda _post: None
        self.used_ids: Callable[[], list[str]] = list
        self.made: Callable[[Stored], None] = lambda _asset: None
        self.plans: deque[Plan] = deque()
        self.broken_searches = 0
        self.answered: list[tuple[str, float, str, str, list[str]]] = []
        """Each search in the database that was answered: boot, steady time, folder, pattern, and the ids shown."""
        self.assets: dict[str, Stored] = {}
        self.given: set[str] = set()
        self.posts: list[Post] = []
        self.late: list[Stored] = []
        self.deleted: dict[str, Stored] = {}
        self.phantoms = 0
        # The sizes, in bytes, of the uploads that a proxy refused by 413.
        self.refused: list[int] = []
        self.key_refused = False
        self.silent_since: float | None = None
        self.hangs = False
        self._numbers = 0
        self._searches = 0
        self._uploads = 0
        self._chance = random.Random(repr(habits))
        self._wiped_at: float | None = None
        self._ties = random.Random(repr(habits.lies))
        self._shifted_at = -math.inf
        self.blind: dict[str, str] = {}
        """The folders that show `nothing`, or the rows of `others`, for a while."""

    # What the world does to it.

    def fall_silent(self, *, hangs: bool) -> None:
        self.silent_since = self._clock.true if self.silent_since is None else self.silent_since
        self.hangs = hangs

    def speak_again(self) -> None:
        if self.silent_since is None:
            return
        self.settle()
        began, now = self.silent_since, self._clock.true
        self.silent_since = None
        if now - began > GRACE / 2:
            # What it had not done when it hung, or was given then, it does afterwards.
            for asset in self.late:
                stood_still = now - max(began, asset.made_at)
                for name in ("shown_from", "processed_from", "indexed_from"):
                    setattr(asset, name, (getattr(asset, name) or 0.0) + stood_still)

    def person(self, folder: str, name: str, content: bytes) -> Stored:
        asset = self._make(folder, name, content, 0.0)
        self._keep(asset)
        return asset

    def curate(self, verb: str, which: int, folder: str) -> Stored | None:
        """Let a person delete, move or rename one of our assets, or bring back one that was deleted; gives which."""
        anchors = {a.folder for a in self.assets.values() if a.name == "anchor.txt" and a.whole}
        # Where nothing of ours is left, nothing is concluded, for as long as it is so.
        ours = {i: a for i, a in self.assets.items() if a.post and a.name != "anchor.txt" and a.folder in anchors}
        among = self.deleted if verb == "bring back" else ours
        if not among:
            return None
        asset = sorted(among.items())[which % len(among)][1]
        match verb:
            case "delete":
                self.deleted[asset.id] = self.assets.pop(asset.id)
            case "bring back":
                self.assets[asset.id] = self.deleted.pop(asset.id)
            case "move" if not asset.curated:
                asset.folder, asset.curated = folder, True
            # Before it is processed nothing but its name tells what it is.
            case "rename" if not asset.curated and asset.processed_from <= self._clock.true:
                asset.name, asset.curated = f"by hand {asset.name}", True
            case _:
                return None
        return asset

    def stuck(self) -> list[Stored]:
        """Give the assets that it has accepted and does not process."""
        return [asset for asset in (*self.assets.values(), *self.late) if asset.processed_from == math.inf]

    def is_killed(self, asset: Stored | Post) -> bool:
        """Whether it never processes an upload for a reason in its name or metadata."""
        lacks = self.habits.lacks
        return bool(lacks) and (lacks in asset.said or len(asset.name) > _LONGEST)

    def unfinished(self) -> list[Stored]:
        """Give the assets that it does not process for a reason of its own: it may do so later."""
        return [asset for asset in self.stuck() if not self.is_killed(asset)]

    def finish(self, which: int) -> Stored | None:
        """Process one of the assets that it left unprocessed, if there is one; gives which."""
        stuck = self.unfinished()
        if not stuck:
            return None
        asset = stuck[which % len(stuck)]
        asset.processed_from = self._clock.true
        asset.indexed_from = self._clock.true + self.habits.index_lag
        return asset

    def settle(self) -> None:
        """Let what was to be stored by now be stored."""
        if self.silent_since is not None and self._clock.true - self.silent_since > GRACE / 2:
            return
        for asset in [a for a in self.late if a.shown_from <= self._clock.true]:
            self.late.remove(asset)
            self._keep(asset)

    def shown(self) -> list[Stored]:
        self.settle()
        return list(self.assets.values())

    def drop(self, boundaries: set[str]) -> None:
        """Store what is left of uploads whose client died within the grace if the wall clock was set back.

        Then nobody knows how long they took.
        """
        for asset in self.late:
            if asset.post in boundaries and self._clock.set_back:
                asset.shown_from = min(asset.shown_from, self._clock.true + LATEST)

    # What the client asks of it.

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self.silent_since is not None and not self.hangs:
            raise httpx.ConnectError("connection refused", request=request)
        if request.url.path.endswith("index.cfm"):
            return self._upload(request)
        return self._ask(request)

    def _upload(self, request: httpx.Request) -> httpx.Response:
        plan = self.plans.popleft() if self.plans else Plan()
        if plan.kind == "unreachable":
            raise httpx.ConnectError("connection refused", request=request)
        stream = iter(request.stream)
        self.mark("connected")
        post = self._head(next(stream), int(request.headers["content-length"]), plan)
        self.posts.append(post)
        self.note(f"POST {post.name} → {post.folder}, {len(post.content)} of {post.size} bytes, {plan.kind}")
        self.arrived(post)
        try:
            self.mark("first bytes")
            if plan.kind == "success_of_part" and not post.closed:
                self._store(post, post.content, 0.0)
                return xml(0, "success", self._id_of(post))
            if plan.kind == "cut" and not plan.flag and not post.closed:
                return self._cut(post, request)
            if plan.kind == "cut" and post.closed:
                # All had come, and the client was still writing for all it knows.
                post.content = post.content[: post.size]
                return self._cut(post, request)
            for piece in stream:
                post.content += piece
                self.mark("more bytes")
                if plan.kind == "cut" and len(post.content) > post.size:
                    post.closed, post.content = True, post.content[: post.size]
                    return self._cut(post, request)
            post.closed = True
            post.content = post.content[: post.size]
            self.mark("all bytes")
            answer = self._answer(post, request)
            self.mark("answered")
        except Crash:
            self._client_died(post)
            raise
        except (httpx.TransportError, AssertionError):
            raise
        except Exception:
            # The body gave itself up: what had come is a cut upload.
            self.given_up(post)
            self._store_unheard(post, post.content)
            raise
        return answer

    def _head(self, piece: bytes, length: int, plan: Plan) -> Post:
        head, _, first = piece.partition(b"application/octet-stream\r\n\r\n")
        boundary = head[2 : head.index(b"\r\n")].decode()
        tail = len(f"\r\n--{boundary}--\r\n")
        size = length - len(head) - len(b"application/octet-stream\r\n\r\n") - tail
        fields = dict(re.findall(r'name="([^"]+)"\r\n\r\n(.*?)\r\n--', head.decode(), re.DOTALL))
        name = re.findall(r'filename="([^"]*)"', head.decode())[-1]
        post = Post(boundary, fields["destfolderid"], name, size, plan, first[:size])
        post.closed = len(first) == size + tail
        post.said = {key.rpartition("_")[2]: text for key, text in fields.items() if key.startswith(_TOLD)}
        post.meta = {key: text for key, text in fields.items() if key.startswith(("meta_", "metacf_"))}
        if fields["api_key"] != KEY:
            raise AssertionError("the key did not come")
        return post

    def _cut(self, post: Post, request: httpx.Request) -> httpx.Response:
        sent = post.content + (f"\r\n--{post.boundary}--\r\n".encode() if post.closed else b"")
        self._store_unheard(post, sent[: post.plan.at % (len(sent) + 1)])
        raise httpx.ReadError("connection reset", request=request)

    def _client_died(self, post: Post) -> None:
        if post.stored:
            return
        plan = post.plan
        if post.closed and not plan.flag:
            self._store_unheard(post, post.content)
        elif plan.at:
            self._store_unheard(post, post.content[: plan.at % (len(post.content) + 1)])

    def _answer(self, post: Post, request: httpx.Request) -> httpx.Response:
        plan = post.plan
        lost = httpx.ReadError("connection reset", request=request)
        if self.silent_since is not None:
            raise lost
        if self.key_refused:
            return xml(1, NO_KEY)
        if self.habits.refuses_copies and self._has(post.content):
            return xml(1, "File already exists in Razuna", post.name)
        if self.habits.limit and post.size > self.habits.limit:
            self.refused.append(post.size)
            return response(PAGE, "text/html", 413)
        self._clock.advance(self.habits.upload_takes)
        self._uploads += 1
        each = self.habits.refusing_each
        if post.folder == self.habits.refusing or (each > 0 and self._uploads % each == 0):
            self.note("  answered by 500, not stored")
            return response(PAGE, "text/html", 500)
        match plan.kind:
            case "cut":
                return self._cut(post, request)
            case "lost_before":
                raise lost
            case "lost_after":
                self._store(post, post.content, plan.late)
                raise lost
            case "page_before" | "page_after" | "gateway_before" | "gateway_after":
                if plan.kind.endswith("after"):
                    self._store(post, post.content, plan.late)
                return response(PAGE, "text/html", 200 if "page" in plan.kind else 503)
            case "gateway_timeout":
                self._clock.advance(plan.at)
                self._store(post, post.content, plan.late, latest=plan.late)
                return response(PAGE, "text/html", 504)
            case "error_at_line":
                if plan.flag:
                    self._store(post, post.content, plan.late)
                return xml(1, f"Upload failed Error at line 404 of {KEY}")
            case "half_answer":
                self._store(post, post.content, plan.late)
                whole = xml_text(0, "success", self._id_of(post))
                return response(whole[: plan.at % len(whole)], "text/xml")
            case "unsound_id":
                self._store(post, post.content, plan.late)
                return xml(0, "success", post.name)
            case "phantom":
                self.phantoms += 1
                return xml(0, "success", self._new_id())
            case "used_id" if self.used_ids():
                if plan.flag:
                    self._store(post, post.content, plan.late)
                return xml(0, "success", self.used_ids()[plan.at % len(self.used_ids())])
        self._store(post, post.content, min(plan.late, 3.0))
        if plan.kind == "never_processed":
            for asset in (*self.assets.values(), *self.late):
                if asset.post == post.boundary:
                    asset.processed_from = asset.indexed_from = math.inf
        return xml(0, "success", self._id_of(post), self._renamed(post))

    def _has(self, content: bytes) -> bool:
        return any(a.content == content and a.processed_from <= self._clock.true for a in self.shown())

    def _new_id(self) -> str:
        self._numbers += 1
        self.given.add(f"A{self._numbers:031d}")
        return f"A{self._numbers:031d}"

    def _id_of(self, post: Post) -> str:
        every = [*self.assets.values(), *self.late]
        found = next(asset.id for asset in every if asset.post == post.boundary)
        self.given.add(found)
        return found

    def _make(self, folder: str, name: str, content: bytes, late: float) -> Stored:
        self._numbers += 1
        shown = self._clock.true + late
        processed = shown + self.habits.processing
        name = name if self.habits.reads_latin else name.encode("latin-1", "replace").decode("latin-1")
        number, indexed = f"A{self._numbers:031d}", processed + self.habits.index_lag
        return Stored(number, folder, name, content, shown, processed, indexed, self._clock.true)

    def _renamed(self, post: Post) -> str:
        """Give the name that a workflow gives to an upload, "" where there is none."""
        return f"workflow {post.boundary[-6:]}{post.name[-4:]}" if self.habits.renames else ""

    def _store_unheard(self, post: Post, content: bytes) -> None:
        """Store what came of an upload after which nobody listens any more; a copy is refused all the same."""
        if self.habits.refuses_copies and self._has(content):
            post.stored = True
        else:
            self._store(post, content, post.plan.late)

    def _store(self, post: Post, content: bytes, late: float, *, latest: float = LATEST) -> None:
        post.stored = True
        if not content:
            return
        asset = self._make(post.folder, self._renamed(post) or post.name, content, min(late, latest))
        asset.post = post.boundary
        asset.whole = len(content) == post.size
        asset.said = post.said
        if self.is_killed(post):
            asset.processed_from = asset.indexed_from = math.inf
        self.made(asset)
        if late > 0:
            self.late.append(asset)
            self.note(f"  {asset.id[-3:]} ({len(content)} bytes) will be stored in {late:.1f} s")
        else:
            self._keep(asset)

    def _keep(self, asset: Stored) -> None:
        self.assets[asset.id] = asset
        self.note(f"  {asset.id[-3:]} is stored: {asset.name} in {asset.folder}, {len(asset.content)} bytes")

    def _ask(self, request: httpx.Request) -> httpx.Response:
        method = request.url.params["method"]
        said = request.url.query if request.method == "GET" else request.read()
        form = {name: values[0] for name, values in parse_qs(said.decode(), keep_blank_values=True).items()}
        self.mark("asked")
        if self.silent_since is not None:
            raise httpx.ReadTimeout("no answer", request=request)
        if form["api_key"] != KEY or self.key_refused:
            return as_json({"COLUMNS": ["responsecode", "message"], "DATA": [["1", NO_KEY]]})
        if self.broken_searches:
            self.broken_searches -= 1
            return self._broken(self.broken_searches)
        if method != "searchIndex" and self._fails():
            self.note("SEARCH fails")
            return self._broken(self._chance.randrange(3))
        answer = self._index(form) if method == "searchIndex" else self._search(form)
        self.mark("read")
        return answer

    def mend_searches(self) -> None:
        """Let searches fail no more."""
        self.broken_searches, self.habits.failing, self.habits.failing_each = 0, 0.0, 0

    def mend_lists(self) -> None:
        """Let listings hold no file up any more."""
        self.blind.clear()
        self.habits.lies = ended(self.habits.lies)

    def mend_uploads(self) -> None:
        """Let uploads fail no more."""
        self.habits.refusing_each, self.habits.refusing = 0, ""

    def _fails(self) -> bool:
        self._searches += 1
        each = self.habits.failing_each
        return self._chance.random() < self.habits.failing or (each > 0 and self._searches % each == 0)

    def _broken(self, number: int) -> httpx.Response:
        if number % 3 == 0:
            return response(PAGE, "text/html")
        if number % 3 == 1:
            return as_json({"message": f"database down {KEY}", "errorcode": "0"})
        whole = next(iter(self._search({"searchfor": "%", "dbdirect": "true"}, is_whole=False).stream))
        return response(whole[: len(whole) - 3], "application/json")

    def _index(self, form: dict[str, str]) -> httpx.Response:
        ids = form["assetid"].split(",")
        self.note(f"INDEX {' '.join(i[-3:] for i in ids)}")
        now = self._clock.true
        if self.habits.index_call == "wipes":
            for asset in self.assets.values():
                asset.indexed_from = None
        if self.habits.index_call != "noop":
            for asset in (self.assets[i] for i in ids if i in self.assets):
                asset.indexed_from = now
        return as_json({"responsecode": 0, "message": "Indexing successfully triggered"})

    def _search(self, form: dict[str, str], *, is_whole: bool = True) -> httpx.Response:
        # It reads in the middle of the time that it takes.
        takes = self.habits.look_takes / 2 if form.get("dbdirect") == "true" else 0.0
        self._clock.advance(takes)
        answer, shown = self._found(form)
        self._clock.advance(takes)
        if form.get("dbdirect") == "true" and is_whole:
            at = self._clock.boot(), self._clock.steady()
            self.answered.append((*at, form.get("folderid", ""), form["searchfor"], shown))
        return answer

    def _found(self, form: dict[str, str]) -> tuple[httpx.Response, list[str]]:
        now = self._clock.true
        found = [asset for asset in self.shown() if self._matches(asset, form, now)]
        if self.habits.lag and form.get("dbdirect") == "true":
            # A replica of the database, which is behind.
            found = [asset for asset in found if asset.shown_from <= now - self.habits.lag]
        said, lies = form["searchfor"], self.habits.lies
        total = len(found)
        if form.get("dbdirect") == "true":
            found = [asset for asset in found if is_available(asset, form, lies, now)]
            total = len(found) if lies.states_total else 0
            if lies.is_paged or lies.cap:
                found = in_order(found, form, lies, self._ties)
            if lies.cap and is_capped(said, lies):
                found = found[: lies.cap]
        elif lies.states_total is False:
            # Totals of the index are inflated, by observation.
            total *= 2
        if self.habits.pages or (lies.is_paged and form.get("dbdirect") == "true"):
            start = int(form.get("startrow", "1"))
            found = found[start - 1 : start - 1 + min(ROWS, int(form.get("maxrows", ROWS)))]
            # The second page begins at row 2, to show what a row is: only what follows it can slip.
            if lies.shifts and start == 2 and said == "%":
                self._shift(form.get("folderid", ""))
        self.note(f"SEARCH {said if len(said) < 40 else len(said)} → {' '.join(a.id[-3:] for a in found)}")
        columns = [*COLUMNS, *(("description", "keywords") if self.habits.keeps_own else ())]
        rows = [self._row(a, now, total, said) for a in found]
        if lies.folder_id == "missing":
            at = columns.index("folder_id")
            columns, rows = _without(at, columns), [_without(at, row) for row in rows]
        return as_json({"COLUMNS": columns, "DATA": rows}), [a.id for a in found]

    def _shift(self, folder: str) -> None:
        """Delete a few strangers that come first in a folder, as people do while it is listed."""
        if self._clock.true - self._shifted_at < _SHIFTS_EACH:
            return
        self._shifted_at = self._clock.true
        first = sorted((a.name, a.id) for a in self.assets.values() if a.folder == folder and is_archived(a))
        for name, assetid in first[: self.habits.lies.shifts]:
            del self.assets[assetid]
            self.note(f"PERSON deletes {assetid[-3:]}, {name}, between two pages")

    def _row(self, asset: Stored, now: float, total: int, said: str) -> list[object]:
        done = asset.processed_from <= now
        digest = md5(asset.content) if done and self.habits.gives_md5 else None
        size = str(len(asset.content)) if done else "0"
        texts: list[object] = []
        if self.habits.keeps_own:
            shown = asset.said if done and not self.keeps_own(asset) else {}
            texts = [shown.get("desc", ""), shown.get("keywords", "")]
        folder = shown_folder(asset.folder, self.habits.lies)
        return [asset.id, asset.name, folder, "doc", size, digest, 0, total, said, *texts]

    def keeps_own(self, asset: Stored) -> bool:
        """Whether a file keeps its own metadata in place of what is sent with it."""
        return bool(self.habits.keeps_own) and self.habits.keeps_own in asset.name

    def _matches(self, asset: Stored, form: dict[str, str], now: float) -> bool:
        if form.get("folderid") == "" and "dbdirect" not in form:
            return False
        if not self._is_seen(asset.folder, form):
            return False
        said = form["searchfor"]
        if form.get("dbdirect") == "true":
            like = "".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in said)
            return re.fullmatch(like, asset.name, re.IGNORECASE | re.DOTALL) is not None
        if asset.indexed_from is None or asset.indexed_from > now:
            return False
        return said == "*" or asset.id in re.findall(r"id:([A-Za-z0-9-]+)", said)

    def _is_seen(self, folder: str, form: dict[str, str]) -> bool:
        asked = form.get("folderid", "")
        if self.blind.get(folder) == "nothing" or folder == self.habits.lies.hides:
            return False
        if form["searchfor"] == "%" and self.blind.get(asked) == "others":
            return folder != asked and folder in FOLDERS.values()
        return not asked or is_asked_for(folder, asked.split(","), self.habits.lies)


def _without(at: int, values: list[T]) -> list[T]:
    return [*values[:at], *values[at + 1 :]]
