"""Define which kinds of brake lift themselves once their cause is fixed, and the hint shown for each kind.

Pulling and lifting are left to `sync.brakes`.
"""

LIFTED = frozenset({"service", "root", "destfolderid", "takeover", "emptied", "vanished"})
"""The kinds that lift themselves. The others have no cause that could end: many new files stay new, and whether missing
assets are back is known only after the next audit, a day later."""


def released_by(kind: str) -> str:
    """Return when an operator should release a brake of this kind."""
    if kind in LIFTED:
        return "clears by itself once the cause is fixed; to proceed as it is"
    return "if this is intended, or once the cause is fixed"
