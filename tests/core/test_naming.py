"""Whether a name that came back may be the one that was sent."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assetsync.core.names import PossibleNames, ShownNames, is_exactly, is_others, is_shown_as, may_be, shown_patterns
from assetsync.service.search import like_pattern


# Sent, shown: what a live installation made of names (observed), and what it did not.
@pytest.mark.parametrize(
    ("sent", "shown", "expected"),
    [
        ("a.jpg", "a.jpg", True),
        ("a.jpg", "A.JPG", True),
        ("Grüße 東京.jpg", "Grue_.jpg", True),
        ("Grüße 東京.jpg", "Gr??e ??.jpg", True),
        ("Grüße.jpg", "Grusse.jpg", True),
        ("a b.jpg", "a_b.jpg", True),
        ("日本語.jpg", ".jpg", True),
        ('a"b.jpg', "a%22b.jpg", True),
        ("é", "", True),
        ("a.jpg", "b.jpg", False),
        ("a.jpg", "a.jpg.bak", False),
        ("a.jpg", "xa.jpg", False),
        ("a+b.jpg", "a+b.jpg", True),
        ("a\nb", "a\nb", True),
        ("été.jpg", "t.jpg", True),
        ("été.jpg", "e.jpg", False),
        ("a  b.jpg", "a  b.jpg", True),
        ("a  b.jpg", "a b.jpg", True),
        ("a b.jpg", "a  b.jpg", False),
        ("a   b é.jpg", "a b e.jpg", True),
    ],
)
def test_name_may_be_rewritten_by_service(sent, shown, expected):
    assert may_be(sent, shown) is expected


@pytest.mark.parametrize(
    ("sent", "shown", "expected"),
    [
        ("a.jpg", "A.jpg", True),
        ("a b.jpg", "a_b.jpg", True),
        ('a"é日.jpg', "a%22é?.jpg", True),
        ("日.txt", "?.txt", True),
        ("日.txt", "???.txt", True),
        ("日.txt", "_.txt", True),
        ("日.txt", ".txt", True),
        ("日.txt", "日".encode().decode("latin-1") + ".txt", True),
        ("Grüße 東京.jpg", "Grüße ??.jpg", True),
        ("Grüße 東京.jpg", "Gr??e ??.jpg", True),
        ("Grüße 東京.jpg", "Grue_.jpg", True),
        ("日.txt", "月.txt", False),
        ("日.txt", "??.txt", False),
        ("日.txt", "readme.txt", False),
        ("a.jpg", "b.jpg", False),
        ("a  b.jpg", "a b.jpg", True),
        ("a  b.jpg", "a_b.jpg", True),
        ('a  "é   日.jpg', "a %22é ?.jpg", True),
        ("a b.jpg", "a  b.jpg", False),
    ],
)
def test_forms_in_which_a_name_comes_back(sent, shown, expected):
    assert is_shown_as(sent, shown) is expected
    assert may_be(sent, shown) or not expected


def test_name_of_many_gaps_is_compared_fast():
    sent = "aé" * 60 + "b.jpg"
    started = time.process_time()
    assert not may_be(sent, "a" * 240)
    assert may_be(sent, "ae" * 60 + "b.jpg")
    assert time.process_time() - started < 1.0


NAMES = st.text(st.sampled_from("abé東_. %-"), min_size=1, max_size=9)


@given(sent=NAMES, shown=NAMES)
def test_possible_names_match_search_pattern(sent, shown):
    pattern = like_pattern(sent)
    like = "".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in pattern)
    assert may_be(sent, shown) or re.fullmatch(like, shown, re.IGNORECASE | re.DOTALL) is None


def matches(pattern: str, shown: str) -> bool:
    like = "".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in pattern)
    return re.fullmatch(like, shown, re.IGNORECASE | re.DOTALL) is not None


@given(sent=NAMES, shown=NAMES)
def test_patterns_match_every_form_of_a_name(sent, shown):
    if is_shown_as(sent, shown):
        assert any(matches(pattern, shown) for pattern in shown_patterns(sent))
        assert may_be(sent, shown)


@given(name=NAMES)
def test_every_name_may_be_itself(name):
    assert may_be(name, name)
    assert is_exactly(name, name.upper())


@pytest.mark.parametrize(
    ("mine", "other", "shown", "expected"),
    [
        ("a.jpg", "b.jpg", "a.jpg", False),
        ("a.jpg", "b.jpg", "b.jpg", True),
        ("a.jpg", "b.jpg", "c.jpg", False),
        ("é.jpg", "è.jpg", "e.jpg", False),
        ("é.jpg", "è.jpg", "è.jpg", True),
        ("é.jpg", "x.jpg", "x.jpg", True),
        ("é.jpg", "x.jpg", "É.jpg", False),
        ("a  b.jpg", "a b.jpg", "a b.jpg", True),
    ],
)
def test_asset_belongs_to_the_closer_name(mine, other, shown, expected):
    assert is_others(mine, other, shown) is expected


@given(sent=st.lists(NAMES, max_size=4), shown=NAMES)
def test_many_names_are_compared_as_each_of_them(sent, shown):
    assert (shown in ShownNames(sent)) is any(is_shown_as(name, shown) for name in sent)
    assert (shown in PossibleNames(sent)) is any(may_be(name, shown) for name in sent)
    for name in sent:
        assert name in PossibleNames(sent)
