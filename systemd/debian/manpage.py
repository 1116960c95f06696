"""Print assetsync(1) as roff: one section a command, from the help that the commands show themselves."""  # noqa: INP001

import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from inspect import cleandoc

import click

from assetsync import __version__
from assetsync.cli.root import COMMANDS, root
from assetsync.errors import UsageError

# Without these, man shows typographic signs that a shell does not understand.
_SIGNS = str.maketrans({"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"})
_FILES = {
    "/etc/assetsync/SITE.yaml": "The configuration of a site.",
    "/etc/assetsync/SITE.key": "Its API key, which the unit reads as root.",
    "/var/lib/assetsync/SITE.db": "Its ledger: what is known of each file.",
    "/usr/share/doc/assetsync/": "An example configuration, and the guide that `assetsync guide` shows.",
}


def main() -> None:
    """Print the page, dated by $SOURCE_DATE_EPOCH."""
    day = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    context = click.Context(root, info_name="assetsync")
    lines = [f'.TH ASSETSYNC 1 "{day:%Y-%m-%d}" "assetsync {__version__}" "User Commands"', ".SH NAME"]
    lines += [r"assetsync \- mirror a folder tree, one way, into a digital asset management service"]
    lines += [".SH SYNOPSIS", r"\fBassetsync\fP \fICOMMAND\fP [\fIOPTION\fP]...", ".SH DESCRIPTION"]
    lines += [*_prose(root.help or ""), *_options(context), ".SH COMMANDS", *_commands(context), ".SH FILES"]
    for path, purpose in _FILES.items():
        lines += [".TP", rf"\fI{_escaped(path)}\fP", _escaped(purpose)]
    sys.stdout.write("\n".join(lines) + "\n")


def _commands(parent: click.Context) -> Iterator[str]:
    """Yield a section for each command below the parent, and for the commands below these."""
    group = parent.command
    if not isinstance(group, click.Group):
        return
    for name in group.list_commands(parent):
        try:
            command = group.get_command(parent, name)
        except UsageError as missing:
            # The demo draws its pictures with a library of the extra `sandbox`, which a server does without.
            yield from (f".SS assetsync {name}", _escaped(COMMANDS[name]), f"Here, {_escaped(str(missing))}.")
            continue
        assert command is not None  # the group lists it
        context = click.Context(command, parent=parent, info_name=name)
        path = context.command_path
        yield f".SS {_escaped(path)}"
        yield rf"\fB{_escaped(path)}\fP {_escaped(' '.join(command.collect_usage_pieces(context)))}"
        yield from _prose(command.help or "")
        yield from _options(context)
        yield from _commands(context)


def _options(context: click.Context) -> Iterator[str]:
    """Yield the options of a command, except --help."""
    for parameter in context.command.params:
        record = parameter.get_help_record(context)
        if record:
            yield from (".TP", rf"\fB{_escaped(record[0])}\fP", _escaped(record[1]))


def _prose(text: str) -> Iterator[str]:
    """Yield paragraphs; click marks those whose lines are kept with a backspace."""
    for paragraph in cleandoc(text).split("\n\n"):
        mark, *kept = paragraph.splitlines() or [""]
        if mark == "\b":
            yield from (".PP", ".nf", *map(_escaped, kept), ".fi")
        else:
            yield from (".PP", *map(_escaped, paragraph.splitlines()))


def _escaped(line: str) -> str:
    """Return a line that roff shows as it is; a dot at its start would be a request."""
    return (r"\&" if line.startswith(".") else "") + line.translate(_SIGNS)


if __name__ == "__main__":
    main()
