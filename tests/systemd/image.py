"""A bare Debian and the wheels that a clone needs: what `test_boot` takes for a fresh server. Both are built once.

`Unavailable` says why there is none; booting it is `machine`'s.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SUITE = os.environ.get("ASSETSYNC_SUITE", "bookworm")
_PACKAGES = ("systemd", "systemd-sysv", "dbus", "python3", "python3-venv")
_TOOLS = {"debootstrap": "debootstrap", "systemd-nspawn": "systemd-container", "nsenter": "util-linux"}


class Unavailable(Exception):
    """Why there is no server to boot here."""


def image(*, build: bool) -> Path:
    """Give the folder of the image: $ASSETSYNC_IMAGE, else the one in the cache, which is made where `build` allows."""
    if os.geteuid() != 0:
        raise Unavailable("booting a server needs root")
    named = os.environ.get("ASSETSYNC_IMAGE")
    folder = Path(named) if named else _cache() / f"image-{SUITE}"
    if not folder.is_dir() and not build:
        raise Unavailable(f"no image of a server: --long builds one in {folder}, $ASSETSYNC_IMAGE names another")
    _need("systemd-nspawn", "nsenter")
    if not folder.is_dir():
        _need("debootstrap")
        _bootstrap(folder)
    return folder


def wheels(folder: Path) -> Path:
    """Give a folder with the wheels of all that an install in the versions of the lock file fetches in the image."""
    python = re.fullmatch(r"python(3\.\d+)", os.path.basename(os.path.realpath(folder / "usr" / "bin" / "python3")))
    assert python, f"the image in {folder} has no python3"
    lock = (ROOT / "requirements.lock").read_bytes()
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + lock).hexdigest()[:16]
    house = _cache() / f"wheels-{python[1]}-{wanted}"
    if house.is_dir():
        return house
    made = house.with_suffix(".part")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    _build(*pip, "wheel", "--no-deps", "--wheel-dir", str(made), str(ROOT))
    [own] = made.glob("assetsync-*.whl")
    pins = made / "pins"
    pins.write_bytes(b"\n".join(re.findall(rb"(?m)^[^ ]*==[^ ]*", lock)))
    for wanted in (str(own), "hatchling"):
        _build(
            *pip, "download", "--only-binary=:all:", "--python-version", python[1], "--dest", str(made),
            "--constraint", str(pins), wanted,
        )  # fmt: skip
    own.unlink()
    made.rename(house)
    return house


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "assetsync"


def _need(*tools: str) -> None:
    missing = [_TOOLS[tool] for tool in tools if shutil.which(tool) is None]
    if not missing:
        return
    if os.environ.get("ASSETSYNC_APT") != "yes" or shutil.which("apt-get") is None:
        raise Unavailable(f"apt-get install {' '.join(missing)}, or allow the test to do so with ASSETSYNC_APT=yes")
    _build("apt-get", "install", "-y", "--no-install-recommends", *missing)


def _bootstrap(folder: Path) -> None:
    made = folder.with_suffix(".part")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    options = ("--variant=minbase", f"--include={','.join(_PACKAGES)}")
    _build("debootstrap", *options, SUITE, str(made), *_mirror())
    made.rename(folder)


def _mirror() -> list[str]:
    """Give the mirror that this machine takes the same suite from, if it does: it can be reached from here."""
    for source in [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*.sources"))]:
        if not source.is_file():
            continue
        text = source.read_text("utf-8")
        one_line = re.search(rf"^deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+{SUITE}\s.*\bmain\b", text, re.MULTILINE)
        if one_line:
            return [one_line[1]]
        for stanza in re.split(r"\n\s*\n", text):
            fields = dict(re.findall(r"^(\w+):\s*(.+)$", stanza, re.MULTILINE))
            if SUITE in fields.get("Suites", "").split():
                return fields["URIs"].split()[:1]
    return []


def _build(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"{' '.join(command[:3])} … failed: {(done.stderr or done.stdout).strip()[-600:]}")
