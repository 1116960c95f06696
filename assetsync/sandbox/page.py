"""The page with the stored assets: plain HTML without scripts, light or dark like the reader's system.

Pure: takes values and returns text. Every text from outside is escaped here. Serving the page is left to `control`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Final

from assetsync.sandbox.store import StoredAsset

PAGE_SIZE: Final = 100
_PICTURES: Final = ("png", "jpg", "jpeg", "gif", "webp", "bmp")

_STYLE: Final = """
:root { color-scheme: light dark; --line: #d5d9de; --dim: #5c6670; --bad: #a3240f; --good: #1c6b36; --back: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --line: #3a4149; --dim: #a0abb6; --bad: #ff8f78; --good: #7fd59b; --back: #15181c; }
}
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem;
  background: var(--back); }
h1 { font-size: 1.4rem; margin: 0; }
p { color: var(--dim); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .5rem .6rem; text-align: left; vertical-align: top; }
th { color: var(--dim); font-weight: 600; }
td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
td.name { overflow-wrap: anywhere; min-width: 12rem; }
code { font-size: .85em; overflow-wrap: anywhere; color: var(--dim); }
img { display: block; width: 64px; height: 48px; object-fit: cover; border-radius: 3px; background: var(--line); }
dl { margin: 0; display: grid; grid-template-columns: max-content 1fr; gap: 0 .6rem; font-size: .85em; }
dt { color: var(--dim); } dd { margin: 0; overflow-wrap: anywhere; }
.bad { color: var(--bad); } .good { color: var(--good); }
"""


@dataclass(frozen=True, slots=True)
class PageView:
    """The values that the page shows; `assets` holds one more than `PAGE_SIZE` if there is a next page."""

    assets: Sequence[StoredAsset]
    offset: int
    log: Mapping[str, int]
    faults: Sequence[Mapping[str, object]]
    dialect: str


def page(view: PageView) -> str:
    """Return the HTML of the page."""
    requests = ", ".join(f"{view.log.get(name, 0)} {name}" for name in ("upload", "search", "index"))
    faults = ", ".join(str(fault["kind"]) for fault in view.faults) or "none"
    rows = "".join(_row(asset) for asset in view.assets[:PAGE_SIZE])
    table = (
        f'<div class="wide"><table>{_HEAD}<tbody>{rows}</tbody></table></div>' if rows else "<p>Nothing is stored.</p>"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>assetsync sandbox</title><style>{_STYLE}</style></head><body>"
        f"<h1>assetsync sandbox</h1><p>Dialect {escape(view.dialect)} · requests: {requests}"
        f" · faults: {escape(faults)}</p>"
        f"{table}{_turning(view)}</body></html>\n"
    )


_HEAD: Final = (
    '<thead><tr><th scope="col">Picture</th><th scope="col">Name</th><th scope="col">Folder</th>'
    '<th scope="col">Size</th><th scope="col">MD5</th><th scope="col">Metadata</th>'
    '<th scope="col">State</th></tr></thead>'
)


def _turning(view: PageView) -> str:
    newer = f'<a href="?start={max(view.offset - PAGE_SIZE, 0)}">Newer</a> ' if view.offset else ""
    older = f'<a href="?start={view.offset + PAGE_SIZE}">Older</a>' if len(view.assets) > PAGE_SIZE else ""
    return f"<p>{newer}{older}</p>" if newer or older else ""


def _row(asset: StoredAsset) -> str:
    place = f"/_sandbox/file/{escape(asset.id)}"
    picture = f'<img src="{place}" alt="" loading="lazy">' if asset.extension in _PICTURES else ""
    metadata = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in asset.metadata.items())
    stored = datetime.fromtimestamp(asset.stored_at, UTC)
    return (
        f"<tr><td>{picture}</td>"
        f'<td class="name"><a href="{place}">{escape(asset.filename)}</a><br><code>{escape(asset.id)}</code></td>'
        f"<td>{escape(asset.folder_name)}<br><code>{escape(asset.folder_id)}</code></td>"
        f'<td class="number">{asset.size:,}</td><td><code>{escape(asset.md5)}</code></td>'
        f"<td><dl>{metadata}</dl></td>"
        f"<td>{_state(asset)}<br><code>{stored:%Y-%m-%d %H:%M:%S} UTC</code></td></tr>\n"
    )


def _state(asset: StoredAsset) -> str:
    words = [
        '<span class="good">processed</span>' if asset.processed else "not processed yet",
        '<span class="good">indexed</span>' if asset.indexed else "not indexed",
    ]
    if asset.damaged:
        words.insert(0, '<strong class="bad">damaged</strong>')
    if not asset.visible:
        words.append('<span class="bad">invisible</span>')
    return ", ".join(words)
