"""Schedules over a service that never processes a document with a field or a character that it cannot hold (observed).

No such document may arrive there: it could be sent again only by a person, and with the same end. What arrives is what
the service can hold of the sidecars (`sim_sidecars`).
"""

from dataclasses import replace

from .sim_checks import Violation
from .sim_schedule import Schedule
from .sim_sidecars import sidecar_schedule
from .sim_values import Post

_KINDS = (0, 3, 4, 4, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12)
_FIELDS = ("meta_lang_id_r", "meta_file_desc", "meta_file_keywords")


def refused_schedule(seed: int) -> Schedule:
    """Return the schedule of a seed in which sidecars come and change that hold what the service cannot."""
    variant, actions = sidecar_schedule(seed, kinds=_KINDS)
    return Schedule(replace(variant, refuses=True), actions)


def expect_held(post: Post) -> None:
    """I16: no document leaves with metadata for which the service would never process it."""
    for name, text in post.meta.items():
        if name not in _FIELDS or max(text, default="") > "\uffff":
            raise Violation(f"I16: {post.name} is sent with {name}: {text}")
