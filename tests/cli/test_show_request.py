"""`--explain` shows the request of each operation and sends nothing."""

import pytest

PHOTOS = "A6CE649FAA5F434EB513CA15656AB5AA"


@pytest.fixture
def unreachable(site):
    """A site whose service and key are not there."""
    site.nowhere()
    site.key_file.unlink()
    return site


def test_search_is_shown_with_its_fields(unreachable):
    result = unreachable.run("search", "harb*", "--label", "A/B", "--show", "img", "--startrow", "26", "--explain")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [
        "POST http://127.0.0.1:9/razuna/global/api2/search.cfc?method=searchassets",
        "  searchfor  harb* AND labels:(A/B)",
        "  show       img",
        "  startrow   26",
        "  api_key    [key]",
    ]


def test_form_switches_are_in_the_address(unreachable):
    said = unreachable.run("search", "x", "--wire", "column", "--explain", "--json").only
    assert said == {
        "method": "POST",
        "address": "http://127.0.0.1:9/razuna/global/api2/search.cfc"
        "?method=searchassets&BDQUERYFORMAT=column&__BDQUERYFORMAT=column",
        "fields": {"searchfor": "x", "api_key": "[key]"},
    }


def test_all_pages_shows_the_first(unreachable):
    said = unreachable.run("search", "x", "--all-pages", "--maxrows", "50", "--explain", "--json").only
    assert (said["fields"]["startrow"], said["fields"]["maxrows"]) == ("1", "50")


def test_invalid_request_is_not_shown(unreachable):
    result = unreachable.run("search", "x", "--doctype", "pdf", "--explain")
    assert (result.code, result.out) == (2, "")
    assert "doctype" in result.err


def test_index_call_is_shown_per_batch(unreachable):
    ids = [f"{number:032X}" for number in range(250)]
    shown = unreachable.run("index", "--explain", "--json", *ids).objects
    assert [call["fields"]["assetid"] for call in shown] == [",".join(ids[:200]), ",".join(ids[200:])]
    assert all("method=searchIndex" in call["address"] for call in shown)


def test_index_all_is_shown_without_asking(unreachable):
    assert unreachable.run("index", "all", "--explain", "--json").only["fields"] == {
        "assetid": "all",
        "api_key": "[key]",
    }


def test_upload_is_shown_without_file_bytes(unreachable):
    """`--explain --json` prints the form that would be sent, with the key redacted and the file's size."""
    path = unreachable.write('a "b".jpg', b"these are the bytes")
    said = unreachable.run(
        "upload", "--folder", PHOTOS, "--meta", "location=Oslo", "--explain", "--json", str(path)
    ).only
    assert said == {
        "method": "POST",
        "address": "http://127.0.0.1:9/index.cfm",
        "fields": {
            "fa": "c.apiupload",
            "api_key": "[key]",
            "destfolderid": PHOTOS,
            "zip_extract": "0",
            "metadata": "1",
            "meta_lang_id_r": "1",
            "meta_location": "Oslo",
            "filedata": "a %22b%22.jpg (19 bytes)",
        },
    }


def test_session_token_is_shown_in_address(unreachable):
    unreachable.config.write_text(
        unreachable.config.read_text().replace("  connect_timeout", "  credential: sessiontoken\n  connect_timeout")
    )
    lines = unreachable.run("upload", "--folder", PHOTOS, "--explain", str(unreachable.write("a.jpg"))).out.splitlines()
    assert lines == [
        f"POST http://127.0.0.1:9/index.cfm?fa=c.apiupload&sessiontoken=[key]&destfolderid={PHOTOS}&zip_extract=0",
        "  filedata  a.jpg (10 bytes)",
    ]


def test_shown_request_is_not_sent(site):
    path = site.write("a.jpg")
    for words in (("search", "x"), ("index", "A1"), ("upload", "--folder", PHOTOS, str(path))):
        assert site.run(*words, "--explain").code == 0
    import httpx

    assert httpx.get(f"{site.sandbox.address}/_sandbox/log", trust_env=False).json() == {
        "upload": 0,
        "search": 0,
        "index": 0,
    }


@pytest.mark.parametrize("words", [("index", "not an id"), ("index", "all,A1"), ("index", ","), ("index", "A1", "all")])
def test_what_is_no_list_of_ids_is_exit_2(unreachable, words):
    assert unreachable.run(*words, "--explain").code == 2


def test_index_splits_many_ids_into_calls(site):
    path = site.write("a.txt")
    assetid = site.run("upload", "--folder", PHOTOS, "--json", str(path)).only["assetid"]
    others = ",".join(f"{number:032X}" for number in range(300))
    assert site.run("index", f"{assetid},{others}", assetid).code == 0
    import httpx

    assert httpx.get(f"{site.sandbox.address}/_sandbox/log", trust_env=False).json()["index"] == 2


def test_index_all_warns_even_with_yes(site):
    result = site.run("index", "all", "--yes")
    assert result.code == 0
    assert "rebuilds the whole index" in result.err
