"""The entry point: calls a command and turns whatever it raises into sentences on stderr and an exit code.

Which commands there are is in `root`. No user ever sees a traceback: an error of ours is its own sentence, one that
nobody foresaw is logged, with the secrets taken out, and exits with 70, which no outcome of a run uses.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

import click

from assetsync.cli.output import ReaderGone, complain, telling, unwritten
from assetsync.cli.root import root
from assetsync.errors import (
    AssetsyncError,
    ConfigError,
    LedgerBusy,
    LedgerDetached,
    OutputError,
    ServiceElsewhere,
    ServiceError,
)

OK = 0
NOT_IN_SYNC = 1
USAGE = 2
NO_SERVICE = 3
BUSY = 4
UNEXPECTED = 70  # EX_SOFTWARE of sysexits(3)
INTERRUPTED = 130
_PIPE_CLOSED = 141  # as a shell shows a program that SIGPIPE ended


def main() -> int:
    """Run the command line of this process; gives the exit code."""
    _open_what_is_closed()
    return run(sys.argv[1:])


def _open_what_is_closed() -> None:
    """Let what is said to a stream that the caller has closed go nowhere, and no file of ours take its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - for as long as it runs
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def run(arguments: Sequence[str]) -> int:
    """Run one command line; gives the exit code (DESIGN: 0, 1, 2, 3, 4, 130, and 70 for the unexpected)."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):
            # Names hold what the terminal's encoding may not.
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = root.main(args=list(arguments), prog_name="assetsync", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        with telling():
            error.show(sys.stderr)
        return error.exit_code
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except AssetsyncError as error:
        return _failed(error)
    except (ReaderGone, BrokenPipeError, SystemExit) as ended:
        # The last is how click itself leaves: after a completion with 0, and with 1 where nobody reads its help.
        if isinstance(ended, SystemExit) and not ended.code:
            return OK
        _give_up_output()
        return _PIPE_CLOSED
    except Exception as error:  # noqa: BLE001 - the last place where it can be told without showing a secret
        if _is_of_click(error):
            return _failed(unwritten(error))
        _unexpected(error)
        return UNEXPECTED
    return code if isinstance(code, int) else OK


def _failed(error: AssetsyncError) -> int:
    tell(error)
    if isinstance(error, OutputError):
        _give_up_output()
    return exit_code(error)


def _is_of_click(error: Exception) -> bool:
    """Whether click itself could not write to stdout, as it does with help and the version alone."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return isinstance(error, OSError) and trace is not None and trace.tb_frame.f_code is click.echo.__code__


def _give_up_output() -> None:
    """Let the interpreter not try to write the rest."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def tell(error: AssetsyncError) -> None:
    """Write an error's sentences to stderr, one a line."""
    for sentence in error.mistakes if isinstance(error, ConfigError) else (str(error),):
        complain(sentence)


def exit_code(error: AssetsyncError) -> int:
    """Give the exit code that an error stands for."""
    if isinstance(error, LedgerBusy):
        return BUSY
    if isinstance(error, (ServiceElsewhere, LedgerDetached)):
        # The service answers well: a person is asked. A ledger that was replaced is opened anew by the next start.
        return NOT_IN_SYNC
    return NO_SERVICE if isinstance(error, ServiceError) else USAGE


def _unexpected(error: Exception) -> None:
    import structlog  # noqa: PLC0415

    from assetsync.log import configure_logging  # noqa: PLC0415 - slow to load, and needed here alone

    configure_logging()
    structlog.get_logger("assetsync").critical("unexpected error", exc_info=error)
    complain("something went wrong that assetsync did not foresee: the lines above tell what; please report them")
