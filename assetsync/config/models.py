"""Define the configuration of a site as frozen values, with a model for each section.

Seconds are floats, sizes are bytes. Reading the file, finding the line of a mistake, and mistakes between several keys
are left to `load`; whether the named files and services exist is left to `check`.
"""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from assetsync.config.document.fields import LIST, REQUIRED, Flag, FlagOrRequired, Section, Text, Texts, Whole
from assetsync.config.document.metadata import (
    METADATA_FIELDS,
    OFF,
    XMP_FIELDS,
    Events,
    FieldNames,
    SaidWithPlaceholders,
    check_field_name,
    check_meta_name,
    custom_field_id,
    ending,
    group,
    xmp_property,
)
from assetsync.config.outline import MappedFolder, Outline, usual_ledger
from assetsync.config.schedule import Due, Interval, cron
from assetsync.config.timetable import RATE, WINDOW, Timetable, rates, window
from assetsync.config.values import (
    AUTO,
    DURATION,
    LISTEN,
    SHARE,
    SIZE,
    Listen,
    absolute,
    asset_address,
    base_url,
    below_root,
    duration,
    grace,
    listen,
    service_url,
    share,
    size,
    some_time,
    web_address,
)  # fmt: skip
from assetsync.errors import Unusable
from assetsync.model import LEAST_LONGEST, LONGEST_NAME, MAX_SENT, Mapping, UploadOptions

_SITE = re.compile(r"[a-z0-9][a-z0-9-]*")
_FOLDER_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_WORKERS = 64
_LAG = 4
"""The default of `lookup_lag` as a multiple of the grace; with the grace, that makes ten minutes by default."""
# A pattern that is obviously valid, as most are: `*.psd`, `/build/`, `!keep/**/a?.tif`.
_SOUND_PATTERN = re.compile(r"!?/?[\w.@~$*?-]+(?:/[\w.@~$*?-]+)*/?")


def site_name(value: str) -> str:
    """Return the name of a site."""
    if not _SITE.fullmatch(value):
        raise Unusable(
            "it is not a valid site name", "use a-z, 0-9 and -, beginning with a letter or digit, such as hq"
        )
    return value


def folder_id(value: str) -> str:
    """Return the id of a folder of the service."""
    if not _FOLDER_ID.fullmatch(value):
        raise Unusable("it is not a valid folder id", "copy the folder's id from the service: letters, digits, _ and -")
    return value


def _patterns(value: tuple[str, ...]) -> tuple[str, ...]:
    doubtful = [pattern for pattern in value if not _SOUND_PATTERN.fullmatch(pattern)]
    if not doubtful:
        return value
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern  # noqa: PLC0415 - slow to load, and rarely needed

    for pattern in doubtful:
        try:
            regex, ignores = GitIgnoreSpecPattern.pattern_to_regex(pattern)
            # A range of letters in the wrong order, as in [z-a], fails only here.
            re.compile(regex or "")
        except (ValueError, re.error) as exc:
            raise Unusable("it holds an invalid pattern", "write patterns as in a .gitignore file") from exc
        if ignores is None:
            raise Unusable(
                "it holds a pattern that matches nothing",
                r"remove it; to match a name that begins with #, write \#name",
            )
    return value


def _take_back_xmp(patterns: Sequence[str]) -> bool:
    """Return whether ignore rules take XMP files back, which are left out by default: then they are files to send.

    The last rule about them decides, also if it takes back only some of them.
    """
    if not any(pattern.startswith("!") for pattern in patterns):
        return False
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern  # noqa: PLC0415 - slow to load, and rarely needed

    for pattern in reversed(patterns):
        takes_back = pattern.startswith("!")
        if takes_back and pattern.strip().lower().endswith(".xmp"):
            return True
        regex, _ignores = GitIgnoreSpecPattern.pattern_to_regex(pattern)
        if regex is not None and any(re.search(regex, name) for name in ("a.xmp", "a.XMP")) and pattern != "!.*":
            return takes_back
    return False


def _field_names(value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(check_field_name, value))


def _command(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return tuple(shlex.split(value))
    except ValueError as exc:
        raise Unusable("it holds an unclosed quote", 'write it as a list: ["/usr/bin/alert", "--quiet"]') from exc


def _by_ending(value: object) -> object:
    given = group(value)
    if isinstance(given, dict) and len({str(name).lower().removeprefix(".") for name in given}) < len(given):
        raise Unusable("it names an ending twice", "write each ending once, in lower case and without a dot")
    return given


def _email(value: str) -> str:
    local, _, domain = value.partition("@")
    if not local or not domain or re.search(r"[\s,;@]", local + domain):
        raise Unusable("it is not an e-mail address", "write one address, such as dam@example.com")
    return value


def _written(pattern: str, **number: object) -> WithJsonSchema:
    """Return the JSON Schema of a text, or of the number as which other YAML parsers read some of the texts."""
    text = {"type": "string", "pattern": f"^{pattern}$"}
    return WithJsonSchema({"anyOf": [text, number]} if number else text)


_DURATION_TEXT = _written(f"({DURATION.pattern}|0)", const=0)
Duration = Annotated[float, BeforeValidator(duration), _DURATION_TEXT]
Grace = Annotated[float, BeforeValidator(duration), AfterValidator(grace), _DURATION_TEXT]
SomeTime = Annotated[float, BeforeValidator(duration), AfterValidator(some_time), _DURATION_TEXT]
Size = Annotated[int, BeforeValidator(size), _written(SIZE.pattern, type="integer", minimum=1)]
Rate = Annotated[Timetable, BeforeValidator(rates), _written(RATE)]
Share = Annotated[float, BeforeValidator(share), _written(SHARE.pattern)]
UploadWindow = Annotated[Timetable, BeforeValidator(window), _written(WINDOW)]
Address = Annotated[Listen, BeforeValidator(listen), _written(rf"({AUTO}|{LISTEN.pattern})")]
Absolute = Annotated[Path, BeforeValidator(absolute), WithJsonSchema({"type": "string", "pattern": "^/"})]
WebAddress = Annotated[str, BeforeValidator(web_address), WithJsonSchema({"type": "string", "pattern": "^https?://"})]
AssetAddress = Annotated[
    str,
    BeforeValidator(asset_address),
    WithJsonSchema({"type": "string", "pattern": r"^https?://[^/@]+/.*\{assetid\}"}),
]
BelowRoot = Annotated[str, BeforeValidator(below_root)]
Kind = Literal["img", "vid", "aud", "doc", "other"]
Patterns = Annotated[Texts, AfterValidator(_patterns)]


class KindFields(Section):
    """The names of the metadata fields for an asset kind, without `meta_`."""

    description: Annotated[Text, AfterValidator(check_field_name)]
    keywords: Annotated[Text, AfterValidator(check_field_name)]


class MetadataFields(Section):
    """The names of the metadata fields by kind, if they differ from the built-in names."""

    img: KindFields | None = None
    vid: KindFields | None = None
    aud: KindFields | None = None
    doc: KindFields | None = None
    other: KindFields | None = None

    def table(self) -> dict[str, tuple[str, str]]:
        """Return the (description, keywords) field names of every kind, built-in names included."""
        given = {kind: getattr(self, kind) for kind in METADATA_FIELDS}
        return METADATA_FIELDS | {kind: (own.description, own.keywords) for kind, own in given.items() if own}


class Service(Section):
    """The addresses of the service and the connection to it (interface sections 1 and 5)."""

    allow_http: Flag = False
    base_url: str
    upload_url: str
    api_key_file: Absolute | None = None
    ca_file: Absolute | None = None
    proxy: Annotated[WebAddress | None, Field(repr=False)] = None
    connect_timeout: SomeTime = 10.0
    read_timeout: SomeTime = 300.0
    credential: Literal["api_key", "sessiontoken"] = "api_key"
    metadata_fields: MetadataFields = MetadataFields()
    custom_fields: Annotated[dict[str, Annotated[Text, AfterValidator(custom_field_id)]], BeforeValidator(group)] = (
        Field(default_factory=dict)
    )
    meta_fields: Annotated[Texts, AfterValidator(_field_names)] = ()
    characters: Literal["bmp", "all"] = "bmp"
    kinds: Annotated[dict[Annotated[str, AfterValidator(ending)], Kind], BeforeValidator(_by_ending)] = Field(
        default_factory=dict
    )
    longest_name: Annotated[Whole, Field(ge=LEAST_LONGEST, le=MAX_SENT)] = LONGEST_NAME

    asset_url: AssetAddress | None = None
    xmp_fields: Annotated[
        dict[Annotated[str, AfterValidator(xmp_property)], Text],
        BeforeValidator(group),
    ] = Field(default_factory=dict)

    @field_validator("xmp_fields")
    @classmethod
    def _are_fields(cls, value: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        for target in value.values():
            if target not in info.data.get("custom_fields", ()):
                check_meta_name(target)
        return value

    @property
    def field_names(self) -> FieldNames:
        """Return the names of the metadata fields, built-in names included."""
        xmp = {name: target for name, target in (XMP_FIELDS | self.xmp_fields).items() if target != OFF}
        listed = frozenset(name.lower() for name in self.meta_fields)
        table = self.metadata_fields.table()
        return FieldNames(table, self.custom_fields, xmp, listed, bmp_only=self.characters == "bmp")

    @field_validator("base_url", "upload_url", mode="before")
    @classmethod
    def _is_address(cls, value: Any, info: ValidationInfo) -> str:
        read = service_url if info.field_name == "upload_url" else base_url
        return read(value, allow_http=info.data.get("allow_http", True))


class FolderUpload(Section):
    """The options of every upload from a mapping (interface section 4.3)."""

    zip_extract: Flag = False
    skip_event: Events = ()
    upl_template: Text | None = None
    debug: Flag = False
    emailto: Annotated[Text, AfterValidator(_email)] | None = None
    redirectto: WebAddress | None = None
    redirecttoparams: Text | None = None

    @field_validator("redirecttoparams")
    @classmethod
    def _has_no_ampersand(cls, value: str | None) -> str | None:
        if value and value.startswith("&"):
            raise Unusable("it begins with &", "remove the &; the service adds it")
        return value

    def options(self) -> UploadOptions:
        """Return the value that the rest of the program uses."""
        return UploadOptions(**self.model_dump())


class Folder(Section):
    """A mapping: files below `path` are sent into the service's folder `destfolderid`."""

    path: BelowRoot
    destfolderid: Annotated[
        Text, AfterValidator(folder_id), Field(json_schema_extra={"pattern": f"^{_FOLDER_ID.pattern}$"})
    ]
    ignore: Patterns = ()
    metadata: SaidWithPlaceholders = SaidWithPlaceholders()
    upload: FolderUpload = FolderUpload()
    sidecars: FlagOrRequired = True
    xmp: Flag | None = None
    settle: Duration | None = None

    def mapping(self, settle: float, ignore: tuple[str, ...]) -> Mapping:
        """Return the value that the rest of the program uses; `settle` (seconds) and `ignore` are the site's."""
        sends_xmp = self.xmp is None and _take_back_xmp((*ignore, *self.ignore))
        return Mapping(
            path=b"" if self.path == "." else self.path.encode("utf-8", "surrogateescape"),
            destfolderid=self.destfolderid,
            ignore=self.ignore,
            metadata=self.metadata.metadata(),
            upload=self.upload.options(),
            sidecars=bool(self.sidecars),
            needs_sidecar=self.sidecars == REQUIRED,
            settle=settle if self.settle is None else self.settle,
            xmp=not sends_xmp if self.xmp is None else self.xmp,
            sends_xmp=sends_xmp,
        )


def _spelled_alike(folders: tuple[Folder, ...]) -> tuple[Folder, ...]:
    """Return the mappings with one spelling of ids that differ in case alone: the service compares without case."""
    spelling: dict[str, str] = {}
    ids = [spelling.setdefault(folder.destfolderid.lower(), folder.destfolderid) for folder in folders]
    return tuple(
        folder if folder.destfolderid == spelled else folder.model_copy(update={"destfolderid": spelled})
        for folder, spelled in zip(folders, ids, strict=True)
    )


class Watch(Section):
    """How changes are detected, and how long a file must rest."""

    mode: Literal["auto", "inotify", "polling", "off"] = "auto"
    settle: Duration = 5.0
    sidecar_wait: Duration = 0.0
    sidecar_reminder: Duration | None = 86_400.0
    follow_symlinks: Flag = False


class Upload(Section):
    """How files are sent."""

    workers: Annotated[Whole, Field(ge=1, le=_MAX_WORKERS)] = 4
    rate: Rate | None = None
    window: UploadWindow | None = None
    max_file_size: Size | None = None
    doubt_grace: Grace = 120.0
    lookup_lag: Duration | None = None

    @property
    def longest_lag(self) -> float:
        """Return the seconds by which a look-up may be out of date."""
        return _LAG * self.doubt_grace if self.lookup_lag is None else self.lookup_lag


class Schedule(Section):
    """When regular work is due; None is off."""

    rescan: Due = Interval(3600.0)
    index: Due = Interval(60.0)
    verify: Due = Interval(300.0)
    audit: Due = cron("0 3 * * sun")

    @property
    def reads_back(self) -> bool:
        """Whether the daemon reads stored assets back: verifying does, and indexing begins with it."""
        return self.index is not None or self.verify is not None


class Policy(Section):
    """Which reactions are automatic, and which are only reported."""

    on_change: Literal["upload", "report"] = "upload"
    on_move: Literal["upload", "report"] = "upload"
    on_remote_missing: Literal["upload", "report"] = "report"
    verified_when: Literal["findable", "stored"] = "findable"
    unprocessed_after: SomeTime = 21_600.0


class Brake(Section):
    """How many files may change at once before an operator is asked."""

    max_new_files: Annotated[Whole, Field(ge=0)] = 50_000
    max_vanished: Annotated[Whole, Field(ge=0)] = 10_000
    max_vanished_share: Share = 0.5


class Status(Section):
    """The status page and the metrics, and how often the timer is expected to run a pass."""

    listen: Address | None = Listen("127.0.0.1", 9464)
    expected_every: SomeTime = 93_600.0


class Log(Section):
    """The level and the format of the log."""

    format: Literal["auto", "console", "json"] = "auto"
    level: Literal["debug", "info", "warning", "error"] = "info"


class Notify(Section):
    """The receivers of messages and of the heartbeat; their addresses often hold a secret, so they are not shown."""

    webhook: Annotated[WebAddress | None, Field(repr=False)] = None
    command: (
        Annotated[Texts, BeforeValidator(_command), WithJsonSchema({"anyOf": [{"type": "string"}, LIST]})] | None
    ) = None
    heartbeat: Annotated[WebAddress | None, Field(repr=False)] = None
    heartbeat_file: Absolute | None = None
    heartbeat_every: SomeTime = 300.0
    heartbeat_style: Literal["plain", "healthchecks", "kuma"] = "plain"


class FileOf(NamedTuple):
    """The absolute path of a configuration, and the digest of its bytes (`outline.digest_of`).

    `unknown_fields`: a sentence for each metadata field in it that the service is not known to have.
    """

    path: Path
    digest: str
    unknown_fields: tuple[str, ...] = ()


class SiteConfig(Section):
    """The content of a site's configuration file."""

    _file: FileOf | None = PrivateAttr(default=None)

    def model_post_init(self, context: Any) -> None:
        """Record the file of the configuration, which `load` passes as the context."""
        self._file = context

    @property
    def file(self) -> Path | None:
        """Return the absolute path of the configuration; None if no file holds it."""
        return self._file and self._file.path

    @property
    def unknown_fields(self) -> tuple[str, ...]:
        """Return a sentence for each metadata field in it that the service is not known to have."""
        return () if self._file is None else self._file.unknown_fields

    @property
    def outline_record(self) -> str | None:
        """Return the record from which readers of the ledger take the outline; None if no file holds it."""
        return self._file and self.outline.record(self._file.digest)

    @property
    def spelling(self) -> dict[str, str]:
        """Return each folder id as it is written here, by its small letters: the service compares ids without case."""
        return {folder.destfolderid.lower(): folder.destfolderid for folder in self.folders}

    @property
    def outline(self) -> Outline:
        """Return the values that readers of the ledger need."""
        return Outline(
            site=self.site,
            root=self.root,
            ledger=self.ledger,
            folders=tuple(MappedFolder(folder.path, folder.destfolderid) for folder in self.folders),
            upload_url=self.service.upload_url,
            upload_window=self.upload.window,
            reads_back=self.schedule.reads_back,
            expected_every=self.status.expected_every,
        )

    @model_validator(mode="before")
    @classmethod
    def _no_page(cls, value: Any) -> Any:
        """Treat an empty `status` as no page; any other empty section keeps its defaults."""
        is_none = isinstance(value, dict) and "status" in value and value["status"] is None
        return {**value, "status": {"listen": None}} if is_none else value

    site: Annotated[Text, AfterValidator(site_name), Field(json_schema_extra={"pattern": f"^{_SITE.pattern}$"})]
    root: Absolute
    ledger: Absolute = Field(default_factory=lambda said: usual_ledger(said["site"]))
    service: Service
    folders: Annotated[tuple[Folder, ...], Field(min_length=1), AfterValidator(_spelled_alike)]
    ignore: Patterns = ()
    watch: Watch = Watch()
    upload: Upload = Upload()
    schedule: Schedule = Schedule()
    policy: Policy = Policy()
    brake: Brake = Brake()
    status: Status = Status()
    log: Log = Log()
    notify: Notify = Notify()


def mappings(config: SiteConfig) -> tuple[Mapping, ...]:
    """Return the mappings of a site in the order of the file."""
    return tuple(folder.mapping(config.watch.settle, config.ignore) for folder in config.folders)
