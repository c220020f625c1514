"""One recorded run, and how it is made of a measured one."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from kbeval._version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from kbeval.evaluation.gates import Measured
    from kbeval.evaluation.test_set import TestSet
    from kbeval.history.revision import Revision


@dataclass(frozen=True)
class Entry:
    """One run as it was measured on one test set.

    Attributes:
        key: what was measured (the run file, its sidecar and the test set: see :func:`content_of`), and as what: the
            engine, the run's name, the corpus, the questions and the commit. The same recorded twice is one entry; a
            run that was made again, with latencies of its own, or is the same at another commit, is another.
        when: UTC, ISO 8601.
        values: for each metric its value per query, in the test set's order; None in entries of version 1.
    """

    key: str
    when: str
    engine: str
    run: str
    commit: str | None
    dirty: bool | None
    k: int | None
    corpus_hash: str | None
    queries_hash: str | None
    test_set_hash: str
    queries: int
    errored: int
    missing: int
    configuration: Mapping[str, Any]
    metrics: Mapping[str, float]
    latency_ms: Mapping[str, float]
    kbeval: str
    values: Mapping[str, NDArray[np.float64]] | None = field(default=None, repr=False)

    @property
    def ground(self) -> tuple[str, str | None, str | None]:
        """What numbers must share to be comparable: test set, corpus, questions."""
        return (self.test_set_hash, self.corpus_hash, self.queries_hash)


def run_key(path: Path, sidecar: Path, test_set_hash: str) -> str:
    """What was measured, as the first part of an entry's key: a run file on a test set."""
    digest = hashlib.sha256()
    for part in (path.read_bytes(), sidecar.read_bytes() if sidecar.exists() else b"", test_set_hash.encode()):
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:32]


def content_of(key: str) -> str:
    """The part of an entry's key that says what was measured."""
    return key.partition("-")[0]


def entry_of(run: Measured, content: str, test_set: TestSet, revision: Revision, when: str) -> Entry:
    """The entry of a run that was measured on a test set."""
    sidecar = run.sidecar
    engine = sidecar.engine if sidecar else None
    corpus = sidecar.corpus_hash if sidecar else test_set.corpus_hash
    questions = sidecar.queries_hash if sidecar else test_set.queries_hash
    stands_for = orjson.dumps([run.engine, run.name, corpus, questions, revision.commit])
    waited = sidecar.warm_ms() if sidecar else []
    return Entry(
        key=f"{content}-{hashlib.sha256(stands_for).hexdigest()[:16]}",
        when=when,
        engine=run.engine,
        run=run.name,
        commit=revision.commit,
        dirty=revision.dirty,
        k=sidecar.k if sidecar else None,
        corpus_hash=corpus,
        queries_hash=questions,
        test_set_hash=test_set.hash,
        queries=len(test_set.queries),
        errored=len(run.errors),
        missing=run.missing,
        configuration={"type": engine.type, **engine.configuration} if engine else {},
        metrics=dict(run.means),
        latency_ms={f"p{p}": round(float(np.percentile(waited, p)), 3) for p in (50, 95, 99)} if waited else {},
        kbeval=__version__,
        values=run.values,
    )


def pack(values: Mapping[str, NDArray[np.float64]] | None) -> bytes | None:
    """Values as bytes: little-endian doubles by metric, compressed."""
    if values is None:
        return None
    columns = {name: column.astype("<f8").tobytes().hex() for name, column in values.items()}
    return zlib.compress(orjson.dumps(columns), 6)


def unpack(packed: bytes | None) -> dict[str, NDArray[np.float64]] | None:
    """The values again."""
    if packed is None:
        return None
    columns = orjson.loads(zlib.decompress(packed))
    return {name: np.frombuffer(bytes.fromhex(column), dtype="<f8") for name, column in columns.items()}
