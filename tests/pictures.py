"""`python -m tests.pictures` makes the README's picture of the status page; it needs Chromium and playwright."""

import os
import shutil
import tempfile
from pathlib import Path

from .running import daemons, make_sandbox

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "systemd" / "monitoring" / "page.png"
FILES = 48
PAGE_WIDTH = 1000


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
    draw_page()
