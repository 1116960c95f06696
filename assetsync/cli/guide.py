"""`assetsync guide`: list the pages of the guide, show one in the terminal, or open all of them in a browser.

The pages are the files of `assetsync/guide`.
"""

import re
import sys
import tempfile
from difflib import get_close_matches
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import click

from assetsync.cli.output import write
from assetsync.errors import UsageError

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title} - assetsync</title><style>
body {{ max-width: 60rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; color: #1d2530 }}
nav {{ font-size: .9rem }} table {{ border-collapse: collapse; display: block; overflow-x: auto }}
th, td {{ border: 1px solid #c9d1da; padding: .25rem .5rem; text-align: left; vertical-align: top }}
code, pre {{ font-family: ui-monospace, monospace; background: #f0f2f5 }} pre {{ padding: .5rem; overflow-x: auto }}
@media (prefers-color-scheme: dark) {{ body {{ background: #15191f; color: #d7dde5 }} code, pre {{ background: #232a33
}} a {{ color: #8ab4f8 }} }}
</style></head><body><nav>{links}</nav>{body}</body></html>
"""


class Page(NamedTuple):
    """A page of the guide; `topic` is its name on the command line, `summary` its first sentence."""

    topic: str
    title: str
    summary: str
    text: str


@click.command("guide")
@click.option("--open", "in_browser", is_flag=True, help="Write an HTML copy of all pages, and open it in a browser.")
@click.argument("topic", required=False)
def command(topic: str | None, *, in_browser: bool) -> None:
    """List the pages of the guide, or show the page TOPIC.

    \b
    Examples:
      assetsync guide
      assetsync guide troubleshooting
      assetsync guide --open metadata
    """
    known = {page.topic: page for page in pages()}
    if topic is not None and topic not in known:
        close = get_close_matches(topic.lower(), known, n=1)
        hint = f"did you mean `{close[0]}`?" if close else "`assetsync guide` lists the pages"
        raise UsageError(f"the guide has no page {topic!r}", hint=hint)
    if in_browser:
        folder = Path(tempfile.mkdtemp(prefix="assetsync-guide-"))
        write_html(folder, list(known.values()))
        first = folder / f"{topic or 'first-site'}.html"
        write(str(first))
        click.launch(first.as_uri())
    elif topic is None:
        width = max(map(len, known))
        for page in known.values():
            write(f"{page.topic:<{width}}  {page.summary}")
    else:
        _show(known[topic].text)


def pages() -> list[Page]:
    """Return all pages of the guide, by topic."""
    found = []
    for file in sorted(files("assetsync").joinpath("guide").iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".md"):
            text = file.read_text("utf-8")
            title, _, rest = text.removeprefix("# ").partition("\n")
            paragraph = " ".join(rest.strip().split("\n\n")[0].split())
            summary = re.split(r"(?<=\.) ", paragraph, maxsplit=1)[0]
            found.append(Page(file.name.removesuffix(".md"), title, summary, text))
    return found


def write_html(folder: Path, guide: list[Page]) -> None:
    """Write each page as HTML into a folder; links between pages lead to the copies."""
    from markdown_it import MarkdownIt  # noqa: PLC0415 - slow to load, and needed only here

    markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
    links = " · ".join(f'<a href="{page.topic}.html">{escape(page.title)}</a>' for page in guide)
    for page in guide:
        body = re.sub(r'href="([a-z-]+)\.md(#[a-z-]+)?"', r'href="\1.html\2"', markdown.render(page.text))
        html = _PAGE.format(title=escape(page.title), links=links, body=body)
        (folder / f"{page.topic}.html").write_text(html, "utf-8")


def _show(text: str) -> None:
    if not sys.stdout.isatty():
        write(text.rstrip("\n"))
        return
    from rich.console import Console  # noqa: PLC0415 - slow to load, and needed only on a terminal
    from rich.markdown import Markdown  # noqa: PLC0415

    console = Console()
    with console.pager(styles=True):
        # The terminal shows neither the anchors of links nor the marks of generated parts.
        console.print(Markdown(re.sub(r"<(a id|!--).*?(</a>|-->)\n?", "", text)))
