"""`assetsync pause`: stop uploads for a while. `sync.requests.pause` carries it out, `resume --pause` ends it."""

import os
import time
from datetime import datetime

import click

from assetsync.cli.operator import act
from assetsync.cli.options import known_folders, with_config, with_json
from assetsync.config import SiteConfig, duration
from assetsync.config.timetable import occurrences, time_of_day
from assetsync.core.mapping import folders_above
from assetsync.errors import UsageError
from assetsync.sync.requests.pause import PauseUploads
from assetsync.text import printable, user_name

_LONGEST_WHY = 200


def _seconds(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    try:
        seconds = None if value is None else duration(value)
    except ValueError as error:
        raise click.BadParameter("write a number and its unit, such as 30m or 2h") from error
    if seconds == 0:
        raise click.BadParameter("it must be longer than 0")
    return seconds


def _end(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    """Return the next time of the day, or the date and time, in seconds since the epoch."""
    if value is None:
        return None
    now = time.time()
    try:
        if "-" in value:
            end = datetime.fromisoformat(value).timestamp()
        else:
            end = next(at for at in occurrences(now, time_of_day(value), 2) if at > now)
    except ValueError as error:
        raise click.BadParameter('write a local time such as 18:00, or "2026-12-24 18:00"') from error
    if end <= now:
        raise click.BadParameter("it is over already")
    return end


def folder_of(config: SiteConfig, given: str) -> bytes:
    """Return a path of the command line relative to the root. Raise UsageError if no mapping sends files from it."""
    (path,) = known_folders(config, [given])
    mapped = [b"" if folder.path == "." else os.fsencode(folder.path) for folder in config.folders]
    above, below = {*folders_above(path), path}, [each for each in mapped if path in {*folders_above(each), each}]
    if not below and above.isdisjoint(mapped):
        raise UsageError(f"no entry of `folders` covers {printable(given)}", hint="nothing is sent from there")
    return path


@click.command("pause")
@with_config
@click.option("--for", "seconds", metavar="TIME", callback=_seconds, help="How long, such as 30m or 2h.")
@click.option("--until", "end", metavar="TIME", callback=_end, help="The local time at which it ends, such as 18:00.")
@click.option("--folder", metavar="PATH", help="Only files at this path of the tree and below it; else the whole site.")
@click.option("--why", default="", metavar="TEXT", help="The reason, for those who look at the status.")
@with_json("Print one object: done, request, message.")
def command(
    config: SiteConfig, *, seconds: float | None, end: float | None, folder: str | None, why: str, as_json: bool
) -> None:
    """Stop uploads for a while: until a time, or until `assetsync resume --pause`.

    An upload that has begun ends first. Scans, look-ups of doubts and reading back go on, and `assetsync upload` sends
    files all the same. A pause survives restarts, and a clock that is set back does not make it longer. A second pause
    of the same path replaces the first. A pause is no brake: neither releases the other. Beside a daemon, the daemon
    carries this out. PATH is relative to the root, or absolute.

    \b
    Examples:
      assetsync pause --config hq.yaml --for 2h --why "the service is upgraded"
      assetsync pause --config hq.yaml --until 18:00 --folder photos/2026
      assetsync pause --config hq.yaml
    """
    if seconds is not None and end is not None:
        raise UsageError("--for and --until are both an end", hint="leave out one of them")
    if len(why) > _LONGEST_WHY:
        raise UsageError(f"--why is longer than {_LONGEST_WHY} characters", hint="write a few words")
    until = end if seconds is None else time.time() + seconds
    path = b"" if folder is None else folder_of(config, folder)
    who = os.environ.get("SUDO_USER") or user_name(os.getuid())
    act(config, PauseUploads(path, who, why, until), as_json=as_json)
