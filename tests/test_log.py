"""The log: one event a line, and no line with a secret in it.

Covers `journal.py`.
"""

import base64
import io
import json
import logging
import os
import sys
import threading
import warnings
from urllib.parse import quote, quote_plus

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from assetsync import log as log_module
from assetsync.log import configure_logging, log_uncaught, redact, register_secret

CANARY = 'K3y/with+odd"chars=%&\\end'


def make_log(form="json", level="debug"):
    """Logging into a text that can be looked at, with the canary registered."""
    out = io.StringIO()
    register_secret(SecretStr(CANARY))
    configure_logging(form, level, stream=out)
    return out


def events(out):
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_event_is_one_json_line():
    out = make_log()
    structlog.get_logger("assetsync.sync").info("file sent", path="ü.jpg", size=3)
    (event,) = events(out)
    assert event.pop("timestamp").endswith("Z")
    assert event == {"event": "file sent", "path": "ü.jpg", "size": 3, "level": "info", "logger": "assetsync.sync"}


@pytest.mark.parametrize(
    ("method", "level"),
    [
        *((name, name) for name in ("debug", "info", "warning", "error", "critical")),
        *[("warn", "warning"), ("exception", "error"), ("fatal", "critical"), ("msg", "info")],
    ],
)
def test_each_way_to_log_has_its_level(method, level):
    out = make_log()
    getattr(structlog.get_logger("x"), method)("hello")
    assert [(event["event"], event["level"]) for event in events(out)] == [("hello", level)]


def test_unnamed_logger_uses_its_module_name():
    out = make_log()
    structlog.get_logger().info("hello")
    structlog.get_logger().bind(a=1).info("hello")
    assert [event["logger"] for event in events(out)] == [__name__, __name__]


def test_library_record_has_the_same_form():
    out = make_log()
    logging.getLogger("some.library").info("took %d s", 3)
    (event,) = events(out)
    assert (event["event"], event["level"], event["logger"]) == ("took 3 s", "info", "some.library")


def test_bound_context_is_part_of_each_event():
    out = make_log()
    with structlog.contextvars.bound_contextvars(site="hq"):
        structlog.get_logger("x").info("a")
    assert events(out)[0]["site"] == "hq"


@pytest.mark.parametrize("name", ["httpx", "httpcore", "httpcore.connection", "apscheduler.scheduler", "watchdog"])
def test_chatty_libraries_log_from_warning(name):
    out = make_log()
    logging.getLogger(name).info("HTTP Request: GET https://dam.example.com/?api_key=x")
    logging.getLogger(name).warning("overflow")
    assert [event["event"] for event in events(out)] == ["overflow"]


def test_events_below_the_level_are_left_out():
    out = make_log(level="warning")
    structlog.get_logger("x").info("quiet")
    logging.getLogger("y").info("quiet")
    structlog.get_logger("x").warning("loud")
    assert [event["event"] for event in events(out)] == ["loud"]


def test_auto_format_is_json_off_a_terminal():
    off, on = io.StringIO(), io.StringIO()
    on.isatty = lambda: True
    for out in (off, on):
        configure_logging("auto", "info", stream=out)
        structlog.get_logger("x").info("hello", a=1)
    assert json.loads(off.getvalue())["event"] == "hello"
    assert on.getvalue().count("\n") == 1
    with pytest.raises(ValueError):
        json.loads(on.getvalue())


@pytest.fixture
def journal(tmp_path, monkeypatch):
    """A file that $JOURNAL_STREAM names as the journal's."""
    with (tmp_path / "journal").open("w+", encoding="utf-8") as out:
        status = os.fstat(out.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
        yield out


def lines_of(out):
    out.seek(0)
    return out.read().splitlines()


def test_journal_lines_carry_their_priority(journal):
    configure_logging("auto", "debug", stream=journal, site="hq")
    log = structlog.get_logger("assetsync.sync")
    for level in ("debug", "info", "warning", "error", "critical"):
        getattr(log, level)("brake pulled", why="two words", count=3)
    shown = [(line[:3], line[3:]) for line in lines_of(journal)]
    assert [priority for priority, _ in shown] == ["<7>", "<6>", "<4>", "<3>", "<2>"]
    assert {text for _, text in shown} == {'brake pulled  why="two words" count=3 site=hq'}


def test_journal_shows_counts_as_text(journal):
    configure_logging("auto", "debug", stream=journal)
    structlog.get_logger("test").info("files vanished", folders={"photos/2023": 165, "photos/2024": 5})
    assert lines_of(journal) == ['<6>files vanished  folders="photos/2023 165, photos/2024 5"']


def test_journal_has_a_priority_on_each_line_of_a_traceback(journal):
    configure_logging("auto", "info", stream=journal)
    register_secret(SecretStr(CANARY))
    try:
        raise_with_key()
    except ValueError:
        structlog.get_logger("x").exception("failed")
    shown = lines_of(journal)
    assert len(shown) > 3
    assert all(line.startswith("<3>") for line in shown)
    assert CANARY not in "".join(shown)


def test_json_in_the_journal_carries_the_priority_too(journal):
    configure_logging("json", "info", stream=journal)
    logging.getLogger("library").warning("hello %s", "there")
    (line,) = lines_of(journal)
    assert line[:3] == "<4>"
    assert json.loads(line[3:])["event"] == "hello there"


def test_another_stream_than_the_journal_has_no_priority(journal, tmp_path):
    with (tmp_path / "other").open("w+", encoding="utf-8") as out:
        configure_logging("auto", "info", stream=out)
        structlog.get_logger("x").info("hello")
        assert json.loads(lines_of(out)[0])["event"] == "hello"


def test_the_log_goes_to_stderr(capsys):
    configure_logging("json", "info")
    structlog.get_logger("x").info("hello")
    out, err = capsys.readouterr()
    assert out == ""
    assert json.loads(err)["event"] == "hello"


def raise_with_key():
    raise ValueError(f"bad answer to https://x/?api_key={CANARY}")


def log_exception():
    try:
        raise_with_key()
    except ValueError:
        logging.getLogger("a").exception("it failed")


def log_structlog_exception():
    try:
        try:
            raise_with_key()
        except ValueError as exc:
            raise RuntimeError("outer") from exc
    except RuntimeError:
        structlog.get_logger("a").exception("it failed")


def log_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=True)
        warnings.warn(f"odd {CANARY}", stacklevel=1)


class Odd:
    def __str__(self):
        return f"<odd {CANARY}>"

    __repr__ = __str__


def from_us(**values):
    return lambda: structlog.get_logger("a").warning("event", **values)


PATHS = {
    "message": lambda: structlog.get_logger("a").warning(f"the key is {CANARY}"),
    "value": from_us(key=CANARY),
    "nested value": from_us(request={"form": [("api_key", CANARY), {"x": (CANARY,)}], CANARY: {CANARY}}),
    "bytes": from_us(body=f"--b\r\n{CANARY}\r\n".encode()),
    "object": from_us(thing=Odd(), things=[Odd()]),
    "exception as a value": from_us(error=ValueError(CANARY)),
    "name of a value": lambda: structlog.get_logger("a").warning("event", **{CANARY: 1}),
    "bound value": lambda: structlog.get_logger("a").bind(key=CANARY).warning("event"),
    "argument": lambda: logging.getLogger("a").warning("key %s", CANARY),
    "arguments by name": lambda: logging.getLogger("a").warning("key %(key)s", {"key": CANARY}),
    "argument as repr": lambda: logging.getLogger("a").warning("key %r", {"key": CANARY}),
    "address": lambda: logging.getLogger("httpx").warning(
        'HTTP Request: %s %s "%s"', "GET", f"https://x/search.cfc?api_key={quote(CANARY, safe='')}&a=1", "HTTP/1.1 200"
    ),
    "lower-case encoding": from_us(url=quote(CANARY, safe="").lower().replace(CANARY[:3].lower(), CANARY[:3])),
    "form": from_us(form=f"fa=c.apiupload&api_key={quote_plus(CANARY)}"),
    "header of basic authentication": from_us(header=base64.b64encode(f"user:{CANARY}:x".encode()).decode()),
    "traceback": log_exception,
    "traceback with a cause": log_structlog_exception,
    "stack": lambda: logging.getLogger("a").warning("stack", stack_info=True),
    "warning": log_warning,
}


@pytest.mark.parametrize("form", ["json", "console"])
@pytest.mark.parametrize("path", PATHS)
def test_key_reaches_the_log_by_no_path(path, form):
    out = make_log(form)
    PATHS[path]()
    text = out.getvalue()
    assert text
    forms = [CANARY, json.dumps(CANARY)[1:-1], repr(CANARY)[1:-1], quote(CANARY, safe=""), quote_plus(CANARY)]
    assert not [form for form in forms if form in text]
    # No long part of it either, whatever it was encoded with.
    assert "K3y" not in text
    assert base64.b64encode(b"user:" + CANARY.encode()).decode()[8:20] not in text
    if path != "stack":
        assert "[key]" in text


@pytest.mark.parametrize("before", ["", "a", "ab", "abc"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_key_in_base64_is_redacted(before, encode):
    register_secret(SecretStr(CANARY))
    text = encode(f"{before}{CANARY}tail".encode()).decode()
    assert "[key]" in redact(text)


@given(
    st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=64),
    st.text(max_size=20),
    st.text(max_size=20),
)
def test_redaction_removes_any_key(key, before, after):
    secrets = log_module._Secrets()
    secrets.add(key)
    for form in (key, quote(key, safe=""), quote_plus(key), json.dumps(key)[1:-1]):
        assert key not in secrets.redact(f"{before}{form}{after}").replace("[key]", "\0")


def test_text_without_secret_is_unchanged():
    register_secret(SecretStr(CANARY))
    assert redact("photos/2026/a.jpg") == "photos/2026/a.jpg"


def test_an_empty_secret_changes_nothing():
    register_secret(SecretStr(""))
    assert redact("abc") == "abc"


def test_bad_record_shows_only_its_place():
    out = make_log()
    logging.getLogger("a").warning("%d files", CANARY)
    err = out.getvalue()
    assert err.startswith("a log record of a (test_log.py:")
    assert err.endswith("cannot be written: TypeError\n")
    assert "K3y" not in err


def test_bad_event_shows_only_its_place():
    class Broken:
        def __str__(self):
            raise TypeError(CANARY)

    out = make_log()
    structlog.get_logger("a").warning("event", thing=Broken())
    structlog.get_logger("a").warning("the next")
    err, following = out.getvalue().splitlines()
    assert err.startswith("a log record of a (test_log.py:")
    assert err.endswith("cannot be written: TypeError")
    assert "K3y" not in err
    assert json.loads(following)["event"] == "the next"


class Unsaid:
    """What has no form as a text."""

    def __str__(self):
        raise TypeError


@pytest.mark.parametrize(
    "warn",
    [
        pytest.param(lambda name: structlog.get_logger(name).warning("event", thing=Unsaid()), id="ours"),
        pytest.param(lambda name: logging.getLogger(name).warning("event %s", Unsaid()), id="a library's"),
    ],
)
def test_logger_name_of_bad_event_hides_key(warn):
    out = make_log()
    warn(f"a.{CANARY}\n")
    err = out.getvalue()
    assert err.startswith("a log record of a.[key]\\n (test_log.py:")
    assert err.endswith(") cannot be written: TypeError\n")


@pytest.mark.parametrize("log", [structlog.get_logger("a"), logging.getLogger("a")], ids=["ours", "a library's"])
def test_a_log_on_a_full_disk_stops_nobody(monkeypatch, log):
    with open("/dev/full", "wb", buffering=0) as disk:
        monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(disk, write_through=True))
        configure_logging("json", "debug")
        log.warning("event")
        with pytest.raises(OSError, match="No space left"):
            sys.stderr.write("event\n")


@pytest.mark.parametrize("log", [structlog.get_logger("a"), logging.getLogger("a")], ids=["ours", "a library's"])
def test_event_on_closed_stream_is_dropped(capsys, log):
    make_log().close()
    log.warning("event")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("where", ["main", "thread"])
def test_uncaught_error_hides_the_key(where):
    out = make_log()
    log_uncaught()
    if where == "thread":
        thread = threading.Thread(target=raise_with_key, name="sender-1")
        thread.start()
        thread.join()
    else:
        try:
            raise_with_key()
        except ValueError as exc:
            sys.excepthook(type(exc), exc, exc.__traceback__)
    (event,) = events(out)
    assert (event["event"], event["level"]) == ("unexpected error", "critical")
    assert "ValueError: bad answer" in event["exception"]
    assert "K3y" not in out.getvalue()


@pytest.mark.parametrize("form", ["json", "console"])
@pytest.mark.parametrize("evil", ["a\nb", "a\rb", "\x1b[2Jx", "a\u2028b", "a\u202eb", "a\x85b", "a\udc80b"])
def test_event_of_any_value_stays_one_line(form, evil):
    out = make_log(form)
    structlog.get_logger("a").info(evil, path=evil, nested=[evil])
    logging.getLogger("b").info("path %s", evil)
    text = out.getvalue()
    assert len(text.splitlines()) == 2
    assert evil not in text
    assert "\x1b" not in text
    text.encode("utf-8")


def test_json_round_trips_every_value():
    out = make_log()
    evil = "a\nb\u2028c\u202ed\x1be\udc80"
    structlog.get_logger("a").info("event", path=evil)
    assert events(out)[0]["path"] == evil


def test_console_traceback_is_indented():
    out = make_log("console")

    def forge():
        raise ValueError("first\n2026-01-01T00:00:00Z [info] forged\x1b[2J")

    try:
        forge()
    except ValueError:
        structlog.get_logger("a").exception("it failed")
    first, *rest = out.getvalue().splitlines()
    assert "it failed" in first
    assert rest
    assert all(line.startswith("    ") for line in rest)
    assert "\x1b" not in out.getvalue()
