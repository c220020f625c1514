"""Times comparing two runs of MS MARCO's size, whole process, against the tools that people use for it.

    python benchmarks/make_runs.py
    pip install pytrec-eval-terrier ir-measures ranx toolkit-rag-quality
    python benchmarks/compare_runs.py [--times 3] [--trec-eval PATH] [--runs 10]

Each tool reads both files, computes nDCG@10, MRR, recall@20 and MAP on every query and, where it can, a paired t-test.
The tools take turns within each round, so that a busy machine is unfair to none; the ratio of a round is kbeval's time
over the other's in that round. Peak memory is that of the largest process. A tool that is not installed is named and
left out. ``--runs`` also times kbeval on N copies of a run, to see how time and memory grow.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DATA = Path(__file__).parent / "data"
METRICS = "ndcg@10,mrr,recall@20,map"

PEERS = {
    "pytrec_eval": """
import sys, pytrec_eval
from scipy.stats import ttest_rel
qrels = pytrec_eval.parse_qrel(open(sys.argv[1]))
evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "recip_rank", "recall.20", "map"})
results = [evaluator.evaluate(pytrec_eval.parse_run(open(path))) for path in sys.argv[2:]]
for name in ("ndcg_cut_10", "recip_rank", "recall_20", "map"):
    a, b = ([result[query][name] for query in qrels] for result in results)
    print(name, sum(a) / len(a), sum(b) / len(b), ttest_rel(a, b).pvalue)
""",
    "ranx": """
import sys
from ranx import Qrels, Run, compare
qrels = Qrels.from_file(sys.argv[1], kind="trec")
runs = [Run.from_file(path, kind="trec") for path in sys.argv[2:]]
for number, run in enumerate(runs):
    run.name = str(number)
print(compare(qrels, runs, ["ndcg@10", "mrr", "recall@20", "map"], stat_test="student", make_comparable=True))
""",
    "ir_measures": """
import sys, ir_measures
from ir_measures import AP, R, RR, nDCG
from scipy.stats import ttest_rel
measures = [nDCG @ 10, RR, R @ 20, AP]
qrels = list(ir_measures.read_trec_qrels(sys.argv[1]))
values = []
for path in sys.argv[2:]:
    found = {}
    for row in ir_measures.iter_calc(measures, qrels, ir_measures.read_trec_run(path)):
        found[row.measure, row.query_id] = row.value
    values.append(found)
for measure in measures:
    keys = sorted(key[1] for key in values[0] if key[0] == measure)
    a, b = ([found[measure, key] for key in keys] for found in values)
    print(measure, sum(a) / len(a), sum(b) / len(b), ttest_rel(a, b).pvalue)
""",
    "toolkit-rag-quality": """
import subprocess, sys, tempfile
from pathlib import Path
with tempfile.TemporaryDirectory() as folder:
    reports = []
    for number, path in enumerate(sys.argv[2:]):
        report = str(Path(folder) / f"{number}.json")
        tool = [sys.executable, "-m", "toolkit_rag_quality"]
        arguments = ["--queries", sys.argv[1], "--retrieved", path, "--k", "10", "--out", report]
        subprocess.run([*tool, "score", *arguments], check=True)
        reports.append(report)
    subprocess.run([*tool, "compare", "--baseline", reports[0], "--candidate", reports[1], "--alpha", "0.05"])
""",
}
MODULES = {"toolkit-rag-quality": "toolkit_rag_quality"}


def commands(qrels: Path, runs: list[Path], trec_eval: str | None) -> dict[str, list[str]]:
    """The command line of each tool that is here."""
    files = [str(qrels), *map(str, runs)]
    found = {
        "kbeval": [
            *(sys.executable, "-m", "kbeval", "compare", *map(str, runs), "--qrels", str(qrels)),
            *("--metrics", METRICS, "--out", "OUT"),
        ]
    }
    for name, code in PEERS.items():
        module = MODULES.get(name, name)
        if subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True, check=False).returncode:
            print(f"{name}: not installed, left out", file=sys.stderr)
        else:
            found[name] = [sys.executable, "-c", code, *files]
    if trec_eval:
        measures = "-m ndcg_cut.10 -m recip_rank -m recall.20 -m map"
        script = "; ".join(f"{trec_eval} -q -c {measures} {qrels} {run}" for run in runs)
        found["trec_eval (no test)"] = ["sh", "-c", script]
    return found


def measure(command: list[str]) -> tuple[float, float]:
    """Wall seconds, and peak MB of the largest process."""
    with tempfile.TemporaryDirectory() as out, tempfile.TemporaryFile() as errors:
        command = [out if word == "OUT" else word for word in command]
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 4):  # toolkit-rag-quality says "worse" with 4
            errors.seek(0)
            raise SystemExit(f"{command[:4]} ended with {process.returncode}: {errors.read().decode()[-400:]}")
    return seconds, usage.ru_maxrss / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--trec-eval", default=shutil.which("trec_eval"))
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--only", help="comma-separated names of the tools to time beside kbeval")
    options = parser.parse_args()
    qrels, runs = DATA / "qrels.trec", [DATA / "a.trec", DATA / "b.trec"]
    tools = commands(qrels, runs, options.trec_eval)
    if options.only is not None:
        tools = {name: tools[name] for name in ("kbeval", *filter(None, options.only.split(",")))}
    rounds: list[dict[str, tuple[float, float]]] = []
    for number in range(options.times + 1):
        figures = {name: measure(command) for name, command in tools.items()}
        if number:  # the first round warms file caches and numba's cache, and is not counted
            rounds.append(figures)
        first = ", ".join(f"{name} {seconds:.1f} s" for name, (seconds, _) in figures.items())
        print(f"round {number}{'' if number else ' (not counted)'}: {first}", file=sys.stderr)
    print("| tool | seconds, median | lowest to highest | peak MB | kbeval's time over its, by round |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name in tools:
        seconds = [figures[name][0] for figures in rounds]
        ratios = " ".join(f"{figures['kbeval'][0] / figures[name][0]:.2f}" for figures in rounds)
        peak = max(figures[name][1] for figures in rounds)
        print(
            f"| {name} | {statistics.median(seconds):.1f} | {min(seconds):.1f} to {max(seconds):.1f} | {peak:.0f} "
            f"| {ratios} |"
        )
    if options.runs:
        growth(qrels, runs[0], options.runs)


def growth(qrels: Path, run: Path, count: int) -> None:
    """Times kbeval on one run and on ``count`` copies of it."""
    with tempfile.TemporaryDirectory(dir=DATA) as folder:
        copies = [Path(folder) / f"copy{number}.trec" for number in range(count)]
        for copy in copies:
            copy.hardlink_to(run)
        for size in (1, count):
            arguments = ["compare", *map(str, copies[:size]), "--qrels", str(qrels), "--metrics", METRICS]
            seconds, peak = measure([sys.executable, "-m", "kbeval", *arguments, "--out", "OUT"])
            print(f"kbeval on {size} run{'s' if size > 1 else ''}: {seconds:.1f} s, peak {peak:.0f} MB")


if __name__ == "__main__":
    main()
