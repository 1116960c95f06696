"""What `assetsync schema` prints holds of what the commands print, and of the configuration."""

import json
import re
import signal
import urllib.request
from pathlib import Path

import click
import pytest
import yaml
from jsonschema import Draft202012Validator

from assetsync.cli.commands.schema import names, schema
from assetsync.cli.entry import run
from assetsync.cli.root import root
from assetsync.config import load_config
from assetsync.errors import ConfigError
from assetsync.sandbox import FaultKind, FaultRule, Operation
from tests.cli.conftest import PHOTOS, Holder, Result
from tests.slices import sliced

EXAMPLE = Path(__file__).parents[3] / "config.example.yaml"
OUTPUTS = [name for name in names() if name != "configuration"]
GUIDE = (Path(__file__).parents[3] / "assetsync" / "guide" / "json.md").read_text("utf-8")
EXAMPLES = [
    (section.partition("`")[0].replace(" ", "-"), section.split("```json\n")[1].partition("```")[0])
    for section in GUIDE.split("\n## `")[1:]
]
# Keys whose meaning depends on the object that has them. The columns of `search` are the service's.
HOMONYMS = {"address", "drift", "folders", "history", "level", "message", "missing", "vanished"}


def closed(part):
    """Return a schema that allows no key beside those that it names."""
    if isinstance(part, list):
        return [closed(item) for item in part]
    if not isinstance(part, dict):
        return part
    made = {name: closed(item) for name, item in part.items()}
    return made | {"additionalProperties": made.get("additionalProperties", False)} if "properties" in part else made


def mistakes(name, value):
    found = Draft202012Validator(closed(schema(name))).iter_errors(value)
    return [f"{error.json_path}: {error.message}" for error in found]


def fits(name, result, codes=(0,)):
    """Check each line of an output; return the objects."""
    assert result.code in codes, result.err
    assert result.objects, result.err
    for each in result.objects:
        assert mistakes(name, each) == [], each
    return result.objects


@pytest.fixture
def troubled(site):
    """A site with verified, blocked and drifted files, a file in doubt, an odd name, a brake, and unknown assets."""
    for name in ("a.jpg", "b.jpg", "2026/c.txt", b"odd\xff.txt"):
        site.write(name, str(name).encode())
    site.configure(more="upload: {max_file_size: 100}\n")
    assert site.run("reconcile").code == 0
    site.write("a.jpg", b"changed")
    site.write("b.jpg.yaml", b"description: The pier\n")
    site.write("big.bin", b"x" * 101)
    (site.photos / "2026" / "c.txt").unlink()
    site.run("reconcile")
    (site.folder / "stranger.txt").write_text("nobody's")
    site.upload_unseen(site.folder / "stranger.txt")
    site.write("lost.jpg", b"the content")
    site.sandbox.set_faults(FaultRule(kind=FaultKind.STATUS, operation=Operation.UPLOAD))
    site.run("reconcile", "--wait", "0s")
    site.sandbox.set_faults()
    return site


def test_every_schema_is_valid_and_described():
    assert len(OUTPUTS) > 15
    for name in (*OUTPUTS, "configuration"):
        Draft202012Validator.check_schema(schema(name))
        assert {"$schema", "title", "description"} <= schema(name).keys(), name


def fields(part):
    """Yield each key with its schema, those of inner objects included."""
    if isinstance(part, dict):
        yield from part.get("properties", {}).items()
    for item in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from fields(item)


@pytest.mark.parametrize("name", OUTPUTS)
def test_every_field_has_a_description(name):
    assert [field for field, said in fields(schema(name)) if not said.get("description")] == []


def test_same_key_means_the_same_everywhere():
    """Whether a key may be null is up to each output."""
    meanings = {}
    for name in {*OUTPUTS} - {"search"}:
        for field, said in fields(schema(name)):
            kinds = said["type"] if isinstance(said["type"], list) else [said["type"]]
            meaning = ({*kinds} - {"null"}).pop(), said.get("format"), said["description"]
            meanings.setdefault(field, {}).setdefault(meaning, set()).add(name)
    assert {field: found for field, found in meanings.items() if len(found) > 1 and field not in HOMONYMS} == {}


@pytest.mark.parametrize("name", OUTPUTS)
def test_printed_schema_refers_to_no_file(name):
    assert "$ref" not in json.dumps(schema(name))


def test_schema_lists_all_names(capsys):
    assert run(["schema"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == sorted([*OUTPUTS, "configuration"])


def test_schema_prints_one_document(capsys):
    assert run(["schema", "files"]) == 0
    assert json.loads(capsys.readouterr().out) == schema("files")


def test_mistyped_name_gets_a_suggestion(capsys):
    assert run(["schema", "filez"]) == 2
    assert "did you mean `files`?" in capsys.readouterr().err


def with_json(command=root, words=()):
    """Yield the words of each command that has the option --json."""
    if isinstance(command, click.Group):
        for word in command.list_commands(click.Context(command)):
            yield from with_json(command.get_command(click.Context(command), word), (*words, word))
    elif any("--json" in option.opts for option in command.params):
        yield words


PRINTING = ["-".join(words) for words in with_json()]
SLICES = 6
ARGUMENTS = {
    "explain": ["photos/lost.jpg"],
    "doubt-resolve": ["photos/lost.jpg", "--absent"],
    "drift-settle": ["."],
    "search": ["a*"],
    "index": ["all"],
    "reconcile": ["--wait", "0s"],
    "sandbox": ["--listen", "127.0.0.1:0"],
}


def test_every_json_option_has_a_schema():
    assert {*PRINTING, "export", "reconcile-list", "request", "status-all", "status-json", "vocabulary"} == set(OUTPUTS)


@pytest.mark.parametrize("name", PRINTING)
@pytest.mark.parametrize("has_ledger", [True, False], ids=["with_ledger", "without_ledger"])
def test_stdout_has_nothing_but_json(site, name, has_ledger, request):
    """Each command with --json, at the most talkative level of the log; those of the slice as processes."""
    site.configure(more="log: {level: debug, format: console}\n")
    site.write("a.jpg")
    if has_ledger:
        assert site.run("reconcile").code == 0
        site.write("lost.jpg", b"the content")
        site.sandbox.set_faults(FaultRule(kind=FaultKind.STATUS, operation=Operation.UPLOAD))
        site.run("reconcile", "--wait", "0s")
        site.sandbox.set_faults()
    given = ARGUMENTS.get(name, [])
    if name == "upload":
        given = ["--folder", PHOTOS, str(site.write("by hand.jpg", b"by hand"))]
    command = name.replace("-", " ")
    if name != "sandbox" and name not in sliced(PRINTING, SLICES, request):
        result = site.run(command, "--json", *given)
    else:
        process = site.start(command, "--json", *given)
        first = ""
        if name == "sandbox":
            first = process.stdout.readline()
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        result = Result(process.returncode, first + out, err)
    lines = result.out.splitlines()
    assert [mistakes(name, json.loads(line)) for line in lines] == [[]] * len(lines)
    # A list may be empty; where there is no result, the reason is on stderr.
    assert lines or result.code == 0 or result.err


def test_files_of_all_states_fit(troubled):
    files = fits("files", troubled.run("files", "--all", "--json"))
    assert {"verified", "blocked", "in_doubt", "superseded", "gone"} <= {row["state"] for row in files}
    assert any("path_base64" in row for row in files)
    fits("export", troubled.run("export", "--format", "jsonl"))


@pytest.mark.parametrize("path", ["photos/a.jpg", "photos/lost.jpg", "photos/big.bin", "photos", "photos/2026/c.txt"])
def test_explain_fits(troubled, path):
    fits("explain", troubled.run("explain", path, "--json"))


def test_lists_of_matters_fit(troubled):
    fits("doubt-list", troubled.run("doubt list", "--json"))
    fits("drift-list", troubled.run("drift list", "--json"))
    fits("audit", troubled.run("audit", "--json"), codes=(1,))
    whys = {row["why"] for row in fits("orphans", troubled.run("orphans", "--all", "--json"))}
    assert {"replaced", "deleted", "unknown"} <= whys


def test_audit_of_no_folder_yet_fits(site):
    site.write("a.jpg")
    site.run("reconcile")
    (row,) = fits("audit", site.run("audit", "--last", "--json"), codes=(1,))
    assert row["audited_at"] is None


def test_status_fits(troubled):
    (said,) = fits("status", troubled.run("status", "--json"))
    filled = ("folders", "blocked_files", "doubts", "drift", "last_scan", "vanished", "hours", "last_runs")
    assert [name for name in filled if not said[name]] == []


def test_status_with_a_brake_fits(site):
    site.configure(more="brake: {max_new_files: 1}\n")
    site.write("a.jpg")
    site.run("reconcile")
    site.write("b.jpg", b"b")
    site.write("c.jpg", b"c")
    site.run("reconcile", "--wait", "0s")
    (said,) = fits("status", site.run("status", "--json"))
    assert said["brakes"]
    fits("resume", site.run("resume", "--json"))


def test_paused_status_fits(site):
    site.write("a.jpg")
    site.nowhere()
    fits("reconcile", site.run("reconcile", "--wait", "0s", "--json"), codes=(3,))
    (said,) = fits("status", site.run("status", "--json"))
    assert said["oldest_waiting"]


def test_reconcile_fits(troubled):
    troubled.write("new.jpg", b"new")
    fits("reconcile", troubled.run("reconcile", "--dry-run", "--json"), codes=(0, 1))
    fits("reconcile-list", troubled.run("reconcile", "--dry-run", "--list", "--json"), codes=(0, 1))
    fits("reconcile", troubled.run("reconcile", "--wait", "0s", "--json"), codes=(1,))


def test_decisions_fit(troubled):
    fits("retry", troubled.run("retry", "--json"))
    fits("drift-settle", troubled.run("drift settle", ".", "--json"))
    with Holder(troubled):
        (said,) = fits("doubt-resolve", troubled.run("doubt resolve", "photos/lost.jpg", "--absent", "--json"))
    assert said["request"] == 1


def test_check_fits(troubled):
    fits("check", troubled.run("check", "--json"), codes=(0, 2, 3))
    troubled.configure(more="upload: {wrong: 1}\n")
    (said,) = fits("check", troubled.run("check", "--json"), codes=(2,))
    assert said["ok"] is False


def test_operations_by_hand_fit(site):
    file = site.write("a.jpg", b"content")
    upload = ("--folder", PHOTOS, "--json", str(file))
    (request,) = fits("request", site.run("upload", "--explain", *upload))
    assert request["fields"]["destfolderid"] == PHOTOS
    (asset,) = fits("upload", site.run("upload", *upload))
    fits("search", site.run("search", "a*", "--json"))
    fits("request", site.run("search", "a*", "--json", "--explain"))
    fits("index", site.run("index", str(asset["assetid"]), "--json"))
    fits("request", site.run("index", str(asset["assetid"]), "--json", "--explain"))


def test_page_status_fits(site):
    site.configure(more='status: {listen: "127.0.0.1:0"}\n')
    daemon = site.start("run")
    port = next(event["port"] for event in map(json.loads, daemon.stderr) if event["event"] == "status page")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/status.json", timeout=10) as answer:
        said = json.load(answer)
    assert said["daemon"]["version"]
    assert mistakes("status-json", said) == []


@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_guide_example_fits(name, example):
    """An example may leave keys out."""
    found = mistakes(name, json.loads(example))
    assert [mistake for mistake in found if "is a required property" not in mistake] == []


def misfits(config):
    """Return the mistakes that the schema finds in a configuration."""
    return list(Draft202012Validator(schema("configuration")).iter_errors(config))


@pytest.fixture
def example():
    return yaml.safe_load(EXAMPLE.read_text("utf-8"))


def test_example_configuration_fits(example):
    assert misfits(example) == []


def test_example_with_all_keys_fits():
    """The keys that are commented out as well."""
    text = re.sub(r"(?m)^( *)#([a-z_]+:)", r"\1\2", EXAMPLE.read_text("utf-8"))
    text = re.sub(r"(?m)^( *)# (  [a-z_]+:)", r"\1\2", text)
    config = yaml.safe_load(text)
    assert config["folders"][0]["metadata"]["language"] == 1
    assert misfits(config) == []


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("watch", "setle", "5s"),
        ("watch", "settle", 5),
        ("watch", "settle", "5 parsecs"),
        ("upload", "workers", 65),
        ("upload", "rate", "20MB"),
        ("upload", "window", "19-7"),
        ("schedule", "index", None),
        ("policy", "on_change", "delete"),
        ("brake", "max_vanished_share", 0.5),
        ("status", "listen", "localhost"),
        ("service", "base_url", None),
    ],
)
def test_mistake_does_not_fit(site, example, section, key, value):
    """The program and the schema agree on it."""
    example[section][key] = value
    (found,) = misfits(example)
    assert list(found.path)[:1] == [section]
    site.config.write_text(yaml.safe_dump(example))
    with pytest.raises(ConfigError):
        load_config(site.config, {})


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("watch", "settle", 0),
        ("watch", "settle", None),
        ("watch", "follow_symlinks", "yes"),
        ("upload", "max_file_size", 2000000),
        ("upload", "max_file_size", "2 GiB"),
        ("upload", "rate", "20 MB / s"),
        ("schedule", "index", False),
        ("schedule", "index", "off"),
        ("status", "listen", "[::1]:9464"),
        ("notify", "command", ["/usr/bin/alert", "--quiet"]),
    ],
)
def test_other_ways_to_write_a_value_fit(site, example, section, key, value):
    example[section][key] = value
    assert misfits(example) == []
    site.config.write_text(yaml.safe_dump(example))
    load_config(site.config, {})


def test_empty_sections_fit(site, example):
    for name in ("watch", "upload", "policy", "brake", "status", "log", "notify"):
        example[name] = None
    assert misfits(example) == []
    site.config.write_text(yaml.safe_dump(example))
    assert load_config(site.config, {}).status.listen is None


def test_defaults_and_meanings_are_those_of_the_example():
    made = schema("configuration")["$defs"]
    settle = made["Watch"]["properties"]["settle"]
    assert settle["default"] == "5s"
    assert settle["description"] == "How long a file must be unchanged before it is sent."
    assert made["Schedule"]["properties"]["audit"]["default"] == "0 3 * * sun"
    assert "default" not in made["Folder"]["properties"]["ignore"]
