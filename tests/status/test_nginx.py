"""The page behind nginx with a login, set up as the guide shows it."""

import base64
import contextlib
import http.client
import os
import re
import shutil
import socket
import subprocess
import time
from urllib.parse import urljoin

import pytest

from assetsync import guide

LOGIN = {"Authorization": "Basic " + base64.b64encode(b"anna:secret").decode()}


@pytest.fixture
def nginx(tmp_path, serve, shown, reserved_port):
    """nginx with the guide's server, on a port of its own and without TLS, before a running page; gives its port."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        pytest.skip("nginx is not installed: apt-get install nginx-light")
    behind = serve(shown.board.answers(), questions=shown.board.questions()).port
    text = guide.pages()["monitoring"].text.split("<!-- nginx -->")[1].split("<!-- /nginx -->")[0]
    server = "\n".join(line for line in text.splitlines() if "ssl_" not in line and "```" not in line)
    for shown_in_guide, here in (
        ("listen 443 ssl;", f"listen 127.0.0.1:{reserved_port};"),
        ("/etc/nginx/editors", str(tmp_path / "editors")),
        ("127.0.0.1:9464", f"127.0.0.1:{behind}"),
    ):
        assert server.count(shown_in_guide) == 1
        server = server.replace(shown_in_guide, here)
    (tmp_path / "editors").write_text("anna:{PLAIN}secret\n")
    user = "user root;" if os.geteuid() == 0 else ""
    places = "".join(
        f"{name}_temp_path {tmp_path}/{name};" for name in ("proxy", "client_body", "fastcgi", "uwsgi", "scgi")
    )
    (tmp_path / "nginx.conf").write_text(
        f"{user} daemon off; error_log {tmp_path}/error.log; pid {tmp_path}/nginx.pid; events {{}}\n"
        f"http {{ access_log off; {places}\n{server}\n}}\n"
    )
    process = subprocess.Popen([program, "-p", tmp_path, "-c", tmp_path / "nginx.conf", "-e", tmp_path / "error.log"])
    until = time.monotonic() + 20
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", reserved_port), 1):
            break
        time.sleep(0.05)
    yield reserved_port
    process.terminate()
    process.wait(20)


def ask(port, path, method="GET", headers=LOGIN):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


def test_page_behind_nginx_needs_a_login(nginx, shown):
    shown.world.write("photos/caf\u00e9 & more.jpg")
    shown.world.scan_and_send()
    assert ask(nginx, "/hq/files", headers={})[0] == 401
    assert ask(nginx, "/hq/files", "POST")[0] == 403
    assert ask(nginx, "/files")[0] == 404
    status, found = ask(nginx, "/hq/files?q=CAF%C3%89")
    assert (status, "1 file found" in found) == (200, True)
    assert ask(nginx, "/hq/")[0] == 200


def test_links_stay_below_the_path_of_nginx(nginx, shown):
    shown.world.write("photos/caf\u00e9 & more.jpg")
    shown.world.scan_and_send()
    waiting, seen = ["/hq/", "/hq/files?q=more"], set()
    while waiting:
        address = waiting.pop()
        status, body = ask(nginx, address)
        assert status == 200, address
        if "<!doctype html>" not in body or "/guide/" in address:
            continue
        for href in re.findall(r'(?:href|action)="([^"#]+)', body):
            there = urljoin(address, href.replace("&amp;", "&"))
            assert there.startswith("/hq/"), (address, href)
            waiting += [there] * (there not in seen)
            seen.add(there)
    assert "/hq/file?path=photos/caf%C3%A9%20%26%20more.jpg" in seen
