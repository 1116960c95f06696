"""What one folder's audit found, in numbers."""

from dataclasses import dataclass


@dataclass(slots=True)
class Audited:
    """Counted while the folder is listed, and what it should hold is looked for."""

    folder: str
    assets: int = 0
    fine: int = 0
    different: int = 0
    missing: int = 0
    elsewhere: int = 0
    doubled: int = 0
    suspected: int = 0
    unknown: int = 0
    history: int = 0
    """Of versions that were replaced or deleted, or that a person had sent again."""
    braked: bool = False

    def count(self, *, at_home: bool) -> None:
        """Count an asset that is what was sent: where it was sent to or may be, or moved by somebody, now or before."""
        self.fine += at_home
        self.elsewhere += not at_home
