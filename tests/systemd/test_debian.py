"""The maintainer scripts of the Debian package."""

import subprocess

import pytest

from .readme import SYSTEMD


@pytest.mark.parametrize("script", ["postinst", "prerm", "postrm"])
def test_the_shell_parses_each_maintainer_script(script):
    done = subprocess.run(["sh", "-n", SYSTEMD / "debian" / script], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
