"""A knowledge base in PostgreSQL as the corpus: read, never written, a few rows at a time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import orjson
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from kbeval.config import CorpusSettings
from kbeval.corpus import postgres
from kbeval.corpus.providers import corpus_documents
from kbeval.errors import KbevalError
from kbeval.model import Document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Kbeval
    from kbeval.store import Store

ROWS = """
    CREATE TABLE {0}.articles (
        id int PRIMARY KEY, title text, text text, description text, "Odd ""name" text, updated timestamptz,
        price numeric, tags text[], extra jsonb, key uuid, body bytea
    );
    INSERT INTO {0}.articles VALUES
        (10, 'Payouts', 'Two days.', NULL, 'odd', NULL, NULL, NULL, NULL, NULL, NULL),
        (9, NULL, NULL, 'About refunds', 'even', '2026-01-02 03:04:05+00', 1.50, '{{a,b}}', '{{"n": 1}}',
            '00000000-0000-0000-0000-000000000001', '\\x00')
"""


@pytest.fixture
def schema(store: Store) -> Iterator[str]:
    """Two articles in a schema of their own, on the server that the tests share."""
    name = f"kb_{uuid4().hex}"
    with store.connect() as connection:
        connection.execute(f"CREATE SCHEMA {name}")  # type: ignore[call-overload]
        connection.execute(ROWS.format(name))  # type: ignore[call-overload]
        yield name
        connection.execute(f"DROP SCHEMA {name} CASCADE")  # type: ignore[call-overload]


def documents(store: Store, **settings: Any) -> list[Document]:
    given = CorpusSettings(provider="postgres", **{"dsn": store.dsn, **settings})
    return list(corpus_documents(given, Path()))


def refusal(store: Store, **settings: Any) -> str:
    with pytest.raises(KbevalError) as caught:
        documents(store, **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_table_by_the_names_of_its_columns(store: Store, schema: str) -> None:
    assert documents(store, table=f"{schema}.articles") == [
        Document("9", "", description="About refunds"),
        Document("10", "Two days.", title="Payouts"),
    ]


def test_columns_by_a_map_with_metadata_as_json_can_hold_it(store: Store, schema: str) -> None:
    columns = {"title": 'Odd "name', "domain": "description", "filename": "key"}
    others = {name: name for name in ("updated", "price", "tags", "extra")}
    even, odd = documents(store, table=f"{schema}.articles", columns={**columns, **others})
    assert odd == Document("10", "Two days.", title="odd")
    assert even == Document(
        "9",
        "",
        title="even",
        domain="About refunds",
        filename="00000000-0000-0000-0000-000000000001",
        metadata={"updated": even.metadata["updated"], "price": "1.50", "tags": ["a", "b"], "extra": {"n": 1}},
    )
    assert even.metadata["updated"].startswith("2026-01-02T")
    assert orjson.loads(orjson.dumps(even.metadata)) == even.metadata


def test_a_query_in_its_own_order(store: Store, schema: str) -> None:
    query = f"""
        WITH named AS (SELECT id AS number, title FROM {schema}.articles WHERE title LIKE 'Pay%' OR id < 10)
        SELECT 'kb-' || number AS slug, coalesce(title, '100% of it') AS text FROM named
        ORDER BY number DESC;  -- the newest first
    """.rsplit("--", 1)[0]
    assert documents(store, query=query, columns={"id": "slug"}) == [
        Document("kb-10", "Payouts"),
        Document("kb-9", "100% of it"),
    ]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("DELETE FROM {0}.articles RETURNING id, text", "one statement that begins with SELECT"),
        ("WITH gone AS (DELETE FROM {0}.articles RETURNING *) SELECT * FROM gone", "must not contain data-modifying"),
        ("SELECT id, {0}.writes() AS text FROM {0}.articles", "cannot execute INSERT in a read-only transaction (a"),
        ("SELECT 1 AS id, 'x' AS text; DROP TABLE {0}.articles", "cannot insert multiple commands"),
        ("SELECT 1 AS id, 'x' AS text; COMMIT; DROP TABLE {0}.articles", "cannot insert multiple commands"),
        (
            "SELECT set_config('transaction_read_only', 'off', false) AS id, {0}.writes() AS text",
            "must be set before",
        ),
        ("SELECT id, text FROM {0}.articles FOR UPDATE", "read-only transaction"),
    ],
)
def test_a_query_that_would_write_is_refused(store: Store, schema: str, query: str, message: str) -> None:
    with store.connect() as connection:
        connection.execute(
            f"CREATE FUNCTION {schema}.writes() RETURNS text LANGUAGE sql AS "  # type: ignore[call-overload]
            f"$$INSERT INTO {schema}.articles (id) VALUES (1) RETURNING 'done'$$"
        )
    assert message in refusal(store, query=query.format(schema))
    assert len(documents(store, table=f"{schema}.articles")) == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"table": "{0}.nothing"}, '[corpus] table {0}.nothing: cannot be read: relation "{0}.nothing" does not exist'),
        ({"table": '{0}.articles; DROP TABLE "x"'}, "does not exist"),
        (
            {"query": "SELECT 1 AS id, 'x' AS txet"},
            "[corpus] query: expected a column 'text' for text, found none of that name in id, txet",
        ),
        ({"query": "SELECT 1 AS id, 'x' AS text, 2 AS id"}, "expected a column 'id' for id, found 2 of that name in"),
        (
            {"table": "{0}.articles", "columns": {"titel": "titel"}},
            "expected a column 'titel' for titel, found none of that name in id, title, text",
        ),
        (
            {"query": "VALUES (1, 'x'), (NULL, 'y')", "columns": {"id": "column1", "text": "column2"}},
            "[corpus] query, row 2: expected an id in the column 'column1', found NULL",
        ),
        ({"query": "SELECT ' ' AS id, 'x' AS text"}, "row 1: expected an id in the column 'id', found ' '"),
        (
            {"table": "{0}.articles", "columns": {"text": "body"}},
            "row 1: expected text in the column 'body' for text, found bytes",
        ),
        (
            {"query": "SELECT 1 AS id, 'x' AS text UNION ALL SELECT 1, 'y'"},
            "[corpus] query: expected each document id once, found '1' twice",
        ),
        ({"query": "SELECT 1 AS id, 'x' AS text LIMIT 0"}, "[corpus] query: expected at least one document, found an"),
        ({"query": "SELECT 1/0 AS id, 'x' AS text"}, "[corpus] query: cannot be read: division by zero"),
        ({"query": "SELECT id, text FROM"}, "syntax error at end of input"),
        (
            {"query": "SELECT 1 AS id, pg_sleep(60)::text AS text", "timeout_s": 0.1},
            "canceling statement due to statement timeout (timeout_s in [corpus] sets it)",
        ),
    ],
)
def test_what_cannot_be_read_is_one_line(store: Store, schema: str, settings: dict[str, Any], message: str) -> None:
    filled = {key: value.format(schema) if isinstance(value, str) else value for key, value in settings.items()}
    assert message.format(schema) in refusal(store, **filled)


def test_the_password_is_in_no_error(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "s3cret/of:the kb"
    parameters = {**conninfo_to_dict(store.dsn), "password": secret}
    dsn = make_conninfo("", **{**parameters, "user": "nobody_of_that_name"})
    monkeypatch.setenv("MY_KB", dsn)
    said = refusal(store, dsn=None, dsn_env="MY_KB", table="t")
    assert "cannot connect to Postgres" in said
    assert secret not in said
    monkeypatch.setenv("KBEVAL_CORPUS_DSN", make_conninfo("", **parameters))
    said = refusal(store, dsn=None, query=f"SELECT 'x{secret}'::int AS id, 'x' AS text")
    assert 'invalid input syntax for type integer: "x***"' in said
    assert secret not in repr(CorpusSettings(dsn=dsn))


def test_a_server_that_goes_away_is_one_line(store: Store) -> None:
    query = "SELECT n AS id, repeat('x', 1000) AS text FROM generate_series(1, 100000) n"
    rows = corpus_documents(CorpusSettings(provider="postgres", dsn=store.dsn, query=query), Path())
    assert next(rows).id == "1"
    with store.connect() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%kbeval_corpus%' "
            "AND pid <> pg_backend_pid()"
        )
    with pytest.raises(KbevalError, match=r"^\[corpus\] query: cannot be read: .*terminat") as caught:
        list(rows)
    assert "\n" not in str(caught.value)


def test_rows_come_a_few_hundred_at_a_time(store: Store) -> None:
    query = "SELECT n AS id, 1 / (1500 - n) AS text FROM generate_series(1, 1000000) n"
    rows = postgres.DevKbCorpusProvider(store.dsn, query=query).get_documents()
    # The 1,500th row divides by zero: were everything fetched at once, not even the first would come.
    assert [next(rows).id for _ in range(1000)] == [str(number) for number in range(1, 1001)]
    with pytest.raises(KbevalError, match="division by zero"):
        list(rows)


def test_export_of_a_knowledge_base(tiny: Kbeval, store: Store) -> None:
    tiny.environment["KBEVAL_CORPUS_DSN"] = store.dsn
    query = "SELECT id, 'Text of ' || id AS text FROM (VALUES ('refunds'), ('payouts'), ('printer'), ('sign-in')) r(id)"
    settings = f'[corpus]\nprovider = "postgres"\nquery = """{query}"""\n'
    (tiny.folder / "kbeval.toml").write_text(settings)
    result = tiny("export", "--out", "out")
    assert (result.code, result.out.splitlines()[0]) == (0, "4 documents, 4 questions, 4 judgments")
    lines = (tiny.folder / "out" / "corpus.jsonl").read_bytes().splitlines()
    assert [orjson.loads(line)["text"] for line in lines] == [
        "Text of refunds", "Text of payouts", "Text of printer", "Text of sign-in"
    ]  # fmt: skip
    # What is refused after the last document leaves everything as it was, and no file half-written.
    before = sorted(tiny.folder.rglob("*"))
    (tiny.folder / "kbeval.toml").write_text(settings.replace(", ('sign-in')", ""))
    assert "found no 'sign-in'" in tiny.refused("export", "--out", "new/er")
    assert sorted(tiny.folder.rglob("*")) == before
    assert (tiny.folder / "out" / "corpus.jsonl").read_bytes().splitlines() == lines
