import pytest


def found(caller) -> set[str]:
    return set(caller.names("file*", maxrows="0"))


@pytest.fixture
def indexed_by_call(make_caller, clock):
    """A sandbox that indexes only when it is called, with three files in it."""

    def make(mode: str):
        caller = make_caller(index_mode=mode, self_index=False, clock=clock)
        ids = {name: caller.uploaded(name) for name in ("file1.txt", "file2.txt", "file3.txt")}
        assert found(caller) == set()
        return caller, ids

    return make


def test_adds_indexes_only_the_named_assets(indexed_by_call):
    caller, ids = indexed_by_call("adds")
    caller.index(ids["file1.txt"])
    assert found(caller) == {"file1.txt"}
    caller.index(ids["file2.txt"], ids["file3.txt"])
    assert found(caller) == {"file1.txt", "file2.txt", "file3.txt"}


def test_all_makes_every_asset_findable(indexed_by_call):
    caller, _ = indexed_by_call("adds")
    caller.index("all")
    assert found(caller) == {"file1.txt", "file2.txt", "file3.txt"}


def test_noop_returns_success_without_effect(indexed_by_call):
    caller, ids = indexed_by_call("noop")
    answer = caller.index(ids["file1.txt"])
    assert answer.content == b'{"responsecode":0,"message":"Indexing successfully triggered"}'
    assert found(caller) == set()


def test_wipes_keeps_only_the_named_assets(indexed_by_call):
    caller, ids = indexed_by_call("wipes")
    caller.index(ids["file1.txt"], ids["file2.txt"])
    caller.index(ids["file3.txt"])
    assert found(caller) == {"file3.txt"}


def test_wipes_loses_auto_indexed_assets(make_caller, clock):
    caller = make_caller(index_mode="wipes", self_index=True, index_delay=60, clock=clock)
    caller.upload("file-old.txt")
    clock.seconds += 60
    caller.upload("file-new.txt")
    assert found(caller) == {"file-old.txt"}
    caller.index("0" * 32)
    assert found(caller) == set()
    clock.seconds += 60
    assert found(caller) == {"file-new.txt"}


def test_automatic_indexing_follows_the_delay(make_caller, clock):
    caller = make_caller(index_delay=60, processing_delay=5, clock=clock)
    caller.upload("file.txt")
    clock.seconds += 64.9
    assert found(caller) == set()
    clock.seconds += 0.2
    assert found(caller) == {"file.txt"}


def test_a_call_takes_effect_after_the_delay(make_caller, clock):
    caller = make_caller(index_mode="adds", self_index=False, index_delay=60, clock=clock)
    caller.index(caller.uploaded("file.txt"))
    assert found(caller) == set()
    clock.seconds += 60
    assert found(caller) == {"file.txt"}


@pytest.mark.parametrize("assetids", [("0" * 32,), ("",), ("nonsense", "'; DROP TABLE assets; --")])
def test_unknown_or_no_ids_return_success(make_caller, assetids):
    caller = make_caller(index_mode="adds")
    assert caller.index(*assetids).json()["responsecode"] == 0


def test_index_works_with_get_too(make_caller):
    caller = make_caller(index_mode="adds", self_index=False)
    assetid = caller.uploaded("file.txt")
    caller.http.get(caller.search_url, params={"method": "searchIndex", "api_key": "a-test-key", "assetid": assetid})
    assert found(caller) == {"file.txt"}
