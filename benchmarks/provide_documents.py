"""Exporting a corpus of a million documents: seconds and peak memory of ``kbeval export``, whole process.

Usage: python benchmarks/provide_documents.py [--documents 1000000]

Three times the same documents of some 600 characters: from a generator (``package.module:Class``), from a PostgreSQL
table of as many rows (an embedded server, whose own memory is not counted), and from the ``corpus.jsonl`` that came
out. The first is done for a tenth of them too: what grows from there to here is what grows with the corpus. The files
that come out are compared.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson

from kbeval.store import open_store

TEXT = "Refunds are given at the till by a cashier up to fifty pounds and by a manager above. "

MODULE = f"""
from kbeval import Document

class Made:
    def __init__(self, path): self.size = int(path.name)
    def get_documents(self):
        for number in range(1, self.size + 1):
            yield Document(f"doc-{{number:09d}}", {TEXT!r} * 7 + str(number), title=f"Document {{number}}")
"""
TABLE = f"""
    CREATE TABLE many AS SELECT 'doc-' || lpad(n::text, 9, '0') AS id, 'Document ' || n AS title,
    repeat('{TEXT}', 7) || n AS text FROM generate_series(1, %s) n
"""
HASH = """
from pathlib import Path
from kbeval.config import load_project
from kbeval.corpus.providers import corpus_documents
from kbeval.formats.dataset import corpus_hash
project = load_project()
print(corpus_hash(corpus_documents(project.settings.corpus, project.root)))
"""


def measured(name: str, command: list[str], folder: Path, environment: dict[str, str]) -> None:
    """Runs a command and prints its wall time and its highest resident memory."""
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    said = process.stdout.read() if process.stdout else ""
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    assert status == 0, said
    print(f"{name:44} {seconds:7.1f} s  {usage.ru_maxrss / 1024:6.0f} MB  {said.splitlines()[0]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--documents", type=int, default=1_000_000)
    size = parser.parse_args().documents
    export = [sys.executable, "-m", "kbeval", "export", "--out"]
    by_hash = [sys.executable, "-c", HASH]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "made.py").write_text(MODULE)
        (folder / "corpus").mkdir()
        question = {
            "id": "q",
            "text": "Who gives money back?",
            "gold_chunks": {},
            "gold_documents": {"doc-000000007": 1},
        }
        questions = {"format": 1, "questions": [{**question, "source": "authored"}]}
        (folder / "corpus" / "questions.cache.json").write_bytes(orjson.dumps(questions))
        path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path}
        settings = folder / "kbeval.toml"

        for count in (size // 10, size):
            settings.write_text(f'[corpus]\nprovider = "made:Made"\npath = "{count}"\n')
            measured(f"export, generator, {count}", [*export, "generator"], folder, environment)
        measured(f"corpus_hash, generator, {size}", by_hash, folder, environment)
        settings.write_text('[corpus]\nprovider = "beir"\npath = "generator"\n')
        measured(f"export, corpus.jsonl, {size}", [*export, "beir"], folder, environment)
        with open_store() as store:
            with store.connect() as connection:
                connection.execute(TABLE.replace("%s", str(size)))
                connection.execute("CREATE UNIQUE INDEX ON many (id)")
                connection.execute("ANALYZE many")
            settings.write_text('[corpus]\nprovider = "postgres"\ntable = "many"\n')
            environment["KBEVAL_CORPUS_DSN"] = store.dsn
            measured(f"export, Postgres table, {size}", [*export, "postgres"], folder, environment)
        files = [folder / each / "corpus.jsonl" for each in ("generator", "beir", "postgres")]
        digests = set()
        for file in files:
            with file.open("rb") as stream:
                digests.add(hashlib.file_digest(stream, "sha256").hexdigest())
        print(f"{files[0].stat().st_size / 1e6:.0f} MB each, {'the same bytes' if len(digests) == 1 else 'DIFFERENT'}")


if __name__ == "__main__":
    main()
