"""Every asset comes, none is skipped, and it ends, whatever the service makes of startrow and maxrows."""

from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assetsync.errors import BadAnswer, UsageError
from assetsync.model import Asset, SearchRequest
from assetsync.service.paging import every


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
