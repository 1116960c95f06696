"""`assetsync check`: yield the findings of all checks, print them and set the exit code. Nothing is changed.

The configuration, the key, the status page, `notify` and the service are checked here; the tree in `check_tree`, the
ledger in `check_ledger`. Sending a test message is left to `notify.notifications`.
"""

import os
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Literal

import click
from pydantic import SecretStr

from assetsync.cli.addresses import swapped, wrong_upload_url
from assetsync.cli.check_ledger import look_at_ledger
from assetsync.cli.check_tree import look_at_tree
from assetsync.cli.daemon_user import (
    User,
    acting_as,
    can_act_as,
    check_as,
    daemon_user,
    is_of_the_units,
    key_reader,
    systemd_makes_folder,
)
from assetsync.cli.entry import NO_SERVICE, OK, USAGE
from assetsync.cli.finding import Finding, Level, Where
from assetsync.cli.operator import read_key
from assetsync.cli.options import CONFIGURATIONS, with_config_path, with_json
from assetsync.cli.output import coloured, write, write_json
from assetsync.clock import ZONE_FIX, zone_warning
from assetsync.config import (
    KEY_VARIABLE,
    Listen,
    SiteConfig,
    key_file,
    key_file_fix,
    key_file_warning,
    load_config,
    mappings,
)
from assetsync.core.notices import trial_notice
from assetsync.core.outcome import SERVICE_FAILS_HELP
from assetsync.errors import BadAnswer, ConfigError, LedgerError, ServiceError
from assetsync.ledger.file.database import holder_of
from assetsync.ledger.file.ledger_files import real
from assetsync.ledger.folders import Hold
from assetsync.ledger.reports import view_ledger
from assetsync.log import redact
from assetsync.model import SearchRequest
from assetsync.notify.channel import Undelivered
from assetsync.notify.heartbeat import heartbeat_of
from assetsync.notify.notifications import receivers
from assetsync.parts import make_service
from assetsync.service.client import HttpService
from assetsync.sync.lookup_gates import probe, probe_everywhere
from assetsync.sync.observer import Everywhere
from assetsync.text import plural, printable, user_name


def why_unusable(listen: Listen) -> str | None:
    """Return why the status page cannot listen at an address; None if it can. The address is tried for a moment."""
    try:
        where = socket.getaddrinfo(listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = where[0]
        with socket.socket(family, socket.SOCK_STREAM) as tried:
            # The daemon sets this option, too: a socket that was closed a moment ago does not block the address.
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(address)
            tried.listen()
    except OSError as error:
        return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
    except UnicodeError:
        return "no such name can be looked up"
    return None


def look_at_page(config: SiteConfig) -> Iterator[Finding]:
    """Warn of an address that another program uses, or that does not belong to this machine."""
    listen = config.status.listen
    if listen is None or holder_of(real(config.ledger)).sends:
        # If the process that sends for this site is a daemon, it listens there itself.
        return
    why = why_unusable(listen)
    if why is None:
        return
    message = f"the status page cannot listen on {listen}: {why}"
    fix = (
        "give each site a port of its own in status.listen, or write `auto` there, or null for no page; files are"
        " mirrored all the same"
    )
    yield Finding("status", Level.WARNING, message, fix)


_FIX = {
    "webhook": "correct notify.webhook, or see the receiver's log",
    "command": "run the program by hand as assetsync's user, with a line of JSON on its stdin",
    "heartbeat": "correct notify.heartbeat, or see the monitor",
}


def look_at_notify(config: SiteConfig, *, send: bool) -> Iterator[Finding]:
    """Yield the findings about `notify`; with `send`, send a test message on each channel and report the result."""
    try:
        found = receivers(config, os.environ)
        heartbeat = heartbeat_of(config, os.environ)
    except ConfigError as error:
        # The check of the service has already reported its own keys.
        own = [mistake for mistake in error.mistakes if not mistake.startswith("service.")]
        yield from (Finding("notify", Level.ERROR, mistake) for mistake in own)
        return
    if heartbeat is not None:
        found["heartbeat"] = lambda _notice: heartbeat.try_it()
    if send and not found:
        fix = "set notify.webhook, notify.command or notify.heartbeat"
        yield Finding("notify", Level.ERROR, "no message can be sent: the configuration names no channel", fix)
    program = config.notify.command
    if program and shutil.which(program[0]) is None:
        fix = "write the whole path of a program that assetsync's user may run"
        yield Finding("notify", Level.WARNING, f"notify.command: there is no program {program[0]}", fix)
    for name, receiver in found.items() if send else ():
        began = time.monotonic()
        try:
            receiver(trial_notice(config.site, time.time()))
        except Undelivered as error:
            yield Finding("notify", Level.ERROR, redact(str(error)), _FIX[name], Where.HERE)
        else:
            took = time.monotonic() - began
            yield Finding("notify", Level.OK, f"notify.{name} took the test message in {took:.1f} s")


def look(path: Path, config: SiteConfig) -> Iterator[Finding]:
    """Yield the findings of all checks, the service last; raise nothing that a configuration can cause."""
    mapped = plural(len(config.folders), "folder")
    yield Finding("configuration", Level.OK, f"{path}: site {config.site}, {mapped} mapped")
    for mistake in config.unknown_fields:
        fix = "files with it are blocked, unless earlier ones with it were processed"
        yield Finding("configuration", Level.WARNING, mistake, fix)
    if (unknown := zone_warning(os.environ)) is not None:
        yield Finding("schedule", Level.WARNING, unknown, ZONE_FIX)
    if not config.schedule.reads_back:
        message = "the daemon reads nothing back: files stay `stored` until `assetsync reconcile` verifies them"
        yield Finding("schedule", Level.WARNING, message, "switch schedule.verify on, or schedule.index")
    for mapped_folder in config.folders:
        if mapped_folder.upload.debug or mapped_folder.upload.emailto is not None:
            where = mapped_folder.path
            message = f"for uploads from {where}, the service mails all parameters, also the API key"
            fix = "take upload.debug and upload.emailto out of this mapping once the fault is found"
            yield Finding("folders", Level.WARNING, message, fix)
    daemon = daemon_user(config)
    user = daemon if daemon is not None and can_act_as(daemon) else None
    key, findings = _key(config, user)
    yield from findings
    yield from _tree(config, daemon, user)
    with acting_as(None if systemd_makes_folder(config) else user):
        findings, held = look_at_ledger(config)
    yield from findings
    yield from look_at_page(config)
    if key is not None:
        yield from _service(config, key, held)


def _tree(config: SiteConfig, daemon: User | None, user: User | None) -> list[Finding]:
    """Return the findings about the tree, read as `user`: as the daemon's user, or None if root cannot become it."""
    with acting_as(user):
        found = [*look_at_tree(config)]
    if daemon is None:
        return found
    name = user_name(daemon.uid)
    if user is None:
        message = (
            f"the tree was read as root, and the daemon runs as {name}: what {name} cannot read is not reported here"
        )
        return [*found, Finding("user", Level.WARNING, message, check_as(daemon.uid, config))]
    return [*found, Finding("user", Level.OK, f"the tree was read as {name}, as whom the daemon runs")]


def _key(config: SiteConfig, user: User | None) -> tuple[SecretStr | None, list[Finding]]:
    """Read the key only once: it may come from a pipe. `user` is the daemon's, if root can become it."""
    try:
        key = read_key(config)
    except ConfigError as error:
        if config.service.api_key_file is None and isinstance(error.__cause__, PermissionError):
            unread = key_file(config, os.environ)
            if unread is not None and unread.parent == CONFIGURATIONS:
                message = f"{unread} is for the systemd units, and this user cannot read it: the service is not asked"
                fix = f"to ask the service, run it as root, or with the key in ${KEY_VARIABLE}"
                return None, [Finding("key", Level.WARNING, message, fix)]
        return None, [Finding("key", Level.ERROR, mistake) for mistake in error.mistakes]
    file = key_file(config, os.environ)
    if file is None:
        return key, [Finding("key", Level.OK, "the API key comes from the environment or systemd")]
    closed = None if user is None else _closed_key(config, user)
    if closed is not None:
        return key, [closed]
    reader = key_reader(config)
    problem = key_file_warning(file, reader)
    if problem is not None:
        return key, [Finding("key", Level.WARNING, problem, key_file_fix(file, reader))]
    return key, [Finding("key", Level.OK, f"{file} holds a key and only its owner can read it")]


def _closed_key(config: SiteConfig, user: User) -> Finding | None:
    """Return the error if the daemon's user cannot read `service.api_key_file`, which root can; else None."""
    file = config.service.api_key_file
    # Without the setting, systemd may hand over the key. A pipe is one of root's shell, which the daemon never opens.
    if file is None or not file.is_file():
        return None
    with acting_as(user):
        is_readable = os.access(file, os.R_OK, effective_ids=True)
        is_reached = os.access(file.parent, os.X_OK, effective_ids=True)
    if is_readable:
        return None
    name = user_name(user.uid)
    fix = key_file_fix(file, user.uid) if is_reached else f"move it to a folder that {name} can open"
    if config.file is not None and is_of_the_units(config):
        handed_over = config.file.with_suffix(".key")
        fix = f"remove service.api_key_file, because the unit hands over the key in {handed_over}; or {fix}"
    message = f"{file} (service.api_key_file): the daemon runs as {name}, which cannot read it"
    return Finding("key", Level.ERROR, message, fix)


def _service(config: SiteConfig, key: SecretStr, held: Mapping[str, Hold]) -> Iterator[Finding]:
    """Yield the findings about the service."""
    try:
        with closing(make_service(config, key)) as service:
            yield from _operations(config, service, held)
    except ConfigError as error:
        for mistake in error.mistakes:
            yield Finding("service", Level.ERROR, mistake)


def _operations(config: SiteConfig, service: HttpService, held: Mapping[str, Hold]) -> Iterator[Finding]:
    """Search each mapped folder for a name that no asset has, and then post a form without a file.

    The database answers such a search fast, and the answer is short. The form can store nothing.
    """
    try:
        for folder in dict.fromkeys(mapping.destfolderid for mapping in mappings(config)):
            probe(service, folder)
            # None of the three operations of the interface lists the folders, and one that does not exist is
            # searched without an error: only uploads show it.
            if folder in held:
                yield Finding("service", Level.WARNING, f"folder {folder}: {held[folder].detail}")
                continue
            answers = f"{config.service.base_url} answers a search in folder {folder}"
            yield Finding("service", Level.OK, f"{answers}; the first upload shows whether the folder exists")
            if (spelled := _spelled_by(service, folder)) != folder:
                message = f"folder {folder}: the service spells this id {spelled}, and the two count as the same"
                yield Finding("service", Level.WARNING, message, f"write destfolderid: {spelled}")
        yield from _everywhere(config, service)
    except BadAnswer as error:
        message = f"{error.message}: what answers at {config.service.base_url} is not the service"
        wrong = BadAnswer(error.message, hint=SERVICE_FAILS_HELP) if error.is_of_server and _has_sent(config) else None
        wrong = wrong or swapped(service, config) or BadAnswer(message, hint=error.hint or "correct service.base_url")
        yield Finding("service", Level.ERROR, wrong.message, wrong.hint, Where.SERVICE)
    except ServiceError as error:
        fix = error.hint or "see that the service runs and that service.base_url is its address"
        yield Finding("service", Level.ERROR, error.message, fix, Where.SERVICE)
    else:
        probe_of_uploads = service.probe_uploads()
        wrong = wrong_upload_url(probe_of_uploads, config)
        if wrong is not None:
            yield Finding("service", Level.ERROR, wrong.message, wrong.hint, Where.SERVICE)
        elif probe_of_uploads.is_right is None:
            message = f"service.upload_url: no answer at {config.service.upload_url} shows whether it is right"
            fix = "see that the service runs and that service.upload_url is its address"
            yield Finding("service", Level.WARNING, message, fix)


def _spelled_by(service: HttpService, folder: str) -> str:
    """Return how the service spells a folder's id in the first row of its listing; as it is given without a row."""
    with service.search(SearchRequest("%", folderid=folder, dbdirect=True, maxrows=1)) as assets:
        shown = next((str(asset.columns.get("folder_id")) for asset in assets), folder)
    return shown if shown.lower() == folder.lower() else folder


def _everywhere(config: SiteConfig, service: HttpService) -> Iterator[Finding]:
    """Search all folders as a run does: in the database, and through the index if files must be findable there."""
    everywhere = Everywhere(service, time.monotonic, list({mapped.destfolderid: None for mapped in mappings(config)}))
    needs_index = config.schedule.index is not None and config.policy.verified_when == "findable"
    missed: dict[Literal["database", "index"], str] = {"database": "folders without a right of its user"}
    if needs_index:
        missed["index"] = "folders that are not mapped"
    for where in [*missed]:
        try:
            probe_everywhere(everywhere, dbdirect=where == "database")
        except ServiceError as error:
            del missed[where]
            message = f"nothing can be searched in all folders in the {where} of the service: {error.message}"
            yield Finding("service", Level.WARNING, message, error.hint or "see the service's log")
    narrowed = [f"in the {where}, in {what}" for where, what in missed.items() if everywhere.is_narrowed(where)]
    if narrowed:
        message = (
            "the service refuses this key searches without folderid, as of a user who is no administrator: nothing is"
            f" found {'; '.join(narrowed)}"
        )
        fix = "use an administrator's key, or move no asset there: it would count as missing"
        yield Finding("service", Level.WARNING, message, fix)


def _has_sent(config: SiteConfig) -> bool:
    """Return whether the service of the configuration has stored uploads, as far as the ledger can be read."""
    with suppress(LedgerError, OSError), closing(view_ledger(config.ledger, site=config.site)) as ledger:
        return ledger.has_sent_to(config.service.base_url)
    return False


_COLOURS = {Level.OK: "green", Level.WARNING: "yellow", Level.ERROR: "red"}


@click.command("check")
@with_config_path
@click.option(
    "--notify", is_flag=True, help="Send a test message to notify.webhook, notify.command and notify.heartbeat too."
)
@with_json("Print one object.")
def command(path: Path, *, notify: bool, as_json: bool) -> int:
    """Test everything that a run needs, and print a fix for each finding; change nothing.

    The command tests the configuration, the API key, the tree and its folders, the limits of the watcher and the
    ledger. It searches each mapped folder of the service for a name that no asset has, and posts a form without a file,
    which stores nothing, to service.upload_url. It exits with 0 if a run can begin, else with 2 or 3.

    \b
    Examples:
      assetsync check --config /etc/assetsync/hq.yaml
      assetsync check --config hq.yaml --notify      # does a message reach you?
      assetsync check --config hq.yaml --json | jq '.findings[] | select(.level != "ok")'
    """
    try:
        # Read the file only once: it may be a pipe.
        config = load_config(path, os.environ)
    except ConfigError as error:
        found = [Finding("configuration", Level.ERROR, mistake) for mistake in error.mistakes]
    else:
        found = [*look(path, config), *look_at_notify(config, send=notify)]
    errors = {finding.where for finding in found if finding.level is Level.ERROR}
    if as_json:
        findings = [
            {"what": finding.what, "level": finding.level, "detail": detail, "message": detail, "help": fix, "fix": fix}
            for finding in found
            for detail, fix in [(redact(finding.message), finding.fix and redact(finding.fix))]
        ]
        write_json({"ok": not errors, "findings": findings})
    else:
        for finding in found:
            sign = coloured(f"{finding.level:<7}", _COLOURS[finding.level])
            write(f"{sign}  {finding.what}: {printable(redact(finding.message))}")
            if finding.fix is not None:
                write(f"         fix: {printable(redact(finding.fix))}")
    if Where.HERE in errors:
        return USAGE
    return NO_SERVICE if errors else OK
