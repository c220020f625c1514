"""Connection strings, and that no password gets out of them."""

from __future__ import annotations

import pytest

from kbeval.errors import KbevalError
from kbeval.store.dsn import parse_dsn, redact, search_path_options, to_string, with_patience, without_secrets


@pytest.mark.parametrize(
    ("dsn", "host", "password"),
    [
        ("postgresql://ann:s3cret@db.example/kb", "db.example", "s3cret"),
        ("postgres://ann:s3%2Fcr%40et@db.example:5433/kb", "db.example", "s3/cr@et"),
        ("postgresql://ann@db.example/kb?password=s3cret&sslmode=require", "db.example", "s3cret"),
        ("host=db.example user=ann password='s3 cret' dbname=kb", "db.example", "s3 cret"),
        ("postgresql://ann:s3cret@/kb?host=/run/postgresql", "/run/postgresql", "s3cret"),
        ("postgresql://ann:s3cret@one:5432,two:5433/kb", "one,two", "s3cret"),
    ],
)
def test_every_form_is_read_and_written_back_without_its_password(dsn: str, host: str, password: str) -> None:
    parameters = parse_dsn(dsn)
    assert (parameters["host"], parameters["password"]) == (host, password)
    written = without_secrets(parameters)
    assert "cret" not in written
    assert "password" not in written
    assert parse_dsn(written) == {key: value for key, value in parameters.items() if key != "password"}
    assert parse_dsn(to_string(parameters)) == parameters


def test_the_key_of_a_certificate_and_a_client_are_secrets_too() -> None:
    written = without_secrets(parse_dsn("host=h sslpassword=s3cret oauth_client_secret=s3cret dbname=kb"))
    assert "s3cret" not in written
    assert "dbname=kb" in written


@pytest.mark.parametrize(
    "dsn",
    [
        "",
        "   ",
        "s3cret",
        "mysql://ann:s3cret@db.example/kb",
        "postgresql+psycopg://ann:s3cret@db.example/kb",
        "host=db.example password=two s3cret",
        "host=db.example pasword=s3cret",
        "postgresql://ann:100%s3cret@db.example/kb",
        # Read by libpq, wrongly: parts of the password become the host, the port, the database.
        "postgresql://ann:x@s3cret@db.example/kb",
        "postgresql://ann:s3cret/x@db.example/kb",
        "postgresql://ann:12/s3cret@db.example/kb",
    ],
)
def test_a_bad_dsn_is_refused_in_one_line_that_does_not_quote_it(dsn: str) -> None:
    with pytest.raises(KbevalError) as caught:
        parse_dsn(dsn)
    message = str(caught.value)
    assert "s3cret" not in message
    assert "\n" not in message
    assert "postgresql://USER@HOST" in message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("spelling", ["pa ss/w@rd", "pa%20ss%2Fw%40rd", "pa%20ss/w%40rd", "pa+ss%2Fw%40rd"])
def test_redaction_finds_a_password_in_each_spelling(spelling: str) -> None:
    assert redact(f"cannot use {spelling}\n\tat all", {"password": "pa ss/w@rd"}) == "cannot use *** at all"


def test_a_connection_attempt_ends_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGCONNECT_TIMEOUT", raising=False)
    assert with_patience({"host": "h"}) == {"host": "h", "connect_timeout": 10}
    assert with_patience({"host": "h", "connect_timeout": "3"})["connect_timeout"] == "3"
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "4")
    assert with_patience({"host": "h"}) == {"host": "h"}


def test_a_search_path_survives_libpq_and_sql_quoting() -> None:
    assert search_path_options(["kbeval", "public"]) == '-c search_path="kbeval","public"'
    assert search_path_options(['a b"c'], "-c work_mem=8MB") == r'-c work_mem=8MB -c search_path="a\ b""c"'
