"""`python -m tests.release [FOLDER]` builds the wheel, the sdist and SHA256SUMS, the same bytes for the same commit."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def build(target: Path) -> list[Path]:
    """Return the built files in `target`, SHA256SUMS last. Needs hatchling; times are those of the last commit."""
    if target.exists() and any(target.iterdir()):
        sys.exit(f"{target} is not empty: name another folder, or remove it")
    commit = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True)
    environ = {**os.environ, "SOURCE_DATE_EPOCH": commit.stdout.strip()}
    words = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(target.resolve())]
    subprocess.run(words, cwd=ROOT, env=environ, check=True)
    files = sorted(target.iterdir())
    sums = target / "SHA256SUMS"
    sums.write_text("".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files))
    return [*files, sums]


if __name__ == "__main__":
    for file in build(Path(sys.argv[1] if len(sys.argv) > 1 else "dist")):
        print(file)
