"""Test sets of other tools, and logs: each as rows of the same shape, with nothing decided about them yet.

LlamaIndex's ``EmbeddingQAFinetuneDataset`` (``save_json``), Ragas's test sets (``to_csv``, ``to_jsonl``, Parquet; also
those of before 0.2), AutoRAG's ``qa.parquet`` with its ``corpus.parquet``, BEIR folders, and tables of logs.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import orjson

from kbeval.errors import InputError, KbevalError
from kbeval.formats.tables import Row, read_json, read_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

Kind = Literal["logs", "llama-index", "ragas", "autorag", "beir"]
KINDS: tuple[Kind, ...] = get_args(Kind)

# What a log's columns are commonly called, by what they hold; the first that is there is taken.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "query": ("query", "question", "query_text", "user_query", "user_input", "search_term", "search_query", "text",
              "message", "prompt", "utterance", "q"),
    "id": ("query_id", "question_id", "qid", "request_id", "id", "_id"),
    "hash": ("query_hash", "question_hash", "text_hash", "query_sha256", "hash"),
    "relevant": ("relevant", "relevant_ids", "relevant_documents", "relevant_document_ids", "relevant_docs",
                 "relevant_chunk_ids", "gold", "gold_ids", "gold_documents", "labels", "qrels"),
    "returned": ("returned", "returned_ids", "document_ids", "doc_ids", "documents", "results", "retrieved",
                 "retrieved_ids", "ranked"),
    "scores": ("scores", "score", "retrieval_scores", "similarities"),
    "domain": ("domain", "category", "topic", "product", "department"),
    "when": ("timestamp", "asked_at", "created_at", "time", "datetime", "date", "ts"),
}  # fmt: skip

_HOP = re.compile(r"^\s*<\d+-hop>\s*")


@dataclass(frozen=True)
class Record:
    """One row of a log or a test set.

    Attributes:
        line: where it is in its file.
        text: the question; None where the row has only a hash of it.
        id: as the file has it, if it does.
        key: the hash of the question's text, as the log has it.
        relevant: what answers it, by id of document or chunk, with grades; None where the file says nothing.
        contexts: what answers it, by text.
        returned, scores: what an engine answered in production, which labels nothing.
        kept: what else goes into the provenance.
    """

    line: int
    text: str | None
    id: str | None = None
    key: str | None = None
    relevant: Mapping[str, int] | None = None
    contexts: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    domain: str | None = None
    style: str | None = None
    source: str | None = None
    when: str | None = None
    kept: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Foreign:
    """What a file holds.

    Attributes:
        kind: what sort of file it is.
        records: its rows.
        texts: texts of the documents or chunks that the rows name, by id, where the file brings them.
        columns: which column was read as what.
        ignored: the columns of a table that nothing was read from.
        odd: why rows were left out, with how many; they are not among the records.
    """

    kind: Kind
    records: list[Record]
    texts: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    odd: Mapping[str, int] = field(default_factory=dict)


def read_foreign(path: Path, kind: str | None = None, *, columns: Mapping[str, str] | None = None) -> Foreign:
    """Reads a log or another tool's test set.

    Args:
        path: a file; of AutoRAG and BEIR also the folder.
        kind: one of ``KINDS``; told by its content otherwise.
        columns: which column holds what (the keys of ``COLUMNS``), where names do not say so.

    Raises:
        InputError: it is not of that kind, or a row cannot be read.
        KbevalError: a column is named that it has not.
    """
    if kind is not None and kind not in KINDS:
        raise KbevalError(f"expected one of {', '.join(KINDS)}, found {kind!r}")
    if path.is_dir():
        found = _folder_kind(path)
        if kind not in (None, found):
            raise InputError(path, expected=f"a file or folder of {kind}", found=f"a folder of {found}")
        return _beir(path) if found == "beir" else _autorag(path / "qa.parquet", read_table(path / "qa.parquet"))
    whole = read_json(path) if kind in (None, "llama-index") else None
    if isinstance(whole, dict) and {"queries", "corpus", "relevant_docs"} <= whole.keys():
        return _llama_index(path, whole)
    if kind == "llama-index":
        raise InputError(path, expected="a JSON object with queries, corpus and relevant_docs", found="another shape")
    if kind == "beir":
        return _beir(path.parent)
    rows = read_table(path)
    names = set(_names(rows))
    kind = kind or _table_kind(path, names)
    if kind == "beir":
        return _beir(path.parent)
    if kind == "ragas":
        return _ragas(path, rows)
    if kind == "autorag":
        return _autorag(path, rows)
    return _logs(path, rows, columns or {})


def read_texts(path: Path, columns: Mapping[str, str] | None = None) -> dict[str, str]:
    """A table of questions' texts by the hash that logs know them by.

    Raises:
        InputError: it has no such two columns.
    """
    rows = read_table(path)
    chosen = _columns(path, rows, columns or {}, ("hash", "query", "id"))
    key = chosen.get("hash") or chosen.get("id")
    if key is None or "query" not in chosen:
        raise InputError(
            path, expected="a column with the hash and one with the text (--columns hash=...,query=...)",
            found=f"the columns {_some(_names(rows))}",
        )  # fmt: skip
    return {
        str(row.values[key]): text
        for row in rows
        if row.values.get(key) is not None and isinstance(text := row.values.get(chosen["query"]), str)
    }


def _folder_kind(path: Path) -> Kind:
    if (path / "qa.parquet").exists():
        return "autorag"
    if any((path / inner / f"queries.jsonl{end}").exists() for inner in ("", "corpus") for end in ("", ".gz")):
        return "beir"
    raise InputError(path, expected="a folder with queries.jsonl (BEIR) or qa.parquet (AutoRAG)", found="neither")


def _table_kind(path: Path, names: set[str]) -> Kind:
    if {"user_input", "reference_contexts"} <= names or {"question", "contexts", "ground_truth"} <= names:
        return "ragas"
    if {"qid", "query", "retrieval_gt"} <= names:
        return "autorag"
    return "beir" if {"_id", "text"} <= names and (path.parent / "qrels").is_dir() else "logs"


def _llama_index(path: Path, whole: Mapping[str, Any]) -> Foreign:
    queries, corpus, relevant = (whole[key] for key in ("queries", "corpus", "relevant_docs"))
    if not all(isinstance(part, dict) for part in (queries, corpus, relevant)):
        raise InputError(path, expected="queries, corpus and relevant_docs to be objects", found="other values")
    odd: Counter[str] = Counter()
    records = [
        Record(
            line=number,
            id=str(key),
            text=text,
            relevant=dict.fromkeys(_ids(relevant.get(key)), 1),
            kept={"tool": "llama-index"},
        )
        for number, (key, text) in enumerate(queries.items(), start=1)
        if _is_question(text, odd)
    ]
    return Foreign("llama-index", records, texts={str(key): str(text) for key, text in corpus.items()}, odd=odd)


def _ragas(path: Path, rows: Sequence[Row]) -> Foreign:
    new = not {"question", "contexts"} <= set(_names(rows))
    question, contexts = ("user_input", "reference_contexts") if new else ("question", "contexts")
    _needs(path, rows, (question, contexts))
    answered = "reference" if new else "ground_truth"
    more = ("synthesizer_name", "persona_name", "query_style", "query_length", "evolution_type")
    records = []
    odd: Counter[str] = Counter()
    for row in rows:
        asked = row.values.get(question)
        if isinstance(asked, list) and new:  # several turns of a conversation: there is no one question
            odd["conversations of several turns"] += 1
            continue
        if not _is_question(asked, odd):
            continue
        answer = row.values.get(answered)
        kept = {key: row.values.get(key) for key in more}
        records.append(
            Record(
                line=row.line,
                text=asked,
                id=_text(row.values.get("id")),
                contexts=tuple(_HOP.sub("", text) for text in _list(row.values.get(contexts))),
                kept={
                    "tool": "ragas",
                    **{key: str(value) for key, value in kept.items() if value},
                    **({"reference": str(answer)} if answer else {}),
                },
            )
        )
    return Foreign("ragas", records, ignored=_ignored(rows, (question, contexts, answered, "id", *more)), odd=odd)


def _autorag(path: Path, rows: Sequence[Row]) -> Foreign:
    _needs(path, rows, ("qid", "query", "retrieval_gt"))
    records = []
    odd: Counter[str] = Counter()
    for row in rows:
        if not _is_question(row.values.get("query"), odd):
            continue
        groups = _groups(row.values.get("retrieval_gt"))
        answers = _list(row.values.get("generation_gt"))
        records.append(
            Record(
                line=row.line,
                id=_text(row.values.get("qid")),
                text=row.values.get("query"),
                relevant={one: 1 for group in groups for one in group},
                kept={
                    "tool": "autorag",
                    **({"retrieval_gt": groups} if len(groups) > 1 else {}),
                    **({"reference": answers[0]} if answers else {}),
                },
            )
        )
    beside = path.with_name("corpus.parquet")
    texts: dict[str, str] = {}
    if beside.exists():
        corpus = read_table(beside)
        _needs(beside, corpus, ("doc_id", "contents"))
        texts = {str(row.values.get("doc_id")): str(row.values.get("contents")) for row in corpus}
    ignored = _ignored(rows, ("qid", "query", "retrieval_gt", "generation_gt"))
    return Foreign("autorag", records, texts=texts, ignored=ignored, odd=odd)


def _groups(value: Any) -> list[list[str]]:
    """A list of lists as it is, a list as one group, one id as a group of its own."""
    parts = value if isinstance(value, list) else _list(value)
    if any(isinstance(part, list) for part in parts):
        groups = [[str(one) for one in part] if isinstance(part, list) else [str(part)] for part in parts]
    else:
        groups = [[str(part) for part in parts if part is not None]]
    return [group for group in groups if group]


def _beir(folder: Path) -> Foreign:
    from kbeval.formats.dataset import load_dataset

    dataset = load_dataset(folder)
    records = [
        Record(
            line=number,
            id=query.id,
            text=query.text,
            relevant=dict(query.relevant),
            domain=query.domain,
            style=query.style,
            source=query.source,
            kept={**(query.provenance or {}), "dataset": dataset.name},
        )
        for number, query in enumerate(dataset.queries, start=1)
    ]
    return Foreign("beir", records, texts={each.id: each.text for each in dataset.documents})


def _logs(path: Path, rows: Sequence[Row], asked: Mapping[str, str]) -> Foreign:
    chosen = _columns(path, rows, asked, tuple(COLUMNS))
    if "query" not in chosen and "hash" not in chosen:
        raise InputError(
            path, expected="a column with the question (--columns query=NAME) or with its hash (hash=NAME)",
            found=f"the columns {_some(_names(rows))}",
        )  # fmt: skip

    def value(row: Row, what: str) -> Any:
        return row.values.get(chosen[what]) if what in chosen else None

    records = []
    odd: Counter[str] = Counter()
    for row in rows:
        if not _is_question(value(row, "query"), odd):
            continue
        gold = value(row, "relevant")
        domain, when, identifier, key = (value(row, what) for what in ("domain", "when", "id", "hash"))
        records.append(
            Record(
                line=row.line,
                text=value(row, "query"),
                id=str(identifier) if identifier not in (None, "") else None,
                key=str(key) if key not in (None, "") else None,
                relevant=_graded(path, row.line, gold) if gold not in (None, "", []) else None,
                returned=tuple(_ids(value(row, "returned"))),
                scores=_numbers(path, row.line, value(row, "scores")),
                domain=str(domain).strip() or None if domain is not None else None,
                when=str(when) if when not in (None, "") else None,
            )
        )
    return Foreign("logs", records, columns=chosen, ignored=_ignored(rows, chosen.values()), odd=odd)


def _columns(path: Path, rows: Sequence[Row], asked: Mapping[str, str], wanted: Iterable[str]) -> dict[str, str]:
    names = _names(rows)
    there = {name.casefold(): name for name in reversed(names)}
    chosen: dict[str, str] = {}
    for what, name in asked.items():
        if what not in COLUMNS:
            raise KbevalError(f"--columns {what}={name}: expected one of {', '.join(COLUMNS)}, found {what!r}")
        if name not in names:
            raise InputError(path, expected=f"a column {name!r}", found=f"the columns {_some(_names(rows))}")
        chosen[what] = name
    for what in wanted:
        free = [there[name] for name in COLUMNS[what] if name in there and there[name] not in chosen.values()]
        if what not in chosen and free:
            chosen[what] = free[0]
    return chosen


def _needs(path: Path, rows: Sequence[Row], names: Iterable[str]) -> None:
    there = _names(rows)
    if missing := [name for name in names if name not in there]:
        raise InputError(path, expected=f"a column {missing[0]}", found=f"the columns {_some(_names(rows))}")


def _names(rows: Sequence[Row]) -> list[str]:
    """The columns of a table: JSON lines need not have all of them."""
    return list(dict.fromkeys(name for row in rows for name in row.values))


def _ignored(rows: Sequence[Row], used: Iterable[str]) -> tuple[str, ...]:
    read = set(used)
    return tuple(name for name in _names(rows) if name not in read)


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:12]) + (", ..." if len(listed) > 12 else "")


def _is_question(value: Any, odd: Counter[str]) -> bool:
    """Whether a cell can hold a question: a text or none (there may be a hash); what cannot is counted.

    A list, an object, a truth value or a bare number is nothing that somebody asked.
    """
    if value is None or isinstance(value, str):
        return True
    odd["a question that is no text"] += 1
    return False


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _list(value: Any) -> list[str]:
    """A cell as a list: as it is, or written as JSON, as Python, or with | or ; or commas between."""
    if value is None or value == "":
        return []
    if not isinstance(value, str):
        return [str(one) for one in value] if isinstance(value, list | tuple) else [str(value)]
    text = value.strip()
    if text.startswith("["):
        try:
            parsed = orjson.loads(text)
        except orjson.JSONDecodeError:
            try:
                parsed = ast.literal_eval(text)
            except (ValueError, SyntaxError):
                parsed = None
        if isinstance(parsed, list):
            return [str(one) for one in parsed]
    return [text]


def _ids(value: Any) -> list[str]:
    """Ids of a cell, in their order; objects by their ``id``, ``doc_id``, ``document_id`` or ``chunk_id``."""
    if isinstance(value, list) and any(isinstance(one, dict) for one in value):
        keys = ("id", "doc_id", "document_id", "chunk_id", "_id")
        found = [next((one[key] for key in keys if key in one), None) for one in value if isinstance(one, dict)]
        return [str(one) for one in found if one is not None]
    parts = _list(value)
    if len(parts) == 1 and isinstance(value, str) and not value.strip().startswith("["):
        separator = next((mark for mark in "|;, " if mark in parts[0]), None)
        parts = parts[0].split(separator) if separator else parts
    return [part.strip() for part in parts if part.strip()]


def _graded(path: Path, line: int, value: Any) -> dict[str, int]:
    """What is relevant: a list of ids (grade 1), or an object of grades by id; 0 and below are left out."""
    if isinstance(value, str) and value.strip().startswith("{"):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError as error:
            raise InputError(path, line=line, expected="grades by id as JSON", found=str(error.msg)) from None
    if isinstance(value, dict):
        # Parquet gives every row every key of a struct.
        grades = {key: grade for key, grade in value.items() if grade is not None}
        if bad := [grade for grade in grades.values() if not isinstance(grade, int) or isinstance(grade, bool)]:
            raise InputError(path, line=line, expected="whole numbers as grades", found=f"a {type(bad[0]).__name__}")
        return {key: grade for key, grade in grades.items() if grade > 0}
    return dict.fromkeys(_ids(value), 1)


def _numbers(path: Path, line: int, value: Any) -> tuple[float, ...]:
    parts = [str(value)] if isinstance(value, int | float) else _list(value)
    if len(parts) == 1 and isinstance(value, str):
        parts = re.split(r"[|;,\s]+", parts[0].strip())
    try:
        return tuple(float(part) for part in parts if part not in ("", "None"))
    except ValueError:
        raise InputError(path, line=line, expected="numbers as scores", found="other text") from None
