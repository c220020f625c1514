"""Data sets in both layouts, and the hashes that name them."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pytest

from kbeval.errors import InputError, KbevalError
from kbeval.formats.dataset import (
    DatasetWriter,
    Layout,
    corpus_hash,
    load_dataset,
    qrels_hash,
    queries_hash,
    write_dataset,
)
from kbeval.model import Document, LabelledQuery, Qrels

if TYPE_CHECKING:
    from pathlib import Path

DOCUMENTS = [Document(id="d2", text="two", domain="x"), Document(id="d1", text="one", title="One")]
QUERIES = [
    LabelledQuery(id="q9", text="nine?", style="near"),
    LabelledQuery(id="q10", text="ten?", style="far"),
    LabelledQuery(id="q3", text="never judged"),
]


def qrels_of(*rows: tuple[str, str, int]) -> Qrels:
    schema = {"query": pl.String, "document": pl.String, "grade": pl.Int64}
    return Qrels(pl.DataFrame(rows, schema=schema, orient="row"))


QRELS = qrels_of(("q10", "d1", 2), ("q10", "d2", 0), ("q9", "d2", 1))


@pytest.mark.parametrize("layout", ["project", "plain"])
def test_a_data_set_reads_back_from_either_layout(tmp_path: Path, layout: Layout) -> None:
    folder = tmp_path / "mine"
    files = write_dataset(folder, DOCUMENTS, QUERIES, QRELS, layout=layout)
    inner = "corpus/" if layout == "project" else ""
    names = [f"{inner}corpus.jsonl", f"{inner}queries.jsonl", "qrels/test.tsv", "qrels/test.trec"]
    assert [str(file.relative_to(folder)) for file in files] == names
    assert sorted(path for path in folder.rglob("*") if path.is_file()) == sorted(files)

    dataset = load_dataset(folder)
    assert (dataset.folder, dataset.name, dataset.warnings) == (folder, "mine", ())
    assert dataset.documents == DOCUMENTS
    assert dataset.queries == [
        replace(QUERIES[1], relevant={"d1": 2}),
        replace(QUERIES[0], relevant={"d2": 1}),
    ]
    assert dataset.qrels.frame.equals(QRELS.frame)


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    files = write_dataset(tmp_path, DOCUMENTS, QUERIES, QRELS)
    before = [file.read_bytes() for file in files]
    dataset = load_dataset(tmp_path)
    write_dataset(tmp_path, dataset.documents, QUERIES, dataset.qrels)
    assert [file.read_bytes() for file in files] == before


def test_gzipped_files_and_trec_judgments_will_do(tmp_path: Path) -> None:
    for file in write_dataset(tmp_path, DOCUMENTS, QUERIES, QRELS, layout="plain"):
        file.with_name(file.name + ".gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    assert len(load_dataset(tmp_path).queries) == 2
    (tmp_path / "qrels" / "test.tsv.gz").unlink()
    assert len(load_dataset(tmp_path).queries) == 2


def test_documents_that_come_one_at_a_time_give_the_same_files(tmp_path: Path) -> None:
    whole = write_dataset(tmp_path / "whole", DOCUMENTS, QUERIES, QRELS, layout="plain")
    with DatasetWriter(tmp_path / "parts", layout="plain") as writer:
        for document in DOCUMENTS:
            writer.add(document)
        assert not (tmp_path / "parts" / "corpus.jsonl").exists()
        parts = writer.finish(QUERIES, QRELS)
    assert writer.documents == 2
    assert [file.read_bytes() for file in parts] == [file.read_bytes() for file in whole]
    before = sorted(tmp_path.rglob("*"))
    for folder in ("parts", "new/er"):
        documents = [Document(id="d3", text="three"), Document(id="d4", text="", metadata={"a": object()})]
        with pytest.raises(KbevalError, match="'d4' cannot be written as JSON"):
            write_dataset(tmp_path / folder, documents, QUERIES, QRELS, layout="plain")
    assert sorted(tmp_path.rglob("*")) == before
    assert parts[0].read_bytes() == whole[0].read_bytes()


def test_the_split_is_the_callers(tmp_path: Path) -> None:
    write_dataset(tmp_path, DOCUMENTS, QUERIES, QRELS)
    write_dataset(tmp_path, DOCUMENTS, QUERIES, qrels_of(("q3", "d1", 1)), split="dev")
    assert [query.id for query in load_dataset(tmp_path, "dev").queries] == ["q3"]
    with pytest.raises(KbevalError, match=r"no judgments of split 'train'.* found dev.trec, dev.tsv, test.trec"):
        load_dataset(tmp_path, "train")


def test_the_name_is_the_folders_also_from_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_dataset(tmp_path / "mine", DOCUMENTS, QUERIES, QRELS)
    monkeypatch.chdir(tmp_path / "mine")
    assert load_dataset(".").name == "mine"


def test_what_is_no_data_set_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(KbevalError, match="none: expected the folder of a data set, found none"):
        load_dataset(tmp_path / "none")
    (tmp_path / "file").touch()
    with pytest.raises(KbevalError, match="file: expected the folder of a data set, found a file"):
        load_dataset(tmp_path / "file")
    with pytest.raises(KbevalError, match=r"no data set: looked for corpus\.jsonl and queries\.jsonl"):
        load_dataset(tmp_path)
    files = write_dataset(tmp_path, DOCUMENTS, QUERIES, QRELS)
    for file in files[2:]:
        file.unlink()
    with pytest.raises(KbevalError, match=r"looked for test\.tsv and test\.trec .* found nothing"):
        load_dataset(tmp_path)


def test_an_empty_corpus_and_an_empty_test_set_are_errors(tmp_path: Path) -> None:
    files = write_dataset(tmp_path, [], QUERIES, QRELS)
    with pytest.raises(KbevalError, match=r"corpus\.jsonl: expected at least one document, found none"):
        load_dataset(tmp_path)
    write_dataset(tmp_path, DOCUMENTS, QUERIES, qrels_of())
    with pytest.raises(InputError, match="expected at least one judgment, found none"):
        load_dataset(tmp_path)
    write_dataset(tmp_path, DOCUMENTS, QUERIES[2:], QRELS)
    with pytest.raises(KbevalError, match=r"queries\.jsonl: none of the 2 queries that .*test\.tsv judges"):
        load_dataset(tmp_path)
    assert all(file.exists() for file in files)


def test_oddities_are_warnings(tmp_path: Path) -> None:
    rows = [("d1", "d1", 1), *((f"gone{n}", "d1", 1) for n in range(7)), ("q9", "lost", 1), ("q9", "d2", 1)]
    queries = [*QUERIES, LabelledQuery(id="d1", text="a document's name?")]
    write_dataset(tmp_path, DOCUMENTS, queries, qrels_of(*rows))
    dataset = load_dataset(tmp_path)
    assert dataset.warnings == (
        "7 judged queries have no text to ask: 'gone0', 'gone1', 'gone2', 'gone3', 'gone4', ...",
        "1 judged document is not in the corpus: 'lost'",
        "1 query id is also a document's, and nothing is left out for it: 'd1'",
    )
    assert [query.id for query in dataset.queries] == ["d1", "q9"]
    assert len(dataset.qrels.frame) == 10
    assert dataset.queries[1].relevant == {"lost": 1, "d2": 1}


def test_a_warning_of_the_judgments_is_the_data_sets(tmp_path: Path) -> None:
    write_dataset(tmp_path, DOCUMENTS, QUERIES, QRELS)
    with (tmp_path / "qrels" / "test.tsv").open("a") as stream:
        stream.write("q9\td2\t1\n")
    [warning] = load_dataset(tmp_path).warnings
    assert warning.startswith("test.tsv: 1 judgment is repeated, and counted once")


def test_ids_with_blanks_need_escaping_for_trec_and_leave_all_as_it_was(tmp_path: Path) -> None:
    documents = [Document(id="Release notes v2.md", text="")]
    qrels = qrels_of(("q9", "Release notes v2.md", 1))
    with pytest.raises(KbevalError, match=r"'Release notes v2\.md'.*--escape-ids"):
        write_dataset(tmp_path / "new", documents, QUERIES, qrels)
    assert not (tmp_path / "new").exists()
    files = write_dataset(tmp_path / "new", documents, QUERIES, qrels, escape_ids=True)
    assert files[3].read_text() == "q9 0 Release%20notes%20v2.md 1\n"
    assert load_dataset(tmp_path / "new").queries[0].relevant == {"Release notes v2.md": 1}


# --- hashes


def test_hashes_do_not_depend_on_file_or_order(tmp_path: Path) -> None:
    write_dataset(tmp_path, DOCUMENTS, QUERIES, QRELS)
    values = [
        {"text": d.text, "_id": d.id, "title": d.title or None, "metadata": {"url": "u", "domain": d.domain}}
        for d in reversed(DOCUMENTS)
    ]
    spaced = "\ufeff" + "\r\n".join(map(json.dumps, values))
    (tmp_path / "corpus" / "corpus.jsonl").write_text(spaced, encoding="utf-8")
    dataset = load_dataset(tmp_path)
    assert corpus_hash(dataset.documents) == corpus_hash(DOCUMENTS)
    assert queries_hash(dataset.queries) == queries_hash(reversed(QUERIES[:2]))
    assert qrels_hash(dataset.qrels, 1) == qrels_hash(QRELS, 1)


def test_a_hash_of_documents_that_come_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [Document(id=f"d{number}", text="x" * number, domain="é") for number in (7, 10, 3, 1)]
    assert corpus_hash(iter(documents)) == corpus_hash(documents)
    monkeypatch.setattr("kbeval.formats.dataset._SPOOL_BYTES", 10)  # to disk after the first
    assert corpus_hash(iter(documents)) == corpus_hash(documents)
    assert corpus_hash(iter([])) == corpus_hash([])


def test_hashes_change_with_what_they_name() -> None:
    fields = ("id", "title", "text", "description", "filename", "domain")
    hashes = {corpus_hash([replace(DOCUMENTS[0], **{field: "other"}), DOCUMENTS[1]]) for field in fields}
    assert len(hashes | {corpus_hash(DOCUMENTS), corpus_hash(DOCUMENTS[:1]), corpus_hash([])}) == 9
    assert corpus_hash([replace(DOCUMENTS[0], metadata={"a": 1}), DOCUMENTS[1]]) == corpus_hash(DOCUMENTS)
    # What stands in one field must not read like what stands in two.
    assert corpus_hash([Document(id="a", text="b", title="c")]) != corpus_hash([Document(id="a", text="", title="cb")])

    queries = [QUERIES[0], replace(QUERIES[0], text="x"), replace(QUERIES[0], id="x")]
    assert len({queries_hash([query]) for query in queries}) == 3
    assert queries_hash([replace(QUERIES[0], style="far", relevant={"d": 1})]) == queries_hash([QUERIES[0]])

    assert len({qrels_hash(QRELS, 1), qrels_hash(QRELS, 2), qrels_hash(qrels_of(*QRELS.frame.rows()[:2]), 1)}) == 3


def test_a_hash_is_what_its_documentation_says() -> None:
    # printf '["q9","nine?"]\n' | sha256sum | cut -c-16
    assert queries_hash([QUERIES[0]]) == "e6935d4638509efc"


# --- real data


@pytest.mark.parametrize(
    ("name", "documents", "queries", "judgments"),
    [("docs-qa", 232, 100, 192), ("scifact", 5183, 300, 339), ("cranfield", 1400, 225, 1837)],
)
def test_real_data_sets_have_their_published_sizes(
    shared_data: Path, name: str, documents: int, queries: int, judgments: int
) -> None:
    dataset = load_dataset(shared_data / name)
    assert (len(dataset.documents), len(dataset.queries), len(dataset.qrels.frame)) == (
        documents, queries, judgments
    )  # fmt: skip
    assert dataset.qrels.frame["grade"].min() == (0 if name == "cranfield" else 1)
    assert dataset.name == name
    assert len(dataset.warnings) == (1 if name == "cranfield" else 0)  # its ids are numbers on both sides
