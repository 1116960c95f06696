"""Parameters of a search, and settings that make it answer as other releases do."""

import pytest

PICTURE, SONG, FILM, NOTE, TABLE = "a.png", "a.mp3", "a.mp4", "a.txt", "a.xlsx"


@pytest.fixture(params=["observed", "documented"])
def dialect(request):
    return request.param


@pytest.fixture
def kinds(make_caller, dialect, clock, picture):
    """One asset of each kind, a minute apart, larger from one to the next."""
    caller = make_caller(dialect=dialect, clock=clock)
    for number, name in enumerate((TABLE, NOTE, SONG, FILM, PICTURE)):
        caller.upload(name, picture(40, 20, 100 + number) if name == PICTURE else bytes(100 + number))
        clock.seconds += 60
    return caller


@pytest.mark.parametrize(
    ("show", "names"),
    [("all", {PICTURE, SONG, FILM, NOTE, TABLE}), ("img", {PICTURE}), ("vid", {FILM}), ("aud", {SONG}),
     ("doc", {NOTE, TABLE}), (None, {PICTURE, SONG, FILM, NOTE, TABLE})],
)  # fmt: skip
def test_show_narrows_to_a_kind(kinds, show, names):
    assert set(kinds.names("a", show=show)) == names


@pytest.mark.parametrize(
    ("doctype", "show", "names"),
    [("xls", "doc", {TABLE}), ("other", "doc", {NOTE}), ("pdf", "doc", set()), ("doc", "doc", set()),
     ("", "doc", {NOTE, TABLE}), ("xls", "img", {PICTURE})],
)  # fmt: skip
def test_doctype_narrows_documents_alone(kinds, doctype, show, names):
    assert set(kinds.names("a", show=show, doctype=doctype)) == names


@pytest.mark.parametrize(
    ("sortby", "names"),
    [
        ("name", [SONG, FILM, PICTURE, NOTE, TABLE]),
        ("sizeasc", [TABLE, NOTE, SONG, FILM, PICTURE]),
        ("sizedesc", [PICTURE, FILM, SONG, NOTE, TABLE]),
        ("dateadd", [PICTURE, FILM, SONG, NOTE, TABLE]),
        ("datechanged", [PICTURE, FILM, SONG, NOTE, TABLE]),
    ],
)
def test_every_order_is_kept_by_the_database(kinds, sortby, names):
    assert kinds.names("a.%", dbdirect="true", sortby=sortby) == names


@pytest.mark.parametrize(
    ("sortby", "names"), [("name", [NOTE, TABLE]), ("sizeasc", [TABLE, NOTE]), ("dateadd", [NOTE, TABLE])]
)
def test_index_keeps_every_order_per_kind(kinds, sortby, names):
    assert kinds.names("a", show="doc", sortby=sortby) == names


def test_available_is_ignored_when_observed(make_caller, dialect, clock):
    caller = make_caller(dialect=dialect, processing_delay=60, clock=clock)
    caller.upload()
    expected = {"observed": (1, 1), "documented": (0, 1)}[dialect]
    counts = tuple(len(caller.found("%", dbdirect="true", available=available)) for available in ("1", "0"))
    assert counts == expected


@pytest.mark.parametrize(("given", "rows"), [(None, 2), ("true", 2), ("false", 1)])
@pytest.mark.parametrize("dbdirect", ["true", "false"])
def test_showrenditions_leaves_them_out(make_caller, dialect, picture, given, rows, dbdirect):
    caller = make_caller(dialect=dialect, renditions=True)
    caller.upload("a.png", picture(40, 20, 100))
    found = caller.found("a.png" if dbdirect == "true" else "a", dbdirect=dbdirect, showrenditions=given)
    assert len(found) == len({row["id"] for row in found}) == rows
    assert [row["width"] for row in found] == [40, 20][:rows]


def test_only_pictures_have_renditions(make_caller):
    caller = make_caller(renditions=True)
    caller.upload("a.txt")
    assert len(caller.found("a")) == 1


@pytest.mark.parametrize(
    ("counts", "start", "names"),
    [("row", "2", ["row 1", "row 2", "row 3"]), ("page", "2", ["row 3", "row 4", "row 5"]),
     ("page", "1", ["row 0", "row 1", "row 2"]), ("page", "4", [])],
)  # fmt: skip
def test_startrow_counts_rows_or_pages(make_caller, dialect, counts, start, names):
    caller = make_caller(dialect=dialect, startrow=counts)
    for number in range(8):
        caller.upload(f"row {number}.txt")
    found = caller.names("row", show="doc", startrow=start, maxrows="3")
    assert [name.removesuffix(".txt") for name in found] == names


def test_twice_setting_doubles_index_rows(make_caller, dialect):
    caller = make_caller(dialect=dialect, twice=True)
    ids = [caller.uploaded(f"row {number}.txt") for number in range(3)]
    found = caller.found("row", show="doc")
    assert [row["id"] for row in found] == [each for each in ids for _ in range(2)]
    assert {row["totalassetscount"] for row in found} == {6}
    assert len(caller.found("row", show="doc", maxrows="3")) == 3
    assert len(caller.found("%", dbdirect="true")) == 3


@pytest.mark.parametrize("wrong", ["pages", ""])
def test_a_setting_that_is_none_is_refused(make_caller, wrong):
    with pytest.raises(ValueError, match="startrow"):
        make_caller(startrow=wrong)


@pytest.mark.parametrize(
    ("searchfor", "found"),
    [
        (r"labels:(R\&D\+\(1\))", True),
        (r"labels:(R\&D\+\(2\))", False),
        ('customfieldvalue:(+77 +"dark  blue")', True),
        ('customfieldvalue:(+77 +"a (b) \\"c\\"")', True),
        (r"customfieldvalue:(+77 +x\+y)", True),
        ("customfieldvalue:(+77 +dark)", False),
        (r"star\*dust", True),
        (r"star\*d*", True),
        (r"star\*d\*", False),
        (r"\*lead", True),
    ],
)
def test_escapes_and_quotes_disable_syntax(caller, searchfor, found):
    caller.upload(
        "a.png",
        metadata="1",
        meta_labels="R&D+(1)",
        meta_img_description="star*dust *lead",
        metacf_77='dark blue,a (b) "c",x+y',
    )
    assert bool(caller.found(searchfor)) is found


def test_pdf_keeps_its_own_metadata(make_caller):
    caller = make_caller(pdf_keeps_own=True)
    said = {"metadata": "1", "meta_lang_id_r": "1", "meta_file_desc": "sent", "meta_file_keywords": "sent"}
    for name, content in (("a.pdf", b"%PDF /Subject(its own)"), ("b.pdf", b"%PDF"), ("c.txt", b"text")):
        caller.upload(name, content, **said)
    found = {row["filename"]: (row["description"], row["keywords"]) for row in caller.found("%", dbdirect="true")}
    assert found == {"a.pdf": ("its own", ""), "b.pdf": ("", ""), "c.txt": ("sent", "sent")}
