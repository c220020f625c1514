"""What engine A costs on top of the Haystack components that it is made of.

Usage: python benchmarks/engine_overhead.py DATASET [--rounds 5]

DATASET is a folder in BEIR layout. For each of its queries, in turn and several rounds over, three things
are timed: the components alone, called one after the other as a script would; ``HybridEngine.retrieve``;
and ``Pipeline.run`` of the same pipeline. Printed are the medians over queries of each query's fastest
round, and what the latter two take beyond the first.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbeval.engines.base import BuildContext
from kbeval.engines.hybrid import HybridEngine, HybridSettings
from kbeval.formats.beir import read_documents, read_queries
from kbeval.progress import on_standard_error
from kbeval.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

K = 20


def components_alone(engine: HybridEngine) -> Callable[[str], Any]:
    """The bare sequence: embed, search both ways, fuse."""
    settings = HybridSettings()
    embedder, lexical, vector, fusion = (
        engine.pipeline.get_component(name) for name in ("embedder", "lexical", "vector", "fusion")
    )

    def ask(query: str) -> Any:
        embedding = embedder.run(text=query)["embedding"]
        legs = [
            lexical.run(query=query, top_k=settings.candidates)["documents"],
            vector.run(query_embedding=embedding, top_k=settings.candidates)["documents"],
        ]
        return fusion.run(documents=legs)["documents"]

    return ask


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    documents = read_documents(arguments.dataset / "corpus.jsonl")
    queries = [query.text for query in read_queries(arguments.dataset / "queries.jsonl")]

    with open_store() as store:
        started = time.perf_counter()
        engine = HybridEngine.build(
            HybridSettings(),
            BuildContext(documents=documents, store=lambda: store, progress=on_standard_error(), root=Path.cwd()),
        )
        built = time.perf_counter() - started
        ways: dict[str, Callable[[str], Any]] = {
            "components alone": components_alone(engine),
            "engine.retrieve": lambda query: engine.retrieve(query, K),
            "Pipeline.run": lambda query: engine.pipeline.run(
                {"lexical": {"query": query}, "embedder": {"text": query}}
            ),
        }
        fastest = {name: [float("inf")] * len(queries) for name in ways}
        stages: dict[str, list[float]] = {}
        for _ in range(arguments.rounds):
            for number, query in enumerate(queries):
                for name, way in ways.items():
                    started = time.perf_counter()
                    way(query)
                    seconds = time.perf_counter() - started
                    fastest[name][number] = min(fastest[name][number], seconds)
                for stage, seconds in engine.retrieve(query, K).seconds.items():
                    stages.setdefault(stage, []).append(seconds)
        counts = engine.counts()
        engine.close()

    print(f"{counts['documents']} documents, {counts['chunks']} chunks, {len(queries)} queries")
    print(f"built in {built:.1f} s")
    bare = statistics.median(fastest["components alone"])
    for name, times in fastest.items():
        median = statistics.median(times)
        print(f"{name:18} {median * 1000:8.2f} ms  {median / bare - 1:+8.1%}")
    for stage, times in stages.items():
        print(f"  {stage:16} {statistics.median(times) * 1000:8.2f} ms")


if __name__ == "__main__":
    main()
