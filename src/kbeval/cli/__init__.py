"""The command line. Each command's file parses, calls and prints; what it calls lives elsewhere."""

from kbeval.cli.app import main

__all__ = ["main"]
