"""Looks files over without changing anything: what is odd about them, and whether a second tool agrees."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from kbeval.errors import KbevalError
from kbeval.evaluation import second_opinion
from kbeval.evaluation.alignment import align, judge
from kbeval.evaluation.comparison import RunSource, found_nothing, read_source
from kbeval.evaluation.metrics import parse_metrics
from kbeval.evaluation.provenance import check_provenance
from kbeval.evaluation.scoring import score_aligned
from kbeval.evaluation.test_set import TestSet, from_dataset
from kbeval.evaluation.ties import find_ties
from kbeval.formats.dataset import load_dataset
from kbeval.formats.sidecar import read_sidecar, sidecar_path
from kbeval.formats.trec import read_qrels, run_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from kbeval.evaluation.alignment import Alignment, Judgments
    from kbeval.formats.dataset import Dataset
    from kbeval.formats.sidecar import Sidecar
    from kbeval.model import Qrels, Run

Mark = Literal["ok", "warning", "broken"]

TIED_METRICS = parse_metrics("mrr,ndcg@10,recall@20,hit_rate@5")
_CUTOFFS = parse_metrics(",".join(f"hit_rate@{k}" for k in second_opinion.CUTOFFS))
_JUDGED = parse_metrics("judged@10")
_NAMED = 3


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        mark: how it is.
        check: what was looked at, by a name that stays.
        text: a sentence for people, on one line.
        values: the numbers and ids in it, for programs: all of them, where the sentence names some.
    """

    mark: Mark
    check: str
    text: str
    values: dict[str, Any] = field(default_factory=dict)


@dataclass
class FileReport:
    """What was found in one file."""

    file: str
    findings: list[Finding] = field(default_factory=list)

    def ok(self, check: str, text: str, **values: object) -> None:
        """Notes something that is as it should be."""
        self._add("ok", check, text, values)

    def warn(self, check: str, text: str, **values: object) -> None:
        """Notes something that a person should know."""
        self._add("warning", check, text, values)

    def broken(self, check: str, text: str, **values: object) -> None:
        """Notes something that makes the file unusable, or a number wrong."""
        self._add("broken", check, text, values)

    def _add(self, mark: Mark, check: str, text: str, values: dict[str, Any]) -> None:
        self.findings.append(Finding(mark, check, " ".join(text.split()), values))

    @property
    def is_broken(self) -> bool:
        """Whether anything is."""
        return any(finding.mark == "broken" for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class _Known:
    """What runs are held against, as far as it could be read."""

    level: int
    qrels: Qrels | None
    judgments: Judgments | None
    dataset: Dataset | None
    documents: pl.Series | None

    def outside_the_corpus(self, documents: pl.Series) -> list[str]:
        """The ids that the corpus lacks; none where there is no corpus."""
        if self.documents is None:
            return []
        distinct = documents.unique()
        return distinct.filter(~distinct.is_in(self.documents.implode())).sort().to_list()


def examine(
    qrels_path: Path,
    run_paths: Sequence[Path],
    *,
    level: int = 1,
    dataset_folder: Path | None = None,
    split: str = "test",
) -> list[FileReport]:
    """Looks over the judgments, the data set if there is one, and every run.

    A file that cannot be read is a finding; the others are looked at all the same.

    Args:
        qrels_path: judgments, BEIR or TREC.
        run_paths: TREC runs.
        level: from which grade on a document is relevant.
        dataset_folder: the data set that they are about.
        split: which of its judgments are its own.
    """
    dataset, reports = None, []
    if dataset_folder is not None:
        dataset, report = _dataset(dataset_folder, split)
        reports.append(report)
    known, report = _judgments(qrels_path, dataset, level)
    reports.append(report)
    first: RunSource | None = None
    for path in run_paths:
        source, report = _run(path, known, first)
        first = first or (source if source.sidecar else None)
        reports.append(report)
    return reports


def _dataset(folder: Path, split: str) -> tuple[Dataset | None, FileReport]:
    report = FileReport(str(folder))
    try:
        dataset = load_dataset(folder, split)
    except KbevalError as error:
        report.broken("read", str(error))
        return None, report
    documents, queries = len(dataset.documents), len(dataset.queries)
    text = f"{_count(documents, 'document')}, {_count(queries, 'query', 'queries')} with judgments in split {split!r}"
    report.ok("size", text, documents=documents, queries=queries)
    for warning in dataset.warnings:
        report.warn("dataset", warning)
    return dataset, report


def _judgments(path: Path, dataset: Dataset | None, level: int) -> tuple[_Known, FileReport]:
    report = FileReport(str(path))
    corpus = pl.Series([document.id for document in dataset.documents], dtype=pl.String) if dataset else None
    try:
        qrels = read_qrels(path)
    except KbevalError as error:
        report.broken("read", str(error))
        return _Known(level, None, None, dataset, corpus), report
    judgments = judge(qrels)
    known = _Known(level, qrels, judgments, dataset, corpus)
    queries, frame = judgments.queries, qrels.frame
    grades = dict(frame["grade"].value_counts().sort("grade").iter_rows())
    report.ok(
        "size",
        f"{_count(len(queries), 'query', 'queries')}, {_count(frame.height, 'judgment')}: "
        + ", ".join(f"{count} of grade {grade}" for grade, count in grades.items()),
        queries=len(queries),
        judgments=frame.height,
        grades={str(grade): count for grade, count in grades.items()},
    )
    for warning in qrels.warnings:
        report.warn("repeats", warning)
    if negative := sum(count for grade, count in grades.items() if grade < 0):
        text = f"{_count(negative, 'judgment')} below 0: unjudged, with no gain"
        report.ok("negative", text, judgments=negative)
    if without := [queries[i] for i in np.flatnonzero(judgments.count(level) == 0)]:
        text = f"{_count(len(without), 'query has', 'queries have')} no document of grade {level} or more, and count 0"
        report.warn("without relevant", f"{text}: {_some(without)}", queries=without)
    both = set(queries) & set((frame["document"] if corpus is None else corpus).to_list())
    if both:
        text = f"{_count(len(both), 'query id is a document id', 'query ids are document ids')} too"
        report.warn("shared ids", f"{text}, which some tools drop: {_some(sorted(both))}", ids=sorted(both))
    if strangers := known.outside_the_corpus(frame["document"]):
        text = f"{_count(len(strangers), 'judged document is', 'judged documents are')} not in the corpus"
        report.warn("corpus", f"{text}: {_some(strangers)}", documents=strangers)
    return known, report


def _run(path: Path, known: _Known, first: RunSource | None) -> tuple[RunSource, FileReport]:
    """Looks over a run; ``first`` is the one whose sidecar the others are held against."""
    report = FileReport(str(path))
    name = run_name(path)
    sidecar: Sidecar | None = None
    try:
        sidecar = read_sidecar(sidecar_path(path, name))
    except KbevalError as error:
        report.broken("sidecar", str(error))
    source = RunSource(name, path, sidecar)
    try:
        run = read_source(source)
    except KbevalError as error:
        report.broken("read", str(error))
        return source, report
    lengths = run.frame.group_by("query").len()["len"]
    shortest, longest = (int(lengths.min() or 0), int(lengths.max() or 0))  # type: ignore[arg-type]
    report.ok(
        "size",
        f"{_count(len(lengths), 'query', 'queries')}, {_count(run.frame.height, 'line')}, "
        f"from {shortest} to {_count(longest, 'document')} a query",
        queries=len(lengths),
        lines=run.frame.height,
        shortest=shortest,
        longest=longest,
    )
    for warning in run.warnings:
        report.warn("order" if run.frame.height else "empty", warning)
    if strangers := known.outside_the_corpus(run.frame["document"]):
        text = f"{_count(len(strangers), 'document is', 'documents are')} not in the corpus"
        report.warn("corpus", f"{text}: {_some(strangers)}", documents=strangers)
    if sidecar is not None:
        _sidecar(report, source, sidecar, known, first, queries=len(lengths), longest=longest)
    elif not report.is_broken:
        report.ok("sidecar", "no sidecar: nothing is known of the engine")
    if known.qrels is not None and known.judgments is not None:
        _against(report, run, sidecar, known.qrels, known.judgments, known.level)
    return source, report


def _sidecar(
    report: FileReport,
    source: RunSource,
    sidecar: Sidecar,
    known: _Known,
    first: RunSource | None,
    *,
    queries: int,
    longest: int,
) -> None:
    report.ok(
        "sidecar",
        f"sidecar: engine {sidecar.engine.name} ({sidecar.engine.type}), k = {sidecar.k}",
        engine=sidecar.engine.name,
        type=sidecar.engine.type,
        k=sidecar.k,
    )
    if sidecar.errors:
        failed = sorted(sidecar.errors)
        text = f"the engine failed on {_count(len(failed), 'query', 'queries')}: {_some(failed)}"
        report.warn("errors", text, queries=failed)
    answered = sidecar.counts.get("answered", queries)
    if answered != queries:
        text = f"its sidecar says that {_count(answered, 'query', 'queries')} had an answer, the file holds {queries}"
        report.warn("sidecar answers", text, sidecar=answered, file=queries)
    if longest > sidecar.k:
        text = f"its longest list has {_count(longest, 'document')}, although its sidecar says k = {sidecar.k}"
        report.warn("sidecar k", text, longest=longest, k=sidecar.k)
    if known.dataset is not None:
        problems = check_provenance([source], from_dataset(known.dataset, level=known.level), force=True)
    elif first is not None and known.qrels is not None:
        problems = check_provenance([first, source], TestSet(known.qrels), force=True)
    else:
        problems = []
    for problem in problems:
        report.warn("provenance", f"{problem}; compare refuses that without --force")


def _against(
    report: FileReport, run: Run, sidecar: Sidecar | None, qrels: Qrels, judgments: Judgments, level: int
) -> None:
    """What the run and the judgments say together."""
    try:
        alignment = align(judgments, run, may_be_empty=found_nothing(sidecar))
    except KbevalError as error:
        report.broken("queries", str(error))
        return
    failed = set(sidecar.errors) if sidecar else set()
    absent = [judgments.queries[i] for i in np.flatnonzero(alignment.returned == 0)]
    if missing := [query for query in absent if query not in failed]:
        text = f"{_count(len(missing), 'judged query is', 'judged queries are')} not in the run, and count 0"
        report.warn("missing", f"{text}: {_some(missing)}", queries=missing)
    if strangers := alignment.strangers:
        text = f"{_count(len(strangers), 'query of the run is', 'queries of the run are')} not judged, and left out"
        report.warn("not judged", f"{text}: {_some(strangers)}", queries=list(strangers))
    answers = run.frame.filter(pl.col("query") == pl.col("document"))["query"].to_list()
    if answers:
        text = f"{_count(len(answers), 'query has', 'queries have')} a document of the same id among the answers"
        report.warn("own id", f"{text}, which some tools drop: {_some(answers)}", queries=answers)
    share = score_aligned(alignment, _JUDGED, level=level).means["judged@10"]
    lines = int(alignment.returned.sum())
    unjudged = (lines - int(np.sum(alignment.grade >= 0))) / max(lines, 1)
    report.ok(
        "judged",
        f"judged@10 {share:.4f}; of all lines on judged queries {unjudged:.1%} name a document that nobody judged",
        judged_at_10=share,
        unjudged=unjudged,
    )
    _ties(report, run, alignment, level)
    _second_opinion(report, run, qrels, alignment, level)


def _ties(report: FileReport, run: Run, alignment: Alignment, level: int) -> None:
    ties = find_ties(run, alignment, [*TIED_METRICS, *_CUTOFFS], level=level)
    if not ties.queries:
        report.ok("ties", "no equal scores", queries=0)
        return
    straddling = {k: count for k, count in ties.straddling.items() if count}
    ranges = {metric.label: ties.ranges[metric.name] for metric in TIED_METRICS}
    report.warn(
        "ties",
        f"{_count(ties.queries, 'query holds', 'queries hold')} equal scores, which kbeval orders by document id as "
        f"trec_eval does; across a cut-off: {', '.join(f'{n} at {k}' for k, n in straddling.items()) or 'none'}; "
        f"over all orders: {'; '.join(f'{label} {low:.4f} to {high:.4f}' for label, (low, high) in ranges.items())}",
        queries=ties.queries,
        straddling={str(k): count for k, count in ties.straddling.items()},
        ranges={metric.name: ties.ranges[metric.name] for metric in TIED_METRICS},
    )


def _second_opinion(report: FileReport, run: Run, qrels: Qrels, alignment: Alignment, level: int) -> None:
    check = "pytrec_eval"
    if not second_opinion.is_installed():
        text = "pytrec_eval is not installed, so there is no second opinion: pip install 'kbeval[doctor]'"
        report.warn(check, text)
        return
    highest = int(qrels.frame["grade"].max() or 0)  # type: ignore[arg-type]
    if highest > second_opinion.HIGHEST_GRADE:
        text = f"grades up to {highest}: pytrec_eval counts through them one by one, so it was not asked"
        report.warn(check, text, highest=highest)
        return
    difference = second_opinion.largest_difference(qrels, run, alignment, level=level)
    text = (
        f"pytrec_eval, {difference.metrics} metrics on {_count(difference.queries, 'query', 'queries')}: "
        f"largest difference {difference.largest:.1e}"
    )
    if difference.largest:
        text += f", on {difference.metric} of query {difference.query!r}"
    (report.ok if difference.agrees else report.broken)(check, text, **asdict(difference))


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(map(repr, listed[:_NAMED])) + (", ..." if len(listed) > _NAMED else "")
