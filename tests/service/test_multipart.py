"""The bytes of an upload's form, and what the body knows of itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assetsync.errors import FileChanged, FileUnreadable, UsageError
from assetsync.model import SentExtent, UploadOptions, UploadRequest
from assetsync.service.multipart import Sending, closing, frame, sent_filename

FILE_PART = b'--b0undary\r\nContent-Disposition: form-data; name="filedata"; filename="'
FILE_TYPE = b'"\r\nContent-Type: application/octet-stream\r\n\r\n'


def part(name: str, value: str) -> bytes:
    return f'--b0undary\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()


def test_a_plain_upload_is_these_bytes(make_request):
    framed = frame(make_request("a.txt"), "KEY", 5)
    assert framed.head == (
        part("fa", "c.apiupload")
        + part("api_key", "KEY")
        + part("destfolderid", "F1")
        + part("zip_extract", "0")
        + FILE_PART
        + b"a.txt"
        + FILE_TYPE
    )
    assert framed.tail == closing("b0undary") == b"\r\n--b0undary--\r\n"
    assert framed.content_type == "multipart/form-data; boundary=b0undary"
    assert framed.length == len(framed.head) + 5 + len(framed.tail)
    assert framed.query == ""


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ('a"b.txt', b"a%22b.txt"),
        ("a\r\nX: y.txt", b"a%0D%0AX: y.txt"),
        ("a\x00\x1f\x7f.txt", b"a%00%1F%7F.txt"),
        ("a\x85.txt", b"a%C2%85.txt"),
        ("ends\\", b"ends%5C"),
        ("a/b", b"a%2Fb"),
        ("100%.txt", b"100%.txt"),
        ("Grüße 東京.jpg", "Grüße 東京.jpg".encode()),
        ("lone\udcff.txt", b"lone?.txt"),
        ("-rf; x=1.txt", b"-rf; x=1.txt"),
    ],
)
def test_tricky_name_is_sent_as_these_bytes(make_request, name, sent):
    assert frame(make_request(name), "KEY", 1).head.endswith(FILE_PART + sent + FILE_TYPE)


@given(st.text(min_size=1))
def test_no_name_breaks_out_of_its_quotes(name):
    sent = sent_filename(name)
    assert not set(sent) & set('"\r\n\0\\')
    assert sent.isprintable() or not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in sent)


def test_metadata_adds_switch_and_language(make_request):
    request = make_request(meta=(("img_description", "Über\r\nzwei"), ("location", "Tromsø")), language="2")
    head = frame(request, "KEY", 1).head
    fields = part("metadata", "1") + part("meta_lang_id_r", "2") + part("meta_img_description", "Über\r\nzwei")
    assert fields + part("meta_location", "Tromsø") + FILE_PART in head


def test_no_metadata_sends_no_switch(make_request):
    assert b"meta" not in frame(make_request(language="2"), "KEY", 1).head


def test_every_option_precedes_the_file(make_request):
    options = UploadOptions(
        zip_extract=True,
        skip_event=("on_file_add", "on_file_move"),
        upl_template="7",
        debug=True,
        emailto="a@b.c",
        redirectto="http://x/y",
        redirecttoparams="p=1",
    )
    head = frame(make_request(options=options), "KEY", 1).head
    rest = part("skip_event", "on_file_add,on_file_move") + part("debug", "1") + part("upl_template", "7")
    rest += part("emailto", "a@b.c") + part("redirectto", "http://x/y") + part("redirecttoparams", "p=1")
    assert part("zip_extract", "1") + rest + FILE_PART in head


def test_sessiontoken_body_holds_file_only(make_request):
    framed = frame(make_request(), "K Y&", 1, credential="sessiontoken")
    assert framed.query == "fa=c.apiupload&sessiontoken=K+Y%26&destfolderid=F1&zip_extract=0"
    assert framed.head == FILE_PART + b"a.txt" + FILE_TYPE


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"boundary": 'b"'}, "boundary"),
        ({"boundary": "b;x"}, "boundary"),
        ({"boundary": "x" * 71}, "boundary"),
        ({"destfolderid": "a\r\n--b0undary--"}, "destfolderid"),
        ({"meta": (("a b", "x"),)}, "a b"),
        ({"meta": (("lang_id_r", "2"),)}, "lang_id_r"),
        ({"meta": (("metacf_a.b", "x"),)}, "metacf_a.b"),
        ({"meta": (("location", "\udcff"),)}, "location"),
        ({"filename": "x--b0undary"}, "name"),
        ({"filename": ""}, "name"),
    ],
)
def test_unsendable_form_names_its_field(make_request, changes, word):
    with pytest.raises(UsageError, match=word):
        frame(make_request(**changes), "KEY", 1)


def test_non_text_key_error_omits_the_key(make_request):
    with pytest.raises(UsageError) as caught:
        frame(make_request(), "secret\udcff", 1)
    assert "secret" not in str(caught.value) + repr(caught.value)
    assert caught.value.__cause__ is None


def sending_of(body, request) -> tuple[Sending, bytes, bytes]:
    framed = frame(request, "KEY", body.size)
    return Sending(framed, body), framed.head, framed.tail


def test_a_small_body_is_one_piece(make_body, make_request):
    sending, head, tail = sending_of(make_body(b"12345"), make_request())
    assert list(sending) == [head + b"12345" + tail]
    assert sending.left is SentExtent.ALL


def test_an_empty_body_is_one_piece(make_body, make_request):
    sending, head, tail = sending_of(make_body(b""), make_request())
    assert (list(sending), sending.left) == ([head + tail], SentExtent.ALL)


def test_head_and_tail_share_file_writes(make_body, make_request):
    sending, head, tail = sending_of(make_body(b"abcdefgh", chunk=3), make_request())
    assert list(sending) == [head + b"abc", b"def", b"gh" + tail]


def test_left_is_nothing_then_part_then_all(make_body, make_request):
    sending, _, _ = sending_of(make_body(b"abcdef", chunk=3), make_request())
    seen = [sending.left]
    sending.prepare()
    seen.append(sending.left)
    seen += [sending.left for _ in sending]
    assert [*seen, sending.left] == [
        SentExtent.NOTHING,
        SentExtent.NOTHING,
        SentExtent.PART,
        SentExtent.PART,
        SentExtent.ALL,
    ]


def test_last_piece_is_partial_until_written(make_body, make_request):
    sending, _, _ = sending_of(make_body(b"abc"), make_request())
    pieces = iter(sending)
    next(pieces)
    pieces.close()
    assert sending.left is SentExtent.PART


@pytest.mark.parametrize("error", [FileChanged("it changed"), FileUnreadable("it went")])
def test_failure_at_last_chunk_is_incomplete(make_body, make_request, error):
    sending, head, _ = sending_of(make_body(b"abcdef", chunk=3, fail=error, fail_after=3), make_request())
    handed = []
    with pytest.raises(type(error)):
        handed.extend(sending)
    assert (handed, sending.left) == ([head + b"abc"], SentExtent.PART)


def test_failure_at_first_chunk_sends_nothing(make_body, make_request):
    sending, _, _ = sending_of(make_body(b"abc", fail=FileChanged("it changed")), make_request())
    with pytest.raises(FileChanged):
        sending.prepare()
    assert sending.left is SentExtent.NOTHING


@pytest.mark.parametrize(
    ("said", "left"), [(2, SentExtent.NOTHING), (5, SentExtent.PART), (3, SentExtent.NOTHING), (7, SentExtent.PART)]
)
def test_wrong_length_file_is_incomplete(make_body, make_request, said, left):
    body = make_body(b"abcdef", chunk=3)
    framed = frame(make_request(), "KEY", said)
    sending = Sending(framed, body)
    handed = []
    with pytest.raises(FileChanged, match="bytes"):
        handed.extend(sending)
    assert sending.left is left
    assert not b"".join(handed).endswith(framed.tail)


def test_a_body_is_sent_once(make_body, make_request):
    sending, _, _ = sending_of(make_body(b"abc"), make_request())
    list(sending)
    with pytest.raises(RuntimeError, match="once"):
        list(sending)


@given(st.binary(max_size=2000), st.integers(1, 300))
def test_any_chunking_yields_the_same_body(data, chunk):
    class Chunked:
        size, bytes_sent, md5 = len(data), 0, ""

        def chunks(self):
            yield from [b"", *(data[at : at + chunk] for at in range(0, len(data), chunk)), b""]

    framed = frame(UploadRequest("F1", "a.txt", "b0undary"), "KEY", len(data))
    sending = Sending(framed, Chunked())
    body = b"".join(sending)
    assert body == framed.head + data + framed.tail
    assert (len(body), sending.left) == (framed.length, SentExtent.ALL)
