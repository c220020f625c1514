"""Puts the commands together, and turns what goes wrong into one line and an exit code."""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from typing import Annotated

import typer

from kbeval._version import __version__
from kbeval.cli import (
    agreement,
    check,
    compare,
    doctor,
    evaluate,
    export,
    generate,
    history,
    import_,
    init,
    judge,
    review,
    run,
    sweep,
    twins,
)
from kbeval.errors import KbevalError
from kbeval.signals import interruptible

EXIT_BROKEN = 2
EXIT_INTERRUPTED = 130
EXIT_AFTER_S = 3.0

app = typer.Typer(
    name="kbeval",
    help="Measures the retrieval quality of a knowledge base: which engine finds the right document, how high, "
    "how fast, and whether the difference between two engines is real.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("init")(init.init)
app.command("generate")(generate.generate)
app.command("import")(import_.import_questions)
app.command("twins")(twins.twins)
app.command("judge")(judge.judge)
app.command("review")(review.review)
app.command("agreement")(agreement.agreement)
app.command("export")(export.export)
app.command("run")(run.run)
app.command("compare")(compare.compare)
app.command("check")(check.check)
app.command("evaluate")(evaluate.evaluate)
app.command("sweep")(sweep.sweep)
app.add_typer(history.app, name="history")
app.command("trend")(history.trend)
app.command("doctor")(doctor.doctor)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"kbeval {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs the program and exits with its code."""
    _standard_streams()
    _numba_cache()
    _frugal_memory()
    with interruptible():
        code = _run()
    _end_soon(code)
    sys.exit(code)


def _end_soon(code: int) -> None:
    """Sees to it that the process ends although an engine's call that was given up, or a thread of its, still runs.

    Python waits for threads, and a call may have started some that hang as well.
    """
    threads = sys.modules.get("kbeval.running.threads")
    left = [each for each in threading.enumerate() if not each.daemon and each is not threading.main_thread()]
    if not left and (threads is None or not threads.hanging()):
        return

    def end() -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)

    timer = threading.Timer(EXIT_AFTER_S, end)
    timer.daemon = True
    timer.start()


def _standard_streams() -> None:
    # A closed stream is None, and an encoding may lack a character of the answer: neither may end the work.
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _frugal_memory() -> None:
    # Polars' allocator (jemalloc) holds on to what is freed. Given back within a tenth of a second, the peak of reading
    # large runs is a tenth lower, at 3% of the time; given back at once it is a fifth, at 15%. Read by polars' import.
    os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:100,muzzy_decay_ms:0")


def _numba_cache() -> None:
    # numba refuses to import code that is to be cached where it finds no place to do so: an ordinary user without a
    # home, over packages that root installed. Such a process gets a place of its own for as long as it lasts.
    if "NUMBA_CACHE_DIR" in os.environ:
        return
    place = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    while not place.exists() and place != place.parent:
        place = place.parent
    if not os.access(place, os.W_OK):
        folder = tempfile.mkdtemp(prefix="kbeval-numba-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ["NUMBA_CACHE_DIR"] = folder


def _run() -> int:
    try:
        # Outside typer's own mode an interruption is not mistaken for exit code 1, which means something else.
        code = app(standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        _complain("interrupted")
        return EXIT_INTERRUPTED
    except KbevalError as error:
        _complain(_scrubbed(str(error)))
        return error.exit_code
    except BrokenPipeError:
        # Whoever read standard output went away; Python would complain again while closing it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _complain(_scrubbed(f"{where}{error.strerror or error}"))
        return EXIT_BROKEN
    except Exception as error:
        if callable(words := getattr(error, "format_message", None)):  # a usage error, of click or typer's copy of it
            _complain(" ".join(words().split()))
            return EXIT_BROKEN
        if os.environ.get("KBEVAL_DEBUG"):
            raise
        from kbeval.secrets import one_line

        _complain(f"unexpected {one_line(error)} (set KBEVAL_DEBUG=1 to see where)")
        return EXIT_BROKEN
    return int(code or 0)


def _scrubbed(message: str) -> str:
    from kbeval.secrets import scrub

    return scrub(" ".join(message.split()))


def _complain(message: str) -> None:
    from kbeval.terminal import printable

    print(f"kbeval: error: {printable(message)}", file=sys.stderr)
