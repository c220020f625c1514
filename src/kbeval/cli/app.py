"""Puts the commands together, and turns what goes wrong into one line and an exit code."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from kbeval._version import __version__
from kbeval.cli import compare, doctor, evaluate, export, init, run
from kbeval.errors import KbevalError
from kbeval.signals import interruptible

EXIT_BROKEN = 2
EXIT_INTERRUPTED = 130

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
app.command("export")(export.export)
app.command("run")(run.run)
app.command("compare")(compare.compare)
app.command("evaluate")(evaluate.evaluate)
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
    with interruptible():
        code = _run()
    sys.exit(code)


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
    except Exception as error:
        if callable(show := getattr(error, "show", None)):  # a usage error, of click or of typer's copy of it
            show()
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
    print(f"kbeval: error: {message}", file=sys.stderr)
