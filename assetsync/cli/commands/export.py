"""`assetsync export`: write the file versions of the ledger, history included, as CSV or JSON lines.

`files` selects the versions and holds the columns that both commands share.
"""

import base64
import csv
import io
import time
from collections.abc import Sequence
from contextlib import closing

import click

from assetsync.cli.commands.files import FILE_KEYS, as_object, chosen, more_of
from assetsync.cli.options import with_outline
from assetsync.cli.output import csv_cell, write_data, write_json
from assetsync.config.outline import Outline
from assetsync.ledger.reports import view_ledger
from assetsync.model import State

COLUMNS = (*FILE_KEYS, "wanted", "reason", "mtime", "filetype", "queued_at", "metadata_drift", "path_base64", "detail")


@click.command("export")
@with_outline
@click.option("--format", "form", type=click.Choice(["csv", "jsonl"]), required=True, help="The output format.")
@click.option(
    "--state", type=click.Choice([str(state) for state in State]), metavar="STATE", help="Only versions in this state."
)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
def command(config: Outline, paths: tuple[str, ...], *, form: str, state: str | None) -> None:
    """Write every file version of the ledger to stdout, also earlier ones, as a proof of delivery.

    The asset of a verified version was read back from the service with this id, folder, size and MD5. With PATH, write
    only the versions of this file, or of the files below this folder.

    In CSV, control characters are escaped, and ' is put before a cell that a spreadsheet would read as a formula. If a
    path is changed by this, or is not UTF-8, path_base64 has its bytes.

    \b
    Examples:
      assetsync export --config hq.yaml --format csv > hq.csv
      assetsync export --config hq.yaml --format csv --state verified photos/2026 > delivered.csv
      assetsync export --config hq.yaml --format jsonl | gzip > hq.jsonl.gz
    """
    with closing(view_ledger(config.ledger, site=config.site)) as ledger:
        holds = ledger.reports.holds(time.time())
        if form == "csv":
            write_data(csv_line(COLUMNS))
        for row in chosen(ledger, config, paths, None if state is None else State(state), history=True):
            fields = {"path_base64": None} | as_object(row, holds) | more_of(row)
            if form == "csv":
                if csv_cell(fields["path"]) != fields["path"]:
                    fields["path_base64"] = base64.b64encode(row.path).decode("ascii")
                write_data(csv_line([fields[column] for column in COLUMNS]))
            else:
                write_json(fields)


def csv_line(values: Sequence[object]) -> str:
    """Return one line of CSV without a line end."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([csv_cell(value) for value in values])
    return line.getvalue()
