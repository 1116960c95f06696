"""The configuration: what it means, and every mistake as one sentence with file, line, key and fix.

Covers `config/document/fields.py`, `config/document/loader.py`, `config/document/metadata.py`,
`config/document/problems.py`, `config/load.py`, `config/models.py`, `config/schedule.py`, `config/source.py` and
`config/values.py`.
"""

import os
import re
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger
from hypothesis import given
from hypothesis import strategies as st
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern
from pydantic import BaseModel, ValidationError
from yaml.reader import Reader

from assetsync.config import (
    Cron,
    Interval,
    Listen,
    SiteConfig,
    key_file,
    key_file_warning,
    load_config,
    mappings,
    outdated_credential,
    read_api_key,
)
from assetsync.config.document.loader import _NOT_YAML
from assetsync.config.document.metadata import METADATA_FIELDS
from assetsync.config.document.problems import inner_model
from assetsync.config.models import _SOUND_PATTERN
from assetsync.config.schedule import cron
from assetsync.config.source import read_source
from assetsync.config.timetable import rates, window
from assetsync.errors import ConfigError
from assetsync.model import Mapping, Metadata, UploadOptions

EXAMPLE = Path(__file__).parent.parent / "config.example.yaml"
SMALLEST = """\
site: hq
root: /srv/media
service:
  base_url: https://dam.example.com/razuna
  upload_url: https://dam.example.com/razuna/raz1/dam/index.cfm
folders:
  - path: photos
    destfolderid: F1
"""
KEY = "0123456789ABCDEF"


@pytest.fixture
def make_file(tmp_path):
    """Write a configuration and give its path."""

    def make(text, name="hq.yaml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return make


@pytest.fixture
def make_config(make_file):
    """Load the smallest configuration with more lines, or another text."""
    return lambda more="", text=SMALLEST: load_config(make_file(text + more), {})


@pytest.fixture
def mistakes_of(make_file):
    """Give the mistakes of a configuration, without the file's name in front."""

    def mistakes(text, environ=None):
        path = make_file(text)
        with pytest.raises(ConfigError) as caught:
            load_config(path, environ or {})
        assert all(mistake.startswith(str(path)) for mistake in caught.value.mistakes)
        assert not any("\n" in mistake for mistake in caught.value.mistakes)
        return [mistake.removeprefix(f"{path}, ").removeprefix(f"{path}: ") for mistake in caught.value.mistakes]

    return mistakes


# ── meaning ──


def test_omitted_settings_have_defaults(make_config):
    config = make_config()
    assert (config.site, config.root, config.ledger) == ("hq", Path("/srv/media"), Path("/var/lib/assetsync/hq.db"))
    said = config.model_dump(exclude={"site", "root", "ledger", "folders", "schedule"})
    assert said == {
        "service": {
            "allow_http": False,
            "base_url": "https://dam.example.com/razuna",
            "upload_url": "https://dam.example.com/razuna/raz1/dam/index.cfm",
            "api_key_file": None,
            "ca_file": None,
            "proxy": None,
            "connect_timeout": 10.0,
            "read_timeout": 300.0,
            "credential": "api_key",
            "metadata_fields": {"img": None, "vid": None, "aud": None, "doc": None, "other": None},
            "custom_fields": {},
            "meta_fields": (),
            "characters": "bmp",
            "kinds": {},
            "longest_name": 190,
            "asset_url": None,
            "xmp_fields": {},
        },
        "ignore": (),
        "watch": {
            "mode": "auto",
            "settle": 5.0,
            "sidecar_wait": 0.0,
            "sidecar_reminder": 86_400.0,
            "follow_symlinks": False,
        },
        "upload": {
            "workers": 4,
            "rate": None,
            "window": None,
            "max_file_size": None,
            "doubt_grace": 120.0,
            "lookup_lag": None,
        },
        "policy": {
            "on_change": "upload",
            "on_move": "upload",
            "on_remote_missing": "report",
            "verified_when": "findable",
            "unprocessed_after": 21600.0,
        },
        "brake": {"max_new_files": 50000, "max_vanished": 10000, "max_vanished_share": 0.5},
        "status": {"listen": Listen("127.0.0.1", 9464), "expected_every": 93_600.0},
        "log": {"format": "auto", "level": "info"},
        "notify": {
            "webhook": None,
            "command": None,
            "heartbeat": None,
            "heartbeat_file": None,
            "heartbeat_every": 300.0,
            "heartbeat_style": "plain",
        },
    }
    schedule = config.schedule
    assert (schedule.rescan, schedule.index, schedule.verify) == (Interval(3600.0), Interval(60.0), Interval(300.0))
    assert schedule.audit == cron("0 3 * * sun")
    assert mappings(config) == (Mapping(path=b"photos", destfolderid="F1"),)


@pytest.mark.parametrize(
    ("ignore", "said", "xmp", "sends_xmp"),
    [
        ("[]", "", True, False),
        ("[]", "    xmp: off\n", False, False),
        ("['!*.xmp']", "", False, True),
        ("['!*.xmp']", "    xmp: on\n", True, False),
        ("['!*.xmp']", "    ignore: ['*.xmp']\n", True, False),
        ("['!keep/*.XMP']", "", False, True),
        ("['!*']", "", False, True),
        ("['!.*', '!*.psd']", "", True, False),
    ],
)
def test_rule_that_takes_xmp_back_switches_it_off(make_config, ignore, said, xmp, sends_xmp):
    text = SMALLEST + said + f"ignore: {ignore}\n"
    (mapping,) = mappings(make_config(text=text))
    assert (mapping.xmp, mapping.sends_xmp) == (xmp, sends_xmp)


@pytest.mark.parametrize(
    ("word", "sidecars", "needs_sidecar"), [("on", True, False), ("off", False, False), ("required", True, True)]
)
def test_sidecars_may_be_required(make_config, word, sidecars, needs_sidecar):
    (mapping,) = mappings(make_config(text=f"{SMALLEST}    sidecars: {word}\n"))
    assert (mapping.sidecars, mapping.needs_sidecar) == (sidecars, needs_sidecar)


def test_ledger_path_ignores_environment(make_file):
    environ = {"STATE_DIRECTORY": "/elsewhere", "HOME": "/root"}
    assert load_config(make_file(SMALLEST), environ).ledger == Path("/var/lib/assetsync/hq.db")


@pytest.mark.parametrize("text", ["0123", "0o17", "1e5", "12-30", "NO", "true", "1_000"])
def test_id_is_kept_as_written_text(make_config, text):
    assert make_config(text=SMALLEST.replace("F1", text)).folders[0].destfolderid == text


@pytest.mark.parametrize("site", ["012", "no", "1e5", "null-1"])
def test_site_is_always_text(make_config, site):
    assert make_config(text=SMALLEST.replace("site: hq", f"site: {site}")).site == site


@pytest.mark.parametrize("none", ["", "null", "~", "Null", "NULL"])
def test_null_means_none_or_the_default(make_config, none):
    config = make_config(f"upload: {{rate: {none}, workers: {none}}}\nstatus:\n  listen: {none}\nwatch: {none}\n")
    assert (config.upload.rate, config.upload.workers, config.status.listen) == (None, 4, None)
    assert config.watch.settle == 5.0


@pytest.mark.parametrize("none", ["", "null", "~"])
def test_a_status_of_none_is_no_page(make_config, none):
    assert make_config(f"status: {none}\n").status.listen is None
    assert make_config("log: {level: info}\n").status.listen is not None


def test_a_quoted_null_is_a_text(make_config):
    text = SMALLEST.replace("F1", "F1\n    metadata: {description: 'null', location: ~}")
    assert make_config(text=text).folders[0].metadata.metadata() == Metadata(description="null")


@pytest.mark.parametrize(("word", "flag"), [(w, True) for w in ("true", "yes", "on", "True", "ON")]
                         + [(w, False) for w in ("false", "no", "off", "Off")])  # fmt: skip
def test_flag_accepts_every_boolean_word(make_config, word, flag):
    assert make_config(f"watch: {{follow_symlinks: {word}}}\n").watch.follow_symlinks is flag


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5s", 5.0),
        ("2m", 120.0),
        ("1h", 3600.0),
        ("1d", 86400.0),
        ("500ms", 0.5),
        ("0", 0.0),
        ("0s", 0.0),
        ("1.5h", 5400.0),
    ],
)
def test_a_duration_becomes_seconds(make_config, text, seconds):
    settle = make_config(f"watch: {{settle: {text}}}\n").watch.settle
    assert isinstance(settle, float)
    assert settle == seconds


@pytest.mark.parametrize(
    ("text", "count"),
    [("20MB", 20_000_000), ("512KiB", 524_288), ("1GB", 10**9), ("1GiB", 2**30), ("1.5kB", 1500), ("7", 7), ("7 b", 7)],
)
def test_a_size_becomes_bytes(make_config, text, count):
    config = make_config(f"upload: {{max_file_size: {text}, rate: {text}/s}}\n")
    assert (config.upload.max_file_size, config.upload.rate) == (count, rates(f"{text}/s"))
    assert rates(f"{text}/s").at(0) == count


def test_unquoted_window_equals_quoted_one(make_config):
    assert make_config("upload:\n  window: 19:00-07:00\n").upload.window == window("19:00-07:00")


@pytest.mark.parametrize(
    ("text", "listen"),
    [
        ("127.0.0.1:9464", ("127.0.0.1", 9464)),
        ("'[::1]:80'", ("::1", 80)),
        ("localhost:0", ("localhost", 0)),
        ("auto", ("127.0.0.1", 0)),
        ("null", None),
    ],
)
def test_where_the_page_listens(make_config, text, listen):
    read = make_config(f"status: {{listen: {text}}}\n").status.listen
    assert read == listen
    assert text == "auto" or str(read) == text.strip("'").replace("null", "None")


@pytest.mark.parametrize("command", ["/usr/bin/alert --to 'the admin'", '["/usr/bin/alert", "--to", "the admin"]'])
def test_command_is_a_line_or_a_word_list(make_config, command):
    assert make_config(f"notify:\n  command: {command}\n").notify.command == ("/usr/bin/alert", "--to", "the admin")


@pytest.mark.parametrize(
    ("path", "folder", "mapped"),
    [
        (".", ".", b""),
        ("./", ".", b""),
        ("photos/", "photos", b"photos"),
        ("./a//b/.", "a/b", b"a/b"),
        ("ü", "ü", "ü".encode()),
    ],
)
def test_mapping_folder_is_normalised(make_config, path, folder, mapped):
    config = make_config(text=SMALLEST.replace("path: photos", f"path: {path}"))
    assert (config.folders[0].path, mappings(config)[0].path) == (folder, mapped)


def test_two_mappings_may_share_a_folder(make_config):
    config = make_config("  - {path: video, destfolderid: F1}\n")
    assert [(m.path, m.destfolderid) for m in mappings(config)] == [(b"photos", "F1"), (b"video", "F1")]


def test_a_mapping_with_everything(make_config):
    config = make_config(
        """\
    ignore: ["*.psd", "!x.psd"]
    sidecars: off
    metadata: {description: "{stem}", keywords: [photo, "{dirs}"], language: 2, meta: {headline: 012}}
    upload:
      zip_extract: yes
      skip_event: on_file_add, on_file_edit
      upl_template: 007
      debug: on
      emailto: a@example.com
      redirectto: https://intranet.example.com/x?y=1
      redirecttoparams: a=1&b=2
"""
    )
    assert mappings(config) == (
        Mapping(
            path=b"photos",
            destfolderid="F1",
            ignore=("*.psd", "!x.psd"),
            sidecars=False,
            metadata=Metadata(
                description="{stem}", keywords=("photo", "{dirs}"), language="2", meta=(("headline", "012"),)
            ),
            upload=UploadOptions(
                zip_extract=True,
                skip_event=("on_file_add", "on_file_edit"),
                upl_template="007",
                debug=True,
                emailto="a@example.com",
                redirectto="https://intranet.example.com/x?y=1",
                redirecttoparams="a=1&b=2",
            ),
        ),
    )


def test_configured_field_names_override(make_config):
    text = SMALLEST.replace("folders:", "  metadata_fields: {doc: {description: d, keywords: k}}\nfolders:")
    assert make_config(text=text).service.metadata_fields.table() == METADATA_FIELDS | {"doc": ("d", "k")}
    assert make_config().service.metadata_fields.table() == METADATA_FIELDS


def test_endings_are_read_without_case_and_dot(make_config):
    text = SMALLEST.replace("folders:", "  kinds: {.CR3: other, Heic: doc}\nfolders:")
    assert make_config(text=text).service.kinds == {"cr3": "other", "heic": "doc"}


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:8080/x",
        "http://127.0.0.1/x",
        "http://127.9.9.9/x",
        "http://[::1]:80/x",
        "https://dam.example.com/x",
    ],
)
def test_plain_http_to_localhost_is_accepted(make_config, url):
    text = SMALLEST.replace("https://dam.example.com/razuna\n", f"{url}\n")
    assert make_config(text=text).service.base_url == url


def test_allowed_plain_http_is_accepted(make_config):
    text = SMALLEST.replace("https:", "http:").replace("folders:", "  allow_http: true\nfolders:")
    assert make_config(text=text).service.base_url == "http://dam.example.com/razuna"


def test_trailing_slash_of_url_is_ignored(make_config):
    assert make_config(text=SMALLEST.replace("razuna\n", "razuna//\n")).service == make_config().service


# ── schedule ──


@pytest.mark.parametrize("word", ["off", "Off", "no", "false"])
def test_off_turns_a_schedule_off(make_config, word):
    assert make_config(f"schedule: {{index: {word}}}\n").schedule.index is None


def test_interval_and_cron_differ_by_form(make_config):
    schedule = make_config('schedule: {rescan: 90s, audit: "30 2 * * 1-5"}\n').schedule
    assert schedule.rescan == Interval(90.0)
    assert isinstance(schedule.audit, Cron)
    assert schedule.audit.weekdays == ("mon", "tue", "wed", "thu", "fri")


def next_times(line, start, count=3):
    """When a cron line fires, as APScheduler sees the triggers made of it."""
    triggers = [CronTrigger(**fields, timezone=UTC) for fields in cron(line).triggers()]
    trigger = triggers[0] if len(triggers) == 1 else OrTrigger(triggers)
    found, last = [], None
    for _ in range(count):
        now = last + timedelta(microseconds=1) if last else start
        last = trigger.get_next_fire_time(last, now)
        found.append(last)
    return [at.strftime("%a %d %H:%M") for at in found]


# 1 November 2026 is a Sunday.
START = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "times"),
    [
        ("0 3 * * sun", ["Sun 01 03:00", "Sun 08 03:00", "Sun 15 03:00"]),
        ("0 3 * * 0", ["Sun 01 03:00", "Sun 08 03:00", "Sun 15 03:00"]),
        ("0 3 * * 7", ["Sun 01 03:00", "Sun 08 03:00", "Sun 15 03:00"]),
        ("0 3 * * 1", ["Mon 02 03:00", "Mon 09 03:00", "Mon 16 03:00"]),
        ("0 3 * * 5-7", ["Sun 01 03:00", "Fri 06 03:00", "Sat 07 03:00"]),
        ("0 3 * * MON,wed", ["Mon 02 03:00", "Wed 04 03:00", "Mon 09 03:00"]),
        ("*/20 5 * * *", ["Sun 01 05:00", "Sun 01 05:20", "Sun 01 05:40"]),
        ("5/25 5 * * *", ["Sun 01 05:05", "Sun 01 05:30", "Sun 01 05:55"]),
        ("0 22-23 2 nov *", ["Mon 02 22:00", "Mon 02 23:00", "Tue 02 22:00"]),
        ("0 0 3 * 1", ["Mon 02 00:00", "Tue 03 00:00", "Mon 09 00:00"]),
        ("0 0 */2 * 1", ["Mon 09 00:00", "Mon 23 00:00", "Mon 07 00:00"]),
        ("0 0 29 2 *", ["Tue 29 00:00", "Sun 29 00:00", "Fri 29 00:00"]),
    ],
)
def test_a_cron_line_fires_when_cron_would(line, times):
    assert next_times(line, START) == times


@given(st.integers(0, 7), st.integers(0, 23), st.integers(0, 59))
def test_numeric_weekday_follows_cron(weekday, hour, minute):
    (fields,) = cron(f"{minute} {hour} * * {weekday}").triggers()
    fires = CronTrigger(**fields, timezone=UTC).get_next_fire_time(None, START)
    assert (fires.isoweekday() % 7, fires.hour, fires.minute) == (weekday % 7, hour, minute)


# ── mistakes ──


def changed(old, new):
    assert old in SMALLEST
    return SMALLEST.replace(old, new)


MISTAKES = [
    (changed("root: /srv", "rooot: /srv"), "line 2: rooot: this key is unknown: did you mean `root`?"),
    (changed("destfolderid:", "destfolderd:"), "line 8: folders[0].destfolderd: this key is unknown: did you mean"),
    (changed("site: hq", "site: HQ"), "line 1: site: it is not a valid site name: use a-z, 0-9 and -"),
    (changed("site: hq", "site: -hq"), "line 1: site: it is not a valid site name"),
    (changed("site: hq", "site: [hq]"), "line 1: site: it must be one text: "),
    (changed("site: hq\n", ""), "line 1: site: it is missing: add it"),
    (changed("root: /srv", "root: srv"), "line 2: root: it must be an absolute path: begin it with /"),
    (changed("root: /srv", "root: /srv/../x"), "line 2: root: it holds `..` or a control character: write the full pa"),
    (SMALLEST + "ledger: hq.db\n", "line 9: ledger: it must be an absolute path: begin it with /"),
    (SMALLEST + "ledger: /srv/media/hq.db\n", "line 9: ledger: it is inside root: move it elsewhere"),
    (SMALLEST + "watcher: {}\n", "line 9: watcher: this key is unknown: did you mean `watch`?"),
    (SMALLEST + "workers: 3\n", "line 9: workers: this key is unknown: did you mean `upload.workers`?"),
    (SMALLEST + "zzz: 3\n", "line 9: zzz: this key is unknown: remove it; the keys here are site, root, "),
    (SMALLEST + "Site: x\n", "line 9: Site: this key is unknown: did you mean `site`?"),
    (SMALLEST + "site: x\n", "line 9: site: this key is repeated, first in line 1: remove one of the two"),
    (SMALLEST + f"api_key: {KEY}\n", "line 9: api_key: the API key must not be in this file: move it to a sep"),
    (changed("folders:", f"  api_key: {KEY}\nfolders:"), "line 6: service.api_key: the API key must not be in this fi"),
    (changed("https://dam.example.com/razuna\n", "http://dam.example.com\n"), "line 4: service.base_url: plain http e"),
    (changed("https://dam.example.com/razuna/", "http://10.0.0.1/"), "line 5: service.upload_url: plain http exposes"),
    (changed("razuna\n", "razuna/global/api2/search.cfc\n"), "line 4: service.base_url: it names a single operation:"),
    (changed("razuna\n", "razuna?a=b\n"), "line 4: service.base_url: it holds a query: end the address before `?`"),
    (changed("dam.example.com/razuna\n", "me:pw@dam.example.com\n"), "line 4: service.base_url: it holds a user name"),
    (changed("https://dam.example.com/razuna\n", "dam.example.com\n"), "line 4: service.base_url: it must begin with"),
    (changed("https://dam.example.com/razuna\n", "ftp://x\n"), "line 4: service.base_url: it must begin with https://"),
    (changed("https://dam.example.com/razuna\n", "https:///x\n"), "line 4: service.base_url: it names no host: write"),
    (changed("https://dam.example.com/razuna\n", "https://x:99999/\n"), "line 4: service.base_url: it is not an addre"),
    (changed("https://dam.example.com/razuna\n", "https://[v1.x]/\n"), "line 4: service.base_url: it is not an addres"),
    (changed("https://dam.example.com/razuna\n", "https://[::1]x/\n"), "line 4: service.base_url: it is not an addres"),
    (changed("https://dam.example.com/razuna\n", "https://a b/\n"), "line 4: service.base_url: it must be an address"),
    (changed("  base_url: https://dam.example.com/razuna\n", ""), "line 3: service.base_url: it is missing: add it"),
    (changed("folders:", "  conect_timeout: 3s\nfolders:"), "line 6: service.conect_timeout: this key is unknown: di"),
    (changed("folders:", "  read_timeout: 0\nfolders:"), "line 6: service.read_timeout: it must be longer than 0: wri"),
    (changed("folders:", "  asset_url: https://x/a\nfolders:"), "line 6: service.asset_url: it must hold {assetid"),
    (changed("folders:", "  asset_url: https://{assetid}.x/\nfolders:"), "line 6: service.asset_url: it must name a"),
    (changed("folders:", "  asset_url: 'javascript:{assetid}'\nfolders:"), "line 6: service.asset_url: it must begin"),
    (changed("folders:", "  credential: key\nfolders:"), "line 6: service.credential: it is not an accepted value"),
    (changed("folders:", "  api_key_file: hq.key\nfolders:"), "line 6: service.api_key_file: it must be an absolute p"),
    (changed("folders:", "  proxy: socks5://x\nfolders:"), "line 6: service.proxy: it must begin with https:// or htt"),
    (
        changed("folders:", "  metadata_fields:\n    img: {description: a}\nfolders:"),
        "line 7: service.metadata_fields.img.keywords: it is missing: add it",
    ),
    (
        changed("folders:", "  metadata_fields: {pic: {}}\nfolders:"),
        "line 6: service.metadata_fields.pic: this key is unknown: ",
    ),
    (
        changed("folders:", "  metadata_fields: {img: {description: a b, keywords: k}}\nfolders:"),
        "line 6: service.metadata_fields.img.description: it is not a valid name of a metadata field: use 1 to 64",
    ),
    (
        changed("folders:", "  custom_fields: {Agency: A_1}\nfolders:"),
        "line 6: service.custom_fields.Agency: it is not the id of a custom field: copy the id from the service",
    ),
    (
        changed("    destfolderid: F1\n", "    destfolderid: F1\n    metadata:\n      custom: {Agency: x}\n"),
        "line 10: folders[0].metadata.custom.Agency: no custom field has this name: add it with its id to service.cus",
    ),
    (
        changed("folders:", "  kinds: {cr3: picture}\nfolders:"),
        "line 6: service.kinds.cr3: it is not an accepted value: write 'img', 'vid', 'aud', 'doc' or 'other'",
    ),
    (
        changed("folders:", "  kinds: {cr3: other, .CR3: img}\nfolders:"),
        "line 6: service.kinds: it names an ending twice: write each ending once, in lower case and without a dot",
    ),
    (
        changed("folders:", "  kinds: {tar.gz: other}\nfolders:"),
        "line 6: service.kinds.tar.gz: it is not an ending of file names: write what follows the last dot, such as cr3",
    ),
    (SMALLEST[: SMALLEST.index("  - path")], "line 6: folders: it is missing: add it"),
    (SMALLEST[: SMALLEST.index("  - path")] + "  []\n", "line 6: folders: it is empty: write at least one entry"),
    (SMALLEST[: SMALLEST.index("  - path")] + "  path: x\n", "line 6: folders: it must be a list: begin each entry wi"),
    (changed("    destfolderid: F1\n", ""), "line 7: folders[0].destfolderid: it is missing: add it"),
    (changed("F1", "F1,F2"), "line 8: folders[0].destfolderid: it is not a valid folder id: copy the folder's id"),
    (changed("F1", "[F1]"), "line 8: folders[0].destfolderid: it must be one text: "),
    (changed("path: photos", "path: /srv/media/photos"), "line 7: folders[0].path: it must be relative to root: write"),
    (changed("path: photos", "path: a/../b"), "line 7: folders[0].path: it points outside root: write it without `..`"),
    (changed("path: photos", "path:"), "line 7: folders[0].path: it is missing: add it"),
    (SMALLEST + "  - {path: ./photos/, destfolderid: F2}\n", "line 9: folders[1].path: this folder is mapped twice: r"),
    (SMALLEST + "    ignore: '*.psd'\n", "line 9: folders[0].ignore: it must be a list: write it as"),
    (SMALLEST + "    ignore: ['a\\']\n", "line 9: folders[0].ignore: it holds an invalid pattern: write patterns as i"),
    (SMALLEST + "    ignore: ['[z-a]']\n", "line 9: folders[0].ignore: it holds an invalid pattern: write patterns"),
    (SMALLEST + "ignore: ['[a']\n", "line 9: ignore: it holds a pattern that matches nothing: remove it"),
    (SMALLEST + "ignore: ['#a']\n", "line 9: ignore: it holds a pattern that matches nothing: remove it; to match a n"),
    (SMALLEST + "    sidecars: maybe\n", "line 9: folders[0].sidecars: it must be on, off or required: wri"),
    (SMALLEST + "    upload: {skip_event: [on_foo]}\n", "line 9: folders[0].upload.skip_event: it holds an unknown ev"),
    (SMALLEST + "    upload: {emailto: me}\n", "line 9: folders[0].upload.emailto: it is not an e-mail address: write"),
    (SMALLEST + "    upload: {redirectto: x}\n", "line 9: folders[0].upload.redirectto: it must begin with https:// o"),
    (SMALLEST + "    upload: {redirecttoparams: '&a=1'}\n", "line 9: folders[0].upload.redirecttoparams: it begins wi"),
    (SMALLEST + "    metadata: {descriptoin: x}\n", "line 9: folders[0].metadata.descriptoin: this key is unknown: d"),
    (SMALLEST + "    metadata: {upload: {}}\n", "line 9: folders[0].metadata.upload: this key is unknown: "),
    (SMALLEST + "    metadata: {location: '{folder}'}\n", "line 9: folders[0].metadata.location: it holds an unknown"),
    (SMALLEST + "    metadata: {keywords: ['{']}\n", "line 9: folders[0].metadata.keywords: it holds an unknown plac"),
    (SMALLEST + "    metadata: {meta: {city: '{x}'}}\n", "line 9: folders[0].metadata.meta: it holds an unknown"),
    (SMALLEST + "    metadata: {meta: {city: }}\n", "line 9: folders[0].metadata.meta.city: it has no value: write"),
    (SMALLEST + "watch: {mode: fast}\n", "line 9: watch.mode: it is not an accepted value: write 'auto', 'inot"),
    (SMALLEST + "watch: {settle: 5}\n", "line 9: watch.settle: it must be a duration: write a number and its unit"),
    (SMALLEST + "watch: {settle: -5s}\n", "line 9: watch.settle: it must be a duration: write a number and its unit"),
    (SMALLEST + "watch: {settle: 9999d}\n", "line 9: watch.settle: it must be between 0 and ten years: write"),
    (SMALLEST + "watch: on\n", "line 9: watch: it must be a group of `key: value` lines: write the keys below it"),
    (SMALLEST + "upload: {workers: 0}\n", "line 9: upload.workers: it is too small: write 1 or more"),
    (SMALLEST + "upload: {workers: 65}\n", "line 9: upload.workers: it is too large: write 64 or less"),
    (SMALLEST + "upload: {workers: 4.5}\n", "line 9: upload.workers: it must be a whole number: write digits only"),
    (SMALLEST + "upload: {rate: 20MB}\n", "line 9: upload.rate: it must be a size a second: write it such as 20MB/s"),
    (SMALLEST + "upload: {rate: 0MB/s}\n", "line 9: upload.rate: it must be a size of at least one byte: write a size"),
    (SMALLEST + "upload: {max_file_size: 20M}\n", "line 9: upload.max_file_size: it must be a size: write a number"),
    (SMALLEST + "upload: {window: 7-19}\n", "line 9: upload.window: it names neither days nor hours: write it such"),
    (SMALLEST + "upload: {window: '7:00-25:00'}\n", "line 9: upload.window: it holds an invalid time: writ"),
    (SMALLEST + "upload: {window: '7:00-7:00'}\n", "line 9: upload.window: it begins and ends at the same time: write"),
    (SMALLEST + "upload: {doubt_grace: 0}\n", "line 9: upload.doubt_grace: it must be 2s or longer, or no look-"),
    (SMALLEST + "upload: {doubt_grace: 1999ms}\n", "line 9: upload.doubt_grace: it must be 2s or longer, or no look-"),
    (SMALLEST + "schedule: {rescan: }\n", "line 9: schedule.rescan: it has no value: write an interval, a cron line,"),
    (SMALLEST + "schedule: {rescan: 0}\n", "line 9: schedule.rescan: an interval must be longer than 0: write an"),
    (SMALLEST + "schedule: {rescan: often}\n", "line 9: schedule.rescan: it is neither an interval, a cron line nor o"),
    (SMALLEST + "schedule: {audit: 0 3 * *}\n", "line 9: schedule.audit: it is not an interval, and a cron line has"),
    (SMALLEST + "schedule: {audit: 60 3 * * *}\n", "line 9: schedule.audit: its minute is not between 0 and 59: write"),
    (SMALLEST + "schedule: {audit: 0 24 * * *}\n", "line 9: schedule.audit: its hour is not between 0 and 23: write"),
    (SMALLEST + "schedule: {audit: 0 0 0 * *}\n", "line 9: schedule.audit: its day of the month is not between 1 and"),
    (SMALLEST + "schedule: {audit: 0 0 * 13 *}\n", "line 9: schedule.audit: its month is not between 1 and 12: write"),
    (SMALLEST + "schedule: {audit: 0 0 * * 8}\n", "line 9: schedule.audit: its weekday is not between 0 and 7: write"),
    (SMALLEST + "schedule: {audit: 0 0 * * 5-1}\n", "line 9: schedule.audit: its weekday ends before it begins: write"),
    (SMALLEST + "schedule: {audit: 0 0 31 2 *}\n", "line 9: schedule.audit: none of its months has this day: writ"),
    (SMALLEST + "schedule: {audit: '*/0 0 * * *'}\n", "line 9: schedule.audit: its minute is not valid in a cron line"),
    (SMALLEST + "schedule: {audit: 0 0 * * sunday}\n", "line 9: schedule.audit: its weekday is not valid in a cron li"),
    (SMALLEST + "policy: {on_change: delete}\n", "line 9: policy.on_change: it is not an accepted value: write"),
    (SMALLEST + "policy: {verified_when: sent}\n", "line 9: policy.verified_when: it is not an accepted value"),
    (SMALLEST + "brake: {max_vanished: -1}\n", "line 9: brake.max_vanished: it must be a whole number: write digits"),
    (SMALLEST + "status: {listen: 9464}\n", "line 9: status.listen: it must be an address and a port: write it such a"),
    (SMALLEST + "status: {listen: 'x:99999'}\n", "line 9: status.listen: it must be an address and a port: write it"),
    (SMALLEST + "log: {level: loud}\n", "line 9: log.level: it is not an accepted value: write 'debug', 'info'"),
    (SMALLEST + "notify: {webhook: x}\n", "line 9: notify.webhook: it must begin with https:// or http://: write it"),
    (SMALLEST + "notify: {command: \"a 'b\"}\n", "line 9: notify.command: it holds an unclosed quote: write it as a"),
    (SMALLEST + "notify: {heartbeat: ping}\n", "line 9: notify.heartbeat: it must begin with https:// or http://: wri"),
    (SMALLEST + "notify: {heartbeat_every: 0}\n", "line 9: notify.heartbeat_every: it must be longer than 0: write a"),
    (SMALLEST + "notify: {heartbeat_style: gatus}\n", "line 9: notify.heartbeat_style: it is not an accepted value: w"),
    (SMALLEST + "notify: {heartbeat_file: ping}\n", "line 9: notify.heartbeat_file: it must be an absolute path: begi"),
    (SMALLEST + "notify: {heartbeat_file: /srv/media/x}\n", "line 9: notify.heartbeat_file: it is inside root: move i"),
    (
        SMALLEST + "notify: {heartbeat: 'http://x', heartbeat_file: /x}\n",
        "line 9: notify.heartbeat_file: notify.heartbeat gives the address, too: remove one of the two",
    ),
    (SMALLEST + "log: {level: *x}\n", "line 9: log.level: aliases (*name) are not supported: write the value out"),
    (SMALLEST + "log: &x {}\n", "line 9: log: anchors (&name) are not supported: remove it"),
    (SMALLEST + "<<: {a: b}\n", "line 9: <<: merge keys (<<) are not supported: write the values out"),
    (SMALLEST + "log: !!map {}\n", "line 9: log: tags (!name) are not supported: remove it"),
    (SMALLEST + "---\nsite: x\n", "line 9, column 1: a second document begins here: keep one document in one file"),
    ("", "line 1, column 1: it is empty: begin with `site:`, `root:`, `service:` and `folders:`"),
    ("# nothing\n", "line 1, column 1: it is empty: begin with"),
    ("- a\n", "line 1, column 1: it must be a group of `key: value` lines: write the keys below it, indented"),
    (f"site: hq\nroot {KEY}\nservice: x\n", "line 3, column 1: this is not YAML: "),
    (f"site: {KEY}: x\n", "line 1, column 23: this is not YAML: put quotes around a text that holds a colon and a"),
    (b"site: \xff\n", "line 1, column 7: it is not UTF-8: save the file as UTF-8"),
    ("site: \x00\n", "line 1, column 7: the character U+0000 is not allowed in a YAML file: remove it"),
]  # fmt: skip


@given(st.from_regex(_SOUND_PATTERN, fullmatch=True))
def test_accepted_pattern_names_something(pattern):
    regex, ignores = GitIgnoreSpecPattern.pattern_to_regex(pattern)
    assert regex is not None
    assert ignores is not pattern.startswith("!")


def test_refused_characters_match_yaml():
    every = "".join(map(chr, range(0x110000)))
    assert set(_NOT_YAML.findall(every)) == {*Reader.NON_PRINTABLE.findall(every), "\ufeff"}


@pytest.mark.parametrize(("text", "expected"), MISTAKES)
def test_mistake_has_line_key_and_fix(mistakes_of, text, expected):
    mistakes = mistakes_of(text)
    assert [mistake for mistake in mistakes if mistake.startswith(expected)], mistakes
    assert all(re.match(r"line \d+(, column \d+)?: .+: .+", mistake) for mistake in mistakes)
    assert KEY not in "".join(mistakes)


@pytest.mark.parametrize(
    "text",
    [
        text
        for text, _ in MISTAKES
        if isinstance(text, str) and text.startswith(SMALLEST) and "<<" not in text and "---" not in text
    ],
)
def test_one_mistake_is_told_once(mistakes_of, text):
    assert len(mistakes_of(text)) == 1


def test_mistakes_are_reported_in_file_order(mistakes_of):
    text = """\
site: HQ
root: media
service:
  base_url: dam
  conect_timeout: 3s
folders:
  - {path: a, destfolderid: 1}
  - {path: a, destfolder: 2}
upload: {workers: 0, rate: x, rate: 1MB/s}
schedule: {index: *x, audit: 0 0 31 2 *}
"""
    told = [re.match(r"line (\d+): (\S+):", mistake).groups() for mistake in mistakes_of(text)]
    assert told == [
        ("1", "site"),
        ("2", "root"),
        ("3", "service.upload_url"),
        ("4", "service.base_url"),
        ("5", "service.conect_timeout"),
        ("8", "folders[1].path"),
        ("8", "folders[1].destfolder"),
        ("9", "upload.workers"),
        ("9", "upload.rate"),
        ("10", "schedule.index"),
        ("10", "schedule.audit"),
    ]


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "none.yaml", {})
    expected = (
        f"{tmp_path}/none.yaml: the configuration cannot be read (No such file or directory): name an existing file"
    )
    assert str(caught.value).startswith(expected)


def test_pipe_without_writer_times_out(tmp_path, monkeypatch):
    monkeypatch.setattr("assetsync.config.source._PIPE_PATIENCE", 0.1)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match=r"cannot be read \(nothing writes to this pipe\): name an existing file"):
        load_config(pipe, {})


def test_a_pipe_is_read_to_its_end(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write():
        with pipe.open("w") as file:
            for line in SMALLEST.splitlines(keepends=True):
                file.write(line)
                file.flush()
                time.sleep(0.01)

    writer = threading.Thread(target=write)
    writer.start()
    config = load_config(pipe, {})
    writer.join()
    assert config.site == "hq"


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no /dev/zero here")
def test_endless_config_is_refused():
    with pytest.raises(ConfigError, match="too large for a configuration"):
        load_config(Path("/dev/zero"), {})


def test_folder_as_config_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path, {})


@pytest.mark.parametrize(
    "place", ["{key}: 1\n", "log: {{level: {key}}}\n", "ignore: [x{key}]\n", "watch: {{{key}: 1}}\n"]
)
def test_key_in_config_file_is_not_shown(mistakes_of, place):
    mistakes = mistakes_of(SMALLEST + place.format(key=KEY), {"ASSETSYNC_API_KEY": f"{KEY}\n"})
    assert any("the API key must not be in this file" in mistake for mistake in mistakes)
    assert KEY not in "".join(mistakes)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (SMALLEST + "watch: {settle: soon}\n", "soon"),
        (SMALLEST + "log: {level: loud}\n", "loud"),
        (SMALLEST + "upload: {workers: 99}\n", "99"),
        (SMALLEST.replace("path: photos", "path: ../x"), "../x"),
        (SMALLEST.replace("root: /srv/media", "root: media"), "media"),
    ],
)
def test_wrong_value_is_shown(mistakes_of, text, value):
    assert [mistake.rpartition("; ")[2] for mistake in mistakes_of(text)] == [f"the value is '{value}'"]


@pytest.mark.parametrize(
    "text",
    [
        SMALLEST + f"watch: {{settle: {KEY}}}\n",
        SMALLEST + 'log: {level: "a\\x1b[2J"}\n',
        SMALLEST + "notify: {webhook: hooks-secret}\n",
        SMALLEST + "notify: {heartbeat: ping-secret}\n",
        SMALLEST + "upload: {token: my-secret}\n",
        SMALLEST.replace("folders:", "  api_key_file: my-secret\nfolders:"),
        SMALLEST.replace("folders:", "  proxy: me:my-secret@proxy\nfolders:"),
    ],
)
def test_possible_secret_is_not_shown(mistakes_of, text):
    (mistake,) = mistakes_of(text)
    assert "the value is" not in mistake
    assert "secret" not in mistake


def test_pydantic_errors_hide_values():
    with pytest.raises(ValidationError) as caught:
        SiteConfig.model_validate({"site": KEY, "root": KEY, "service": KEY, "folders": KEY})
    assert KEY not in str(caught.value)


def test_the_configuration_cannot_be_changed(make_config):
    with pytest.raises(ValidationError):
        make_config().upload.workers = 5


def test_secret_addresses_are_not_in_repr(make_config):
    text = SMALLEST.replace("folders:", f"  proxy: http://me:{KEY}@proxy:3128\nfolders:")
    hook = f"https://hooks.example.com/{KEY}"
    config = make_config(f"notify: {{webhook: '{hook}', heartbeat: '{hook}'}}\n", text=text)
    assert KEY in config.service.proxy
    assert KEY in config.notify.webhook
    assert KEY in config.notify.heartbeat
    assert KEY not in repr(config)


# ── the API key ──


def with_key_file(make_config, path):
    return make_config(text=SMALLEST.replace("folders:", f"  api_key_file: {path}\nfolders:"))


def test_key_pipe_without_writer_times_out(make_config, tmp_path, monkeypatch):
    monkeypatch.setattr("assetsync.config.source._PIPE_PATIENCE", 0.1)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match=r"it cannot be read \(nothing writes to this pipe\)"):
        read_api_key(with_key_file(make_config, pipe), {})


def test_key_file_precedes_environment(make_config, make_file, tmp_path):
    make_file("from-credential", "api_key")
    environ = {"ASSETSYNC_API_KEY": "from-environment", "CREDENTIALS_DIRECTORY": str(tmp_path)}
    config = with_key_file(make_config, make_file("from-file\n", "hq.key"))
    assert read_api_key(config, environ).get_secret_value() == "from-file"
    assert read_api_key(make_config(), environ).get_secret_value() == "from-environment"
    del environ["ASSETSYNC_API_KEY"]
    assert read_api_key(make_config(), environ).get_secret_value() == "from-credential"


def test_key_beside_configuration_is_last(make_config, make_file, tmp_path):
    config = make_config()
    beside = config.file.with_suffix(".key")
    beside.write_text("from-beside\n")
    assert read_api_key(config, {}).get_secret_value() == "from-beside"
    assert key_file(config, {}) == beside
    make_file("from-credential", "api_key")
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert read_api_key(config, environ).get_secret_value() == "from-credential"
    environ["ASSETSYNC_API_KEY"] = "from-environment"
    assert read_api_key(config, environ).get_secret_value() == "from-environment"
    assert key_file(config, environ) is None


def test_credential_older_than_its_file_is_outdated(make_config, make_file, tmp_path):
    """systemd copies the file at a start of the unit, and at no reload."""
    config = make_config()
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    beside = config.file.with_suffix(".key")
    beside.write_text("of-the-last-start\n")
    time.sleep(0.02)
    make_file("of-the-last-start", "api_key")
    assert outdated_credential(config, environ) is None
    time.sleep(0.02)
    beside.write_text("of-today\n")
    assert outdated_credential(config, environ).startswith(f"{beside} has changed")
    # Without the credential the key is read again.
    assert outdated_credential(config, {}) is None
    assert outdated_credential(config, environ | {"ASSETSYNC_API_KEY": "from-environment"}) is None


def test_key_beside_configuration_in_root_is_refused(make_config, tmp_path):
    config = make_config(text=SMALLEST.replace("root: /srv/media", f"root: {tmp_path}"))
    config.file.with_suffix(".key").write_text(KEY)
    with pytest.raises(ConfigError, match=r"\.key \(beside the configuration\): it is inside root: move it"):
        read_api_key(config, {})


@pytest.mark.parametrize("content", [KEY, f"{KEY}\n", f"{KEY}\r\n", f"{KEY}\n\n"])
def test_line_end_after_key_is_stripped(make_config, make_file, content):
    assert read_api_key(with_key_file(make_config, make_file(content, "hq.key")), {}).get_secret_value() == KEY


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "it is empty: write the API key into it"),
        ("\n", "it is empty"),
        (f"{KEY} {KEY}", "it holds spaces, several lines or control characters: write only the API key into it"),
        (f"{KEY}\n{KEY}", "it holds spaces, several lines"),
        (f" {KEY}", "it holds spaces"),
        (f"{KEY}\x00", "it holds spaces, several lines or control characters"),
        (f"\ufeff{KEY}", "the file holds characters other than ASCII"),
        (KEY * 300, "the file is too large for an API key"),
    ],
)
def test_invalid_key_is_not_shown(make_config, make_file, content, said):
    config = with_key_file(make_config, make_file(content, "hq.key"))
    with pytest.raises(ConfigError, match=re.escape(said)) as caught:
        read_api_key(config, {"ASSETSYNC_API_KEY": "not-asked"})
    assert "hq.key (service.api_key_file): " in str(caught.value)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("value", ["", f"{KEY}\x1b", f"{KEY} x", f"{KEY}é"])
def test_invalid_environment_key_is_hidden(make_config, value):
    with pytest.raises(ConfigError, match=r"^\$ASSETSYNC_API_KEY: it ") as caught:
        read_api_key(make_config(), {"ASSETSYNC_API_KEY": value})
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("content", ["", "photoqx", "photo qx", "é"])
def test_bad_credential_names_the_file_to_fill(make_config, make_file, tmp_path, content):
    make_file(content, "api_key")
    config = make_config()
    with pytest.raises(ConfigError) as caught:
        read_api_key(config, {"CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert str(caught.value).startswith(f"{tmp_path / 'api_key'} (the systemd credential api_key): ")
    assert str(caught.value).endswith(f" into {config.file.with_suffix('.key')}, and restart the unit")


def test_key_under_8_characters_is_refused(make_config):
    with pytest.raises(ConfigError, match="it has fewer than 8 characters: write the whole API key") as caught:
        read_api_key(make_config(), {"ASSETSYNC_API_KEY": "photoqx"})
    assert "photoqx" not in str(caught.value)
    assert read_api_key(make_config(), {"ASSETSYNC_API_KEY": "photoqxz"}).get_secret_value() == "photoqxz"


def test_missing_key_file_is_an_error(make_config, tmp_path):
    with pytest.raises(ConfigError, match=r"no\.key \(service\.api_key_file\): it cannot be read \(No such file"):
        read_api_key(with_key_file(make_config, tmp_path / "no.key"), {"ASSETSYNC_API_KEY": KEY})


@pytest.mark.parametrize("environ", [{}, {"CREDENTIALS_DIRECTORY": "/nowhere"}])
def test_missing_key_lists_all_sources(make_config, environ):
    config = make_config()
    with pytest.raises(ConfigError) as caught:
        read_api_key(config, environ)
    ways = ("service.api_key_file", "$ASSETSYNC_API_KEY", "systemd credential", str(config.file.with_suffix(".key")))
    assert all(way in str(caught.value) for way in ways)


@pytest.mark.parametrize(
    ("mode", "whom"), [(0o600, None), (0o400, None), (0o640, "its group"), (0o604, "everyone"), (0o666, "everyone")]
)
def test_key_file_open_to_others_is_warned(make_file, mode, whom):
    path = make_file(KEY, "hq.key")
    path.chmod(mode)
    expected = whom and f"{path}: {whom} can read or change the API key: chmod 600 {path}"
    assert key_file_warning(path, os.geteuid()) == expected


def test_fix_leaves_key_readable_for_the_daemon(make_file):
    """The daemon's user may read root's file only by its group; what root reads needs no other owner."""
    path = make_file(KEY, "hq.key")
    path.chmod(0o640)
    other = os.geteuid() + 4242424
    assert key_file_warning(path, other).endswith(f": as root: chown {other} {path} && chmod 600 {path}")
    assert key_file_warning(path, 0).endswith(f": chmod 600 {path}")


def test_missing_key_file_is_not_warned_of(tmp_path):
    assert key_file_warning(tmp_path / "none", 0) is None


# ── fields that the service does not have ──

_WITH_META = SMALLEST + "    metadata: {{meta: {{{}: x}}}}\n"
_WITH_XMP = SMALLEST.replace("folders:", "  xmp_fields: {{dc:title: {}}}\nfolders:")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (_WITH_META, "line 9: folders[0].metadata.meta.img_headline: "),
        (_WITH_XMP, "line 6: service.xmp_fields.dc:title: "),
    ],
)
def test_unknown_field_names_line_and_nearest(make_config, text, place):
    with pytest.raises(ConfigError) as error:
        make_config(text=text.format("img_headline"))
    (mistake,) = error.value.mistakes
    assert place in mistake
    assert "did you mean `headline`?" in mistake
    assert make_config(text=text.format("headline")).unknown_fields == ()


def test_listed_field_is_no_mistake(make_config):
    text = _WITH_META.format("img_headline").replace("folders:", "  meta_fields: [IMG_headline]\nfolders:")
    assert make_config(text=text).service.field_names.kinds_of("img_headline") == ("img",)


@pytest.mark.parametrize("name", ["file_name", "img_id_r", "host_id"])
def test_field_that_is_never_sent_is_refused(make_config, name):
    for text in (
        _WITH_META.format(name),
        _WITH_XMP.format(name),
        SMALLEST.replace("folders:", f"  meta_fields: [{name}]\nfolders:"),
        SMALLEST.replace("folders:", f"  metadata_fields: {{img: {{description: {name}, keywords: k}}}}\nfolders:"),
    ):
        with pytest.raises(ConfigError, match="never sent"):
            make_config(text=text)


def test_existing_site_starts_with_an_unknown_field(make_config, tmp_path):
    ledger = tmp_path / "hq.db"
    ledger.touch()
    config = make_config(f"ledger: {ledger}\n", text=_WITH_META.format("img_headline"))
    assert "line 9: folders[0].metadata.meta.img_headline: " in config.unknown_fields[0]


def test_unknown_field_is_told_with_other_mistakes(make_config):
    text = _WITH_META.format("img_headline").replace("site: hq", "site: H Q")
    with pytest.raises(ConfigError) as error:
        make_config(text=text)
    assert [word in "".join(error.value.mistakes) for word in ("site name", "img_headline")] == [True, True]
    assert len(error.value.mistakes) == 2


# ── the example ──


def all_keys(model: type[BaseModel]):
    for name, field in model.model_fields.items():
        yield name
        inner = inner_model(field.annotation)
        if inner:
            yield from all_keys(inner)


def test_the_example_loads_as_it_is():
    assert load_config(EXAMPLE, {}).site == "hq"


def test_example_loads_with_comments_enabled(make_file):
    commented = r"(?m)^( *)#([a-z_]+)(?=: )"
    names = {name for _, name in re.findall(commented, EXAMPLE.read_text())}
    assert {"ca_file", "settle", "ledger"} <= names <= {*all_keys(SiteConfig)}
    config = load_config(make_file(re.sub(commented, r"\1\2", EXAMPLE.read_text())), {})
    assert (config.folders[0].xmp, config.service.xmp_fields["photoshop:City"]) == (False, "location")
    assert config.folders[0].settle == 600.0
    assert config.service.asset_url == "https://dam.example.com/razuna/index.cfm?fa=c.asset&id={assetid}"
    assert config.service.proxy == "http://proxy.example.com:3128"
    assert config.folders[0].upload.redirecttoparams == "source=assetsync&site=hq"


def test_the_example_names_every_key():
    text = EXAMPLE.read_text()
    missing = [key for key in all_keys(SiteConfig) if not re.search(rf"(?m)(^[ #-]*|[{{ ]){key}:", text)]
    assert missing == []


def test_defaults_in_example_are_real(make_config):
    example, smallest = load_config(EXAMPLE, {}), make_config()
    sections = ("ledger", "ignore", "watch", "upload", "schedule", "policy", "brake", "status", "log", "notify")
    assert {name: getattr(example, name) for name in sections} == {name: getattr(smallest, name) for name in sections}
    assert example.service.metadata_fields.table() == METADATA_FIELDS


def test_endless_pipe_times_out(tmp_path, monkeypatch):
    monkeypatch.setattr("assetsync.config.source._WRITER", 0.3)
    pipe = tmp_path / "site.yaml"
    os.mkfifo(pipe)
    # Also opened for reading, so that it does not wait for a reader.
    writer = os.open(pipe, os.O_RDWR)
    os.write(writer, b"site: hq\n")
    try:
        with pytest.raises(ConfigError, match="not closed in time"):
            load_config(pipe, {})
    finally:
        os.close(writer)


def test_slow_pipe_is_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr("assetsync.config.source._PIPE_PATIENCE", 0.5)
    pipe = tmp_path / "site.yaml"
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("wb", buffering=0) as writer:
            time.sleep(0.7)
            writer.write(b"si")
            time.sleep(0.1)
            writer.write(b"te: hq\n")

    # No more than this test waits for it: where nobody reads, its opening of the pipe has no end.
    threading.Thread(target=write, daemon=True).start()
    time.sleep(0.05)
    assert read_source(pipe, 100) == b"site: hq\n"


def test_a_terminal_is_waited_for():
    master, slave = os.openpty()
    threading.Timer(0.3, os.write, (master, b"site: hq\n\x04\x04")).start()
    assert read_source(Path(os.ttyname(slave)), 100) == b"site: hq\n"
