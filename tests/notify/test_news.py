"""What the ways to the outside keep out of the log and the page."""

import pytest

from assetsync import log
from assetsync.log import redact
from assetsync.notify.news import senders

TOKEN = "T024/B0815/xoJ3kq0ZpW7"


@pytest.mark.parametrize(
    ("path", "text", "shown"),
    [(TOKEN, f"target=/{TOKEN}", "target=/[key]"), ("blocked", '{"blocked": 3}', '{"blocked": 3}')],
)
def test_a_path_that_is_a_secret_is_hidden_and_one_that_is_a_word_is_not(make_world, monkeypatch, path, text, shown):
    monkeypatch.setattr(log, "_SECRETS", log._Secrets())
    address = f"http://127.0.0.1:1/{path}"
    assert list(senders(make_world(notify={"webhook": address}).config(), {})) == ["webhook"]
    assert redact(text) == shown
    assert redact(address) == "[key]"


@pytest.mark.parametrize("shown", ["s3cret%2Fword", "s3cret/word"])
def test_the_password_in_the_address_of_a_webhook_is_hidden_wherever_it_stands_alone(make_world, monkeypatch, shown):
    monkeypatch.setattr(log, "_SECRETS", log._Secrets())
    senders(make_world(notify={"webhook": "http://me:s3cret%2Fword@127.0.0.1:1/hook"}).config(), {})
    assert redact(f"the proxy was given {shown}") == "the proxy was given [key]"


def test_a_password_so_short_that_hiding_it_would_spoil_every_line_is_not_looked_for(make_world, monkeypatch):
    monkeypatch.setattr(log, "_SECRETS", log._Secrets())
    senders(make_world(notify={"webhook": "http://me:x@127.0.0.1:1/hook"}).config(), {})
    assert redact("exit 0, next at six") == "exit 0, next at six"
