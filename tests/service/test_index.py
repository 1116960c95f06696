"""The answer of searchIndex in the forms in which it was seen or documented."""

from contextlib import suppress
from itertools import chain
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assetsync.errors import BadAnswer, KeyRefused, ServiceError, ServiceRefused, UsageError
from assetsync.service.index import BATCH_COUNT, BATCH_LENGTH, batches, index_call, read_index_answer

JSON = "application/json;charset=ISO-8859-1"


@pytest.mark.parametrize("name", ["index-one", "index-all"])
def test_recorded_success_has_a_message(recorded, name):
    assert read_index_answer(JSON, recorded(name).body) == "Indexing successfully triggered"


def test_a_recorded_wrong_key_is_refused(recorded):
    with pytest.raises(KeyRefused):
        read_index_answer(JSON, recorded("index-wrong-key").body)


def test_recorded_empty_answer_is_bad(recorded):
    with pytest.raises(BadAnswer):
        read_index_answer("", recorded("index-url-too-long").body)


@pytest.mark.parametrize(
    "body",
    [
        "{responsecode:0, message:'Done, all of it'}",
        "{'responsecode':'0','message':'Done, all of it'}",
        '{"RESPONSECODE":"0","MESSAGE":"Done, all of it"}',
        '\n\n {"responsecode":0,"message":"Done, all of it",}\n',
        '{"responsecode":0.0,"message":"Done, all of it"}',
        '{responsecode: "0"; message: "Done, all of it"}',
        '{"COLUMNS":["responsecode","message"],"DATA":[[0,"Done, all of it"]]}',
    ],
)
def test_the_same_comes_out_of_each_spelling(body):
    assert read_index_answer(JSON, body.encode()) == "Done, all of it"


@pytest.mark.parametrize("body", ["{responsecode:1,message:'Login not valid! Check'}", '{"message":"nosession"}'])
def test_refused_key_is_seen_in_each_spelling(body):
    with pytest.raises(KeyRefused):
        read_index_answer(JSON, body.encode())


def test_another_code_is_refused():
    with pytest.raises(ServiceRefused, match=r'"busy" \(code 3\)') as caught:
        read_index_answer(JSON, b'{"responsecode":3,"message":"busy"}')
    assert caught.value.code == "3"


def test_an_error_object_is_refused():
    with pytest.raises(ServiceRefused, match="General SQL Error"):
        read_index_answer(JSON, b'{"message":"General SQL Error","errorcode":"errorCode.sqlError"}')


@pytest.mark.parametrize(
    "body", [b"", b"<html></html>", b"{}", b"[]", b'{"responsecode":0', b"{responsecode}", b"{" * 99]
)
def test_what_is_no_answer_is_a_bad_answer(body):
    with pytest.raises(BadAnswer):
        read_index_answer(JSON, body)


@given(st.binary(max_size=200))
def test_rubbish_index_answer_is_an_error(body):
    with suppress(ServiceError):
        read_index_answer(JSON, b"{" + body + b"}")


@given(st.lists(st.from_regex("[A-Za-z0-9-]{1,64}", fullmatch=True).filter(lambda i: i.lower() != "all"), max_size=500))
def test_batches_hold_every_id_once_in_order(ids):
    cut = list(batches(ids))
    assert list(chain.from_iterable(cut)) == list(dict.fromkeys(ids))
    for batch in cut:
        assert 1 <= len(batch) <= BATCH_COUNT
        assert len(urlencode(index_call(batch).fields)) <= BATCH_LENGTH + len("assetid=")


@pytest.mark.parametrize(
    ("length", "count", "sizes"), [(32, 450, [200, 200, 50]), (64, 210, [104, 104, 2]), (1, 36, [36]), (32, 0, [])]
)
def test_batch_is_bounded_by_count_and_length(length, count, sizes):
    alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    ids = [alphabet[number] if length == 1 else f"{number:0{length}X}" for number in range(count)]
    assert [len(batch) for batch in batches(ids)] == sizes


@pytest.mark.parametrize("ids", [["all"], ["A1", "ALL"], ["A1", "A 2"], [""]])
def test_what_is_no_id_is_in_no_batch(ids):
    with pytest.raises(UsageError, match="is not an asset id"):
        list(batches(ids))
