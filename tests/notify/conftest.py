"""Receivers of notices: an HTTP server, and a program that records its input."""

import http.server
import json
import sys
import threading
from pathlib import Path

import pytest


class Sink:
    """An HTTP server that keeps what it is sent; `answer` is the status of its answers, given while it is `awake`."""

    def __init__(self, answer=200):
        self.answer = answer
        self.bodies: list[bytes] = []
        self.requests: list[tuple[str, str, str]] = []
        self.location = "/"
        self.awake = threading.Event()
        self.awake.set()
        self.arrived = threading.Condition()
        sink = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with sink.arrived:
                    sink.bodies.append(body)
                    sink.requests.append((self.command, self.path, body.decode()))
                    sink.arrived.notify_all()
                sink.awake.wait(60)
                self.send_response(sink.answer)
                self.send_header("Content-Length", "0")
                self.send_header("Location", sink.location)
                self.end_headers()

            def do_GET(self):
                self.do_POST()

            def log_message(self, *_args):
                """Log nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook/s3cret-t0ken"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()

    @property
    def messages(self) -> list[dict]:
        return [json.loads(body) for body in self.bodies]

    def wait(self, count: int, seconds: float = 20) -> list[dict]:
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.bodies) >= count, seconds), self.bodies
        return self.messages

    def until(self, true, seconds: float = 30) -> None:
        with self.arrived:
            assert self.arrived.wait_for(lambda: true(self.requests), seconds), self.requests

    def close(self):
        self.awake.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def sink():
    made = Sink()
    yield made
    made.close()


@pytest.fixture
def program(tmp_path: Path):
    """Make a program of Python statements; it finds its stdin as `said` and its environment as `environ`."""

    def make(*statements: str) -> list[str]:
        path = tmp_path / f"program-{len(list(tmp_path.glob('program-*')))}.py"
        begin = "import json, os, sys, time\nsaid = sys.stdin.read()\nenviron = dict(os.environ)\n"
        path.write_text(begin + "\n".join(statements) + "\n")
        return [sys.executable, str(path)]

    return make
