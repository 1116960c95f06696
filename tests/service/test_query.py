"""Queries for the index and patterns for the database."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assetsync.errors import UsageError
from assetsync.service.multipart import sent_filename
from assetsync.service.search import all_of, custom_field, field, ids_query, labels, like_pattern, term


def like(pattern: str, name: str) -> bool:
    """SQL's LIKE, case-insensitive."""
    parts = {"%": ".*", "_": "."}
    expression = "".join(parts.get(char, re.escape(char)) for char in pattern)
    return re.fullmatch(expression, name, re.DOTALL | re.IGNORECASE) is not None


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (ids_query(["A1"]), "id:A1"),
        (ids_query(["A1", "B-2"]), "id:A1 OR id:B-2"),
        (term("harbour dawn"), "harbour dawn"),
        (term("a(b) AND c"), r"a\(b\) \AND c"),
        (field("keywords", "dawn"), "keywords:dawn"),
        (field("description", "old harbour"), "description:(old harbour)"),
        (field("description", "a:b"), r"description:a\:b"),
        (labels("Harbour"), "labels:(Harbour)"),
        (labels("Ports/Old Harbour"), "labels:(Ports/Old+Harbour)"),
        (labels("one", "two"), "labels:(one),(two)"),
        (custom_field("C1", "red"), "customfieldvalue:(+C1 +red)"),
        (custom_field("C1", "red", "blue"), "customfieldvalue:(+C1 +red +blue)"),
        (custom_field("C1", "dark red"), 'customfieldvalue:(+C1 +"dark red")'),
        (
            all_of(custom_field("C1", "a"), custom_field("C2", "b")),
            "customfieldvalue:(+C1 +a) AND customfieldvalue:(+C2 +b)",
        ),
    ],
)
def test_a_query_is_written_so(query, expected):
    assert query == expected


@pytest.mark.parametrize(
    "build",
    [
        lambda: ids_query([]),
        lambda: ids_query(["A1 OR id:B"]),
        lambda: ids_query(["A" * 65]),
        lambda: term("  "),
        lambda: field("a:b", "c"),
        labels,
        lambda: labels(""),
        lambda: custom_field("C1"),
        lambda: custom_field("C 1", "x"),
        all_of,
        lambda: all_of("a", " "),
    ],
)
def test_unsearchable_value_is_an_error(build):
    with pytest.raises(UsageError):
        build()


@given(st.text(min_size=1).filter(str.strip))
def test_a_term_holds_no_bare_syntax(text):
    bare = re.sub(r"\\.", "", term(text), flags=re.DOTALL)
    assert not set(bare) & set('+-&|!(){}[]^"~*?:\\/')
    assert not set(bare.split(" ")) & {"AND", "OR", "NOT"}


@given(st.text(min_size=1).filter(str.strip))
def test_a_term_loses_no_character(text):
    assert re.sub(r"\\(.)", r"\1", term(text), flags=re.DOTALL) == " ".join(text.split())


@given(st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=4))
def test_labels_are_one_bracketed_group_each(names):
    bare = re.sub(r"\\.", "", labels(*names), flags=re.DOTALL)
    assert bare.count("(") == bare.count(")") == len(names)


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("note.txt", "note.txt"),
        ("a b_c-d.txt", "a_b_c-d.txt"),
        ("100%.txt", "100_.txt"),
        ("Grüße 東京.jpg", "_r%e_%.jpg"),
        ("IMG_1234.JPG", "____1234.___"),
        ("日本語.jpg", "%.jpg"),
        ("a%22b.txt", "a_22b.txt"),
        ('a"b', "a%b"),
    ],
)
def test_a_pattern_is_written_so(name, pattern):
    assert like_pattern(name) == pattern


def as_kept(name: str) -> list[str]:
    """The ways in which a name was seen to come back."""
    return [name, sent_filename(name), name.encode("latin-1", "replace").decode("latin-1"), name.upper()]


@given(st.text(min_size=1))
def test_pattern_matches_every_name_form(name):
    pattern = like_pattern(name)
    assert all(like(pattern, kept) for kept in as_kept(name))


@given(st.text(min_size=1))
def test_pattern_needs_no_escaping(name):
    assert re.fullmatch(r"[A-Za-z0-9.%_-]+", like_pattern(name))
