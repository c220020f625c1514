"""Looks files over without changing anything: what is odd about them, and whether a second tool agrees."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kbeval.errors import KbevalError
from kbeval.evaluation.alignment import Judgments, align, judge
from kbeval.evaluation.metrics import parse_metrics
from kbeval.evaluation.scoring import score_aligned
from kbeval.evaluation.second_opinion import largest_difference
from kbeval.evaluation.ties import find_ties
from kbeval.formats.sidecar import read_sidecar, sidecar_path
from kbeval.formats.trec import read_qrels, read_run, run_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kbeval.model import Document, Qrels, Run

Mark = Literal["ok", "warning", "broken"]

CUTOFFS = (1, 3, 5, 10, 20, 100)
TIED_METRICS = parse_metrics("mrr,ndcg@10,recall@20,hit_rate@5")
MOST_GRADES = 10_000
_NAMED = 3


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    mark: Mark
    text: str


@dataclass
class FileReport:
    """What was found in one file."""

    file: str
    findings: list[Finding] = field(default_factory=list)

    def ok(self, text: str) -> None:
        """Notes something that is as it should be."""
        self.findings.append(Finding("ok", text))

    def warn(self, text: str) -> None:
        """Notes something that a person should know."""
        self.findings.append(Finding("warning", text))

    def broken(self, text: str) -> None:
        """Notes something that makes the file unusable, or a number wrong."""
        self.findings.append(Finding("broken", text))

    @property
    def is_broken(self) -> bool:
        """Whether anything is."""
        return any(finding.mark == "broken" for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def examine(
    qrels_path: Path, run_paths: Sequence[Path], *, level: int = 1, documents: Sequence[Document] = ()
) -> list[FileReport]:
    """Looks over the judgments and every run. A file that cannot be read is a finding; the others are looked at.

    Args:
        qrels_path: judgments, BEIR or TREC.
        run_paths: TREC runs.
        level: from which grade on a document is relevant.
        documents: the corpus, where it is at hand.
    """
    report = FileReport(str(qrels_path))
    reports = [report]
    qrels: Qrels | None = None
    known = {document.id for document in documents}
    try:
        qrels = read_qrels(qrels_path)
        judgments = judge(qrels)
        _judgments(report, qrels, judgments, level, known)
    except KbevalError as error:
        report.broken(str(error))
    for path in run_paths:
        report = FileReport(str(path))
        reports.append(report)
        try:
            run = read_run(path)
            _run(report, path, run, known)
            if qrels is not None:
                _against(report, run, qrels, judgments, level)
        except KbevalError as error:
            report.broken(str(error))
    return reports


def _judgments(report: FileReport, qrels: Qrels, judgments: Judgments, level: int, known: set[str]) -> None:
    frame = qrels.frame
    grades = ", ".join(
        f"{count} of grade {grade}" for grade, count in frame["grade"].value_counts().sort("grade").iter_rows()
    )
    report.ok(f"{len(judgments.queries)} queries, {frame.height} judgments: {grades}")
    for warning in qrels.warnings:
        report.warn(warning)
    without = [judgments.queries[i] for i in np.flatnonzero(judgments.count(level) == 0)]
    if without:
        report.warn(f"{len(without)} queries have no document of grade {level} or more, and count 0: {_some(without)}")
    both = sorted(set(judgments.queries) & (known or set(frame["document"])))
    if both:
        report.warn(f"{len(both)} query ids are document ids too, which some tools drop: {_some(both)}")
    if known:
        strangers = sorted(set(frame["document"]) - known)
        if strangers:
            report.warn(f"{len(strangers)} judged documents are not in the corpus: {_some(strangers)}")


def _run(report: FileReport, path: Path, run: Run, known: set[str]) -> None:
    lengths = run.frame.group_by("query").len()["len"].to_numpy()
    report.ok(
        f"{len(lengths)} queries, {run.frame.height} lines, from {lengths.min()} to {lengths.max()} documents a query"
    )
    for warning in run.warnings:
        report.warn(warning)
    if known:
        strangers = sorted(set(run.frame["document"]) - known)
        if strangers:
            report.warn(f"{len(strangers)} documents are not in the corpus: {_some(strangers)}")
    sidecar = read_sidecar(sidecar_path(path, run_name(path)))
    if sidecar is None:
        report.ok("no sidecar: nothing is known of the engine")
    else:
        errors = f", {len(sidecar.errors)} queries errored" if sidecar.errors else ""
        text = f"sidecar: engine {sidecar.engine.name} ({sidecar.engine.type}), k = {sidecar.k}{errors}"
        (report.warn if sidecar.errors else report.ok)(text)
        if lengths.max() > sidecar.k:
            report.warn(f"its longest list has {lengths.max()} documents, although its sidecar says k = {sidecar.k}")


def _against(report: FileReport, run: Run, qrels: Qrels, judgments: Judgments, level: int) -> None:
    alignment = align(judgments, run)
    missing = [judgments.queries[i] for i in np.flatnonzero(alignment.returned == 0)]
    if missing:
        report.warn(f"{len(missing)} judged queries are not in the run, and count 0: {_some(missing)}")
    if alignment.strangers:
        report.warn(
            f"{len(alignment.strangers)} queries of the run are not judged, and are left out: "
            f"{_some(alignment.strangers)}"
        )
    judged = parse_metrics("judged@10")
    share = score_aligned(alignment, judged, level=level).means["judged@10"]
    unjudged = 1 - len(alignment.hits.query) / max(int(alignment.returned.sum()), 1)
    report.ok(f"judged@10 {share:.4f}; {unjudged:.1%} of all lines name a document that nobody judged")
    cutoffs = parse_metrics(",".join(f"hit_rate@{k}" for k in CUTOFFS))
    ties = find_ties(run, alignment, [*TIED_METRICS, *cutoffs], level=level)
    if ties.queries:
        straddling = ", ".join(f"{count} at {k}" for k, count in ties.straddling.items() if count) or "none"
        ranges = "; ".join(
            f"{metric.label} {ties.ranges[metric.name][0]:.4f} to {ties.ranges[metric.name][1]:.4f}"
            for metric in TIED_METRICS
        )
        report.warn(
            f"{ties.queries} queries hold equal scores, which kbeval orders by document id as trec_eval does; "
            f"across a cut-off: {straddling}; over all orders: {ranges}"
        )
    else:
        report.ok("no equal scores")
    _second_opinion(report, run, qrels, judgments, level)


def _second_opinion(report: FileReport, run: Run, qrels: Qrels, judgments: Judgments, level: int) -> None:
    highest = int(qrels.frame["grade"].max() or 0)  # type: ignore[arg-type]
    if highest > MOST_GRADES:
        report.warn(f"grades up to {highest}: pytrec_eval counts through them one by one, so it was not asked")
        return
    try:
        difference = largest_difference(qrels, run, align(judgments, run), level=level)
    except ImportError:
        report.warn("pytrec_eval is not installed, so there is no second opinion: pip install 'kbeval[doctor]'")
        return
    text = (
        f"pytrec_eval, {difference.metrics} metrics on {difference.queries} queries: largest difference "
        f"{difference.largest:.1e}"
    )
    if difference.agrees:
        report.ok(text)
    else:
        report.broken(f"{text}, on {difference.metric} of query {difference.query!r}")


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_NAMED])
    return f"{shown}, ..." if len(names) > _NAMED else shown
