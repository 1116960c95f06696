"""The bytes of the simulated service's answers, and the real client that reads them.

The forms are those that a live installation answered with; wherever it can, an answer quotes the key.
"""

import hashlib
import json
from collections.abc import Collection

import httpx
from pydantic import SecretStr

from assetsync.service.client import HttpService, ServiceSettings

KEY = "Sesam-0ffne-d1ch+/&"
COLUMNS = ("id", "filename", "folder_id", "kind", "size", "md5hash", "responsecode", "totalassetscount", "calledwith")
NO_KEY = "Login not valid! Check user API Key and ensure with your administrator that the user has permissions."
PAGE = b"<html><body><h1>500</h1>java.lang.NullPointerException api_key=" + KEY.encode() + b"</body></html>"
_ADDRESS = "http://127.0.0.1:1/dam"


def client_over(transport: httpx.BaseTransport, folders: Collection[str] = ()) -> HttpService:
    """Give the real client over the simulated transport; uploads are answered while they are sent."""
    settings = ServiceSettings(
        base_url=_ADDRESS,
        upload_url=f"{_ADDRESS}/index.cfm",
        api_key=SecretStr(KEY),
        spelling={each.lower(): each for each in folders},
    )
    client = HttpService(settings)
    for each in (client._transport, client._for_uploads):
        each.handle_request = transport.handle_request  # type: ignore[method-assign]
    return client


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest().upper()


def xml(code: int, message: str, assetid: str = "", renamed: str = "") -> httpx.Response:
    return response(xml_text(code, message, assetid, renamed), "application/xml;charset=UTF-8")


def xml_text(code: int, message: str, assetid: str, renamed: str = "") -> bytes:
    text = (
        f"<Response><responsecode>{code}</responsecode><message>{message.replace('&', '&amp;')}</message>"
        f"<assetid>{assetid}</assetid><filetype>doc</filetype><renamefilebody>{renamed}</renamefilebody></Response>"
    )
    return text.encode()


def as_json(value: object) -> httpx.Response:
    text = json.dumps(value, ensure_ascii=False).encode("latin-1", "replace")
    return response(text, "application/json;charset=ISO-8859-1")


def response(body: bytes, content_type: str, status: int = 200) -> httpx.Response:
    return httpx.Response(status, stream=httpx.ByteStream(body), headers={"content-type": content_type})
