"""results.md: what a person reads to decide (METHOD 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from kbeval.evaluation.model_families import generators, reranker, same_family_warnings
from kbeval.report import sections
from kbeval.report.sentences import counts_sentence, listed, verdict_remarks, verdict_sentence
from kbeval.report.tables import Table, as_markdown, escape_markdown

if TYPE_CHECKING:
    from kbeval.evaluation.comparison import Comparison

SYNTHETIC_CAVEAT = (
    "Questions written from a document can share words with it, which flatters the keyword engine; heavy paraphrase "
    "flatters the vectors. That is why every result stands by style and a verdict looks at each. Styles guard only "
    "against a bias that differs between styles."
)
LABELS_CAVEAT = (
    "A returned document that nobody labelled counts as wrong. judged@10 says how many were labelled; the first "
    "answers listed above are there to be marked by a person, and the share that do answer bounds what is missing."
)

SLICES_NOTE = (
    "Slices describe; no verdict rests on them. Thirds are by the share of a question's words in its gold text."
)
ADDED_NOTE = (
    "Added gold: documents that a person or a model judged relevant, and that the question was not written from. A "
    "verdict that holds only with it is 'cannot tell'."
)
OWN_LABELS_NOTE = (
    "Judging pools the runs' answers, so a run finds gold for itself; without its own labels is its score without the "
    "judgments of documents that no other pooled run returned."
)
LOST_NOTE = (
    "Of each question its first gold document: within the cut at the end; in no leg's list at all; within the cut in a "
    "leg's list and behind it after fusion; within it before the reranker and behind it after; behind it everywhere; "
    "not known, as the engine failed or gave no stages. A question without gold is not counted."
)
PARTIAL_NOTE = (
    "Elsewhere a question that a run was not asked counts with 0, as all that is missing does. No verdict rests on "
    "that."
)
UNANSWERABLE_NOTE = (
    "They are in no metric. An engine that is as sure of these as of the others cannot be told to stay silent by its "
    "score."
)


def results_md(comparison: Comparison) -> str:
    """The report, as Markdown. Everything in it that came from data is escaped."""
    parts = [
        "# Which engine finds the right document",
        *_verdicts(comparison),
        *_table(sections.strata_table(comparison), notes=[_headline_note()]),
        *_table(sections.partial_table(comparison), notes=[PARTIAL_NOTE]),
        *_pairs(comparison),
        *_table(sections.metrics_table(comparison), notes=_metric_notes(comparison)),
        *_table(sections.slices_table(comparison), notes=[SLICES_NOTE]),
        *_table(sections.overlap_table(comparison), notes=[_overlap_note(comparison)]),
        *_table(sections.added_gold_table(comparison), notes=[ADDED_NOTE]),
        *_table(sections.labels_table(comparison), notes=[OWN_LABELS_NOTE]),
        *_stages(comparison),
        *_errors(comparison),
        *_table(sections.differing_table(comparison), notes=["Rank of the first relevant document; – is not found."]),
        *_misses(comparison),
        *_table(sections.unanswerable_table(comparison), notes=[UNANSWERABLE_NOTE]),
        *_caveats(comparison),
        *_configuration(comparison),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def caveats(comparison: Comparison) -> list[str]:
    """What a reader must know before believing the numbers."""
    found = [SYNTHETIC_CAVEAT, LABELS_CAVEAT]
    for run in comparison.runs:
        if run.sidecar is None:
            continue
        found += [f"{run.name}: {note}" for note in run.sidecar.engine.notes]
        if not run.sidecar.engine.deterministic:
            found.append(f"{run.name} does not promise the same answer twice; its next run may differ.")
    found += _same_family(comparison)
    if comparison.depth is not None:
        found.append(f"All runs are cut to {comparison.depth} documents a question.")
    first = comparison.runs[0]
    if first.without_relevant:
        found.append(
            f"{len(first.without_relevant)} questions have no relevant document and count with 0: "
            f"{listed(first.without_relevant)}."
        )
    for run in comparison.runs:
        for metric in comparison.metrics:
            low, high = run.ties.ranges.get(metric.name, (0.0, 0.0))
            if high > low:
                straddling = run.ties.straddling.get(metric.k, 0) if metric.k else 0
                where = f", across rank {metric.k} on {straddling} of them" if metric.k else ""
                found.append(
                    f"{run.name}: {run.ties.queries} questions hold equal scores{where}; another order of these could "
                    f"give any {metric.label} from {low:.4f} to {high:.4f}."
                )
    found += comparison.warnings
    return found


def _same_family(comparison: Comparison) -> list[str]:
    named = {run.name: reranker(run.sidecar.engine.configuration) for run in comparison.runs if run.sidecar}
    return same_family_warnings(
        judges=comparison.test_set.judges,
        generators=generators(comparison.test_set.labelled.values()),
        rerankers={name: model for name, model in named.items() if model},
    )


def _verdicts(comparison: Comparison) -> list[str]:
    lines = []
    for pair in comparison.pairs:
        remarks = " ".join(verdict_remarks(comparison, pair))
        sentence = escape_markdown(verdict_sentence(comparison, pair), limit=2000)
        lines.append(f"- **{sentence}**" + (f" {escape_markdown(remarks, limit=2000)}" if remarks else ""))
    counts = "; ".join(escape_markdown(counts_sentence(comparison, run)) for run in comparison.runs)
    level = comparison.test_set.level
    parts = ["\n".join(lines)] if lines else []
    parts.append(f"{counts}. A document is relevant from grade {level} on.")
    if comparison.pairs:
        parts.append(escape_markdown(sections.family_sentence(comparison), limit=2000))
    return parts


def _pairs(comparison: Comparison) -> list[str]:
    if not comparison.pairs:
        return []
    notes = [
        "Differences, intervals and p are of the means of clusters: a document's generated questions are one, together "
        "with those of every document that shares a question with it; any other question stands for itself. So a "
        "difference here need not be the difference of the means above, which results.json has as delta. w/t/l counts "
        "questions; detectable is the smallest true difference that would show in four of five such test sets."
    ]
    whole = [pair for pair in comparison.pairs if pair.asked_by_both is None]
    for pair in whole[: sections.MOST_PAIRS_BOOTSTRAPPED]:
        interval = comparison.bca(pair)
        if interval is not None:
            notes.append(
                f"{pair.a} − {pair.b}: the bootstrap (BCa, by clusters) puts the verdict's difference into "
                f"[{interval[0]:.3f}, {interval[1]:.3f}], which differs from the t interval."
            )
    explored = [
        "Over all questions, by clusters as above. p plain t is ranx's paired t-test, which assumes independent "
        "questions. All but the primary metric is exploratory."
    ]
    if len(comparison.pairs) > sections.MOST_PAIRS_EXPLORED:
        explored = [f"Every metric of all {len(comparison.pairs)} pairs is in results.json."]
        return [*_table(sections.pairs_table(comparison), notes=[*notes, *explored])]
    return [
        *_table(sections.pairs_table(comparison), notes=notes),
        *_table(sections.without_errors_table(comparison)),
        *_table(sections.exploratory_table(comparison), notes=explored),
    ]


def _metric_notes(comparison: Comparison) -> list[str]:
    notes = []
    if comparison.chance:
        notes.append(
            f"Chance is what a random order of the {len(comparison.test_set.documents)} documents would score."
        )
    else:
        notes.append("Chance is not known without the corpus (--dataset).")
    large = sections.large_k_sentence(comparison)
    if large:
        notes.append(large)
    for run in comparison.runs[:1]:
        notes += [f"{metric}: {remark}" for metric, remark in run.remarks.items()]
        left_out = [(metric, count) for metric, count in run.left_out.items() if count]
        notes += [f"{metric} leaves out {count} questions without a domain." for metric, count in left_out]
    return notes


def _stages(comparison: Comparison) -> list[str]:
    table = sections.legs_table(comparison)
    if table is None:
        return []
    return [
        *_table(table, notes=sections.legs_sentences(comparison)),
        *_table(sections.lost_table(comparison), notes=[LOST_NOTE, *sections.lost_sentences(comparison)]),
    ]


def _errors(comparison: Comparison) -> list[str]:
    rows = sections.error_rows(comparison)
    if not rows:
        return []
    return _table(Table(["Engine", "query", "error"], rows, left=3, title="Questions on which an engine failed"))


def _misses(comparison: Comparison) -> list[str]:
    parts = []
    for run in comparison.runs:
        marked = sections.marked_sentence(comparison, run)
        parts += _table(sections.misses_table(comparison, run), notes=[marked] if marked else [])
    return parts


def _caveats(comparison: Comparison) -> list[str]:
    lines = [f"- {escape_markdown(caveat, limit=2000)}" for caveat in caveats(comparison)]
    return ["## Caveats", "\n".join(lines)]


def configuration_lines(comparison: Comparison) -> list[str]:
    """What was compared: hashes of the test set, and each run's engine with its settings."""
    lines = [
        f"test set {comparison.test_set.hash}, corpus {comparison.test_set.corpus_hash or 'not known'}, "
        f"questions {comparison.test_set.queries_hash or 'not known'}",
        f"level of significance {comparison.options.alpha:g}",
    ]
    for run in comparison.runs:
        if run.sidecar is None:
            lines.append(f"{run.name}: no sidecar, so nothing is known of it")
            continue
        options = orjson.dumps(run.sidecar.engine.configuration, option=orjson.OPT_SORT_KEYS).decode()
        lines.append(f"{run.name}: {run.sidecar.engine.type}, k = {run.sidecar.k}, {options}")
    return lines


def _configuration(comparison: Comparison) -> list[str]:
    lines = [f"- {escape_markdown(line, limit=2000)}" for line in configuration_lines(comparison)]
    return ["## Configuration", "\n".join(lines)]


def _headline_note() -> str:
    return (
        "Means over questions, with 95 % intervals by clusters: in an interval every cluster counts once, however "
        "many questions it holds, so the mean need not lie in its middle. The mean of the styles weighs "
        "each style equally and is what a verdict rests on; messages and historical questions stand beside it. "
        "trec_eval's mean is over all questions."
    )


def _overlap_note(comparison: Comparison) -> str:
    note = (
        "The share of a question's content words, stemmed, that its gold text holds. Questions near their gold flatter "
        "engines that match words, far ones flatter vectors."
    )
    if "historical" not in comparison.test_set.stratum_rows:
        note += " There are no historical questions to say how people really ask."
    return note


def _table(table: Table | None, notes: list[str] | None = None) -> list[str]:
    if table is None:
        return []
    cells = [[escape_markdown(cell) for cell in row] for row in table.rows]
    headers = [escape_markdown(header) for header in table.headers]
    shown = as_markdown(Table(headers, cells, left=table.left))
    lines = [escape_markdown(note, limit=2000) for note in notes or []]
    return [f"## {escape_markdown(table.title)}", shown, *lines]
