"""`--explain` of the three operations: print the request instead of sending it.

This needs neither the service nor a key: `[key]` is printed in place of the key. `service` builds the requests.
"""

from collections.abc import Sequence

import click

from assetsync.cli.output import write_data, write_json
from assetsync.config import SiteConfig
from assetsync.model import UploadRequest
from assetsync.service.multipart import parameters, sent_filename
from assetsync.service.search import Call
from assetsync.text import printable

KEY = "[key]"

with_explain = click.option("--explain", is_flag=True, help="Show the request instead of sending it; needs no service.")


def show_call(config: SiteConfig, call: Call, *, as_json: bool) -> None:
    """Print a call of searchassets or searchIndex (interface sections 4.1 and 4.2)."""
    _show(call.address(config.service.base_url), call.form(KEY), as_json=as_json)


def show_upload(config: SiteConfig, request: UploadRequest, size: int, *, as_json: bool) -> None:
    """Print the fields of an upload in order (interface section 4.3), and the name and size in bytes of the file.

    Raise UsageError for the name of a metadata field that cannot be sent.
    """
    in_url, fields = parameters(request, KEY, credential=config.service.credential)
    # Not percent-encoded, so that people can read it and see the `[key]`.
    query = "&".join(f"{name}={value}" for name, value in in_url)
    address = f"{config.service.upload_url}{'?' if query else ''}{query}"
    file = f"{sent_filename(request.filename)} ({size:,} bytes)"
    _show(address, [*fields, ("filedata", file)], as_json=as_json)


def _show(address: str, fields: Sequence[tuple[str, str]], *, as_json: bool) -> None:
    if as_json:
        write_json({"method": "POST", "address": address, "fields": dict(fields)})
        return
    write_data(f"POST {printable(address)}")
    width = max(len(name) for name, _value in fields)
    for name, value in fields:
        write_data(f"  {printable(name):<{width}}  {printable(value)}")
