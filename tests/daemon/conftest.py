"""Daemons, by the names that these tests call them."""

import pytest


@pytest.fixture
def sandbox(daemon_sandbox):
    return daemon_sandbox


@pytest.fixture
def make(make_daemon):
    return make_daemon
