"""The pages of the guide, as Markdown and as HTML; the pages are the files `*.md` of this folder.

Showing them is left to `assetsync guide` and to the status page.
"""

import re
from functools import cache
from html import escape
from importlib.resources import files
from typing import NamedTuple

_DOCUMENT = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} - assetsync</title>
{icon}<style>{style}</style>
</head>
<body>
<main>
{body}</main>
<nav aria-label="Guide">
<ul>
{links}
</ul>
</nav>
</body>
</html>
"""
_LINK = re.compile(r"([a-z-]+)\.md(#.*)?")
_ID = re.compile(r"[\w.-]+")


class Page(NamedTuple):
    """A page of the guide; `topic` is its name on the command line, `summary` its first sentence."""

    topic: str
    title: str
    summary: str
    text: str


@cache
def pages() -> dict[str, Page]:
    """Return all pages of the guide, by topic."""
    found = {}
    for file in sorted(files(__name__).iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".md"):
            text, topic = file.read_text("utf-8"), file.name.removesuffix(".md")
            title, _, rest = text.removeprefix("# ").partition("\n")
            paragraph = " ".join(rest.strip().split("\n\n")[0].split())
            summary = re.split(r"(?<=\.) ", paragraph, maxsplit=1)[0]
            found[topic] = Page(topic, title, summary, text)
    return found


def contents() -> Page:
    """Return the page that lists all others; its topic is `index`."""
    lines = (f"- [{page.title}]({page.topic}.md): {page.summary}\n" for page in pages().values())
    summary = "All pages of the guide."
    return Page("index", "Guide", summary, f"# Guide\n\n{''.join(lines)}")


@cache
def style() -> str:
    """Return the style that each HTML page contains."""
    return files(__name__).joinpath("guide.css").read_text("utf-8")


def as_html(page: Page, *, served: bool) -> str:
    """Return a page as an HTML document without scripts; if it is `served`, it lies in `guide/` below the status page.

    Raises ImportError if the library for Markdown is missing.
    """
    links = [(_address(each.topic, served=served), each.title) for each in (contents(), *pages().values())]
    current = {_address(page.topic, served=served): ' aria-current="page"'}
    items = [f'<li><a href="{address}"{current.get(address, "")}>{escape(title)}</a></li>' for address, title in links]
    if served:
        items.insert(0, '<li><a href="../">Status</a></li>')
    return _DOCUMENT.format(
        title=escape(page.title),
        icon='<link rel="icon" type="image/svg+xml" href="../icon.svg">\n' * served,
        style=style(),
        body=_body(page.text, served=served),
        links="\n".join(items),
    )


def _address(topic: str, *, served: bool) -> str:
    if not served:
        return f"{topic}.html"
    return "./" if topic == "index" else topic


def _body(text: str, *, served: bool) -> str:
    """Return Markdown as HTML.

    Headings have the ids that GitHub gives them. A row of a table has the word in its first cell as its id, if that is
    only code: so the reasons of `troubleshooting` and the keys of `configuration` can be linked to.
    """
    from markdown_it import MarkdownIt  # noqa: PLC0415 - slow to load, and needed only here

    markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens = markdown.parse(text)
    used = set(re.findall(r'<a id="([^"]+)">', text))
    for number, token in enumerate(tokens):
        name = None
        if token.type == "heading_open":
            name = re.sub(r"[^\w\- ]", "", tokens[number + 1].content.lower()).replace(" ", "-")
        elif token.type == "tr_open" and tokens[number + 1].type == "td_open":
            cell = tokens[number + 2].children or []
            name = cell[0].content if len(cell) == 1 and cell[0].type == "code_inline" else None
        if name and name not in used and _ID.fullmatch(name):
            token.attrSet("id", name)
            used.add(name)
        for child in token.children or []:
            link = _LINK.fullmatch(str(child.attrs.get("href", "")))
            if link is not None:
                child.attrs["href"] = _address(link[1], served=served) + (link[2] or "")
    return str(markdown.renderer.render(tokens, markdown.options, {}))
