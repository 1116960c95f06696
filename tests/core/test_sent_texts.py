"""What was sent with an upload, compared with what the service shows of it."""

import pytest

from assetsync.core.sent_texts import IN_SIDECARS, UNKNOWN, SentTexts, Texts, differences, digests


def _compared(sent: Texts, shown: Texts, known: Texts | None = None) -> list[str]:
    return differences(digests(sent), shown, sent if known is None else known)


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        (Texts("Harbour", "dawn,sea"), Texts("Harbour", "dawn,sea")),
        (Texts("The old\n  harbour ", "dawn"), Texts("The old harbour", "dawn")),
        (Texts("x", "sea, dawn;  red sky"), Texts("x", "red sky\ndawn\nsea")),
        (Texts("東京 harbour", "東京,sea"), Texts("?? harbour", "?,sea")),
        (Texts("a 🙂", "sea"), Texts("a ??", "sea")),
        (Texts("Tromsø", "sea"), Texts("Tromsø", "sea")),
        # A field that was not sent, or is not in the answer, is not compared.
        (Texts("", "sea"), Texts("its own", "sea")),
        (Texts(None, None), Texts("its own", "its own")),
        (Texts("Harbour", "sea"), Texts(None, None)),
    ],
)
def test_equal_texts_do_not_differ(sent, shown):
    assert _compared(sent, shown) == []


@pytest.mark.parametrize(
    ("sent", "shown", "found"),
    [
        (Texts("Harbour", "sea"), Texts("", ""), ["the description is empty", "the keywords are empty"]),
        (Texts("Harbour", "sea"), Texts("  \n", "sea"), ["the description is empty"]),
        (Texts("Harbour", "sea"), Texts("Annual report", "sea"), ["the description is others than were sent"]),
        (Texts("The old harbour", "a"), Texts("The old", "a"), ["the description is cut after 7 characters"]),
        (Texts("a", "sea, dawn, sky"), Texts("a", "sea, da"), ["the keywords are cut after 7 characters"]),
        (Texts("東京 harbour", "a"), Texts("?? har", "a"), ["the description is cut after 5 characters"]),
        (Texts("Harbour", "sea"), Texts("harbour", "sea"), ["the description is others than were sent"]),
    ],
)
def test_difference_is_named(sent, shown, found):
    assert _compared(sent, shown) == [words.replace("is others than were", "is other than was") for words in found]


def test_cut_of_an_unknown_text_is_only_different():
    assert _compared(Texts("The old harbour"), Texts("The old", ""), UNKNOWN) == [
        "the description is other than was sent"
    ]


def test_difference_from_sidecars_has_its_words():
    given = Texts("The old harbour", "sea,dawn")
    shown = Texts("A pier", "sky"), Texts("The old", "")
    assert [differences(digests(given), each, given, IN_SIDECARS) for each in shown] == [
        ["the description is other than in the sidecars", "the keywords are others than in the sidecars"],
        ["the description is cut after 7 characters", "the keywords are empty"],
    ]


def test_digest_has_eight_bytes():
    assert [len(bytes.fromhex(each or "")) for each in digests(Texts("Harbour", "sea"))] == [8, 8]
    assert digests(Texts(" ", ",;")) == SentTexts(None, None)
