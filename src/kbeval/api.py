"""Measuring and comparing from Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kbeval.errors import KbevalError
from kbeval.evaluation.comparison import Comparison, Options, RunSource, compare_runs
from kbeval.evaluation.default_metrics import DEFAULT_METRICS, choose_metrics
from kbeval.evaluation.metrics import Metric, parse_metric, parse_metrics
from kbeval.evaluation.provenance import check_provenance
from kbeval.evaluation.scoring import Scores, score
from kbeval.evaluation.test_set import TestSet, from_dataset
from kbeval.formats.dataset import Dataset, load_dataset
from kbeval.formats.sidecar import read_sidecar, sidecar_path
from kbeval.formats.trec import read_qrels, read_run, run_name, run_names
from kbeval.inputs import as_qrels, as_run

if TYPE_CHECKING:
    from kbeval.evaluation.alignment import Domains
    from kbeval.inputs import QrelsLike, RunLike

__all__ = ["compare", "evaluate", "load_dataset", "parse_metric", "read_qrels", "read_run"]


def evaluate(
    qrels: QrelsLike,
    run: RunLike,
    metrics: str | Iterable[str | Metric] | None = None,
    *,
    level: int = 1,
    depth: int | None = None,
    domains: Domains | None = None,
) -> Scores:
    """Scores one run on every query of the test set, as trec_eval -c does.

    >>> scores = evaluate({"q1": {"d1": 1}, "q2": {"d2": 1}}, {"q1": ["d3", "d1"]}, "mrr,recall@5")
    >>> scores.means
    {'mrr': 0.25, 'recall@5': 0.5}

    Args:
        qrels: judgments: a path, ``{query: {document: grade}}``, a frame, or ``"ir_datasets:ID"``. The queries named
            in them are the test set; one that the run lacks scores 0.
        run: a path, ``{query: {document: score}}``, ``{query: [document, ...]}`` or a frame.
        metrics: names in any tool's spelling, comma-separated or one by one; kbeval's defaults without them.
        level: from which grade on a document is relevant.
        depth: cuts every list to its first documents.
        domains: the domain of each query and document, for ``domain_accuracy``.

    Returns:
        Values between 0 and 1 per query, in byte order of the query ids, and their means.

    Raises:
        KbevalError: an input or a metric's name is not as expected, or run and judgments share no query.
    """
    return score(as_qrels(qrels), as_run(run), _metrics(metrics), level=level, depth=depth, domains=domains)


def compare(
    qrels: QrelsLike | None,
    runs: Mapping[str, RunLike] | Iterable[RunLike],
    *,
    metrics: str | Iterable[str | Metric] | None = None,
    primary: str = "mrr",
    baseline: str | None = None,
    depth: int | None = None,
    level: int = 1,
    alpha: float = 0.05,
    dataset: Dataset | str | Path | None = None,
    force: bool = False,
) -> Comparison:
    """Compares runs: metrics side by side, statistics by clusters of questions, verdicts.

    >>> qrels = {"q1": {"d1": 1}, "q2": {"d2": 1}}
    >>> found = compare(qrels, {"new": {"q1": ["d1"], "q2": ["d2"]}, "old": {"q1": ["d1"], "q2": ["d2"]}})
    >>> found.pairs[0].verdict.word
    'identical'

    Args:
        qrels: as for ``evaluate``; None takes those of ``dataset``.
        runs: runs by name, or paths, whose names are those of the files. Paths are read one after another, and a
            run's sidecar beside it is heeded as on the command line.
        metrics: as for ``evaluate``.
        primary: the one metric that verdicts are about; fix it before looking.
        baseline: compares every run with this one; all pairs without it.
        depth, level: as for ``evaluate``.
        alpha: the level of significance.
        dataset: a BEIR folder or a loaded data set: questions' styles and texts, the corpus, domains.
        force: compare runs although their sidecars name another corpus or other questions.

    Raises:
        KbevalError: as ``evaluate``; there is no run; sidecars name another corpus and ``force`` is off.
    """
    data = load_dataset(dataset) if isinstance(dataset, (str, Path)) else dataset
    if qrels is None and data is None:
        raise KbevalError("compare: expected qrels or a dataset, found neither")
    judgments = None if qrels is None else as_qrels(qrels)
    if data is not None:
        test_set = from_dataset(data, level=level, qrels=judgments)
    else:
        assert judgments is not None
        test_set = TestSet(judgments, level=level)
    sources = _sources(runs)
    if not sources:
        raise KbevalError("compare: expected at least one run, found none")
    warnings = check_provenance(sources, test_set, force=force)
    names = None if metrics is None else ",".join(metric.name for metric in _metrics(metrics))
    chosen, main = choose_metrics(names, None, primary)
    options = Options(metrics=chosen, primary=main, baseline=baseline, depth=depth, alpha=alpha)
    return compare_runs(test_set, sources, options, warnings=warnings)


def _metrics(metrics: str | Iterable[str | Metric] | None) -> tuple[Metric, ...]:
    if metrics is None:
        return parse_metrics(DEFAULT_METRICS)
    if isinstance(metrics, str):
        return parse_metrics(metrics)
    return tuple(metric if isinstance(metric, Metric) else parse_metric(metric) for metric in metrics)


def _sources(runs: Mapping[str, RunLike] | Iterable[RunLike]) -> list[RunSource]:
    if isinstance(runs, Mapping):
        named = list(runs.items())
    else:
        listed = list(runs)
        paths = [Path(run) for run in listed if not hasattr(run, "frame")]  # type: ignore[arg-type]
        by_path = dict(zip(paths, run_names(paths), strict=True))
        named = [(run.name, run) if hasattr(run, "frame") else (by_path[Path(run)], run) for run in listed]  # type: ignore[union-attr, arg-type]
    sources = []
    for name, run in named:
        if isinstance(run, (str, Path)):
            path = Path(run)
            sources.append(RunSource(name, path, read_sidecar(sidecar_path(path, run_name(path)))))
        else:
            sources.append(RunSource(name, as_run(run, name)))
    return sources
