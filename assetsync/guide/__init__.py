"""The pages of the guide, as Markdown and as HTML; the pages are the files `*.md` of this folder.

Showing them is left to `assetsync guide` and to the status page.
"""

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from markdown_it.token import Token

_DOCUMENT = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} - assetsync</title>
{icon}<style>{style}</style>
</head>
<body>
<header>{top}</header>
<main>
{body}</main>
<nav aria-label="Pages">
{links}</nav>
</body>
</html>
"""
_TASKS = (
    *("first-site", "for-editors", "metadata", "metadata-drift", "daemon-and-systemd", "monitoring"),
    *("troubleshooting", "moving-and-restoring", "scale", "promises-and-evidence"),
)
"""The pages that help with a task, in the order of need; the others are for reference."""
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
    """Return all pages of the guide by topic: first the tasks, then the reference."""
    names = {file.name.removesuffix(".md") for file in files(__name__).iterdir() if file.name.endswith(".md")}
    return {topic: _page(topic) for topic in (*_TASKS, *sorted(names.difference(_TASKS)))}


def _page(topic: str) -> Page:
    text = files(__name__).joinpath(f"{topic}.md").read_text("utf-8")
    title, _, rest = text.removeprefix("# ").partition("\n")
    paragraph = " ".join(rest.strip().split("\n\n")[0].split())
    summary = re.split(r"(?<=\.) ", paragraph, maxsplit=1)[0]
    return Page(topic, title, summary, text)


def contents() -> Page:
    """Return the page that lists all others; its topic is `index`."""
    text = "# Guide\n"
    for heading, group in _groups():
        text += f"\n## {heading}\n\n"
        text += "".join(f"- [{page.title}]({page.topic}.md): {page.summary}\n" for page in group)
    return Page("index", "Guide", "All pages of the guide.", text)


def _groups() -> tuple[tuple[str, list[Page]], ...]:
    every = list(pages().values())
    return ("Tasks", every[: len(_TASKS)]), ("Reference", every[len(_TASKS) :])


@cache
def style() -> str:
    """Return the style that each HTML page contains."""
    return files(__name__).joinpath("guide.css").read_text("utf-8")


def as_html(page: Page, *, served: bool) -> str:
    """Return a page as an HTML document without scripts; if it is `served`, it lies in `guide/` below the status page.

    Raise ImportError if the library for Markdown is missing.
    """

    def link(to: Page) -> str:
        current = ' aria-current="page"' * (to.topic == page.topic)
        return f'<a href="{_address(to.topic, served=served)}"{current}>{escape(to.title)}</a>'

    links = ""
    for heading, group in _groups():
        items = "\n".join(f"<li>{link(each)}</li>" for each in group)
        links += f"<h2>{heading}</h2>\n<ul>\n{items}\n</ul>\n"
    return _DOCUMENT.format(
        title=escape(page.title),
        icon='<link rel="icon" type="image/svg+xml" href="../icon.svg">\n' * served,
        style=style(),
        top='<a href="../">Status</a> ' * served + link(contents()),
        body=_body(page.text, served=served),
        links=links,
    )


def _address(topic: str, *, served: bool) -> str:
    if not served:
        return f"{topic}.html"
    return "./" if topic == "index" else topic


def _body(text: str, *, served: bool) -> str:
    from markdown_it import MarkdownIt  # noqa: PLC0415 - slow to load, and needed only here

    markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens = markdown.parse(text)
    _add_ids(tokens, set(re.findall(r'<a id="([^"]+)">', text)))
    _add_labels(tokens)
    for child in (child for token in tokens for child in token.children or []):
        link = _LINK.fullmatch(str(child.attrs.get("href", "")))
        if link is not None:
            child.attrs["href"] = _address(link[1], served=served) + (link[2] or "")
    return str(markdown.renderer.render(tokens, markdown.options, {}))


def _add_ids(tokens: Sequence["Token"], used: set[str]) -> None:
    """Give each heading the id that GitHub gives it, and each row of a table the only code in its first cell as its id.

    So the reasons of `troubleshooting` and the keys of `configuration` can be linked to.
    """
    for number, token in enumerate(tokens):
        name = None
        if token.type == "heading_open":
            name = re.sub(r"[^\w\- ]", "", tokens[number + 1].content.lower()).replace(" ", "-")
        elif token.type == "tr_open":
            cell = tokens[number + 2].children or []
            name = cell[0].content if len(cell) == 1 and cell[0].type == "code_inline" else None
        if name and name not in used and _ID.fullmatch(name):
            token.attrSet("id", name)
            used.add(name)


def _add_labels(tokens: Sequence["Token"]) -> None:
    """Label each cell but the first of a row with its column: a narrow screen shows the cells below each other."""
    columns: list[str] = []
    column = 0
    for number, token in enumerate(tokens):
        if token.type == "thead_open":
            columns = []
        elif token.type == "th_open":
            columns.append(tokens[number + 1].content)
        elif token.type == "tr_open":
            column = 0
        elif token.type == "td_open":
            if column:
                token.attrSet("data-label", columns[column])
            column += 1
