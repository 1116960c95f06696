"""The kind of an asset by the ending of its name: the guess, and how answers of the service change it."""

from functools import reduce

import pytest

from assetsync.config.document.metadata import METADATA_FIELDS
from assetsync.core.kinds import Ending, guess_kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (b"a.jpg", "img"), (b"a.JPG", "img"), (b"a.mp4", "vid"), (b"a.mp3", "aud"), (b"a.pdf", "doc"),
        (b"a.zip", "other"),
        (b"jpg", "other"), (b"a.", "other"), (b"\xff.png", "img"), (b"dir.jpg/readme", "other"),
    ],
)  # fmt: skip
def test_the_kind_follows_from_the_ending(name, kind):
    assert guess_kind(name) == kind


@pytest.mark.parametrize(
    ("answers", "known"),
    [
        ([], Ending()),
        (["img"], Ending(is_settled=True)),
        (["other"], Ending(contrary="other")),
        (["other", "other"], Ending("other", is_settled=True)),
        (["doc", "other"], Ending("other", is_settled=True)),  # of the same field names
        (["other", "vid"], Ending(contrary="vid")),
        (["other", "img"], Ending(is_settled=True)),
        (["other", "img", "other"], Ending(contrary="other", is_settled=True)),
        (["other", "vid", "other"], Ending(contrary="other")),
        (["img", "other", "other"], Ending("other", is_settled=True)),
        (["other", "other", "other"], Ending("other", is_settled=True)),
        (["other", "other", "img"], Ending("other", "img", is_settled=True)),
        (["other", "other", "doc"], Ending("other", is_settled=True)),
        (["other", "other", "img", "img"], Ending("img", is_settled=True)),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else "",
)
def test_two_equal_contrary_answers_make_the_rule(answers, known):
    def answered(ending: Ending, kind: str) -> Ending:
        return ending.answered(kind, ending.kind or "img", METADATA_FIELDS)

    assert reduce(answered, answers, Ending()) == known
