"""`assetsync demo`: print what the demonstration does while it runs. The run itself is left to `demo`."""

import signal
import sys
import tempfile
import threading
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

import click

from assetsync.cli.entry import NOT_IN_SYNC, OK
from assetsync.cli.output import making_temporary, note, table, write
from assetsync.cli.progress import on_stderr
from assetsync.errors import UsageError
from assetsync.ledger.rows import FileRow
from assetsync.log import configure_logging
from assetsync.reconcile import Report
from assetsync.text import files, printable

try:
    from assetsync.demo import Stage
except ModuleNotFoundError as error:
    raise UsageError(
        f"the demo needs the library {error.name}, which is not installed",
        hint="in a clone of assetsync: pip install '.[sandbox]'",
    ) from error


@click.command("demo")
@click.option("--keep", is_flag=True, help="Keep the service running until Ctrl-C, with its page.")
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Work in this folder, and keep everything there.",
)
@click.option("--quiet", is_flag=True, help="Show no progress on stderr.")
def command(*, keep: bool, directory: Path | None, quiet: bool) -> int:
    """Show a whole run: mirror a sample tree into a local service, change some files, and mirror it again.

    The demo takes some seconds. It uses a temporary folder, and no network. Its service answers like a live
    installation (`assetsync sandbox --dialect observed`).

    \b
    Examples:
      assetsync demo
      assetsync demo --keep
      assetsync demo --dir /tmp/assetsync-demo
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    stays = keep or directory is not None
    with ExitStack() as stack:
        if directory is None:
            with making_temporary(hint="name a folder with --dir, or set $TMPDIR"):
                directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="assetsync-demo-")))
        stage = stack.enter_context(Stage(directory))
        write(f"A sample tree in {stage.tree}, a service at {stage.address}")
        write()
        first = _run(stage, quiet=quiet)
        write(f"First run: {_done(first)}")
        _write_table(stage.files())
        for change in stage.change():
            write(f"  {change}")
        write()
        second = _run(stage, quiet=quiet)
        write(f"Second run: {_done(second)}")
        _write_table(stage.files())
        fine = first.in_sync and second.in_sync
        write("Everything is verified: read back from the service as it was sent." if fine else "Not all is verified.")
        if stays:
            write(f"configuration  {stage.config_file}")
            write(f"ledger         {stage.ledger_file}")
        else:
            write("The folder is removed now: with --keep it stays a while, with the service and its page of pictures.")
        if keep:
            # Around the output, too: the user may press Ctrl-C as soon as the address is printed.
            with suppress(KeyboardInterrupt):
                write(f"the pictures   {stage.address}")
                sys.stdout.flush()
                note("Ctrl-C ends it")
                threading.Event().wait()
    return OK if fine else NOT_IN_SYNC


def _run(stage: Stage, *, quiet: bool) -> Report:
    with on_stderr(as_bar=sys.stderr.isatty(), quiet=quiet) as progress:
        configure_logging("auto", "warning", stream=sys.stderr)
        return stage.reconcile(progress)


def _done(report: Report) -> str:
    return (
        f"{report.uploaded} uploaded, {report.adopted} taken over without an upload, {report.unchanged} unchanged,"
        f" {files(report.verified)} verified, {report.seconds:.1f} s"
    )


def _write_table(rows: Iterable[FileRow]) -> None:
    shown = [(printable(row.path), row.assetid or "-", str(row.state)) for row in rows]
    for line in table(("path", "asset id", "state"), shown):
        write(f"  {line}")
    write()
