"""A page: its template, with the style and the script in the document, and its Content-Security-Policy.

The policy allows only this style and this script, by their hashes. The template escapes every value. What a page shows
is left to `page`, `find` and `file_page`.
"""

import base64
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files as resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from assetsync.log import redact
from assetsync.text import moment, runnable, span

_CODE = re.compile("`([^`]+)`")


@dataclass(frozen=True, slots=True)
class When:
    """A time on the page: in words, and exactly."""

    text: str
    exact: str | None


class Shell:
    """One template of `templates/` with its styles."""

    def __init__(self, name: str, *styles: str) -> None:
        style, script = "".join(map(_text, styles)), _text("page.js")
        environment = Environment(
            loader=FunctionLoader(_text), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
            lstrip_blocks=True, keep_trailing_newline=True,
        )  # fmt: skip
        environment.filters |= {"count": "{:,}".format, "runnable": runnable, "coded": coded}
        # The package's own files.
        environment.globals |= {"style": Markup(style), "script": Markup(script)}  # noqa: S704
        self._template = environment.get_template(name)
        self.policy = policy(style, script)

    def render(self, values: dict[str, Any]) -> str:
        """Return the document with these values, without secrets."""
        return redact(self._template.render(values))


@cache
def shell(name: str, *styles: str) -> Shell:
    """Return the shell of a template, which is compiled once a process."""
    return Shell(name, *styles)


def _text(name: str) -> str:
    return (resources("assetsync.status") / "templates" / name).read_text("utf-8")


def ago(now: float, seconds: float | None) -> When:
    """Return a time of the past, None for never; both are in seconds since the epoch."""
    return When("not yet", None) if seconds is None else When(f"{span(now - seconds)} ago", moment(seconds))


def coded(text: str) -> Markup:
    """Return a sentence as escaped HTML, with what is between two backticks as code; a single backtick stays."""
    code = Markup("<code>{}</code>")
    parts = _CODE.split(text)
    return Markup().join(code.format(part) if odd % 2 else escape(part) for odd, part in enumerate(parts))


def policy(style: str, script: str | None = None) -> str:
    """Return the Content-Security-Policy of a document that contains this style, and this script if it has one.

    A document with a script may read this server, and has a form that asks it.
    """
    own = "form-action 'none'"
    if script is not None:
        own = f"form-action 'self'; script-src '{_hash(script)}'; connect-src 'self'"
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; img-src 'self'; base-uri 'none'; frame-ancestors 'none';"
        f" {own}"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
