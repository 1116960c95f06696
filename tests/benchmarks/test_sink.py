"""The service in nginx: it stores what was sent, and its index lags as it is told to."""

import json
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from hashlib import md5
from urllib.parse import urlencode

import pytest

from . import small_uploads
from .frame import ROOT, Bench, Missing
from .loops import http_client_loop, httpx_loop
from .serving import Serving
from .sink import nginx, sink


@pytest.fixture(autouse=True)
def _needs_nginx(request):
    if "lacking" in request.fixturenames:
        return
    try:
        nginx()
    except Missing as error:
        pytest.skip(str(error))


@pytest.fixture
def lacking(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    small_uploads.make_files(root, 3)
    return root


def search(service: Serving, searchfor: str, **form: str) -> list[dict[str, object]]:
    body = urlencode({"searchfor": searchfor, **form}).encode()
    address = f"{service.base_url}/global/api2/search.cfc?method=searchassets"
    with urllib.request.urlopen(address, body) as answer:
        found = json.loads(answer.read())
    return [dict(zip(found["COLUMNS"], row, strict=True)) for row in found["DATA"]]


@pytest.mark.parametrize("loop", [httpx_loop, http_client_loop])
def test_sink_shows_what_was_sent(loop, tree):
    with sink() as service:
        loop(service.upload_url, str(tree))
        listed = search(service, "%", folderid="F")
        by_id = search(service, " OR ".join(f"id:{asset['id']}" for asset in listed))
        counted = service.counted()
    sent = {path.name: md5(path.read_bytes()).hexdigest().upper() for path in tree.rglob("*.bin")}
    assert {asset["filename"]: asset["md5hash"] for asset in listed} == sent
    assert {asset["size"] for asset in listed} == {str(small_uploads.SIZE)}
    assert by_id == listed
    assert (counted["uploads"], counted["searches"], counted["connections"]) == (3, 2, 3)


def test_index_of_the_sink_lags(tree):
    with sink(lag=1.0) as service:
        began = time.time()
        http_client_loop(service.upload_url, str(tree))
        assetid = search(service, "%")[0]["id"]
        while not search(service, f"id:{assetid}"):
            assert time.time() < began + 60
    assert time.time() - began >= 1.0


@pytest.mark.parametrize(
    ("pattern", "found"),
    [("F0000001.bin", ["1"]), ("f000000_.bin", ["0", "1", "2"]), (r"f000000\_.bin", []), ("%2.%", ["2"]), ("%", "012")],
)
def test_sink_searches_names_as_like_does(pattern, found, tree):
    with sink() as service:
        http_client_loop(service.upload_url, str(tree))
        names = [asset["filename"] for asset in search(service, pattern, dbdirect="true")]
        assert names == [f"f000000{number}.bin" for number in found]
        assert search(service, pattern, folderid="another") == []


def test_sink_answers_after_the_delay(tree):
    with sink(delay=0.1) as service:
        began = time.monotonic()
        http_client_loop(service.upload_url, str(tree))
        assert time.monotonic() - began >= 0.3


def test_sink_refuses_a_cut_upload():
    form = b'--B\r\nContent-Disposition: form-data; name="filedata"; filename="f.bin"\r\n\r\nhalf'
    with sink() as service:
        request = urllib.request.Request(service.upload_url, form, {"Content-Type": "multipart/form-data; boundary=B"})
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(request)
        assert service.counted()["uploads"] == 0


def test_benchmark_of_uploads_counts_commits(tmp_path):
    argv = [sys.executable, "-m", "tests.benchmarks", "small_uploads", "--small", "--scratch", str(tmp_path)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    rows = [line[2:-2].split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    columns, *rows = ([cell.strip() for cell in row] for row in rows)
    rows = [dict(zip(columns, row, strict=True)) for row in rows]
    ours = [row for row in rows if row["what"].startswith("assetsync")]
    assert len(ours) == 2
    assert all(0 < float(row["commits a file"]) < 2 for row in ours)
    assert {row["commits a file"] for row in rows if row not in ours} == {""}


def test_benchmark_names_what_is_missing(lacking, tmp_path):
    with pytest.raises(Missing, match=r"^nginx is not installed: apt-get install nginx libnginx-mod-http-lua"):
        small_uploads.run(Bench(small=True, scratch=tmp_path))


def test_nginx_without_lua_is_missing(lacking, monkeypatch, tmp_path):
    program = tmp_path / "nginx"
    program.write_text(f"#!/bin/sh\necho configure arguments: --modules-path={tmp_path} >&2\n")
    program.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name, path=None: str(program))
    with pytest.raises(Missing, match=r"^the Lua module of nginx is not installed"):
        nginx()
