"""Describe each kind of brake in words: why uploads are stopped, and what ends that.

Pulling and lifting are left to `sync.brakes`.
"""

_CAUSES = {
    "service": "the service may be another one",
    "root": "the root is missing or another tree",
    "destfolderid": "a mapping points to another folder",
    "takeover": "a mapping takes over files of another folder",
    "emptied": "a mapped folder is empty or missing",
    "vanished": "many files are gone",
    "new_files": "many files are new",
    "missing": "many assets are gone",
    "twin": "another site may send the same files",
}
_LIFTED_ONCE = {
    "service": "once the earlier service answers at the address (the daemon asks every minute)",
    "root": "once the right tree is there (the daemon looks every minute)",
    "destfolderid": "once `folders` is corrected and the configuration reloaded",
    "takeover": "once `folders` is corrected and the configuration reloaded",
    "emptied": "once all files are back (the daemon looks every minute)",
    "vanished": "once all files are back (the daemon looks every minute)",
}
"""What lifts a kind without a person. The others have no cause that could end: many new files stay new, and
whether missing assets are back is known only after the next audit, a day later."""


def cause_of(kind: str) -> str:
    """Return in a few words why a brake of this kind stops uploads."""
    return _CAUSES.get(kind, "a person must look")


def released_by(kind: str) -> str:
    """Return what ends a brake of this kind, as the beginning of a clause that a command ends."""
    once = _LIFTED_ONCE.get(kind)
    if once is not None:
        return f"clears by itself {once}; to proceed as it is"
    return "if this is intended, or once the cause is fixed"
