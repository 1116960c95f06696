"""Plain clients that post the files of a tree one by one: `python loops.py httpx|http.client URL TREE`.

Each reads a file and posts it, and no more: it records nothing, compares nothing and reads nothing back.
"""

import sys
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

FIELDS = {"fa": "c.apiupload", "api_key": "benchmark-key", "destfolderid": "F", "zip_extract": "0"}
FORM_TYPE = {"Content-Type": "multipart/form-data; boundary=B"}
_STORED = b"<responsecode>0<"


def files_of(root: str | Path) -> list[Path]:
    return sorted(Path(root).rglob("*.bin"))


def form(name: str, content: bytes) -> bytes:
    """Return the body of an upload, with the boundary of `FORM_TYPE`."""
    fields = "".join(
        f'--B\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n' for field, value in FIELDS.items()
    )
    file = f'--B\r\nContent-Disposition: form-data; name="filedata"; filename="{name}"\r\n\r\n'
    return (fields + file).encode() + content + b"\r\n--B--\r\n"


def httpx_loop(url: str, root: str) -> None:
    import httpx

    files = files_of(root)
    with httpx.Client() as client:
        for path in files:
            with path.open("rb") as file:
                answer = client.post(url, data=FIELDS, files={"filedata": (path.name, file)})
            assert _STORED in answer.content


def http_client_loop(url: str, root: str) -> None:
    """Post over one connection, which is kept."""
    address = urlsplit(url)
    connection = HTTPConnection(address.netloc)
    for path in files_of(root):
        connection.request("POST", address.path, form(path.name, path.read_bytes()), FORM_TYPE)
        assert _STORED in connection.getresponse().read()
    connection.close()


if __name__ == "__main__":
    {"httpx": httpx_loop, "http.client": http_client_loop}[sys.argv[1]](*sys.argv[2:])
