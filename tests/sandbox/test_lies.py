"""Faults by which searches in the database show something else than what a folder holds."""

import pytest

from assetsync.sandbox import FaultKind, FaultRule

from .conftest import FOLDER


@pytest.fixture
def filled(make_caller):
    """Six assets in the folder, of which three share a name, and one in another folder."""
    caller = make_caller(folders={FOLDER: "SyncA", "other": "other"})
    for number, name in enumerate(("a.txt", "b.txt", "b.txt", "b.txt", "c.txt", "d.txt")):
        caller.upload(name, b"x" * (10 - number))
    caller.upload("strange.txt", destfolderid="other")
    return caller


def lie(caller, *kinds, **said):
    caller.sandbox.set_faults(*(FaultRule(kind=kind, **said) for kind in kinds))


def listed(caller, folder=FOLDER, **params):
    return caller.names("%", dbdirect="true", folderid=folder, **params)


def shown(caller, column):
    return [row.get(column) for row in caller.found("%", dbdirect="true", folderid=FOLDER)]


def test_folder_ids_are_shown_in_other_case(filled):
    lie(filled, FaultKind.FOLDER_CASE)
    assert shown(filled, "folder_id") == [FOLDER.lower()] * 6
    assert len(listed(filled, FOLDER.lower())) == 6
    filled.upload("new.txt", destfolderid=FOLDER.lower())
    lie(filled)
    assert "new.txt" in listed(filled)


@pytest.mark.parametrize(("kind", "value"), [(FaultKind.FOLDER_EMPTY, ""), (FaultKind.FOLDER_MISSING, None)])
def test_rows_lose_their_folder_ids(filled, kind, value):
    lie(filled, kind)
    assert shown(filled, "folder_id") == [value] * 6
    assert ("folder_id" in filled.found("%", dbdirect="true")[0]) is (kind is FaultKind.FOLDER_EMPTY)


def test_paged_answers_honour_startrow(filled):
    lie(filled, FaultKind.PAGED, rows=4)
    assert listed(filled) == ["a.txt", "b.txt", "b.txt", "b.txt"]
    assert listed(filled, startrow=5, maxrows=1000) == ["c.txt", "d.txt"]
    assert listed(filled, startrow=2, maxrows=1) == ["b.txt"]


def test_shifted_pages_skip_rows(filled):
    filled.sandbox.set_faults(FaultRule(kind=FaultKind.PAGED, rows=3), FaultRule(kind=FaultKind.SHIFTED, rows=1))
    assert [len(listed(filled, startrow=start)) for start in (1, 2, 4)] == [3, 3, 2]
    assert listed(filled, startrow=4) == ["c.txt", "d.txt"]


def test_equal_names_change_their_order(filled):
    lie(filled, FaultKind.UNORDERED)
    answers = [filled.found("%", dbdirect="true", folderid=FOLDER) for _ in range(20)]
    assert len({tuple(row["id"] for row in rows) for rows in answers}) > 1
    assert {tuple(row["filename"] for row in rows) for rows in answers} == {
        ("a.txt", "b.txt", "b.txt", "b.txt", "c.txt", "d.txt")
    }


@pytest.mark.parametrize(("kind", "total"), [(FaultKind.CAPPED, 6), (FaultKind.CAPPED_UNSTATED, 0)])
@pytest.mark.parametrize("dialect", ["observed", "documented"])
def test_capped_list_states_its_total_or_none(make_caller, dialect, kind, total):
    caller = make_caller(dialect=dialect)
    for number in range(6):
        caller.upload(f"{number}.txt")
    lie(caller, kind, rows=2)
    rows = caller.found("%", dbdirect="true")
    assert [(row["filename"], row["totalassetscount"]) for row in rows] == [("0.txt", total), ("1.txt", total)]


def test_ignored_sort_leaves_names_in_order(filled):
    assert listed(filled, sortby="sizeasc")[0] == "d.txt"
    lie(filled, FaultKind.SORT_IGNORED)
    assert listed(filled, sortby="sizeasc")[0] == "a.txt"


def test_user_without_right_sees_nothing_and_stores(filled):
    lie(filled, FaultKind.NO_RIGHT)
    assert filled.upload("new.txt").status_code == 200
    assert (listed(filled), filled.names("new"), filled.names("%", dbdirect="true")) == ([], [], [])
    lie(filled)
    assert "new.txt" in listed(filled)


def test_another_folder_is_listed(filled):
    lie(filled, FaultKind.OTHER_FOLDER)
    assert listed(filled) == ["strange.txt"]


def test_unknown_folder_lists_everything(filled):
    assert listed(filled, "unknown") == []
    lie(filled, FaultKind.UNKNOWN_FOLDER_LISTED)
    assert (len(listed(filled, "unknown")), len(listed(filled))) == (7, 6)
