"""kbeval measures the retrieval quality of a knowledge base."""

from kbeval._version import __version__

__all__ = ["__version__"]
