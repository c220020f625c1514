"""Serves the page on the loopback interface until it is told to end."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import logging
import secrets
import signal
import socket
import time
from typing import TYPE_CHECKING

from kbeval.errors import KbevalError
from kbeval.testset.review.queues import ALL

if TYPE_CHECKING:
    from collections.abc import Callable

    import uvicorn

    from kbeval.testset.review.passages import Passages
    from kbeval.testset.review.session import Session

HOST = "127.0.0.1"
IDLE_SECONDS = 20.0
"""How long nobody has typed before the journal is folded in."""
TOKEN_BYTES = 18
MOST_NAME = 80


def require_packages() -> None:
    """Complains in one line where the packages of the page are not installed.

    Raises:
        KbevalError: one is absent; the message has the command that installs it.
    """
    for package in ("starlette", "jinja2", "uvicorn"):
        try:
            __import__(package)
        except ImportError:
            raise KbevalError(
                f"review: expected the package {package}, found none; install it: pip install 'kbeval[review]'"
            ) from None


def reviewer_name(asked: str | None) -> str:
    """Whose grades they are: the name given, else that of the account.

    Raises:
        KbevalError: it is empty, or holds what cannot be shown on a line.
    """
    try:
        name = (getpass.getuser() if asked is None else asked).strip()
    except (OSError, KeyError):  # an account without a name
        raise KbevalError("--reviewer: expected a name, as this account has none") from None
    if not name or not name.isprintable() or len(name) > MOST_NAME:
        raise KbevalError(f"--reviewer: expected a name of at most {MOST_NAME} characters on one line, found {name!r}")
    return name


def listen(port: int) -> socket.socket:
    """A socket on the loopback interface; 0 takes any free port.

    Raises:
        KbevalError: the port is taken.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
    except OSError as error:
        listening.close()
        words = (error.strerror or str(error)).lower()
        raise KbevalError(f"--port {port}: expected a free port, found {words}; without --port one is chosen") from None
    return listening


def serve(
    session: Session, passages: Passages, listening: socket.socket, *, first: str, ready: Callable[[str], None]
) -> None:
    """Serves until SIGINT, SIGTERM or SIGHUP; what was answered is in ``labels.jsonl`` when it returns.

    Args:
        session, passages: what is served.
        listening: see ``listen``.
        first: the queue to begin with; ``all`` shows all of them.
        ready: called with the address once it answers.
    """
    asyncio.run(_serve(session, passages, listening, first, ready))


async def _serve(
    session: Session, passages: Passages, listening: socket.socket, first: str, ready: Callable[[str], None]
) -> None:
    import uvicorn

    from kbeval.testset.review.app import Reviewing, make_app

    token, port = secrets.token_urlsafe(TOKEN_BYTES), listening.getsockname()[1]
    last = [time.monotonic()]
    waiting = [False]

    def touched() -> None:
        last[0], waiting[0] = time.monotonic(), True

    app = make_app(Reviewing(session, passages, token, port, touched=touched))
    # The address is a key: no access log writes it down. One page needs no proxy and no websocket.
    config = uvicorn.Config(
        app,
        access_log=False,
        log_level=logging.WARNING,
        ws="none",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=2,
        lifespan="off",
    )
    server = _without_handlers(uvicorn.Server(config))

    def end() -> None:
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # As nohup has it: what is ignored stays ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, end)

    async def fold_when_idle() -> None:
        while True:
            await asyncio.sleep(1.0)
            if waiting[0] and time.monotonic() - last[0] >= IDLE_SECONDS:
                waiting[0] = False
                # A file that cannot be folded now (git's conflict in it) is told at the end; the journal keeps all.
                with contextlib.suppress(KbevalError):
                    await asyncio.to_thread(session.fold)

    async def announce() -> None:
        while not server.started:
            await asyncio.sleep(0.01)
        ready(f"http://{HOST}:{port}/{token}/" + ("" if first == ALL else f"review/{first}"))

    beside = [asyncio.create_task(fold_when_idle()), asyncio.create_task(announce())]
    try:
        await server.serve(sockets=[listening])
    finally:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        session.fold()


def _without_handlers(server: uvicorn.Server) -> uvicorn.Server:
    """The server without its signal handlers, which raise a signal again before the labels are folded in."""
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]
    return server
