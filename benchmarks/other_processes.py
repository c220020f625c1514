"""Times embedding a corpus and answering questions by one Dask worker and by two, each with one thread, in turns.

    pip install 'kbeval[dask]'
    python benchmarks/other_processes.py ../shared/data/scifact [--questions 3000] [--times 3]

Engine A over the whole corpus: it embeds the chunks, and is asked the data set's questions and, to have enough of
them, beginnings of its documents. What is timed is ``kbeval run --scheduler`` as a whole process; the workers are
started anew for each, and their start is not timed. Both write the same run, which is checked.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--questions", type=int, default=3000)
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        enlarged(options.dataset, data, options.questions)
        times: dict[int, list[float]] = {1: [], 2: []}
        runs = set()
        for number in range(options.times):
            for count in times:
                with cluster(count, Path(folder)) as address:
                    seconds, run = timed(address, data, Path(folder) / "out")
                times[count].append(seconds)
                runs.add(run)
            print(
                f"round {number + 1}: " + ", ".join(f"{n}: {of[-1]:.1f} s" for n, of in times.items()), file=sys.stderr
            )
        assert len(runs) == 1, "the runs differ"
    ratios = [one / two for one, two in zip(times[1], times[2], strict=True)]
    print("| Dask workers | seconds, median | one worker's time over it, by round |")
    print("| ---: | ---: | ---: |")
    print(f"| 1 | {statistics.median(times[1]):.1f} | |")
    print(f"| 2 | {statistics.median(times[2]):.1f} | {' '.join(f'{ratio:.2f}' for ratio in ratios)} |")


def enlarged(source: Path, target: Path, count: int) -> None:
    """The data set with so many questions."""
    (target / "qrels").mkdir(parents=True)
    corpus = (source / "corpus.jsonl").read_text()
    (target / "corpus.jsonl").write_text(corpus)
    queries = (source / "queries.jsonl").read_text().splitlines()[:count]
    documents = [json.loads(line) for line in corpus.splitlines()]
    judged = (source / "qrels" / "test.tsv").read_text()
    for document in documents[: count - len(queries)]:
        text = " ".join(document["text"].split()[5:20]) or document["title"]
        queries.append(json.dumps({"_id": f"more-{document['_id']}", "text": text}))
        judged += f"more-{document['_id']}\t{document['_id']}\t1\n"
    (target / "queries.jsonl").write_text("\n".join(queries) + "\n")
    (target / "qrels" / "test.tsv").write_text(judged)


@contextmanager
def cluster(count: int, folder: Path) -> Iterator[str]:
    """A scheduler and its workers, one thread each."""
    import distributed

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    with ExitStack() as stack:

        def start(*arguments: str) -> None:
            process = subprocess.Popen(
                [sys.executable, "-m", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)

        start(
            "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard", "--no-show"
        )
        for number in range(count):
            start(
                *("distributed.cli.dask_worker", address, "--host", "127.0.0.1", "--nworkers", "1", "--nthreads", "1"),
                *("--no-nanny", "--no-dashboard", "--local-directory", str(folder / f"worker{number}")),
            )
        with distributed.Client(address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=60)
        yield address


def timed(address: str, data: Path, out: Path) -> tuple[float, bytes]:
    """Seconds of the whole command, and the run that it wrote."""
    began = time.perf_counter()
    subprocess.run(
        [
            *(sys.executable, "-m", "kbeval", "run", "--engine", "a=hybrid", "--dataset", str(data)),
            *("--out", str(out), "--scheduler", address),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.perf_counter() - began, (out / "a.trec").read_bytes()


if __name__ == "__main__":
    main()
