"""Every command that status, page, check, lists and explain print for a site in trouble runs as it is printed.

`tests/systemd/test_boot.py` does the same on a booted server, with the commands for its units.
"""

import os
import re
import shlex
from contextlib import closing

import pytest

from assetsync.cli import options
from assetsync.cli.entry import run
from assetsync.clock import SystemClock
from assetsync.config import load_config
from assetsync.ledger.reports import view_ledger
from assetsync.sandbox import FaultKind, FaultRule, Operation
from assetsync.status.board import Board
from assetsync.status.metrics import Metrics
from assetsync.status.site_status import Live, Trust

from ..printed import printed, printed_on_page  # noqa: TID252 - the one way to another folder's parts

LISTS = ["status", "check", "files", "doubt list", "drift list", "orphans", "audit --last"]


@pytest.fixture
def troubled(site):
    """A site with files blocked for several reasons, one in doubt, drift, vanished files and a brake."""
    for name in ("a b.jpg", "c.jpg", "gone.jpg"):
        site.write(name, name.encode())
    site.write("big.bin", b"x" * 5000)
    site.write("empty.jpg", b"")
    site.write("wrong.jpg", b"wrong")
    site.write("wrong.jpg.yaml", b"description: [")
    site.write("alone.jpg.yaml", b"description: alone")
    site.configure(more="upload: {max_file_size: 1KB, doubt_grace: 1h}\n")
    site.upload_unseen(site.write("like.jpg", b"like one"))
    site.write("like.jpg", b"another")
    site.run("reconcile", "--wait", "0s")
    site.write("a b.jpg.yaml", b"description: later")
    (site.photos / "gone.jpg").unlink()
    site.write("lost.jpg", b"lost")
    site.sandbox.set_faults(FaultRule(kind=FaultKind.INVISIBLE, seconds=3600.0, operation=Operation.UPLOAD),
                            FaultRule(kind=FaultKind.ANSWER_LOST, operation=Operation.UPLOAD, times=1))  # fmt: skip
    site.run("reconcile", "--wait", "0s")
    site.sandbox.set_faults()
    site.tree.rename(site.folder / "elsewhere")
    site.run("reconcile", "--wait", "0s")
    (site.folder / "elsewhere").rename(site.tree)
    return site


def page(site):
    config = load_config(site.config, {})
    live = Live("1", 0.0, Trust("inotify"), {})
    with closing(view_ledger(config.ledger, site=config.site)) as ledger:
        board = Board(config, ledger, SystemClock(), Metrics("hq"), lambda: live, next_try=lambda _row: None)
        return board.answers()["/"]().body.decode()


@pytest.mark.parametrize("by_site", [True, False])
def test_printed_commands_run(troubled, by_site, tmp_path, monkeypatch, capsys):
    """Run every command that the lists, `explain` and the page of a troubled site print; each ends with 0 or 1."""
    del os.environ["ASSETSYNC_CONFIG"]
    monkeypatch.setattr(options, "CONFIGURATIONS", tmp_path)
    monkeypatch.setattr(options, "UNITS", ())
    for name in ("hq", "lab"):
        (tmp_path / f"{name}.yaml").write_text(troubled.config.read_text())
    named = ["--site", "hq"] if by_site else ["--config", str(troubled.config)]

    def said(words):
        capsys.readouterr()
        code = run(words)
        assert code in (0, 1), words
        return "".join(capsys.readouterr())

    shown = "".join(said([*command.split(), *named]) for command in LISTS)
    for path in sorted(troubled.photos.iterdir()):
        if path.suffix != ".yaml":
            shown += said(["explain", *named, f"photos/{path.name}"])
    commands = list(dict.fromkeys(printed(shown) + printed_on_page(page(troubled))))
    kinds = {re.sub(r" --(site|config) \S+|assetsync ", "", command) for command in commands}
    expected = {
        "check", "resume 1", "doubt list", "drift list", "drift settle 'photos/a b.jpg'", "orphans --all",
        "retry photos/big.bin", "run",
    }  # fmt: skip
    assert expected <= kinds
    # Those that ask for an id are completed by a person; those that go on without an end are started elsewhere.
    for command in commands:
        if " ID" not in command and " run " not in command:
            assert " PATH" not in command
            said(shlex.split(command)[1:])
