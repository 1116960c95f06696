"""The Debian package: built once, and read as dpkg reads it."""

import gzip
import os
import platform
import re
import shutil
import subprocess
from itertools import pairwise

import pytest

import assetsync
from assetsync.cli.root import COMMANDS

from .image import ROOT
from .readme import SYSTEMD
from .test_units import UNITS

DEBIAN = SYSTEMD / "debian"
PYTHON = "/usr/bin/python3"


def run(*words, **said):
    done = subprocess.run([str(word) for word in words], check=False, capture_output=True, text=True, **said)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def release():
    """The part of the version that names the release of this system: `deb12` for Debian 12."""
    named = platform.freedesktop_os_release()
    return named["ID"].replace("debian", "deb") + named.get("VERSION_ID", "")


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The package, which takes most of the time of these tests."""
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not there: this is no Debian")
    if subprocess.run([PYTHON, "-c", "import venv, ensurepip"], check=False, capture_output=True).returncode:
        pytest.skip(f"{PYTHON} makes no environments: apt-get install python3-venv")
    folder = tmp_path_factory.mktemp("debian")
    # A checkout without git, as the sdist is, takes the time of the commit from here.
    environ = {"SOURCE_DATE_EPOCH": "1700000000", **os.environ, "DPKG_DEB_COMPRESSOR_LEVEL": "0"}
    done = subprocess.run(
        [DEBIAN / "build", folder], cwd=folder, env=environ, check=False, capture_output=True, text=True
    )
    if re.search(r"No matching distribution|Could not find a version|Max retries", done.stderr):
        pytest.skip(f"pip cannot fetch what the package holds: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    [built] = folder.iterdir()
    assert done.stdout == f"{built}\n"
    return built


@pytest.fixture(scope="module")
def files(package):
    """Mode and owner of each path."""
    listed = [line.split(maxsplit=5) for line in run("dpkg-deb", "--contents", package).splitlines()]
    return {row[5].partition(" -> ")[0].removeprefix("."): (row[0], row[1]) for row in listed}


@pytest.fixture(scope="module")
def unpacked(package, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    run("dpkg-deb", "--extract", package, folder)
    return folder


@pytest.fixture(scope="module")
def page(unpacked):
    return gzip.decompress((unpacked / "usr/share/man/man1/assetsync.1.gz").read_bytes()).decode()


@pytest.mark.parametrize("script", ["postinst", "prerm", "postrm"])
def test_the_shell_parses_each_maintainer_script(script):
    done = subprocess.run(["sh", "-n", DEBIAN / script], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_package_of_a_later_release_is_an_upgrade():
    ascending = ["0.1.0~rc1+deb12", "0.1.0+deb12", "0.1.0+deb13", "0.1.1+deb12"]
    for earlier, later in pairwise(ascending):
        run("dpkg", "--compare-versions", earlier, "lt", later)


@pytest.mark.parametrize("units_of_another", [False, True])
def test_purge_removes_ledgers_and_keeps_keys(tmp_path, units_of_another):
    """With units of another installation, purge keeps the ledgers too: that installation uses them."""
    for path in ("var/lib/assetsync/hq.db.canary", "run/assetsync", "etc/assetsync", "etc/systemd/system"):
        (tmp_path / path).mkdir(parents=True)
    for name in ("hq.db", "hq.db-wal", "hq.db.canary/canary", "own.key"):
        (tmp_path / "var/lib/assetsync" / name).touch()
    if units_of_another:
        (tmp_path / "etc/systemd/system/assetsync@.service").touch()
    text = re.sub(r"(?<![\w*])/(?=(var/lib|run|etc)/)", f"{tmp_path}/", (DEBIAN / "postrm").read_text("utf-8"))
    script = tmp_path / "postrm"
    script.write_text(text)
    run("sh", script, "remove")
    assert (tmp_path / "var/lib/assetsync/hq.db").exists()
    run("sh", script, "purge")
    left = {file.name for file in (tmp_path / "var/lib/assetsync").rglob("*") if file.is_file()}
    assert left == ({"hq.db", "hq.db-wal", "canary", "own.key"} if units_of_another else {"own.key"})
    assert not (tmp_path / "etc/assetsync").exists()


def test_control_names_version_and_dependencies(package):
    fields = dict(re.findall(r"(?m)^([\w-]+): (.*)$", run("dpkg-deb", "--field", package)))
    minor = int(run(PYTHON, "-c", "import sys; print(sys.version_info.minor)"))
    architecture = run("dpkg", "--print-architecture").strip()
    version = f"{assetsync.__version__}+{release()}"
    assert package.name == f"assetsync_{version}_{architecture}.deb"
    assert (fields["Package"], fields["Version"]) == ("assetsync", version)
    assert fields["Architecture"] == architecture
    assert fields["Depends"] == f"python3 (>= 3.{minor}), python3 (<< 3.{minor + 1}), adduser, ca-certificates"
    assert "@" not in "".join(fields.values())


def test_package_holds_program_units_and_documents(files):
    expected = {
        "/usr/bin/assetsync",
        "/usr/lib/assetsync/assetsync/cli/root.py",
        "/usr/lib/assetsync/httpx/__init__.py",
        *(f"/usr/lib/systemd/system/{unit}" for unit in UNITS),
        "/usr/share/bash-completion/completions/assetsync",
        "/usr/share/zsh/vendor-completions/_assetsync",
        "/usr/share/fish/vendor_completions.d/assetsync.fish",
        "/usr/share/man/man1/assetsync.1.gz",
        *(f"/usr/share/doc/assetsync/{name}" for name in ("README.md", "guide", "config.example.yaml", "copyright")),
    }
    assert expected - set(files) == set()
    assert [path for path in files if path.startswith(("/etc", "/var"))] == []


def test_package_holds_no_test_dependency(files):
    held = {path.split("/")[4] for path in files if path.startswith("/usr/lib/assetsync/") and path.count("/") > 3}
    assert held & {"pytest", "mypy", "ruff", "hypothesis", "PIL", "pip", "bin"} == set()


def test_root_owns_all_and_others_read(files):
    assert {owner for _mode, owner in files.values()} == {"root/root"}
    assert {mode for mode, _owner in files.values()} == {"drwxr-xr-x", "-rwxr-xr-x", "-rw-r--r--", "lrwxrwxrwx"}
    assert files["/usr/bin/assetsync"][0] == "-rwxr-xr-x"


def test_no_file_names_the_build_folder(files, unpacked):
    assert [path for path in files if path.endswith(("/RECORD", "/direct_url.json"))] == []
    compiled = next((unpacked / "usr/lib/assetsync/assetsync/cli/__pycache__").glob("root.*.pyc"))
    assert b"/usr/lib/assetsync/assetsync/cli/root.py" in compiled.read_bytes()


@pytest.mark.parametrize("unit", UNITS)
def test_units_start_the_packaged_program(unit, unpacked):
    text = (unpacked / "usr/lib/systemd/system" / unit).read_text("utf-8")
    assert "/opt/" not in text
    assert text.count("ExecStart=/usr/bin/assetsync ") == unit.endswith(".service")


def test_launcher_ignores_environment_and_user(unpacked, tmp_path):
    launcher = (unpacked / "usr/bin/assetsync").read_text("utf-8")
    assert len(launcher.splitlines()) == 2
    moved = tmp_path / "assetsync"
    moved.write_text(launcher.replace("/usr/lib", str(unpacked / "usr/lib")))
    moved.chmod(0o755)
    (tmp_path / "click.py").write_text("raise SystemExit('another click')")
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}
    assert run(moved, "--version", cwd=tmp_path, env=environ) == f"assetsync {assetsync.__version__}\n"


def test_man_page_lists_every_command(page):
    sections = re.findall(r"(?m)^\.SS assetsync (.*)$", page)
    assert set(COMMANDS) <= set(sections)
    assert {"doubt resolve", "example units"} <= set(sections)
    assert r"\fB\-\-adopt\fP" in page


def test_man_finds_no_mistake(page, tmp_path):
    if shutil.which("man") is None:
        pytest.skip("man is not there: apt-get install man-db")
    (tmp_path / "assetsync.1").write_text(page)
    environ = {**os.environ, "LC_ALL": "C.UTF-8", "MANPAGER": "cat", "MANWIDTH": "80"}
    done = subprocess.run(
        ["man", "--warnings", "-l", tmp_path / "assetsync.1"], env=environ, check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "assetsync reconcile --config hq.yaml --dry-run" in done.stdout


def test_documents_link_to_packaged_files(unpacked):
    documents = unpacked / "usr/share/doc/assetsync"
    linked = re.findall(r"\((guide/[a-z-]+\.md|README\.systemd\.md)\)", (documents / "README.md").read_text("utf-8"))
    assert len(linked) > 10
    assert [name for name in linked if not (documents / name).is_file()] == []
    assert (documents / "copyright").read_text("utf-8").startswith((ROOT / "LICENSE").read_text("utf-8"))
