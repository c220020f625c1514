"""A server on 127.0.0.1 that speaks OpenAI's chat completions, and misbehaves on demand.

What it says is decided by ``answer``, which gets each request and returns a :class:`Say` or one of the misbehaviours.
It counts what it has answered in full, as a provider would bill it.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


@dataclass(frozen=True)
class Say:
    """A completion: ``text`` as the assistant's words. ``usage`` None leaves the count out, as some servers do."""

    text: str | None
    refusal: str | None = None
    finish_reason: str = "stop"
    usage: tuple[int, int] | None = (100, 20)
    logprobs: list[dict[str, Any]] | None = None
    delay_s: float = 0.0


@dataclass(frozen=True)
class Status:
    """An HTTP status with the error body that OpenAI sends, or with ``body`` as it stands."""

    status: int
    message: str = "not now"
    headers: Mapping[str, str] = field(default_factory=dict)
    code: str | None = None
    body: str | None = None


@dataclass(frozen=True)
class Hang:
    """No answer until the server is stopped."""


@dataclass(frozen=True)
class Cut:
    """The connection ends in the middle of the answer: of its head, or of its body."""

    in_body: bool = True


Reply = Say | Status | Hang | Cut


@dataclass(frozen=True)
class Asked:
    """One request: its number from 0, what was sent, and how often these very messages were sent before."""

    number: int
    body: dict[str, Any]
    headers: Mapping[str, str]
    before: int

    @property
    def messages(self) -> list[dict[str, str]]:
        messages: list[dict[str, str]] = self.body["messages"]
        return messages

    @property
    def text(self) -> str:
        """All that was said so far, in one piece."""
        return "\n".join(message["content"] for message in self.messages)


def question(text: str) -> Say:
    """The answer that ``generate`` asks for."""
    return Say(json.dumps({"question": text}))


def grade(value: int, reason: str = "because") -> Say:
    """The answer that ``judge`` asks for."""
    return Say(json.dumps({"grade": value, "reason": reason}))


@dataclass
class ChatServer:
    """What the server does and has seen. Change ``answer`` at any time.

    Attributes:
        url: its ``base_url``.
        answer: says what comes back to a request.
        structured: whether it takes ``response_format``; where not, it answers 400 as vLLM and others do.
        asked: every request, in order of arrival, with the time (monotonic, seconds).
        paid: how many completions it has sent whole.
        kinds: how many replies of each kind, statuses by their number.
    """

    url: str
    answer: Callable[[Asked], Reply]
    structured: bool = True
    asked: list[tuple[float, Asked]] = field(default_factory=list)
    paid: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    released: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    seen: Counter[str] = field(default_factory=Counter)

    def reply(self, body: dict[str, Any], headers: Mapping[str, str]) -> Reply:
        with self.lock:
            if not self.structured and "response_format" in body:
                self.kinds["unstructured"] += 1
                return Status(400, "'response_format' of type 'json_schema' is not supported")
            messages = json.dumps(body["messages"])
            request = Asked(len(self.asked), body, headers, self.seen[messages])
            self.seen[messages] += 1
            self.asked.append((time.monotonic(), request))
        reply = self.answer(request)
        with self.lock:
            self.kinds[str(reply.status) if isinstance(reply, Status) else type(reply).__name__] += 1
        return reply


@contextmanager
def serve_chat(answer: Callable[[Asked], Reply], *, port: int = 0, structured: bool = True) -> Iterator[ChatServer]:
    """Starts a server, gives its state, and stops it; whoever still hangs is let go."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Small answers are sent at once instead of waiting 40 ms for more.
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path.rstrip("/") != "/v1/chat/completions":
                self._send(404, json.dumps({"error": {"message": "no such address"}}), {})
                return
            reply = server.reply(body, {name.lower(): value for name, value in self.headers.items()})
            if isinstance(reply, Hang):
                server.released.wait(60)
                self.close_connection = True
            elif isinstance(reply, Cut):
                self._cut(reply)
            elif isinstance(reply, Status):
                error = {"message": reply.message, "type": "error", "code": reply.code}
                self._send(reply.status, reply.body or json.dumps({"error": error}), reply.headers)
            else:
                time.sleep(reply.delay_s)
                with server.lock:
                    server.paid += 1  # counted before it is sent: whoever is killed meanwhile has paid all the same
                self._send(200, json.dumps(completion(reply, body["model"])), {})

        def _cut(self, reply: Cut) -> None:
            if reply.in_body:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b'{"id": "x", "choices": [')
                self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

        def _send(self, status: int, text: str, headers: Mapping[str, str]) -> None:
            data = text.encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that was killed is no fault of the server's."""

    http = Server(("127.0.0.1", port), Handler)
    server = ChatServer(url=f"http://127.0.0.1:{http.server_port}/v1", answer=answer, structured=structured)
    thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        http.shutdown()
        http.server_close()
        thread.join()


def completion(reply: Say, model: str) -> dict[str, Any]:
    """A completion as the API documents it."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.refusal is not None:
        message["refusal"] = reply.refusal
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
    if reply.logprobs is not None:
        choice["logprobs"] = {"content": reply.logprobs}
    body: dict[str, Any] = {"id": "c", "object": "chat.completion", "created": 0, "model": model, "choices": [choice]}
    if reply.usage is not None:
        prompt, written = reply.usage
        body["usage"] = {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}
    return body
