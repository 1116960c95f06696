"""The entry point: call a command, end it at a safe point on a signal, and turn every exception into an exit code.

The commands are listed in `root`. An `AssetsyncError` prints its own message. An unexpected exception is logged with
the secrets redacted, and its exit code is 70, which no result of a run uses.
"""

import os
import resource
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from assetsync import INTERRUPTED
from assetsync.cli.output import ReaderGone, complain, give_up, telling, unwritten
from assetsync.cli.root import root
from assetsync.errors import (
    AssetsyncError,
    ConfigError,
    LedgerBusy,
    LedgerDenied,
    OutOfResources,
    OutputError,
    ServiceElsewhere,
    ServiceError,
    ends_for_good,
)
from assetsync.text import ACTIVE, configuration, user_name

OK = 0
NOT_IN_SYNC = 1
USAGE = 2
NO_SERVICE = 3
BUSY = 4
UNEXPECTED = 70  # EX_SOFTWARE of sysexits(3)
_M_ARENA_MAX = -8
"""The parameter of mallopt(3) that limits the heaps among which the C library spreads threads."""

_PIPE_CLOSED = 141  # the code that a shell reports for a program killed by SIGPIPE


def main() -> int:
    """Run the command line of this process and return the exit code."""
    # Open closed standard streams on /dev/null: output to them is lost, and no later file gets their numbers.
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    _raise_limit()
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - open until the process ends
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    return run(sys.argv[1:])


def _raise_limit() -> None:
    """Raise the limit of open files as far as this user may: systemd and shells set a low one for old programs."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # In some sandboxes no limit may be set.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def limit_heaps() -> None:
    """Let all threads allocate from two heaps, where the C library has this limit.

    By default new threads get up to 16 heaps on two cores. Each of them keeps most of what its threads ever used: a
    daemon grew by 45 MB within an hour.
    """
    import ctypes  # noqa: PLC0415 - slow to load, and needed only here

    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return the exit code (0, 1, 2, 3, 4, 130, and 70 for the unexpected; see the guide).

    The code is 141 if the reader of stdout is gone.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):
            # File names may hold characters that the terminal's encoding lacks.
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
        return _failed(error, arguments)
    except (ReaderGone, BrokenPipeError, SystemExit) as ended:
        # click itself raises SystemExit: with 0 after a completion, with 1 if the reader of its help text is gone.
        if isinstance(ended, SystemExit) and not ended.code:
            return OK
        give_up(sys.stdout)
        return _PIPE_CLOSED
    except Exception as error:  # noqa: BLE001 - the last place that can report it without a secret
        if _is_of_click(error):
            return _failed(unwritten(error), arguments)
        return _unexpected(error, arguments)
    return code if isinstance(code, int) else OK


def program() -> Path:
    """Return the path of the program in this installation: systemd and runuser search other folders than a shell."""
    return Path(sys.prefix, "bin", "assetsync")


def run_as(user: int, arguments: Sequence[str]) -> str:
    """Return the line for root's shell that runs this program as another user; minimal systems lack sudo."""
    name = user_name(user)
    as_user = ["setpriv", f"--reuid={name}", "--clear-groups"] if name.isdigit() else ["runuser", "-u", name, "--"]
    # Another user may not be allowed to look there, and Path.exists raises then.
    is_there = os.path.exists(program())  # noqa: PTH110
    return shlex.join([*as_user, str(program()) if is_there else "assetsync", *arguments])


def _as_owner(owner: int, arguments: Sequence[str]) -> str:
    """Return the line for a shell that runs this command line as the ledger's owner."""
    words = list(arguments)
    if not any(word.partition("=")[0] in ("--config", "-c", "--site") for word in words):
        from assetsync.cli.options import CONFIG_VARIABLE  # noqa: PLC0415 - slow to load, and needed only here

        # The line may be pasted into a shell with another environment. Behind `--` an option would be a path.
        chosen = os.environ.get(CONFIG_VARIABLE)
        end = words.index("--") if "--" in words else len(words)
        words[end:end] = ["--config", chosen] if chosen else shlex.split(configuration())
    return run_as(owner, words)


def _failed(error: AssetsyncError, arguments: Sequence[str]) -> int:
    if isinstance(error, LedgerDenied) and not ACTIVE.search("".join(arguments)):
        # A line break, or a name that is shown with escapes, would make another command of it.
        error.hint = f"run it as its user, which root can: {_as_owner(error.owner, arguments)}"
    for sentence in error.mistakes if isinstance(error, ConfigError) else (str(error),):
        complain(sentence)
    if isinstance(error, OutputError):
        give_up(sys.stdout)
    return exit_code(error)


def _is_of_click(error: Exception) -> bool:
    """Return whether click itself failed to write to stdout; click writes only help and the version."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return isinstance(error, OSError) and trace is not None and trace.tb_frame.f_code is click.echo.__code__


def exit_code(error: AssetsyncError) -> int:
    """Return the exit code for an error."""
    if isinstance(error, LedgerBusy):
        return BUSY
    # ServiceElsewhere: the service answers, but a person must decide.
    if isinstance(error, ServiceError) and not isinstance(error, ServiceElsewhere):
        return NO_SERVICE
    return USAGE if ends_for_good(error) else NOT_IN_SYNC


def _unexpected(error: Exception, arguments: Sequence[str]) -> int:
    if (lack := OutOfResources.of(error)) is not None:
        return _failed(lack, arguments)
    import structlog  # noqa: PLC0415

    from assetsync.log import configure_logging  # noqa: PLC0415 - slow to load, and needed only here

    configure_logging()
    structlog.get_logger("assetsync").critical("unexpected error", exc_info=error)
    complain("an unexpected error occurred: please report the lines above")
    return UNEXPECTED


def _call_after(seconds: float, end: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, end)
    timer.daemon = True
    try:
        timer.start()
    except RuntimeError:
        # No thread can be started.
        end()


@contextmanager
def stopping(stop: threading.Event, ends: Sequence[Callable[[], None]], *, patience: float) -> Iterator[None]:
    """Set `stop` on the first signal (SIGINT, SIGTERM, SIGHUP); end the process at once on the second.

    After the first signal and `patience` seconds, call each of `ends`: they end what the command may be waiting for, so
    that a service that hangs does not hold it up.
    """
    # A thread receives them: one that arrives just before the main thread waits for an answer would run no handler
    # before that wait ends.
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def receive() -> None:
        heard = False
        while numbers := os.read(reading, 64):
            for number in numbers:
                if heard and number in before:
                    os._exit(INTERRUPTED)
                if number in before:
                    heard = True
                    finish()
        os.close(reading)

    def finish() -> None:
        stop.set()
        # Only after `stop` is set: code that appends to `ends` checks `stop` afterwards.
        for end in list(ends):
            _call_after(patience, end)

    # SIGHUP: the terminal was closed. nohup ignores it, so that the command goes on; leave it ignored then.
    hang_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, *hang_up)}
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=receive, name="signals", daemon=True).start()
    for number in before:
        signal.signal(number, lambda _number, _frame: None)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
        os.close(writing)
