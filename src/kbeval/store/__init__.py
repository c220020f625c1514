"""The evaluation database: a PostgreSQL with pgvector that lasts as long as the work.

It is dropped when the work ends, however it ends; what a killed process leaves is swept by the next
``open_store``.
"""

from kbeval.store.store import DSN_VARIABLE, Store, open_store

__all__ = ["DSN_VARIABLE", "Store", "open_store"]
