"""`python -m tests.pictures` makes the README's pictures: of `assetsync demo` as SVG, and of the status page as PNG.

The page needs Chromium and playwright.
"""

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from .running import daemons, make_sandbox

ROOT = Path(__file__).parent.parent
DEMO = ROOT / "assetsync" / "guide" / "pictures" / "demo.svg"
PAGE = ROOT / "systemd" / "monitoring" / "page.png"
WIDTH = 110
FILES = 48
PAGE_WIDTH = 1000


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


def draw_page() -> None:
    """Write a picture of the page of a running daemon, whose files are all verified, to `PAGE`: its first sections."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, make_sandbox() as sandbox, daemons(Path(folder), sandbox) as make:
        running = make(status="{listen: 127.0.0.1:0}")
        running.config.write_text(running.config.read_text().replace("site: d\n", "site: hq\n"))
        for number in range(FILES):
            (running.photos / f"harbour-{number:02}.jpg").write_bytes(os.urandom(200_000))
        running.start()
        running.until_verified(FILES)
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = chromium.new_page(viewport={"width": PAGE_WIDTH, "height": 1000})
            page.goto(running.address())
            page.locator("header.in_sync").wait_for()
            box = page.locator("#way").bounding_box()
            page.screenshot(
                path=PAGE, clip={"x": 0, "y": 0, "width": PAGE_WIDTH, "height": box["y"] + box["height"] + 14}
            )
            chromium.close()


if __name__ == "__main__":
    draw_demo()
    draw_page()
