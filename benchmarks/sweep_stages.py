"""What a sweep costs, against its distinct stages done once by engine A itself.

    python benchmarks/sweep_stages.py ../shared/data/scifact

24 configurations: two chunkings, two sets of legs, two depths, three constants of fusion. Their distinct stages are two
chunkings cut, embedded and loaded; every question embedded; two legs searched at two depths in each; and a fusion for
each configuration with two legs. They are done once by `HybridEngine`, without any memory, in a process of its own:
for each chunking the engine is built, and each leg asked at each depth, and the lists put together as each
configuration does. The sweep is the whole of it, its own process too, with an empty memory. Opening the database,
reading the data set and the start of Python are in neither. A second sweep finds everything remembered.

The limit is 1.3 times.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

VALUES: dict[str, list[Any]] = {
    "chunk_words": [80, 120],
    "legs": ["bm25,vector", "bm25"],
    "candidates": [50, 100],
    "fusion_k": [10, 30, 60],
}
K = 20
LIMIT = 1.3


def once(folder: Path) -> float:
    """Seconds of the distinct stages, by the engine itself."""
    from kbeval.engines.base import BuildContext
    from kbeval.engines.components.fusion import make_fusion
    from kbeval.engines.hybrid import HybridEngine, HybridSettings
    from kbeval.formats.dataset import load_dataset
    from kbeval.progress import Silent
    from kbeval.store import open_store

    data = load_dataset(folder)
    with open_store(None) as store:
        store.load_documents(data.documents)
        context = BuildContext(documents=data.documents, store=lambda: store, progress=Silent(), root=Path())
        began = time.perf_counter()
        vectors: dict[str, Any] = {}
        for words in VALUES["chunk_words"]:
            engine = HybridEngine.build(HybridSettings(chunk_words=words), context)
            for query in data.asked:
                if query.id not in vectors:
                    vectors[query.id] = engine.embed(query.text, {})
                for depth in VALUES["candidates"]:
                    legs = [engine.search(leg, query.text, vectors[query.id], depth, {}) for leg in ("bm25", "vector")]
                    for constant in VALUES["fusion_k"]:
                        make_fusion(constant, None).run(documents=legs)
            engine.close()
        return time.perf_counter() - began


def swept(folder: Path, memory_file: Path) -> float:
    """Seconds of the sweep."""
    from kbeval.cli.engines import chosen_engines
    from kbeval.config import Project, Settings
    from kbeval.evaluation.metrics import parse_metric
    from kbeval.evaluation.test_set import from_dataset
    from kbeval.formats.dataset import load_dataset
    from kbeval.progress import Silent
    from kbeval.running.policy import Policy
    from kbeval.sweep import sweeping
    from kbeval.sweep.grid import make_grid
    from kbeval.sweep.memory import StageMemory

    data = load_dataset(folder)
    project = Project(Path(), Settings(engines={"a": {"type": "hybrid"}}))
    grid = make_grid(VALUES, lambda own: chosen_engines(project, ["a"], None, None, own)[0], sample=0, seed=0)
    assert len(grid.configurations) == 24
    opening = _Opening(sweeping)
    began = time.perf_counter()
    memory = StageMemory(memory_file)
    sweeping.sweep(
        grid,
        data,
        from_dataset(data, level=1),
        memory,
        sweeping.Asked(k=K, primary=parse_metric("mrr"), alpha=0.05, share=0.5, seed=0),
        root=Path(),
        dsn=None,
        progress=Silent(),
        policy=Policy(),
    )
    memory.close()
    return time.perf_counter() - began - opening.seconds


class _Opening:
    """How long the database took to open, which is in neither time."""

    def __init__(self, sweeping: Any) -> None:
        self._made: list[Any] = []
        plain = sweeping.SharedStore

        def noted(*arguments: Any) -> Any:
            self._made.append(plain(*arguments))
            return self._made[-1]

        sweeping.SharedStore = noted

    @property
    def seconds(self) -> float:
        return sum(store.seconds for store in self._made)


def measure(what: str, folder: Path, memory: Path) -> float:
    """Runs one of the two in a process of its own, with everything imported before the clock starts."""
    command = [sys.executable, __file__, str(folder), "--only", what, "--memory", str(memory)]
    finished = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(json.loads(finished.stdout.splitlines()[-1]))


def main() -> None:
    """Measures each in turn, several times, and says the ratio of the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a data set in BEIR format")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--only", choices=("once", "sweep"))
    parser.add_argument("--memory", type=Path, default=Path("memory"))
    arguments = parser.parse_args()
    if arguments.only:
        import kbeval.engines.components.pipeline
        import kbeval.sweep.sweeping  # noqa: F401
        from kbeval.engines.components.embedders import wordllama_vector

        wordllama_vector("loaded before the clock starts")
        seconds = once(arguments.folder) if arguments.only == "once" else swept(arguments.folder, arguments.memory)
        print(json.dumps(seconds))
        return
    stages, sweeps, again = [], [], []
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(arguments.times):
            memory = Path(scratch) / f"memory{number}"
            stages.append(measure("once", arguments.folder, memory))
            sweeps.append(measure("sweep", arguments.folder, memory))
            again.append(measure("sweep", arguments.folder, memory))
            print(f"stages {stages[-1]:.1f} s, sweep {sweeps[-1]:.1f} s, again {again[-1]:.1f} s", flush=True)
    ratio = sorted(sweeps)[len(sweeps) // 2] / sorted(stages)[len(stages) // 2]
    print(f"ratio of the medians: {ratio:.2f} (limit {LIMIT})")
    raise SystemExit(0 if ratio <= LIMIT else 1)


if __name__ == "__main__":
    main()
