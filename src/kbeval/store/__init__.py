"""The evaluation database: a PostgreSQL with pgvector that lasts as long as the work.

It is dropped when the work ends, however it ends; what a killed process leaves is swept by the next
``open_store``.
"""

import logging

from kbeval.store.store import DSN_VARIABLE, Attachment, Store, attached_store, open_store

# A connection that a signal interrupts in a query warns of its rollback; with no handler, Python prints that.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

__all__ = ["DSN_VARIABLE", "Attachment", "Store", "attached_store", "open_store"]
