"""Who may talk to the page: this machine's browser, with the address that was printed."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
MOST_BYTES = 1 << 20
"""The longest request that is read: a note is the longest thing there is."""

HEADERS = {
    # No inline script, no style attribute, nothing from elsewhere, and no page may frame this one.
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    # The address is a key, so no other site hears it; with no-referrer a form would not say where it comes from.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}


class Guard:
    """Wraps the app, and answers 403 to whoever should not be here.

    - The address holds a random token: other users of the machine and pages of other sites do not know it.
    - The Host header must name this server on the loopback interface: a foreign name that was made to point here (DNS
      rebinding) is refused.
    - What writes must come from this page: a browser says where a form comes from.
    """

    def __init__(self, app: ASGIApp, *, token: str, port: int) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = {f"{name}:{port}" for name in LOOPBACK} | ({*LOOPBACK} if port == 80 else set())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        status = self._refusal(scope)
        if status:
            await _plain(send, *status)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", ()), *own]}
            await send(message)

        await self._app(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if host not in self._hosts:
            return 403, "This page answers on this machine alone."
        first = scope["path"].split("/", 2)[1] if scope["path"].startswith("/") else ""
        if not secrets.compare_digest(first.encode("utf-8", "surrogateescape"), self._token):
            return 403, "The address lacks its key: open the one that `kbeval review` printed."
        if scope["method"] not in ("GET", "HEAD"):
            origin = headers.get(b"origin", b"").decode("latin-1").lower()
            if origin and origin != f"http://{host}":
                return 403, "This form comes from another page."
            length = headers.get(b"content-length", b"0")
            if not length.isdigit() or int(length) > MOST_BYTES or b"transfer-encoding" in headers:
                return 413, "That is too long."
        return None


async def _plain(send: Send, status: int, words: str) -> None:
    headers = {"content-type": "text/plain; charset=utf-8", **HEADERS}
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": words.encode() + b"\n"})
