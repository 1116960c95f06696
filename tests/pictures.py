"""`python -m tests.pictures` runs `assetsync demo` and saves its output as an SVG for the README."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
DEMO = ROOT / "assetsync" / "guide" / "pictures" / "demo.svg"
WIDTH = 110


def draw_demo() -> None:
    """Write the output of a real run, unchanged, to `DEMO`."""
    words = [sys.executable, "-m", "assetsync", "demo", "--quiet"]
    environ = {**os.environ, "COLUMNS": str(WIDTH)}
    shown = subprocess.run(words, cwd=ROOT, env=environ, capture_output=True, text=True, check=True).stdout
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(Text.from_ansi("$ assetsync demo --quiet\n" + shown))
    DEMO.parent.mkdir(exist_ok=True)
    drawn = console.export_svg(title="assetsync demo --quiet")
    # The picture fetches no font from elsewhere.
    DEMO.write_text(re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL), "utf-8")


if __name__ == "__main__":
    draw_demo()
