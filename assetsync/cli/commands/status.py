"""`assetsync status`: print the state of the site from the ledger, once or repeatedly.

The counts come from `status.site_status`, the sentences from `status.sentences`. Neither the tree nor the service is
read.
"""

import os
import re
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING

import click

from assetsync.cli.entry import OK
from assetsync.cli.options import raise_mistakes, with_json, with_outline_or_all
from assetsync.cli.output import coloured, write, write_json
from assetsync.cli.overview import exit_code, sentence, show_all
from assetsync.config.outline import Outline
from assetsync.ledger.reports import view_ledger
from assetsync.status.document import as_object
from assetsync.status.sentences import (
    adopted_differing,
    counted,
    headline,
    held_by_doubts,
    leftovers,
    missing_folders,
    no_room,
    not_running,
    orphan_sidecars,
    page_line,
    regular_work,
    scanned,
    sending,
    trouble,
    unsettled,
    uploaded,
    vanished,
    waiting,
)
from assetsync.status.site_status import Level, SiteStatus, read_status
from assetsync.text import moment, runnable

if TYPE_CHECKING:
    from rich.console import ConsoleDimensions
    from rich.live import Live
    from rich.text import Text

_EVERY = 2.0
_NARROWEST = 2  # lines; too few for a line that says that something is left out


@click.command("status")
@with_outline_or_all
@with_json("Print one object; with --watch one a line, every two seconds; with --all one a line for each site.")
@click.option("--brief", is_flag=True, help="Print one line, and exit with 1 if a person is needed.")
@click.option("--watch", is_flag=True, help="Refresh until Ctrl-C or SIGTERM, which exit with 0.")
def command(config: Outline | None, *, as_json: bool, watch: bool, brief: bool) -> int:
    """Show whether the site is in sync, and what needs you.

    The command only reads the ledger: it asks the service nothing and does not look at the tree. It works beside a
    daemon. It exits with 1 if no process watches the site: the daemon has not run for two minutes, a pass of the timer
    is late, or it is unknown whether a process runs. With --brief, it also exits with 1 if a person is needed for
    another reason: something is blocked or stopped by a brake, nothing could be sent for an hour, or the last scan is
    older than 26 hours.

    \b
    Examples:
      assetsync status --config /etc/assetsync/hq.yaml
      assetsync status --config hq.yaml --watch
      assetsync status --config hq.yaml --json | jq .in_sync
      assetsync status --config hq.yaml --brief      # exits with 1 if a person is needed
      assetsync status --all
    """
    if watch and (brief or config is None):
        raise click.UsageError("--watch shows one site in full: leave out --all and --brief")
    if config is None:
        return show_all(as_json=as_json, brief=brief)
    if watch:
        _watch(config, as_json=as_json)
        raise_mistakes()
        return OK
    status = _look(config)
    if as_json:
        write_json(as_object(status))
    elif brief:
        write(f"{config.site}: {sentence(status)}")
    else:
        for line in _painted(status, _lines(status)):
            write(line)
    raise_mistakes()
    return exit_code(status, brief=brief)


def _look(config: Outline) -> SiteStatus:
    # Reopen the ledger each time: without a writer SQLite opens it as immutable and would not see later changes.
    with closing(view_ledger(config.ledger, site=config.site)) as ledger:
        return read_status(config, ledger, time.time())


def _lines(status: SiteStatus) -> Iterator[str]:
    yield f"{status.site}: {headline(status)}"
    yield counted(status)
    yield from sending(status)
    yield uploaded(status)
    longest = waiting(status)
    if longest is not None:
        yield longest
    yield scanned(status)
    yield from vanished(status)
    yield regular_work(status)
    paused = trouble(status)
    if paused is not None:
        yield paused
    held = held_by_doubts(status)
    if held is not None:
        yield f"held: {held}"
    yield from no_room(status)
    yield from missing_folders(status.missing_folders)
    yield from orphan_sidecars(status)
    yield from adopted_differing(status)
    yield from unsettled(status)
    yield from leftovers(status)
    yield from page_line(status)
    yield from not_running(status)


_COLOURS = {Level.IN_SYNC: "green", "noted": "yellow", Level.UNDER_WAY: "yellow", Level.NEEDS_YOU: "red"}
_MARK = re.compile(
    r"(brake \d+|blocked|missing|unreadable|ledger|indexing stopped|configuration rejected|not running|no pass)\b"
    r"|(?:held|in doubt|audit pending|metadata drift)(?=:)"
)


def _painted(status: SiteStatus, lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines with the words that say whether an operator must act in colour, if the terminal has it."""
    for number, line in enumerate(lines):
        if not number:
            site, _, text = line.partition(": ")
            words, colon, rest = text.partition(": ")
            yield f"{site}: {coloured(words, _COLOURS[status.badge])}{colon}{rest}"
        elif (mark := _MARK.match(line)) is not None:
            yield coloured(mark.group(), "red" if mark.group(1) else "yellow") + line[mark.end() :]
        else:
            yield line


def _watch(config: Outline, *, as_json: bool) -> None:
    """Print the state every `_EVERY` seconds until SIGINT or SIGTERM, which are the regular end."""
    look = _look(config)
    # Without a handler SIGTERM would leave the terminal on the alternate screen.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    screen: Live | None = None
    with suppress(KeyboardInterrupt), ExitStack() as stack:
        on_terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not as_json
        if on_terminal:
            screen = stack.enter_context(_screen())
        while True:
            if as_json:
                write_json(as_object(look))
            elif screen is not None:
                screen.console.size = _terminal_size()
                screen.update(_fitted(look, screen.console.size), refresh=True)
            else:
                write(f"{moment(look.at)}")
                for line in _lines(look):
                    write(line)
                write()
            sys.stdout.flush()
            time.sleep(_EVERY)
            look = _look(config)
    if screen is not None:
        write(f"{look.site}: {headline(look)}")


def _screen() -> "Live":
    """Return the other screen of the terminal; the old contents are back when it is left."""
    from rich.console import Console  # noqa: PLC0415 - slow to load, and needed only here
    from rich.live import Live  # noqa: PLC0415

    return Live(console=Console(), screen=True, auto_refresh=False)


def _terminal_size() -> tuple[int, int]:
    """Return columns and lines of the terminal. COLUMNS and LINES may be older than the window's size."""
    size = os.get_terminal_size(sys.stdout.fileno())
    # A terminal that does not know its size, such as a serial line, reports 0.
    return size.columns or 80, size.lines or 24


def _fitted(look: SiteStatus, size: "ConsoleDimensions") -> "Text":
    """Return the lines cut to the screen; if some do not fit below each other, a line says so."""
    from rich.text import Text  # noqa: PLC0415 - as above

    lines = [*_lines(look), "", f"{moment(look.at)}, again every {_EVERY:.0f} s; Ctrl-C ends it"]
    if len(lines) > size.height:
        more = [*lines[: size.height - 2], "… and more: assetsync status without --watch", lines[-1]]
        lines = more if size.height > _NARROWEST else lines[: size.height]
    painted = [Text.from_ansi(runnable(line)) for line in _painted(look, lines)]
    return Text("\n", no_wrap=True, overflow="ellipsis").join(painted)
