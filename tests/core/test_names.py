"""Names that are sent and names that are shown."""

import base64
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assetsync.core.names import (
    LONGEST_NAME,
    MAX_SENT,
    is_cut_of,
    printable,
    relative_text,
    sent_name,
    sent_names,
    shown_text,
)

file_names = st.binary(min_size=1, max_size=255).filter(lambda name: b"/" not in name and b"\0" not in name)


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        (b"photo.jpg", "photo.jpg"),
        ("Grüße 東京.jpg".encode(), "Grüße 東京.jpg"),
        (b"-rf.jpg", "-rf.jpg"),
        (b'a"b.jpg', 'a"b.jpg'),
        (b"a\nb.jpg", "a_b.jpg"),
        (b"a\\b.jpg", "a_b.jpg"),
        (b"a\x1b[31m.jpg", "a_[31m.jpg"),
        ("party🎉.jpg".encode(), "party_.jpg"),
        (b"caf\xe9.jpg", "caf_.jpg"),
        (b"...", "unnamed"),
        (b"   ", "unnamed"),
        (b"a" * 250 + b".jpeg", "a" * 185 + ".jpeg"),
        (b"a" * 100 + b"." + b"b" * 150, "a" * 100 + "." + "b" * 89),
        (b'"' * 90 + b".jpg", '"' * 62 + ".jpg"),
        (b"." + b"b" * 250, "." + "b" * 189),
    ],
)
def test_sent_name_is_safe_with_extension(name, sent):
    assert sent_name(name) == sent


def test_unicode_forms_stay_distinct():
    composed, decomposed = (unicodedata.normalize(form, "é.jpg").encode() for form in ("NFC", "NFD"))
    assert sent_name(composed) != sent_name(decomposed)


@given(file_names)
def test_sent_name_fits_limit_and_plane(name):
    sent = sent_name(name)
    assert sent.strip(". ")
    assert len(sent.replace('"', "%22")) <= LONGEST_NAME
    assert all(ord(c) <= 0xFFFF and unicodedata.category(c) not in {"Cc", "Cs"} and c not in "/\\" for c in sent)


@given(file_names, st.integers(64, MAX_SENT))
def test_each_cut_of_a_name_is_known(name, longest):
    assert {sent_name(name, longest), sent_name(name), sent_name(name, MAX_SENT)} == {*sent_names(name, longest)}
    assert all(is_cut_of(name, sent) for sent in sent_names(name, longest))
    assert not is_cut_of(name, "another.jpg")


def test_ending_is_never_cut():
    """An asset of a shorter name than the ending is not the file; comparing them ends."""
    assert not is_cut_of(b"a." + b"b" * 32, "another.jpg")
    assert is_cut_of(b" " * 70 + b"." + b" " * 20, "unnamed")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"plain \xc3\xa9", "plain é"),
        (b"a\nb\x1b[2J\x7f", "a\\nb\\x1b[2J\\x7f"),
        (b"\xff", "\ufffd"),
        ("photo\u202egpj.exe", "photo\\u202egpj.exe"),
        ("line\u2028two", "line\\u2028two"),
        ("\udc80", "\ufffd"),
    ],
)
def test_printable_text_has_no_control_effect(name, shown):
    assert printable(name) == shown


@given(st.binary())
def test_printable_text_is_one_line(name):
    shown = printable(name)
    assert len(shown.splitlines()) <= 1
    assert not any(unicodedata.category(c) == "Cc" for c in shown)
    shown.encode("utf-8")


@given(st.binary())
def test_path_round_trips_through_json(path):
    text, encoded = relative_text(path)
    assert (text.encode() if encoded is None else base64.b64decode(encoded)) == path


def test_undecodable_path_carries_its_bytes():
    assert relative_text(b"a/\xff.jpg") == ("a/\ufffd.jpg", base64.b64encode(b"a/\xff.jpg").decode())


def test_name_in_metadata_has_no_controls():
    assert shown_text(b"a\nb\xff") == "a_b\ufffd"
