"""A web server that keeps to a script, for clients of remote services."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


@dataclass
class Reply:
    """What the scripted server says: a body as JSON or text, half of it and then the end, or nothing at all."""

    body: object = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    hang: bool = False
    cut: bool = False


@dataclass
class ScriptedServer:
    """A web server on 127.0.0.1 that keeps to a script and remembers what it was asked.

    ``answer`` gets the JSON of each request, counted from 0, and returns the reply.
    """

    url: str
    answer: Callable[[int, Any], Reply] = lambda number, request: Reply(status=404)
    requests: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)


@contextmanager
def serve() -> Iterator[ScriptedServer]:
    """Starts a server, gives its script, and stops it; whoever still hangs is let go."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # or each answer, written in two pieces, waits for 40 ms

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def do_GET(self) -> None:
            self._answer(dict(parse_qsl(urlsplit(self.path).query)))

        def _answer(self, request: Any) -> None:
            number = len(script.requests)
            headers = {name.lower(): value for name, value in self.headers.items()}
            script.requests.append((self.path, headers, request))
            reply = script.answer(number, request)
            if reply.hang:
                script.released.wait(30)
                self.close_connection = True
                return
            body = (reply.body if isinstance(reply.body, str) else json.dumps(reply.body)).encode()
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if reply.cut else body)
            self.close_connection = self.close_connection or reply.cut

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    script = ScriptedServer(url=f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield script
    finally:
        script.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
