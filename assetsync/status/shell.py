"""A page about files: its template, with the style and the script of all pages, and its Content-Security-Policy."""

from importlib.resources import files as resources
from typing import Any

from markupsafe import Markup

from assetsync.log import redact
from assetsync.status.page import When, policy, template
from assetsync.text import moment, span


class Shell:
    """One template of `templates/`, loaded once."""

    def __init__(self, name: str) -> None:
        folder = resources("assetsync.status") / "templates"
        style = "".join((folder / each).read_text("utf-8") for each in ("page.css", "files.css"))
        script = (folder / "page.js").read_text("utf-8")
        self._parts = {"style": Markup(style), "script": Markup(script)}  # noqa: S704 - the package's own files
        self._template = template((folder / name).read_text("utf-8"))
        self.policy = policy(style, script)

    def render(self, site: str, values: dict[str, Any]) -> str:
        """Return the document with these values, without secrets."""
        return redact(self._template.render(site=site, **self._parts, **values))


def ago(now: float, seconds: float) -> When:
    """Return a time of the past; both are in seconds since the epoch."""
    return When(f"{span(now - seconds)} ago", moment(seconds))
