"""Every asset comes, none is skipped, and it ends, whatever the service makes of startrow and maxrows."""

from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assetsync.errors import BadAnswer, UsageError
from assetsync.model import Asset, SearchRequest
from assetsync.service.paging import WholeSearch, every


def asset(number, kind="img"):
    return Asset(f"ID{number}", "F", f"f{number}", 1, None, kind)


def test_aliases_count_for_pages_and_are_left_out():
    """A page of nothing but aliases is not the end, and an alias hides no asset that comes later."""

    def alias(number):
        return replace(asset(number), folder_id="G", is_alias=True)

    rows = [*map(alias, range(40)), *map(asset, range(60))]

    @contextmanager
    def search(request):
        yield iter(rows[request.startrow - 1 :][: request.maxrows])

    assert [a.id for a in every(search, SearchRequest("%"), size=12)] == [f"ID{n}" for n in range(60)]


class Paged:
    """A service that holds so many assets of each kind and pages in one of the ways that were seen."""

    def __init__(self, way, counts):
        self.way = way
        self.kinds = [[asset(f"{kind}{n}", kind) for n in range(count)] for kind, count in counts.items()]
        self.calls = 0

    @property
    def ids(self):
        return {a.id for kind in self.kinds for a in kind}

    @contextmanager
    def search(self, request):
        self.calls += 1
        assert self.calls < 3000
        if self.way == "ignored":
            yield iter([a for kind in self.kinds for a in kind])
            return
        # A service may insist on pages no larger than the interface's own.
        size = min(request.maxrows, 25) if "capped" in self.way else request.maxrows
        low = request.startrow - 1 if self.way.startswith("row") else (request.startrow - 1) * size
        kinds = self.kinds
        if "doubled" in self.way:
            kinds = [[a for a in kind for _ in range(2)] for kind in kinds]
        if "mixed" in self.way:
            rows = sorted((a for kind in kinds for a in kind), key=lambda a: (a.id[-1], a.id))[low : low + size]
        elif "per kind" in self.way:
            rows = [a for kind in kinds for a in kind[low : low + size]]
        else:
            rows = [a for kind in kinds for a in kind][low : low + size]
        yield iter(rows + rows[:1] if self.way == "row twice" else rows)


WAYS = (
    "row",
    "row twice",
    "page",
    "ignored",
    "row per kind",
    "page per kind",
    "row mixed",
    "page mixed",
    "row doubled",
    "page doubled",
    "row per kind doubled",
    "page per kind doubled",
    "row mixed doubled",
    "page mixed doubled",
    "row capped",
    "page capped",
    "row per kind capped",
    "page per kind capped",
    "row mixed capped",
)


@given(
    way=st.sampled_from(WAYS),
    img=st.integers(0, 90),
    doc=st.integers(0, 90),
    other=st.integers(0, 19),
    size=st.integers(2, 100),
)
def test_every_paging_returns_every_asset(way, img, doc, other, size):
    service = Paged(way, {"img": img, "doc": doc, "other": other})
    got = [a.id for a in every(service.search, SearchRequest("x"), size=size)]
    assert set(got) == service.ids


@pytest.mark.parametrize("way", WAYS)
def test_one_page_result_costs_one_call(way):
    service = Paged(way, {"img": 5})
    assert len(set(every(service.search, SearchRequest("x"), size=100))) == 5
    assert service.calls == 1


def test_folder_in_one_answer_costs_one_call():
    service = Paged("ignored", {"img": 3000, "doc": 3000})
    assert sum(1 for _ in every(service.search, SearchRequest("%", dbdirect=True))) == 6000
    assert service.calls == 1


def test_repeated_page_ends_the_listing():
    service = Paged("ignored", {"img": 30})
    assert len(set(every(service.search, SearchRequest("x"), size=10))) == 30


def test_endless_new_pages_are_abandoned():
    numbers = iter(range(10**9))
    calls = []

    @contextmanager
    def search(request):
        calls.append(request)
        assert len(calls) < 100
        yield iter([asset(next(numbers)) for _ in range(request.maxrows)])

    found = every(search, SearchRequest("x"), size=50, most=1000)
    assert [next(found).id for _ in range(1000)] == [f"ID{number}" for number in range(1000)]
    with pytest.raises(BadAnswer, match="goes on giving new assets after 1,000"):
        next(found)


def test_request_with_own_paging_is_refused():
    with pytest.raises(UsageError, match="startrow"):
        list(every(Paged("row", {}).search, SearchRequest("x", startrow=26)))


def stated(number, total, name="f"):
    return replace(asset(number), filename=name, columns={"totalassetscount": total})


class Listings:
    """A service that pages by row and answers each listing of the folder from the next of these lists."""

    def __init__(self, *lists, is_paged=True):
        self.lists = lists
        self.is_paged = is_paged
        self.orders = []

    @contextmanager
    def search(self, request):
        if request.startrow == 1:
            self.orders.append(request.sortby)
        rows = self.lists[min(len(self.orders), len(self.lists)) - 1]
        yield iter(rows[request.startrow - 1 :][: request.maxrows] if self.is_paged else rows)

    def read(self, **said):
        whole = WholeSearch(self.search, SearchRequest("%"), **said)
        return [one.id for one in whole], whole.incomplete


MANY = [stated(number, 0) for number in range(1500)]


@pytest.mark.parametrize("total", [0, 1, "1200", 1200.0, None, "many"])
def test_single_answer_is_read_once(total):
    listings = Listings([stated(number, total) for number in range(1200)], is_paged=False)
    ids, incomplete = listings.read()
    assert (len(ids), incomplete, listings.orders) == (1200, None, [None])


@pytest.mark.parametrize("total", [1201, "1201", 1201.0])
def test_answer_with_fewer_rows_than_stated_is_incomplete(total):
    _, incomplete = Listings([stated(number, total) for number in range(1200)], is_paged=False).read()
    assert incomplete == "it holds 1,200 of 1,201 assets"


def test_aliases_count_for_the_total():
    rows = [stated(0, 2), replace(stated(0, 2), is_alias=True, folder_id="G")]
    assert Listings(rows, is_paged=False).read() == (["ID0"], None)


def test_pages_are_read_until_two_listings_agree():
    slipped = [one for one in MANY if one.id != "ID700"]
    listings = Listings(slipped, MANY, MANY)
    ids, incomplete = listings.read()
    assert (sorted(ids), incomplete) == (sorted(one.id for one in MANY), None)
    assert listings.orders == [None, "sizeasc", "dateadd"]


def test_pages_that_never_agree_are_incomplete():
    listings = Listings(MANY[1:], MANY[2:] + MANY[:1], MANY)
    ids, incomplete = listings.read()
    assert (len(ids), incomplete) == (1500, "its pages show other assets each time they are read")


def test_pages_may_differ_by_own_uploads():
    listings = Listings(MANY, [*MANY, stated(1500, 0)])
    assert listings.read(meanwhile=lambda ids: {"ID1500"} & {*ids})[1] is None
    assert len(listings.orders) == 2


def test_stated_total_saves_the_second_listing():
    listings = Listings([stated(number, 1500) for number in range(1500)])
    assert (listings.read()[1], listings.orders) == (None, [None])


def test_repeated_asset_makes_up_for_no_missing_one():
    """An asset that slipped to a later page is read twice, and another one not at all."""
    slipped = [stated(min(number, 1400), 1500) for number in range(1500) if number != 700] + [stated(3, 1500)]
    listings = Listings(slipped, [stated(number, 1500) for number in range(1500)])
    ids, incomplete = listings.read()
    assert ("ID700" in ids, incomplete, len(listings.orders)) == (True, None, 2)
