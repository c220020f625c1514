"""What was measured when: a store of evaluated runs, for trends and as a baseline."""

from kbeval.history.entry import Entry, entry_of
from kbeval.history.revision import Revision, revision_of
from kbeval.history.store import VERSION, open_history

__all__ = ["VERSION", "Entry", "Revision", "entry_of", "open_history", "revision_of"]
