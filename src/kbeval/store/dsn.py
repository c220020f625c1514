"""Connection strings: read with care for the password, and written back without it.

https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

from kbeval.errors import KbevalError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg import Connection

CONNECT_TIMEOUT_SECONDS = 10

SECRETS = ("password", "sslpassword", "oauth_client_secret")
_ADVICE = (
    "postgresql://USER@HOST:PORT/DATABASE or 'host=HOST dbname=DATABASE user=USER'; in a URI, a password "
    "with any of : / ? # @ % is percent-encoded"
)


def parse_dsn(dsn: str) -> dict[str, Any]:
    """Splits a URI or key=value connection string into its parameters.

    Raises:
        KbevalError: it is none. The message never quotes it: libpq's own would, password and all.
    """
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    if not dsn.strip():
        raise KbevalError(f"the DSN is empty: expected {_ADVICE}")
    try:
        parameters = conninfo_to_dict(dsn)
    except (ProgrammingError, UnicodeError):
        raise KbevalError(f"the DSN cannot be read: expected {_ADVICE}") from None
    # "user:pa/ss@host" and "user:pa@ss@host" are read, wrongly: what is left of the password becomes part of
    # the host, the port or the database, and errors about those would show it.
    host, port, database = (str(parameters.get(key) or "") for key in ("host", "port", "dbname"))
    in_uri = "://" in dsn
    if "@" in host[1:] or not re.fullmatch(r"[\d,\s]*", port) or (in_uri and "@" in database):
        raise KbevalError(f"the host, port or database in the DSN cannot be right: expected {_ADVICE}")
    return parameters


def to_string(parameters: Mapping[str, Any]) -> str:
    """The connection string, as key=value pairs. It may hold a password: never to be printed."""
    from psycopg.conninfo import make_conninfo

    return make_conninfo("", **parameters)


def without_secrets(parameters: Mapping[str, Any]) -> str:
    """The connection string, as key=value pairs, with nothing secret in it."""
    return to_string({key: value for key, value in parameters.items() if key not in SECRETS})


def redact(message: str, parameters: Mapping[str, Any]) -> str:
    """``message`` in one line, with each secret of ``parameters``, also percent-encoded, as ``***``."""
    for key in SECRETS:
        secret = str(parameters.get(key) or "")
        spellings = {secret, quote(secret, safe=""), quote(secret), quote_plus(secret)} - {""}
        for spelling in sorted(spellings, key=len, reverse=True):
            message = message.replace(spelling, "***")
    return " ".join(message.split())


def search_path_options(schemas: list[str], given: str = "") -> str:
    """The ``options`` parameter that sets the search path, after whatever options were ``given``.

    Blanks and backslashes are escaped as libpq asks; the names are quoted as identifiers.
    """
    path = ",".join('"' + schema.replace('"', '""') + '"' for schema in schemas)
    escaped = re.sub(r"([\\\s])", r"\\\1", path)
    return f"{given} -c search_path={escaped}".strip()


def with_patience(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters, with ``CONNECT_TIMEOUT_SECONDS`` unless they or ``PGCONNECT_TIMEOUT`` say otherwise."""
    patience = {} if os.environ.get("PGCONNECT_TIMEOUT") else {"connect_timeout": CONNECT_TIMEOUT_SECONDS}
    return {**patience, **parameters}


def connect(parameters: Mapping[str, Any]) -> Connection[Any]:
    """Opens a connection in autocommit mode.

    Raises:
        KbevalError: it could not be opened; in one line, without the password.
    """
    import psycopg

    try:
        return psycopg.connect(to_string(parameters), autocommit=True)
    except psycopg.Error as error:
        raise KbevalError(f"cannot connect to Postgres: {redact(str(error), parameters)}") from None
