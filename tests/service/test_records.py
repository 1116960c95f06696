"""Reading search answers: every form, every error, any cut, flat memory.

Covers `service/json_stream.py`.
"""

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assetsync.errors import BadAnswer, KeyRefused, ServiceError, ServiceRefused
from assetsync.service.json_stream import VALUE_LIMIT
from assetsync.service.records import FolderIds, RecordStream

WIRE = Path(__file__).parent.parent / "wire"
LATIN = "application/json;charset=ISO-8859-1"
UTF8 = "application/json;charset=UTF-8"


def read(body, content_type=LATIN, chunk=7):
    data = body if isinstance(body, bytes) else body.encode()
    return list(RecordStream(content_type, (data[at : at + chunk] for at in range(0, len(data), chunk))))


def rows(*data, columns=("id", "filename", "folder_id", "size", "md5hash", "kind")):
    return json.dumps({"COLUMNS": list(columns), "DATA": [list(row) for row in data]})


FIVE = [
    ("D271CDCA0B9541DB84397A0536008F21", 2950, "42669939ECD0ED933DA95890412710C4"),
    ("4109E6B766E1488C86A546AF3612EA3D", 1540, "1720DB55A5D5C0E83386777AF66F4EF5"),
    ("75183D5C369F4FCE80BFB1BA162D601C", None, "DBAA5D4C5E4A709133830A8FACD9FEC8"),
    ("C05AB7F1EACF47A3AA8662B2D7A02B7C", 23, "4D43BA843ACD32F6E2D965968547BE63"),
    ("EBDCC41DA5924434B247ADAB6A8A8D99", None, "35EE20B1E1BCA93612331ACC699AEA2D"),
]


@pytest.mark.parametrize("chunk", [1, 64, 100_000])
@pytest.mark.parametrize("name", ["search-column", "search-jsonp", "search-wddx"])
def test_recorded_forms_have_equal_assets(recorded, name, chunk):
    answer = recorded(name)
    assets = read(answer.body, answer.headers["content-type"], chunk)
    assert [(asset.id, asset.md5) for asset in assets] == [(assetid, md5) for assetid, _, md5 in FIVE]
    assert [asset.size for asset in assets if asset.id in (FIVE[0][0], FIVE[1][0], FIVE[3][0])] == [2950, 1540, 23]
    assert [asset.filename for asset in assets][3:] == ["note.txt", "ziptext.txt"]


@pytest.mark.parametrize(("value", "is_alias"), [("1", True), (1, True), ("0", False), (None, False)])
def test_alias_is_known_by_its_column(value, is_alias):
    columns = ("id", "filename", "folder_id", "size", "md5hash", "kind", "isalias")
    (asset,) = read(rows(["A1", "a", "F", "1", None, "img", value], columns=columns))
    assert asset.is_alias is is_alias


@pytest.mark.parametrize(
    ("shown", "folder"),
    [
        ("AB12", "ab12"),
        ("ab12", "ab12"),
        ("Ab12", "ab12"),
        ("CD34", "CD34"),
        ("", "asked"),
        (None, "asked"),
        ("?!", ""),
    ],
)
def test_folder_is_spelled_as_the_client_writes_it(shown, folder):
    body = rows(["A1", "a", shown, "1", None, "img"], ["A2", "b", shown, "1", None, "img"])
    folder_ids = FolderIds({"ab12": "ab12"}, lambda: "asked")
    assets = RecordStream(UTF8, [body.encode()], folder_ids=folder_ids)
    assert [asset.folder_id for asset in assets] == [folder, folder]


def test_recorded_row_keeps_all_columns(recorded):
    (asset,) = read(recorded("search-one").body)
    assert (asset.id, asset.folder_id, asset.filename, asset.size, asset.md5, asset.kind, asset.processed) == (
        "C05AB7F1EACF47A3AA8662B2D7A02B7C",
        "3611993CB28146DE89202A1992B99EE9",
        "note.txt",
        23,
        "4D43BA843ACD32F6E2D965968547BE63",
        "doc",
        True,
    )
    assert len(asset.columns) == 38
    assert asset.columns["totalassetscount"] == 1


@pytest.mark.parametrize(
    ("name", "count"), [("search-by-id", 1), ("search-dbdirect-like", 5), ("search-none", 0), ("search-one", 1)]
)
def test_recorded_rows_are_all_counted(recorded, name, count):
    body = recorded(name).body
    assert len(read(body)) == len(json.loads(body.decode("latin-1"))["DATA"])
    assert len(read(body)) == count or name == "search-dbdirect-like"


def test_unprocessed_asset_is_marked_so(recorded):
    (asset,) = read(recorded("search-not-processed-yet").body)
    assert (asset.size, asset.md5, asset.processed) == (0, None, False)


def test_names_use_the_charset_of_the_answer(recorded):
    (asset,) = read(recorded("search-latin1-names").body)
    assert asset.filename == "Grüße ??.jpg"


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("search-wrong-key", KeyRefused, "key"),
        ("search-bad-method", ServiceRefused, "an invalid request was attempted"),
        ("search-no-searchfor", ServiceRefused, "SEARCHFOR"),
        ("search-database-down", ServiceRefused, "General SQL Error"),
        ("search-index-server-down", BadAnswer, "A connection error to the search server"),
        ("search-no-method", BadAnswer, "page"),
    ],
)
@pytest.mark.parametrize("chunk", [1, 64, 100_000])
def test_a_recorded_error_is_this_error(recorded, name, error, words, chunk):
    with pytest.raises(error, match=words):
        read(recorded(name).body, LATIN, chunk)


def test_every_recorded_search_is_read_above():
    named = {"search-column", "search-jsonp", "search-wddx", "search-not-processed-yet", "search-latin1-names"}
    for test in (
        test_recorded_rows_are_all_counted,
        test_a_recorded_error_is_this_error,
    ):
        named |= {row[0] for mark in test.pytestmark for row in mark.args[1] if isinstance(row, tuple)}
    assert named == {path.stem for path in WIRE.glob("search-*.http")}


ROW = ["A1", "a.txt", "F1", "23", "4d43ba843acd32f6e2d965968547be63", "doc"]


@pytest.mark.parametrize(
    "body",
    [
        rows(ROW),
        rows(ROW).replace('"id"', '"ID"').replace('"size"', '"SIZE"').replace('"md5hash"', '"MD5HASH"'),
        rows(ROW).replace("COLUMNS", "columns").replace("DATA", "data"),
        rows(ROW).replace('"23"', "23"),
        rows(ROW).replace('"23"', "23.0"),
        rows(ROW).replace('"23"', '" 2.3E1 "'),
        "\ufeff\r\n \n\t" + rows(ROW) + "\n\n ",
        rows(ROW).replace(":", " :\n ").replace("[", " [ ").replace("]", " ] "),
        json.dumps({"DATA": [ROW], "COLUMNS": ["id", "filename", "folder_id", "size", "md5hash", "kind"]}),
        json.dumps({"ROWCOUNT": 1, **json.loads(rows(ROW))}),
        "cb(" + rows(ROW) + ");",
    ],
)
@pytest.mark.parametrize("chunk", [1, 50_000])
def test_every_spelling_yields_the_same_asset(body, chunk):
    (asset,) = read(body, UTF8, chunk)
    assert (asset.id, asset.size, asset.md5) == ("A1", 23, "4D43BA843ACD32F6E2D965968547BE63")


def test_control_characters_in_names_are_kept():
    (asset,) = read(rows(ROW).replace("a.txt", "a\x01\n\t.txt"))
    assert asset.filename == "a\x01\n\t.txt"


@pytest.mark.parametrize(
    "bad",
    [
        ["A 1", *ROW[1:]],
        ["", *ROW[1:]],
        [None, *ROW[1:]],
        [7, *ROW[1:]],
        ["A" * 65, *ROW[1:]],
        ["A1' OR 1=1", *ROW[1:]],
        ROW[:-1],
        [*ROW, "more"],
        [],
    ],
)
def test_unreadable_row_is_skipped(bad):
    stream = RecordStream(LATIN, [rows(ROW, bad, ROW).encode()])
    assert [asset.id for asset in stream] == ["A1", "A1"]
    assert stream.unreadable == 1


@pytest.mark.parametrize("bad", [r'["A1","\x","F1","1","","doc"]', '["A1",oops,1]', '"A1"', "17", "{}", "null", ""])
@pytest.mark.parametrize("chunk", [1, 50_000])
def test_non_row_is_skipped(bad, chunk):
    body = rows(ROW, ["HERE"], ROW).replace('["HERE"]', bad).encode()
    stream = RecordStream(LATIN, (body[at : at + chunk] for at in range(0, len(body), chunk)))
    assert [asset.id for asset in stream] == ["A1", "A1"]
    assert stream.unreadable == 1


@pytest.mark.parametrize(
    ("size", "size_num", "expected"),
    [
        ("", 23, 23),
        (None, "23", 23),
        ("x", 23, 23),
        ("-1", None, None),
        ("1.5", None, None),
        (True, None, None),
        ("9" * 30, None, None),
        (float("1e300"), None, None),
        ([], None, None),
        ("²", None, None),
        ("0", 23, 0),
    ],
)
def test_a_size_is_whole_bytes_or_none(size, size_num, expected):
    (asset,) = read(rows(["A1", size, size_num], columns=["id", "size", "size_num"]))
    assert asset.size == expected


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_a_size_that_is_no_number_is_none(number):
    (asset,) = read(rows(["A1", "HERE"], columns=["id", "size"]).replace('"HERE"', number))
    assert asset.size is None


@pytest.mark.parametrize("md5", ["", None, "x" * 32, "4D43", 7])
def test_an_md5_that_is_none_is_none(md5):
    (asset,) = read(rows(["A1", md5], columns=["id", "md5hash"]))
    assert asset.md5 is None


@pytest.mark.parametrize(
    "body",
    [
        "",
        " \n ",
        "<html><body>Log in</body></html>",
        "plain text",
        "[]",
        "17",
        "null",
        '{"a":1}',
        "{}",
        '{"COLUMNS":["id"]}',
        '{"COLUMNS":["id"],"DATA":7}',
        '{"COLUMNS":["id"],"DATA":[["A1"]]}x',
        '{"COLUMNS":["id"],"DATA":[["A1"]]}{}',
        '{"COLUMNS":["id"],"DATA":[["A1"]],"DATA":[["A2"]]}',
        '{"COLUMNS":["id"],"COLUMNS":["id"],"DATA":[["A1"]]}',
        '{"COLUMNS":["id"],"DATA":[["A1"] ["A2"]]}',
        '{"COLUMNS":["name"],"DATA":[["A1"]]}',
        '{"COLUMNS":["id","size"],"DATA":{"id":["A1","A2"],"size":["1"]}}',
        '{"COLUMNS":["id","size"],"DATA":{"id":["A1"]}}',
        '{"ROWCOUNT":2,"COLUMNS":["id"],"DATA":{"id":["A1"]}}',
        'cb({"COLUMNS":["id"],"DATA":[["A1"]]}',
        '{"COLUMNS":["id"],"DATA":[' + "[" * 100_000,
        "[" * 100_000,
        "<wddxPacket><data/></wddxPacket>",
        "<wddxPacket><data><recordset rowCount='2'><field name='id'><null/></field></recordset></data></wddxPacket>",
        "<!DOCTYPE x [<!ENTITY a 'b'>]><wddxPacket>&a;</wddxPacket>",
    ],
)
def test_non_search_answer_is_a_bad_answer(body):
    with pytest.raises(BadAnswer):
        read(body, UTF8, 5000)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ('{"message":"Login not valid! Check","errorcode":"1"}', KeyRefused),
        ('{"responsecode":1,"message":"Login not valid! Check"}', KeyRefused),
        ('{"responsecode":"1","message":"no"}', ServiceRefused),
        (rows([1, "Login not valid!"], columns=["RESPONSECODE", "MESSAGE"]), KeyRefused),
        (rows(["7", "odd"], columns=["responsecode", "message"]), ServiceRefused),
        (rows(["A1", "1"], columns=["id", "responsecode"]), ServiceRefused),
        ('{"COLUMNS":["responsecode","message"],"DATA":{"responsecode":["1"],"message":["nosession"]}}', KeyRefused),
        (
            "<wddxPacket><data><struct><var name='message'><string>down</string></var></struct></data></wddxPacket>",
            ServiceRefused,
        ),
    ],
)
def test_error_answer_raises_in_each_form(body, error):
    with pytest.raises(error):
        read(body)


@pytest.mark.parametrize("name", ["search-by-id", "search-column", "search-jsonp", "search-wddx", "search-none"])
def test_cut_answer_is_never_complete(recorded, name):
    body = recorded(name).body.rstrip()
    for end in range(0, len(body), 1 if len(body) < 1500 else 7):
        with pytest.raises(ServiceError):
            read(body[:end], LATIN, 1000)


def test_cut_is_reported_after_the_sound_rows():
    stream = RecordStream(LATIN, [rows(ROW, ROW).encode()[:-5]])
    assert next(stream).id == "A1"
    with pytest.raises(BadAnswer, match="cut"):
        next(stream)


@given(st.text(alphabet='{}[]":,\\ \n01aeIdCOLUMNSDATA\u00e9', max_size=80), st.integers(1, 40))
def test_rubbish_is_an_error_or_no_rows(body, chunk):
    try:
        read(body, UTF8, chunk)
    except ServiceError:
        return
    assert '"columns"' in body.lower()


@given(st.data())
def test_damaged_answer_yields_no_bad_asset(data):
    body = bytearray(rows(ROW, ROW).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        assets = read(bytes(body))
    except ServiceError:
        return
    assert all(asset.id.isascii() and asset.id for asset in assets)


def test_a_value_without_end_is_given_up():
    endless = (b"a" * 65536 for _ in range(10 * VALUE_LIMIT // 65536))
    start = [b'{"COLUMNS":["id"],"DATA":[["']

    def chunks():
        yield from start
        yield from endless

    with pytest.raises(BadAnswer, match="longer"):
        list(RecordStream(LATIN, chunks()))


@pytest.mark.parametrize("charset", ["hex", "zip", "rot13", "no-such", "unicode_escape"])
def test_non_charset_codec_is_not_used(charset):
    (asset,) = read(rows(ROW), f"application/json;charset={charset}")
    assert asset.filename == "a.txt"


def test_100_000_rows_use_flat_memory():
    row = json.dumps(["A1", "n" * 300, "F1", "23", "4D43BA843ACD32F6E2D965968547BE63", "doc"]).encode()

    def chunks(count):
        yield rows().encode()[:-2] + row
        for _ in range(count):
            yield (b"," + row) * 100
        yield b"]}"

    tracemalloc.start()
    try:
        assert sum(1 for _ in RecordStream(LATIN, chunks(1000))) == 100_001
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000, "the most memory, in bytes"
