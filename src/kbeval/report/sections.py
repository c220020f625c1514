"""The tables of a comparison, each built once and shown on a terminal, in Markdown, CSV or LaTeX."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kbeval.evaluation.losses import FATES, lost_gold
from kbeval.evaluation.misses import sampled_misses, share_with_interval, shuffle
from kbeval.evaluation.partial import in_common
from kbeval.evaluation.slices import overlap_spreads, slices
from kbeval.evaluation.statistics import detectable
from kbeval.evaluation.strata import ALL, deciding_strata
from kbeval.formats.sidecar import NOT_ASKED
from kbeval.report.sentences import deciding, fixed, headline, interval, listed, signed, verdict_sentence
from kbeval.report.tables import Table

if TYPE_CHECKING:
    from kbeval.evaluation.comparison import Comparison, PairResult, RunResult
    from kbeval.evaluation.statistics import PairStatistics

DIFFERING_QUERIES = 10
MOST_RUNS_ABREAST = 6
MOST_PAIRS_ABREAST = 3
MOST_PAIRS_BOOTSTRAPPED = 10
MOST_PAIRS_EXPLORED = 30
_DASH = "–"


def metrics_table(comparison: Comparison) -> Table:
    """Engine by metric and k: means over all queries, and what chance would score."""
    metrics = comparison.metrics
    rows = [[run.name, *(fixed(run.mean(metric.name), 4) for metric in metrics)] for run in comparison.runs]
    if comparison.chance:
        rows.append(["chance", *(fixed(comparison.chance.get(metric.name), 4) for metric in metrics)])
    return Table(["All questions", *(metric.label for metric in metrics)], rows, title="Every metric")


def metrics_by_run(comparison: Comparison) -> Table:
    """The same the other way round, which fits a terminal: a line a metric, a column a run."""
    headers = ["All questions", *(run.name for run in comparison.runs)]
    if comparison.chance:
        headers.append("chance")
    rows = []
    for metric in comparison.metrics:
        row = [metric.label, *(fixed(run.mean(metric.name), 4) for run in comparison.runs)]
        if comparison.chance:
            row.append(fixed(comparison.chance.get(metric.name), 4))
        rows.append(row)
    return Table(headers, rows, title="Every metric")


def slices_table(comparison: Comparison, *, brief: bool = False) -> Table | None:
    """Metrics by slice: kind, source, third by overlap; the primary metric alone where ``brief`` or runs are many.

    None where there is but one slice, or where ``brief`` would say no more than the table by kind of question.
    """
    found = slices(comparison.test_set)
    if brief:
        found = [each for each in found if each.by != "kind"]
    if len(found) < 2:
        return None
    runs = comparison.runs
    rows = []
    if brief or len(runs) > MOST_RUNS_ABREAST:
        primary = comparison.options.primary
        for each in found:
            figures = [fixed(run.mean(primary.name, each.rows)) for run in runs]
            rows.append([each.by, each.name, str(len(each.rows)), *figures])
        headers = ["By", "questions", "n", *(f"{run.name} {primary.label}" for run in runs)]
        return Table(headers, rows, left=2, title=f"{primary.label} by slice")
    for each in found:
        for number, run in enumerate(runs):
            place = [each.by, each.name, str(len(each.rows))] if number == 0 else ["", "", ""]
            rows.append([*place, run.name, *(fixed(run.mean(metric.name, each.rows)) for metric in comparison.metrics)])
    headers = ["By", "questions", "n", "run", *(metric.label for metric in comparison.metrics)]
    return Table(headers, rows, left=4, title="Every metric by slice")


def overlap_table(comparison: Comparison) -> Table | None:
    """How many of their words the questions of each kind share with their gold text; none where it is not known."""
    rows = [
        [of.name, str(of.questions), fixed(of.mean, 2), *(fixed(quartile, 2) for quartile in of.quartiles)]
        for of in overlap_spreads(comparison.test_set)
    ]
    if not rows:
        return None
    headers = ["Questions", "n", "mean", "lower quartile", "median", "upper quartile"]
    return Table(headers, rows, title="Lexical overlap with the gold text")


def added_gold_table(comparison: Comparison) -> Table | None:
    """Every metric with and without the gold that labels added; none where they added nothing."""
    rows = []
    for run in comparison.runs:
        if run.without_added is None:
            return None
        fewer = run.without_added.means
        rows.append([run.name, "with", *(fixed(run.mean(metric.name), 4) for metric in comparison.metrics)])
        rows.append(["", "without", *(fixed(fewer.get(metric.name), 4) for metric in comparison.metrics)])
    headers = ["Run", "added gold", *(metric.label for metric in comparison.metrics)]
    return Table(headers, rows, left=2, title="With and without the gold that labels added")


def labels_table(comparison: Comparison) -> Table | None:
    """Each run's judged@10, and its score without the labels that it alone brought in; none without a pool."""
    if not (comparison.test_set.judged_by_runs or comparison.test_set.pools):
        return None
    label = comparison.options.primary.label
    rows = []
    for run in comparison.runs:
        mean = run.mean(comparison.options.primary.name)
        own = mean if run.without_own_labels is None else run.without_own_labels
        pooled = {True: "yes", False: "no", None: _DASH}[run.pooled]
        rows.append([run.name, pooled, fixed(float(run.judged.mean()), 4), fixed(mean, 4), fixed(own, 4)])
    headers = ["Run", "pooled", "judged@10", label, f"{label} without its own labels"]
    return Table(headers, rows, title="What the labels owe to each run")


def unanswerable_table(comparison: Comparison) -> Table | None:
    """The questions that the corpus does not answer, with each engine's top score; none where there are none."""
    unanswerable = comparison.test_set.unanswerable
    if not unanswerable:
        return None
    rows = []
    for query in sorted(unanswerable):
        scores = [run.top_scores.get(query) for run in comparison.runs]
        shown = [_DASH if score is None else f"{score:.6g}" for score in scores]
        rows.append([query, unanswerable[query].text, *shown])
    headers = ["Query", "question", *(f"{run.name} top score" for run in comparison.runs)]
    return Table(headers, rows, left=2, title="Questions that the corpus does not answer")


def counts_table(comparison: Comparison) -> Table:
    """N questions, M errored, K missing, by run."""
    queries = str(len(comparison.test_set.queries))
    rows = [[run.name, queries, str(len(run.errors)), str(len(run.missing))] for run in comparison.runs]
    return Table(["Run", "questions", "errored", "missing"], rows, title="Runs")


def error_rows(comparison: Comparison) -> list[list[str]]:
    """The run, the question and the error of each failure; what a run was not asked for one reason is one row."""
    rows = []
    for run in comparison.runs:
        rows += [[run.name, query, line] for query, line in sorted(run.failed.items())]
        unasked = [line for line in run.errors.values() if line.startswith(NOT_ASKED)]
        if unasked:
            rows.append([run.name, f"{len(unasked)} more", unasked[0]])
    return rows


def verdicts_table(comparison: Comparison) -> Table:
    """Each pair's verdict, in a word and in a sentence."""
    rows = [[pair.a, pair.b, pair.verdict.word, verdict_sentence(comparison, pair)] for pair in comparison.pairs]
    return Table(["a", "b", "verdict", "in words"], rows, left=4, title="Verdicts")


def strata_table(comparison: Comparison, *, narrow: bool = False) -> Table:
    """The primary metric by stratum: documents, questions, errors, each run with its interval.

    Unless ``narrow``, also each difference with its interval, wins/ties/losses and detectable difference (where there
    are few pairs), and judged@10.
    """
    runs = comparison.runs
    label = comparison.options.primary.label
    headers = ["Questions", "documents", "n", "errors", *(f"{run.name} {label}" for run in runs)]
    pairs = [] if narrow or len(comparison.pairs) > MOST_PAIRS_ABREAST else comparison.pairs
    headers += [f"{pair.a} − {pair.b}; w/t/l; detectable" for pair in pairs]
    headers += [] if narrow else [f"{run.name} judged@10" for run in runs]
    rows = []
    for stratum, at in comparison.test_set.stratum_rows.items():
        rows.append(_stratum_row(comparison, stratum, at))
    if len(rows) > 1:
        everything = np.arange(len(comparison.test_set.queries))
        styles = deciding_strata(comparison.test_set.strata)
        if styles != (ALL,) and len(styles) > 1:
            at = np.concatenate([comparison.test_set.stratum_rows[style] for style in styles])
            row = _stratum_row(comparison, f"mean of {', '.join(styles)}", at)
            for place, run in enumerate(runs):
                row[4 + place] = fixed(headline(comparison, run))
            for place, pair in enumerate(pairs):
                of = None if pair.asked_by_both is not None else pair.verdict.overall
                row[4 + len(runs) + place] = _difference_cell(of, comparison.difference(pair, at))
            rows.append(row)
        rows.append(_stratum_row(comparison, "all (trec_eval's mean)", everything))
    return Table(headers, [row[: len(headers)] for row in rows], title=f"{label} by kind of question")


def pairs_table(comparison: Comparison) -> Table:
    """Each pair on the primary metric: the difference by stratum and for the verdict.

    Of a pair of which one was not asked every question, it is the difference on what both were.
    """
    rows = []
    for pair in comparison.pairs:
        if pair.asked_by_both is not None:
            shared = pair.asked_by_both.difference
            parts = [("asked of both", shared, shared)] if shared is not None else []
        else:
            parts = _parts(comparison, pair)
        for number, (name, of, counted) in enumerate(parts):
            rows.append(
                [
                    f"{pair.a} − {pair.b}" if number == 0 else "",
                    name,
                    signed(of.cluster_delta),
                    interval(of),
                    _p(of.p),
                    _p(of.p_sign_flip),
                    f"{counted.wins}/{counted.ties}/{counted.losses}",
                    str(of.clusters),
                    fixed(of.mdd),
                ]
            )
    headers = ["Pair", "questions", "difference", "95 %", "p", "p sign-flip", "w/t/l", "clusters", "detectable"]
    return Table(headers, rows, left=2, title=f"Differences in {comparison.options.primary.label}")


def _parts(comparison: Comparison, pair: PairResult) -> list[tuple[str, PairStatistics, PairStatistics]]:
    """What a verdict is made of: a name, the statistics, and those whose wins, ties and losses are counted."""
    styles = deciding(comparison)
    parts = [(name, of, of) for name, of in pair.verdict.by_stratum.items()]
    if len(styles) > 1:
        at = np.concatenate([comparison.test_set.stratum_rows[style] for style in styles])
        counted = comparison.difference(pair, at) or pair.verdict.overall
        parts.append((f"mean of {', '.join(styles)}", pair.verdict.overall, counted))
    if len(parts) > 1:
        of = pair.cells[comparison.options.primary.name]
        parts.append(("all", of, of))
    return parts


def exploratory_table(comparison: Comparison) -> Table:
    """Every pair on every metric over all questions: intervals, no adjusted p.

    Not those of which one was not asked every question: what is missing would count with 0.
    """
    rows = []
    for pair in comparison.pairs:
        for number, metric in enumerate(comparison.metrics):
            if metric.name not in pair.cells or pair.asked_by_both is not None:
                continue
            of = pair.cells[metric.name]
            primary = metric.name == comparison.options.primary.name
            rows.append(
                [
                    f"{pair.a} − {pair.b}" if number == 0 else "",
                    metric.label,
                    signed(of.cluster_delta, 4),
                    interval(of),
                    _p(of.p),
                    _p(pair.p_adjusted) if primary else "",
                    _p(pair.p_paired_t[metric.name]),
                    signed(of.effect_size, 2) if of.effect_size is not None else _DASH,
                ]
            )
    headers = ["Pair", "metric", "difference", "95 %", "p", "p Holm", "p plain t", "effect size"]
    return Table(headers, rows, left=2, title="Every pair on every metric")


def without_errors_table(comparison: Comparison) -> Table | None:
    """Each pair with the questions removed on which either engine failed; none where no engine did."""
    rows = [
        [f"{pair.a} − {pair.b}", str(of.queries), signed(of.cluster_delta), interval(of), _p(of.p)]
        for pair in comparison.pairs
        if (of := pair.without_errors) is not None
    ]
    if not rows:
        return None
    return Table(["Pair", "questions", "difference", "95 %", "p"], rows, title="Without the questions that errored")


def partial_table(comparison: Comparison) -> Table | None:
    """Every metric on the questions that a partial run was asked; none where every run was asked all of them."""
    rows = []
    for partial in comparison.runs:
        if partial.asked is None:
            continue
        for number, run in enumerate([partial, *(run for run in comparison.runs if run is not partial)]):
            if (common := in_common(partial.asked, run.asked)) is None or not len(common):
                continue
            rows.append(
                [
                    partial.name if number == 0 else "",
                    run.name,
                    str(len(common)),
                    *(fixed(run.mean(metric.name, common), 4) for metric in comparison.metrics),
                ]
            )
    headers = ["Asked of", "run", "n", *(metric.label for metric in comparison.metrics)]
    title = "On the questions that were asked of a partial or incomplete run"
    return Table(headers, rows, left=2, title=title) if rows else None


def lost_table(comparison: Comparison) -> Table | None:
    """How many gold documents each stage of an engine loses; none where no run has stages."""
    rows = []
    for run in comparison.runs:
        if (of := lost_gold(comparison, run)) is None:
            continue
        counts = of.counts()
        rows.append([run.name, str(of.cut), *(str(counts[fate]) for fate in FATES)])
    if not rows:
        return None
    return Table(["Engine", "within", *FATES], rows, title="Where the first gold document is lost")


def lost_sentences(comparison: Comparison) -> list[str]:
    """For each engine, the question on which a stage loses the most, in words."""
    sentences = []
    for run in comparison.runs:
        of = lost_gold(comparison, run)
        if of is not None and (worst := of.worst()) is not None:
            sentences.append(f"{run.name}, {worst.query}: {worst.in_words()}.")
    return sentences


def legs_table(comparison: Comparison) -> Table | None:
    """What each stage inside an engine found: MRR of its own order of documents; none where none has stages."""
    rows = []
    for run in comparison.runs:
        for stage, value in leg_means(comparison, run).items():
            final = run.mean("mrr") if "mrr" in run.values else _final_mrr(run)
            rows.append([run.name, stage, fixed(value, 4), signed(value - (final or 0.0), 4)])
    return Table(["Engine", "stage", "MRR", "against the engine"], rows, left=2, title="Stages") if rows else None


def leg_means(comparison: Comparison, run: RunResult) -> dict[str, float]:
    """Mean reciprocal rank of the first relevant document after each stage, at the run's depth, over all queries."""
    if run.sidecar is None or not run.sidecar.gold_ranks:
        return {}
    depth = comparison.depth or run.sidecar.k
    queries = comparison.test_set.queries
    stages = sorted({stage for ranks in run.sidecar.gold_ranks.values() for stage in ranks}, key=_stage_order)
    return {
        stage: sum(
            1 / rank
            for query in queries
            if (rank := run.sidecar.gold_ranks.get(query, {}).get(stage)) is not None and rank <= depth
        )
        / len(queries)
        for stage in stages
    }


def legs_sentences(comparison: Comparison) -> list[str]:
    """For each engine with several legs: whether one of them beats it."""
    sentences = []
    for run in comparison.runs:
        means = {
            stage: value
            for stage, value in leg_means(comparison, run).items()
            if stage in ("lexical", "fulltext", "vector")
        }
        if not means:
            continue
        final = _final_mrr(run)
        best = max(means, key=lambda stage: means[stage])
        figures = f"MRR {fixed(means[best], 4)} against {fixed(final, 4)}"
        if means[best] > final:
            sentences.append(f"{run.name}: its {best} leg alone beats it ({figures}): what is added to it costs.")
        elif means[best] == final:
            sentences.append(f"{run.name}: its {best} leg alone is as good ({figures}).")
        else:
            sentences.append(f"{run.name}: no leg alone beats it (the best is {best}, {figures}).")
    return sentences


def differing_table(comparison: Comparison) -> Table | None:
    """The ten queries on which the engines differ most on the primary metric."""
    runs = comparison.runs
    if len(runs) < 2:
        return None
    values = np.array([_asked_values(run, comparison.options.primary.name) for run in runs])
    spread = np.nan_to_num(np.fmax.reduce(values) - np.fmin.reduce(values))
    order = sorted(
        (index for index in range(len(spread)) if spread[index] > 0),
        key=lambda index: (-spread[index], shuffle("differing", comparison.test_set.queries[index])),
    )[:DIFFERING_QUERIES]
    if not order:
        return None
    abreast = len(runs) <= MOST_RUNS_ABREAST
    rows = []
    for index in order:
        asked = [run for place, run in enumerate(runs) if not np.isnan(values[place, index])]
        ranks = {run.name: int(run.first_ranks[index]) or None for run in asked}
        cells = (
            [str(ranks[run.name] or _DASH) if run.name in ranks else "not asked" for run in runs]
            if abreast
            else [f"{name} ({ranks[name] or _DASH})" for name in _extremes(ranks)]
        )
        rows.append([*_question(comparison, index), *cells])
    headers = [*(run.name for run in runs)] if abreast else ["highest (rank)", "lowest (rank)"]
    return Table(["Query", "kind", "question", "gold", *headers], rows, left=4, title="Where the engines differ most")


def misses_table(comparison: Comparison, run: RunResult) -> Table | None:
    """Twenty seeded random misses at rank 1, for a person to mark."""
    missed = sampled_misses(comparison.test_set, run.ranked.firsts())
    if not missed:
        return None
    rows = []
    for index in missed:
        first = run.ranked[index][0]
        document = comparison.test_set.documents.get(first)
        grade = comparison.test_set.people.get((comparison.test_set.queries[index], first))
        mark = "☐ / ☐" if grade is None else ("answers it" if grade >= comparison.test_set.level else "does not")
        rows.append([*_question(comparison, index), first, document.title if document else "", mark])
    return Table(
        ["Query", "kind", "question", "gold", "first answer", "its title", "answers it / does not"],
        rows,
        left=7,
        title=f"{run.name}: first answers that count as wrong",
    )


def marked_sentence(comparison: Comparison, run: RunResult) -> str | None:
    """What the marks on a run's misses say; none where nobody has marked any."""
    test_set = comparison.test_set
    if not test_set.people:
        return None
    missed = sampled_misses(test_set, run.ranked.firsts())
    grades = [test_set.people.get((test_set.queries[i], run.ranked[i][0])) for i in missed]
    of = share_with_interval(grade >= test_set.level for grade in grades if grade is not None)
    if of.share is None:
        return None
    return (
        f"{run.name}: {of.answering} of {of.marked} marked first answers that had counted as wrong answer the question "
        f"({of.share:.0%}; 95% interval {of.low:.0%} to {of.high:.0%}): so many labels may be missing behind its other "
        "misses."
    )


def family_sentence(comparison: Comparison) -> str:
    """The family of tests, its size, and what it could have detected."""
    pairs = len(comparison.pairs)
    label = comparison.options.primary.label
    against = f" against the baseline {comparison.options.baseline}" if comparison.options.baseline else ""
    plural = "s" if pairs != 1 else ""
    sentence = f"Family: {pairs} pair{plural}{against} on the one primary metric {label}, Holm's correction."
    of = detectable(pair.verdict.overall.mdd for pair in comparison.pairs if pair.asked_by_both is None)
    if of is not None:
        sentence += (
            f" Smallest difference that this test set would probably show: median {fixed(of.median)}, "
            f"from {fixed(of.lowest)} to {fixed(of.highest)} over the pairs."
        )
    return sentence


def large_k_sentence(comparison: Comparison) -> str | None:
    """Which metrics chance alone half solves on this corpus; none where it does so on none."""
    large = [
        metric.label for metric in comparison.metrics if metric.k and comparison.chance.get(metric.name, 0.0) > 0.5
    ]
    if not large:
        return None
    documents = len(comparison.test_set.documents)
    return f"k is too large for a corpus of {documents} documents: chance alone scores over .5 on {listed(large)}."


def _final_mrr(run: RunResult) -> float:
    ranks = run.first_ranks[run.first_ranks > 0]
    return float((1 / ranks).sum() / len(run.first_ranks))


def _stratum_row(comparison: Comparison, name: str, at: np.ndarray) -> list[str]:
    test_set = comparison.test_set
    queries = [test_set.queries[i] for i in at]
    documents = {document for query in queries for document in test_set.gold[query]}
    errors = sum(1 for query in queries if any(query in run.errors for run in comparison.runs))
    cells = []
    for run in comparison.runs:
        mean = run.mean(comparison.options.primary.name, at)
        cells.append(f"{fixed(mean)} {interval(comparison.level_of(run, at))}".strip())
    if len(comparison.pairs) <= MOST_PAIRS_ABREAST:
        differences = [comparison.difference(pair, at) for pair in comparison.pairs]
        cells += [_difference_cell(of, of) for of in differences]
    judged = [fixed(float(run.judged[at].mean())) for run in comparison.runs]
    return [name, str(len(documents)), str(len(at)), str(errors), *cells, *judged]


def _asked_values(run: RunResult, metric: str) -> np.ndarray:
    """A run's values, with nan for what it was not asked."""
    if run.asked is None:
        return run.values[metric]
    values = np.full(len(run.values[metric]), np.nan)
    values[run.asked] = run.values[metric][run.asked]
    return values


def _difference_cell(of: PairStatistics | None, counted: PairStatistics | None) -> str:
    """``counted`` has the questions to count wins, ties and losses of, where ``of`` is about means over styles."""
    if of is None or counted is None:
        return _DASH
    wins = f"{counted.wins}/{counted.ties}/{counted.losses}"
    return f"{signed(of.cluster_delta)} {interval(of)}; {wins}; {fixed(of.mdd)}"


def _question(comparison: Comparison, index: int) -> list[str]:
    test_set = comparison.test_set
    query = test_set.queries[index]
    known = test_set.labelled.get(query)
    return [query, test_set.strata[index], known.text if known else "", listed(test_set.gold[query])]


def _extremes(ranks: dict[str, int | None]) -> tuple[str, str]:
    ordered = sorted(ranks, key=lambda name: (ranks[name] or 10**9, name))
    return ordered[0], ordered[-1]


def _stage_order(stage: str) -> tuple[int, str]:
    order = ("lexical", "fulltext", "vector", "fusion", "rerank")
    return (order.index(stage) if stage in order else len(order), stage)


def _p(value: float | None) -> str:
    if value is None:
        return _DASH
    return "<.001" if value < 0.001 else f"{value:.3f}".replace("0.", ".", 1)
