"""Whether an asset's name may be what the service made of a name that was sent.

Observed: accents and characters outside ISO-8859-1 come back folded, as `?` or not at all. So a name is never proof; it
only tells whose asset an asset may be, where several attempts are open.
"""

import re
from functools import lru_cache


@lru_cache(maxsize=4096)
def _matcher(sent: str) -> re.Pattern[str]:
    """Match what `like_pattern` of the name would match in the service's database."""
    pieces = [""]
    gap = False
    for character in sent:
        if not character.isascii():
            gap = True
            continue
        if gap:
            pieces.append("")
            gap = False
        pieces[-1] += re.escape(character) if character.isalnum() or character in ".-" else "."
    if gap:
        pieces.append("")
    first, *between = pieces
    # Each piece is taken where it stands first and never elsewhere: it loses no match, and a name of many gaps would
    # else be tried in more ways than there is time for.
    last = f".*{between.pop()}" if between else ""
    return re.compile(first + "".join(f"(?>.*?{piece})" for piece in between) + last, re.IGNORECASE | re.DOTALL)


def may_be(sent: str, shown: str) -> bool:
    """Whether `shown`, a file name in a search answer, may stand for the name that was sent."""
    return (
        _matcher(sent).fullmatch(shown) is not None or _matcher(sent.replace('"', "%22")).fullmatch(shown) is not None
    )


def is_exactly(sent: str, shown: str) -> bool:
    """Whether the name came back as it was sent, but for its case."""
    return sent.casefold() == shown.casefold()


def is_others(mine: str, other: str, shown: str) -> bool:
    """Whether an asset's name points to another open attempt rather than to mine."""
    if is_exactly(mine, shown):
        return False
    return is_exactly(other, shown) or (may_be(other, shown) and not may_be(mine, shown))
