"""Read the configuration of a site from its file, and report all its mistakes at once.

Each mistake is a sentence: file, line, key, problem, fix, and the value unless it may be a secret in the wrong place.
Checks that depend on the machine (does the root exist, does the service answer) are left to `check`.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from pydantic import ValidationError

from assetsync.config.document.loader import Document, NotPlain, Plain, Problem, load
from assetsync.config.document.loader import Path as KeyPath
from assetsync.config.document.metadata import OFF, XMP_FIELDS, FieldNames, unknown_custom_field
from assetsync.config.document.problems import dotted, problems_of
from assetsync.config.key import SHORTEST_KEY
from assetsync.config.models import FileOf, SiteConfig
from assetsync.config.outline import digest_of
from assetsync.config.source import KEY_VARIABLE, MOST_BYTES, read_configuration
from assetsync.config.values import below_root
from assetsync.errors import ConfigError, Unusable

_OF_A_SITE = frozenset({"site", "root", "service", "folders"})
_KEY_NAMES = frozenset({"api_key", "apikey", "api-key", "sessiontoken", "key"})


def load_config(path: Path, environ: Mapping[str, str]) -> SiteConfig:
    """Read and check the configuration of a site.

    The result depends on the file alone, with one exception: an unknown metadata field is a mistake only while the site
    has no ledger. Else the site starts, and the files that would be sent with the field are blocked. The environment is
    used only to find its API key in the file, where it must not be. Raise ConfigError with a sentence for each mistake.
    """
    return parse_config(read_configuration(path), str(path), environ)


def is_configuration(data: bytes) -> bool:
    """Return whether a YAML file is meant as a configuration: any of the needed keys is in it, or it is no YAML.

    Other programs' files, and lists that a configuration names, may lie beside the configurations.
    """
    try:
        value = load(data, none_words=True).value
    except NotPlain:
        return True
    return isinstance(value, dict) and not _OF_A_SITE.isdisjoint(value)


def parse_config(data: bytes, source: str, environ: Mapping[str, str]) -> SiteConfig:
    """Check the content of a configuration as `load_config` does; `source` names it in the mistakes."""
    key = environ.get(KEY_VARIABLE, "").strip()
    key = key if len(key) >= SHORTEST_KEY else ""
    config, problems = _check(Path(source).absolute(), data, key)
    if config is None or problems:
        problems.sort(key=lambda problem: (problem.line, problem.column))
        raise ConfigError([_sentence(source, problem, key) for problem in problems])
    return config


def _check(path: Path, data: bytes, key: str) -> tuple[SiteConfig | None, list[Problem]]:
    if len(data) > MOST_BYTES:
        return None, [Problem((), "the file is too large for a configuration", "name the right file with --config")]
    try:
        document = load(data, none_words=True)
    except NotPlain as exc:
        return None, [exc.problem]
    if document.value is None:
        hint = "begin with `site:`, `root:`, `service:` and `folders:` as in config.example.yaml"
        return None, [*document.problems, Problem((), "it is empty", hint, 1, 1)]
    # Some problems, such as an alias, leave no value, which is not a second mistake.
    known = {problem.path for problem in document.problems}
    own = [*_across(document), *_secrets(document, key)]
    problems = [*document.problems, *(problem for problem in own if problem.path not in known)]
    unknown = [*_unknown_fields(document)]
    sentences = tuple(_sentence(str(path), problem, key) for problem in unknown)
    try:
        config = SiteConfig.model_validate(document.value, context=FileOf(path, digest_of(data), sentences))
        return config, problems if os.access(config.ledger, os.F_OK) else problems + unknown
    except ValidationError as exc:
        told = {problem.path for problem in problems}
        found = problems_of(exc, document, SiteConfig, show_values=True)
        problems += [problem for problem in found if problem.path not in told]
        told |= {problem.path for problem in problems}
        return None, problems + [problem for problem in unknown if problem.path not in told]


def _sentence(source: str, problem: Problem, secret: str) -> str:
    path = (part.replace(secret, "[key]") if secret and isinstance(part, str) else part for part in problem.path)
    key = dotted(tuple(path))
    where = f"{source}, line {problem.line}" if problem.line else source
    if problem.column and not key:
        where += f", column {problem.column}"
    what = f"{key}: {problem.problem}" if key else problem.problem
    return f"{where}: {what}: {problem.hint}"


def _texts(value: Plain, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Yield every text of a document with its path, the names of keys included."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _texts(item, (*path, position))
    elif isinstance(value, dict):
        for name, item in value.items():
            yield (*path, name), name
            yield from _texts(item, (*path, name))


def _secrets(document: Document, key: str) -> Iterator[Problem]:
    """Yield a problem for each API key in the file, found by its name or because it is the key in the environment."""
    top = document.value if isinstance(document.value, dict) else {}
    service = top.get("service")
    found: list[KeyPath] = [(name,) for name in top if name.lower() in _KEY_NAMES]
    if isinstance(service, dict):
        found += [("service", name) for name in service if name.lower() in _KEY_NAMES]
    found += [path for path, text in _texts(document.value) if key and key in text]
    fix = "move it to a separate file, and name that in service.api_key_file"
    for path in dict.fromkeys(found):
        yield Problem(path, "the API key must not be in this file", fix, *document.mark(path))


def _across(document: Document) -> Iterator[Problem]:
    """Yield the mistakes between several keys, independent of other mistakes."""
    value = document.value
    if not isinstance(value, dict):
        return
    schedule = value.get("schedule")
    for name, due in schedule.items() if isinstance(schedule, dict) else ():
        if due is None:
            path = ("schedule", name)
            yield Problem(path, "it has no value", "write an interval, a cron line, or off", *document.mark(path))
    root, service, notify = (value.get(name) for name in ("root", "service", "notify"))
    yield from _doubled_folders(document, value.get("folders"))
    yield from _unknown_custom_fields(document, value.get("folders"), service)
    key_file = service.get("api_key_file") if isinstance(service, dict) else None
    beat, beat_file = (isinstance(notify, dict) and notify.get(name) for name in ("heartbeat", "heartbeat_file"))
    if beat and beat_file:
        path = ("notify", "heartbeat_file")
        yield Problem(path, "notify.heartbeat gives the address, too", "remove one of the two", *document.mark(path))
    for at, place, elsewhere in (
        (("service", "api_key_file"), key_file, "/etc/assetsync, because files in the tree are uploaded"),
        (("notify", "heartbeat_file"), beat_file, "/etc/assetsync, because files in the tree are uploaded"),
        (("ledger",), value.get("ledger"), "/var/lib/assetsync, because assetsync never writes into the tree"),
    ):
        if isinstance(root, str) and isinstance(place, str) and PurePosixPath(place).is_relative_to(root):
            hint = f"move it elsewhere, such as {elsewhere}"
            yield Problem(at, "it is inside root", hint, *document.mark(at))


def _unknown_custom_fields(document: Document, folders: Plain, service: Plain) -> Iterator[Problem]:
    fields = service.get("custom_fields") if isinstance(service, dict) else None
    known = fields if isinstance(fields, dict) else {}
    for position, folder in enumerate(folders if isinstance(folders, list) else ()):
        metadata = folder.get("metadata") if isinstance(folder, dict) else None
        custom = metadata.get("custom") if isinstance(metadata, dict) else None
        for name in custom if isinstance(custom, dict) else ():
            path = ("folders", position, "metadata", "custom", name)
            if (unknown := unknown_custom_field(name, known)) is not None:
                yield Problem(path, *unknown, *document.mark(path))


def _unknown_fields(document: Document) -> Iterator[Problem]:
    """Yield a problem for each metadata field that the service is not known to have, or that is never sent."""
    value = document.value if isinstance(document.value, dict) else {}
    service = value.get("service")
    given = service if isinstance(service, dict) else {}
    said = [text for name in ("meta_fields", "metadata_fields") for _, text in _texts(given.get(name))]
    names = FieldNames(listed=frozenset(text.lower() for text in said))
    properties, custom = given.get("xmp_fields"), given.get("custom_fields")
    no_fields = {OFF, *XMP_FIELDS.values(), *(custom if isinstance(custom, dict) else ())}
    found: list[tuple[KeyPath, str]] = [
        (("service", "xmp_fields", name), target)
        for name, target in (properties.items() if isinstance(properties, dict) else ())
        if isinstance(target, str) and target not in no_fields
    ]
    folders = value.get("folders")
    for position, folder in enumerate(folders if isinstance(folders, list) else ()):
        metadata = folder.get("metadata") if isinstance(folder, dict) else None
        meta = metadata.get("meta") if isinstance(metadata, dict) else None
        fields = meta if isinstance(meta, dict) else ()
        found += [(("folders", position, "metadata", "meta", name), name) for name in fields]
    for path, name in found:
        # The language has a sentence of its own.
        if name.lower() != "lang_id_r" and not names.kinds_of(name):
            yield Problem(path, *names.problem_with(name), *document.mark(path))


def _doubled_folders(document: Document, folders: Plain) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for position, folder in enumerate(folders if isinstance(folders, list) else ()):
        try:
            name = below_root(folder.get("path") if isinstance(folder, dict) else None)
        except Unusable:
            continue
        if name in first:
            path = ("folders", position, "path")
            hint = f"remove one of the two; the other is folders[{first[name]}]"
            yield Problem(path, "this folder is mapped twice", hint, *document.mark(path))
        first.setdefault(name, position)
