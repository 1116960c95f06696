"""What is built holds everything, is the same each time, and works where it is installed."""

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import assetsync
from assetsync.cli.commands.schema import names

ROOT = Path(__file__).parent.parent
UNITS = ("assetsync@.service", "assetsync-reconcile@.service", "assetsync-reconcile@.timer")
NAME = f"assetsync-{assetsync.__version__}"


def run(*words: str | Path, **said) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **said)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Two builds of sdist and wheel, in folders `one` and `two`."""
    base = tmp_path_factory.mktemp("build")
    tools = base / "tools"
    fetch = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", str(tools)]
    done = subprocess.run([*fetch, "hatchling>=1.25"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"hatchling cannot be fetched: {done.stderr.strip().splitlines()[-1]}")
    environ = {**os.environ, "PYTHONPATH": str(tools)}
    for name in ("one", "two"):
        run(sys.executable, "-m", "tests.release", base / name, cwd=ROOT, env=environ)
    return base


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """A fresh environment with the wheel; what it needs is the tests' own."""
    place = tmp_path_factory.mktemp("installed") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", place)
    python = place / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", *(built / "one").glob("*.whl"))
    (site,) = place.glob("lib/python3*/site-packages")
    (site / "others.pth").write_text("\n".join(path for path in sys.path if path.endswith("-packages")) + "\n")
    return place / "bin" / "assetsync"


def test_two_builds_are_the_same_to_the_byte(built):
    first = {path.name: path.read_bytes() for path in (built / "one").iterdir()}
    second = {path.name: path.read_bytes() for path in (built / "two").iterdir()}
    assert sorted(first) == ["SHA256SUMS", f"{NAME}-py3-none-any.whl", f"{NAME}.tar.gz"]
    assert first == second


def test_sums_match_the_built_files(built):
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=built / "one")


def test_wheel_has_the_license(built):
    with zipfile.ZipFile(built / "one" / f"{NAME}-py3-none-any.whl") as wheel:
        assert wheel.read(f"{NAME}.dist-info/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


def test_wheel_has_all_modules_and_files(built):
    with zipfile.ZipFile(built / "one" / f"{NAME}-py3-none-any.whl") as wheel:
        names = set(wheel.namelist())
    own = {path.relative_to(ROOT) for path in (ROOT / "assetsync").rglob("*") if path.is_file()}
    expected = {str(path) for path in own if "__pycache__" not in path.parts} - {"assetsync/README.md"}
    handed = {"config.example.yaml", "systemd/README.md", *(f"systemd/{unit}" for unit in UNITS)}
    assert expected | {f"assetsync/share/{name}" for name in handed} <= names
    assert {name for name in names if name.startswith(("tests", "systemd", "assetsync/README"))} == set()


def test_sdist_has_all_build_and_test_files(built):
    with tarfile.open(built / "one" / f"{NAME}.tar.gz") as sdist:
        names = {name.removeprefix(f"{NAME}/") for name in sdist.getnames()}
    expected = {"pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "requirements.lock", "config.example.yaml"}
    assert expected | {f"systemd/{unit}" for unit in UNITS} | {"tests/__main__.py", "assetsync/cli/root.py"} <= names
    assert {"CONTRIBUTING.md", "assetsync/README.md", "tests/README.md", ".github/SECURITY.md"} <= names
    assert "tests/requirements.lock" in names


def test_installed_package_needs_no_clone(installed, tmp_path):
    assert run(installed, "--version", cwd=tmp_path) == f"assetsync {assetsync.__version__}\n"
    place = run(installed.with_name("python"), "-c", "import assetsync; print(assetsync.__file__)", cwd=tmp_path)
    assert place.startswith(str(installed.parent.parent))


def test_installed_package_has_all_schemas(installed, tmp_path):
    listed = [line.split()[0] for line in run(installed, "schema", cwd=tmp_path).splitlines()]
    assert listed == names()
    made = json.loads(run(installed, "schema", "configuration", cwd=tmp_path))
    assert made["properties"]["site"]["description"].startswith("Names the site")


def test_installed_package_has_example(installed, tmp_path):
    example = run(installed, "example", "config", cwd=tmp_path)
    assert example == (ROOT / "config.example.yaml").read_text("utf-8")
    run(installed, "example", "units", tmp_path / "units", cwd=tmp_path)
    assert sorted(path.name for path in (tmp_path / "units").iterdir()) == sorted(UNITS)
    unit = (tmp_path / "units" / "assetsync@.service").read_text("utf-8")
    assert f"ExecStart={installed} run --config /etc/assetsync/%i.yaml" in unit
    assert "/opt/assetsync" not in unit
