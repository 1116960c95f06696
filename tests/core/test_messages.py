"""One row for each message that was seen or is documented, and what an upload makes of it."""

import re
from pathlib import Path

import pytest

from assetsync.core.outcome import MESSAGES, Reply, known_message, read_upload_answer
from assetsync.model import Answer, Fault, SentExtent

WIRE = Path(__file__).parent.parent / "wire"

# As they came (observed, "Upload"), and those of the interface's section 7 in the ways they may be written.
SEEN = [
    ("1", "Login not valid! Check user API Key and ensure with your administrator", "key_refused"),
    ("1", "nosession", "key_refused"),
    ("1", "Specified folder 'FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF' does not exist", "unknown_folder"),
    ("1", "Missing 'filedata' parameter", "no_filedata"),
    ("1", "File already exists in Razuna", "duplicate"),
    ("1", "Upload failed There was no appropriate FILE found in the upload", "empty_file"),
    ("1", "Upload failed Error at line 1, column 33 arguments.thestruct.destfolderid doesn't exist.", "error_at_line"),
    ("10001", "The content exceeds the maximum content-length of an HTTP request", "too_large"),
    ("1", "Error 10001", "too_large"),
]

MEANS = {
    "key_refused": (Answer.REFUSED, Fault.KEY),
    "unknown_folder": (Answer.REFUSED, Fault.FOLDER),
    "no_filedata": (Answer.REFUSED, Fault.FILE),
    "empty_file": (Answer.REFUSED, Fault.FILE),
    "too_large": (Answer.REFUSED, Fault.FILE),
    "duplicate": (Answer.DUPLICATE, Fault.FILE),
    "error_at_line": (Answer.DOUBT, Fault.SERVICE),
}


def outcome_of(code, message):
    body = f"<Response><responsecode>{code}</responsecode><message>{message}</message></Response>"
    return read_upload_answer(Reply(200, "application/xml", body.encode()), SentExtent.ALL)


@pytest.mark.parametrize(("code", "message", "reason"), SEEN)
def test_a_message_means_what_its_row_says(code, message, reason):
    assert known_message(code, message).reason == reason
    outcome = outcome_of(code, message)
    assert (outcome.reason, outcome.answer, outcome.fault) == (reason, *MEANS[reason])
    assert outcome.message == message
    assert outcome.detail


def test_every_row_has_been_tried():
    assert [row.reason for row in MESSAGES] == list(MEANS)
    assert {row.reason for row in MESSAGES} == {reason for _, _, reason in SEEN}


def test_every_recorded_message_is_in_a_row():
    texts = [path.read_text("utf-8") for path in WIRE.glob("upload-*.http")]
    said = [found for text in texts for found in re.findall("<message>(.*?)</message>", text, re.DOTALL)]
    said = [message.replace("&apos;", "'") for message in said if message != "success"]
    assert len(said) == 6
    assert [message for message in said if known_message("1", message) is None] == []


@pytest.mark.parametrize("row", MESSAGES, ids=lambda row: row.reason)
def test_shown_message_matches_its_own_row(row):
    assert known_message("1", row.shown.replace("…", "x")) is row


@pytest.mark.parametrize("message", ["", "Upload failed", "busy", "success", "Please log in", "Access denied"])
def test_unknown_message_is_a_doubt(message):
    assert known_message("1", message) is None
    assert (outcome_of("1", message).answer, outcome_of("1", message).reason) == (Answer.DOUBT, "unknown_message")
