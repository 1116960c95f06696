import time

import httpx
import pytest

from assetsync.errors import UsageError
from assetsync.sandbox import FaultKind, FaultRule, Operation
from assetsync.sandbox.faults import FaultBoard, fault_rule


def stored(caller) -> int:
    return len(caller.sandbox.assets())


@pytest.mark.parametrize(("kept", "count"), [(False, 0), (True, 1)])
def test_status_fault_has_two_positions(caller, kept, count):
    caller.sandbox.set_faults(FaultRule(kind=FaultKind.STATUS, status=502, stored=kept))
    assert (caller.upload().status_code, stored(caller)) == (502, count)


def test_fault_hits_each_fifth_request(caller):
    caller.sandbox.set_faults(FaultRule(kind=FaultKind.STATUS, operation=Operation.UPLOAD, status=500, every=5))
    assert [caller.upload().status_code for _ in range(11)] == [*[200] * 4, 500, *[200] * 4, 500, 200]
    assert stored(caller) == 9


def test_fault_hits_one_folder(caller):
    other = caller.sandbox.create_folder("other")
    caller.sandbox.set_faults(FaultRule(kind=FaultKind.STATUS, folder=other, times=1))
    assert [caller.upload().status_code, caller.upload(destfolderid=other).status_code] == [200, 503]
    assert caller.upload(destfolderid=other).status_code == 200
    assert caller.search("x").status_code == 200


@pytest.mark.parametrize(("kept", "count"), [(False, 0), (True, 1)])
def test_html_fault_replaces_answer_with_200(caller, kept, count):
    caller.sandbox.set_faults(FaultRule(kind=FaultKind.HTML, stored=kept))
    answer = caller.upload()
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html;charset=ISO-8859-1")
    assert stored(caller) == count


def test_lost_answer_closes_after_storage(caller):
    caller.sandbox.set_faults(FaultRule(kind=FaultKind.ANSWER_LOST))
    with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
        caller.upload()
    assert stored(caller) == 1


@pytest.mark.parametrize("operation", ["upload", "search"])
def test_a_cut_answer_ends_in_its_middle(caller, operation):
    caller.sandbox.set_faults(FaultRule(kind=FaultKind.ANSWER_CUT))
    with pytest.raises(httpx.RemoteProtocolError, match="without sending complete message body"):
        caller.upload() if operation == "upload" else caller.search("%", dbdirect="true")
    assert stored(caller) == (operation == "upload")


def test_cut_fault_truncates_a_long_listing(caller):
    for number in range(120):
        caller.upload(f"{number}.txt", b"x")
    caller.sandbox.set_faults(FaultRule(kind=FaultKind.ANSWER_CUT, times=1))
    with pytest.raises(httpx.RemoteProtocolError, match="without sending complete message body"):
        caller.search("%", dbdirect="true")
    assert len(caller.names("%", dbdirect="true")) == 120


def test_too_many_fault_sets_retry_after(caller):
    caller.sandbox.set_faults(FaultRule(kind=FaultKind.TOO_MANY, seconds=7))
    answer = caller.upload()
    assert (answer.status_code, answer.headers["retry-after"], stored(caller)) == (429, "7", 0)


def test_key_fault_refuses_every_operation(caller):
    caller.sandbox.set_faults(FaultRule(kind=FaultKind.KEY_REFUSED))
    for answer in (caller.upload(), caller.search("x"), caller.index("all")):
        assert "Login not valid!" in answer.text
    assert stored(caller) == 0


def test_search_fault_spares_the_database(caller, sample):
    caller.upload()
    caller.sandbox.set_faults(FaultRule(kind=FaultKind.SEARCH_DOWN))
    answer = caller.search("note")
    assert answer.content == sample("search-index-server-down").body
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json;charset=ISO-8859-1")
    assert caller.names("note.txt", dbdirect="true") == ["note.txt"]


def test_database_fault_spares_index_success(caller, sample):
    caller.sandbox.set_faults(FaultRule(kind=FaultKind.DATABASE_DOWN))
    assert caller.upload().content == sample("upload-database-down").body
    assert caller.search("note").content == sample("search-database-down").body
    assert caller.index("all").content == sample("index-all").body
    assert stored(caller) == 0


def test_the_index_is_wiped_by_one_call(make_caller):
    caller = make_caller(index_mode="adds")
    caller.upload("old.txt")
    caller.sandbox.set_faults(FaultRule(kind=FaultKind.INDEX_WIPES, times=1))
    caller.index("0" * 32)
    assert caller.names("old") == []
    assert caller.names("old.txt", dbdirect="true") == ["old.txt"]


def test_a_lost_name_is_replaced_by_the_id(caller):
    caller.sandbox.set_faults(FaultRule(kind=FaultKind.NAMES_LOST))
    assetid = caller.uploaded("report.txt")
    assert caller.names("report%", dbdirect="true") == []
    assert caller.names("%", dbdirect="true") == [f"{assetid}.txt"]


def test_invisible_asset_appears_after_delay(make_caller, clock):
    caller = make_caller(clock=clock)
    caller.sandbox.set_faults(FaultRule(kind=FaultKind.INVISIBLE, seconds=30))
    caller.upload()
    assert (caller.names("%", dbdirect="true"), caller.names("note"), stored(caller)) == ([], [], 1)
    clock.seconds += 30
    assert (caller.names("%", dbdirect="true"), caller.names("note")) == (["note.txt"], ["note.txt"])


def test_unprocessed_asset_stays_so_until_processed(make_caller, clock):
    caller = make_caller(clock=clock)
    caller.sandbox.set_faults(FaultRule(kind=FaultKind.NEVER_PROCESSED, times=1))
    assetid, other = caller.uploaded("never.txt"), caller.uploaded("other.txt")
    clock.seconds += 1e9
    caller.index(assetid)
    clock.seconds += 1
    found = {row["id"]: (row["size"], row["md5hash"]) for row in caller.found("%", dbdirect="true")}
    assert (found[assetid], found[other][0]) == (("0", None), "23")
    assert caller.names("never") == []
    control = f"{caller.sandbox.address}/_sandbox/assets"
    assert caller.http.post(control, json={"id": assetid, "process": True}).status_code == 200
    assert caller.found("never.txt", dbdirect="true")[0]["size"] == "23"
    assert caller.names("never") == ["never.txt"]


def test_hung_upload_is_stored_after_timeout(caller, eventually):
    caller.sandbox.set_faults(FaultRule(kind=FaultKind.HANG, seconds=2.0, times=1))
    caller.http.timeout = 0.1
    with pytest.raises(httpx.ReadTimeout):
        caller.upload()
    assert stored(caller) == 0
    eventually(lambda: stored(caller) == 1)


def test_latency_delays_the_answer(caller):
    caller.sandbox.set_faults(FaultRule(kind=FaultKind.LATENCY, seconds=0.2))
    before = time.monotonic()
    caller.search("x")
    assert time.monotonic() - before >= 0.2


def test_latency_setting_delays_each_answer(make_caller):
    caller = make_caller(latency=0.2)
    before = time.monotonic()
    caller.upload()
    assert time.monotonic() - before >= 0.2


def test_a_fault_hits_only_its_operation(caller):
    caller.sandbox.set_faults(FaultRule(kind=FaultKind.STATUS, operation=Operation.SEARCH))
    statuses = (caller.upload().status_code, caller.search("x").status_code, caller.index("all").status_code)
    assert statuses == (200, 503, 200)


def test_fault_hits_its_number_of_requests(caller):
    caller.sandbox.set_faults(FaultRule(kind=FaultKind.STATUS, times=2))
    assert [caller.search("x").status_code for _ in range(4)] == [503, 503, 200, 200]


def test_fault_lasts_until_switched_off(caller):
    caller.sandbox.set_faults(FaultRule(kind=FaultKind.STATUS))
    assert {caller.search("x").status_code for _ in range(5)} == {503}
    caller.sandbox.set_faults()
    assert caller.search("x").status_code == 200


def hits(seed: int) -> list[bool]:
    board = FaultBoard(seed)
    board.replace([FaultRule(kind=FaultKind.HTML, probability=0.3)])
    return [bool(board.take(Operation.UPLOAD)) for _ in range(300)]


def test_seeded_fault_hits_the_same_requests():
    assert hits(1) == hits(1) != hits(2)
    assert 60 < sum(hits(1)) < 120


def test_missed_fault_is_not_counted_down():
    board = FaultBoard(1)
    board.replace([FaultRule(kind=FaultKind.HTML, probability=0.3, times=5)])
    assert sum(bool(board.take(Operation.UPLOAD)) for _ in range(300)) == 5


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "nonsense"}, "nonsense"),
        ({}, "None"),
        ({"kind": "html", "often": 3}, "often"),
        ({"kind": "html", "times": "many"}, "many"),
        ({"kind": "html", "operation": "delete"}, "delete"),
    ],
)
def test_what_is_no_fault_is_refused_by_name(given, said):
    with pytest.raises(UsageError, match=said):
        fault_rule(given)


def test_a_rule_is_read_from_json_values():
    given = {"kind": "status", "operation": "upload", "times": 2, "status": 500, "stored": True, "seconds": 2}
    assert fault_rule(given) == FaultRule(
        kind=FaultKind.STATUS, operation=Operation.UPLOAD, times=2, status=500, stored=True, seconds=2.0
    )
