"""`assetsync doubt`: list the uploads whose answer was lost, look them up at once, or record a person's decision.

`sync.requests` has the look-ups and the decision as requests.
"""

from collections.abc import Iterator
from contextlib import closing

import click

from assetsync.cli.operator import act
from assetsync.cli.options import known_folders, known_path, topmost, with_config, with_json, with_limit
from assetsync.cli.output import first_of, write_json, write_parts
from assetsync.config import SiteConfig
from assetsync.errors import UsageError
from assetsync.ledger.ledger import Ledger, read_ledger
from assetsync.ledger.reports import Finding
from assetsync.ledger.rows import AttemptRow, FileRow
from assetsync.model import State, Wanted
from assetsync.service.search import checked_id
from assetsync.status.sentences import about
from assetsync.sync.requests.decisions import Resolve
from assetsync.sync.requests.retry import LookUp
from assetsync.text import amount, moment, plural, printable, runnable


@click.group("doubt")
def command() -> None:
    """List uploads whose answer was lost, look them up now, or decide one.

    \b
    Examples:
      assetsync doubt list --config hq.yaml
      assetsync doubt retry --config hq.yaml
      assetsync doubt resolve --config hq.yaml photos/harbour.jpg --absent
    """


@command.command("list")
@with_config
@with_limit
@with_json("Print one object a line.")
def list_doubts(config: SiteConfig, *, limit: int, as_json: bool) -> None:
    """List uploads whose answer was lost: the service may have the file.

    \b
    Example:
      assetsync doubt list --config hq.yaml --json
    """
    before: tuple[State, str] | None = None
    with closing(read_ledger(config.ledger, site=config.site)) as ledger:
        for row, attempt in first_of(_doubts(ledger), limit, as_json=as_json, empty="nothing is in doubt"):
            if as_json:
                write_json(_as_object(row, attempt))
                continue
            reason = row.state, row.detail or row.reason or ""
            shown = "for the same reason" if reason == before else about(row, reason[1])
            state, before = f"{row.state.words}, {shown}", reason
            write_parts(f"{printable(row.path)}:", runnable(state), between=" ")
            if attempt is not None:
                handed = "an unknown part" if attempt.bytes_sent is None else amount(attempt.bytes_sent)
                write_parts(
                    f"    sent {moment(attempt.started_at)}",
                    f"as {printable(attempt.sent_name)}",
                    f"into {attempt.destfolderid},",
                    f"{handed} of {amount(attempt.size)} handed over,",
                    f"{plural(attempt.looks, 'look-up')} since",
                    between=" ",
                )


def _doubts(ledger: Ledger) -> Iterator[tuple[FileRow, AttemptRow | None]]:
    for row in ledger.reports.files(State.IN_DOUBT, history=True):
        yield row, ledger.doubts.of(row.id)
    for row in ledger.reports.files(State.BLOCKED, history=True):
        attempt = ledger.doubts.of(row.id) if row.wanted in (Wanted.YES, Wanted.OUTSIDE) else None
        if attempt is not None:
            yield row, attempt


def _as_object(row: FileRow, attempt: AttemptRow | None) -> dict[str, object]:
    return Finding.of(row, row.reason, row.detail).as_object() | {
        "wanted": row.wanted,
        "sent_name": attempt.sent_name if attempt else None,
        "sent_at": moment(attempt.started_at) if attempt else None,
        "bytes_left": attempt.bytes_sent if attempt else None,
        "looks": attempt.looks if attempt else 0,
        "next_look": moment(attempt.look_at) if attempt else None,
    }


@command.command("retry")
@with_config
@with_json("Print one object: done, request, message.")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
def retry(config: SiteConfig, paths: tuple[str, ...], *, as_json: bool) -> None:
    """Look up uploads in doubt now, such as after an outage: these files, the files below these folders, or all.

    The look-ups decide as always, only sooner. Blocked files stay blocked; `assetsync retry` retries these too. Beside
    a daemon, the daemon carries this out. PATH is relative to the root, or absolute.

    \b
    Examples:
      assetsync doubt retry --config hq.yaml
      assetsync doubt retry --config hq.yaml photos/2026
    """
    wanted = topmost(known_folders(config, paths))
    act(config, LookUp(tuple(wanted)), as_json=as_json)


@command.command("resolve")
@with_config
@click.argument("path")
@click.option("--asset", "assetid", metavar="ID", help="This asset is the file: adopt it, and verify it.")
@with_json("Print one object: done, request, message.")
@click.option("--absent", is_flag=True, help="The service does not have the file: send it again.")
def resolve(config: SiteConfig, path: str, *, assetid: str | None, absent: bool, as_json: bool) -> None:
    """Decide an upload whose answer was lost, after you have looked in the service.

    Beside a daemon, the daemon carries this out. PATH is relative to the root, or absolute.

    \b
    Examples:
      assetsync doubt resolve --config hq.yaml photos/harbour.jpg --asset 5D1C61E5A4E24E4E8F2D62B2E1A1B0C9
      assetsync doubt resolve --config hq.yaml photos/harbour.jpg --absent
    """
    if (assetid is None) is not absent:
        raise UsageError(
            "doubt resolve needs either --asset ID or --absent", hint="look in the service, then choose one"
        )
    if assetid is not None:
        checked_id(assetid)
    act(config, Resolve(known_path(config, path), assetid), as_json=as_json)
