"""The rules of searchassets' parameters."""

import pytest

from assetsync.errors import UsageError
from assetsync.model import SearchRequest
from assetsync.service.search import form_of

START = "2026-11-21 02:45:02"
STOP = "2026-11-22 00:00:00"


@pytest.mark.parametrize(
    ("request_", "fields"),
    [
        (SearchRequest("note"), [("searchfor", "note")]),
        (SearchRequest("x", folderid="F-1,F2"), [("searchfor", "x"), ("folderid", "F-1,F2")]),
        # Whatever the configuration takes for a destfolderid.
        (SearchRequest("x", folderid="f_1"), [("searchfor", "x"), ("folderid", "f_1")]),
        (SearchRequest("x", maxrows=0), [("searchfor", "x"), ("maxrows", "0")]),
        (SearchRequest("x", show="doc", doctype="pdf"), [("searchfor", "x"), ("show", "doc"), ("doctype", "pdf")]),
        (SearchRequest("x", datecreate="2026-02-28"), [("searchfor", "x"), ("datecreate", "2026-02-28")]),
        (SearchRequest("x", datechange="20240229"), [("searchfor", "x"), ("datechange", "20240229")]),
        (
            SearchRequest("x", datecreaterange="20260101 TO 20260101"),
            [("searchfor", "x"), ("datecreaterange", "20260101 TO 20260101")],
        ),
        (
            SearchRequest("x", sortby="sizedesc", available="0", startrow=26, maxrows=25, showrenditions=False),
            [
                ("searchfor", "x"),
                ("sortby", "sizedesc"),
                ("available", "0"),
                ("startrow", "26"),
                ("maxrows", "25"),
                ("showrenditions", "false"),
            ],
        ),
        (
            SearchRequest("%", dbdirect=True, datecreateparam="=>", datecreatestart=START),
            [("searchfor", "%"), ("datecreateparam", "=>"), ("datecreatestart", START), ("dbdirect", "true")],
        ),
        (
            SearchRequest("%", dbdirect=True, datechangeparam="between", datechangestart=START, datechangestop=STOP),
            [
                ("searchfor", "%"),
                ("datechangeparam", "between"),
                ("datechangestart", START),
                ("datechangestop", STOP),
                ("dbdirect", "true"),
            ],
        ),
    ],
)
def test_a_sound_request_is_these_fields(request_, fields):
    assert form_of(request_) == fields


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("searchfor", {"searchfor": " "}),
        ("folderid", {"folderid": "a b"}),
        ("folderid", {"folderid": "a,"}),
        ("show", {"show": "image"}),
        ("show", {"show": "img", "dbdirect": True}),
        ("show", {"show": "doc", "doctype": "pdf", "dbdirect": True}),
        ("doctype", {"show": "doc", "doctype": "odt"}),
        ("doctype", {"doctype": "pdf"}),
        ("doctype", {"show": "img", "doctype": "pdf"}),
        ("doctype", {"doctype": "", "dbdirect": True}),
        ("datecreate", {"datecreate": "2026-02-30"}),
        ("datecreate", {"datecreate": "21.11.2026"}),
        ("datecreate", {"datecreate": "2026-1121"}),
        ("datechange", {"datechange": "20261301"}),
        ("datecreaterange", {"datecreaterange": "2026-01-01 TO 2026-02-01"}),
        ("datecreaterange", {"datecreaterange": "20260101 to 20260201"}),
        ("datecreaterange", {"datecreaterange": "20260201 TO 20260101"}),
        ("datechangerange", {"datechangerange": "20260101 TO 20260231"}),
        ("sortby", {"sortby": "size"}),
        ("available", {"available": "true"}),
        ("startrow", {"startrow": 0}),
        ("maxrows", {"maxrows": -1}),
        ("datecreateparam", {"datecreateparam": ">=", "dbdirect": True, "datecreatestart": START}),
        ("datecreateparam", {"datecreateparam": ">", "datecreatestart": START}),
        ("datecreateparam", {"dbdirect": True, "datecreatestart": START}),
        ("datecreatestart", {"datecreatestart": START}),
        ("datecreatestart", {"dbdirect": True, "datecreateparam": ">"}),
        ("datecreatestart", {"dbdirect": True, "datecreateparam": ">", "datecreatestart": "2026-11-21"}),
        ("datechangestop", {"dbdirect": True, "datechangeparam": "between", "datechangestart": START}),
        (
            "datechangestop",
            {"dbdirect": True, "datechangeparam": ">", "datechangestart": START, "datechangestop": STOP},
        ),
        (
            "datechangestop",
            {"dbdirect": True, "datechangeparam": "between", "datechangestart": STOP, "datechangestop": START},
        ),
    ],
)
def test_a_wrong_parameter_is_named(name, parameters):
    with pytest.raises(UsageError) as caught:
        form_of(SearchRequest(**({"searchfor": "x"} | parameters)))
    assert str(caught.value).split()[0] == ("TERM" if name == "searchfor" else f"--{name}")
