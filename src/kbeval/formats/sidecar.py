"""What stands beside a run: who made it, from what, and how it went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kbeval.config import explain
from kbeval.errors import InputError
from kbeval.formats.text import read_bytes

if TYPE_CHECKING:
    from pathlib import Path

TOTAL = "total"
WAITED = "waited"
NOT_ASKED = "not asked: "
"""How the error of a question begins that a run ended before."""


class EngineFacts(BaseModel):
    """The engine and its full configuration, without secrets."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    type: str
    configuration: dict[str, Any] = {}
    reads_text: bool = True
    deterministic: bool = True
    notes: list[str] = []


class Partial(BaseModel):
    """A run of a seeded sample: which questions were asked, and of how many."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    of: int
    queries: list[str]


class Sidecar(BaseModel):
    """The sidecar of one run.

    Attributes:
        k: how many documents were asked for per query.
        escaped_ids: whether the ids in the run file are percent-encoded.
        counts: queries, answered, empty (answered with nothing), errored (of these: timed_out, not_asked),
            repeated_requests, rising_scores (answers whose scores contradict their order), and facts about the index.
        errors: for each query on which the engine failed, or that was not asked, one line.
        partial: where the run is of a sample of the questions.
        incomplete: why the run ended before every question was asked.
        latencies_ms: for each query that was asked, milliseconds by stage; ``total`` is what the caller waited, and
            ``waited`` what of it were pauses before a retry, which no stage holds. Errors and timeouts are among them.
        latency_ms: for each stage p50, p95, p99 and n over those, the first query left out.
        cold_start: ``build_ms``, and ``first_ms`` by stage for the query that was asked first.
        throughput: ``concurrency``, ``seconds`` and ``per_second``, and how many answers were ``resumed`` from an
            earlier run.
        usage: what the queries took, by service: calls, tokens, completion_tokens, rerank_units, and ``cost`` where it
            has a price; under ``building`` the same for the index.
        usage_by_query: the same for each query that took anything.
        gold_ranks: for each query and stage, the rank of the first relevant document; null where it is not there.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    engine: EngineFacts
    k: int = Field(ge=1, le=1_000_000_000)
    corpus_hash: str
    queries_hash: str
    versions: dict[str, str] = {}
    store: dict[str, Any] | None = None
    escaped_ids: bool = False
    counts: dict[str, int] = {}
    errors: dict[str, str] = {}
    partial: Partial | None = None
    incomplete: str | None = None
    latency_ms: dict[str, dict[str, float]] = {}
    latencies_ms: dict[str, dict[str, float]] = {}
    cold_start: dict[str, Any] = {}
    throughput: dict[str, float] = {}
    usage: dict[str, Any] = {}
    usage_by_query: dict[str, Any] = {}
    gold_ranks: dict[str, dict[str, int | None]] = {}

    def warm_ms(self, stage: str = TOTAL) -> list[float]:
        """Milliseconds of a stage, a query each, without those of the query that was asked first: the cold start."""
        cold = self.cold_start.get("first_ms") or {}
        return [stages[stage] for query, stages in self.latencies_ms.items() if stage in stages and query not in cold]


def sidecar_path(run_path: Path, name: str) -> Path:
    """Where the sidecar of a run file lies: beside it, under the run's own file name."""
    return run_path.parent / f"{name}.json"


def read_sidecar(path: Path) -> Sidecar | None:
    """Reads a sidecar; none where the file is absent, or is some other JSON that happens to have the run's name.

    Raises:
        InputError: the file is there and is no sidecar.
    """
    if not path.exists():
        return None
    try:
        data = orjson.loads(read_bytes(path))
        if not isinstance(data, dict) or not {"corpus_hash", "queries_hash"} & set(data):
            return None
        return Sidecar.model_validate(data)
    except orjson.JSONDecodeError as error:
        raise InputError(path, line=error.lineno, expected="a run's sidecar in JSON", found=error.msg) from None
    except ValidationError as error:
        words = explain(error, Sidecar)
        raise InputError(path, expected=f"a run's sidecar with {words['expected']}", found=words["found"]) from None


def sidecar_bytes(sidecar: Sidecar) -> bytes:
    """A sidecar as its file holds it, keys sorted."""
    return orjson.dumps(sidecar.model_dump(), option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"
