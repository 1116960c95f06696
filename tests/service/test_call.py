"""The calls of the two search operations as values."""

import pytest

from assetsync.errors import UsageError
from assetsync.model import SearchRequest
from assetsync.service.index import index_call
from assetsync.service.search import search_call

BASE = "http://dam/razuna/"


@pytest.mark.parametrize(
    ("wire", "query"),
    [
        ("row", "method=searchassets"),
        ("column", "method=searchassets&BDQUERYFORMAT=column&__BDQUERYFORMAT=column"),
        ("jsonp", "method=searchassets&BDRETURNFORMAT=jsonp&__BDRETURNFORMAT=jsonp&callback=cb"),
        ("wddx", "method=searchassets&__BDRETURNFORMAT=wddx"),
    ],
)
def test_method_is_in_url_and_key_in_form(wire, query):
    call = search_call(SearchRequest("a b", show="img"), wire)
    assert call.address(BASE) == f"http://dam/razuna/global/api2/search.cfc?{query}"
    assert call.form("KEY") == [("searchfor", "a b"), ("show", "img"), ("api_key", "KEY")]


def test_callback_is_named_in_the_url():
    call = search_call(SearchRequest("a"), "jsonp", callback="my.show")
    assert call.address(BASE).endswith("&callback=my.show")
    with pytest.raises(UsageError, match="--callback is 'a b'"):
        search_call(SearchRequest("a"), "jsonp", callback="a b")


@pytest.mark.parametrize(
    ("ids", "field"), [(["A1"], "A1"), (["A1", "B-2"], "A1,B-2"), (["all"], "all"), (["ALL"], "all")]
)
def test_ids_are_one_field_with_commas(ids, field):
    assert index_call(ids).form("KEY") == [("assetid", field), ("api_key", "KEY")]


@pytest.mark.parametrize("ids", [[], ["all", "A1"], ["A1", "All"], ["A 1"], ["A1,B2"]])
def test_what_is_no_list_of_ids_is_an_error(ids):
    with pytest.raises(UsageError):
        index_call(ids)
