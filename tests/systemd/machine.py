"""A server that boots from a folder under systemd-nspawn, and commands that run in it.

Nothing that happens in it reaches the image: it lives in memory. It shares the network of this machine, so that it
reaches the sandbox, and nothing else.
"""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

_ENVIRON = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}


class Machine:
    """One boot; `amounts` is what the machine sees of this one, by the path it sees it at, and only to read."""

    def __init__(self, image: Path, log: Path, shown: dict[str, Path]) -> None:
        self._log = log
        with log.open("wb") as out:
            # With pdeathsig it ends even when the test is killed.
            self._nspawn = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", "systemd-nspawn", f"--directory={image}", "--volatile=overlay",
                 "--boot", "--register=no", "--keep-unit", "--console=pipe", f"--machine=assetsync-{os.getpid()}",
                 *(f"--bind-ro={here}:{there}" for there, here in shown.items())],
                # Debian 13 boots with cgroup v2 only, which this machine may mount beside v1.
                env={**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
                stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            )  # fmt: skip
        self.environ = dict(_ENVIRON)
        self._leader = 0
        try:
            self.until(self._booted, 60, "the machine boots")
        except BaseException:
            self.power_off()
            raise

    def power_off(self) -> None:
        """Shut down as a server does; pull the plug when that takes more than half a minute."""
        self._nspawn.terminate()
        try:
            self._nspawn.wait(30)
        except subprocess.TimeoutExpired:
            self._nspawn.kill()
            self._nspawn.wait()
            if self._leader and Path(f"/proc/{self._leader}").exists():
                os.kill(self._leader, 9)

    def run(self, line: str, *, patience: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a line of shell as root in the clone, which a server has at /usr/src/assetsync."""
        inside = ["nsenter", "--target", str(self._leader), "--all", "env", "-i"]
        given = [f"{name}={value}" for name, value in self.environ.items()]
        return subprocess.run(
            [*inside, *given, "/bin/sh", "-c", f"cd /usr/src/assetsync && {line}"],
            check=False,
            capture_output=True,
            text=True,
            timeout=patience,
        )

    def out(self, line: str, *, patience: float = 120) -> str:
        """Run a line of shell that must succeed; gives what it printed."""
        done = self.run(line, patience=patience)
        assert done.returncode == 0, f"{line}\nexit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        return done.stdout

    def write(self, path: str, text: str) -> None:
        """Write a file of the machine, with its folders; one that exists keeps its mode."""
        done = subprocess.run(
            ["nsenter", "--target", str(self._leader), "--all", "/bin/sh", "-c",
             f"mkdir -p $(dirname {path}) && cat > {path}"],
            check=False, input=text, text=True, capture_output=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def show(self, unit: str, *names: str) -> dict[str, str]:
        """Give properties of a unit."""
        lines = self.out(f"systemctl show {unit} " + " ".join(f"-p {name}" for name in names)).splitlines()
        return dict(line.split("=", 1) for line in lines)

    def until(self, true: Callable[[], bool], seconds: float, what: str) -> float:
        """Wait until something is true; gives the seconds it took."""
        started = time.monotonic()
        while time.monotonic() - started < seconds:
            if true():
                return time.monotonic() - started
            if self._nspawn.poll() is not None:
                break
            time.sleep(0.2)
        told = self.run("systemctl status --no-pager 'assetsync*'; journalctl --no-pager -n 60").stdout
        raise AssertionError(
            f"in {seconds:.0f} s not: {what}\n{self._log.read_text('utf-8', 'replace')[-1000:]}\n{told}"
        )

    def _booted(self) -> bool:
        children = Path(f"/proc/{self._nspawn.pid}/task/{self._nspawn.pid}/children").read_text().split()
        for child in children:
            if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                self._leader = int(child)
        # The bus comes a little after the first process: until then systemctl has nobody to ask.
        return bool(self._leader) and self.run("systemctl is-system-running").stdout.strip() in ("running", "degraded")
