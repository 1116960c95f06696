"""What each answer to an upload means."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assetsync.core.outcome import (
    ANSWER_LIMIT,
    Reply,
    is_sound_id,
    read_giving_up,
    read_silence,
    read_upload_answer,
    read_upload_probe,
    refuses_key,
)
from assetsync.model import AddressProbe, Answer, Fault, SentExtent

WIRE = Path(__file__).parent.parent / "wire"
ASKED = "http://127.0.0.1:18080/razuna/done.html"
XML = "application/xml;charset=UTF-8"
SOUND = "9B8BA7A9D8EF4E2AA28FB1043D270155"


def recorded(name: str) -> Reply:
    head, _, body = (WIRE / f"{name}.http").read_bytes().partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = {key.lower(): value for key, value in (line.split(": ", 1) for line in lines if line)}
    return Reply(int(status.split()[1]), headers.get("content-type", ""), body, headers.get("location", ""))


def answer(code="0", message="success", *more: str, root="Response", name="responsecode") -> Reply:
    body = f"<{root}><{name}>{code}</{name}><message>{message}</message>{''.join(more)}</{root}>"
    return Reply(200, XML, body.encode())


def asset(assetid=SOUND) -> str:
    return f"<assetid>{assetid}</assetid><filetype>img</filetype>"


@pytest.mark.parametrize(
    ("name", "verdict", "reason", "fault"),
    [
        ("upload-success", Answer.ACCEPTED, "accepted", Fault.NONE),
        ("upload-zip", Answer.ACCEPTED, "accepted", Fault.NONE),
        ("upload-redirect", Answer.ACCEPTED, "accepted", Fault.NONE),
        ("upload-duplicate", Answer.DUPLICATE, "duplicate", Fault.FILE),
        ("upload-wrong-key", Answer.REFUSED, "key_refused", Fault.KEY),
        ("upload-redirect-wrong-key", Answer.REFUSED, "key_refused", Fault.KEY),
        ("upload-unknown-folder", Answer.REFUSED, "unknown_folder", Fault.FOLDER),
        ("upload-no-filedata", Answer.REFUSED, "no_filedata", Fault.FILE),
        ("upload-empty-file", Answer.REFUSED, "empty_file", Fault.FILE),
        ("upload-no-destfolderid", Answer.DOUBT, "error_at_line", Fault.SERVICE),
        ("upload-database-down", Answer.DOUBT, "unreadable_answer", Fault.SERVICE),
    ],
)
def test_a_recorded_answer_gives_its_verdict(name, verdict, reason, fault):
    outcome = read_upload_answer(recorded(name), SentExtent.ALL, redirectto=ASKED)
    assert (outcome.answer, outcome.reason, outcome.fault) == (verdict, reason, fault)


def test_every_recorded_upload_is_in_table():
    named = {row[0] for row in test_a_recorded_answer_gives_its_verdict.pytestmark[0].args[1]}
    assert named == {path.stem for path in WIRE.glob("upload-*.http")}


def test_a_success_carries_id_type_and_code():
    outcome = read_upload_answer(recorded("upload-success"), SentExtent.ALL)
    assert (outcome.assetid, outcome.filetype, outcome.responsecode, outcome.message) == (
        "C93B9F71C23B45D0B1A03DE621A35B47",
        "img",
        "0",
        "success",
    )


def test_duplicate_file_name_is_never_an_id():
    assert read_upload_answer(recorded("upload-duplicate"), SentExtent.ALL).assetid is None
    assert read_upload_answer(answer("1", "File already exists in Razuna", asset()), SentExtent.ALL).assetid is None


@pytest.mark.parametrize(
    "reply",
    [
        answer("0", "success", asset(), name="Response", root="xml"),
        answer("0", "success", asset(), name="response"),
        answer("0", "success", asset(), name="RESPONSECODE", root="RESPONSE"),
        answer(" 0 \n", "success", asset(f"\n {SOUND} ")),
        answer("<![CDATA[0]]>", "<![CDATA[success]]>", asset(f"<![CDATA[{SOUND}]]>")),
        Reply(200, XML, b"\r\n\r\n" + answer("0", "x", asset()).body + b"\n\n\n"),
        Reply(200, XML, b"\xef\xbb\xbf" + answer("0", "x", asset()).body),
        Reply(200, "text/html", answer("0", "x", asset()).body),
    ],
)
def test_a_success_is_accepted_in_each_form(reply):
    outcome = read_upload_answer(reply, SentExtent.ALL)
    assert (outcome.answer, outcome.assetid) == (Answer.ACCEPTED, SOUND)


BOMB = (
    b'<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    b"<Response><responsecode>0</responsecode><message>&b;</message><assetid>ABC</assetid></Response>"
)


@pytest.mark.parametrize(
    "reply",
    [
        answer("0", "success"),
        answer("0", "success", "<assetid></assetid>"),
        answer("0", "success", asset("t1.png")),
        answer("0", "success", asset("A" * 65)),
        answer("0", "success", asset("A B")),
        answer("0", "success", asset("Ä1")),
        answer("0", "success", asset("A/../B")),
        answer("0", "success", asset("<b>A</b>")),
        answer("0", "success", asset(), "<assetid>OTHER</assetid>"),
        answer("0", "success", asset(), "<AssetID>OTHER</AssetID>"),
        answer("0", "success", asset(), "<Response>1</Response>"),
        answer("0", "success", asset(), "<responsecode>0</responsecode>"),
        answer("0", "File already exists in Razuna", asset()),
        answer("0", "Login not valid!", asset()),
        answer("", "success", asset()),
        answer("00", "success", asset()),
        answer("2", "something new", asset()),
        answer("1", "Upload failed Error at line 10001, column 3"),
        answer("1", "Upload failed Error at line 1, error 10001"),
        answer("1", "wrote 10001 bytes"),
        answer("1", "Upload failed"),
        answer("1", "the Specified folder 'x' does not exist"),
        Reply(200, XML, b""),
        Reply(200, XML, b" \n "),
        Reply(200, XML, BOMB),
        Reply(200, XML, b"<!DOCTYPE Response>" + answer("0", "x", asset()).body),
        Reply(200, XML, answer("0", "x", asset()).body * 2),
        Reply(200, XML, answer("0", "x", asset()).body + b"<p/>"),
        Reply(200, XML, answer("0", "x", asset()).body[:-1]),
        Reply(200, XML, b'<?xml version="1.0" encoding="no-such"?>' + answer("0", "x", asset()).body),
        Reply(200, "text/html", b"<html><body>Please log in</body></html>"),
        Reply(200, "application/json", b'{"responsecode":0,"assetid":"ABC"}'),
        Reply(200, XML, b"x" * (ANSWER_LIMIT + 1)),
        Reply(200, XML, answer("0", "x", asset()).body + b" " * ANSWER_LIMIT),
        Reply(204, XML, b""),
        Reply(413, XML, answer("1", "Error 10001").body),
        Reply(401, XML, answer("1", "Login not valid!").body),
        Reply(500, XML, answer("0", "success", asset()).body),
        Reply(100, XML, answer("0", "success", asset()).body),
    ],
)
@pytest.mark.parametrize("left", [SentExtent.ALL, SentExtent.PART])
def test_unknown_answer_is_doubt_without_id(reply, left):
    outcome = read_upload_answer(reply, left)
    assert (outcome.answer, outcome.assetid) == (Answer.DOUBT, None)
    assert outcome.reason
    assert outcome.detail
    assert read_upload_answer(reply, SentExtent.NOTHING).answer is Answer.UNSENT


@pytest.mark.parametrize(
    ("code", "message", "reason"),
    [
        ("10001", "whatever", "too_large"),
        ("1", "10001", "too_large"),
        ("1", "Error 10001: too large", "too_large"),
        ("1", "Upload failed: error code: 10001", "too_large"),
        ("1", "Specified folder '10001' does not exist", "unknown_folder"),
        ("1", "login  not\nvalid! Check user API Key", "key_refused"),
        ("1", "nosession", "key_refused"),
        ("3", "Missing 'filedata' parameter", "no_filedata"),
    ],
)
@pytest.mark.parametrize("left", list(SentExtent))
def test_explicit_refusal_is_always_believed(code, message, reason, left):
    outcome = read_upload_answer(answer(code, message), left)
    assert (outcome.answer, outcome.reason) == (Answer.REFUSED, reason)


def test_success_of_partial_is_doubt():
    part = read_upload_answer(recorded("upload-success"), SentExtent.PART)
    assert (part.answer, part.reason, part.assetid) == (Answer.DOUBT, "success_of_part", None)
    assert read_upload_answer(recorded("upload-success"), SentExtent.NOTHING).answer is Answer.UNSENT


def test_duplicate_of_partial_is_doubt():
    part = read_upload_answer(recorded("upload-duplicate"), SentExtent.PART)
    assert (part.answer, part.reason) == (Answer.DOUBT, "duplicate_of_part")


GOOD = f"responsecode=0&message=success&assetid={SOUND}&filetype=img"


@pytest.mark.parametrize(
    ("asked", "location"),
    [
        (ASKED, f"{ASKED}?{GOOD}"),
        (ASKED, f"{ASKED};jsessionid=A1?{GOOD}"),
        (ASKED, f"{ASKED}?{GOOD}&param1=value1"),
        (f"{ASKED}?x=1", f"{ASKED}?x=1&{GOOD}"),
        (f"{ASKED}?x=1", f"{ASKED};jsessionid=A1?x=1?{GOOD}"),
        (f"{ASKED}?assetid=FORGED", f"{ASKED}?assetid=FORGED&{GOOD}"),
    ],
)
def test_query_appended_by_service_is_read(asked, location):
    outcome = read_upload_answer(Reply(302, location=location), SentExtent.ALL, redirectto=asked)
    assert (outcome.answer, outcome.assetid, outcome.filetype) == (Answer.ACCEPTED, SOUND, "img")


@pytest.mark.parametrize(
    ("asked", "location"),
    [
        (None, f"{ASKED}?{GOOD}"),
        (ASKED, ""),
        (ASKED, ASKED),
        (ASKED, f"http://elsewhere/done.html?{GOOD}"),
        (ASKED, f"{ASKED}.evil?{GOOD}"),
        (ASKED, f"{ASKED}/../x?{GOOD}"),
        (ASKED, f"{ASKED}?x=1&{GOOD}"),
        (ASKED, f"{ASKED}?{GOOD}&assetid=OTHER"),
        (ASKED, f"{ASKED}?{GOOD}&ASSETID=OTHER"),
        (ASKED, f"{ASKED}?responsecode=1&message=odd&responsecode=0&assetid={SOUND}"),
        (f"{ASKED}?{GOOD}", f"{ASKED}?{GOOD}"),
        (f"{ASKED}?{GOOD}", f"{ASKED};jsessionid=A1?{GOOD}"),
        (f"{ASKED}?{GOOD}", f"{ASKED}?{GOOD}&responsecode=1&message=odd"),
        (ASKED, f"{ASKED}?responsecode=0&message=success&assetid=t1.png"),
    ],
)
def test_forged_redirect_is_doubt(asked, location):
    outcome = read_upload_answer(Reply(302, location=location), SentExtent.ALL, redirectto=asked)
    assert (outcome.answer, outcome.assetid) == (Answer.DOUBT, None)


def test_refusal_wins_over_forged_success():
    location = f"{ASKED}?{GOOD}&responsecode=1&message=nosession"
    outcome = read_upload_answer(Reply(302, location=location), SentExtent.ALL, redirectto=f"{ASKED}?{GOOD}")
    assert (outcome.answer, outcome.reason) == (Answer.REFUSED, "key_refused")


def test_retry_after_is_kept_in_doubt():
    outcome = read_upload_answer(Reply(503, retry_after=30.0), SentExtent.ALL)
    assert (outcome.answer, outcome.reason, outcome.retry_after) == (Answer.DOUBT, "http_status", 30.0)


PAGE = b"<html><body>Internal Server Error</body></html>"


@pytest.mark.parametrize(
    "reply",
    [
        answer("0", "success", asset()),
        answer("0", "success"),
        answer("1", "Upload failed Error at line 7"),
        answer("1", "File already exists in Razuna"),
        answer("2", "something new"),
        Reply(500, "text/html", PAGE, is_delimited=True),
        Reply(500, "text/html", b"<html>no end", is_delimited=True),
        # The live service closes its connections: a document that is closed was not cut.
        Reply(500, "text/html", PAGE + b"\r\n"),
        Reply(500, XML, answer("1", "failed").body),
        Reply(413, "text/html", PAGE, is_delimited=True),
        Reply(429, retry_after=30.0, is_delimited=True),
    ],
)
def test_complete_final_answer_counts_as_answered(reply):
    assert read_upload_answer(reply, SentExtent.ALL).answered
    for left in (SentExtent.PART, SentExtent.NOTHING):
        assert not read_upload_answer(reply, left).answered


@pytest.mark.parametrize(
    "reply",
    [
        *(
            Reply(status, XML, answer("1", "failed").body, is_delimited=True)
            for status in (502, 503, 504, 404, 400, 408)
        ),
        Reply(200, "text/html", PAGE, is_delimited=True),
        Reply(200, is_delimited=True),
        Reply(500, is_delimited=True),
        Reply(200, XML, answer("1", "failed").body[:-1], is_delimited=True),
        Reply(200, XML, b"<Response><message>failed</message></Response>", is_delimited=True),
        Reply(500),
        Reply(500, "text/html", PAGE[:-1]),
        Reply(500, "text/plain", b"Internal Server Error"),
        Reply(500, XML, answer("1", "failed").body[:-1]),
        Reply(500, "text/html", b" " * ANSWER_LIMIT + PAGE, is_delimited=True),
        Reply(429),
        Reply(302, location=f"{ASKED}?responsecode=1&message=odd", is_delimited=True),
    ],
)
def test_any_other_reply_is_no_answer(reply):
    assert not read_upload_answer(reply, SentExtent.ALL, redirectto=ASKED).answered


def test_silence_is_no_answer():
    assert not read_silence(SentExtent.ALL, "reset").answered


def test_long_texts_of_the_service_are_cut():
    outcome = read_upload_answer(
        answer("1", "m" * 10_000, "<comingfrom>" + "c" * 10_000 + "</comingfrom>"), SentExtent.ALL
    )
    assert max(len(outcome.message), len(outcome.comingfrom), len(outcome.detail)) < 1000


def test_silence_is_judged_by_what_left():
    verdicts = [(read_silence(left, "reset").answer, read_silence(left, "reset").reason) for left in SentExtent]
    assert verdicts == [(Answer.UNSENT, "unsent"), (Answer.DOUBT, "no_answer"), (Answer.DOUBT, "no_answer")]


@pytest.mark.parametrize(
    ("left", "changed", "verdict", "reason"),
    [
        (SentExtent.NOTHING, True, Answer.UNSENT, "changed"),
        (SentExtent.NOTHING, False, Answer.UNSENT, "unreadable"),
        (SentExtent.PART, True, Answer.DOUBT, "changed_while_sent"),
        (SentExtent.PART, False, Answer.DOUBT, "unreadable_while_sent"),
    ],
)
def test_abandoned_file_is_judged_by_extent(left, changed, verdict, reason):
    outcome = read_giving_up(left, "the file changed", changed=changed)
    assert (outcome.answer, outcome.reason, outcome.fault) == (verdict, reason, Fault.FILE)


def test_truncated_success_is_never_accepted():
    whole = recorded("upload-success").body.rstrip()
    for end in range(len(whole)):
        assert read_upload_answer(Reply(200, XML, whole[:end]), SentExtent.ALL).answer is Answer.DOUBT


@given(st.binary(max_size=300), st.integers(100, 599), st.sampled_from(list(SentExtent)))
def test_rubbish_is_never_a_verdict(body, status, left):
    outcome = read_upload_answer(Reply(status, XML, body), left)
    assert outcome.answer is (Answer.UNSENT if left is SentExtent.NOTHING else Answer.DOUBT)


@given(st.data())
def test_corrupted_success_never_has_bad_id(data):
    body = bytearray(recorded("upload-success").body)
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    outcome = read_upload_answer(Reply(200, XML, bytes(body)), SentExtent.ALL)
    assert (outcome.assetid is not None) == (outcome.answer is Answer.ACCEPTED)
    assert outcome.assetid is None or is_sound_id(outcome.assetid)


@given(st.text(), st.text())
def test_requested_query_never_becomes_an_id(tail, query):
    asked = f"{ASKED}?{query}"
    outcome = read_upload_answer(Reply(302, location=asked + tail), SentExtent.ALL, redirectto=asked)
    assert outcome.answer is not Answer.ACCEPTED or "responsecode=0" in tail.lower()


@pytest.mark.parametrize("body", [b"<a>" * 200_000, b"<" * 1_000_000, b"&" * 1_000_000, b"\x00" * 10_000_000])
def test_large_rubbish_is_doubt(body):
    assert read_upload_answer(Reply(200, XML, body), SentExtent.ALL).answer is Answer.DOUBT


def test_key_message_is_known_everywhere():
    assert refuses_key("Login not valid! Check user API Key and ensure …")
    assert not refuses_key("Your last login not valid!")


@pytest.mark.parametrize(
    ("status", "begins"),
    [
        (413, "refused by a proxy: 413, 2.0 MB"),
        (431, "refused by a proxy: 431"),
        (504, "the answer was HTTP status 504 (a proxy before the service timed out)"),
        (500, "the answer was HTTP status 500"),
    ],
)
def test_detail_explains_the_http_status(status, begins):
    detail = read_upload_answer(Reply(status, "text/html", b"<html>"), SentExtent.ALL, size=2_000_000).detail
    assert detail.startswith(f"{begins}; all of the upload had been sent")


@pytest.mark.parametrize(
    ("status", "reason"),
    [(413, "too_large_for_proxy")]
    + [(status, "refused_by_proxy") for status in (411, 414, 431, 501)]
    + [(status, "http_status") for status in (502, 503, 504, 400, 408, 429)],
)
@pytest.mark.parametrize("left", [SentExtent.PART, SentExtent.ALL])
def test_status_of_a_proxy_has_its_own_reason(status, reason, left):
    outcome = read_upload_answer(Reply(status, "text/html", b"<html>"), left)
    assert (outcome.answer, outcome.reason) == (Answer.DOUBT, reason)


# ── the probe of an address ──

PAGE = b"<!DOCTYPE html>\n<html><body>Login</body></html>"


@pytest.mark.parametrize(
    ("reply", "is_right", "detail"),
    [
        (recorded("upload-no-filedata"), True, ""),
        (recorded("upload-success"), True, ""),
        (Reply(302, location="/login.cfm"), False, "the answer was an unexpected redirect (HTTP status 302)"),
        (Reply(200, "text/html;charset=ISO-8859-1", PAGE), False, "the answer was an HTML page, not the service's XML"),
        (recorded("search-no-method"), False, "the answer was HTTP status 500"),
        (Reply(404, "text/plain", b"Not Found"), False, "the answer was HTTP status 404"),
        (Reply(403, "text/html", PAGE), False, "the answer was HTTP status 403"),
        (Reply(502, "text/html", PAGE), None, ""),
        (Reply(503, "text/html", PAGE), None, ""),
        (Reply(429, "text/html", PAGE), None, ""),
        (Reply(500, "text/plain", b""), None, ""),
        (Reply(200, "application/xml", b'<?xml version="1.0"?>\n<Response><responsecode>1'), None, ""),
        (Reply(200, "", b""), None, ""),
    ],
)
def test_answer_to_probe_judges_the_address(reply, is_right, detail):
    assert read_upload_probe(reply) == AddressProbe(is_right, detail)


def test_probe_shows_a_refused_key():
    assert read_upload_probe(recorded("upload-wrong-key")) == AddressProbe(is_right=True, key_refused=True)
