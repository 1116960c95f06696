"""How a brake ends: which kinds lift themselves once what they are about was put right, and what a person is told.

Pulling and lifting is `sync.brake_control`'s.
"""

LIFTED = frozenset({"service", "root", "destfolderid", "takeover", "emptied", "vanished"})
"""The kinds that lift themselves. Another is not to be put right: many new files stay new, and what an audit missed may
be back at the next one, which is a day away."""


def released_by(kind: str) -> str:
    """Say when a brake of a kind is to be released by hand."""
    if kind in LIFTED:
        return "lifts itself once it is put right; only if it is meant"
    return "if it is meant, or once it is put right"
