"""The five commands of systemd/README.md, as they stand there."""

from .image import ROOT

SYSTEMD = ROOT / "systemd"


def commands() -> list[str]:
    """Give the lines of the first block of commands."""
    block = (SYSTEMD / "README.md").read_text("utf-8").split("```")[1]
    return [line for line in block.strip().splitlines() if line.strip()]
