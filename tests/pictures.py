"""`python -m tests.pictures` makes the README's picture of the status page; it needs Chromium and playwright."""

import os
import shutil
import tempfile
from pathlib import Path

from .running import daemons, make_sandbox

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "systemd" / "monitoring" / "page.png"
FILES = 48


def draw_page() -> None:
    """Write a picture of the page of a running daemon, which has two blocked files, to `PAGE`."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, make_sandbox() as sandbox, daemons(Path(folder), sandbox) as make:
        running = make(status="{listen: 127.0.0.1:0}")
        running.config.write_text(running.config.read_text().replace("site: d\n", "site: hq\n"))
        for number in range(FILES):
            (running.photos / f"harbour-{number:02}.jpg").write_bytes(os.urandom(200_000))
        (running.photos / "empty.jpg").touch()
        (running.photos / "town.jpg").write_bytes(os.urandom(200_000))
        (running.photos / "town.jpg.yaml").write_text("descripton: The town at night\n")
        running.start()
        running.until(lambda: sorted(running.states().values()) == ["blocked"] * 2 + ["verified"] * FILES)
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = chromium.new_page(viewport={"width": 1100, "height": 1100})
            page.goto(running.address())
            page.screenshot(path=PAGE)
            chromium.close()


if __name__ == "__main__":
    draw_page()
