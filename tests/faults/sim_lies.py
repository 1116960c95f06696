"""Lies of the simulated service about what its folders hold: which a seed draws, and how rows are shown then.

A list without what is there looks like a folder into which a file was never sent: whoever believes it sends the file a
second time. Lies are drawn apart from all else, so that the schedule of a seed is otherwise as it was.
"""

import random
from collections.abc import Sequence

from .sim_tree import FOLDERS
from .sim_values import Lies, Stored

PAGE = 25
"""The rows of a page: the least that the program does not take for the last page."""
LONG = 4
"""The rows from which a listing that states no total may be capped: it stands for the 500 of a live folder."""
SAMPLES = 4
"""Below this number, and at least half of it, files are searched for that such a listing lacks."""

_SHARE = 0.2
_HIDING = 0.05
_NAMESAKES = ("x.txt", "y.txt") * 3
_ARCHIVE = "0 archive"
HONEST = Lies()


def lies_of(seed: int) -> Lies:
    """Draw what the service of a seed lies about: nothing for most seeds, and one thing at a time."""
    rng = random.Random(f"bluffs of {seed}")
    if rng.random() >= _SHARE:
        # Drawn last, so that the other schedules stay as they were.
        return Lies(hides=rng.choice(("F1", "F2"))) if rng.random() < _HIDING else HONEST
    match rng.choice(("folder_id", "pages", "pages", "cap", "blinds")):
        case "folder_id":
            folder_id = rng.choice(("case", "case", "empty", "missing"))
            return Lies(folder_id=folder_id, lists_unknown=rng.random() < 0.3, states_total=rng.random() < 0.5)
        case "pages":
            is_unordered = rng.random() < 0.5
            return Lies(
                is_paged=True,
                is_unordered=is_unordered,
                shifts=0 if is_unordered else rng.choice((1, 3)),
                # Where equal names change places and nothing else sorts them, nothing shows which one is left out.
                ignores_sort=not is_unordered and rng.random() < 0.3,
                states_total=rng.random() < 0.3,
                strangers=rng.choice((24, 26, 27, 28, 29)),
            )
        case "cap":
            states_total = rng.random() < 0.6
            cap = rng.choice((1, 2, 4)) if states_total else rng.choice((LONG, LONG + 1))
            return Lies(cap=cap, states_total=states_total)
    return Lies(blinds=True, lists_unknown=rng.random() < 0.3)


def ended(lies: Lies) -> Lies:
    """Return the lies without those that hold files up for as long as they last."""
    folder_id = "" if lies.lists_unknown and lies.folder_id != "case" else lies.folder_id
    return Lies(
        folder_id=folder_id,
        lists_unknown=lies.lists_unknown,
        is_paged=lies.is_paged,
        is_unordered=lies.is_unordered,
        shifts=lies.shifts,
        ignores_sort=lies.ignores_sort,
        states_total=lies.states_total,
    )


def strangers_of(lies: Lies) -> list[tuple[str, str, bytes]]:
    """Return folder, name and content of the assets that lie there from the start; some have names of files.

    They are longer than any file, so that none is a file or what is left of one.
    """
    archive = [f"{_ARCHIVE} {number:02}.jpg" for number in range(lies.strangers - len(_NAMESAKES))]
    names = (*_NAMESAKES, *archive) if lies.strangers else ()
    return [
        (folder, name, b"stranger".ljust(300 + number))
        for folder in sorted(set(FOLDERS.values()))
        for number, name in enumerate(names)
    ]


def is_archived(asset: Stored) -> bool:
    """Return whether an asset is a stranger that comes first in a list by name."""
    return asset.name.startswith(_ARCHIVE)


def shown_folder(folder: str, lies: Lies) -> str:
    """Return a folder's id as rows show it."""
    return {"case": folder.swapcase(), "empty": ""}.get(lies.folder_id, folder)


def is_available(asset: Stored, form: dict[str, str], lies: Lies, now: float) -> bool:
    """Return whether `available` leaves an asset in; a service with pages honours it, so that nothing is read twice."""
    return not lies.is_paged or (asset.processed_from > now) == (form.get("available") == "0")


def is_asked_for(folder: str, asked: Sequence[str], lies: Lies) -> bool:
    """Return whether a search in the folders `asked` shows the assets of a folder."""
    known = {*FOLDERS.values(), folder}
    if lies.folder_id == "case":
        return folder.casefold() in {each.casefold() for each in asked}
    return folder in asked or (lies.lists_unknown and known.isdisjoint(asked))


def in_order(found: list[Stored], form: dict[str, str], lies: Lies, chance: random.Random) -> list[Stored]:
    """Sort the assets of a search in the database as it asks for."""
    sortby = "name" if lies.ignores_sort else form.get("sortby", "name")
    if sortby.startswith("size"):
        return sorted(found, key=lambda asset: len(asset.content), reverse=sortby == "sizedesc")
    if sortby.startswith("date"):
        return sorted(found, key=lambda asset: asset.made_at, reverse=True)
    if lies.is_unordered:
        found = chance.sample(found, len(found))
    return sorted(found, key=lambda asset: asset.name.casefold())


def is_capped(searchfor: str, lies: Lies) -> bool:
    """Return whether the rows of such a search are capped: at the scale of a live folder, a search by name never is.

    One that begins with a wildcard finds as much as a listing.
    """
    return searchfor == "%" or (lies.states_total and searchfor.startswith("%"))
