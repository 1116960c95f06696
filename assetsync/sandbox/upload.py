"""The upload operation (interface section 4.3): refuse an upload, with the checks in order, or store it.

A request that was cut in its file part is stored, too, as a damaged asset (observed). Reading the body is left to
`multipart`, writing the answer to `answers`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from assetsync.sandbox.archive import members
from assetsync.sandbox.faults import Active, FaultKind
from assetsync.sandbox.multipart import FilePart, FormReader
from assetsync.sandbox.names import (
    LONGEST_NAME,
    beyond_basic_plane,
    extension_of,
    filetype_of,
    rewritten,
    without_folder,
)
from assetsync.sandbox.settings import SandboxSettings
from assetsync.sandbox.store import NewAsset, Store, new_id

LOGIN_NOT_VALID: Final = (
    "Login not valid! Check user API Key and ensure with your administrator that the user has appropriate permissions"
    " for access."
)
_MISSING: Final = "Upload failed Error at line 1, column 33"
_CREDENTIALS: Final = ("api_key", "sessiontoken")


class Kind(StrEnum):
    """The kinds of results of an upload."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    NO_SESSION = "no session"
    DUPLICATE = "duplicate"
    LOGIN_PAGE = "login page"


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one upload; for a refused duplicate, `assetid` is the rewritten file name (observed).

    `renamed` is the new name, without its extension, from a workflow.
    """

    kind: Kind
    message: str
    assetid: str = ""
    filetype: str = ""
    code: int = 1
    renamed: str = ""


@dataclass(frozen=True, slots=True)
class Received:
    """A body as read: the parameters from URL and form, and the form with the file part.

    `length` is the larger of the announced and the received number of bytes.
    """

    parameters: dict[str, str]
    form: FormReader | None
    length: int

    def discard(self) -> None:
        """Remove the received bytes of the file part from disk."""
        if self.form is not None and self.form.file is not None:
            self.form.file.discard()


def key_is_valid(given: Mapping[str, str], settings: SandboxSettings, active: Active) -> bool:
    """Return whether the credential is valid; in an upload's URL its name is sessiontoken (interface section 5)."""
    if FaultKind.KEY_REFUSED in active:
        return False
    return next((given[name] for name in _CREDENTIALS if name in given), None) == settings.api_key


class Uploads:
    """Refuse or store uploads."""

    def __init__(self, store: Store, settings: SandboxSettings) -> None:
        self._store = store
        self._settings = settings

    def accept(self, received: Received, active: Active) -> Result:
        """Refuse or store one upload; the incoming folder no longer holds its file part afterwards."""
        try:
            refusal = self._refusal(received, active)
            if refusal is not None:
                return refusal
            file = received.form.file if received.form else None
            assert file is not None, "without one it is refused"
            return self._stored(received.parameters, file, active)
        finally:
            received.discard()

    def _refusal(self, received: Received, active: Active) -> Result | None:
        given = received.parameters
        limit = self._settings.max_content_length
        if limit is not None and received.length > limit:
            return Result(Kind.REFUSED, "The content exceeds the maximum content-length of an HTTP request", code=10001)
        if given.get("fa", "").lower() != "c.apiupload":
            return Result(Kind.LOGIN_PAGE, "")
        if not key_is_valid(given, self._settings, active):
            return Result(Kind.NO_SESSION, LOGIN_NOT_VALID)
        form = received.form
        if form is not None and form.torn:
            return Result(Kind.REFUSED, "Upload failed Error at line 1, column 1 the form ended too early.")
        if form is None or form.file is None:
            return Result(Kind.REFUSED, "Missing 'filedata' parameter")
        if form.late:
            return Result(Kind.REFUSED, "Upload failed The form fields must precede the field 'filedata'")
        return self._file_refusal(given, form.file)

    def _file_refusal(self, given: Mapping[str, str], file: FilePart) -> Result | None:
        folder = given.get("destfolderid")
        if folder is None:
            return Result(Kind.REFUSED, f"{_MISSING} arguments.thestruct.destfolderid doesn't exist.")
        if not self._store.has_folder(folder):
            return Result(Kind.REFUSED, f"Specified folder '{folder}' does not exist")
        name = without_folder(file.sent_name)
        if '\\"' in file.sent_name or len(name) > LONGEST_NAME:
            return Result(Kind.REFUSED, "Upload failed Error at line 1, column 1 the file name cannot be used.")
        if file.size == 0 or not name:
            return Result(Kind.REFUSED, "Upload failed There was no appropriate FILE found in the upload")
        if self._settings.duplicate_check and self._store.has_content(file.md5):
            return Result(Kind.DUPLICATE, "File already exists in Razuna", rewritten(name))
        return None

    def _stored(self, given: Mapping[str, str], file: FilePart, active: Active) -> Result:
        assert file.path is not None, "the key was valid when the file part began"
        name = without_folder(file.sent_name)
        assetid = new_id()
        result = Result(Kind.ACCEPTED, "success", assetid, filetype_of(extension_of(name)), code=0)
        if beyond_basic_plane(name):
            # The service reports success and an identifier, but never stores an asset (observed).
            return result
        if self._settings.renames:
            result = replace(result, renamed=f"workflow-{assetid[:8]}")
            name = f"{result.renamed}.{extension_of(name)}".rstrip(".")
        if FaultKind.NAMES_LOST in active:
            name = f"{assetid}.{extension_of(name)}".rstrip(".")
        hidden = active.get(FaultKind.INVISIBLE)
        asset = NewAsset(
            id=assetid,
            folder_id=given["destfolderid"],
            filename=name,
            content=file.path,
            size=file.size,
            md5=file.md5,
            head=file.head,
            fields={name: value for name, value in given.items() if name not in _CREDENTIALS},
            damaged=not file.complete,
            hidden_for=hidden.seconds if hidden else 0.0,
        )
        self._store.add(asset)
        if is_archive(name) and file.complete and given.get("zip_extract", "1").lower() in ("1", "true", "yes"):
            self._unpack(asset)
        return result

    def _unpack(self, archive: NewAsset) -> None:
        """Store the members of an archive as assets with identifiers and subfolders of their own (observed)."""
        for member in members(self._store.content(archive.id), self._store.incoming):
            folder = archive.folder_id
            for name in member.folders:
                folder = self._store.subfolder(folder, name)
            self._store.add(
                NewAsset(
                    id=new_id(),
                    folder_id=folder,
                    filename=member.name,
                    content=member.content,
                    size=member.size,
                    md5=member.md5,
                    head=member.head,
                    fields={},
                    hidden_for=archive.hidden_for,
                )
            )


def is_archive(name: str) -> bool:
    """Return whether a file of this name may be unpacked."""
    return extension_of(name) == "zip"
