"""``python -m kbeval`` is the same program as ``kbeval``."""

from kbeval.cli import main

main()
