"""The README is short, and its set-up commands stand where CI reads them."""

import re
import struct
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def test_readme_is_short():
    assert len(README.splitlines()) <= 200
    assert len(README.encode()) <= 12_000


def test_readme_picture_leaves_room_for_text():
    """The picture of the status page is at most 350 px high as shown; the size is in the header of a PNG."""
    found = re.search(r'<img src="(systemd/monitoring/page\.png)" width="(\d+)" alt="[^"]+">', README)
    width, height = struct.unpack(">II", (ROOT / found[1]).read_bytes()[16:24])
    assert height * int(found[2]) / width <= 350


@pytest.mark.parametrize("mark", ["demo", "checks"])
def test_setup_command_makes_environment(mark):
    lines = README.split(f"<!-- {mark} -->")[1].split(f"<!-- /{mark} -->")[0].strip().splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("python3 -m venv .venv && ")


def pins(lock: Path) -> dict[str, str]:
    """Return each pinned package with its version and hashes."""
    return dict(pin.split("==", 1) for pin in re.split(r"(?m)^(?=\w)", lock.read_text("utf-8")) if pin)


def required(extra: str | None) -> set[str]:
    """Return what the program needs, or what an extra adds."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = project["dependencies"] if extra is None else project["optional-dependencies"][extra]
    return {re.match(r"[\w-]+", line)[0].lower() for line in wanted} - {"assetsync"}


def test_trial_installs_nothing_of_the_tests():
    """The demo's lock pins the program and the sandbox; that of the tests has the same pins, and their tools."""
    trial, tests = pins(ROOT / "requirements.lock"), pins(ROOT / "tests" / "requirements.lock")
    assert trial.items() <= tests.items()
    assert required(None) | required("sandbox") <= trial.keys()
    assert required("test") <= tests.keys() - trial.keys()


def test_readme_links_every_guide_page():
    linked = set(re.findall(r"\(assetsync/guide/([a-z-]+)\.md\)", README))
    assert linked == {page.stem for page in (ROOT / "assetsync" / "guide").glob("*.md")}


def test_evidence_rows_stand_in_the_guide():
    """The README quotes five rows of the evidence: what was tried, and how often."""
    guide = (ROOT / "assetsync" / "guide" / "promises-and-evidence.md").read_text("utf-8")
    rows = [
        line.split("|")[1:-1]
        for line in README.split("## Evidence")[1].split("\n## ")[0].splitlines()
        if "| 0 |" in line
    ]
    assert len(rows) == 5
    for _fault, tried, lost, doubled, command in rows:
        test = re.search(r"test_\w+\.py", command)
        quoted = [
            line for line in guide.splitlines() if line.startswith("|") and test[0] in line and tried.strip() in line
        ]
        assert quoted, tried
        assert (lost.strip(), doubled.strip()) == ("0", "0")
