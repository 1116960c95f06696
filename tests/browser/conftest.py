"""A real browser."""

import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium; without one, or what drives it, the tests say so and are skipped."""
    executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if executable is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    driver = Path(playwright.__file__).parents[1] / "driver" / "node"
    started = subprocess.run([driver, "--version"], capture_output=True, text=True, check=False)
    if started.returncode:
        pytest.skip(f"Playwright's driver does not start, perhaps for want of libatomic1: {started.stderr.strip()}")
    with playwright.sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        chromium.close()
