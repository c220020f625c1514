"""Times reading one run: kbeval's reader, polars' plain read of the same bytes, and pytrec_eval's parser.

    python benchmarks/read_run.py [--run benchmarks/data/a.trec] [--times 5]

Each reading is a process of its own; the readers take turns, so that a busy machine is unfair to none.
Seconds are those of the reading alone, without imports: lowest and median. Processor time and peak memory
are those of the whole process.
polars reads six columns and orders nothing: it is the floor. kbeval checks, orders and refuses.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path


def read_with_kbeval(path: str) -> int:
    from kbeval.formats.trec import read_run

    started = time.perf_counter()
    rows = len(read_run(path).frame)
    report(started)
    return rows


def read_with_polars(path: str) -> int:
    import polars as pl

    schema = {
        "query": pl.String,
        "q0": pl.String,
        "document": pl.String,
        "rank": pl.Int64,
        "score": pl.Float64,
    }
    started = time.perf_counter()
    table = pl.read_csv(path, has_header=False, separator=" ", quote_char=None, schema=schema | {"tag": pl.String})
    report(started)
    return len(table)


def read_with_pytrec_eval(path: str) -> int:
    import pytrec_eval

    started = time.perf_counter()
    with Path(path).open(encoding="utf-8") as stream:
        run = pytrec_eval.parse_run(stream)
    report(started)
    return len(run)


READERS = {
    "kbeval": read_with_kbeval,
    "polars, plain": read_with_polars,
    "pytrec_eval": read_with_pytrec_eval,
}


def report(started: float) -> None:
    print(time.perf_counter() - started)


def measure(reader: str, path: Path) -> tuple[float, float, float]:
    """Seconds, processor seconds (imports included) and peak megabytes of one reading in a fresh process."""
    child = subprocess.Popen([sys.executable, __file__, "--reader", reader, "--run", str(path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    seconds = float(child.stdout.read())
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", type=Path, default=Path(__file__).parent / "data" / "a.trec")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--reader", choices=READERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.reader:
        READERS[options.reader](str(options.run))
        return
    results: dict[str, list[tuple[float, float, float]]] = {reader: [] for reader in READERS}
    for _ in range(options.times):
        for reader, its_results in results.items():
            its_results.append(measure(reader, options.run))
    print(f"{options.run.name}: {options.run.stat().st_size / 1e6:.0f} MB, {options.times} times")
    print(f"{'':14}  lowest  median  processor  peak MB")
    for reader, its_results in results.items():
        seconds, processor, peak = zip(*its_results, strict=True)
        wall = f"{min(seconds):5.2f}s  {statistics.median(seconds):5.2f}s"
        print(f"{reader:14}  {wall}  {statistics.median(processor):8.2f}s  {max(peak):7.0f}")


if __name__ == "__main__":
    main()
