"""Write the configuration and the key file of a new site: quoted values, whole files, nothing overwritten unasked."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import yaml


class Answers(NamedTuple):
    """What a person decides about a new site; `folders` has the destfolderid for each path below root."""

    site: str
    root: Path
    base_url: str
    upload_url: str
    folders: Mapping[str, str]


def configuration(answers: Answers, key_file: Path) -> str:
    """Return the text of the configuration, with a short comment for each part."""
    folders = "".join(
        f"  - path: {_quoted(path)}\n    destfolderid: {_quoted(folder)}\n" for path, folder in answers.folders.items()
    )
    return f"""\
# The configuration of one site. `assetsync example config` shows every other setting with its default.

# Names the site in the ledger, the log and the metrics.
site: {_quoted(answers.site)}

# The folder to mirror. assetsync never writes into it.
root: {_quoted(str(answers.root))}

service:
  # Where the service is installed.
  base_url: {_quoted(answers.base_url)}
  # The index file of your tenant; files are posted here.
  upload_url: {_quoted(answers.upload_url)}
  # Holds the API key and nothing else.
  api_key_file: {_quoted(str(key_file))}

# Which folder below root goes into which folder of the service. What no entry covers is not uploaded.
folders:
{folders}"""


def _quoted(value: str) -> str:
    # One line, whatever its length: a folded value would lose its indentation.
    return yaml.safe_dump(value, default_style='"', allow_unicode=True, width=float("inf")).rstrip("\n")


def write_file(path: Path, text: str, mode: int, *, force: bool) -> None:
    """Write the file in one step; raise FileExistsError if the path is taken, unless `force` replaces it."""
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            os.fchmod(fd, mode)
            file.write(text)
            file.flush()
            os.fsync(fd)
        if force:
            temporary.replace(path)
        else:
            # A link fails where a rename would replace a file that appeared meanwhile.
            path.hardlink_to(temporary)
    finally:
        temporary.unlink(missing_ok=True)
