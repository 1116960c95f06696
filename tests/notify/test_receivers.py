"""The address of a webhook stays out of the log and the page."""

import pytest

from assetsync import log
from assetsync.log import redact
from assetsync.notify.notifications import receivers

TOKEN = "T024/B0815/xoJ3kq0ZpW7"


@pytest.mark.parametrize(
    ("path", "text", "shown"),
    [(TOKEN, f"target=/{TOKEN}", "target=/[key]"), ("blocked", '{"blocked": 3}', '{"blocked": 3}')],
)
def test_only_a_secret_path_is_redacted(make_world, monkeypatch, path, text, shown):
    monkeypatch.setattr(log, "_SECRETS", log._Secrets())
    address = f"http://127.0.0.1:1/{path}"
    assert list(receivers(make_world(notify={"webhook": address}).config(), {})) == ["webhook"]
    assert redact(text) == shown
    assert redact(address) == "[key]"


@pytest.mark.parametrize("shown", ["s3cret%2Fword", "s3cret/word"])
def test_webhook_password_is_always_redacted(make_world, monkeypatch, shown):
    monkeypatch.setattr(log, "_SECRETS", log._Secrets())
    receivers(make_world(notify={"webhook": "http://me:s3cret%2Fword@127.0.0.1:1/hook"}).config(), {})
    assert redact(f"the proxy was given {shown}") == "the proxy was given [key]"


def test_very_short_password_is_not_redacted(make_world, monkeypatch):
    monkeypatch.setattr(log, "_SECRETS", log._Secrets())
    receivers(make_world(notify={"webhook": "http://me:x@127.0.0.1:1/hook"}).config(), {})
    assert redact("exit 0, next at six") == "exit 0, next at six"
