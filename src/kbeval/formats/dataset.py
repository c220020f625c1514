"""A data set: documents, labelled queries and judgments in one folder, in either of two layouts."""

from __future__ import annotations

import hashlib
import os
import tempfile
from array import array
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import orjson
import polars as pl

from kbeval.errors import KbevalError
from kbeval.formats._fields import show
from kbeval.formats.beir import (
    document_as_jsonl,
    qrels_as_tsv,
    queries_as_jsonl,
    read_documents,
    read_queries,
)
from kbeval.formats.text import AtomicFile, write_atomically
from kbeval.formats.trec import qrels_as_trec, read_qrels

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Self

    from kbeval.formats.pool import PoolRecord
    from kbeval.model import Document, LabelledQuery, Qrels

Layout = Literal["project", "plain"]

_SPOOL_BYTES = 64 * 2**20
_NAMED = 5  # ids that a warning names
_CORPUS, _QUERIES = "corpus.jsonl", "queries.jsonl"
_CORPUS_FOLDER = {"plain": "", "project": "corpus"}
_QRELS_SUFFIXES = (".tsv", ".trec")


@dataclass(frozen=True)
class Dataset:
    """A corpus and the test set about it.

    Attributes:
        folder: where it was read from.
        name: the folder's name.
        documents: the corpus, in the file's order.
        queries: the labelled queries that the judgments name, with their grades above 0, by id as bytes. A
            query that has judgments but no text is not among them.
        qrels: all judgments of the split.
        unanswerable: queries that the corpus is known not to answer: they are asked, and are in no metric.
        left_out: queries that are asked, but in no metric: nobody has said yet what answers them, or a person says that
            they cannot be judged.
        level: from which grade on a document is relevant, where the settings do not say: 2 where judged grades are
            in it (METHOD 6), else 1.
        judged_by_runs: for judged pairs of query and document that were found by pooling runs, which runs.
        disputed: pairs of query and gold document to which a model gave less than the level, and about which no person
            has decided.
        people: the grade of each pair that a person has judged.
        pools: what was pooled to be judged, oldest first.
        judges: the models that judged.
        warnings: what is odd about it, a line each.
    """

    folder: Path
    name: str
    documents: list[Document]
    queries: list[LabelledQuery]
    qrels: Qrels
    warnings: tuple[str, ...] = ()
    unanswerable: Sequence[LabelledQuery] = ()
    left_out: Sequence[LabelledQuery] = ()
    level: int = 1
    judged_by_runs: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    disputed: Sequence[tuple[str, str]] = ()
    people: Mapping[tuple[str, str], int] = field(default_factory=dict)
    pools: Sequence[PoolRecord] = ()
    judges: Sequence[str] = ()

    @property
    def asked(self) -> list[LabelledQuery]:
        """Every query that engines are asked, those of the metrics first. It is what ``queries_hash`` is taken of, so
        that a label changes no hash: a run that answered a question before it was labelled answers it still."""
        return [*self.queries, *self.unanswerable, *self.left_out]


def load_dataset(folder: str | os.PathLike[str], split: str = "test") -> Dataset:
    """Loads a data set.

    Plain BEIR layout: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/SPLIT.tsv`` (or ``.trec``). Project
    layout: the first two are in ``corpus/``. Each file may be gzipped, and have ``.gz`` at the end.

    Raises:
        KbevalError: the folder is no data set, the corpus has no document, or no judged query has a text.
        InputError: a file cannot be read exactly.
    """
    root = Path(folder)
    corpus_file, queries_file = _corpus_files(root)
    qrels_file = _qrels_file(root, split)
    documents = read_documents(corpus_file)
    if not documents:
        raise KbevalError(f"{corpus_file}: expected at least one document, found none")
    qrels = read_qrels(qrels_file)
    texts = {query.id: query for query in read_queries(queries_file)}
    unanswerable = sorted((query for query in texts.values() if not query.answerable), key=lambda query: query.id)
    left_out = [query for query in texts.values() if query.left_out]
    judged = qrels.frame["query"].unique().sort().to_list()
    for query in unanswerable:
        if query.id in set(judged):
            raise KbevalError(
                f"{queries_file}: expected no judgment of a query that is not answerable, found that {qrels_file} "
                f"judges {show(query.id)}"
            )
    relevant = _relevant(qrels)
    queries = [replace(texts[query], relevant=relevant.get(query, {})) for query in judged if query in texts]
    if not queries:
        raise KbevalError(f"{queries_file}: none of the {len(judged)} queries that {qrels_file} judges is in it")
    return Dataset(
        folder=root,
        name=Path(os.path.abspath(root)).name,  # noqa: PTH100 - the name that the user gave, links and all
        documents=documents,
        queries=queries,
        qrels=qrels,
        warnings=(*qrels.warnings, *_oddities(documents, texts, judged, qrels)),
        unanswerable=unanswerable,
        left_out=sorted((q for q in left_out if q.id not in set(judged)), key=lambda query: query.id),
    )


def write_dataset(
    folder: str | os.PathLike[str],
    documents: Iterable[Document],
    queries: Sequence[LabelledQuery],
    qrels: Qrels,
    *,
    layout: Layout = "project",
    split: str = "test",
    escape_ids: bool = False,
) -> list[Path]:
    """Writes a data set: the BEIR files, and the judgments as TREC qrels too.

    ``escape_ids`` is about the TREC file alone: BEIR files hold ids as they are.

    Returns:
        The files that were written.

    Raises:
        KbevalError: an id with a blank in it and no ``escape_ids``, or a file that cannot be written.
    """
    with DatasetWriter(folder, layout=layout, split=split, escape_ids=escape_ids) as writer:
        for document in documents:
            writer.add(document)
        return writer.finish(queries, qrels)


class DatasetWriter:
    """Writes a data set whose documents come one at a time, and whose questions are known after the last of them.

    Used as a context manager: what raises, or ends without ``finish``, leaves the folder as it was. The arguments are
    ``write_dataset``'s.

    Attributes:
        documents: how many were added.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        layout: Layout = "project",
        split: str = "test",
        escape_ids: bool = False,
    ) -> None:
        root = Path(folder)
        corpus = root / _CORPUS_FOLDER[layout]
        self.documents = 0
        self._queries = corpus / _QUERIES
        self._tsv, self._trec = (root / "qrels" / f"{split}{suffix}" for suffix in _QRELS_SUFFIXES)
        self._escape_ids = escape_ids
        self._corpus = corpus / _CORPUS
        self._file = AtomicFile(self._corpus)

    def add(self, document: Document) -> None:
        """Adds a document to the corpus."""
        self._file.write(document_as_jsonl(document))
        self.documents += 1

    def finish(self, queries: Sequence[LabelledQuery], qrels: Qrels) -> list[Path]:
        """Adds the questions and judgments, puts every file at its place, and returns their paths."""
        # All bytes before the first file: what is refused leaves the folder as it was.
        files = {
            self._queries: queries_as_jsonl(queries),
            self._tsv: qrels_as_tsv(qrels),
            self._trec: qrels_as_trec(qrels, escape_ids=self._escape_ids),
        }
        self._file.commit()
        for path, data in files.items():
            write_atomically(path, data)
        return [self._corpus, *files]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.discard()


def corpus_hash(documents: Iterable[Document]) -> str:
    """A hash of a corpus, whatever file it came from: ids and all that an engine may read, in id order.

    Id, title, text, description, filename and domain count; other metadata does not. The first 16 hexadecimal
    digits of SHA-256. Documents that come one at a time, from a provider, wait for their turn in a temporary file: of
    a million only the ids are in memory.
    """
    if isinstance(documents, Sequence):
        return _hash(map(_record, sorted(documents, key=lambda each: each.id)))
    with tempfile.SpooledTemporaryFile(_SPOOL_BYTES) as spool:
        ids, ends = [], array("Q", [0])
        for each in documents:
            record = _record(each)
            ids.append(each.id)
            ends.append(ends[-1] + len(record))
            spool.write(record)

        def record_of(place: int) -> bytes:
            spool.seek(ends[place])
            return spool.read(ends[place + 1] - ends[place])

        return _hash(map(record_of, sorted(range(len(ids)), key=ids.__getitem__)))


def _record(each: Document) -> bytes:
    values = [each.id, each.title, each.text, each.description, each.filename, each.domain or None]
    return orjson.dumps(values, option=orjson.OPT_APPEND_NEWLINE)


def queries_hash(queries: Iterable[LabelledQuery]) -> str:
    """A hash of queries, whatever file they came from: ids and texts, in id order. As ``corpus_hash``.

    Of a query with filters they count too: they are part of what is asked.
    """
    ordered = sorted(queries, key=lambda each: each.id)
    records = ([each.id, each.text, *([dict(each.filters)] if each.filters else [])] for each in ordered)
    options = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SORT_KEYS
    return _hash(orjson.dumps(record, option=options) for record in records)


def qrels_hash(qrels: Qrels, level: int) -> str:
    """A hash of judgments and of the level from which a grade is relevant. As ``corpus_hash``."""
    judgments = qrels.frame.select("query", "document", "grade").iter_rows()
    records = ([level], *judgments, *([query] for query in qrels.unjudged))
    return _hash(orjson.dumps(each, option=orjson.OPT_APPEND_NEWLINE) for each in records)


def _hash(records: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for record in records:
        digest.update(record)
    return digest.hexdigest()[:16]


def _corpus_files(root: Path) -> tuple[Path, Path]:
    if not root.is_dir():
        raise KbevalError(f"{root}: expected the folder of a data set, found {'a file' if root.exists() else 'none'}")
    folders = [root / inner for inner in _CORPUS_FOLDER.values()]
    for folder in folders:
        corpus, queries = _plain_or_gzipped(folder / _CORPUS), _plain_or_gzipped(folder / _QUERIES)
        if corpus and queries:
            return corpus, queries
    looked_in = " and in ".join(str(folder) for folder in folders)
    raise KbevalError(f"{root}: no data set: looked for {_CORPUS} and {_QUERIES} (or with .gz) in {looked_in}")


def _qrels_file(root: Path, split: str) -> Path:
    names = [f"{split}{suffix}" for suffix in _QRELS_SUFFIXES]
    for name in names:
        if found := _plain_or_gzipped(root / "qrels" / name):
            return found
    there = sorted(path.name for path in (root / "qrels").glob("*"))
    raise KbevalError(
        f"{root}: no judgments of split {split!r}: looked for {' and '.join(map(repr, names))} (or with .gz) in "
        f"{root / 'qrels'}, found {', '.join(there) or 'nothing'}"
    )


def _plain_or_gzipped(path: Path) -> Path | None:
    for candidate in (path, path.with_name(path.name + ".gz")):
        if candidate.exists():
            return candidate
    return None


def _relevant(qrels: Qrels) -> dict[str, dict[str, int]]:
    """The documents with a grade above 0, by query."""
    relevant: dict[str, dict[str, int]] = defaultdict(dict)
    for query, document, grade in qrels.frame.filter(pl.col("grade") > 0).iter_rows():
        relevant[query][document] = grade
    return relevant


def _oddities(
    documents: list[Document], texts: Mapping[str, LabelledQuery], judged: list[str], qrels: Qrels
) -> Iterator[str]:
    in_corpus = {document.id for document in documents}
    if silent := [query for query in judged if query not in texts]:
        count = _count(silent, "judged query has", "judged queries have")
        yield f"{count} no text to ask: {_some(silent)}"
    judged_documents = qrels.frame["document"].unique().sort()
    if absent := [document for document in judged_documents if document not in in_corpus]:
        count = _count(absent, "judged document is", "judged documents are")
        yield f"{count} not in the corpus: {_some(absent)}"
    if both := [query for query in judged if query in in_corpus]:
        count = _count(both, "query id is also a document's", "query ids are also documents'")
        yield f"{count}, and nothing is left out for it: {_some(both)}"


def _count(ids: list[str], one: str, many: str) -> str:
    return f"1 {one}" if len(ids) == 1 else f"{len(ids)} {many}"


def _some(ids: list[str]) -> str:
    return ", ".join(map(show, ids[:_NAMED])) + (", ..." if len(ids) > _NAMED else "")
