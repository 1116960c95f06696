"""What the interface leaves open or a live installation does otherwise: `OBSERVED` and `DOCUMENTED` are its ends."""

from dataclasses import dataclass
from typing import Literal


def names(text: str) -> tuple[str, ...]:
    """Give the names in a text, parted by blanks."""
    return tuple(text.split())


DOCUMENTED_COLUMNS = names(
    "id filename folder_id extension video_image filename_org kind extension_thumb path_to_asset cloud_url "
    "cloud_url_org size width height description keywords rowtotal local_url_org local_url_thumb responsecode "
    "totalassetscount calledwith colid"
)
OBSERVED_COLUMNS = names(
    "id filename folder_id folder_name extension video_image filename_org kind extension_thumb path_to_asset "
    "cloud_url cloud_url_org size size_num width height isalias description keywords dateadd datechange "
    "expiry_date_actual local_url_org local_url_thumb colid colorspace xdpi ydpi unit md5hash filename_forsort cnt "
    "date_create date_change file_type responsecode totalassetscount calledwith"
)


@dataclass(frozen=True)
class Dialect:
    """What differs from one installation to the next; times in seconds, sizes in bytes."""

    upper_keys: bool = True
    result_element: str = "responsecode"
    charset: str = "ISO-8859-1"
    types: tuple[str, str] = ("application/json", "application/xml")
    root: str = "Response"
    columns: tuple[str, ...] = OBSERVED_COLUMNS
    sizes: Literal["text", "number"] = "text"
    database_pages: bool = False
    pages_by_kind: bool = True
    rows_twice: bool = False
    folder_lists: bool = True
    hides_unprocessed: bool = False
    strict_index_json: bool = True
    connection: Literal["close", "keep-alive", "chunked", "http/1.0"] = "close"
    reads: Literal["both", "query", "get"] = "both"
    frame: Literal["plain", "blanks", "bom", "upper"] = "plain"
    ids: Literal["upper", "lower", "dashed"] = "upper"
    indexes_itself: bool = True
    index_lag: float = 0.0
    processing: float = 0.0
    largest: int | None = None
    refuses_early: bool = False


OBSERVED = Dialect(processing=0.2, index_lag=0.4)
DOCUMENTED = Dialect(
    upper_keys=False,
    result_element="Response",
    charset="UTF-8",
    root="upload",
    columns=DOCUMENTED_COLUMNS,
    database_pages=True,
    pages_by_kind=False,
    folder_lists=False,
    strict_index_json=False,
    connection="keep-alive",
    indexes_itself=False,
)
