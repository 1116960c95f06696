"""The upload operation (interface section 4.3): what is refused, in which order, and what is stored.

A request that was cut in its file part is stored like any other, as a damaged asset (observed). The body is read by
`multipart`; what the refusals look like on the wire is `forms`' and `answers`' matter.
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
    """How an upload ended."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    NO_SESSION = "no session"
    DUPLICATE = "duplicate"
    LOGIN_PAGE = "login page"


@dataclass(frozen=True, slots=True)
class Result:
    """The end of one upload; `assetid` is the converted file name where a duplicate was refused (observed).

    `renamed`: the name without ending that a workflow gave the asset.
    """

    kind: Kind
    message: str
    assetid: str = ""
    filetype: str = ""
    code: int = 1
    renamed: str = ""


@dataclass(frozen=True, slots=True)
class Received:
    """A body as it was read: parameters from URL and form, the file part, and how long the body was said to be."""

    parameters: dict[str, str]
    form: FormReader | None
    length: int

    def discard(self) -> None:
        """Remove what came of the file part."""
        if self.form is not None and self.form.file is not None:
            self.form.file.discard()


def key_is_valid(given: Mapping[str, str], settings: SandboxSettings, active: Active) -> bool:
    """Whether the credential is right; in the URL form of the upload it is named sessiontoken (section 5)."""
    if FaultKind.KEY_REFUSED in active:
        return False
    return next((given[name] for name in _CREDENTIALS if name in given), None) == settings.api_key


class Uploads:
    """Decides about uploads and stores them."""

    def __init__(self, store: Store, settings: SandboxSettings) -> None:
        self._store = store
        self._settings = settings

    def accept(self, received: Received, active: Active) -> Result:
        """Refuse or store one upload; what came of the file part is gone from the incoming folder afterwards."""
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
            # Success and an identifier, but no asset is ever stored (observed).
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
        """Store the members of an archive as assets with identifiers and sub-folders of their own (observed)."""
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
    """Whether a file of this name may be taken apart."""
    return extension_of(name) == "zip"
