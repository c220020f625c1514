"""Times what a newcomer runs first: ``kbeval --help`` and ``kbeval evaluate``, as whole processes.

Usage: python benchmarks/main_job.py [--runs 5]

Prints the median wall time of each and the peak memory of the kbeval process and of everything it started
together, sampled twenty times a second.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time

import psutil

COMMANDS = {"--help": ["--help"], "evaluate": ["evaluate", "--out"]}


def measure(arguments: list[str]) -> tuple[float, float]:
    """Wall seconds and peak MB (proportional set size, so that shared pages count once)."""
    started = time.perf_counter()
    process = psutil.Popen(
        [sys.executable, "-m", "kbeval", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    peak = 0
    while process.poll() is None:
        total = 0
        try:
            for member in (process, *process.children(recursive=True)):
                total += member.memory_full_info().pss
        except psutil.Error:
            pass
        peak = max(peak, total)
        time.sleep(0.05)
    if process.returncode != 0:
        raise SystemExit(f"kbeval {' '.join(arguments)} ended with {process.returncode}")
    return time.perf_counter() - started, peak / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    for label, arguments in COMMANDS.items():
        figures = []
        for _ in range(runs):
            with tempfile.TemporaryDirectory() as folder:
                figures.append(measure([*arguments, folder] if "--out" in arguments else arguments))
        seconds, peaks = zip(*figures, strict=True)
        print(
            f"kbeval {label}: median {statistics.median(seconds):.2f} s "
            f"({min(seconds):.2f} to {max(seconds):.2f}, {runs} runs), peak {max(peaks):.0f} MB"
        )


if __name__ == "__main__":
    main()
