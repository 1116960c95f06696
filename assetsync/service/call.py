"""The calls of the two search operations as values: what stands in the address, what in the form (interface section 4).

Pure. `client` sends them, `assetsync search --explain` shows them; both fill in the key at the end. An upload's form is
`multipart`'s.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlencode

from assetsync.errors import UsageError
from assetsync.model import SearchRequest
from assetsync.service.query import checked_id
from assetsync.service.search import form_of

Wire = Literal["row", "column", "jsonp", "wddx"]
"""The output formats of section 4.1."""

SEARCH_PATH = "/global/api2/search.cfc"

EVERYTHING = "all"
"""Stands for every asset in a call of searchIndex, and is therefore never taken for an id."""

# With two underscores as the live service needs them, without as the interface documents the first two.
_SWITCHES: dict[Wire, tuple[tuple[str, str], ...]] = {
    "row": (),
    "column": (("BDQUERYFORMAT", "column"), ("__BDQUERYFORMAT", "column")),
    "jsonp": (("BDRETURNFORMAT", "jsonp"), ("__BDRETURNFORMAT", "jsonp"), ("callback", "cb")),
    "wddx": (("__BDRETURNFORMAT", "wddx"),),
}


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a search operation; `query` is for the address, `fields` for the form, without the key."""

    query: tuple[tuple[str, str], ...]
    fields: tuple[tuple[str, str], ...]

    def address(self, base_url: str) -> str:
        """Give the whole address below the service's base address."""
        return f"{base_url.rstrip('/')}{SEARCH_PATH}?{urlencode(self.query)}"

    def form(self, api_key: str) -> list[tuple[str, str]]:
        """Give the form with the key, which never stands in the address."""
        return [*self.fields, ("api_key", api_key)]


def search_call(request: SearchRequest, wire: Wire = "row") -> Call:
    """Make the call of one search; raises UsageError that names the parameter at fault."""
    return Call((("method", "searchassets"), *_SWITCHES[wire]), tuple(form_of(request)))


def index_call(assetids: Sequence[str]) -> Call:
    """Make the call that asks for indexing of these ids, or of everything with the one word `all`.

    Raises UsageError for what is no id, such as `all` beside others, and for no id at all.
    """
    if not assetids:
        raise UsageError("no ids to index", hint="give at least one asset id")
    everything = [assetid.lower() for assetid in assetids] == [EVERYTHING]
    ids = EVERYTHING if everything else ",".join(checked_id(assetid) for assetid in assetids)
    return Call((("method", "searchIndex"),), (("assetid", ids),))
