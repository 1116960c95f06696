"""`assetsync guide`: list the pages of the guide, show one in the terminal, or open all of them in a browser."""

import re
import sys
import tempfile
from difflib import get_close_matches
from pathlib import Path

import click

from assetsync.cli.output import making_temporary, write
from assetsync.errors import UsageError
from assetsync.guide import as_html, contents, pages


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
    known = pages()
    if topic is not None and topic not in known:
        close = get_close_matches(topic.lower(), known, n=1)
        hint = f"did you mean `{close[0]}`?" if close else "`assetsync guide` lists the pages"
        raise UsageError(f"the guide has no page {topic!r}", hint=hint)
    if in_browser:
        with making_temporary():
            folder = Path(tempfile.mkdtemp(prefix="assetsync-guide-"))
            write_html(folder)
        first = folder / f"{topic or 'index'}.html"
        write(str(first))
        click.launch(first.as_uri())
    elif topic is None:
        width = max(map(len, known))
        for page in known.values():
            write(f"{page.topic:<{width}}  {page.summary}")
    else:
        _show(known[topic].text)


def write_html(folder: Path) -> None:
    """Write each page as HTML into a folder; links between pages lead to the copies."""
    for page in (contents(), *pages().values()):
        (folder / f"{page.topic}.html").write_text(as_html(page, served=False), "utf-8")


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
