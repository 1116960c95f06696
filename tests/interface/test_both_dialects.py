"""One suite for both dialects of the wire: what a live installation answers, and the interface to the letter."""

import csv
import io

import pytest

from assetsync.errors import KeyRefused
from assetsync.model import SearchRequest
from assetsync.service.paging import every

PHOTOS = "A6CE649FAA5F434EB513CA15656AB5AA"
PAPERS = "0123456789ABCDEF0123456789ABCDEF"
WIRES = ("row", "column", "jsonp", "wddx")
NAMES = ("Grüße aus Tromsø.jpg", "film.mp4", "plain.txt", "song.mp3", "with & <marks>.png")


@pytest.fixture(params=["observed", "documented"])
def dialect(request):
    return request.param


@pytest.fixture
def site(make_site, dialect):
    return make_site(dialect=dialect, index_mode="adds")


@pytest.fixture
def filled(site):
    for number, name in enumerate(NAMES):
        site.write(name, b"content %d " % number * (number + 1))
    assert site.run("reconcile").code == 0
    return site


@pytest.fixture
def crowded(make_site, dialect):
    """More assets of three kinds than a page of 20 holds, in a sandbox of some settings."""

    def make(count=65, **settings):
        site = make_site(dialect=dialect, **settings)
        from assetsync.sandbox.store import NewAsset

        for number in range(count):
            name = f"crowd {number:03}.{('jpg', 'txt', 'mp4')[number % 3]}"
            assetid = f"{number + 1:032X}"
            store = site.sandbox._stored
            content = (b"%d" % number,)
            store.add(NewAsset(id=assetid, folder_id=PHOTOS, filename=name, content=content, fields={}))
        return site

    return make


def ids(site):
    return {asset.id for asset in site.sandbox.assets()}


class TestReconcile:
    def test_second_run_sends_nothing(self, filled):
        said = filled.run("reconcile", "--json").only
        assert (said["in_sync"], said["verified"], said["uploaded"]) == (True, len(NAMES), 0)
        assert len(filled.sandbox.assets()) == len(NAMES)

    def test_ledger_holds_the_returned_ids(self, filled):
        rows = filled.run("files", "--json").objects
        stored = {asset.filename: asset for asset in filled.sandbox.assets()}
        assert {row["path"].removeprefix("photos/"): row["assetid"] for row in rows} == {
            name: asset.id for name, asset in stored.items()
        }
        assert {row["md5"] for row in rows} == {asset.md5 for asset in stored.values()}

    def test_doubled_rows_and_renditions_are_handled(self, make_site, dialect):
        site = make_site(dialect=dialect, twice=True, renditions=True, startrow="page")
        for number in range(12):
            site.write(f"{number}.png", b"picture %d" % number)
        first = site.run("reconcile", "--json").only
        again = site.run("reconcile", "--adopt", "--json").only
        assert (first["verified"], first["uploaded"]) == (12, 12)
        assert (again["in_sync"], again["uploaded"], again["adopted"]) == (True, 0, 0)

    def test_indexing_is_requested_where_needed(self, make_site, dialect):
        site = make_site(dialect=dialect, index_mode="adds", self_index=False)
        site.configure(more="schedule: {index: 200ms, verify: 200ms}\n")
        site.write("a.jpg")
        assert site.run("reconcile", "--wait", "20s", "--json").only["verified"] == 1

    def test_verification_waits_for_processing(self, make_site, dialect):
        site = make_site(dialect=dialect, processing_delay=0.5)
        site.configure(more="schedule: {verify: 200ms}\n")
        site.write("a.jpg")
        assert site.run("reconcile", "--wait", "20s", "--json").only["verified"] == 1


class TestSearch:
    @pytest.mark.parametrize("wire", WIRES)
    def test_every_form_yields_the_same_records(self, filled, make_client, wire):
        client = make_client(filled)
        request = SearchRequest("%", folderid=PHOTOS, dbdirect=True)
        with client.search(request) as rows:
            plain = list(rows)
        with client.search(request, wire) as rows:
            assert [(a.id, a.filename, a.size, a.md5, a.kind, a.folder_id) for a in rows] == [
                (a.id, a.filename, a.size, a.md5, a.kind, a.folder_id) for a in plain
            ]
        assert {asset.id for asset in plain} == ids(filled)

    @pytest.mark.parametrize("wire", WIRES)
    def test_wire_with_json_prints_parsed_records(self, filled, wire):
        found = filled.run("search", "%", "--dbdirect", "--wire", wire, "--json").objects
        assert {row["filename"] for row in found} == set(NAMES)
        rows = csv.DictReader(io.StringIO(filled.run("search", "%", "--dbdirect", "--wire", wire, "--csv").out))
        assert {row["id"] for row in rows} == ids(filled)

    @pytest.mark.parametrize(
        ("wire", "begins"), [("row", '{"columns"'), ("column", '{"rowcount"'), ("jsonp", "cb("), ("wddx", "<wddx")]
    )
    def test_wire_alone_prints_the_raw_answer(self, filled, wire, begins):
        result = filled.run("search", "plain", "--wire", wire)
        assert result.code == 0
        assert result.out.strip().lower().startswith(begins)

    @pytest.mark.parametrize("wire", WIRES)
    def test_empty_result_is_empty_in_every_form(self, filled, wire):
        result = filled.run("search", "zebra", "--wire", wire, "--json")
        assert (result.code, result.out) == (0, "")

    @pytest.mark.parametrize("wire", WIRES)
    def test_refused_key_is_seen_in_every_form(self, filled, make_client, wire):
        from assetsync.sandbox import FaultKind, FaultRule

        filled.sandbox.set_faults(FaultRule(kind=FaultKind.KEY_REFUSED))
        with pytest.raises(KeyRefused), make_client(filled).search(SearchRequest("x"), wire) as rows:
            list(rows)

    @pytest.mark.parametrize(
        ("options", "names"),
        [
            (("--show", "img"), {NAMES[0], NAMES[4]}),
            (("--show", "vid"), {"film.mp4"}),
            (("--show", "aud"), {"song.mp3"}),
            (("--show", "doc", "--doctype", "other"), {"plain.txt"}),
            (("--show", "doc", "--doctype", "pdf"), set()),
            (("--folderid", PAPERS), set()),
            (("--datecreate", "2000-01-01"), set()),
            (("--datecreaterange", "20000101 TO 20991231"), set(NAMES)),
            (("--datechangerange", "20000101 TO 20000102"), set()),
            (("--maxrows", "1", "--show", "doc"), {"plain.txt"}),
            (("--startrow", "2", "--show", "doc"), set()),
            (("--available", "1"), set(NAMES)),
            (("--showrenditions", "false"), set(NAMES)),
        ],
    )
    def test_parameters_narrow_an_index_search(self, filled, options, names):
        assert {row["filename"] for row in filled.run("search", "*", "--json", *options).objects} == names

    @pytest.mark.parametrize(
        ("order", "first"),
        [("sizeasc", NAMES[0]), ("sizedesc", NAMES[4]), ("name", "film.mp4"), ("dateadd", None), ("datechanged", None)],
    )
    def test_sortby_orders_the_rows(self, filled, order, first):
        found = filled.run("search", "%", "--dbdirect", "--sortby", order, "--json").objects
        newest = filled.sandbox.assets()[-1].filename
        assert found[0]["filename"] == (first or newest)


class TestPaging:
    @pytest.mark.parametrize(
        "settings",
        [
            {},
            {"startrow": "page"},
            {"twice": True},
            {"startrow": "page", "twice": True},
            {"renditions": True},
            {"startrow": "page", "twice": True, "renditions": True},
        ],
        ids=lambda settings: "+".join(map(str, settings)) or "plain",
    )
    @pytest.mark.parametrize("size", [20, 25])
    def test_index_pages_return_every_asset(self, crowded, make_client, settings, size):
        site = crowded(**settings)
        client = make_client(site)
        found = {asset.id for asset in every(client.search, SearchRequest("crowd"), size=size)}
        assert ids(site) <= found

    def test_all_pages_prints_every_asset_once(self, crowded):
        site = crowded(twice=True)
        found = [row["id"] for row in site.run("search", "crowd", "--all-pages", "--maxrows", "20", "--json").objects]
        assert sorted(found) == sorted(ids(site))

    def test_one_page_by_hand_and_the_next(self, crowded):
        site = crowded(count=60)
        options = ("--show", "doc", "--maxrows", "12", "--json")
        first, second = (
            [row["id"] for row in site.run("search", "crowd", "--startrow", start, *options).objects]
            for start in ("1", "13")
        )
        assert (len(first), len(second), len(set(first + second))) == (12, 8, 20)

    def test_database_lists_a_folder_completely(self, crowded, make_client):
        site = crowded()
        request = SearchRequest("%", folderid=PHOTOS, dbdirect=True)
        assert len({asset.id for asset in every(make_client(site).search, request)}) == 65

    def test_reconcile_adopts_a_crowded_folder(self, crowded):
        site = crowded(count=5)
        site.write("new.txt", b"seven b")
        said = site.run("reconcile", "--json").only
        assert (said["in_sync"], said["uploaded"]) == (True, 1)


class TestIndexAndUpload:
    def test_index_makes_assets_findable(self, make_site, dialect, make_client):
        site = make_site(dialect=dialect, index_mode="adds", self_index=False)
        path = site.write("a.txt")
        assetid = site.run("upload", "--folder", PHOTOS, "--json", str(path)).only["assetid"]
        assert site.run("search", f"id:{assetid}", "--json").out == ""
        assert site.run("index", assetid, "--json").only == {
            "responsecode": "0",
            "message": "Indexing successfully triggered",
        }
        assert [row["id"] for row in site.run("search", f"id:{assetid}", "--json").objects] == [assetid]

    def test_upload_returns_id_code_and_message(self, site):
        path = site.write("a.mp3")
        said = site.run("upload", "--folder", PHOTOS, "--json", str(path)).only
        (asset,) = site.sandbox.assets()
        assert said == {
            "assetid": asset.id,
            "responsecode": "0",
            "message": "success",
            "filetype": "aud",
            "comingfrom": None,
            "renamefilebody": None,
        }

    @pytest.mark.parametrize(
        ("folder", "content", "code", "words"),
        [("F" * 32, b"x", 1, "knows no such folder"), (PHOTOS, b"", 1, "received an empty file")],
    )
    def test_a_refusal_is_told(self, site, folder, content, code, words):
        result = site.run("upload", "--folder", folder, str(site.write("a.jpg", content)))
        assert result.code == code
        assert words in result.err

    def test_error_10001_is_told(self, make_site, dialect):
        site = make_site(dialect=dialect, max_content_length=5000)
        result = site.run("upload", "--folder", PHOTOS, "--json", str(site.write("a.jpg", bytes(10_000))))
        assert (result.code, result.only["responsecode"]) == (1, "10001")
        assert "larger than the service accepts" in result.err

    def test_duplicate_names_no_asset(self, make_site, dialect):
        site = make_site(dialect=dialect, duplicate_check=True)
        path = site.write("a.jpg")
        site.run("upload", "--folder", PHOTOS, str(path))
        result = site.run("upload", "--folder", PHOTOS, "--json", str(path))
        assert (result.code, result.only["assetid"]) == (1, None)
        assert "reports this content as a duplicate" in result.err

    @pytest.mark.parametrize("redirect", ["http://127.0.0.1:9/done", "http://127.0.0.1:9/done?from=assetsync"])
    def test_redirect_answer_is_not_followed(self, site, redirect):
        options = ("--redirectto", redirect, "--redirecttoparams", "a=1&b=2")
        result = site.run("upload", "--folder", PHOTOS, *options, "--json", str(site.write("a.jpg")))
        (asset,) = site.sandbox.assets()
        assert (result.code, result.only["assetid"], result.only["message"]) == (0, asset.id, "success")

    def test_wrong_key_is_seen_by_all_operations(self, site):
        path = site.write("a.jpg")
        site.key_file.write_text("another-key")
        for words in (("search", "x"), ("index", "A1"), ("upload", "--folder", PHOTOS, str(path))):
            result = site.run(*words)
            assert result.code == 3
            assert "refuses the API key" in result.err


def test_folded_blanks_are_no_rename(make_site, dialect):
    site = make_site(dialect=dialect, folds_blanks=True)
    site.write("a  b   c.txt")
    result = site.run("reconcile", "--json")
    assert result.only["verified"] == 1
    assert "renames uploads" not in result.err
