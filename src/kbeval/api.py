"""Measuring and comparing from Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbeval.errors import KbevalError
from kbeval.evaluation.alignment import Domains, align, judge
from kbeval.evaluation.comparison import Comparison, Options, RunSource, compare_runs, read_source
from kbeval.evaluation.default_metrics import DEFAULT_METRICS, choose_metrics
from kbeval.evaluation.metrics import Metric, parse_metric, parse_metrics
from kbeval.evaluation.provenance import check_provenance
from kbeval.evaluation.scoring import Scores, score_aligned
from kbeval.evaluation.test_set import TestSet, from_dataset
from kbeval.formats import dataset as datasets
from kbeval.formats import trec
from kbeval.formats.dataset import Dataset
from kbeval.formats.sidecar import read_sidecar, sidecar_path
from kbeval.inputs import as_qrels, as_run
from kbeval.inputs.frames import is_frame
from kbeval.inputs.values import LARGEST_GRADE, found, id_of, name_of, path_of, share, whole
from kbeval.model import Qrels, Run

if TYPE_CHECKING:
    import os

    from kbeval.inputs import QrelsLike, RunLike

__all__ = ["Domains", "compare", "evaluate", "load_dataset", "parse_metric", "read_qrels", "read_run"]

_MOST = 1_000_000_000  # no list is as long, and every library can hold it
_ALPHA = (1e-6, 0.5)
# An alpha shared by so many pairs that each stands against less would take more than 40 million draws of signs a pair.
_LEAST_LEVEL = 1e-7


def read_run(path: str | os.PathLike[str], name: str | None = None) -> Run:
    """Reads a TREC run, plain or gzipped, as ``compare`` does: where a sidecar beside it says so, ids are decoded.

    Args:
        path: the file.
        name: the run's name; that of the file without it.

    Returns:
        The run in the one order, with a warning where a rank contradicts its score.

    Raises:
        KbevalError: the file cannot be read exactly; the message names the line.
    """
    return read_source(_from_file(path_of("run", path), None if name is None else name_of(name)))


def read_qrels(path: str | os.PathLike[str]) -> Qrels:
    """Reads judgments, plain or gzipped: TREC's four columns or BEIR's three, told apart by content.

    Raises:
        KbevalError: the file cannot be read exactly; the message names the line.
    """
    return trec.read_qrels(path_of("qrels", path))


def load_dataset(folder: str | os.PathLike[str], split: str = "test") -> Dataset:
    """Loads a data set in BEIR's layout: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/SPLIT.tsv`` (or ``.trec``).

    Raises:
        KbevalError: the folder is no data set, or a file cannot be read exactly.
    """
    return datasets.load_dataset(path_of("dataset", folder, forms="a folder"), id_of("split", split))


def evaluate(
    qrels: QrelsLike,
    run: RunLike,
    metrics: str | Metric | Iterable[str | Metric] | None = None,
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
        qrels: judgments: a path, ``{query: {document: grade}}``, ``{query: [relevant document, ...]}``, a frame,
            ``"ir_datasets:ID"`` or ``Qrels``. The queries named in them are the test set; one that has no judgment, or
            that the run lacks, scores 0.
        run: a path, ``{query: {document: score}}``, ``{query: [document, ...]}``, a frame or a ``Run``.
        metrics: names in any tool's spelling, comma-separated or one by one; kbeval's defaults without them.
        level: from which grade on a document is relevant.
        depth: cuts every list to its first documents.
        domains: the domain of each query and document, for ``domain_accuracy``.

    Returns:
        Values between 0 and 1 per query, in byte order of the query ids, and their means.

    Raises:
        KbevalError: an input or a metric's name is not as expected, or run and judgments share no query.
    """
    at = whole("level", level, most=LARGEST_GRADE)
    cut = None if depth is None else whole("depth", depth, most=_MOST)
    chosen = _metrics(metrics)
    known = _domains(domains)
    if metrics is not None and known is None and (lacking := [m.name for m in chosen if m.family.needs_domains]):
        raise KbevalError(f"{lacking[0]}: expected the domains of queries and documents (domains=...), found none")
    judgments = as_qrels(qrels)
    measured = read_source(_source(run, None))
    # A run without a line was let in where it is said that the engine found nothing.
    alignment = align(judge(judgments), measured, known, may_be_empty=measured.frame.is_empty())
    scores = score_aligned(alignment, chosen, level=at, depth=cut)
    return replace(scores, warnings=(*judgments.warnings, *measured.warnings, *scores.warnings))


def compare(
    qrels: QrelsLike | None,
    runs: Mapping[str, RunLike] | Mapping[int, RunLike] | Iterable[RunLike] | RunLike,
    *,
    metrics: str | Metric | Iterable[str | Metric] | None = None,
    primary: str | Metric = "mrr",
    baseline: str | None = None,
    depth: int | None = None,
    level: int = 1,
    alpha: float = 0.05,
    dataset: Dataset | str | os.PathLike[str] | None = None,
    force: bool = False,
) -> Comparison:
    """Compares runs: metrics side by side, statistics by clusters of questions, verdicts.

    >>> qrels = {"q1": {"d1": 1}, "q2": {"d2": 1}}
    >>> found = compare(qrels, {"new": {"q1": ["d1"], "q2": ["d2"]}, "old": {"q1": ["d1"], "q2": ["d2"]}})
    >>> found.pairs[0].verdict.word
    'identical'

    Args:
        qrels: as for ``evaluate``; None takes those of ``dataset``.
        runs: runs by name, ``{name: run}``, or a list of them (or just one). In a list a file is named by its file
            name, with its folder in front where two are alike, a ``Run`` by its own name, and a dict or frame ``run1``,
            ``run2`` and so on by its place. Files are read one after another, and a run's sidecar beside it is heeded
            as on the command line.
        metrics: as for ``evaluate``.
        primary: the one metric that verdicts are about; fix it before looking.
        baseline: compares every run with this one; all pairs without it.
        depth, level: as for ``evaluate``.
        alpha: the level of significance.
        dataset: a BEIR folder or a loaded data set: questions' styles and texts, the corpus, domains.
        force: compare runs although their sidecars name another corpus or other questions.

    Raises:
        KbevalError: as ``evaluate``; there is no run, or two have one name; no query has a relevant document; sidecars
            name another corpus and ``force`` is off.
    """
    at = whole("level", level, most=LARGEST_GRADE)
    cut = None if depth is None else whole("depth", depth, most=_MOST)
    significance = share("alpha", alpha, least=_ALPHA[0], most=_ALPHA[1])
    names = None if metrics is None else ",".join(metric.name for metric in _metrics(metrics))
    chosen, main = choose_metrics(names, None, primary.name if isinstance(primary, Metric) else primary)
    data = dataset if dataset is None or isinstance(dataset, Dataset) else load_dataset(dataset)
    if qrels is None and data is None:
        raise KbevalError("compare: expected qrels or a dataset, found neither")
    if not isinstance(force, bool):
        raise KbevalError(f"force: expected True or False, found {found(force)}")
    judgments = None if qrels is None else as_qrels(qrels)
    if data is not None:
        test_set = from_dataset(data, level=at, qrels=judgments)
    else:
        assert judgments is not None
        test_set = TestSet(judgments, level=at)
    sources = _sources(runs)
    if baseline is not None:
        baseline = name_of(baseline)
        if baseline not in (called := [source.name for source in sources]):
            raise KbevalError(f"baseline: expected one of {', '.join(called)}, found {found(baseline)}")
    pairs = len(sources) - 1 if baseline is not None else len(sources) * (len(sources) - 1) // 2
    share(f"alpha / {pairs} pairs", significance / max(pairs, 1), least=_LEAST_LEVEL, most=_ALPHA[1])
    warnings = [
        *(data.warnings if data is not None else ()),
        *(judgments.warnings if judgments is not None else ()),
        *check_provenance(sources, test_set, force=force),
    ]
    options = Options(metrics=chosen, primary=main, baseline=baseline, depth=cut, alpha=significance)
    return compare_runs(test_set, sources, options, warnings=warnings)


def _metrics(metrics: str | Metric | Iterable[str | Metric] | None) -> tuple[Metric, ...]:
    """The metrics that are asked for, each once."""
    if metrics is None:
        return parse_metrics(DEFAULT_METRICS)
    if isinstance(metrics, (str, Metric)):
        metrics = [metrics]
    elif not isinstance(metrics, Iterable):
        raise KbevalError(f"metrics: expected names of metrics, found {found(metrics)}")
    # By way of its name, so that one that was made by hand is checked too.
    texts = [metric.name if isinstance(metric, Metric) else metric for metric in metrics]
    if not texts:
        raise KbevalError("metrics: expected at least one, found none")
    if odd := [text for text in texts if not isinstance(text, str)]:
        raise KbevalError(f"metrics: expected names of metrics, found {found(odd[0])}")
    return tuple(dict.fromkeys(metric for text in texts for metric in parse_metrics(text)))


def _domains(domains: Any) -> Domains | None:
    if domains is None:
        return None
    if not isinstance(domains, Domains):
        raise KbevalError(f"domains: expected Domains, found {found(domains)}")
    sides = []
    for side in (domains.queries, domains.documents):
        if not isinstance(side, Mapping):
            raise KbevalError(f"domains: expected {{id: domain}} for queries and for documents, found {found(side)}")
        odd = [value for value in side.values() if not (value is None or isinstance(value, str))]
        if odd:
            raise KbevalError(f"domains: expected text or None as a domain, found {found(odd[0])}")
        sides.append({id_of("domains", key): value for key, value in side.items()})
    return Domains(*sides)


def _sources(runs: Any) -> list[RunSource]:
    """The runs, each under a name of its own."""
    if isinstance(runs, Mapping):
        if runs and all(_is_scores(value) for value in runs.values()):
            raise KbevalError("compare: expected runs by name, {name: run}, found a single run without a name")
        sources = [_source(run, name_of(name)) for name, run in runs.items()]
    else:
        if isinstance(runs, (str, Path, Run)) or is_frame(runs) or hasattr(runs, "__fspath__"):
            runs = [runs]
        elif not isinstance(runs, Iterable):
            raise KbevalError(f"compare: expected runs by name or a list of runs, found {found(runs)}")
        listed = list(runs)
        paths = [path_of("run", run) for run in listed if _is_path(run)]
        names = iter(trec.run_names(paths))
        sources = [
            _source(run, next(names) if _is_path(run) else None if isinstance(run, Run) else f"run{place}")
            for place, run in enumerate(listed, start=1)
        ]
    if not sources:
        raise KbevalError("compare: expected at least one run, found none")
    for name, times in Counter(source.name for source in sources).items():
        if times > 1:
            raise KbevalError(f"compare: expected a name of its own for each run, found {times} named {found(name)}")
    return sources


def _is_path(run: Any) -> bool:
    return isinstance(run, str) or hasattr(run, "__fspath__")


def _is_scores(value: Any) -> bool:
    """Whether it is one query's answer with its scores, and so no run."""
    return isinstance(value, Mapping) and bool(value) and not any(_holds_several(inner) for inner in value.values())


def _holds_several(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes))


def _source(run: Any, name: str | None) -> RunSource:
    """A run with its sidecar where it is a file, and checked where it is in memory."""
    if _is_path(run):
        return _from_file(path_of("run", run), name)
    checked = as_run(run, name)
    return RunSource(checked.name, checked)


def _from_file(path: Path, name: str | None) -> RunSource:
    own = trec.run_name(path)
    return RunSource(own if name is None else name, path, read_sidecar(sidecar_path(path, own)))
